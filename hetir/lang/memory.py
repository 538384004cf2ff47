"""Shared and private arrays, barriers and fences."""

from __future__ import annotations

from hetir.frontend.errors import CallError, ChoiceError, NotStaticError
from hetir.frontend.forms import VectorType
from hetir.frontend.primitive import current, primitive
from hetir.frontend.values import (
    ArrayHandle,
    KernelValue,
    describe,
    is_plain,
    is_tuple,
    number_kind,
)
from hetir.ir import ops
from hetir.ir.types import Scalar, static_array


@primitive
def shared(shape: KernelValue, dtype: KernelValue) -> KernelValue:
    """An array of constant `shape` that the work-items of a workgroup share, uninitialised."""
    return _alloc("shared", shape, dtype)


@primitive
def private(shape: KernelValue, dtype: KernelValue) -> KernelValue:
    """An array of constant `shape` of one work-item's own, uninitialised."""
    return _alloc("private", shape, dtype)


def _alloc(space: str, shape: KernelValue, dtype: KernelValue) -> KernelValue:
    tracer = current()
    extents: tuple[KernelValue, ...] = shape if is_tuple(shape) else (shape,)
    for extent in extents:
        if not is_plain(extent):
            tracer.fail(
                NotStaticError,
                f"the shape of a {space} array must be constant, got {describe(extent)}",
                hint="declare the parameter `n: hl.static`, or write a number",
            )
        if number_kind(extent) != "int" or extent < 0:
            tracer.fail(CallError, f"an extent is an integer from 0, got {describe(extent)}")
    if not isinstance(dtype, Scalar):
        if isinstance(dtype, VectorType):
            tracer.fail(
                CallError,
                f"an array holds scalars, not `{dtype}`",
                hint=f"give it one axis of {dtype.length} more, and use `hl.load_vector`",
            )
        tracer.fail(
            CallError, f"a type is needed, got {describe(dtype)}", hint="write `hl.f32` or another"
        )
    kind = static_array(dtype, tuple(int(n) for n in extents), space)
    return ArrayHandle(tracer.emit(ops.ALLOC, attrs={"type": kind}, name=tracer.hint).result)


@primitive
def barrier(scope: str = "workgroup") -> None:
    """Wait for all work-items of the workgroup, and see what they wrote.

    Every work-item of the workgroup must reach it, or none. `scope="device"` waits for the
    whole grid, in a kernel with `cooperative=True`.
    """
    _barrier(scope)


@primitive
def subgroup_barrier() -> None:
    """Wait for all work-items of the subgroup, and see what they wrote."""
    _barrier("subgroup")


def _barrier(scope: str) -> None:
    tracer = current()
    if scope == "device" and not tracer.options.cooperative:
        tracer.fail(
            CallError,
            "a barrier over the grid needs a cooperative kernel",
            hint="write `@hetir.kernel(cooperative=True)`",
        )
    word("scope", scope, ("subgroup", "workgroup", "device"))
    tracer.emit(ops.BARRIER, attrs={"scope": scope})


@primitive
def fence(order: str, scope: str = "device") -> None:
    """Order the memory accesses around it as seen in `scope`, without waiting.

    Orders: acquire, release, acq_rel, seq_cst. Scopes: subgroup, workgroup, device, system.
    """
    word("order", order, ops.ORDERS[1:])
    word("scope", scope, ops.SCOPES)
    current().emit(ops.FENCE, attrs={"order": order, "scope": scope})


def word(what: str, given: object, allowed: tuple[str, ...]) -> str:
    """Refuse a word that is not one of the legal ones."""
    if not isinstance(given, str) or given not in allowed:
        shown = f"`{given}`" if isinstance(given, str) else describe(given)
        current().fail(
            ChoiceError, f"{shown} is not a legal {what}", hint=f"write one of {', '.join(allowed)}"
        )
    return given
