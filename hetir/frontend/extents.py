"""Shapes and strides of arrays: constants where they are fixed, ops elsewhere."""

from __future__ import annotations

import math
from typing import Any

from hetir.frontend.errors import IndexingError
from hetir.frontend.tracer import Tracer
from hetir.frontend.values import ArrayHandle, Extents, Typed, describe
from hetir.ir import ops


def known_extents(array: ArrayHandle, what: str) -> tuple[int, ...] | None:
    """Shape or strides where they are fixed: of shared and private arrays."""
    shape = array.type.shape
    if shape is None or what == "shape":
        return shape
    sizes = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return tuple(n * array.type.element.bytes for n in sizes)


def extent(tracer: Tracer, array: ArrayHandle, axis: int, what: str = "shape") -> Any:
    """One extent (in elements) or stride (in bytes): plain where it is fixed."""
    if not 0 <= axis < array.type.ndim:
        tracer.fail(IndexingError, f"{describe(array)} has no axis {axis}")
    if (known := known_extents(array, what)) is not None:
        return known[axis]
    spec = ops.DIM if what == "shape" else ops.STRIDE
    return Typed(tracer.once(spec, array.ir, axis=axis))


def extents(tracer: Tracer, value: Extents) -> tuple[Any, ...]:
    """All extents as a tuple."""
    return tuple(extent(tracer, value.array, axis, value.what) for axis in range(len(value)))
