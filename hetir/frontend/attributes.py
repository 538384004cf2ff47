"""Attributes of arrays and scalars: shapes, strides, types, conversions."""

from __future__ import annotations

import ast
import math
import types
from typing import Any

from hetir.frontend.bundles import named_elements
from hetir.frontend.errors import UnknownNameError
from hetir.frontend.extents import extent, known_extents
from hetir.frontend.frame import Frame, did_you_mean, handles
from hetir.frontend.operators import compute
from hetir.frontend.tracer import Tracer
from hetir.frontend.values import (
    ArrayHandle,
    Bundle,
    Extents,
    Method,
    Typed,
    WeakNumber,
    describe,
    is_plain,
    is_tuple,
)
from hetir.ir import ops

_ARRAY = "shape, strides, size, ndim, dtype"


@handles(ast.Attribute)
def attribute(frame: Frame, node: ast.Attribute) -> Any:
    """`value.name`."""
    value = frame.evaluate(node.value)
    tracer = frame.at(node)
    if isinstance(value, ArrayHandle):
        return _of_array(tracer, value, node.attr)
    if isinstance(value, (Typed, WeakNumber)):
        return _of_scalar(tracer, value, node.attr)
    if isinstance(value, Bundle):
        return _of_bundle(tracer, value, node.attr)
    return _of_object(frame, value, node)


def _of_object(frame: Frame, value: Any, node: ast.Attribute) -> Any:
    """An attribute that Python reads."""
    tracer = frame.tracer
    searches = node.attr in ("count", "index") and node.attr not in getattr(value, "_fields", ())
    if searches and is_tuple(value) and not is_plain(value):
        tracer.fail(UnknownNameError, f"a tuple in a kernel has no `{node.attr}`")
    try:
        found = getattr(value, node.attr)
    except AttributeError:
        tracer.fail(
            UnknownNameError,
            f"{describe(value)} has no attribute `{node.attr}`",
            hint=_advice(value, node.attr),
        )
    except Exception:  # noqa: BLE001 - a property may raise anything
        return compute(tracer, getattr, value, node.attr)
    if not frame.library and is_plain(value) and not is_tuple(value) and not _volatile(found):
        return frame.captures.attribute(value, node.attr)
    return found


def _advice(value: Any, name: str) -> str | None:
    if is_tuple(value) and hasattr(list, name):
        return "lists do not change in a kernel: use `hl.private(n, dtype)`"
    return did_you_mean(name, [n for n in dir(value) if not n.startswith("_")])


def _volatile(found: object) -> bool:
    """Bound methods are made anew by each read."""
    return isinstance(found, (types.MethodType, types.BuiltinMethodType, types.MethodWrapperType))


def _of_array(tracer: Tracer, array: ArrayHandle, name: str) -> Any:
    kind = array.type
    match name:
        case "shape" | "strides":
            return known_extents(array, name) or Extents(array, name)
        case "ndim":
            return kind.ndim
        case "dtype":
            return kind.element
        case "size":
            return _size(tracer, array)
        case _:
            return tracer.fail(
                UnknownNameError, f"an array in a kernel has no attribute `{name}`",
                hint=f"it has {_ARRAY}",
            )  # fmt: skip


def _size(tracer: Tracer, array: ArrayHandle) -> Any:
    if array.type.shape is not None:
        return math.prod(array.type.shape)
    size = None
    for axis in range(array.type.ndim):
        dim = extent(tracer, array, axis).ir
        size = dim if size is None else tracer.once(ops.MUL, size, dim)
    return 1 if size is None else Typed(size)


def _of_bundle(tracer: Tracer, value: Bundle, name: str) -> Any:
    if name == "dtype":
        return value.type.element
    return Method(value, name) if name == "to" else named_elements(tracer, value, name)


def _of_scalar(tracer: Tracer, value: Typed | WeakNumber, name: str) -> Any:
    if name == "dtype":
        return tracer.type_of(value)
    if name == "to":
        return Method(value, name)
    return tracer.fail(
        UnknownNameError, f"a scalar in a kernel has no attribute `{name}`",
        hint="it has dtype and to(dtype)",
    )  # fmt: skip
