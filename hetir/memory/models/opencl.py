"""OpenCL: section 3.3.6, "Memory Ordering Rules", of the OpenCL API specification.

With the scoped, simplified axiom for sequential consistency of Batty, Donaldson and Wickerson,
"Overhauling SC Atomics in C11 and OpenCL" (POPL 2016). The tags `global` and `local` of a fence,
a barrier or an access are the regions it orders; an access always orders its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from hetir.memory.events import Event
from hetir.memory.execution import Execution
from hetir.memory.models.base import (
    Axiom,
    Constraints,
    Form,
    barriers_progress,
    conflicts,
    no_thin_air,
)
from hetir.memory.models.ir import acquires, is_atomic, releases
from hetir.memory.program import Order, Scope, Space
from hetir.memory.relation import Members, Relation

REGIONS = {"global": Space.GLOBAL, "local": Space.SHARED}


@dataclass(frozen=True, slots=True)
class _Region:
    """One memory region: what lies in it and what orders it."""

    accesses: Members
    ordering: Members


def _regions(x: Execution) -> dict[str, _Region]:
    space_of = {location.name: location.space for location in x.program.locations}

    def lies_in(event: Event, space: Space) -> bool:
        return any(space_of[name] is space for name in event.places)

    regions: dict[str, _Region] = {}
    for tag, space in REGIONS.items():
        accesses = x.where(lambda e, s=space: lies_in(e, s))
        ordering = x.where(lambda e, t=tag, s=space: lies_in(e, s) or t in e.operation.tags)
        regions[tag] = _Region(accesses, ordering)
    return regions


def inclusive(x: Execution, a: Event, b: Event) -> bool:
    """Whether two operations have one scope, and their work-items share an instance of it."""
    scope = a.operation.scope
    if scope is None or scope is not b.operation.scope or scope is Scope.WORK_ITEM:
        return False
    return x.within(scope, a, b)


@dataclass(frozen=True, slots=True)
class OpenClModel:
    """OpenCL 2.x and 3.0: a race is undefined behaviour.

    The specification says that its rules admit values out of thin air and that implementations
    should not make them: `thin_air` follows the rules, without it the advice.
    """

    name: str = "opencl"
    undefined_on_race: bool = True
    thin_air: bool = True

    def constrain(self, x: Execution) -> Constraints:
        """Apply the two happens-before relations and the rules over them."""
        coherence = x.total_coherence()
        from_reads = x.from_reads(coherence)
        regions = _regions(x)
        synchronized = _synchronizes(x, coherence, regions)
        before = {tag: _before(x, regions[tag], synchronized[tag]) for tag in regions}
        either = before["global"] | before["local"]
        atomic_pair = x.pairs(lambda a, b: is_atomic(a) and is_atomic(b) and inclusive(x, a, b))
        racing = conflicts(x) - atomic_pair - either - either.inverse()
        observed = x.optional(x.reads_from.inverse()) @ coherence @ x.optional(x.reads_from)
        axioms = [
            Axiom("reads", Form.IRREFLEXIVE, x.reads_from @ either),
            Axiom("atomicity", Form.IRREFLEXIVE, (x.reads_from | from_reads) @ coherence),
            Axiom(
                "sequential consistency",
                Form.ACYCLIC,
                _sequential(x, coherence, from_reads, either),
            ),
            barriers_progress(x),
            *(() if self.thin_air else (no_thin_air(x),)),
        ]
        for tag, region in regions.items():
            axioms.append(Axiom(f"{tag} happens-before", Form.IRREFLEXIVE, before[tag]))
            axioms.append(Axiom(f"{tag} coherence", Form.IRREFLEXIVE, observed @ before[tag]))
            plain = {n: lit for n, lit in region.accesses.items() if not is_atomic(x.events[n])}
            unseen = x.reads_from.between(None, plain) - _visible(x, before[tag])
            axioms.append(Axiom(f"{tag} visible side effects", Form.EMPTY, unseen))
        return Constraints(
            axioms=tuple(axioms),
            overwrites=coherence,
            races=racing.inhabited(),
            shown={
                "rf": x.reads_from,
                "mo": coherence,
                "fr": from_reads,
                "gsw": synchronized["global"],
                "lsw": synchronized["local"],
                "barrier": x.meetings,
                "race": racing,
            },
        )


def _synchronizes(
    x: Execution, coherence: Relation, regions: dict[str, _Region]
) -> dict[str, Relation]:
    """Return global- and local-synchronizes-with.

    Two operations that order both regions, or are both sequentially consistent, synchronise both
    when they synchronise one.
    """
    in_one = {tag: _through(x, coherence, region) for tag, region in regions.items()}
    strong = x.where(lambda event: event.operation.order is Order.SEQ_CST)
    both_regions = {
        number: x.logic.both(lit, regions["local"].ordering[number])
        for number, lit in regions["global"].ordering.items()
        if number in regions["local"].ordering
    }

    def carried(relation: Relation) -> Relation:
        return relation.between(strong, strong) | relation.between(both_regions, both_regions)

    return {
        "global": in_one["global"] | carried(in_one["local"]),
        "local": in_one["local"] | carried(in_one["global"]),
    }


def _through(x: Execution, coherence: Relation, region: _Region) -> Relation:
    """Return release to acquire edges through the atomic objects of one region."""
    atomic = {n: lit for n, lit in region.accesses.items() if is_atomic(x.events[n])}
    writes = {n: lit for n, lit in atomic.items() if n in x.writes}
    reads = {n: lit for n, lit in atomic.items() if n in x.reads}
    releasing = {n: v for n, v in region.ordering.items() if releases(x.events[n])}
    acquiring = {n: v for n, v in region.ordering.items() if acquires(x.events[n])}
    first = x.optional(x.program_order.between(x.fences, None)).between(releasing, writes)
    last = x.optional(x.program_order.between(None, x.fences)).between(reads, acquiring)
    edges = first @ _release_sequence(x, coherence) @ x.reads_from.between(writes, reads) @ last
    return edges & x.pairs(lambda a, b: inclusive(x, a, b) and not x.same_thread(a, b))


def _release_sequence(x: Execution, coherence: Relation) -> Relation:
    """Return a write to itself and to what continues its release sequence without a gap."""
    after = coherence.between(x.where(lambda event: not event.is_initial), None)
    belongs = x.pairs(lambda a, b: (b.reads and b.writes and is_atomic(b)) or x.same_thread(a, b))
    gap = (after - belongs) @ after
    return x.optional((after & belongs) - gap)


def _before(x: Execution, region: _Region, synchronized: Relation) -> Relation:
    ordering = region.ordering
    po = x.program_order.between(ordering, ordering)
    barrier = po @ x.meetings.between(ordering, ordering)
    initial = x.after_initial().between(ordering, ordering)
    return (po | barrier | initial | synchronized).closure()


def _visible(x: Execution, before: Relation) -> Relation:
    """Return the visible side effects: a write before a read with no write in between."""
    here = before & x.same_place
    return here.between(x.writes, x.reads) - (here.between(None, x.writes) @ here)


def _sequential(
    x: Execution, coherence: Relation, from_reads: Relation, before: Relation
) -> Relation:
    """Return the edges between sequentially consistent operations of one scope."""
    strong = x.where(lambda event: event.operation.order is Order.SEQ_CST)
    if not strong:
        return Relation(x.logic, {})
    first = x.optional(x.program_order.between(x.fences, None)).between(strong, None)
    last = x.optional(x.program_order.between(None, x.fences)).between(None, strong)
    edges = first @ (from_reads | coherence | before) @ last
    return edges & x.pairs(lambda a, b: inclusive(x, a, b))
