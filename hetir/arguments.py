"""What the values of a call are to the compiler: their types, and constants by content."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from hetir.diagnostics import LaunchError
from hetir.frontend import (
    STATIC,
    Argument,
    Parameter,
    Static,
    Tuple,
    VectorType,
    Weak,
    tuple_fields,
)
from hetir.ir.types import SCALARS, ArrayType, Scalar


class KernelUseError(LaunchError):
    """A kernel is called or launched in a way that it cannot be.

    Cause: no launch shape, or arguments that do not fit the parameters.
    Fix: `kernel[grid, workgroup](arguments...)`, as the hint says.
    """

    code = "HET520"


def argument_of(parameter: Parameter, value: Any) -> Argument:
    """What a value is to the compiler."""
    if parameter.annotation is STATIC:
        return Static(value)
    if isinstance(parameter.annotation, VectorType):
        return _vector(parameter.name, parameter.annotation, value)
    if isinstance(parameter.annotation, Scalar) and (
        _is_number(value) or _widens(value, parameter.annotation)
    ):
        return parameter.annotation
    if _is_number(value) and not _is_numpy_scalar(value):
        return Weak(type(value).__name__)
    if _is_numpy_scalar(value):
        return _scalar(value.dtype, parameter.name)
    if _is_named_tuple(value):
        pairs = zip(tuple_fields(_class_of(value)), value, strict=True)
        return Tuple(_class_of(value), tuple(argument_of(field, v) for field, v in pairs))
    if _is_array(value):
        element = _scalar(value.dtype, parameter.name)
        return ArrayType(element, value.ndim, strides=_known_strides(value, element))
    raise KernelUseError(
        f"`{parameter.name}` cannot be a `{type(value).__name__}`",
        hint="pass an array, a number, a NamedTuple of these, or annotate it `hl.static`",
    )


def _vector(name: str, kind: VectorType, value: Any) -> VectorType:
    """The annotated vector type of a tuple, list or array of as many numbers."""
    if _extent_of(value) != (kind.length,):
        raise KernelUseError(
            f"`{name}` is the vector `{kind}`, got {_shown_extent(value)}",
            hint=f"pass a tuple or an array of {kind.length} numbers",
        )
    return kind


def _extent_of(value: Any) -> tuple[int, ...]:
    """The shape of a tuple, list or array given for a vector."""
    if isinstance(value, tuple | list):
        return (len(value),)  # pyright: ignore[reportUnknownArgumentType]
    return value.shape if _is_host_array(value) else ()


def _shown_extent(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"{len(value)} values"  # pyright: ignore[reportUnknownArgumentType]
    if _is_host_array(value):
        return f"an array of shape {value.shape}"
    return f"a `{type(value).__name__}`"


# asked through functions, so that a value of any type keeps it


def _class_of(value: object) -> type:
    return type(value)


def _is_named_tuple(value: object) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")  # pyright: ignore[reportUnknownArgumentType]


def _is_number(value: object) -> bool:
    return isinstance(value, bool | int | float)


def _widens(value: Any, kind: Scalar) -> bool:
    """Whether a NumPy scalar is a number that the launch converts, or refuses by its range."""
    found = _BY_DTYPE.get(value.dtype) if _is_numpy_scalar(value) else None
    if found is None:
        return False
    return (found.is_int and (kind.is_int or kind.is_float)) or (found.is_float and kind.is_float)


def _is_array(value: object) -> bool:
    return hasattr(value, "strides")


def _is_host_array(value: object) -> bool:
    return isinstance(value, np.ndarray)


def _is_numpy_scalar(value: object) -> bool:
    return isinstance(value, np.generic)


def _scalar(dtype: np.dtype[Any], name: str) -> Scalar:
    try:
        return _BY_DTYPE[dtype]
    except KeyError:
        raise KernelUseError(
            f"`{name}` has the element type `{dtype}`, which kernels do not have",
            hint="convert it: `x.astype(np.float32)`",
        ) from None


_BY_DTYPE = {kind.numpy: kind for kind in SCALARS.values()}


def _known_strides(value: Any, element: Scalar) -> tuple[int | None, ...] | None:
    """What the specialisation knows of each axis: 0 is broadcast, 1 a contiguous last axis."""
    if not value.ndim:
        return None
    strides: list[int | None] = [0 if s == 0 else None for s in value.strides]
    if value.strides[-1] == element.bytes or value.shape[-1] == 1:
        strides[-1] = 1
    return tuple(strides) if any(s is not None for s in strides) else None


def kind_of(parameter: Parameter) -> int:
    """What native/python/launch.c must know of a parameter to make its part of the key."""
    if parameter.annotation is STATIC:
        return 1
    return 2 if isinstance(parameter.annotation, VectorType) else 0


def static_key(value: Any) -> object:
    """What a constant is now: equal keys stand for values that kernels cannot tell apart.

    1, True and 1.0 are equal and hash alike, as are 0.0 and -0.0; they are kept apart.
    """
    kind = _class_of(value)
    if isinstance(value, tuple | list | set | frozenset):
        return kind, tuple(map(static_key, value))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, dict):
        return kind, tuple((static_key(k), static_key(v)) for k, v in value.items())  # pyright: ignore
    if _is_host_array(value):
        return kind, value.dtype, value.shape, value.tobytes()
    if is_dataclass(value):
        return kind, tuple(static_key(getattr(value, f.name, None)) for f in fields(value))
    if _is_number(value) or value.__class__ is complex:
        return kind, repr(value)
    try:
        hash(value)
    except TypeError:
        return kind, id(value)
    return kind, value
