"""What weak mode says of a race or a failed assertion: both places, and the missing order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hetir.diagnostics import Label
from hetir.emulator.checker import access_words, race_advice
from hetir.emulator.faults import AssertionFailedError, DataRaceError, place_of
from hetir.emulator.frame import Batch
from hetir.emulator.memory import Buffer
from hetir.emulator.run_state import Run
from hetir.emulator.weak.memory import Memory
from hetir.ir.core import Operation
from hetir.memory import advice
from hetir.memory.advice import Need
from hetir.memory.machine import Step
from hetir.memory.program import Order


class Reporter:
    """Turns what the machine found into faults."""

    def __init__(self, run: Run, batch: Batch, memory: Memory) -> None:
        self.run, self.batch, self.memory = run, batch, memory

    def race(self, one: Step, other: Step) -> None:
        """Report two accesses that nothing orders; the second came first."""
        op, before = one.origin, other.origin
        assert isinstance(op, Operation)
        assert isinstance(before, Operation)
        places = place_of(op), place_of(before)
        if not self.run.faults.new(DataRaceError, places):
            return
        assert one.place is not None
        buffer, offset = self.memory.sites[one.place]
        item, there = self.batch.describe(one.thread), self.batch.describe(other.thread)
        index = index_of(buffer, offset)
        needs = advice.ordering(self.memory.machine, other, one)
        if not needs:
            stale = advice.cycle(self.memory.machine, one.thread)
            needs = () if stale is None else stale.needs
        self.run.faults.describe(
            DataRaceError, places,
            f"data race on `{buffer.name}` at {_shown(index)}: this {_kind(op)} and "
            f"{access_words(before)} by another work-item are not ordered",
            item=item, loc=op.loc, array=buffer.name, index=index, shape=buffer.shape,
            other=Label(before.loc, f"{access_words(before)} by {there}") if before.loc else None,
            hint=_fix(needs) or race_advice(item, there, buffer),
        )  # fmt: skip

    def explain(self, lane: int) -> None:
        """Add to a failed assertion the read that returned an overwritten value, if any did."""
        stale = advice.cycle(self.memory.machine, lane)
        if stale is None:
            return
        read, newer = stale.read.origin, stale.newer.origin
        if not isinstance(read, Operation) or read.loc is None:
            return
        what = "this read returned an older value"
        if isinstance(newer, Operation) and newer.loc is not None:
            what += f" than line {newer.loc.line} had written"
        self.run.faults.explain(
            AssertionFailedError, other=Label(read.loc, what), hint=_fix(stale.needs) or None
        )


def _fix(needs: Sequence[Need]) -> str:
    """One sentence of what to change, line by line."""
    parts = [_part(need) for need in needs if isinstance(need.step.origin, Operation)]
    return ", and ".join(part for part in dict.fromkeys(parts) if part)


def _part(need: Need) -> str:
    op = need.step.origin
    assert isinstance(op, Operation)
    where = f" at line {op.loc.line}" if op.loc else ""
    if need.order is None:
        return f'give the {_kind(op)}{where} scope="{need.scope}"'
    return f'give the {_kind(op)}{where} order="{_merged(op, need.order)}"'


def _merged(op: Operation, order: Order) -> Order:
    """The order that an operation needs, along with the one it has."""
    has = Order(str(op.attrs["order"]))
    both = order is Order.SEQ_CST or {order, has} == {Order.ACQUIRE, Order.RELEASE}
    return order if not both else Order.SEQ_CST if order is Order.SEQ_CST else Order.ACQ_REL


def _kind(op: Operation) -> str:
    words = {"load": "read", "store": "write", "atomic.load": "atomic load"}
    words |= {"atomic.store": "atomic store", "fence": "fence"}
    return words.get(op.name, "atomic update")


def index_of(buffer: Buffer, offset: int) -> tuple[int, ...]:
    """The index of an element, from its byte offset."""
    rest = offset % buffer.part_bytes if buffer.part_bytes else offset - buffer.origin
    index = [0] * len(buffer.strides)
    for axis in sorted(range(len(index)), key=lambda a: -abs(buffer.strides[a])):
        stride = buffer.strides[axis]
        if stride:
            index[axis] = int(np.clip(rest // stride, 0, max(0, buffer.shape[axis] - 1)))
            rest -= index[axis] * stride
    return tuple(index)


def _shown(index: Sequence[int]) -> str:
    return str(index[0]) if len(index) == 1 else str(tuple(index))
