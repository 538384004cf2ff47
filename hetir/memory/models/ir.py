"""hetIR's own model: RC11 with scopes and barriers (docs/memory-model.md has it in prose).

After Lahav, Vafeiadis, Kang, Hur and Dreyer, "Repairing Sequential Consistency in C/C++11"
(PLDI 2017), with C++20's release sequences and the inclusive scopes of heterogeneous models.
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
from hetir.memory.program import Order
from hetir.memory.relation import Relation


def is_atomic(event: Event) -> bool:
    """Whether an access is atomic."""
    return (event.reads or event.writes) and event.operation.order is not None


def acquires(event: Event) -> bool:
    """Whether an event acquires: an atomic read or a fence of such an order."""
    order = event.operation.order
    return order is not None and order.acquires and (event.reads or event.is_fence)


def releases(event: Event) -> bool:
    """Whether an event releases: an atomic write or a fence of such an order."""
    order = event.operation.order
    return order is not None and order.releases and (event.writes or event.is_fence)


def synchronizes(x: Execution) -> Relation:
    """Return release to acquire edges: through accesses, fences, and release sequences."""
    atomic = x.where(is_atomic)
    inclusive = x.pairs(x.includes)
    reads_from = x.reads_from.between(atomic, atomic) & (inclusive | x.pairs(x.same_thread))
    updates = x.where(lambda event: is_atomic(event) and event.reads and event.writes)
    sequence = x.optional(reads_from.between(None, updates).closure())
    fence_first = x.optional(x.program_order.between(x.fences, atomic))
    fence_last = x.optional(x.program_order.between(atomic, x.fences))
    observed = (fence_first.between(x.where(releases), x.where(_atomic_write)) @ sequence) @ (
        reads_from @ fence_last.between(None, x.where(acquires))
    )
    return observed & inclusive


def _atomic_write(event: Event) -> bool:
    return is_atomic(event) and event.writes


@dataclass(frozen=True, slots=True)
class IrModel:
    """hetIR: a race is undefined behaviour."""

    name: str = "hetir"
    undefined_on_race: bool = True
    thin_air: bool = False

    def constrain(self, x: Execution) -> Constraints:
        """Apply the axioms of docs/memory-model.md."""
        coherence = x.total_coherence()
        from_reads = x.from_reads(coherence)
        synchronized = synchronizes(x)
        happens_before = (
            x.program_order | synchronized | x.passes_barrier() | x.after_initial()
        ).closure()
        communication = (x.reads_from | coherence | from_reads).closure()
        psc = _sequential(x, happens_before, coherence, from_reads, communication)
        atomic_pair = x.pairs(lambda a, b: is_atomic(a) and is_atomic(b) and x.includes(a, b))
        racing = conflicts(x) - atomic_pair - happens_before - happens_before.inverse()
        axioms = (
            Axiom("happens-before", Form.IRREFLEXIVE, happens_before),
            Axiom("coherence", Form.IRREFLEXIVE, happens_before @ communication),
            Axiom("atomicity", Form.IRREFLEXIVE, (x.reads_from | from_reads) @ coherence),
            Axiom("sequential consistency", Form.ACYCLIC, psc),
            no_thin_air(x),
            barriers_progress(x),
        )
        return Constraints(
            axioms=axioms,
            overwrites=coherence,
            races=racing.inhabited(),
            shown={
                "rf": x.reads_from,
                "co": coherence,
                "fr": from_reads,
                "sw": synchronized,
                "barrier": x.meetings,
                "race": racing,
            },
        )


def _sequential(
    x: Execution,
    happens_before: Relation,
    coherence: Relation,
    from_reads: Relation,
    communication: Relation,
) -> Relation:
    """Return RC11's partial SC order, kept to pairs whose scopes include each other."""
    strong = x.where(lambda event: event.operation.order is Order.SEQ_CST)
    if not strong:
        return Relation(x.logic, {})
    fences = x.where(lambda event: event.is_fence and event.operation.order is Order.SEQ_CST)
    accesses = {number: lit for number, lit in strong.items() if number not in fences}
    elsewhere = x.program_order - x.same_place
    before = (
        x.program_order
        | (elsewhere @ happens_before @ elsewhere)
        | (happens_before & x.same_place)
        | coherence
        | from_reads
    )
    into = Relation.identity(x.logic, accesses) | x.optional(happens_before).between(fences, None)
    out = Relation.identity(x.logic, accesses) | x.optional(happens_before).between(None, fences)
    base = into @ before @ out
    through = happens_before | (happens_before @ communication @ happens_before)
    return (base | through.between(fences, fences)) & x.pairs(x.includes)
