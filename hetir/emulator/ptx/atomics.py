"""`atom` and `red`: every lane's read-modify-write, one after another in lane order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hetir.emulator.ptx.access import Ordering, check_writable, ordering, space_of, target
from hetir.emulator.ptx.batch import Batch
from hetir.emulator.ptx.build import Build, Step, instruction
from hetir.emulator.ptx.faults import OutOfBoundsFault
from hetir.emulator.ptx.floats import element
from hetir.emulator.ptx.ieee import arithmetic, canonical, flush
from hetir.emulator.ptx.integers import as_array
from hetir.emulator.ptx.spaces import pieces
from hetir.emulator.ptx.types import Lanes, PtxType

Update = Callable[[Lanes, Lanes, Lanes], Lanes]

_TYPES = {
    "and": "b32 b64",
    "or": "b32 b64",
    "xor": "b32 b64",
    "cas": "b16 b32 b64 b128",
    "exch": "b32 b64 b128",
    "add": "u32 s32 u64 f32 f64 f16 f16x2 bf16 bf16x2",
    "inc": "u32",
    "dec": "u32",
    "min": "u32 s32 u64 s64",
    "max": "u32 s32 u64 s64",
}
_ASSOCIATIVE: dict[str, Callable[[Lanes, Lanes], Lanes]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "exch": lambda old, new: new,
}


@instruction("atom", "red")
def _atomic(b: Build) -> Step:
    returns = b.ins.opcode == "atom"
    orders = ("relaxed", "acquire", "release", "acq_rel") if returns else ("relaxed", "release")
    order = ordering(b, orders, Ordering("relaxed", "gpu"))
    space = space_of(b)
    if space not in {"generic", "global", "shared"}:
        raise b.unknown(space)
    op = b.need(*_TYPES)
    if not returns and op in {"cas", "exch"}:
        raise b.unknown(op)
    noftz = op == "add" and b.flag("noftz")
    kind = b.type(_TYPES[op])
    if noftz != (element(kind).name in {"f16", "bf16"}):
        raise b.wrong("`.noftz` goes with .f16 and .bf16")
    first = 1 if returns else 0
    b.count(first + (3 if op == "cas" else 2))
    place = target(b, first, space)
    write = b.write(0, kind) if returns else None
    values = [b.read(i, kind) for i in range(first + 1, len(b.ins.operands))]
    ins, dtype = b.ins, kind.dtype

    def step(r: Batch) -> None:
        operands = [np.broadcast_to(as_array(v(r)), r.count) for v in values]
        old = np.empty(r.count, dtype)
        for piece in pieces(r, place.space, place.address(r), kind.size, ins):
            store = piece.store
            check_writable(r, piece, ins)
            if store.space == "local":
                raise OutOfBoundsFault("no atomics on local memory", ins.place)
            chosen = operands if piece.select is None else [v[piece.select] for v in operands]
            index = piece.index(kind.size)
            update = _update(op, kind, store.space == "global")
            part = _apply(store.typed(dtype), index, op, kind, update, chosen)
            old[slice(None) if piece.select is None else piece.select] = part
            if r.launch.races is not None:
                r.launch.races.update(r, piece, kind.size, order, ins, _changes(op, part, chosen))
            if store.written is not None:
                for k in range(kind.size):
                    store.written[piece.position + k] = True
        if write is not None:
            write(r, old)

    return step


def _changes(op: str, old: Lanes, operands: list[Lanes]) -> Lanes:
    """Which lanes write: a compare-and-swap that fails only reads."""
    if op == "cas":
        return old == operands[0]
    return np.ones(len(old), bool)


def _update(op: str, kind: PtxType, in_global: bool) -> Update:
    """One step of one lane; f32 sums in global memory flush subnormals (PTX ISA, atom)."""
    if op == "add" and kind.kind == "f":
        return _float_sum(kind, ftz=in_global and kind.name == "f32")
    if op == "inc":
        return lambda old, b, c: np.where(old >= b, np.uint32(0), old + np.uint32(1))
    if op == "dec":
        return lambda old, b, c: np.where((old == 0) | (old > b), b, old - np.uint32(1))
    if op == "cas":
        return lambda old, b, c: np.where(old == b, c, old)
    join = _ASSOCIATIVE[op]
    return lambda old, b, c: join(old, b)


def _float_sum(kind: PtxType, ftz: bool) -> Update:
    scalar = element(kind)
    plain = arithmetic(scalar.name, "add", "rn")

    def add(old: Lanes, b: Lanes, c: Lanes) -> Lanes:
        x = np.ascontiguousarray(old).view(scalar.dtype)
        y = np.ascontiguousarray(b).view(scalar.dtype)
        if ftz:
            return canonical(flush(plain(flush(x, "f32"), flush(y, "f32")), "f32"), "f32")
        return canonical(plain(x, y), scalar.name).view(kind.dtype)

    return add


def _apply(
    view: Lanes, index: Lanes, op: str, kind: PtxType, update: Update, operands: list[Lanes]
) -> Lanes:  # fmt: skip
    """Update `view` at each lane's index in lane order; gives the values from before."""
    order = np.argsort(index, kind="stable")
    where = index[order]
    begins = np.flatnonzero(np.concatenate(([True], where[1:] != where[:-1])))
    b, c = operands[0][order], operands[-1][order]
    old = view[where]
    if len(begins) == len(where):
        view[where] = update(old, b, c)
    else:
        lengths = np.diff(np.append(begins, len(where)))
        rank = np.arange(len(where)) - np.repeat(begins, lengths)
        groups = _Groups(view, where, begins, lengths, rank)
        if op == "cas":
            _compare_and_swap(groups, b, c, old)
        elif op in _ASSOCIATIVE and kind.kind != "f":
            _scan(groups, _ASSOCIATIVE[op], b, old)
        elif not _accumulate(groups, kind, b, old):
            _in_turn(groups, update, b, c, old)
    out = np.empty_like(old)
    out[order] = old
    return out


