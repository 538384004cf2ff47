"""AArch64: the multi-copy-atomic model of the Arm Architecture Reference Manual, chapter B2.

After Pulte, Flur, Deacon, French, Sarkar and Sewell, "Simplifying ARM Concurrency" (POPL 2018).
The tags `A`, `Q` and `L` are a load-acquire, a load-acquirePC and a store-release; `dmb.full`,
`dmb.ld` and `dmb.st` are the barriers. A read-modify-write orders its read and its write
separately, so the order is over halves of events: number 2n is the read of event n, 2n + 1 its
write (or the whole of a fence).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hetir.memory.events import Event
from hetir.memory.execution import Execution
from hetir.memory.models.base import (
    Axiom,
    Constraints,
    Form,
    barriers_progress,
    control_dependencies,
)
from hetir.memory.relation import Relation

READ, WRITE = 0, 1


@dataclass(frozen=True, slots=True)
class AArch64Model:
    """AArch64 with LSE atomics and RCpc loads (Armv8.3)."""

    name: str = "aarch64"
    undefined_on_race: bool = False
    thin_air: bool = False

    def constrain(self, x: Execution) -> Constraints:
        """Apply the internal, external and atomic visibility requirements."""
        coherence = x.total_coherence()
        from_reads = x.from_reads(coherence)
        communication = x.reads_from | coherence | from_reads
        axioms = (
            Axiom("internal", Form.ACYCLIC, (x.program_order & x.same_place) | communication),
            Axiom("external", Form.ACYCLIC, _ordered_before(x, coherence, from_reads)),
            Axiom("atomicity", Form.IRREFLEXIVE, from_reads @ coherence),
            barriers_progress(x),
        )
        return Constraints(
            axioms=axioms,
            overwrites=coherence,
            shown={"rf": x.reads_from, "co": coherence, "fr": from_reads},
        )


def _halves(relation: Relation, sources: Iterable[int], targets: Iterable[int]) -> Relation:
    """Return a relation between the given halves of the events it relates."""
    sources, targets = tuple(sources), tuple(targets)
    return Relation.of(
        relation.logic,
        (
            (2 * a + i, 2 * b + j, literal)
            for a, b, literal in relation.pairs()
            for i in sources
            for j in targets
        ),
    )


def _tagged(x: Execution, *tags: str) -> dict[int, int]:
    return dict(x.where(lambda event: not event.operation.tags.isdisjoint(tags)))


def _ordered_before(x: Execution, coherence: Relation, from_reads: Relation) -> Relation:
    external = x.pairs(lambda a, b: not x.same_thread(a, b))
    observed = (
        _halves(x.reads_from & external, (WRITE,), (READ,))
        | _halves(coherence & external, (WRITE,), (WRITE,))
        | _halves(from_reads & external, (READ,), (WRITE,))
    )
    updates = x.where(lambda event: event.reads and event.writes)
    atomic = Relation.of(x.logic, ((2 * n, 2 * n + 1, lit) for n, lit in updates.items()))
    return observed | atomic | _dependent(x) | _barriers(x)


def _dependent(x: Execution) -> Relation:
    """Data and address dependencies, control dependencies to writes, and what they extend to."""
    data = _uses(x, (WRITE,), lambda event: event.data)
    address = _uses(x, (READ, WRITE), lambda event: event.address)
    control = _halves(control_dependencies(x), (READ,), (WRITE,))
    later = _halves(x.program_order.between(None, x.writes), (READ, WRITE), (WRITE,))
    internal = x.reads_from & x.pairs(x.same_thread)
    forwarded = _halves(internal, (WRITE,), (READ,))
    return data | address | control | (address @ later) | ((data | address) @ forwarded)


def _uses(
    x: Execution, parts: tuple[int, ...], uses_of: Callable[[Event], frozenset[int]]
) -> Relation:
    both = x.logic.both
    return Relation.of(
        x.logic,
        (
            (2 * use, 2 * event.number + part, both(x.events[use].happens, event.happens))
            for event in x.events
            for use in uses_of(event)
            for part in parts
        ),
    )


def _barriers(x: Execution) -> Relation:
    po = x.program_order
    both = (READ, WRITE)
    reads, writes = x.reads, x.writes
    full = _tagged(x, "dmb.full")
    loads, stores = _tagged(x, "dmb.ld"), _tagged(x, "dmb.st")
    acquiring, acquires, releases = _tagged(x, "A", "Q"), _tagged(x, "A"), _tagged(x, "L")
    return (
        _halves(po.between(None, full) @ po.between(full, None), both, both)
        | _halves(po.between(reads, loads) @ po.between(loads, None), (READ,), both)
        | _halves(po.between(writes, stores) @ po.between(stores, writes), (WRITE,), (WRITE,))
        | _halves(po.between(acquiring, None), (READ,), both)
        | _halves(po.between(None, releases), both, (WRITE,))
        | _halves(po.between(releases, acquires), (WRITE,), (READ,))
        | _halves(x.passes_barrier(), both, both)
    )
