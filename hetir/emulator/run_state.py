"""What one run of a kernel holds: its memory, parameters, faults and output."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hetir.emulator.checker import Checker
from hetir.emulator.faults import DivergentBarrierError, Fault, Faults, place_of
from hetir.emulator.frame import Batch, Frame
from hetir.emulator.memory import Buffer, alloc_buffer, root_view
from hetir.emulator.values import Held, Lanes, View
from hetir.ir.core import Kernel, Operation, Value
from hetir.ir.types import ArrayType


@dataclass(slots=True, eq=False)
class Run:
    """The state of one run; nothing of it outlives the run but the caller's arrays.

    `changes` counts the accesses that may have changed memory.
    """

    kernel: Kernel
    rng: np.random.Generator
    buffers: list[Buffer]
    parameters: dict[Value, Held]
    faults: Faults
    checker: Checker | None = None
    then_first: bool = True
    changes: int = 0
    allocs: dict[Operation, int] = field(default_factory=dict[Operation, int])
    lines: list[tuple[int, int, int, str]] = field(default_factory=list[tuple[int, int, int, str]])

    def start(self, batch: Batch) -> None:
        """Forget the previous batch's allocations."""
        self.allocs.clear()
        del self.buffers[len(self.kernel.params) :]
        if self.checker is not None:
            self.checker.start(batch)

    def alloc(self, op: Operation, frame: Frame) -> View:
        """The lanes' copies of an allocation, made when first reached."""
        kind, batch = op.attrs["type"], frame.batch
        assert isinstance(kind, ArrayType)
        number = self.allocs.get(op)
        private = kind.space == "private"
        if number is None:
            name = op.result.name or f"{kind.space} array"
            copies = batch.count if private else len(batch.groups)
            self.allocs[op] = number = len(self.buffers)
            self.buffers.append(alloc_buffer(name, kind, copies))
        buffer = self.buffers[number]
        if private:
            offset = frame.lanes * buffer.part_bytes
        elif len(batch.groups) == 1:
            offset = np.array(0)
        else:
            offset = frame.own(batch.slot) * buffer.part_bytes
        return root_view(number, buffer, offset)

    def fault(
        self,
        kind: type[Fault],
        op: Operation,
        frame: Frame,
        bad: Lanes,
        message: str,
        **facts: Any,
    ) -> None:
        """Report a fault of the lanes (of the frame) that `bad` numbers."""
        place = place_of(op)
        if self.faults.new(kind, place, len(bad)):
            item = frame.batch.describe(int(frame.lanes[bad[0]]))
            self.faults.describe(
                kind, place, message, count=len(bad), item=item, loc=op.loc, **facts
            )

    def barrier(self, op: Operation, frame: Frame) -> None:
        """Every lane waits; a fault when part of a workgroup (or subgroup) is not there."""
        missing = _missing(frame, op.attrs["scope"])
        if missing is not None:
            self.fault(
                DivergentBarrierError, op, frame, missing,
                "a barrier is reached by only some work-items of a workgroup",
                hint="move the barrier out of the divergent branch or loop",
            )  # fmt: skip
        # a divergent barrier orders those who came, or each access after it would be a race
        if self.checker is not None:
            self.checker.barrier(op, frame)


def _missing(frame: Frame, scope: object) -> Lanes | None:
    """Lanes whose group is not whole in the frame, or None."""
    batch, ids = frame.batch, frame.ids
    if ids is None:
        return None
    if scope == "subgroup":
        return partial_subgroups(frame)
    if scope == "device":
        return np.arange(frame.count)
    slot = batch.slot[ids]
    present = np.bincount(slot, minlength=len(batch.groups))
    bad = np.flatnonzero(present[slot] != batch.items)
    return bad if len(bad) else None


def partial_subgroups(frame: Frame) -> Lanes | None:
    """Lanes whose subgroup is not whole in the frame, or None."""
    batch, ids = frame.batch, frame.ids
    if ids is None:
        return None
    per_group = -(-batch.items // batch.width)
    everyone = batch.slot * per_group + batch.local // batch.width
    mine = everyone[ids]
    size = len(batch.groups) * per_group
    whole, present = np.bincount(everyone, minlength=size), np.bincount(mine, minlength=size)
    bad = np.flatnonzero(present[mine] != whole[mine])
    return bad if len(bad) else None
