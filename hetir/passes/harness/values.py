"""Numbers and memory operations of the checker, from hetIR's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hetir.ir.core import Operation
from hetir.ir.types import Scalar
from hetir.memory import program as mp
from hetir.memory.program import Binary, Const, Expr, Order, Scope
from hetir.passes.harness.places import integer

BINARY: Mapping[str, str] = {
    **{"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"},
    **{"min": "min", "max": "max", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">"},
    **{"ge": ">=", "shl": "<<", "shr": ">>"},
}
"""The checker's operation for an op of two operands."""


def computed(op: Operation, operands: Sequence[Expr]) -> Expr:
    """The result of a pure op whose operands are known."""
    kind = op.result.type
    assert isinstance(kind, Scalar)
    assert op.spec.evaluate is not None
    lanes: list[np.ndarray[Any, Any]] = []
    for value, operand in zip(op.operands, operands, strict=True):
        assert isinstance(operand, Const)
        assert isinstance(value.type, Scalar)
        lanes.append(np.array(operand.value).astype(value.type.numpy))
    with np.errstate(all="ignore"):
        result = op.spec.evaluate(op.attrs, kind.numpy, *lanes)
    return Const(integer(np.asarray(result)[()], op))


def added(a: Expr, b: Expr) -> Expr:
    """The sum, computed if both are known."""
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(a.value + b.value)
    if Const(0) in (a, b):
        return b if a == Const(0) else a
    return Binary("+", a, b)


def times(a: Expr, by: int) -> Expr:
    """The product with a known number."""
    if isinstance(a, Const):
        return Const(a.value * by)
    return a if by == 1 else Binary("*", a, Const(by))


def facts(op: Operation, address: mp.Address | None) -> dict[str, Any]:
    """What every memory operation has: order, scope, its words and its place."""
    order = Order(str(op.attrs["order"])) if "order" in op.attrs else None
    scope = Scope(str(op.attrs["scope"])) if "scope" in op.attrs else None
    return {"order": order, "scope": scope, "text": words_of(op, address), "origin": op.loc}


def words_of(op: Operation, address: mp.Address | None) -> str:
    """An operation for people: what, order, scope, where, and its line."""
    name = str(op.attrs.get("kind", "")) or op.name.removeprefix("atomic.")
    words = [name, *(str(op.attrs[a]) for a in ("order", "scope") if a in op.attrs)]
    line = f" (line {op.loc.line})" if op.loc else ""
    return ".".join(words) + (f" {address.base}" if address else "") + line


def failure(order: Order) -> Order:
    """The order of a compare-and-exchange that does not store."""
    if order is Order.SEQ_CST:
        return order
    return Order.ACQUIRE if order.acquires else Order.RELAXED


def update(
    op: Operation, register: str | None, address: mp.Address, operand: Expr, given: dict[str, Any]
) -> mp.Instruction:
    """A read-modify-write; `given` are its `facts`."""
    words = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}
    kind = str(op.attrs["kind"])
    return mp.Rmw(
        register=register, address=address, op=words.get(kind, kind), operand=operand, **given
    )
