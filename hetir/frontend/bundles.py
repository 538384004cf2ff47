"""Values of several scalars: making them, their elements, and what is done to each element."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

from hetir.frontend.errors import CallError, IndexingError, OperandError, UnknownNameError
from hetir.frontend.forms import LENGTHS, FragmentType, VectorType
from hetir.frontend.shapes import alike
from hetir.frontend.tracer import Tracer
from hetir.frontend.values import (
    Bundle,
    KernelValue,
    Typed,
    describe,
    is_plain,
    is_tuple,
    number_kind,
)
from hetir.ir import ops
from hetir.ir.core import Value
from hetir.ir.types import I64, Scalar

LETTERS = "xyzw"
"""What the first elements of a vector are called."""


def any_bundle(values: Sequence[object]) -> bool:
    """Whether a vector or fragment is among `values`."""
    return any(isinstance(value, Bundle) for value in values)


def each(
    tracer: Tracer, name: str, values: Sequence[Any], function: Callable[[list[Any]], Any]
) -> Bundle:
    """`function` of a list of the first elements, of the second ones and so on.

    Scalars are repeated. At least one of `values` is a bundle. A result without a type takes
    its default one.
    """
    bundles = [value for value in values if isinstance(value, Bundle)]
    first = bundles[0]
    for other in bundles[1:]:
        if not alike(first.type, other.type):
            _unlike(tracer, name, first, other)
    found: list[Value] = []
    for at in range(len(first.items)):
        mine = [Typed(v.items[at]) if isinstance(v, Bundle) else v for v in values]
        found.append(tracer.default(function(mine)))
    return Bundle(first.type.of(cast("Scalar", found[0].type)), tuple(found))


def _unlike(tracer: Tracer, name: str, one: Bundle, other: Bundle) -> None:
    both = isinstance(one.type, VectorType) and isinstance(other.type, VectorType)
    hint = "take part of the longer one, such as `v[:2]`, or build one: `f4(v, 0.0)`"
    tracer.fail(
        OperandError,
        f"`{name}` needs {'vectors of one length' if both else 'operands of one form'},"
        f" got {describe(one)} and {describe(other)}",
        hint=hint if both else "fragments combine with fragments of one use and shape",
    )


def make_vector(tracer: Tracer, kind: VectorType, arguments: Sequence[Any]) -> Bundle:
    """A vector of scalars, of smaller vectors' elements, or of one scalar that is repeated."""
    flat: list[Any] = []
    for argument in arguments:
        if isinstance(argument, Bundle) and isinstance(argument.type, VectorType):
            flat += map(Typed, argument.items)
        elif is_tuple(argument):
            flat += argument
        else:
            flat.append(argument)
    if len(flat) == 1:
        flat *= kind.length
    if len(flat) != kind.length:
        tracer.fail(
            CallError,
            f"`{kind}` takes {kind.length} values, got {len(flat)}",
            hint=f"give {kind.length} values, or one to repeat; a vector counts as its elements",
        )
    items = tuple(tracer.convert(item, kind.element, explicit=True) for item in flat)
    return Bundle(kind, items)


def converted(tracer: Tracer, kind: Any, value: Bundle) -> Bundle:
    """A bundle with its elements converted to a scalar type, or to a type of its own form."""
    element = kind
    if isinstance(kind, (VectorType, FragmentType)):
        element = kind.element
        if not alike(kind, value.type):
            tracer.fail(
                OperandError,
                f"{describe(value)} cannot become `{kind}`",
                hint="convert the elements: `v.to(hl.f32)`",
            )
    return each(
        tracer, "to", [value], lambda v: Typed(tracer.convert(v[0], element, explicit=True))
    )


# ---- elements ------------------------------------------------------------------------------------


def named_elements(tracer: Tracer, value: Bundle, name: str) -> KernelValue:
    """`v.x`, `v.zyx`: one element or a vector of two to four."""
    need_vector(tracer, value, f"`{name}`")
    letters = LETTERS[: len(value.items)]
    if not 0 < len(name) <= len(LETTERS) or not set(name) <= set(letters):
        tracer.fail(
            UnknownNameError,
            f"{describe(value)} has no `{name}`",
            hint=f"its elements are {', '.join(letters)}, up to four together (`v.{letters[:2]}`),"
            " and v[i]; it has dtype and to(dtype)",
        )
    picked = [value.items[LETTERS.index(letter)] for letter in name]
    return Typed(picked[0]) if len(picked) == 1 else _vector(value, picked)


def _vector(value: Bundle, items: Sequence[Value]) -> Bundle:
    return Bundle(VectorType(value.type.element, len(items)), tuple(items))


def indexed(tracer: Tracer, value: Bundle, index: Any) -> KernelValue:
    """`v[i]`: by a constant, by an integer of the kernel, or a part by a constant slice."""
    need_vector(tracer, value, "an index")
    if isinstance(index, slice):
        return _part(tracer, value, cast("slice[Any, Any, Any]", index))
    if is_plain(index):
        return Typed(value.items[constant_index(tracer, value, index)])
    which = run_time_index(tracer, value, index)
    found = value.items[0]
    for at, item in enumerate(value.items[1:], 1):
        here = tracer.value(ops.EQ, which, tracer.const(I64, at))
        found = tracer.value(ops.SELECT, here, item, found)
    return Typed(found)


def _part(tracer: Tracer, value: Bundle, index: slice[Any, Any, Any]) -> Bundle:
    picked = value.items[index]
    if len(picked) not in LENGTHS:
        tracer.fail(
            IndexingError,
            f"this slice of {describe(value)} has {len(picked)} element{'s' * (len(picked) != 1)}",
            hint="a vector has 2, 3, 4, 8 or 16 elements; take one of them with `v[i]`",
        )
    return _vector(value, picked)


def constant_index(tracer: Tracer, value: Bundle, index: Any) -> int:
    """A constant index, which may count from the end as a tuple's."""
    length = len(value.items)
    if number_kind(index) != "int":
        tracer.fail(IndexingError, f"an index must be an integer, got {describe(index)}")
    at = operator.index(index)
    if not -length <= at < length:
        tracer.fail(
            IndexingError,
            f"index {at} is out of bounds for {describe(value)}",
            hint=f"use 0 to {length - 1}",
        )
    return at % length


def run_time_index(tracer: Tracer, value: Bundle, index: Any) -> Value:
    """An index of the kernel, checked under `debug`."""
    which = tracer.index(index, "an index")
    if tracer.options.debug:
        length = tracer.const(I64, len(value.items))
        low = tracer.value(ops.GE, which, tracer.const(I64, 0))
        inside = tracer.value(ops.AND, low, tracer.value(ops.LT, which, length))
        message = f"the index of a vector of {len(value.items)} is out of bounds"
        tracer.emit(ops.ASSERT, inside, attrs={"message": message})
    return which


def need_vector(tracer: Tracer, value: Any, what: str) -> Bundle:
    """`value`, which has to be a vector."""
    if isinstance(value, Bundle) and isinstance(value.type, VectorType):
        return value
    if isinstance(value, Bundle):
        tracer.fail(
            OperandError,
            f"{what} cannot reach into {describe(value)}",
            label="which lane holds an element depends on the subgroup's width",
            hint="store it with `hl.store_fragment` and read the array",
        )
    return tracer.fail(
        OperandError,
        f"{what} needs a vector, got {describe(value)}",
        hint="make one: `hl.vector(hl.f32, 4)(x, y, z, w)`",
    )
