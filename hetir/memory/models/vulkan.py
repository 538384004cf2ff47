"""Vulkan: the appendix "Memory Model" of the Vulkan specification.

An access carries its storage class as a tag `sc0`, `sc1`, ..., an operation with semantics the
classes it orders as `semsc0`, ..., and `av`, `vis`, `semav`, `semvis`, `nonprivate` what makes
writes available and visible. `avdevice` and `visdevice` tag the host's operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

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
from hetir.memory.program import SCOPES, Scope
from hetir.memory.relation import Relation

DOMAINS = (Scope.SUBGROUP, Scope.WORKGROUP, Scope.QUEUE_FAMILY, Scope.DEVICE)
"""The memory domains of shaders, from the narrowest, by the scope each is the dual of."""


def is_atomic(event: Event) -> bool:
    """Whether an access is atomic."""
    return bool(event.places) and event.operation.order is not None


def storage_class(event: Event) -> frozenset[str]:
    """Return the storage class of an access, as a set of one name, or of none."""
    return _with_prefix(event.operation.tags, "sc")


def semantics(event: Event) -> frozenset[str]:
    """Return the storage classes in the semantics of an operation."""
    return _with_prefix(event.operation.tags, "semsc")


@cache
def _with_prefix(tags: frozenset[str], prefix: str) -> frozenset[str]:
    return frozenset(tag.removeprefix("sem") for tag in tags if tag.startswith(prefix))


def releases(event: Event) -> bool:
    """Whether an event is a release barrier or an atomic write that releases."""
    order = event.operation.order
    return order is not None and order.releases and (event.writes or not event.places)


def acquires(event: Event) -> bool:
    """Whether an event is an acquire barrier or an atomic read that acquires."""
    order = event.operation.order
    return order is not None and order.acquires and (event.reads or not event.places)


def is_nonprivate(event: Event) -> bool:
    """Whether an access takes part in the ordering between agents."""
    return is_atomic(event) or bool(event.operation.tags & {"nonprivate", "av", "vis"})


def makes_available(event: Event, domain: Scope) -> bool:
    """Whether an event performs an availability operation that reaches `domain`."""
    implicit = event.writes and (is_atomic(event) or "av" in event.operation.tags)
    return (implicit or _has(event, "semav")) and _reaches(event, domain)


def makes_visible(event: Event, domain: Scope) -> bool:
    """Whether an event performs a visibility operation from `domain`."""
    implicit = event.reads and (is_atomic(event) or "vis" in event.operation.tags)
    return (implicit or _has(event, "semvis")) and _reaches(event, domain)


def _has(event: Event, tag: str) -> bool:
    return tag in event.operation.tags


def _reaches(event: Event, domain: Scope) -> bool:
    scope = event.operation.scope
    return scope is not None and SCOPES.index(scope) >= SCOPES.index(domain)


def mutually_ordered(x: Execution) -> Relation:
    """Return the pairs of atomics at one place and reference whose scopes include each other."""
    together = x.pairs(lambda a, b: is_atomic(a) and is_atomic(b) and x.includes(a, b))
    return together & x.same_reference


def synchronizes(x: Execution, ordered: Relation) -> Relation:
    """Return synchronizes-with: atomics and barriers, and barriers through a control barrier."""
    read = x.reads_from & ordered
    updates = x.where(lambda event: event.reads and event.writes and is_atomic(event))
    sequence = x.optional(read.between(None, updates).closure())
    po = x.program_order
    to_write = po & x.pairs(lambda a, b: storage_class(b) <= semantics(a) and b.writes)
    from_read = po & x.pairs(lambda a, b: storage_class(a) <= semantics(b) and a.reads)
    atomic_writes = x.where(lambda event: is_atomic(event) and event.writes)
    atomic_reads = x.where(lambda event: is_atomic(event) and event.reads)
    release_barriers = x.where(lambda event: releases(event) and not event.places)
    acquire_barriers = x.where(lambda event: acquires(event) and not event.places)
    release = Relation.identity(
        x.logic, x.where(lambda event: releases(event) and event.writes)
    ) | to_write.between(release_barriers, atomic_writes)
    acquire = Relation.identity(
        x.logic, x.where(lambda event: acquires(event) and event.reads)
    ) | from_read.between(atomic_reads, acquire_barriers)
    through_atomics = release @ sequence @ read @ acquire
    through_barrier = (
        x.optional(po).between(release_barriers, x.barriers)
        @ x.meetings
        @ x.optional(po).between(x.barriers, acquire_barriers)
    )
    return (through_atomics | through_barrier) & x.pairs(x.includes)


def system_synchronizes(x: Execution) -> Relation:
    """Return the pairs that the host orders, transitively."""
    before = set(x.program.synchronized)
    threads = range(len(x.program.threads))
    for middle in threads:
        before |= {(a, b) for a in threads for b in threads if {(a, middle), (middle, b)} <= before}
    return x.pairs(lambda a, b: (a.thread, b.thread) in before)


def happens_before(x: Execution, synchronized: Relation, system: Relation) -> Relation:
    """Return program order with inter-thread-happens-before of every useful set of classes."""
    found = x.program_order
    for classes in _class_sets(x):
        found |= _inter_thread(x, classes, synchronized, system)
    return found


def _class_sets(x: Execution) -> Iterator[frozenset[str]]:
    """Yield the sets of storage classes that need looking at.

    A larger set takes in more accesses and fewer semantics, so only sets that are exactly what
    some operations have in common can relate anything new.
    """
    masks = {semantics(event) for event in x.events} - {frozenset[str]()}
    closed = set(masks)
    while True:
        more = {a & b for a in closed for b in masks} - closed - {frozenset[str]()}
        if not more:
            break
        closed |= more
    yield from sorted(closed, key=sorted) or [frozenset({"none"})]


def _inter_thread(
    x: Execution, classes: frozenset[str], synchronized: Relation, system: Relation
) -> Relation:
    def ordered(event: Event) -> bool:
        return classes <= semantics(event)

    touching = x.where(lambda event: bool(storage_class(event) & classes) or ordered(event))
    both = x.where(ordered)
    released = x.program_order.between(
        touching, x.where(lambda event: ordered(event) and releases(event))
    )
    acquired = x.program_order.between(
        x.where(lambda event: ordered(event) and acquires(event)), touching
    )
    return (system | synchronized.between(both, both) | released | acquired).closure()


@dataclass(frozen=True, slots=True)
class _Domain:
    """Availability to and visibility from one memory domain, as chains of operations."""

    order: Relation
    available: Relation
    visible: Relation


def _included(x: Execution) -> Relation:
    """Return which accesses an availability or visibility operation includes, both ways round."""
    host = x.pairs(
        lambda a, b: (
            (bool(a.places) and _has(b, "avdevice")) or (_has(a, "visdevice") and bool(b.places))
        )
    )
    by_class = x.pairs(
        lambda a, b: (
            (_has(b, "semav") and bool(storage_class(a) & semantics(b)))
            or (_has(a, "semvis") and bool(storage_class(b) & semantics(a)))
        )
    )
    own = x.where(
        lambda event: (
            makes_available(event, Scope.SUBGROUP)
            or makes_visible(event, Scope.SUBGROUP)
            or bool(event.operation.tags & {"av", "vis"})
        )
    )
    accesses = {number: lit for number, lit in own.items() if x.events[number].places}
    per_access = x.same_reference.between(accesses, None)
    return host | by_class | per_access | per_access.inverse()


def _chained(x: Execution) -> Relation:
    """Return the steps of a chain from one operation with semantics to the next.

    The next one must cover every storage class of the one before (for visibility, the other way
    round), so that whatever the chain began with it also ends with.
    """
    return x.pairs(
        lambda a, b: (
            (_has(a, "semav") and _has(b, "semav") and semantics(a) <= semantics(b))
            or (_has(a, "semvis") and _has(b, "semvis") and semantics(b) <= semantics(a))
        )
    )


def _domains(x: Execution, before: Relation, included: Relation) -> list[_Domain]:
    """Build each domain's chains from those of the narrower ones."""
    domains: list[_Domain] = []
    steps = included | _chained(x)
    for domain in DOMAINS:
        inside = before
        if domain is not Scope.DEVICE:
            inside = before & x.pairs(lambda a, b, d=domain: x.within(d, a, b))
        available = Relation.identity(
            x.logic, x.where(lambda event, d=domain: makes_available(event, d))
        )
        visible = Relation.identity(
            x.logic, x.where(lambda event, d=domain: makes_visible(event, d))
        )
        for narrower in reversed(domains):
            step = narrower.order & steps
            available = x.optional(narrower.available @ step) @ available
            visible = visible @ x.optional(step @ narrower.visible)
        domains.append(_Domain(inside, available, visible))
    return domains


