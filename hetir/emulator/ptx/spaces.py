"""Addresses to bytes: state spaces, the generic address space, bounds and alignment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hetir.emulator.ptx.batch import Batch
from hetir.emulator.ptx.faults import MisalignedFault, OutOfBoundsFault
from hetir.emulator.ptx.memory import Store
from hetir.emulator.ptx.syntax import Instruction
from hetir.emulator.ptx.types import Lanes

WINDOW_BITS = 56
WINDOWS = {"shared": 1, "local": 2, "param": 3}
"""The generic addresses of a space have its number above WINDOW_BITS; global memory has 0."""
FUNCTION_WINDOW = 4 << WINDOW_BITS


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of an access that falls in one store.

    `select` numbers among the active lanes (None: all); `position` is the byte of each.
    """

    select: Lanes | None
    store: Store
    position: Lanes

    def index(self, size: int) -> Lanes:
        """The elements of `size` bytes, in the store's typed view."""
        shift = self.store.shift(size)
        start = self.position - shift if shift else self.position
        return start >> (size.bit_length() - 1)


def window(space: str) -> int:
    """What is added to an address of a space to make it generic."""
    return WINDOWS.get(space, 0) << WINDOW_BITS


def pieces(
    r: Batch, space: str, address: Lanes, size: int, ins: Instruction
) -> Iterator[Piece]:  # fmt: skip
    """Where the active lanes access `size` bytes; faults on misaligned and outside addresses."""
    if not address.ndim:
        address = np.full(r.count, address)
    if int(np.bitwise_or.reduce(address)) & (size - 1):
        wrong = address & np.asarray(size - 1, address.dtype)
        raise MisalignedFault(
            f"address {int(address[np.argmax(wrong != 0)]):#x} is no multiple of {size} bytes",
            ins.place,
            r.first(wrong != 0),
        )
    if space in {"global", "const"}:
        yield from _in_global(r, address, size, None, ins, space)
        return
    if space != "generic":
        yield _in_space(r, space, address, size, None, ins)
        return
    number = (address >> np.uint64(WINDOW_BITS)).astype(np.uint8)
    if not number.any():
        yield from _in_global(r, address, size, None, ins, "generic")
        return
    offset = address & np.uint64((1 << WINDOW_BITS) - 1)
    for which in np.unique(number):
        select = np.flatnonzero(number == which)
        named = next((name for name, n in WINDOWS.items() if n == which), "")
        if named:
            yield _in_space(r, named, offset[select], size, select, ins)
        else:
            yield from _in_global(r, address[select], size, select, ins, "generic")


def _in_space(
    r: Batch, space: str, offset: Lanes, size: int, select: Lanes | None, ins: Instruction
) -> Piece:  # fmt: skip
    """Shared, local or parameter memory, whose variables the tables of bytes tell apart."""
    fits = r.launch.fits(space, size)
    low = offset.view(np.int64)
    inside = fits[low] if int(offset.max()) < len(fits) else None
    if inside is None or not inside.all():
        bad = (offset >= len(fits)) | ~fits[np.minimum(offset, len(fits) - 1).view(np.int64)]
        _outside(r, space, offset, size, bad, select, ins)
    if space in {"shared", "local"}:
        store, base = (r.shared, r.shared_base) if space == "shared" else (r.frame, r.local_base)
        mine = r.pick(base)
        return Piece(select, store, low + (mine if select is None else mine[select]))
    return Piece(select, r.launch.parameters, low)


def _in_global(
    r: Batch, address: Lanes, size: int, select: Lanes | None, ins: Instruction, space: str
) -> Iterator[Piece]:  # fmt: skip
    lowest, highest = int(address.min()), int(address.max())
    memory = r.launch.memory
    store = memory.find(lowest)
    if store is not None and highest + size <= store.end and space in {"generic", store.space}:
        yield Piece(select, store, (address - np.uint64(store.base)).view(np.int64))
        return
    left = np.arange(len(address)) if select is None else select
    rest = address
    while len(rest):
        store = memory.find(int(rest[0]))
        if (
            store is None
            or int(rest[0]) + size > store.end
            or space not in {"generic", store.space}
        ):
            bad = np.zeros(r.count, bool)
            bad[left[0]] = True
            _outside(r, space, rest[:1], size, bad, None, ins)
            return
        inside = (rest >= np.uint64(store.base)) & (rest <= np.uint64(store.end - size))
        position = (rest[inside] - np.uint64(store.base)).view(np.int64)
        yield Piece(left[inside], store, position)
        left, rest = left[~inside], rest[~inside]


def _outside(
    r: Batch, space: str, address: Lanes, size: int, bad: Lanes, select: Lanes | None,
    ins: Instruction,
) -> None:  # fmt: skip
    first = int(np.argmax(bad))
    at = int(address[min(first, len(address) - 1)])
    where = np.zeros(r.count, bool)
    where[first if select is None else select[first]] = True
    raise OutOfBoundsFault(
        f"{size} bytes at {space} address {at:#x} lie in no {_what(space)}{_near(r, space, at)}",
        ins.place,
        r.first(where),
    )


def _what(space: str) -> str:
    return "allocation" if space in {"global", "generic"} else f"{space} variable"


def _near(r: Batch, space: str, at: int) -> str:
    if space not in {"global", "generic", "const"}:
        return ""
    store = r.launch.memory.nearest(at)
    if store is None:
        return ""
    name = f"`{store.name}`" if store.name else f"the one at {store.base:#x}"
    if store.base <= at < store.end and space not in {"generic", store.space}:
        return f": it lies in {name} of the {store.space} space"
    return f"; {name} has {store.data.size} bytes, and this is byte {at - store.base} of it"
