"""Barriers of a block: bar and barrier, sync, arrive and red, with ids and counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetir.emulator.ptx.batch import Batch
from hetir.emulator.ptx.build import Build, Reader, Step, Writer, instruction
from hetir.emulator.ptx.faults import BarrierFault
from hetir.emulator.ptx.integers import as_array
from hetir.emulator.ptx.syntax import Instruction
from hetir.emulator.ptx.types import PRED, U32, Lanes
from hetir.emulator.ptx.warp import warp_barrier


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierStep:
    """A barrier: `kind` is sync, arrive or red; `aligned` wants whole warps at one place."""

    kind: str
    number: Reader
    count: Reader | None
    aligned: bool
    ins: Instruction
    vote: Reader | None = None
    reduction: str = ""
    write: Writer | None = None

    def __call__(self, r: Batch) -> None:
        """Barriers are executed by the scheduler."""
        raise AssertionError("a barrier is no plain step")


@instruction("bar", "barrier")
def _barrier(b: Build) -> Step:
    if b.ins.opcode == "bar" and b.flag("warp"):
        return warp_barrier(b)
    b.flag("cta")
    kind = b.need("sync", "arrive", "red")
    aligned = b.ins.opcode == "bar" or b.flag("aligned")
    if kind == "red":
        return _reduction(b, aligned)
    count = b.count(2) if kind == "arrive" else b.count(1, 2)
    return BarrierStep(
        kind=kind,
        number=b.read(0, U32),
        count=b.read(1, U32) if count == 2 else None,
        aligned=aligned,
        ins=b.ins,
    )


def _reduction(b: Build, aligned: bool) -> Step:
    reduction = b.need("popc", "and", "or")
    b.flag("aligned")
    kind = b.type("u32") if reduction == "popc" else b.type("pred")
    count = b.count(3, 4)
    return BarrierStep(
        kind="red",
        number=b.read(1, U32),
        count=b.read(2, U32) if count == 4 else None,
        aligned=aligned,
        ins=b.ins,
        vote=b.read(count - 1, PRED),
        reduction=reduction,
        write=b.write(0, kind),
    )


class Barriers:
    """The barriers of a batch's blocks: who waits where, for which barrier."""

    def __init__(self, r: Batch) -> None:
        self.number = np.full(r.lanes, -1, np.int64)
        self.block = np.zeros(r.lanes, np.int64)
        self.votes = np.zeros(r.lanes, bool)
        self.expected: dict[tuple[int, int], int] = {}
        self.arrivals: dict[tuple[int, int], list[Lanes]] = {}
        self.steps: dict[int, BarrierStep] = {}

    def waiting(self) -> Lanes:
        """The lanes that wait at a barrier."""
        return np.flatnonzero(self.number >= 0)

    def arrive(self, r: Batch, step: BarrierStep, block: int) -> tuple[Lanes, Lanes]:
        """The active lanes arrive; gives the lanes that go on, and the blocks they wait in."""
        self.steps[block] = step
        number = np.broadcast_to(as_array(step.number(r)), r.count)
        if self._whole_blocks(r, step, number):
            return r.active, np.full(r.count, block)
        if step.vote is not None:
            self.votes[r.active] = step.vote(r)
        count = None if step.count is None else np.broadcast_to(as_array(step.count(r)), r.count)
        lanes = r.active.copy()
        self._check(r, step, number, count)
        if step.kind != "arrive":
            self.number[lanes], self.block[lanes] = number, block
        going = [lanes] if step.kind == "arrive" else []
        slots = r.slot[lanes]
        for key in np.unique(slots * 16 + number):
            mine = slots * 16 + number == key
            at = (int(key) // 16, int(key) % 16)
            self.arrivals.setdefault(at, []).append(lanes[mine])
            wanted = r.threads if count is None else int(count[mine][0])
            self._agree(r, step, at, wanted, mine)
            going += self._complete(r, at, wanted)
        gone = np.concatenate(going) if going else lanes[:0]
        where = self.block[gone].copy() if step.kind != "arrive" else np.full(len(gone), block)
        if step.kind == "arrive":
            # those that waited go on from where they wait, the arriving from here
            where[len(lanes) :] = self.block[gone[len(lanes) :]]
        self._reduce(r, gone, where)
        self.number[gone] = -1
        return gone, where

    def _whole_blocks(self, r: Batch, step: BarrierStep, number: Lanes) -> bool:
        """The usual case: nobody waits, and every block that is here is here with all threads."""
        if step.count is not None or self.arrivals or step.kind == "arrive":
            return False
        if (number != number[0]).any() or number[0] > 15:
            return False
        slot = r.pick(r.slot)
        here = np.bincount(slot, minlength=r.blocks)
        if ((here != 0) & (here != r.threads)).any():
            return False
        if r.launch.races is not None:
            for block in np.flatnonzero(here).tolist():
                lanes = np.flatnonzero(r.slot == block)
                r.launch.races.barrier(r, block, lanes, lanes)
        if step.vote is not None and step.write is not None:
            yes = np.bincount(slot, weights=np.broadcast_to(step.vote(r), r.count))
            reduced = {"popc": yes.astype(np.uint32), "and": yes == r.threads, "or": yes > 0}
            step.write(r, reduced[step.reduction][slot])
        return True

    def _check(self, r: Batch, step: BarrierStep, number: Lanes, count: Lanes | None) -> None:
        if (number > 15).any():
            raise BarrierFault("barriers are numbered 0 to 15", step.ins.place,
                               r.first(number > 15))  # fmt: skip
        if count is not None and ((count % 32 != 0) | (count == 0)).any():
            bad = (count % 32 != 0) | (count == 0)
            raise BarrierFault("a thread count must be a multiple of 32", step.ins.place,
                               r.first(bad))  # fmt: skip

    def _agree(
        self, r: Batch, step: BarrierStep, at: tuple[int, int], wanted: int, mine: Lanes
    ) -> None:  # fmt: skip
        if self.expected.setdefault(at, wanted) != wanted:
            raise BarrierFault(
                f"barrier {at[1]} waits for {self.expected[at]} threads, and here for {wanted}",
                step.ins.place,
                r.first(mine),
            )

    def _complete(self, r: Batch, at: tuple[int, int], wanted: int) -> list[Lanes]:
        """The lanes that wait at a barrier which is complete now."""
        arrived = np.concatenate(self.arrivals[at])
        count = len(arrived)
        last = arrived[r.local[arrived] >= r.threads // 32 * 32]
        if wanted != r.threads and len(last) and len(last) == r.threads % 32:
            # a partial warp counts as a whole one
            count += 32 - len(last)
        if count < wanted:
            return []
        del self.arrivals[at], self.expected[at]
        waits = arrived[self.number[arrived] == at[1]]
        self._check_aligned(r, waits)
        if r.launch.races is not None:
            r.launch.races.barrier(r, at[0], arrived, waits)
        return [waits]

    def _check_aligned(self, r: Batch, lanes: Lanes) -> None:
        """All lanes of a warp must wait at one aligned barrier instruction."""
        blocks = self.block[lanes]
        if len(lanes) == 0 or (blocks == blocks[0]).all():
            return
        warps = r.warp[lanes]
        for warp in np.unique(warps):
            found = np.unique(blocks[warps == warp])
            aligned = [self.steps[int(x)] for x in found if self.steps[int(x)].aligned]
            if len(found) > 1 and aligned:
                raise BarrierFault(
                    "the threads of a warp are at different aligned barriers",
                    aligned[0].ins.place,
                    r.thread_of(int(lanes[warps == warp][0])),
                )

    def _reduce(self, r: Batch, gone: Lanes, where: Lanes) -> None:
        """Write what `red` computes over the threads of each block that leave together."""
        saved = r.idx
        for slot in np.unique(r.slot[gone]):
            mine = gone[(r.slot[gone] == slot)]
            votes = self.votes[mine[self.number[mine] >= 0]]
            for block in np.unique(where[r.slot[gone] == slot]):
                step = self.steps[int(block)]
                if step.write is None:
                    continue
                r.idx = mine[self.block[mine] == block]
                results: dict[str, Lanes] = {
                    "popc": np.asarray(votes.sum(), np.uint32),
                    "and": np.asarray(votes.all()),
                    "or": np.asarray(votes.any()),
                }
                step.write(r, results[step.reduction])
        r.idx = saved

    def stuck(self, r: Batch) -> BarrierFault:
        """The fault for lanes that wait when nothing else can run."""
        lane = int(self.waiting()[0])
        slot = int(r.slot[lane])
        mine = r.slot == slot
        here = int((mine & (self.number == self.number[lane])).sum())
        gone = int((mine & ~r.alive).sum())
        step = self.steps[int(self.block[lane])]
        wanted = self.expected.get((slot, int(self.number[lane])), r.threads)
        what = f", {gone} have exited" if gone else ""
        return BarrierFault(
            f"{here} of {wanted} threads wait at barrier {int(self.number[lane])}{what}",
            step.ins.place,
            r.thread_of(lane),
            "every thread must reach the barrier, or none",
        )