def location_order(x: Execution, before: Relation, system: Relation) -> Relation:
    """Return location-ordered: what is ordered, and available and visible where it must be."""
    included = _included(x)
    shared = x.where(lambda event: bool(event.places) and is_nonprivate(event))
    writes = {number: lit for number, lit in shared.items() if number in x.writes}
    reads = {number: lit for number, lit in shared.items() if number in x.reads}
    alone = before & x.pairs(x.same_thread) & x.same_reference
    after_read = before.between(reads, shared) | system.between(x.reads, x.accesses)
    around = x.optional(x.program_order) & included
    across = Relation(x.logic, {})
    for domain in _domains(x, before, included):
        reached = around.between(writes, None) @ domain.available @ domain.order
        across |= reached.between(None, writes)
        across |= (reached @ domain.visible @ around).between(None, reads)
    host_available = (before & included).between(
        x.writes, x.where(lambda event: _has(event, "avdevice"))
    ) @ before
    seen = host_available.between(None, x.where(lambda event: _has(event, "visdevice"))) @ (
        before & included
    )
    by_host = host_available.between(None, x.writes) | seen.between(None, x.reads)
    ordered = alone | ((after_read | by_host) & x.same_place) | (across & x.same_reference)
    return ordered.distinct()


@dataclass(frozen=True, slots=True)
class VulkanModel:
    """Vulkan with availability and visibility chains; SPIR-V's `Vulkan` memory model.

    The specification says nothing of values out of thin air (`thin_air`); that no implementation
    makes them is what a mapping to Vulkan assumes.
    """

    name: str = "vulkan"
    undefined_on_race: bool = False
    thin_air: bool = True

    def constrain(self, x: Execution) -> Constraints:
        """Apply the section "Acyclicity" and the rule of visible-to."""
        ordered = mutually_ordered(x)
        synchronized = synchronizes(x, ordered)
        system = system_synchronizes(x)
        before = happens_before(x, synchronized, system)
        locations = location_order(x, before, system)
        writes_ordered = ordered.between(x.writes, x.writes)
        modification = x.total_coherence(writes_ordered)
        plain_reads = x.where(lambda event: event.reads and not is_atomic(event))
        over = locations.between(x.writes, x.writes)
        # the write that was read counts as earlier only where it is ordered before the read
        seen = (x.reads_from & locations).inverse()
        from_reads = (x.reads_from.inverse() @ modification | seen @ over).distinct()
        shadowed = (over @ locations).between(x.writes, plain_reads)
        racing = conflicts(x) - ordered - locations - locations.inverse()
        axioms = (
            Axiom(
                "acyclicity",
                Form.ACYCLIC,
                locations | modification | x.reads_from | from_reads,
            ),
            Axiom("visible-to", Form.EMPTY, x.reads_from & shadowed),
            barriers_progress(x),
            *(() if self.thin_air else (no_thin_air(x),)),
        )
        return Constraints(
            axioms=axioms,
            overwrites=modification | over,
            races=racing.inhabited(),
            shown={
                "rf": x.reads_from,
                "asmo": modification,
                "locord": locations,
                "fr": from_reads,
                "sw": synchronized,
                "barrier": x.meetings,
                "race": racing,
            },
        )
