"""Blocks that run together: one lane a thread, registers as one array of lanes each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetir.emulator.ptx.faults import Thread
from hetir.emulator.ptx.memory import Store
from hetir.emulator.ptx.types import TYPES, Lanes, PtxType

if TYPE_CHECKING:
    from hetir.emulator.ptx.launch import Launch

_AXES = {f"%{name}.{axis}": "u32" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"}
_CLUSTER = {
    f"%{name}.{axis}": "u32"
    for name in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
    for axis in "xyz"
}
_SINGLE = {
    "%laneid": "u32",
    "%warpid": "u32",
    "%nwarpid": "u32",
    "%smid": "u32",
    "%nsmid": "u32",
    "%gridid": "u64",
    "%lanemask_eq": "u32",
    "%lanemask_le": "u32",
    "%lanemask_lt": "u32",
    "%lanemask_ge": "u32",
    "%lanemask_gt": "u32",
    "%clock": "u32",
    "%clock_hi": "u32",
    "%clock64": "u64",
    "%globaltimer": "u64",
    "%globaltimer_lo": "u32",
    "%globaltimer_hi": "u32",
    "%dynamic_smem_size": "u32",
    "%total_smem_size": "u32",
    "%cluster_ctarank": "u32",
    "%cluster_nctarank": "u32",
}
_SPECIAL = {name: TYPES[kind] for name, kind in (_AXES | _CLUSTER | _SINGLE).items()}
_POISON = 0xA5A5A5A5A5A5A5A5
"""What a register and shared memory hold before they are written."""


class Batch:
    """The state of a run of blocks: registers, shared and local memory, who is active.

    `idx` holds the active lanes in order; None stands for all. `alive` tells who has not exited.
    """

    def __init__(self, launch: Launch, first_block: int, blocks: int) -> None:
        self.launch = launch
        self.program = launch.program
        self.threads = launch.threads
        self.first_block = first_block
        self.blocks = blocks
        self.lanes = blocks * self.threads
        everyone = np.arange(self.lanes)
        self.everyone = everyone
        self.slot = everyone // self.threads
        self.local = everyone % self.threads
        self.warps_per_block = -(-self.threads // 32)
        self.warp = self.slot * self.warps_per_block + self.local // 32
        self.lane = (self.local % 32).astype(np.uint32)
        self.idx: Lanes | None = None
        self.alive = np.ones(self.lanes, bool)
        self.carry = np.zeros(self.lanes, bool)
        self.clock = 0
        self.regs = [self._poison(kind) for kind in self.program.register_types]
        self.shared_stride = launch.shared_stride
        self.local_stride = self.program.local_stride
        self.shared_base = self.slot * self.shared_stride
        self.local_base = everyone * self.local_stride
        self.shared = self._store("shared", blocks * self.shared_stride)
        self.frame = self._store("local", self.lanes * self.local_stride)
        self._special: dict[str, Lanes] = {}

    def _poison(self, kind: PtxType) -> Lanes:
        if kind.kind == "p":
            return np.zeros(self.lanes, bool)
        if kind.bits == 128:
            return np.full((self.lanes, 2), _POISON, np.uint64).view(kind.dtype).reshape(-1)
        return np.full(self.lanes, _POISON % (1 << kind.bits), kind.storage)

    def _store(self, space: str, size: int) -> Store:
        store = Store(np.full(size, 0xA5, np.uint8), name="", space=space)
        if self.launch.uninitialised:
            store.written = np.zeros(size, bool)
        return store

    @property
    def count(self) -> int:
        """How many lanes are active."""
        return self.lanes if self.idx is None else len(self.idx)

    @property
    def active(self) -> Lanes:
        """The active lanes."""
        return self.everyone if self.idx is None else self.idx

    def pick(self, values: Lanes) -> Lanes:
        """What the active lanes have of an array over all lanes."""
        return values if self.idx is None else values[self.idx]

    def thread_of(self, lane: int) -> Thread:
        """The thread that a lane stands for."""
        block = self.first_block + int(self.slot[lane])
        return Thread(unravel(block, self.launch.grid),
                      unravel(int(self.local[lane]), self.launch.block))  # fmt: skip

    def first(self, bad: Lanes) -> Thread:
        """The thread of the first active lane where `bad` holds."""
        return self.thread_of(int(self.active[int(np.argmax(np.broadcast_to(bad, self.count)))]))

    @staticmethod
    def special_type(name: str) -> PtxType | None:
        """The type of a special register; None when there is none of that name."""
        return _SPECIAL.get(name)

    def special(self, name: str) -> Lanes:
        """A special register over all lanes, or a scalar."""
        if "clock" in name or "timer" in name:
            return self._time(name)
        found = self._special.get(name)
        if found is None:
            found = self._special[name] = self._make_special(name)
        return found

    def _time(self, name: str) -> Lanes:
        self.clock += 1
        value = self.clock >> 32 if name.endswith("_hi") else self.clock
        return np.asarray(value, np.uint64)

    def _make_special(self, name: str) -> Lanes:
        if "." in name:
            return self._axis(*name[1:].split("."))
        if name.startswith("%lanemask"):
            return self._lane_mask(name[-2:])
        values: dict[str, Lanes | int] = {
            "%laneid": self.lane,
            "%warpid": (self.local // 32).astype(np.uint32),
            "%nwarpid": self.warps_per_block,
            "%nsmid": 1,
            "%dynamic_smem_size": self.launch.dynamic_shared_bytes,
            "%total_smem_size": self.launch.shared_bytes,
            "%cluster_nctarank": 1,
        }
        return np.asarray(values.get(name, 0), np.uint32)

    def _axis(self, name: str, axis: str) -> Lanes:
        at = "xyz".index(axis)
        grid, block = self.launch.grid, self.launch.block
        match name:
            case "ntid":
                return np.asarray(block[at], np.uint32)
            case "nctaid" | "nclusterid":
                return np.asarray(grid[at], np.uint32)
            case "tid":
                below = block[0] ** (at > 0) * block[1] ** (at > 1)
                return (self.local // below % block[at]).astype(np.uint32)
            case "ctaid" | "clusterid":
                below = grid[0] ** (at > 0) * grid[1] ** (at > 1)
                return ((self.first_block + self.slot) // below % grid[at]).astype(np.uint32)
            case _:
                return np.asarray(int(name == "cluster_nctaid"), np.uint32)

    def _lane_mask(self, which: str) -> Lanes:
        one = np.uint32(1) << self.lane
        below = one - np.uint32(1)
        masks = {"eq": one, "lt": below, "le": below | one, "ge": ~below, "gt": ~(below | one)}
        return masks[which]


def unravel(index: int, extents: tuple[int, int, int]) -> tuple[int, int, int]:
    """The place of a linear index in a grid or block; x runs fastest."""
    x, y, _ = extents
    return (index % x, index // x % y, index // (x * y))
