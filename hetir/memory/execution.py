"""Candidate executions: the relations that every model is written in, over one program's events.

`rf` relates a write to the reads that return its value. The coherence order and every other
choice is made by asking for it, so that a model pays only for what it speaks of.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

from hetir.memory.events import Event, Places, Unfolded
from hetir.memory.logic import FALSE, TRUE, Logic
from hetir.memory.program import Barrier, Scope, Thread, share
from hetir.memory.relation import Members, Relation


class Execution:
    """All candidate executions of one program at once, as relations over literals."""

    def __init__(self, unfolded: Unfolded, logic: Logic) -> None:
        self.logic = logic
        self.program = unfolded.program
        self.ends = unfolded.ends
        self.events = unfolded.events
        self.exclusive = unfolded.exclusive
        self._shared: dict[tuple[Scope, int, int], bool] = {}
        self.all = self.where(lambda _: True)
        self.reads = self.where(lambda event: event.reads)
        self.writes = self.where(lambda event: event.writes)
        self.accesses = self.where(lambda event: event.reads or event.writes)
        self.fences = self.where(lambda event: event.is_fence)
        self.barriers = self.where(lambda event: event.is_barrier)
        self.initial = self.where(lambda event: event.is_initial)
        self.identity = Relation.identity(logic, {event.number: TRUE for event in self.events})
        self.program_order = self._program_order()
        self.same_place = self._overlap(lambda event: event.places)
        self.same_reference = self._same_reference()
        self.reads_from = self._reads_from()
        self.meetings = self._meetings()

    def where(self, condition: Callable[[Event], bool]) -> Members:
        """Return the events that satisfy `condition` and happen, as a set."""
        return {e.number: e.happens for e in self.events if condition(e) and e.happens != FALSE}

    def pairs(self, condition: Callable[[Event, Event], bool]) -> Relation:
        """Return the pairs of different events that satisfy a condition known beforehand."""
        events = self.events
        rows = {
            a.number: {b.number: TRUE for b in events if a is not b and condition(a, b)}
            for a in events
        }
        return Relation(self.logic, rows)

    def optional(self, relation: Relation) -> Relation:
        """Return the reflexive closure."""
        return relation | self.identity

    def thread_of(self, event: Event) -> Thread:
        """Return the thread of an event that is not an initial write."""
        return self.program.threads[event.thread]

    def same_thread(self, a: Event, b: Event) -> bool:
        """Whether two events are of one work-item."""
        return a.thread == b.thread and not a.is_initial

    def within(self, scope: Scope, a: Event, b: Event) -> bool:
        """Whether the work-items of two events share an instance of `scope`."""
        if a.is_initial or b.is_initial:
            return False
        key = (scope, a.thread, b.thread)
        known = self._shared.get(key)
        if known is None:
            known = self._shared[key] = share(scope, self.thread_of(a), self.thread_of(b))
        return known

    def includes(self, a: Event, b: Event) -> bool:
        """Whether each one's scope includes the other's work-item."""
        first, second = a.operation.scope, b.operation.scope
        if first is None or second is None:
            return False
        return self.within(first, a, b) and self.within(second, a, b)

    def after_initial(self) -> Relation:
        """Return the pairs of an initial write and any event of a thread."""
        return self.pairs(lambda a, b: a.is_initial and not b.is_initial)

    def _program_order(self) -> Relation:
        return self.pairs(
            lambda a, b: (
                self.same_thread(a, b)
                and a.number < b.number
                and (a.number, b.number) not in self.exclusive
            )
        )

    def _overlap(self, places_of: Callable[[Event], Places]) -> Relation:
        def overlap(a: Event, b: Event) -> int:
            ours, theirs = places_of(a), places_of(b)
            if ours == theirs and len(ours) == 1:
                return TRUE
            both = self.logic.both
            common = [
                both(literal, theirs[name]) for name, literal in ours.items() if name in theirs
            ]
            return self.logic.some(common)

        accesses = [event for event in self.events if event.reads or event.writes]
        triples = ((a.number, b.number, overlap(a, b)) for a in accesses for b in accesses)
        return Relation.of(self.logic, triples)

    def _same_reference(self) -> Relation:
        """Accesses to one place at one virtual address; initial writes are at every address."""
        if not any(location.alias for location in self.program.locations):
            return self.same_place
        same = self._overlap(lambda event: event.references)
        return (
            same
            | self.same_place.between(self.initial, None)
            | self.same_place.between(None, self.initial)
        )

    def _reads_from(self) -> Relation:
        triples: list[tuple[int, int, int]] = []
        for read in self.events:
            if not read.reads or read.happens == FALSE:
                continue
            sources = [write for write in self.events if self._may_read(read, write)]
            chosen = self._choose_source(read, sources)
            triples += [(w.number, read.number, literal) for w, literal in chosen]
        return Relation.of(self.logic, triples)

    def _may_read(self, read: Event, write: Event) -> bool:
        """Whether a read may return a write; one never returns what its own thread writes later."""
        later = self.program_order.at(read.number, write.number) != FALSE
        overlap = self.same_place.at(write.number, read.number) != FALSE
        values = any(value in read.read for value in write.written)
        return (
            write.writes
            and write is not read
            and write.happens != FALSE
            and overlap
            and values
            and not later
            and (write.number, read.number) not in self.exclusive
        )

    def _choose_source(self, read: Event, sources: list[Event]) -> list[tuple[Event, int]]:
        logic = self.logic
        sole = len(sources) == 1 and read.happens == TRUE
        chosen = [(write, TRUE if sole else logic.variable()) for write in sources]
        logic.require(-read.happens, *(literal for _, literal in chosen))
        logic.at_most_one([literal for _, literal in chosen])
        for write, literal in chosen:
            logic.require(-literal, read.happens)
            logic.require(-literal, write.happens)
            logic.require(-literal, self.same_place.at(write.number, read.number))
            for value, written in write.written.items():
                logic.require(-literal, -written, read.read.get(value, FALSE))
        return chosen

    def total_coherence(self, overlap: Relation | None = None) -> Relation:
        """Choose an order of the writes to each location; initial writes are first.

        It is total over all pairs, or over the pairs in `overlap`.
        """
        return self._coherence(overlap or self.same_place, total=True)

    def partial_coherence(self, overlap: Relation) -> Relation:
        """Choose a partial order within `overlap`; initial writes are first at every location."""
        return self._coherence(overlap, total=False)

    def _coherence(self, overlap: Relation, *, total: bool) -> Relation:
        logic, both = self.logic, self.logic.both
        triples: list[tuple[int, int, int]] = []
        writes = [event for event in self.events if event.writes and event.happens != FALSE]
        for a, b in combinations(writes, 2):
            happen = both(a.happens, b.happens)
            if a.is_initial:
                place = self.same_place.at(a.number, b.number)
                triples.append((a.number, b.number, both(happen, place)))
                continue
            possible = both(happen, overlap.at(a.number, b.number))
            if possible != FALSE and (a.number, b.number) not in self.exclusive:
                forth, back = self._order_two(possible, total=total)
                triples += [(a.number, b.number, forth), (b.number, a.number, back)]
        relation = Relation.of(logic, triples)
        self._require_transitive(relation)
        return relation

    def _order_two(self, possible: int, *, total: bool) -> tuple[int, int]:
        logic = self.logic
        forth = logic.variable()
        if total and possible == TRUE:
            return forth, -forth
        back = logic.variable()
        logic.require(-forth, -back)
        logic.require(-forth, possible)
        logic.require(-back, possible)
        if total:
            logic.require(-possible, forth, back)
        return forth, back

    def _require_transitive(self, relation: Relation) -> None:
        for a, row in relation.rows.items():
            for b, first in row.items():
                for c, second in relation.rows.get(b, {}).items():
                    if c != a and self.events[a].thread >= 0:
                        self.logic.require(-first, -second, relation.at(a, c))

    def from_reads(self, coherence: Relation) -> Relation:
        """Return the pairs of a read and the writes that come after the one it returned."""
        return (self.reads_from.inverse() @ coherence).distinct()

    def _meetings(self) -> Relation:
        """Return the pairs of arrivals that pass one barrier together."""
        logic = self.logic
        groups: dict[tuple[str, int], list[Event]] = {}
        for event in self.events:
            if event.is_barrier and event.happens != FALSE:
                barrier = event.operation
                assert isinstance(barrier, Barrier)
                groups.setdefault((barrier.name, event.occurrence), []).append(event)
        triples: list[tuple[int, int, int]] = []
        for group in groups.values():
            if any(event.count for event in group):
                triples += _counted(self, group)
                continue
            for a, b in combinations(group, 2):
                met = logic.both(logic.both(a.happens, b.happens), self.same_barrier(a, b))
                triples += [(a.number, b.number, met), (b.number, a.number, met)]
        return Relation.of(logic, triples)

    def passes_barrier(self) -> Relation:
        """Return the pairs of an event before a barrier and another work-item's arrival there.

        An arrival itself is not ordered before its partners, or each would be before itself.
        """
        return self.program_order @ self.meetings

    def same_barrier(self, a: Event, b: Event) -> int:
        """Return the literal that two arrivals are at one barrier of one group of work-items."""
        barrier = a.operation
        assert isinstance(barrier, Barrier)
        if self.same_thread(a, b) or not self.within(barrier.execution, a, b):
            return FALSE
        both = self.logic.both
        return self.logic.some(
            [both(lit, b.key[key]) for key, lit in a.key.items() if key in b.key]
        )


def _counted(execution: Execution, group: list[Event]) -> list[tuple[int, int, int]]:
    """Choose who passes a counted barrier together: any `count` arrivals, the rest waits."""
    logic = execution.logic
    together: dict[tuple[int, int], int] = {}
    for a, b in combinations(group, 2):
        possible = execution.same_barrier(a, b)
        met = logic.variable() if possible != FALSE else FALSE
        for needed in (possible, a.happens, b.happens, a.passed, b.passed):
            logic.require(-met, needed)
        together[a.number, b.number] = together[b.number, a.number] = met
    for a, b, c in combinations(group, 3):
        ab, bc = together[a.number, b.number], together[b.number, c.number]
        ac = together[a.number, c.number]
        logic.require(-ab, -bc, ac)
        logic.require(-ab, -ac, bc)
        logic.require(-ac, -bc, ab)
    for event in group:
        _require_quorum(execution, event, [o for o in group if o is not event], together)
    return [(a, b, literal) for (a, b), literal in together.items()]


def _require_quorum(
    execution: Execution,
    event: Event,
    others: list[Event],
    together: dict[tuple[int, int], int],
) -> None:
    """An arrival that passes has exactly `count - 1` partners; `count` never wait together."""
    logic = execution.logic
    partners = [together[event.number, other.number] for other in others]
    for count, literal in event.count.items():
        given = logic.both(logic.both(event.happens, literal), event.passed)
        for many in combinations(partners, count):
            logic.require(-given, *(-partner for partner in many))
        for few in combinations(partners, max(0, len(partners) - count + 2)):
            logic.require(-given, *few)
        if len(partners) < count - 1:
            logic.require(-given)
        waits = logic.both(logic.both(event.happens, literal), -event.passed)
        for rest in combinations(others, count - 1):
            ready = [waits, *(execution.same_barrier(event, other) for other in rest)]
            ready += [logic.both(other.happens, -other.passed) for other in rest]
            logic.require(-logic.every(ready))
