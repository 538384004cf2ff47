"""The rows of CPUs. One thread runs a whole workgroup, so narrower orders are program order."""

from __future__ import annotations

from collections.abc import Mapping

from hetir.memory.lowering.rows import GRID_BARRIER, Kind, Part, Row, Step, refuse, row
from hetir.memory.program import Order, Scope

X86 = "cpu:x86-64"
AARCH64 = "cpu:aarch64"

_X86_TEXT: Mapping[Kind, str] = {
    Kind.LOAD: "mov",
    Kind.STORE: "mov",
    Kind.RMW: "lock {operation}",
    Kind.REDUCTION: "lock {operation}",
    Kind.CAS: "lock cmpxchg",
}
_FULL_BARRIER = (
    "LLVM writes a locked `or` of nothing to the stack instead of `mfence` where that is faster: "
    "as full a barrier"
)
_SAME_THREAD = "one thread runs a workgroup: its program order is enough"


def x86(target: str, kind: Kind, order: Order | None, scope: Scope) -> Row:
    """Return x86-64's row."""
    narrow = _cpu_narrow(target, kind, order, scope)
    if narrow is not None:
        return narrow
    if kind is Kind.FENCE:
        if order is not Order.SEQ_CST:
            return row(target, kind, order, scope, note="x86 orders this by itself")
        step = Step(
            part=Part.FENCE, text="mfence", order=order, scope=scope, tags=frozenset({"mfence"})
        )
        return row(target, kind, order, scope, step, note=_FULL_BARRIER)
    if kind is Kind.STORE and order is Order.SEQ_CST:
        step = Step(
            part=Part.ACCESS,
            text="xchg",
            order=order,
            scope=scope,
            tags=frozenset({"exchange"}),
        )
        return row(target, kind, order, scope, step)
    step = Step(part=Part.ACCESS, text=_X86_TEXT[kind], order=order, scope=scope)
    return row(target, kind, order, scope, step)


_AARCH64_SUFFIX: Mapping[Order, tuple[str, frozenset[str]]] = {
    Order.RELAXED: ("", frozenset()),
    Order.ACQUIRE: ("a", frozenset({"A"})),
    Order.RELEASE: ("l", frozenset({"L"})),
    Order.ACQ_REL: ("al", frozenset({"A", "L"})),
    Order.SEQ_CST: ("al", frozenset({"A", "L"})),
}
_AARCH64_LOADS: Mapping[Order, tuple[str, frozenset[str]]] = {
    Order.RELAXED: ("ldr", frozenset()),
    Order.ACQUIRE: ("ldapr", frozenset({"Q"})),
    Order.SEQ_CST: ("ldar", frozenset({"A"})),
}
_AARCH64_STORES: Mapping[Order, tuple[str, frozenset[str]]] = {
    Order.RELAXED: ("str", frozenset()),
    Order.RELEASE: ("stlr", frozenset({"L"})),
    Order.SEQ_CST: ("stlr", frozenset({"L"})),
}
_AARCH64_FENCES: Mapping[Order, tuple[str, frozenset[str]]] = {
    Order.ACQUIRE: ("dmb ishld", frozenset({"dmb.ld"})),
    Order.RELEASE: ("dmb ish", frozenset({"dmb.full"})),
    Order.ACQ_REL: ("dmb ish", frozenset({"dmb.full"})),
    Order.SEQ_CST: ("dmb ish", frozenset({"dmb.full"})),
}


def aarch64(target: str, kind: Kind, order: Order | None, scope: Scope) -> Row:
    """Return AArch64's row, with LSE atomics and RCpc loads (Armv8.3)."""
    narrow = _cpu_narrow(target, kind, order, scope)
    if narrow is not None:
        return narrow
    if order is None:
        text, tags = _AARCH64_LOADS[Order.RELAXED]
        if kind is Kind.STORE:
            text, tags = _AARCH64_STORES[Order.RELAXED]
        return row(target, kind, order, scope, Step(part=Part.ACCESS, text=text, tags=tags))
    if kind is Kind.FENCE:
        if order is Order.RELAXED:
            return row(target, kind, order, scope)
        text, tags = _AARCH64_FENCES[order]
        step = Step(part=Part.FENCE, text=text, order=order, scope=scope, tags=tags)
        return row(target, kind, order, scope, step)
    match kind:
        case Kind.LOAD:
            text, tags = _AARCH64_LOADS[order]
        case Kind.STORE:
            text, tags = _AARCH64_STORES[order]
        case _:
            suffix, tags = _AARCH64_SUFFIX[order]
            text = f"cas{suffix}" if kind is Kind.CAS else f"ld{{operation}}{suffix}"
    step = Step(part=Part.ACCESS, text=text, order=order, scope=scope, tags=tags)
    return row(target, kind, order, scope, step)


def _cpu_narrow(target: str, kind: Kind, order: Order | None, scope: Scope) -> Row | None:
    """Return the row of what stays within one thread, or None for the rest."""
    if kind is Kind.BARRIER and scope is Scope.DEVICE:
        return refuse(target, kind, order, scope, GRID_BARRIER)
    if kind is Kind.BARRIER:
        return row(target, kind, order, scope, note="the loop over work-items ends and restarts")
    if scope not in {Scope.SUBGROUP, Scope.WORKGROUP} or order is None:
        return None
    if kind is Kind.FENCE:
        return row(target, kind, order, scope, note=_SAME_THREAD)
    step = Step(part=Part.ACCESS, text="plain access")
    return row(target, kind, order, scope, step, note=_SAME_THREAD)
