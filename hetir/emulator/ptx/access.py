"""Loads and stores of every state space, and what a watcher is told of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hetir.emulator.ptx.batch import Batch
from hetir.emulator.ptx.build import Build, Location, Reader, Register, Step, instruction
from hetir.emulator.ptx.faults import OutOfBoundsFault, UninitialisedFault
from hetir.emulator.ptx.integers import as_array
from hetir.emulator.ptx.spaces import Piece, pieces
from hetir.emulator.ptx.syntax import Instruction, Name, Number, Operand
from hetir.emulator.ptx.types import U32, U64, Lanes, PtxType

_SPACES = {
    "global": "global",
    "shared": "shared",
    "shared::cta": "shared",
    "local": "local",
    "const": "const",
    "param": "param",
    "param::entry": "param",
    "param::func": "param",
}
SCOPES = {"cta": "cta", "cluster": "cta", "gpu": "gpu", "gl": "gpu", "sys": "sys"}
"""A cluster is one block here: clusters of more are refused at the launch."""
_LOAD_HINTS = ("ca", "cg", "cs", "lu", "cv")
_STORE_HINTS = ("wb", "cg", "cs", "wt")
_EVICT = ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")
_PREFETCH = ("L2::64B", "L2::128B", "L2::256B")
_TYPES = "b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64"


@dataclass(frozen=True, slots=True)
class Ordering:
    """How strong an access is: `order` is weak, relaxed, acquire, release, acq_rel or sc.

    `constant` marks `ld.global.nc`, of memory that nobody may write during the launch.
    """

    order: str
    scope: str
    constant: bool = False


WEAK = Ordering("weak", "")
_CONSTANT = Ordering("weak", "", constant=True)


@dataclass(frozen=True, slots=True)
class Target:
    """An address operand: its space and what computes it."""

    space: str
    address: Reader


def space_of(b: Build) -> str:
    """Take the state space; `generic` when none is named."""
    name = b.choose(*_SPACES)
    return _SPACES[name] if name else "generic"


def target(b: Build, at: int, space: str) -> Target:
    """Where an address operand points."""
    operand = b.address(at)
    base, offset = operand.base, operand.offset
    if isinstance(base, Number):
        address = np.array((base.value + offset) % (1 << 64), np.uint64)
        return Target(space, lambda r: address)
    found = b.scope.find(base.text)
    if isinstance(found, Location):
        return _variable(b, found, base, offset, space)
    if not isinstance(found, Register):
        raise b.wrong(f"`{base.text}` is not declared")
    if space == "param" and not b.scope.is_entry:
        space = "local"
    if found.type.bits == 64:
        return Target(space, _sum(b.read(base, U64), offset))
    if space == "generic" or found.type.bits != 32:
        raise b.wrong(f"`{base.text}` is no 64-bit address")
    read = b.read(base, U32)
    return Target(space, _sum(lambda r: as_array(read(r)).astype(np.uint64), offset))


def _sum(read: Reader, offset: int) -> Reader:
    if not offset:
        return read
    added = np.uint64(offset % (1 << 64))
    return lambda r: as_array(read(r)) + added


def _variable(b: Build, found: Location, base: Name, offset: int, space: str) -> Target:
    wanted = found.space if space == "generic" else space
    if wanted != found.space and not (wanted == "param" and found.space == "local"):
        raise b.wrong(f"`{base.text}` lies in the {found.space} space, not in {space}")
    address = np.array((found.address + offset) % (1 << 64), np.uint64)
    return Target(found.space, lambda r: address)


def ordering(b: Build, strong: tuple[str, ...], default: Ordering = WEAK) -> Ordering:
    """Take order and scope."""
    if b.flag("volatile"):
        return Ordering("relaxed", "sys")
    if b.flag("mmio"):
        b.need("relaxed")
        b.need("sys")
        return Ordering("relaxed", "sys")
    order = b.choose("weak", *strong, default=default.order)
    if order == "weak":
        return WEAK
    scope = b.choose(*SCOPES, default=default.scope)
    if not scope:
        raise b.wrong("a scope is missing")
    return Ordering(order, SCOPES[scope])


def _hints(b: Build, order: Ordering, space: str, cache: tuple[str, ...]) -> None:
    """Take what only concerns speed; cache operators go with weak accesses."""
    if order is WEAK:
        b.choose(*cache)
    if space in {"generic", "global"} and not {"volatile", "mmio"} & set(b.ins.modifiers):
        b.choose(*(f"L1::{e}" for e in _EVICT))
        b.choose(*(f"L2::{e}" for e in _EVICT))
        b.choose(*_PREFETCH)


def _check_order(b: Build, order: Ordering, space: str) -> None:
    """Strong accesses are of memory that threads share."""
    modifiers = set(b.ins.modifiers)
    if order is not WEAK and space in {"local", "const", "param"}:
        raise b.unknown("volatile" if "volatile" in modifiers else order.order)
    if "mmio" in modifiers and space not in {"generic", "global"}:
        raise b.unknown("mmio")


def _shape(b: Build, space: str) -> tuple[int, PtxType]:
    lanes = {"v2": 2, "v4": 4, "v8": 8, "": 1}[b.choose("v2", "v4", "v8")]
    kind = b.type(_TYPES)
    if lanes > 1 and "mmio" in b.ins.modifiers:
        raise b.wrong(".mmio has no vectors")
    if lanes * kind.size > (32 if space == "global" else 16):
        raise b.wrong(f"{lanes * kind.size} bytes are too many for one access")
    return lanes, kind


def _items(b: Build, at: int, lanes: int) -> tuple[Operand, ...]:
    if lanes == 1:
        return (b.operand(at),)
    items = b.vector(at)
    if len(items) != lanes:
        raise b.wrong(f"a vector of {lanes} is needed")
    return items


@instruction("ld", "ldu")
def _load(b: Build) -> Step:
    order = ordering(b, ("relaxed", "acquire"))
    space = space_of(b)
    constant = b.flag("nc")
    if constant and (space != "global" or order is not WEAK or "weak" in b.ins.modifiers):
        raise b.wrong(".nc goes with plain loads of .global")
    _check_order(b, order, space)
    _hints(b, order, space, _LOAD_HINTS)
    lanes, kind = _shape(b, space)
    b.count(2)
    items = _items(b, 0, lanes)
    writes = [b.write(item, kind, wide=True) for item in items]
    place = target(b, 1, space)
    ins, size, total, dtype = b.ins, kind.size, kind.size * lanes, kind.storage
    order = _CONSTANT if constant else order
    # compilers read three elements as four, and leave the fourth
    needed = [k for k in range(total) if lanes == 1 or b.scope.needed(items[k // size])]

    def gather(r: Batch) -> list[Lanes]:
        found: list[Lanes] = []
        for piece in pieces(r, place.space, place.address(r), total, ins):
            index, view = piece.index(size), piece.store.typed(dtype)
            if r.launch.watches:
                watch_load(r, piece, total, order, ins, needed)
            values = [view[index + k if k else index] for k in range(lanes)]
            if piece.select is None:
                return values
            found = found or [np.empty(r.count, dtype) for _ in range(lanes)]
            for whole, part in zip(found, values, strict=True):
                whole[piece.select] = part
        return found

    if place.space == "param":
        return _parameter(b, place, kind, lanes)

    def step(r: Batch) -> None:
        for write, value in zip(writes, gather(r), strict=True):
            write(r, value)

    return step


def _parameter(b: Build, place: Target, kind: PtxType, lanes: int) -> Step:
    """A load of an entry's parameter, the same for all threads."""
    writes = [b.write(item, kind, wide=True) for item in _items(b, 0, lanes)]
    ins, size, dtype = b.ins, kind.size, kind.storage

    def step(r: Batch) -> None:
        address = place.address(r)
        if not address.ndim:
            # one check stands for all
            address = np.full(1, address)
        for piece in pieces(r, "param", address, size * lanes, ins):
            values = piece.store.typed(dtype)
            for k, write in enumerate(writes):
                found = values[piece.position // size + k]
                write(r, found[0] if len(found) == 1 else found)

    return step


@instruction("st")
def _store(b: Build) -> Step:
    order = ordering(b, ("relaxed", "release"))
    space = space_of(b)
    _check_order(b, order, space)
    _hints(b, order, space, _STORE_HINTS)
    lanes, kind = _shape(b, space)
    b.count(2)
    place = target(b, 0, space)
    if place.space in {"const", "param"}:
        raise b.wrong(f"the {place.space} space is read-only")
    reads = [b.read(item, kind, wide=True) for item in _items(b, 1, lanes)]
    ins, size, total, dtype = b.ins, kind.size, kind.size * lanes, kind.storage

    def step(r: Batch) -> None:
        values = [as_array(read(r)) for read in reads]
        for piece in pieces(r, place.space, place.address(r), total, ins):
            check_writable(r, piece, ins)
            if r.launch.watches:
                watch_store(r, piece, total, order, ins)
            index, view = piece.index(size), piece.store.typed(dtype)
            for k, value in enumerate(values):
                part = value if piece.select is None or not value.ndim else value[piece.select]
                view[index + k if k else index] = part.view(dtype)

    return step


def check_writable(r: Batch, piece: Piece, ins: Instruction) -> None:
    """Fault when a store may only be read."""
    if not piece.store.writable or piece.store.space in {"const", "param"}:
        bad = np.zeros(r.count, bool)
        bad[0 if piece.select is None else piece.select[0]] = True
        name = piece.store.name or hex(piece.store.base)
        raise OutOfBoundsFault(f"`{name}` may only be read", ins.place, r.first(bad))


def watch_load(
    r: Batch, piece: Piece, size: int, order: Ordering, ins: Instruction, needed: Sequence[int]
) -> None:
    """Tell the watchers of a load, of whose bytes some are `needed`."""
    written = piece.store.written
    if written is not None and needed:
        known = [written[piece.position + k] for k in needed]
        # an atomic on a byte works on its word, of which the others may be nobody's
        bad = ~np.logical_and.reduce(known) if order is WEAK else ~np.logical_or.reduce(known)
        if bad.any():
            whole = np.zeros(r.count, bool)
            whole[slice(None) if piece.select is None else piece.select] = bad
            raise UninitialisedFault(
                f"{piece.store.space} memory is read before it is written",
                ins.place,
                r.first(whole),
            )
    if r.launch.races is not None:
        r.launch.races.read(r, piece, size, order, ins)


def watch_store(r: Batch, piece: Piece, size: int, order: Ordering, ins: Instruction) -> None:
    """Tell the watchers of a store."""
    if piece.store.written is not None:
        for k in range(size):
            piece.store.written[piece.position + k] = True
    if r.launch.races is not None:
        r.launch.races.write(r, piece, size, order, ins)


@instruction("prefetch", "prefetchu")
def _prefetch(b: Build) -> Step:
    space_of(b)
    b.need("L1", "L2")
    b.count(1)
    b.address(0)
    return lambda r: None


@instruction("fence")
def _fence(b: Build) -> Step:
    order = b.choose("sc", "acq_rel", "acquire", "release", default="acq_rel")
    scope = SCOPES[b.need(*SCOPES)]
    return _fence_step(b, Ordering(order, scope))


@instruction("membar")
def _membar(b: Build) -> Step:
    return _fence_step(b, Ordering("sc", SCOPES[b.need("cta", "gl", "sys")]))


def _fence_step(b: Build, order: Ordering) -> Step:
    b.count(0)

    def step(r: Batch) -> None:
        if r.launch.races is not None:
            r.launch.races.fence(r, order)

    return step
