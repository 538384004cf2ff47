"""Checks the flags of a program by following its accesses along every path: not the pass's way.

For an access the question at each point is which pipes are certain to come after it. A flag
from X to Y adds Y where X is certain, or is the access's own pipe; a pipe's barrier adds the
pipe; what the scalar unit waits for is before all that it issues later. Where paths meet, what
each of them made certain is kept apart, so that nothing is lost: a fault has a path. One is a
conflicting access of a pipe that is not certain, an event that is set while its last wait may
be to come, a read of the scalar unit that may find what its cache held before a copy.

All accesses are followed at once: each is a bit. A removed flag is followed from where it stood.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hetir.backends.ascend.simd_program import (
    PIPES,
    Access,
    Block,
    Branch,
    Global,
    Instr,
    Loop,
    Sync,
)

_FRESH = 1 << len(PIPES)  # beside the pipes: the scalar unit's cache shows it
_EVERYTHING = _FRESH - 1
Span = tuple[Global | str | None, int, int]
"""Global memory or an event, or bytes of the Unified Buffer."""

Held = Mapping[int, int]
"""Sets of certain pipes (bits), each with the accesses for which a path made just these certain."""


@dataclass(eq=False, slots=True)
class _Point:
    """A step of the program, with the steps that may follow; `apart` marks a way to forget.

    Sets of accesses: `own` happen here, `rivals` conflict with what happens here, and `copied`
    are global data that the scalar unit reads here; those `renewed` here are over.
    """

    number: int
    step: Instr | Sync | None
    following: list[tuple[_Point, bool]] = field(default_factory=list["tuple[_Point, bool]"])
    own: int = 0
    rivals: int = 0
    copied: int = 0
    renewed: int = 0


@dataclass(frozen=True, slots=True)
class Fault:
    """Two steps that nothing orders."""

    first: str
    second: str


def check(program: Block) -> list[Fault]:
    """Every pair of steps of a synchronised program that should be ordered and is not."""
    return list(Checker(program).faults())


class Checker:
    """What is certain at each point of a program, and what would be without one of its syncs."""

    def __init__(self, program: Block) -> None:
        graph = _Graph()
        graph.block(program, [graph.point(None)])
        self.points = graph.points
        self.origins: list[_Point] = []
        self.of_pipe: dict[str, int] = dict.fromkeys(PIPES, 0)
        self.shared = 0  # accesses of global memory
        self._number_accesses()
        self.known: list[Held] = [{} for _ in self.points]
        self._settle(range(len(self.points)), self.known, None)

    def faults(self) -> Iterator[Fault]:
        """What nothing orders."""
        for point in self.points:
            wrong = self._wrong(point, self.known[point.number])
            while wrong:
                access = wrong.bit_length() - 1
                wrong ^= 1 << access
                yield Fault(_shown(self.origins[access].step), _shown(point.step))

    def needs(self, sync: Sync) -> bool:
        """Whether something is not ordered any more when a sync of a sound program is gone."""
        (gone,) = (p for p in self.points if p.step is sync)
        return self._settle([gone.number], _Overlay(self.known), gone)

    # ---- accesses ------------------------------------------------------------------------

    def _number_accesses(self) -> None:
        """Give each access of the program its bit, and each point those that rival its own."""
        read: dict[Span, int] = {}
        written: dict[Span, int] = {}
        for point in self.points:
            for span, writes in _touched(point.step):
                bit = 1 << len(self.origins)
                self.origins.append(point)
                point.own |= bit
                self.of_pipe[_pipe(point.step)] |= bit
                self.shared |= bit if isinstance(span[0], Global) else 0
                into = written if writes else read
                into[span] = into.get(span, 0) | bit
        readers, writers = _overlapping(read, written), _overlapping(written, read)
        for point in self.points:
            for span, writes in _touched(point.step):
                point.rivals |= writers[span] | (readers[span] if writes else 0)
                if _pipe(point.step) == "S" and isinstance(span[0], Global) and not writes:
                    point.copied |= writers[span] & self.of_pipe["MTE3"]
            for place in point.step.renews if isinstance(point.step, Instr) else ():
                span = _span(Access(place))
                point.renewed |= readers.get(span, 0) | writers.get(span, 0)

    # ---- what is certain -------------------------------------------------------------------

    def _settle(
        self, begin: Iterable[int], known: list[Held] | _Overlay, gone: _Point | None
    ) -> bool:
        """Carry what is certain on to the points that follow, until nothing changes.

        With `gone`, a point that does nothing: stop at the first fault and say whether one was.
        """
        work = list(begin)
        waiting = set(work)
        while work:
            point = self.points[heapq.heappop(work)]
            waiting.remove(point.number)
            state = known[point.number]
            after = state if point is gone else self._passed(point, state)
            for following, apart in point.following:
                new = dict(known[following.number])
                for certain, accesses in after.items():
                    if kept := accesses & ~self.shared if apart else accesses:
                        new[certain] = new.get(certain, 0) | kept
                if new == known[following.number]:
                    continue
                if gone is not None and self._wrong(following, new) & ~gone.own:
                    return True
                known[following.number] = new
                if following.number not in waiting:
                    waiting.add(following.number)
                    heapq.heappush(work, following.number)
        return False

    def _passed(self, point: _Point, held: Held) -> Held:
        """What is certain after a point."""
        step = point.step
        if isinstance(step, Sync):
            held = self._synced(step, held)
        elif isinstance(step, Instr):
            for source, target in step.orders:
                held = self._flagged(source, target, held)
        if point.renewed:
            held = _gathered((c, accesses & ~point.renewed) for c, accesses in held.items())
        if not point.own:
            return held
        new = {certain: accesses & ~point.own for certain, accesses in held.items()}
        # the scalar unit goes on only when it is done, and what waits for a flag knows that it did
        own = _bit(_pipe(step)) if isinstance(step, Sync) or _pipe(step) == "S" else 0
        hidden = point.own & self.shared if _pipe(step) == "MTE3" else 0
        for start, accesses in ((own | _FRESH, point.own & ~hidden), (own, hidden)):
            new[start] = new.get(start, 0) | accesses
        return {certain: accesses for certain, accesses in new.items() if accesses}

    def _synced(self, sync: Sync, held: Held) -> Held:
        if sync.cache:
            waited = {c: c | _FRESH if c & _bit("S") else c for c in held}
            return _gathered((waited[c], accesses) for c, accesses in held.items())
        if sync.source == "ALL":
            return _gathered((c | _EVERYTHING, accesses) for c, accesses in held.items())
        return self._flagged(sync.source, sync.target, held)

    def _flagged(self, source: str, target: str, held: Held) -> Held:
        """What is certain after a flag or a pipe's barrier."""
        gained = _EVERYTHING if target == "S" else _bit(target)
        own = self.of_pipe[source]
        return _gathered(
            pair
            for c, accesses in held.items()
            for pair in (
                ((c | gained, accesses),)
                if c & _bit(source)
                else ((c | gained, accesses & own), (c, accesses & ~own))
            )
        )

    def _wrong(self, point: _Point, held: Held) -> int:
        """The accesses that should be before a point and are not certain to be."""
        if not point.rivals:
            return 0
        step = point.step
        pipe = _bit(step.source if isinstance(step, Sync) else _pipe(step))
        wrong = 0
        for certain, accesses in held.items():
            wrong |= 0 if certain & pipe else accesses & point.rivals
            wrong |= 0 if certain & _FRESH else accesses & point.copied
        return wrong


