"""Atomic accesses of one array element.

`index` is an integer, or a tuple of one an axis; `value` converts to the element type. Orders
are relaxed, acquire, release, acq_rel and seq_cst, scopes subgroup, workgroup, device and
system. All but the store give the element's old value.
"""

from __future__ import annotations

from hetir.frontend.errors import IndexingError, OperandError
from hetir.frontend.indexing import checked_indices, positions
from hetir.frontend.primitive import current, primitive
from hetir.frontend.values import ArrayHandle, KernelValue, describe, is_tuple
from hetir.ir import ops
from hetir.ir.core import Value
from hetir.lang.memory import word


@primitive
def atomic_add(
    x: KernelValue,
    index: KernelValue,
    value: KernelValue,
    order: str = "relaxed",
    scope: str = "device",
) -> KernelValue:
    """Add `value` to `x[index]`; integers wrap."""
    return _rmw("add", x, index, value, order, scope)


@primitive
def atomic_sub(
    x: KernelValue,
    index: KernelValue,
    value: KernelValue,
    order: str = "relaxed",
    scope: str = "device",
) -> KernelValue:
    """Subtract `value` from `x[index]`; integers wrap."""
    return _rmw("sub", x, index, value, order, scope)


@primitive
def atomic_min(
    x: KernelValue,
    index: KernelValue,
    value: KernelValue,
    order: str = "relaxed",
    scope: str = "device",
) -> KernelValue:
    """Replace `x[index]` by the lesser of it and `value`, as `hl.min`."""
    return _rmw("min", x, index, value, order, scope)


@primitive
def atomic_max(
    x: KernelValue,
    index: KernelValue,
    value: KernelValue,
    order: str = "relaxed",
    scope: str = "device",
) -> KernelValue:
    """Replace `x[index]` by the greater of it and `value`, as `hl.max`."""
    return _rmw("max", x, index, value, order, scope)


@primitive
def atomic_and_(
    x: KernelValue,
    index: KernelValue,
    value: KernelValue,
    order: str = "relaxed",
    scope: str = "device",
) -> KernelValue:
    """Replace the integer `x[index]` by its bitwise and with `value`."""
    return _rmw("and", x, index, value, order, scope)


@primitive
def atomic_or_(
    x: KernelValue,
    index: KernelValue,
    value: KernelValue,
    order: str = "relaxed",
    scope: str = "device",
) -> KernelValue:
    """Replace the integer `x[index]` by its bitwise or with `value`."""
    return _rmw("or", x, index, value, order, scope)


@primitive
def atomic_xor(
    x: KernelValue,
    index: KernelValue,
    value: KernelValue,
    order: str = "relaxed",
    scope: str = "device",
) -> KernelValue:
    """Replace the integer `x[index]` by its bitwise exclusive or with `value`."""
    return _rmw("xor", x, index, value, order, scope)


@primitive
def atomic_exchange(
    x: KernelValue,
    index: KernelValue,
    value: KernelValue,
    order: str = "relaxed",
    scope: str = "device",
) -> KernelValue:
    """Replace `x[index]` by `value`."""
    return _rmw("exchange", x, index, value, order, scope)


@primitive
def atomic_compare_exchange(
    x: KernelValue,
    index: KernelValue,
    expected: KernelValue,
    desired: KernelValue,
    order: str = "relaxed",
    scope: str = "device",
) -> KernelValue:
    """Replace `x[index]` by `desired` where its bits are those of `expected`."""
    tracer = current()
    array, at = _element("atomic_compare_exchange", x, index, writes=True)
    values = [tracer.convert(v, array.type.element) for v in (expected, desired)]
    word("order", order, ops.ORDERS)
    word("scope", scope, ops.SCOPES)
    return tracer.typed(ops.ATOMIC_CAS, array.ir, *at, *values, order=order, scope=scope)


@primitive
def atomic_load(
    x: KernelValue, index: KernelValue, order: str = "relaxed", scope: str = "device"
) -> KernelValue:
    """Read `x[index]`; the order is relaxed, acquire or seq_cst."""
    array, at = _element("atomic_load", x, index, writes=False)
    word("order of a load", order, ops.LOAD_ORDERS)
    word("scope", scope, ops.SCOPES)
    return current().typed(ops.ATOMIC_LOAD, array.ir, *at, order=order, scope=scope)


@primitive
def atomic_store(
    x: KernelValue,
    index: KernelValue,
    value: KernelValue,
    order: str = "relaxed",
    scope: str = "device",
) -> None:
    """Write `value` to `x[index]`; the order is relaxed, release or seq_cst."""
    tracer = current()
    array, at = _element("atomic_store", x, index, writes=True)
    stored = tracer.convert(value, array.type.element)
    word("order of a store", order, ops.STORE_ORDERS)
    word("scope", scope, ops.SCOPES)
    attrs = {"order": order, "scope": scope}
    tracer.emit(ops.ATOMIC_STORE, array.ir, *at, stored, attrs=attrs)


def _rmw(
    kind: str, x: KernelValue, index: KernelValue, value: KernelValue, order: str, scope: str
) -> KernelValue:
    tracer = current()
    array, at = _element(f"atomic_{kind}", x, index, writes=True)
    element = array.type.element
    if kind in ("and", "or", "xor") and not element.is_int:
        tracer.fail(
            OperandError,
            f"`atomic_{kind}_` needs integers, got {describe(array)}".replace("xor_", "xor"),
        )
    word("order", order, ops.ORDERS)
    word("scope", scope, ops.SCOPES)
    operand = tracer.convert(value, element)
    return tracer.typed(ops.ATOMIC_RMW, array.ir, *at, operand, kind=kind, order=order, scope=scope)


def _element(
    name: str, x: KernelValue, index: KernelValue, *, writes: bool
) -> tuple[ArrayHandle, list[Value]]:
    tracer = current()
    if not isinstance(x, ArrayHandle):
        tracer.fail(
            OperandError,
            f"`{name}` needs an array, got {describe(x)}",
            hint="pass the array and the index: `hl.atomic_add(x, i, v)`",
        )
    if x.type.element.kind in ("bool", "f8"):
        tracer.fail(
            OperandError,
            f"`{name}` is not defined for `{x.type.element}`",
            hint="use an array of `i32`" if x.type.element.kind == "bool" else "use one of `f32`",
        )
    if writes and x.type.space == "constant":
        tracer.fail(IndexingError, "constant memory cannot be written")
    indices: list[KernelValue] = list(index) if is_tuple(index) else [index]
    return x, positions(tracer, checked_indices(tracer, x, indices))
