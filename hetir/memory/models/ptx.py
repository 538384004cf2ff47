"""PTX: chapter 8, "Memory Consistency Model", of the PTX ISA.

The proxy rules beyond the chapter's (surfaces, textures, constants, aliases) follow its
definition of proxy fences and Lustig, Cooksey and Giroux, "Mixed-Proxy Extensions for the NVIDIA
PTX Memory Consistency Model" (ISCA 2022).
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
from hetir.memory.program import Order, Rmw, Scope
from hetir.memory.relation import Relation

GENERIC = "generic"
ALIAS = "alias"


def proxy_of(event: Event) -> str:
    """Return the method of access: `generic` unless a tag `proxy:NAME` says otherwise."""
    for tag in event.operation.tags:
        if tag.startswith("proxy:"):
            return tag.removeprefix("proxy:")
    return GENERIC


def is_proxy_fence(event: Event) -> bool:
    """Whether an event is `fence.proxy`, which is no memory fence."""
    return event.is_fence and event.operation.order is None


def is_strong(event: Event) -> bool:
    """Whether an event is a strong operation: a memory fence or an ordered access."""
    return event.operation.order is not None and not event.is_barrier


def morally_strong(x: Execution) -> Relation:
    """Return the pairs that section 8.7 calls morally strong."""

    def strong_pair(a: Event, b: Event) -> bool:
        if a.is_initial or b.is_initial or proxy_of(a) != proxy_of(b):
            return False
        return x.same_thread(a, b) or (is_strong(a) and is_strong(b) and x.includes(a, b))

    def accesses(a: Event, b: Event) -> bool:
        return bool(a.places) and bool(b.places)

    apart = x.pairs(lambda a, b: strong_pair(a, b) and not accesses(a, b))
    meeting = x.pairs(lambda a, b: strong_pair(a, b) and accesses(a, b)) & x.same_reference
    return apart | meeting


def observation(x: Execution, strong: Relation) -> Relation:
    """Return observation order: strong reads-from, through any chain of atomic operations."""
    seen = x.reads_from & strong
    updates = x.where(lambda event: event.reads and event.writes)
    return x.optional(seen.between(None, updates).closure()) @ seen


def synchronizes(x: Execution, strong: Relation, observed: Relation) -> Relation:
    """Return release patterns to acquire patterns, first operation to last."""
    strong_writes = x.where(lambda event: event.writes and is_strong(event))
    strong_reads = x.where(lambda event: event.reads and is_strong(event) and not _is_red(event))
    po, po_here = x.program_order, x.program_order & x.same_reference
    releasing = x.where(lambda event: event.writes and _has(event, releases=True))
    acquiring = x.where(lambda event: event.reads and _has(event, releases=False))
    release_fences = x.where(lambda event: event.is_fence and _has(event, releases=True))
    acquire_fences = x.where(lambda event: event.is_fence and _has(event, releases=False))
    release_pattern = x.optional(po_here).between(releasing, strong_writes) | po.between(
        release_fences, strong_writes
    )
    acquire_pattern = x.optional(po_here).between(strong_reads, acquiring) | po.between(
        strong_reads, acquire_fences
    )
    return (release_pattern @ observed @ acquire_pattern) & strong


def _has(event: Event, *, releases: bool) -> bool:
    order = event.operation.order
    return order is not None and (order.releases if releases else order.acquires)


def _is_red(event: Event) -> bool:
    return isinstance(event.operation, Rmw) and event.operation.register is None


def fence_order(x: Execution, strong: Relation) -> Relation:
    """Choose Fence-SC order: one direction for every morally strong pair of `fence.sc`."""
    fences = [e for e in x.events if e.is_fence and e.operation.order is Order.SEQ_CST]
    triples: list[tuple[int, int, int]] = []
    for position, a in enumerate(fences):
        for b in fences[:position]:
            if strong.at(a.number, b.number) > 0:
                happen = x.logic.both(a.happens, b.happens)
                forth = x.logic.variable()
                triples.append((a.number, b.number, x.logic.both(happen, forth)))
                triples.append((b.number, a.number, x.logic.both(happen, -forth)))
    return Relation.of(x.logic, triples)


def proxy_preserved(x: Execution, base: Relation) -> Relation:
    """Return the part of base causality order that reaches across methods of access."""
    here = base & x.same_reference
    proxies = {proxy_of(event) for event in x.events if event.places}
    if proxies <= {GENERIC} and x.same_reference is x.same_place:
        return here

    def same_proxy_and_block(a: Event, b: Event) -> bool:
        if proxy_of(a) != proxy_of(b):
            return False
        return proxy_of(a) == GENERIC or x.within(Scope.WORKGROUP, a, b)

    def hands_over(a: Event, b: Event) -> bool:
        """Whether `b` is the fence of `a`'s proxy, run where it has an effect: in its block."""
        fence, access = (a, b) if is_proxy_fence(a) else (b, a)
        return (
            is_proxy_fence(fence)
            and bool(access.places)
            and proxy_of(fence) == proxy_of(access)
            and x.within(Scope.WORKGROUP, fence, access)
        )

    generic = x.where(lambda event: bool(event.places) and proxy_of(event) == GENERIC)
    itself = Relation.identity(x.logic, generic)
    to_generic = itself | (base & x.pairs(lambda a, b: is_proxy_fence(b) and hands_over(a, b)))
    from_generic = itself | (base & x.pairs(lambda a, b: is_proxy_fence(a) and hands_over(a, b)))
    alias = x.where(lambda event: is_proxy_fence(event) and proxy_of(event) == ALIAS)
    linked = to_generic @ x.optional(base) @ from_generic
    aliased = to_generic @ base.between(None, alias) @ base @ from_generic
    return (
        (here & x.pairs(same_proxy_and_block))
        | (linked & x.same_reference).distinct()
        | (aliased & x.same_place).distinct()
    )


