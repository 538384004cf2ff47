"""Vectors of 2, 3, 4, 8 or 16 scalars: the type, loads and stores, what combines elements.

Operators and the functions of `hl` work on each element; a scalar beside a vector is repeated.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from hetir.frontend import operators
from hetir.frontend.bundles import constant_index, each, need_vector, run_time_index
from hetir.frontend.errors import IndexingError, NotStaticError, OperandError, SignatureError
from hetir.frontend.forms import VectorType, vector_type
from hetir.frontend.indexing import Span, checked_indices, positions, write
from hetir.frontend.primitive import current, primitive
from hetir.frontend.values import (
    ArrayHandle,
    Bundle,
    KernelValue,
    Typed,
    describe,
    is_plain,
    is_tuple,
)
from hetir.ir import ops
from hetir.ir.core import Value
from hetir.ir.types import I64


def vector(dtype: Any, length: Any) -> VectorType:
    """The type of vectors of `length` (2, 3, 4, 8 or 16) elements of a scalar type.

    As an annotation it takes a tuple or an array of so many numbers by value. In a kernel
    `f4 = hl.vector(hl.f32, 4)` makes vectors: `f4(x, y, z, w)`, `f4(xy, 0, 1)`, `f4(0)`.
    """
    return vector_type(dtype, length)


def _vector_in_kernel(dtype: KernelValue, length: KernelValue) -> KernelValue:
    if not is_plain(length):
        current().fail(
            NotStaticError,
            f"the length of a vector must be constant, got {describe(length)}",
            hint="declare the parameter `n: hl.static`, or write a number",
        )
    return type_in_kernel(vector_type, dtype, length)


def type_in_kernel(make: Callable[..., Any], *parts: KernelValue) -> Any:
    """A type made in a kernel: what is wrong with it is wrong at this place."""
    try:
        return make(*parts)
    except SignatureError as error:
        current().fail(SignatureError, error.message, hint=error.hint)


vector.__dict__["__hetir_primitive__"] = _vector_in_kernel


@primitive
def load_vector(x: KernelValue, index: KernelValue, length: KernelValue) -> KernelValue:
    """The vector of `length` elements of `x` from `index` on, along its last axis.

    `index` is an integer, or a tuple of one an axis; no alignment is needed.
    """
    tracer = current()
    element = x.type.element if isinstance(x, ArrayHandle) else None
    kind = _vector_in_kernel(element, length) if element else None
    places = _places(x, index, kind.length if kind else 0)
    assert kind is not None
    items = [tracer.value(ops.LOAD, x.ir, *place) for place in places]
    return Bundle(kind, tuple(items))


@primitive
def store_vector(x: KernelValue, index: KernelValue, value: KernelValue) -> None:
    """Store a vector into the elements of `x` from `index` on, along its last axis.

    `index` is an integer, or a tuple of one an axis; no alignment is needed.
    """
    tracer = current()
    items = need_vector(tracer, value, "`store_vector`").items
    for place, item in zip(_places(x, index, len(items)), items, strict=True):
        write(tracer, x, [Typed(at) for at in place], Typed(item))


def _places(x: KernelValue, index: KernelValue, length: int) -> list[list[Value]]:
    """The indices of so many elements along the last axis."""
    tracer = current()
    if not isinstance(x, ArrayHandle) or x.type.ndim == 0:
        tracer.fail(
            OperandError,
            f"a vector is loaded from and stored to an array with axes, got {describe(x)}",
            hint="give an array, then the index of the first element",
        )
    given: Sequence[Any] = index if is_tuple(index) else (index,)
    checked = checked_indices(tracer, x, list(given))
    if len(given) != x.type.ndim or any(isinstance(at, Span) for at in checked):
        tracer.fail(
            IndexingError,
            f"a vector of {describe(x)} needs {x.type.ndim} integers as its index",
            hint="give the index of the first element, one integer an axis",
        )
    last = checked[-1]
    if is_plain(last):
        checked_indices(tracer, x, [*checked[:-1], last + length - 1])
    *outer, start = positions(tracer, checked)
    steps = [Typed(start)]
    steps += [Typed(tracer.value(ops.ADD, start, tracer.const(I64, k))) for k in range(1, length)]
    return [[*outer, step.ir] for step in steps]


@primitive
def insert(v: KernelValue, index: KernelValue, value: KernelValue) -> KernelValue:
    """`v` with another element at `index`, an integer that may be known at run time only."""
    tracer = current()
    bundle = need_vector(tracer, v, "`insert`")
    new = tracer.convert(value, bundle.type.element)
    items = list(bundle.items)
    if is_plain(index):
        items[constant_index(tracer, bundle, index)] = new
        return Bundle(bundle.type, tuple(items))
    which = run_time_index(tracer, bundle, index)
    for at, item in enumerate(bundle.items):
        here = tracer.value(ops.EQ, which, tracer.const(I64, at))
        items[at] = tracer.value(ops.SELECT, here, new, item)
    return Bundle(bundle.type, tuple(items))


@primitive
def dot(a: KernelValue, b: KernelValue) -> KernelValue:
    """The sum of the products of two vectors' elements, from the first on.

    Each product and each sum is rounded to the common type.
    """
    tracer = current()
    for value in (a, b):
        need_vector(tracer, value, "`dot`")
    products = each(tracer, "dot", (a, b), lambda v: operators.binary(tracer, ast.Mult, *v))
    total, *rest = map(Typed, products.items)
    for product in rest:
        total = operators.binary(tracer, ast.Add, total, product)
    return total
