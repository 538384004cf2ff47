"""Runs a whole grid in weak mode: which work-item goes next, and who waits for whom."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import numpy as np

from hetir.diagnostics import LaunchError
from hetir.emulator import subgroups
from hetir.emulator.faults import AssertionFailedError, StuckError, Triple
from hetir.emulator.frame import Batch, Frame
from hetir.emulator.run_state import Run
from hetir.emulator.weak.items import Item, Meet, Steps
from hetir.emulator.weak.memory import Memory
from hetir.emulator.weak.report import Reporter
from hetir.memory.machine import Step

MOST_ITEMS = 256
MOST_STEPS = 200_000
IDLE_STEPS = 300
"""Accesses a work-item, none of which changes memory, after which all are stuck."""


class TooLargeError(LaunchError):
    """The launch is too large for the weak-memory mode.

    Cause: it interleaves single steps of work-items and keeps every access. Fix: a smaller
    grid and workgroup; two workgroups of two work-items show most missing orders.
    """

    code = "HET610"


def execute(run: Run, grid: Triple, size: Triple, seed: int) -> None:
    """Run every work-item of a grid, interleaved and with weak memory, as the seed says."""
    total = math.prod(grid) * math.prod(size)
    if total > MOST_ITEMS:
        raise TooLargeError(
            f"{total} work-items are too many for the weak-memory mode, which takes {MOST_ITEMS}",
            hint="launch fewer: grid=2, workgroup=2 shows most missing orders",
        )
    if not total:
        return
    rng = np.random.default_rng(seed)
    batch = Batch(np.arange(math.prod(grid)), grid, size, run.kernel.options.width, 0, rng)
    run.start(batch)
    with np.errstate(all="ignore"):
        Scheduler(run, batch, Random(seed)).run()


class Scheduler:
    """The work-items of one run: those that can go on, and those that wait at a barrier."""

    def __init__(self, run: Run, batch: Batch, random: Random) -> None:
        self.state, self.batch, self.random = run, batch, random
        self.memory = Memory(run, batch, random, self._race)
        self.reporter = Reporter(run, batch, self.memory)
        self.root = Frame(batch, batch.count)
        self.root.values.update(run.parameters)
        items = [Item(run, self.memory, self.root, lane) for lane in range(batch.count)]
        self.items = items
        self.going: dict[int, Steps] = {item.lane: item.steps() for item in items}
        self.waiting: dict[int, Meet] = {}

    def run(self) -> None:
        """Until every work-item has ended."""
        ready = list(self.going)
        for _ in range(MOST_STEPS):
            if not ready:
                if not self.waiting:
                    break
                ready = self._let_go(self._some_group())
                continue
            at = self.random.randrange(len(ready))
            if not self._step(ready[at]):
                ready[at] = ready[-1]
                ready.pop()
                ready += self._complete()
            if self.memory.idle > IDLE_STEPS * len(ready) > 0:
                self._stuck(ready)
                break
        else:
            raise TooLargeError(
                f"the run took more than {MOST_STEPS} steps, too many for the weak-memory mode",
                hint="launch fewer work-items, or let each do less",
            )
        self.memory.write_back()

    def _step(self, lane: int) -> bool:
        """Let one work-item go on to its next step; whether it can take another."""
        before = self.state.faults.count(AssertionFailedError)
        try:
            request = next(self.going[lane])
        except StopIteration:
            self.memory.machine.end(lane)
            del self.going[lane]
            request = None
            self.memory.idle = 0
        if self.state.faults.count(AssertionFailedError) > before:
            self.reporter.explain(lane)
        if isinstance(request, Meet):
            self.waiting[lane] = request
        return lane in self.going and request is None

    def _race(self, one: Step, other: Step) -> None:
        self.reporter.race(one, other)  # made after the memory that it reads

    # ---- meeting ---------------------------------------------------------------------------

    def _group(self, lane: int, scope: str) -> list[int]:
        """The lanes that a work-item waits for."""
        batch = self.batch
        if scope == "device":
            return list(range(batch.count))
        first = lane // batch.items * batch.items
        if scope == "workgroup":
            return list(range(first, first + batch.items))
        start = first + lane % batch.items // batch.width * batch.width
        return list(range(start, min(start + batch.width, first + batch.items)))

    def _complete(self) -> list[int]:
        """Let go the groups that are all there; the lanes that can go on."""
        ready: list[int] = []
        for lane in list(self.waiting):
            meet = self.waiting.get(lane)
            if meet is None:
                continue
            group = self._group(lane, meet.scope)
            if all(g in self.waiting and self.waiting[g].op is meet.op for g in group):
                ready += self._let_go(group)
        return ready

    def _some_group(self) -> list[int]:
        """Nobody can go on: those of one group that wait at one op, without the others."""
        lane, meet = next(iter(self.waiting.items()))
        group = self._group(lane, meet.scope)
        return [g for g in group if g in self.waiting and self.waiting[g].op is meet.op]

    def _let_go(self, lanes: Sequence[int]) -> list[int]:
        meets = [self.waiting.pop(lane) for lane in lanes]
        op, together = meets[0].op, self.root.child(np.array(lanes))
        self.memory.idle = 0
        if op.name == "barrier":
            self.state.barrier(op, together)
            self.memory.machine.meet(lanes, op)
            return list(lanes)
        for value in op.operands:
            parts = [meet.frame.scalar(value).reshape(-1)[:1] for meet in meets]
            together.values[value] = np.concatenate(parts)
        subgroups.HANDLERS[op.name](self.state, op, together)
        result = together.scalar(op.result)
        for at, meet in enumerate(meets):
            meet.frame.values[op.result] = np.broadcast_to(result, (len(meets),))[at : at + 1]
        return list(lanes)

    def _stuck(self, lanes: Sequence[int]) -> None:
        """Report work-items that wait for what nobody will write."""
        for lane in lanes:
            loops = self.items[lane].loops
            if loops:
                self.state.fault(
                    StuckError, loops[-1], self.root.child(np.array([lane])), np.array([0]),
                    "a loop waits for memory that no work-item still running will write",
                    hint="wait only for workgroups that took an earlier ticket",
                )  # fmt: skip
