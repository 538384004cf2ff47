"""PTX's rows: "PTX Writer's Guide to Interoperability", chapter "Atomics ABI", and the ISA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hetir.memory.lowering.rows import GRID_BARRIER, Kind, Part, Row, Step, refuse, row
from hetir.memory.program import Order, Scope

PTX_SM_75 = "ptx:sm_75"
PTX_SM_90 = "ptx:sm_90"

_PTX_SCOPES: Mapping[Scope, tuple[str, Scope]] = {
    # a warp is no scope of PTX's model: its smallest is the block
    Scope.SUBGROUP: ("cta", Scope.WORKGROUP),
    Scope.WORKGROUP: ("cta", Scope.WORKGROUP),
    Scope.DEVICE: ("gpu", Scope.DEVICE),
    Scope.SYSTEM: ("sys", Scope.SYSTEM),
}
_PTX_OPCODES: Mapping[Kind, str] = {
    Kind.LOAD: "ld",
    Kind.STORE: "st",
    Kind.RMW: "atom",
    Kind.REDUCTION: "atom",
    Kind.CAS: "atom",
}
_PTX_WEAKER: Mapping[Kind, Order] = {
    # what follows the fence.sc of a seq_cst access
    Kind.LOAD: Order.ACQUIRE,
    Kind.STORE: Order.RELAXED,
    Kind.RMW: Order.ACQUIRE,
    Kind.REDUCTION: Order.ACQUIRE,
    Kind.CAS: Order.ACQUIRE,
}


def rows(target: str, kind: Kind, order: Order | None, scope: Scope) -> Row:
    """Return PTX's row, for the generations before or from sm_90."""
    name, wide = _PTX_SCOPES[scope]
    if kind is Kind.BARRIER:
        return _ptx_barrier(target, scope)
    if kind is Kind.FENCE:
        assert order is not None
        return row(target, kind, order, scope, *_ptx_fence(target, order, name, wide))
    if order is None:
        opcode = _PTX_OPCODES[kind]
        step = Step(part=Part.ACCESS, text=f"{opcode}.weak.{{space}}.{{type}}")
        return row(target, kind, order, scope, step)
    if order is not Order.SEQ_CST:
        made = row(target, kind, order, scope, _ptx_access(kind, order, name, wide))
        if kind is not Kind.REDUCTION or order.acquires:
            return made
        return replace(made, unfenced=(_ptx_red(order, name, wide),), note=_RED_NOTE)
    fence = Step(part=Part.FENCE, text=f"fence.sc.{name}", order=Order.SEQ_CST, scope=wide)
    return row(target, kind, order, scope, fence, _ptx_access(kind, _PTX_WEAKER[kind], name, wide))


def _ptx_access(kind: Kind, order: Order, name: str, wide: Scope) -> Step:
    operation = {
        Kind.LOAD: "",
        Kind.STORE: "",
        Kind.CAS: ".cas",
    }.get(kind, ".{operation}")
    text = f"{_PTX_OPCODES[kind]}.{order}.{name}.{{space}}{operation}.{{type}}"
    return Step(part=Part.ACCESS, text=text, order=order, scope=wide)


def _ptx_red(order: Order, name: str, wide: Scope) -> Step:
    text = f"red.{order}.{name}.{{space}}.{{operation}}.{{type}}"
    return Step(part=Part.ACCESS, text=text, order=order, scope=wide, tags=frozenset({"red"}))


_RED_NOTE = (
    "`red` reads nothing that a later fence could acquire (section 8.8), so it stands for a "
    "reduction only where no acquire fence of the work-item follows"
)


def _ptx_fence(target: str, order: Order, name: str, wide: Scope) -> tuple[Step, ...]:
    if order is Order.RELAXED:
        return ()
    emitted = order
    if target == PTX_SM_75 and order is not Order.SEQ_CST:
        # assemblers accept fence.acquire and fence.release below sm_90 and emit nothing for them
        emitted = Order.ACQ_REL
    word = "sc" if emitted is Order.SEQ_CST else str(emitted)
    return (Step(part=Part.FENCE, text=f"fence.{word}.{name}", order=emitted, scope=wide),)


def _ptx_barrier(target: str, scope: Scope) -> Row:
    if scope is Scope.DEVICE:
        return refuse(target, Kind.BARRIER, Order.ACQ_REL, scope, GRID_BARRIER)
    text = "bar.warp.sync {mask}" if scope is Scope.SUBGROUP else "bar.sync 0"
    step = Step(part=Part.BARRIER, text=text, order=Order.ACQ_REL, scope=_PTX_SCOPES[scope][1])
    return row(target, Kind.BARRIER, Order.ACQ_REL, scope, step)
