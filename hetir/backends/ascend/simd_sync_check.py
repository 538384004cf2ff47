"""Checks the flags of a program by following each access along every path: independent of the pass.

For one access the question at each point is which pipes are certain to come after it. A flag
from X to Y adds Y where X is certain, or is the access's own pipe; a pipe's barrier adds the
pipe; what the scalar unit waits for is before all that it issues later. Where paths meet, only
what is certain on all of them counts. A conflicting access of a pipe that is not certain is a
fault, and so is an event that is set while its last wait may be to come, and a read of the
scalar unit that may find what its cache held before a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hetir.backends.ascend.simd_program import (
    PIPES,
    Access,
    Block,
    Branch,
    Event,
    Global,
    Instr,
    Loop,
    Sync,
)

_FRESH = "cache"
_EVERYTHING = frozenset(PIPES)
Certain = frozenset[str]


@dataclass(eq=False, slots=True)
class _Point:
    """A step of the program, with the steps that may follow; `apart` marks a way to forget."""

    step: Instr | Sync | None
    following: list[tuple[_Point, bool]] = field(default_factory=list["tuple[_Point, bool]"])


@dataclass(frozen=True, slots=True)
class Fault:
    """Two steps that nothing orders."""

    first: str
    second: str


def check(program: Block) -> list[Fault]:
    """Every pair of steps of a synchronised program that should be ordered and is not."""
    builder = _Graph()
    builder.block(program, [builder.point(None)])
    faults: list[Fault] = []
    for point in builder.points:
        if isinstance(point.step, Instr):
            for access, writes in _accesses(point.step):
                faults += _Follow(point.step.pipe, access, writes).run(point)
        elif isinstance(point.step, Sync) and _is_flag(point.step) and point.step.target != "S":
            event = Access(Event(_event_name(point.step)))
            faults += _Follow(point.step.target, event, writes=True).run(point)
    return faults


def _accesses(instr: Instr) -> Iterator[tuple[Access, bool]]:
    yield from ((a, False) for a in instr.reads)
    yield from ((a, True) for a in instr.writes)


def _is_flag(sync: Sync) -> bool:
    return sync.source != sync.target and not sync.cache


def _event_name(sync: Sync) -> str:
    return f"{sync.source}_{sync.target} event {sync.event}"


class _Graph:
    """The steps of a program as a graph."""

    def __init__(self) -> None:
        self.points: list[_Point] = []
        self.leaving: list[list[_Point]] = []

    def point(self, step: Instr | Sync | None) -> _Point:
        """A new point."""
        made = _Point(step)
        self.points.append(made)
        return made

    def after(self, ends: list[_Point], step: Instr | Sync | None) -> list[_Point]:
        """A point that follows some others."""
        made = self.point(step)
        for end in ends:
            end.following.append((made, False))
        return [made]

    def block(self, block: Block, ends: list[_Point]) -> list[_Point]:
        """The points at which a block ends."""
        for node in block.nodes:
            match node:
                case Instr():
                    for sync in node.syncs:
                        ends = self.after(ends, sync)
                    ends = self.after(ends, node)
                    if node.leaves:
                        self.leaving[-1] += ends
                case Branch():
                    ends = [*self.block(node.then, ends), *self.block(node.other, ends)]
                case Loop():
                    ends = self.loop(node, ends)
                case _:
                    pass
        return ends

    def loop(self, loop: Loop, ends: list[_Point]) -> list[_Point]:
        """A loop whose body may run any number of times."""
        head = self.after(ends, None)
        self.leaving.append([])
        for end in self.block(loop.body, head):
            end.following.append((head[0], loop.apart))
        return [*head, *self.leaving.pop()]


@dataclass(slots=True)
class _Follow:
    """What is certain to come after one access, point by point."""

    pipe: str
    access: Access
    writes: bool

    def run(self, origin: _Point) -> list[Fault]:
        """The faults of an access that happens at a point."""
        start: Certain = frozenset({"S"}) if self.pipe == "S" else frozenset()
        known: dict[_Point, Certain] = {}
        work = [(origin, start)]
        while work:
            point, certain = work.pop()
            for following, apart in point.following:
                if apart and type(self.access.place) is Global:
                    continue
                before = known.get(following)
                arrives = certain if before is None else before & certain
                if arrives == before:
                    continue
                known[following] = arrives
                work.append((following, self.passed(following.step, arrives)))
        found = (self.fault(origin, point, certain) for point, certain in known.items())
        return [fault for fault in found if fault is not None]

    def passed(self, step: Instr | Sync | None, certain: Certain) -> Certain:
        """What is certain after a step."""
        if isinstance(step, Instr):
            for source, target in step.orders:
                certain = self.flagged(source, target, certain)
        if not isinstance(step, Sync):
            return certain
        if step.cache:
            return certain | {_FRESH} if "S" in certain else certain
        if step.source == "ALL":
            return certain | _EVERYTHING
        return self.flagged(step.source, step.target, certain)

    def flagged(self, source: str, target: str, certain: Certain) -> Certain:
        """What is certain after a flag or a pipe's barrier."""
        if source != self.pipe and source not in certain:
            return certain
        return certain | (_EVERYTHING if target == "S" else {target})

    def fault(self, origin: _Point, point: _Point, certain: Certain) -> Fault | None:
        """What is wrong at a point."""
        step = point.step
        if isinstance(step, Sync):
            event = self.access.place
            same = isinstance(event, Event) and _is_flag(step) and event.name == _event_name(step)
            wrong = same and step.source not in certain
            return Fault(str(event), _event_name(step)) if wrong else None
        if step is None or isinstance(self.access.place, Event):
            return None
        conflicts = any(
            (writes or self.writes) and access.overlaps(self.access)
            for access, writes in _accesses(step)
        )
        if not conflicts:
            return None
        copied = self.writes and self.pipe == "MTE3" and isinstance(self.access.place, Global)
        reads = any(a.overlaps(self.access) for a in step.reads)
        stale = copied and step.pipe == "S" and reads and _FRESH not in certain
        if step.pipe in certain and not stale:
            return None
        return Fault(_shown(origin.step), _shown(step))


def _shown(step: Instr | Sync | None) -> str:
    return step.lines[0] if isinstance(step, Instr) and step.lines else str(step)