@dataclass(frozen=True, slots=True)
class PtxModel:
    """PTX for sm_70 and newer; a race limits what is promised but is not undefined."""

    name: str = "ptx"
    undefined_on_race: bool = False
    thin_air: bool = False

    def constrain(self, x: Execution) -> Constraints:
        """Apply the axioms of section 8.10."""
        strong = morally_strong(x)
        observed = observation(x, strong)
        synchronized = synchronizes(x, strong, observed)
        fences = fence_order(x, strong)
        base = (x.program_order | synchronized | fences | x.passes_barrier()).closure()
        preserved = proxy_preserved(x, base)
        causality = preserved | (observed @ preserved) | (x.after_initial() & x.same_place)
        coherence = x.partial_coherence(x.same_reference)
        from_reads = x.from_reads(coherence)
        axioms = (
            *_coherence_axioms(x, strong, causality, coherence),
            Axiom("fence-sc", Form.EMPTY, (base & strong).between(*_sc(x)) - fences),
            Axiom("fence-sc order", Form.ACYCLIC, fences),
            Axiom("atomicity", Form.IRREFLEXIVE, (from_reads & strong) @ (coherence & strong)),
            no_thin_air(x),
            Axiom(
                "sequential consistency per location",
                Form.ACYCLIC,
                (x.program_order & x.same_reference)
                | (strong & (x.reads_from | coherence | from_reads)),
            ),
            Axiom("causality", Form.IRREFLEXIVE, (x.reads_from | from_reads) @ causality),
            barriers_progress(x),
        )
        racing = conflicts(x) - strong - causality - causality.inverse()
        return Constraints(
            axioms=axioms,
            overwrites=coherence,
            races=racing.inhabited(),
            shown={
                "rf": x.reads_from,
                "co": coherence,
                "fr": from_reads,
                "sw": synchronized,
                "sc": fences,
                "barrier": x.meetings,
            },
        )


def _sc(x: Execution) -> tuple[dict[int, int], dict[int, int]]:
    fences = dict(x.where(lambda e: e.is_fence and e.operation.order is Order.SEQ_CST))
    return fences, fences


def _coherence_axioms(
    x: Execution, strong: Relation, causality: Relation, coherence: Relation
) -> tuple[Axiom, Axiom]:
    writes = x.writes
    causal = causality.between(writes, writes) & x.same_reference
    unrelated = strong.between(writes, writes) - coherence - coherence.inverse()
    return (
        Axiom("coherence", Form.EMPTY, causal - coherence),
        Axiom("coherence is total where strong", Form.EMPTY, unrelated),
    )
