"""The last accesses of every piece of memory, for the race detector.

Kept are the last weak and the last strong write and two reads by different threads. So a race
with an access that several others followed may be missed; none is invented.
"""

from __future__ import annotations

import numpy as np

from hetir.emulator.ptx.memory import Store
from hetir.emulator.ptx.spaces import Piece
from hetir.emulator.ptx.types import Lanes

STAMP = np.dtype(
    [("thread", "i8"), ("clock", "i4"), ("barriers", "i4"), ("strong", "u1"), ("code", "i4")]
)
"""Who accessed, when, how strongly (0 weak, 1 cta, 2 wider), and by which instruction."""

WEAK_WRITE, STRONG_WRITE, READ, OTHER_READ = range(4)
_GRAIN = 8


class Shadow:
    """Stamps of a store, one row for each of the four kinds, one cell for `grain` bytes."""

    def __init__(self, store: Store) -> None:
        self.grain = _GRAIN
        self.size = store.data.size
        self.rows = np.zeros((4, self.size // _GRAIN + 2), STAMP)
        self.rows["thread"] = -1

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
            self.rows = np.repeat(self.rows, 2, axis=1)
            self.grain //= 2
        each = size // self.grain
        cell = (position // self.grain)[:, None] + np.arange(each)
        which = np.repeat(np.arange(len(position)), each)
        return cell.reshape(-1), which
