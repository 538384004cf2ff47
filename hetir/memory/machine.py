"""An operational form of hetIR's model: executions built one step at a time, at random.

The machine keeps the execution that it has built: what each step knows (happens-before, as a
mask of steps), the modification order of each location, and what each read returned. A read
may return any write, and a write may go to any place of the modification order, that leaves
the axioms of docs/memory-model.md true; the newest one always does. What it builds is
therefore consistent. It builds every consistent execution in which `po` and `rf` have no
cycle, and those load buffering ones in which a relaxed read waits (`begin` without `finish`)
while later relaxed and plain accesses to other locations go ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hetir.memory.program import Order, Scope

Within = Callable[[Scope, int, int], bool]
"""Whether two work-items are in one instance of a scope."""

Change = Callable[[Any], Any]
"""What a read-modify-write makes of the old value; None leaves it (a failed comparison)."""


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """The start of a release sequence: a release, and everything that happened before it."""

    step: Step
    mask: int


@dataclass(slots=True, eq=False)
class Write:
    """One write in a location's modification order; step 0 wrote the initial values."""

    step: Step
    value: Any
    heads: tuple[Head, ...] = ()
    readers: int = 0
    updated: bool = False


@dataclass(slots=True, eq=False)
class Place:
    """A location: its writes in modification order, and the steps that accessed it."""

    name: object
    writes: list[Write]
    accesses: int = 0
    written: int = 0


@dataclass(slots=True, eq=False)
class Step:
    """One event. `past` are the steps that happen before it; `value` is what it read."""

    number: int
    thread: int
    order: Order | None
    scope: Scope | None
    past: int
    origin: object = None
    place: Place | None = None
    change: Change | None = None
    reads: bool = False
    done: bool = False
    value: Any = None
    source: Write | None = None
    written: Write | None = None

    @property
    def bit(self) -> int:
        """The step in a mask."""
        return 1 << self.number

    @property
    def is_fence(self) -> bool:
        """Whether it is a fence (or the meeting at a barrier, which has no order)."""
        return self.place is None


