"""Instructions of a warp: shuffles, votes, matches, reductions, and who takes part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hetir.emulator.ptx.batch import Batch
from hetir.emulator.ptx.build import Build, Reader, Step, instruction
from hetir.emulator.ptx.faults import LaneFault
from hetir.emulator.ptx.integers import as_array
from hetir.emulator.ptx.syntax import Instruction, Operand, Pair
from hetir.emulator.ptx.types import B32, PRED, U32, Lanes


@dataclass(frozen=True, slots=True)
class WarpStep:
    """A step at which the lanes that `mask` names wait for each other.

    `run` is executed for lanes of which all that they name, and that have not exited, are here
    with the same mask.
    """

    mask: Reader
    run: Step
    ins: Instruction

    def __call__(self, r: Batch) -> None:
        """Execute for the active lanes."""
        self.run(r)


@dataclass(frozen=True, slots=True)
class Teams:
    """The active lanes by warp and mask: each one's team, and how many there are."""

    of: Lanes
    count: int
    mask: Lanes

    def ballot(self, r: Batch, votes: Lanes) -> Lanes:
        """For each active lane, the lanes of its team that vote yes, as a mask."""
        lane = r.pick(r.lane).astype(np.int64)
        bits = np.where(votes, np.int64(1) << lane, np.int64(0))
        total = np.bincount(self.of, weights=bits.astype(np.float64), minlength=self.count)
        return total.astype(np.int64).astype(np.uint32)[self.of]


def _teams(r: Batch, mask: Reader) -> Teams:
    named = np.broadcast_to(as_array(mask(r)), r.count)
    key = r.pick(r.warp).astype(np.uint64) << np.uint64(32) | named
    unique, of = np.unique(key, return_inverse=True)
    return Teams(of, len(unique), named)


def ready(r: Batch, step: WarpStep) -> Lanes:
    """Which of the active lanes need wait no longer; faults when a lane does not name itself."""
    mask = np.broadcast_to(as_array(step.mask(r)), r.count)
    lane = r.pick(r.lane)
    outside = (mask >> lane) & np.uint32(1) == 0
    if outside.any():
        raise LaneFault(
            "a lane executes this without being in its own member mask",
            step.ins.place,
            r.first(outside),
        )
    alive = np.zeros(r.blocks * r.warps_per_block, np.uint32)
    np.bitwise_or.at(alive, r.warp[r.alive], np.uint32(1) << r.lane[r.alive])
    teams = _teams(r, step.mask)
    here = teams.ballot(r, np.ones(r.count, bool))
    return (mask & alive[r.pick(r.warp)] & ~here) == 0


def _sync(b: Build, mask: Operand, run: Callable[[Batch, Teams], None]) -> Step:
    read = b.read(mask, B32)
    return WarpStep(read, lambda r: run(r, _teams(r, read)), b.ins)


@instruction("shfl")
def _shuffle(b: Build) -> Step:
    b.need("sync")
    mode = b.need("up", "down", "bfly", "idx")
    kind = b.type("b32")
    b.count(5)
    target = b.operand(0)
    write = b.write(target.first if isinstance(target, Pair) else target, kind)
    flag = b.write(target.second, PRED) if isinstance(target, Pair) else None
    value, distance, clamp = b.read(1, kind), b.read(2, U32), b.read(3, U32)
    ins = b.ins

    def run(r: Batch, teams: Teams) -> None:
        lane = r.pick(r.lane).astype(np.int64)
        source, inside = _source(mode, lane, as_array(distance(r)), as_array(clamp(r)))
        # a lane whose source is out of its segment copies its own value
        source = np.where(inside, source, lane)
        member = teams.ballot(r, np.ones(r.count, bool)).astype(np.int64)
        absent = (member >> source) & 1 == 0
        if absent.any():
            at = int(source[np.argmax(absent)])
            raise LaneFault(f"lane {at}, which does not take part, is read", ins.place,
                            r.first(absent))  # fmt: skip
        every = np.zeros(r.lanes, np.uint32)
        every[r.active] = value(r)
        write(r, every[r.active - lane + source])
        if flag is not None:
            flag(r, inside)

    return _sync(b, b.operand(4), run)


def _source(mode: str, lane: Lanes, b: Lanes, c: Lanes) -> tuple[Lanes, Lanes]:
    """The lane that is read, and whether it is in range (PTX ISA, shfl.sync)."""
    by, bound, segment = (x.astype(np.int64) & 31 for x in (b, c, c >> np.uint32(8)))
    highest = (lane & segment) | (bound & ~segment)
    match mode:
        case "up":
            source = lane - by
            return source, source >= highest
        case "down":
            source = lane + by
        case "bfly":
            source = lane ^ by
        case _:
            source = (lane & segment) | (by & ~segment & 31)
    return source, source <= highest


