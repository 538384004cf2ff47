"""Subscripts: elements, sub-arrays, tuples by constant, and stores."""

from __future__ import annotations

import ast
import operator
from dataclasses import dataclass
from typing import Any

from hetir.frontend.bundles import indexed
from hetir.frontend.errors import IndexingError, NotStaticError
from hetir.frontend.extents import extent, extents
from hetir.frontend.forms import VectorType
from hetir.frontend.frame import Frame, handles
from hetir.frontend.operators import compute
from hetir.frontend.tracer import Tracer
from hetir.frontend.values import (
    ArrayHandle,
    Bundle,
    Extents,
    Typed,
    describe,
    is_plain,
    is_tuple,
    number_kind,
)
from hetir.ir import ops
from hetir.ir.core import Value
from hetir.ir.types import I64


@dataclass(frozen=True, slots=True)
class Span:
    """A slice in a subscript, before its bounds are known."""

    start: Any
    stop: Any
    step: Any


@handles(ast.Subscript)
def subscript(frame: Frame, node: ast.Subscript) -> Any:
    """`value[...]`."""
    value = frame.evaluate(node.value)
    if isinstance(value, ArrayHandle):
        indices = array_indices(frame, value, node)
        return read(frame.at(node), value, indices)
    return _element(frame, value, node)


def _element(frame: Frame, value: Any, node: ast.Subscript) -> Any:
    """An element of a tuple or of a plain collection, by a constant."""
    index = _index(frame, node.slice)
    tracer = frame.at(node)
    if isinstance(index, Span):
        if not all(map(is_plain, (index.start, index.stop, index.step))):
            what = "a vector" if isinstance(value, Bundle) else "a tuple"
            tracer.fail(NotStaticError, f"{what} is sliced by constants", hint="write numbers")
        index = slice(index.start, index.stop, index.step)
    if isinstance(value, Bundle):
        return indexed(tracer, value, index)
    if not is_plain(index):
        _run_time_index(tracer, value)
    if isinstance(value, Extents):
        if not isinstance(index, slice):
            axis = compute(tracer, operator.index, index)
            axis += len(value) if axis < 0 else 0
            return extent(tracer, value.array, axis, value.what)
        value = extents(tracer, value)
    if not is_plain(value) and not is_tuple(value):
        tracer.fail(IndexingError, f"{describe(value)} cannot be indexed")
    return compute(tracer, operator.getitem, value, index)


def _run_time_index(tracer: Tracer, value: Any) -> None:
    if isinstance(value, (tuple, Extents)):
        what, hint = "a tuple in a kernel", "use a private array: `hl.private(n, dtype)`"
    else:
        what, hint = describe(value), "pass it to the kernel as an array"
    tracer.fail(NotStaticError, f"{what} is indexed by constants only", hint=hint)


def _index(frame: Frame, node: ast.expr) -> Any:
    if isinstance(node, ast.Slice):
        parts = (node.lower, node.upper, node.step)
        return Span(*(None if part is None else frame.evaluate(part) for part in parts))
    return frame.evaluate(node)


def array_indices(frame: Frame, array: ArrayHandle, node: ast.Subscript) -> list[Any]:
    """One index or span an axis; missing ones are whole axes."""
    elements = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    found: list[Any] = []
    for element in elements:
        index = _index(frame, element)
        found += index if isinstance(index, tuple) else [index]
    return checked_indices(frame.at(node), array, found)


def checked_indices(tracer: Tracer, array: ArrayHandle, found: list[Any]) -> list[Any]:
    """The indices, one an axis, after the checks that need no run."""
    ndim = array.type.ndim
    if sum(index is Ellipsis for index in found) == 1:
        at = next(i for i, index in enumerate(found) if index is Ellipsis)
        whole = [Span(None, None, None)] * (ndim - len(found) + 1)
        found[at : at + 1] = whole
    if len(found) > ndim:
        tracer.fail(
            IndexingError,
            f"{len(found)} indices for an array of {ndim} dimension{'s' * (ndim != 1)}",
            label=f"this is {describe(array)}",
        )
    found += [Span(None, None, None)] * (ndim - len(found))
    return [_checked(tracer, array, axis, index) for axis, index in enumerate(found)]


def _checked(tracer: Tracer, array: ArrayHandle, axis: int, index: Any) -> Any:
    if isinstance(index, Span):
        return index
    if index is None or isinstance(index, bool) or getattr(index, "type", None) is not None:
        _need_integer(tracer, index)
    if is_plain(index):
        if number_kind(index) != "int":
            _need_integer(tracer, index)
        number: Any = index
        _in_range(tracer, array, axis, int(number))
    return index


def _need_integer(tracer: Tracer, index: Any) -> None:
    if isinstance(index, Typed) and index.type.is_int:
        return
    hint = "convert it with `int(...)`"
    if index is None:
        hint = "take a sub-array with slices; axes cannot be added"
    tracer.fail(IndexingError, f"an index must be an integer, got {describe(index)}", hint=hint)


