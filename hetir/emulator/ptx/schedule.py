"""Runs a batch: whose turn it is, divergence, meetings, and progress for everyone."""

from __future__ import annotations

import heapq

import numpy as np

from hetir.emulator.ptx.barrier import Barriers, BarrierStep
from hetir.emulator.ptx.batch import Batch
from hetir.emulator.ptx.faults import EndlessFault, Fault, LaneFault, OutOfBoundsFault
from hetir.emulator.ptx.integers import as_array
from hetir.emulator.ptx.items import Branch, Exit, Table
from hetir.emulator.ptx.program import Block
from hetir.emulator.ptx.types import Lanes
from hetir.emulator.ptx.warp import WarpStep, ready

_PATIENCE = 256
"""After so many turns the lanes that have waited longest get one: others may spin for them."""


class Schedule:
    """Lanes wait in blocks; the earliest block in the program's order runs first."""

    def __init__(self, batch: Batch) -> None:
        self.r = batch
        self.blocks = batch.program.blocks
        self.pending: dict[int, list[Lanes]] = {0: [batch.everyone]}
        self.since: dict[int, int] = {0: 0}
        self.heap = [0]
        self.held: dict[int, Lanes] = {}
        self.barriers = Barriers(batch)
        self.turns = 0

    def run(self) -> None:
        """Run until every lane has exited."""
        with np.errstate(all="ignore"):
            while self.pending:
                self.turns += 1
                if self.turns > self.r.launch.step_limit:
                    raise self._endless()
                self._turn(self._choose())
                if not self.pending:
                    self._release_held()
        if self.held or len(self.barriers.waiting()):
            raise self._stuck()

    def _choose(self) -> int:
        if self.turns % _PATIENCE == 0:
            return min(self.pending, key=lambda block: self.since[block])
        while self.heap[0] not in self.pending:
            heapq.heappop(self.heap)
        return heapq.heappop(self.heap)

    def _turn(self, number: int) -> None:
        r = self.r
        lanes = self._merged(self.pending.pop(number))
        block = self.blocks[number]
        r.idx = None if len(lanes) == r.lanes else lanes
        if block.meeting is not None:
            self._meet(block, number, lanes)
            return
        for step in block.steps:
            step(r)
        r.launch.count(block, len(lanes))
        match block.end:
            case None:
                self._go(block.next, lanes)
            case Exit():
                r.alive[lanes] = False
                self._release_held()
            case Branch():
                self._branch(block, block.end, lanes)
            case Table():
                self._jump(block, block.end, lanes)

    @staticmethod
    def _merged(parts: list[Lanes]) -> Lanes:
        if len(parts) == 1:
            return parts[0]
        return np.sort(np.concatenate(parts))

    def _go(self, block: int, lanes: Lanes) -> None:
        if not len(lanes):
            return
        waiting = self.pending.get(block)
        if waiting is None:
            self.pending[block] = [lanes]
            self.since[block] = self.turns
            heapq.heappush(self.heap, block)
        else:
            waiting.append(lanes)

    def _branch(self, block: Block, end: Branch, lanes: Lanes) -> None:
        to = block.targets[0]
        if end.guard is None:
            self._go(to, lanes)
            return
        taken = np.broadcast_to(end.guard(self.r), len(lanes))
        if taken.all():
            self._go(to, lanes)
        elif not taken.any():
            self._go(block.next, lanes)
        else:
            if end.uniform:
                self._check_uniform(end, taken)
            self._go(to, lanes[taken])
            self._go(block.next, lanes[~taken])

    def _check_uniform(self, end: Branch, taken: Lanes) -> None:
        r = self.r
        warp = r.pick(r.warp)
        yes = np.bincount(warp, weights=taken)
        split = (yes > 0) & (yes < np.bincount(warp))
        if split.any():
            raise LaneFault(
                f"`{end.where.ins}` says that a warp does not split, but it does",
                end.where.ins.place,
                r.first(split[warp]),
            )

    def _jump(self, block: Block, end: Table, lanes: Lanes) -> None:
        index = np.broadcast_to(as_array(end.index(self.r)), len(lanes))
        outside = index >= len(block.targets)
        if outside.any():
            raise OutOfBoundsFault(
                f"branch index {int(index[np.argmax(outside)])} of {len(block.targets)} targets",
                end.where.ins.place,
                self.r.first(outside),
            )
        for at in np.unique(index):
            self._go(block.targets[int(at)], lanes[index == at])

    def _meet(self, block: Block, number: int, lanes: Lanes) -> None:
        r, meeting = self.r, block.meeting
        if isinstance(meeting, BarrierStep):
            gone, where = self.barriers.arrive(r, meeting, number)
            r.launch.count(block, len(lanes))
            if len(where) and (where == where[0]).all():
                self._go(self.blocks[int(where[0])].next, np.sort(gone))
                return
            for at in np.unique(where):
                self._go(self.blocks[int(at)].next, np.sort(gone[where == at]))
            return
        assert isinstance(meeting, WarpStep)
        held = self.held.pop(number, None)
        if held is not None:
            lanes = np.sort(np.concatenate((held, lanes)))
            r.idx = None if len(lanes) == r.lanes else lanes
        go = ready(r, meeting)
        if not go.all():
            self.held[number] = lanes[~go]
            lanes = lanes[go]
            if not len(lanes):
                return
            r.idx = lanes
        meeting(r)
        r.launch.count(block, len(lanes))
        self._go(block.next, lanes)

    def _release_held(self) -> None:
        """Lanes exited: those who waited for them at a warp's meeting may go on."""
        for number in list(self.held):
            lanes = self.held[number]
            r, meeting = self.r, self.blocks[number].meeting
            assert isinstance(meeting, WarpStep)
            r.idx = lanes
            if ready(r, meeting).any():
                del self.held[number]
                self._go(number, lanes)

    def _stuck(self) -> Fault:
        if not self.held:
            return self.barriers.stuck(self.r)
        number, lanes = next(iter(self.held.items()))
        r, meeting = self.r, self.blocks[number].meeting
        assert isinstance(meeting, WarpStep)
        r.idx = lanes
        mask = int(np.broadcast_to(as_array(meeting.mask(r)), len(lanes))[0])
        mine = lanes[r.warp[lanes] == r.warp[lanes[0]]]
        here = sum(1 << int(x) for x in r.lane[mine])
        return LaneFault(
            f"lanes {mask & ~here:#010x} of member mask {mask:#010x} do not come here",
            meeting.ins.place,
            r.thread_of(int(lanes[0])),
            "all lanes that the mask names must execute the instruction with the same mask",
        )

    def _endless(self) -> EndlessFault:
        number = min(self.pending)
        lanes = self.pending[number][0]
        return EndlessFault(
            f"{self.r.launch.step_limit} turns were not enough, {len(lanes)} threads still run",
            None,
            self.r.thread_of(int(lanes[0])),
        )
