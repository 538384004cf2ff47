"""Annotations of kernel parameters: `hl.Array[hl.f32, 2]` and `hl.static`."""

from __future__ import annotations

from typing import Any

from hetir.frontend.errors import SignatureError
from hetir.frontend.forms import VectorType
from hetir.frontend.parameters import STATIC
from hetir.frontend.values import is_tuple
from hetir.ir.types import ArrayType, Scalar

static = STATIC
"""The annotation of a parameter that is a compile-time constant."""

_MOST_DIMENSIONS = 6


class Array:
    """`Array[dtype, ndim]`: an array parameter of 0 to 6 dimensions and any strides."""

    def __class_getitem__(cls, key: Any) -> ArrayType:
        """The array type of an element type and a number of dimensions."""
        parts: tuple[Any, ...] = key if is_tuple(key) else (key,)
        if isinstance(parts[0], VectorType):
            raise SignatureError(
                f"an array holds scalars, not `{parts[0]}`",
                hint=f"give it one axis more: `hl.Array[hl.{parts[0].element}, ndim + 1]`,"
                " and use `hl.load_vector`",
            )
        if len(parts) != 2 or not isinstance(parts[0], Scalar):
            raise SignatureError(
                "`hl.Array` takes an element type and a number of dimensions",
                hint="write `hl.Array[hl.f32, 1]`",
            )
        element, ndim = parts
        if not isinstance(ndim, int) or not 0 <= ndim <= _MOST_DIMENSIONS:
            raise SignatureError(f"an array has 0 to {_MOST_DIMENSIONS} dimensions, got {ndim!r}")
        return ArrayType(element, ndim)
