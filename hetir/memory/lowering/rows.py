"""What a row of the lowering table is, and the operations it has rows for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from hetir.memory.program import Order, Scope

IR_SCOPES = (Scope.SUBGROUP, Scope.WORKGROUP, Scope.DEVICE, Scope.SYSTEM)
BARRIER_SCOPES = IR_SCOPES[:3]


class Kind(StrEnum):
    """hetIR's memory operations; a reduction is a read-modify-write whose old value is unused."""

    LOAD = "load"
    STORE = "store"
    RMW = "rmw"
    REDUCTION = "reduction"
    CAS = "cas"
    FENCE = "fence"
    BARRIER = "barrier"


class Part(StrEnum):
    """What a step is: the access itself, a fence, a barrier, or an update of a hidden word."""

    ACCESS = "access"
    FENCE = "fence"
    BARRIER = "barrier"
    HIDDEN_UPDATE = "hidden update"
    CACHE = "cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One instruction, as text and as its memory model sees it."""

    part: Part
    text: str
    order: Order | None = None
    scope: Scope | None = None
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One entry of the table: the steps, or `refused` with the sentence that the user reads.

    `unfenced` are cheaper steps (where there are any) that are right only if the work-item runs
    no acquire, acq_rel or seq_cst fence after the operation.
    """

    target: str
    kind: Kind
    order: Order | None
    scope: Scope
    steps: tuple[Step, ...] = ()
    unfenced: tuple[Step, ...] = ()
    refused: str = ""
    note: str = ""


GRID_BARRIER = (
    "no single instruction waits for the grid; a cooperative kernel's barrier is an arrival by "
    "atomic_add(acq_rel, device) of one work-item a workgroup, between two workgroup barriers"
)


def row(
    target: str, kind: Kind, order: Order | None, scope: Scope, *steps: Step, note: str = ""
) -> Row:
    """Return a row of what is emitted."""
    return Row(target=target, kind=kind, order=order, scope=scope, steps=steps, note=note)


def refuse(target: str, kind: Kind, order: Order | None, scope: Scope, why: str) -> Row:
    """Return a row that refuses, with the sentence that the user reads."""
    return Row(target=target, kind=kind, order=order, scope=scope, refused=why)


ACCESSES = (Kind.LOAD, Kind.STORE, Kind.RMW, Kind.REDUCTION, Kind.CAS)


def impossible(kind: Kind, order: Order | None) -> str:
    """Say why no target has this operation with this order."""
    if kind is Kind.LOAD and order in {Order.RELEASE, Order.ACQ_REL}:
        return "a load cannot release; use acquire, or seq_cst"
    if kind is Kind.STORE and order in {Order.ACQUIRE, Order.ACQ_REL}:
        return "a store cannot acquire; use release, or seq_cst"
    return ""


def operations() -> Iterator[tuple[Kind, Order | None, Scope]]:
    """Yield every (operation, order, scope) of hetIR."""
    for kind in ACCESSES:
        orders = (None, *Order) if kind in {Kind.LOAD, Kind.STORE} else tuple(Order)
        for order in orders:
            for scope in IR_SCOPES:
                yield kind, order, scope
    for order in Order:
        for scope in IR_SCOPES:
            yield Kind.FENCE, order, scope
    for scope in BARRIER_SCOPES:
        yield Kind.BARRIER, Order.ACQ_REL, scope