class _Groups:
    """Lanes sorted by location: where each location's lanes begin, and each one's rank."""

    def __init__(
        self, view: Lanes, where: Lanes, begins: Lanes, lengths: Lanes, rank: Lanes
    ) -> None:
        self.view, self.where = view, where
        self.begins, self.lengths, self.rank = begins, lengths, rank
        self.rounds = int(lengths.max())
        self.ends = begins + lengths - 1


def _scan(g: _Groups, join: Callable[[Lanes, Lanes], Lanes], b: Lanes, old: Lanes) -> None:
    """Prefixes of an associative operation, by doubling."""
    prefix = b.copy()
    distance = 1
    while distance < g.rounds:
        far = np.flatnonzero(g.rank >= distance)
        prefix[far] = join(prefix[far - distance], prefix[far])
        distance *= 2
    later = np.flatnonzero(g.rank > 0)
    last = join(old[g.ends], prefix[g.ends])
    old[later] = join(old[later], prefix[later - 1])
    g.view[g.where[g.ends]] = last


def _accumulate(g: _Groups, kind: PtxType, b: Lanes, old: Lanes) -> bool:
    """Sums of few locations with many lanes each, when no subnormal is met."""
    if kind.name not in {"f32", "f64"} or len(g.begins) > g.rounds:
        return False
    least = np.finfo(kind.dtype).smallest_normal
    runs: list[Lanes] = []
    for begin, length in zip(g.begins, g.lengths, strict=True):
        terms = np.concatenate((old[begin : begin + 1], b[begin : begin + length]))
        sums = np.add.accumulate(terms)
        for values in (terms, sums):
            if np.any((values != 0) & (np.abs(values) < least)):
                return False
        runs.append(canonical(sums, kind.name))
    for begin, sums in zip(g.begins, runs, strict=True):
        old[begin : begin + len(sums) - 1] = sums[:-1]
        g.view[g.where[begin]] = sums[-1]
    return True


def _in_turn(g: _Groups, update: Update, b: Lanes, c: Lanes, old: Lanes) -> None:
    """Round after round, one lane of each location."""
    for turn in range(g.rounds):
        now = np.flatnonzero(g.rank == turn)
        old[now] = g.view[g.where[now]]
        g.view[g.where[now]] = update(old[now], b[now], c[now])


def _compare_and_swap(g: _Groups, b: Lanes, c: Lanes, old: Lanes) -> None:
    """Per location: what is there stays until a lane expects it, then that lane's value."""
    group = np.repeat(np.arange(len(g.begins)), g.lengths)
    value = g.view[g.where[g.begins]]
    open_lanes = np.arange(len(b))
    while len(open_lanes):
        at = group[open_lanes]
        # a swap of a value for itself changes nothing, and needs no round of its own
        hits = (b[open_lanes] == value[at]) & (c[open_lanes] != value[at])
        first = np.full(len(g.begins), len(b))
        np.minimum.at(first, at[hits], open_lanes[hits])
        done = open_lanes <= first[at]
        finished = open_lanes[done]
        old[finished] = value[group[finished]]
        winners = first[first < len(b)]
        value[group[winners]] = c[winners]
        open_lanes = open_lanes[~done]
    g.view[g.where[g.begins]] = value