@instruction("vote")
def _vote(b: Build) -> Step:
    b.need("sync")
    mode = b.need("all", "any", "uni", "ballot")
    kind = b.type("b32" if mode == "ballot" else "pred")
    b.count(3)
    write, vote = b.write(0, kind), b.read(1, PRED)

    def run(r: Batch, teams: Teams) -> None:
        here = teams.ballot(r, np.ones(r.count, bool))
        yes = teams.ballot(r, np.broadcast_to(vote(r), r.count))
        results = {
            "ballot": lambda: yes,
            "any": lambda: yes != 0,
            "all": lambda: yes == here,
            "uni": lambda: (yes == here) | (yes == 0),
        }
        write(r, results[mode]())

    return _sync(b, b.operand(2), run)


@instruction("match")
def _match(b: Build) -> Step:
    mode = b.need("any", "all")
    b.need("sync")
    kind = b.type("b32 b64")
    b.count(3)
    target = b.operand(0)
    write = b.write(target.first if isinstance(target, Pair) else target, B32)
    flag = b.write(target.second, PRED) if isinstance(target, Pair) else None
    if flag is not None and mode == "any":
        raise b.wrong("match.any has one destination")
    value = b.read(1, kind)

    def run(r: Batch, teams: Teams) -> None:
        held = np.broadcast_to(as_array(value(r)), r.count)
        here = teams.ballot(r, np.ones(r.count, bool))
        out = np.zeros(r.count, np.uint32)
        for lane in range(32):
            # each lane in turn shows its value to its team
            shown = np.zeros(teams.count, held.dtype)
            shows = r.pick(r.lane) == lane
            shown[teams.of[shows]] = held[shows]
            present = (here >> np.uint32(lane)) & np.uint32(1) == 1
            same = present & (shown[teams.of] == held)
            out |= np.where(same, np.uint32(1 << lane), np.uint32(0))
        if mode == "all":
            whole = out == here
            out = np.where(whole, here, np.uint32(0))
            if flag is not None:
                flag(r, whole)
        write(r, out)

    return _sync(b, b.operand(2), run)


_REDUCE = {
    "add": (np.add, "u32 s32"),
    "min": (np.minimum, "u32 s32"),
    "max": (np.maximum, "u32 s32"),
    "and": (np.bitwise_and, "b32"),
    "or": (np.bitwise_or, "b32"),
    "xor": (np.bitwise_xor, "b32"),
}


@instruction("redux")
def _reduce(b: Build) -> Step:
    b.need("sync")
    op, names = _REDUCE[b.need(*_REDUCE)]
    kind = b.type(names)
    b.count(3)
    write, value = b.write(0, kind), b.read(1, kind)

    def run(r: Batch, teams: Teams) -> None:
        held = np.broadcast_to(as_array(value(r)), r.count)
        order = np.argsort(teams.of, kind="stable")
        begins = np.searchsorted(teams.of[order], np.arange(teams.count))
        write(r, op.reduceat(held[order], begins, dtype=held.dtype)[teams.of])

    return _sync(b, b.operand(2), run)


@instruction("elect")
def _elect(b: Build) -> Step:
    b.need("sync")
    b.count(2)
    target = b.operand(0)
    if not isinstance(target, Pair):
        raise b.wrong("`d|p` is needed")
    write, flag = b.write(target.first, B32), b.write(target.second, PRED)

    def run(r: Batch, teams: Teams) -> None:
        here = teams.ballot(r, np.ones(r.count, bool)).astype(np.int64)
        leader = np.log2(here & -here).astype(np.uint32)
        write(r, leader)
        flag(r, r.pick(r.lane) == leader)

    return _sync(b, b.operand(1), run)


@instruction("activemask")
def _active_mask(b: Build) -> Step:
    write = b.write(0, b.type("b32"))
    b.count(1)

    def step(r: Batch) -> None:
        total = np.zeros(r.blocks * r.warps_per_block, np.uint32)
        warp = r.pick(r.warp)
        np.bitwise_or.at(total, warp, np.uint32(1) << r.pick(r.lane))
        write(r, total[warp])

    return step


def warp_barrier(b: Build) -> Step:
    """`bar.warp.sync`."""
    b.need("sync")
    b.count(1)

    def run(r: Batch, teams: Teams) -> None:
        if r.launch.races is not None:
            r.launch.races.meet(r, teams.of)

    return _sync(b, b.operand(0), run)