def bits(mask: int) -> Iterator[int]:
    """The numbers of the steps in a mask."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass(slots=True, eq=False)
class _Item:
    """What one work-item knows, did, fenced and saw; `waiting` are its deferred reads."""

    known: int = 1
    mine: int = 0
    own: list[Step] = field(default_factory=list[Step])
    fences: dict[Scope, Head] = field(default_factory=dict[Scope, Head])
    seen: dict[Head, None] = field(default_factory=dict[Head, None])
    waiting: list[Step] = field(default_factory=list[Step])


class Machine:
    """One execution in the making. `races` are the pairs of steps that nothing orders."""

    def __init__(self, threads: int, within: Within, random: Random) -> None:
        self.items = [_Item() for _ in range(threads)]
        self.within, self.random = within, random
        self.steps = [Step(0, -1, None, None, 0, done=True)]
        self.places: dict[object, Place] = {}
        self.races: list[tuple[Step, Step]] = []
        self.strong = 0

    def place(self, name: object, initial: Callable[[], Any]) -> Place:
        """The location of a name, made with its initial value when first asked for."""
        found = self.places.get(name)
        if found is None:
            found = self.places[name] = Place(name, [Write(self.steps[0], initial())])
        return found

    # ---- steps ---------------------------------------------------------------------------

    def begin(
        self,
        thread: int,
        order: Order | None,
        scope: Scope | None,
        place: Place | None,
        *,
        reads: bool = False,
        change: Change | None = None,
        origin: object = None,
    ) -> Step:
        """Add a step in program order. `finish` it at once, or later if it is relaxed.

        A plain read has no change, a write a change that ignores the old value and does not
        read. Steps that wait and may not be passed by this one are finished first.
        """
        item = self.items[thread]
        synchronises = order not in (None, Order.RELAXED)
        for step in list(item.waiting):
            if synchronises or place is None or step.place is place:
                self.finish(step)
        number = len(self.steps)
        step = Step(number, thread, order, scope, item.known, origin, place, change, reads)
        self.steps.append(step)
        item.own.append(step)
        item.mine |= step.bit
        item.known |= step.bit
        item.waiting.append(step)
        if order is Order.SEQ_CST:
            self.strong |= step.bit
        return step

    def finish(self, step: Step) -> Any:
        """Let a step take effect, once; what it read."""
        if step.done:
            return step.value
        step.done = True
        self.items[step.thread].waiting.remove(step)
        assert step.place is not None
        if step.reads:
            self._read(step, step.place)
        else:
            assert step.change is not None
            self._insert(step, step.place, step.change(None))
        self._find_races(step, step.place)
        return step.value

    def fence(self, thread: int, order: Order, scope: Scope, origin: object = None) -> None:
        """A fence."""
        step = self.begin(thread, order, scope, None, origin=origin)
        item = self.items[thread]
        item.waiting.remove(step)
        step.done = True
        if order.acquires:
            for head in item.seen:
                self._learn(step, head)
        if order.releases:
            item.fences[scope] = Head(step, step.past | step.bit)

    def meet(self, threads: Iterable[int], origin: object = None) -> None:
        """Work-items pass a barrier together."""
        there = list(threads)
        for thread in there:
            for step in list(self.items[thread].waiting):
                self.finish(step)
        meeting = Step(len(self.steps), -1, None, None, 0, origin, done=True)
        self.steps.append(meeting)
        for thread in there:
            meeting.past |= self.items[thread].known
        for thread in there:
            self.items[thread].known = meeting.past | meeting.bit
            self.items[thread].own.append(meeting)
            self.items[thread].mine |= meeting.bit

    def end(self, thread: int) -> None:
        """Finish what a work-item left waiting."""
        for step in list(self.items[thread].waiting):
            self.finish(step)

    def inclusive(self, a: Step, b: Step) -> bool:
        """Whether each one's scope includes the other's work-item."""
        if a.scope is None or b.scope is None or a.thread < 0 or b.thread < 0:
            return False
        return self.within(a.scope, a.thread, b.thread) and self.within(b.scope, a.thread, b.thread)

    # ---- accesses ------------------------------------------------------------------------

    def _read(self, step: Step, place: Place) -> None:
        change, order = step.change, step.order
        options = self._after(step, place)
        for at in self._shuffled(options):
            source = place.writes[at]
            new = None if change is None else change(source.value)
            if new is not None and source.updated:
                continue
            if change is not None and new is None:
                step.order = _failure(order)
            source.readers |= step.bit
            step.source, step.value = source, source.value
            if new is not None:
                source.updated = True
                step.written = Write(step, new)
                place.writes.insert(at + 1, step.written)
            if at == options[-1] or self._sequential():
                break
            source.readers &= ~step.bit
            if step.written is not None:
                source.updated, step.written = False, None
                del place.writes[at + 1]
            step.order = order
        assert step.source is not None
        self._acquire(step, step.source)
        if step.written is not None:
            goes_on = self._synchronises(step.source.step, step)
            step.written.heads = self._heads(step) + (step.source.heads if goes_on else ())

    def _insert(self, step: Step, place: Place, value: Any) -> None:
        options = self._after(step, place)
        step.written = write = Write(step, value)
        for at in self._shuffled([a for a in options if not place.writes[a].updated]):
            place.writes.insert(at + 1, write)
            if at == options[-1] or self._sequential():
                break
            del place.writes[at + 1]
        write.heads = self._heads(step)

    def _after(self, step: Step, place: Place) -> range:
        """Where in the modification order a step may look: from the newest write it knows."""
        last = len(place.writes) - 1
        for at in range(last, -1, -1):
            write = place.writes[at]
            if (write.step.bit | write.readers) & step.past:
                return range(at, last + 1)
        raise AssertionError("everybody knows the initial write")

    def _shuffled(self, options: Iterable[int]) -> Iterator[int]:
        """The options at random, each other time the newest one first."""
        order = list(options)
        if len(order) > 1 and self.random.random() < 0.5:
            yield order[-1]
        self.random.shuffle(order)
        yield from order

    def _synchronises(self, write: Step, read: Step) -> bool:
        """Whether a read from a write is a step of release sequences and synchronisation."""
        if write.order is None or read.order is None:
            return False
        return write.thread == read.thread or self.inclusive(write, read)

    def _acquire(self, step: Step, source: Write) -> None:
        if not self._synchronises(source.step, step):
            return
        assert step.order is not None
        for head in source.heads:
            self.items[step.thread].seen[head] = None
            if step.order.acquires:
                self._learn(step, head)

    def _learn(self, step: Step, head: Head) -> None:
        if head.step.thread == step.thread or self.inclusive(head.step, step):
            step.past |= head.mask
            self.items[step.thread].known |= head.mask

    def _heads(self, step: Step) -> tuple[Head, ...]:
        """The releases that a write begins a release sequence of."""
        if step.order is None:
            return ()
        fences = tuple(self.items[step.thread].fences.values())
        if step.order.releases:
            return (*fences, Head(step, step.past | step.bit))
        return fences

    def _find_races(self, step: Step, place: Place) -> None:
        others = place.written if step.written is None else place.accesses
        for number in bits(others & ~step.past):
            other = self.steps[number]
            if other.thread != step.thread:
                both = step.order is not None and other.order is not None
                if not (both and self.inclusive(step, other)):
                    self.races.append((step, other))
        place.accesses |= step.bit
        if step.written is not None:
            place.written |= step.bit

    # ---- sequential consistency ----------------------------------------------------------

    def _sequential(self) -> bool:
        """Whether `psc` has no cycle. Steps that read or are the newest cannot close one."""
        left = set(bits(self.strong))
        if len(left) < 2:
            return True
        before = {number: self._strong_before(self.steps[number]) for number in left}
        while left:
            first = [n for n in left if not any(b in left for b in before[n])]
            if not first:
                return False
            left.difference_update(first)
        return True

    def _strong_before(self, step: Step) -> list[int]:
        """The seq_cst steps that `psc` puts before one."""
        through = step.bit | (step.past if step.is_fence else 0)
        near = self._union(through, self._scb_before)
        far = near | self._union(near, lambda s: s.past)
        if step.is_fence:
            eco = self._union(step.past, self._eco_before)
            far |= step.past | self._union(eco, lambda s: s.past)
        candidates = [self.steps[n] for n in bits(self.strong & (near | far))]
        return [
            s.number
            for s in candidates
            if s is not step
            and (s.is_fence or near & s.bit)
            and (s.thread == step.thread or self.inclusive(s, step))
        ]

    def _union(self, mask: int, relation: Callable[[Step], int]) -> int:
        result = 0
        for number in bits(mask):
            result |= relation(self.steps[number])
        return result

    def _po_before(self, step: Step) -> int:
        return step.past & self.items[step.thread].mine

    def _scb_before(self, step: Step) -> int:
        if step.thread < 0:
            return 0
        before = self._po_before(step)
        result = before
        for number in bits(before):
            between = self.steps[number]
            if step.place is None or between.place is not step.place:
                result |= self._union(between.past, self._elsewhere_before)
        if step.place is not None:
            result |= step.past & step.place.accesses
        return result | self._overwritten(step)

    def _elsewhere_before(self, step: Step) -> int:
        if step.thread < 0:
            return step.past
        here = step.place.accesses if step.place is not None else 0
        return self._po_before(step) & ~here

    def _overwritten(self, step: Step) -> int:
        """The writes before a write in modification order, and what read them (mo and fr)."""
        if step.written is None or step.place is None:
            return 0
        result = 0
        for write in step.place.writes:
            if write is step.written:
                break
            result |= write.step.bit | write.readers
        return result & ~step.bit & ~1

    def _eco_before(self, step: Step) -> int:
        result = self._overwritten(step)
        if step.source is not None:
            result |= step.source.step.bit | self._overwritten(step.source.step)
        return result & ~1


def _failure(order: Order | None) -> Order | None:
    """The order of a compare-and-exchange that does not store."""
    if order is None or order is Order.SEQ_CST:
        return order
    return Order.ACQUIRE if order.acquires else Order.RELAXED
