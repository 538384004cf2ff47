"""The last accesses of every piece of memory, for the race detector.

Kept are the last weak and the last strong write, two reads by different threads, and the last
`ld.global.nc`. So a race with an access that several others followed may be missed; none is
invented.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetir.emulator.ptx.memory import Store
from hetir.emulator.ptx.spaces import Piece
from hetir.emulator.ptx.types import Lanes

WEAK_WRITE, STRONG_WRITE, READ, OTHER_READ, CONSTANT_READ = range(5)
_KINDS = 5
_GRAIN = 8
THREAD_BITS, _CLOCK_BITS, _STRONG_BITS = 40, 32, 2


@dataclass(frozen=True, slots=True)
class Stamps:
    """Who accessed and when, packed into two words for each access; a negative key is nobody.

    `strong` is 0 for a weak access, 1 for scope cta, 2 for wider ones; `code` numbers the
    instruction; `barriers` counts those that the thread's block had passed.
    """

    key: Lanes
    info: Lanes

    @staticmethod
    def of(thread: Lanes, barriers: Lanes, clock: Lanes, strong: int, code: int) -> Stamps:
        """Pack."""
        low = (code << _STRONG_BITS) | strong
        return Stamps(
            barriers.astype(np.int64) << THREAD_BITS | thread,
            np.int64(low << _CLOCK_BITS) | clock,
        )

    def take(self, which: Lanes) -> Stamps:
        """Some of them."""
        return Stamps(self.key[which], self.info[which])

    @property
    def thread(self) -> Lanes:
        """The thread's number in the launch."""
        return self.key & ((1 << THREAD_BITS) - 1)

    @property
    def barriers(self) -> Lanes:
        """Barriers passed."""
        return self.key >> THREAD_BITS

    @property
    def clock(self) -> Lanes:
        """The thread's own clock."""
        return self.info & ((1 << _CLOCK_BITS) - 1)

    @property
    def strong(self) -> Lanes:
        """How strong."""
        return self.info >> _CLOCK_BITS & ((1 << _STRONG_BITS) - 1)

    @property
    def code(self) -> Lanes:
        """The instruction's number."""
        return self.info >> (_CLOCK_BITS + _STRONG_BITS)


class Shadow:
    """Stamps of a store: for each of the five kinds one for every `grain` bytes."""

    def __init__(self, store: Store) -> None:
        self.grain = _GRAIN
        cells = store.data.size // _GRAIN + 2
        self.keys = [np.full(cells, -1, np.int64) for _ in range(_KINDS)]
        self.infos = [np.zeros(cells, np.int64) for _ in range(_KINDS)]

    @staticmethod
    def of(store: Store) -> Shadow:
        """The shadow of a store, made when first asked for."""
        if store.shadow is None:
            store.shadow = Shadow(store)
        found = store.shadow
        assert isinstance(found, Shadow)
        return found

    def cells(self, piece: Piece, size: int) -> tuple[Lanes, Lanes]:
        """The cells that each access covers, and the number of the access for each cell."""
        shift = piece.store.shift(_GRAIN)
        position = piece.position + (_GRAIN - shift) % _GRAIN
        while size < self.grain:
            self.keys = [np.repeat(row, 2) for row in self.keys]
            self.infos = [np.repeat(row, 2) for row in self.infos]
            self.grain //= 2
        each = size // self.grain
        cell = position >> (self.grain.bit_length() - 1)
        if each == 1:
            return cell, np.arange(len(position))
        which = np.repeat(np.arange(len(position)), each)
        return (cell[:, None] + np.arange(each)).reshape(-1), which

    def get(self, kind: int, cells: Lanes) -> Stamps:
        """The last accesses of a kind."""
        return Stamps(self.keys[kind][cells], self.infos[kind][cells])

    def put(self, kind: int, cells: Lanes, stamps: Stamps) -> None:
        """Note accesses; of several to one cell the last stays."""
        self.keys[kind][cells] = stamps.key
        self.infos[kind][cells] = stamps.info

    def forget(self, kind: int, cells: Lanes) -> None:
        """Nobody accessed in this way."""
        self.keys[kind][cells] = -1