def _in_range(tracer: Tracer, array: ArrayHandle, axis: int, index: int) -> None:
    shape = array.type.shape
    if index < 0:
        tracer.fail(
            IndexingError,
            f"index {index} is out of bounds: indices do not count from the end",
            hint=f"write `x.shape[{axis}] - {-index}`",
        )
    if shape is not None and index >= shape[axis]:
        tracer.fail(
            IndexingError,
            f"index {index} is out of bounds for axis {axis} of extent {shape[axis]}",
            hint=f"use 0 to {shape[axis] - 1}",
        )


def read(tracer: Tracer, array: ArrayHandle, indices: list[Any]) -> Any:
    """An element, or a sub-array where a span is among the indices."""
    if any(isinstance(index, Span) for index in indices):
        return _view(tracer, array, indices)
    return tracer.typed(ops.LOAD, array.ir, *positions(tracer, indices))


def positions(tracer: Tracer, indices: list[Any]) -> list[Value]:
    """Element indices as `i64`."""
    return [tracer.index(index, "an index") for index in indices]


def write(tracer: Tracer, array: ArrayHandle, indices: list[Any], value: Any) -> None:
    """Store one element, converted to the array's type."""
    if any(isinstance(index, Span) for index in indices):
        tracer.fail(
            IndexingError,
            "a sub-array cannot be assigned",
            label=f"this is {describe(array)}",
            hint="store one element: give an index for each axis",
        )
    if array.type.space == "constant":
        tracer.fail(IndexingError, "constant memory cannot be written")
    if isinstance(value, Bundle):
        name = "store_vector" if isinstance(value.type, VectorType) else "store_fragment"
        tracer.fail(
            IndexingError,
            f"one element cannot hold {describe(value)}",
            label=f"this is {describe(array)}",
            hint=f"write `hl.{name}(x, index, v)`",
        )
    element = tracer.convert(value, array.type.element)
    tracer.emit(ops.STORE, array.ir, *positions(tracer, indices), element)


# ---- sub-arrays ----------------------------------------------------------------------------------


def _view(tracer: Tracer, array: ArrayHandle, indices: list[Any]) -> ArrayHandle:
    steps: list[int] = []
    operands: list[Value] = []
    for axis, index in enumerate(indices):
        if isinstance(index, Span):
            step, start, count = _span(tracer, array, axis, index)
            steps.append(step)
            operands += (tracer.convert(start, I64), tracer.convert(count, I64))
        else:
            steps.append(0)
            operands.append(tracer.index(index, "an index"))
    if all(step == 1 for step in steps) and not any(
        bound is not None for span in indices for bound in (span.start, span.stop)
    ):
        return array
    return ArrayHandle(tracer.value(ops.VIEW, array.ir, *operands, steps=tuple(steps)))


def _span(tracer: Tracer, array: ArrayHandle, axis: int, span: Span) -> tuple[int, Any, Any]:
    """The step, start and count of a slice, cut to the extent as Python does."""
    step = 1 if span.step is None else span.step
    if number_kind(step) != "int" or step == 0:
        tracer.fail(
            NotStaticError,
            f"a slice's step is a constant other than 0, got {describe(step)}",
            hint="write a number",
        )
    step = int(step)
    dim = extent(tracer, array, axis)
    last = dim if step > 0 else _sub(tracer, dim, 1)
    start = _bound(tracer, array, axis, span.start, last)
    if start is None:
        start = 0 if step > 0 else last
    stop = _bound(tracer, array, axis, span.stop, last)
    if stop is None:
        stop = dim if step > 0 else -1
    if span.start is None and step == 1:
        return step, start, _nonnegative(tracer, stop, certain=span.stop is None)
    length = _sub(tracer, stop, start) if step > 0 else _sub(tracer, start, stop)
    size = abs(step)
    if size > 1:
        rounded = _add(tracer, length, size - 1)
        length = _op(tracer, ops.FLOORDIV, _floordiv, rounded, size)
    whole = span.start is None and span.stop is None
    return step, start, _nonnegative(tracer, length, certain=whole)


def _bound(tracer: Tracer, array: ArrayHandle, axis: int, bound: Any, last: Any) -> Any:
    """A given bound cut to the extent."""
    if bound is None:
        return None
    if is_plain(bound) and number_kind(bound) == "int":
        if bound < 0:
            _in_range(tracer, array, axis, int(bound))
        bound = int(bound)
    else:
        bound = Typed(tracer.index(bound, "a slice's bound"))
    return 0 if _is_zero(bound) else _op(tracer, ops.MIN, min, bound, last)


def _is_zero(bound: Any) -> bool:
    return isinstance(bound, int) and bound == 0


def _nonnegative(tracer: Tracer, count: Any, *, certain: bool) -> Any:
    return count if certain else _op(tracer, ops.MAX, max, count, 0)


def _sub(tracer: Tracer, a: Any, b: Any) -> Any:
    return a if _is_zero(b) else _op(tracer, ops.SUB, operator.sub, a, b)


def _add(tracer: Tracer, a: Any, b: Any) -> Any:
    return _op(tracer, ops.ADD, operator.add, a, b)


def _floordiv(a: int, b: int) -> int:
    return a // b


def _op(tracer: Tracer, spec: ops.Spec, plain: Any, a: Any, b: Any) -> Any:
    """Integer arithmetic: by Python where both are plain."""
    if isinstance(a, int) and isinstance(b, int):
        return plain(a, b)
    return Typed(tracer.value(spec, tracer.convert(a, I64), tracer.convert(b, I64)))
