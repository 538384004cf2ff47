"""The element types of arguments: hetIR's names, NumPy's types and how a scalar is packed."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

DType = np.dtype[Any]

NUMPY: Mapping[str, DType] = MappingProxyType(
    {
        "bool": np.dtype(np.bool_),
        **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
        **{f"u{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
        "f16": np.dtype(np.float16),
        "bf16": np.dtype(ml_dtypes.bfloat16),
        "f32": np.dtype(np.float32),
        "f64": np.dtype(np.float64),
        "f8e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
        "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    }
)
NAMES: Mapping[DType, str] = MappingProxyType({dtype: name for name, dtype in NUMPY.items()})
# what native/python/launch.c knows each type by
CODES: Mapping[str, int] = MappingProxyType({name: code for code, name in enumerate(NUMPY)})


def converter_of(dtype: str) -> Callable[[Any], Any]:
    """What turns a Python or NumPy scalar into an integer or, for f64, a Python float.

    Floats of 32 bits and fewer become the integer of their bits. Numbers become floats by one
    rounding, to infinity where they are too large, and to the largest f8, which saturates; a
    value that has the type already keeps its bits. The range of integers is the caller's to check.
    """
    match dtype:
        case "bool":
            return _to_bool
        case "f64":
            return _to_f64
        case "f32":
            return _to_f32
        case "f16" | "bf16" | "f8e4m3" | "f8e5m2":
            return _small_float(dtype)
        case _:
            return int_of


def int_of(value: Any) -> int:
    """The integer that `value` is; TypeError for anything with a fraction to lose."""
    return value.__index__()


def _to_bool(value: Any) -> bool:
    if getattr(value, "dtype", None) == np.bool_ and value.ndim == 0:
        return bool(value)
    return value.__index__() != 0


def _to_f64(value: Any) -> float:
    try:
        return value.__float__()  # and not float(value), which reads text
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


_LARGEST: Mapping[str, float] = MappingProxyType({"f8e4m3": 448.0, "f8e5m2": 57344.0})
_F32 = struct.Struct("<f")
_U32 = struct.Struct("<I")
_EXACT_INTEGERS = 1 << 53


def _to_f32(value: Any) -> int:
    if _is_large(value):
        value = _odd_f64(value)
    try:
        return _U32.unpack(_F32.pack(value))[0]
    except OverflowError:
        return 0x7F800000 if value > 0 else 0xFF800000
    except struct.error as error:
        raise TypeError(str(error)) from None


def _is_large(value: Any) -> bool:
    return isinstance(value, int) and abs(value) > _EXACT_INTEGERS


def _odd_f64(value: int) -> float:
    """A large integer rounded to odd, which a second rounding to fewer bits cannot spoil."""
    size = abs(value)
    extra = size.bit_length() - 53
    kept = size >> extra
    if size != kept << extra:
        kept |= 1
    sized = _to_f64(kept << extra)
    return sized if value > 0 else -sized


def _small_float(dtype: str) -> Callable[[Any], int]:
    """Packs a type of at most 16 bits: to f32 by rounding to odd, then once to the type."""
    kind = NUMPY[dtype]
    bits = np.dtype(f"uint{8 * kind.itemsize}")
    largest = _LARGEST.get(dtype)

    def pack(value: Any) -> int:
        if getattr(value, "dtype", None) == kind and value.ndim == 0:
            return int(value.view(bits)[()])
        wide = _to_f64(_odd_f64(value) if _is_large(value) else value)
        if largest is not None and abs(wide) > largest:
            wide = largest if wide > 0 else -largest
        with np.errstate(over="ignore", invalid="ignore"):
            return int(_odd_f32(wide).astype(kind).view(bits)[()])

    return pack


def _odd_f32(value: float) -> Any:
    near = np.array(value, np.float64).astype(np.float32)
    if not np.isfinite(value) or float(near) == value:
        return near
    bits = int(near.view(np.uint32))
    if not np.isfinite(near) or abs(float(near)) > abs(value):
        bits -= 1  # towards zero
    return np.array(bits | 1, np.uint32).view(np.float32)