def _bit(pipe: str) -> int:
    return 1 << PIPES.index(pipe)


def _gathered(parts: Iterable[tuple[int, int]]) -> Held:
    """Accesses by what is certain for them."""
    found: dict[int, int] = {}
    for certain, accesses in parts:
        if accesses:
            found[certain] = found.get(certain, 0) | accesses
    return found


def _touched(step: Instr | Sync | None) -> Iterator[tuple[Span, bool]]:
    """What a step touches, and whether it writes there; a flag writes its event."""
    if isinstance(step, Instr):
        yield from ((_span(a), False) for a in step.reads)
        yield from ((_span(a), True) for a in step.writes)
    elif step is not None and step.source != step.target and step.target != "S":
        yield (f"{step.source}_{step.target} event {step.event}", 0, 1), True


def _span(access: Access) -> Span:
    place = access.place
    if isinstance(place, Global):
        return place, 0, 1
    return None, place.offset + access.start, place.offset + min(access.stop, place.bytes)


def _overlapping(sets: Mapping[Span, int], others: Iterable[Span]) -> dict[Span, int]:
    """For each span the union of the sets whose spans have a byte in common with it."""
    found: dict[Span, int] = {}
    for span in {*sets, *others}:
        place, start, stop = span
        found[span] = 0
        for (there, low, high), accesses in sets.items():
            if there is place and low < stop and start < high:
                found[span] |= accesses
    return found


def _pipe(step: Instr | Sync | None) -> str:
    """The pipe that does what a step does: a flag's is the one that waits."""
    return step.pipe if isinstance(step, Instr) else step.target if step else ""


def _shown(step: Instr | Sync | None) -> str:
    if isinstance(step, Sync):
        return f"{step.source}_{step.target} event {step.event}"
    return step.lines[0] if step and step.lines else str(step)


class _Overlay(dict[int, Held]):
    """What differs from what is known of a sound program."""

    def __init__(self, known: list[Held]) -> None:
        super().__init__()
        self.below = known

    def __missing__(self, number: int) -> Held:
        return self.below[number]


class _Graph:
    """The steps of a program as a graph."""

    def __init__(self) -> None:
        self.points: list[_Point] = []
        self.leaving: list[list[_Point]] = []

    def point(self, step: Instr | Sync | None) -> _Point:
        """A new point."""
        made = _Point(len(self.points), step)
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
        """A loop whose body may run any number of times, but for what its head says."""
        head = self.after(ends, None)
        self.leaving.append([])
        ends = self.block(loop.body, head)
        for end in ends:
            end.following.append((head[0], loop.apart))
        if loop.endless:
            return self.leaving.pop()
        return [*(ends if loop.runs else head), *self.leaving.pop()]
