"""The meaning of every pure op, over NumPy arrays of lanes.

Each function takes the op's attributes, the result's dtype and the operands' lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hetir.ir.rounding import BF16, F8, FLOATS, convert, fused

Lanes = np.ndarray[Any, np.dtype[Any]]
Attrs = Mapping[str, Any]


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether arithmetic on floats is meant."""
    return dtype in FLOATS


def bits_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The unsigned integer of the same width."""
    return np.dtype(f"u{dtype.itemsize}")


def canonical_nan(dtype: np.dtype[Any]) -> int:
    """The bits of the one NaN that arithmetic makes."""
    return {
        np.dtype(np.float16): 0x7E00,
        BF16: 0x7FC0,
        np.dtype(np.float32): 0x7FC00000,
        np.dtype(np.float64): 0x7FF8000000000000,
        F8[0]: 0x7F,
        F8[1]: 0x7E,
    }[dtype]


def const(attrs: Attrs, dtype: np.dtype[Any]) -> Lanes:
    """One lane holding the constant."""
    if dtype == np.bool_:
        return np.array(bool(attrs["bits"]))
    return np.array(attrs["bits"], bits_dtype(dtype)).view(dtype)


def _ufunc(function: Callable[..., Any]) -> Callable[..., Lanes]:
    """A NumPy function applied with every floating-point warning off."""

    def run(_: Attrs, dtype: np.dtype[Any], *lanes: Lanes) -> Lanes:
        with np.errstate(all="ignore"):
            return np.asarray(function(*lanes)).astype(dtype, copy=False)

    return run


add, sub, mul = _ufunc(np.add), _ufunc(np.subtract), _ufunc(np.multiply)
sqrt, floor, ceil, trunc, rint = map(_ufunc, (np.sqrt, np.floor, np.ceil, np.trunc, np.rint))
and_, or_, xor, not_ = map(_ufunc, (np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert))
eq, ne = _ufunc(np.equal), _ufunc(np.not_equal)
lt, le, gt, ge = map(_ufunc, (np.less, np.less_equal, np.greater, np.greater_equal))


def identity(_: Attrs, __: np.dtype[Any], a: Lanes) -> Lanes:
    """The operand."""
    return a


def last(_: Attrs, __: np.dtype[Any], *lanes: Lanes) -> Lanes:
    """The last of two or more operands."""
    assert len(lanes) > 1
    return lanes[-1]


def select(_: Attrs, __: np.dtype[Any], cond: Lanes, a: Lanes, b: Lanes) -> Lanes:
    """The second operand where the first is true, else the third."""
    return np.where(cond, a, b)


def neg(_: Attrs, dtype: np.dtype[Any], a: Lanes) -> Lanes:
    """Negation; floats flip the sign bit, NaN included."""
    if not is_float(dtype):
        return np.asarray(np.negative(a))
    raw = bits_dtype(dtype)
    return np.asarray(a.view(raw) ^ raw.type(1 << (8 * dtype.itemsize - 1))).view(dtype)


def abs_(_: Attrs, dtype: np.dtype[Any], a: Lanes) -> Lanes:
    """Magnitude; floats clear the sign bit."""
    if not is_float(dtype):
        return np.asarray(np.abs(a))
    raw = bits_dtype(dtype)
    return np.asarray(a.view(raw) & raw.type((1 << (8 * dtype.itemsize - 1)) - 1)).view(dtype)


def _int_parts(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Operands whose quotient NumPy computes without fault, and where b is 0."""
    zero = b == 0
    minus_one = (b == -1) if a.dtype.kind == "i" else np.zeros_like(zero)
    safe = np.where(zero | minus_one, b.dtype.type(1), b)
    return a, safe, zero


def _int_div(dtype: np.dtype[Any], a: Lanes, b: Lanes, *, floors: bool) -> tuple[Lanes, Lanes]:
    """Quotient and remainder with x/0 = 0, x%0 = 0 and MIN/-1 = MIN."""
    _, safe, zero = _int_parts(a, b)
    with np.errstate(all="ignore"):
        quotient = np.floor_divide(a, safe)
        remainder = a - quotient * safe
        if not floors:
            fix = (remainder != 0) & ((a < 0) != (safe < 0))
            quotient = quotient + fix.astype(dtype)
            remainder = remainder - np.where(fix, safe, dtype.type(0))
        if dtype.kind == "i":
            quotient = np.where(b == -1, np.negative(a), quotient)
    nought = dtype.type(0)
    return np.where(zero, nought, quotient), np.where(zero | (safe != b), nought, remainder)


def div(_: Attrs, dtype: np.dtype[Any], a: Lanes, b: Lanes) -> Lanes:
    """IEEE quotient, or the truncated one."""
    if is_float(dtype):
        with np.errstate(all="ignore"):
            return np.asarray(np.divide(a, b)).astype(dtype, copy=False)
    return _int_div(dtype, a, b, floors=False)[0].astype(dtype, copy=False)


def rem(_: Attrs, dtype: np.dtype[Any], a: Lanes, b: Lanes) -> Lanes:
    """C's fmod, or the truncated remainder."""
    if is_float(dtype):
        with np.errstate(all="ignore"):
            return np.asarray(np.fmod(_wide(a), _wide(b))).astype(dtype)
    return _int_div(dtype, a, b, floors=False)[1].astype(dtype, copy=False)


def floordiv(_: Attrs, dtype: np.dtype[Any], a: Lanes, b: Lanes) -> Lanes:
    """Python's //: f16 and bf16 by way of f32, rounded at the end."""
    if not is_float(dtype):
        return _int_div(dtype, a, b, floors=True)[0].astype(dtype, copy=False)
    with np.errstate(all="ignore"):
        return _float_floor(_wide(a), _wide(b))[0].astype(dtype)


def mod(_: Attrs, dtype: np.dtype[Any], a: Lanes, b: Lanes) -> Lanes:
    """Python's %: f16 and bf16 by way of f32, rounded at the end."""
    if not is_float(dtype):
        return _int_div(dtype, a, b, floors=True)[1].astype(dtype, copy=False)
    with np.errstate(all="ignore"):
        return _float_floor(_wide(a), _wide(b))[1].astype(dtype)


def _wide(a: Lanes) -> Lanes:
    """f16 and bf16 as f32, which holds them exactly."""
    return a.astype(np.float32) if a.dtype.itemsize == 2 else a


def _float_floor(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """CPython's float_divmod, step by step in the operands' type; x // 0 is x / 0."""
    one, half = a.dtype.type(1), a.dtype.type(0.5)
    ratio, left = a / b, np.fmod(a, b)
    quotient = (a - left) / b
    wrong = (left != 0) & ((left < 0) != (b < 0))
    remainder = np.where(wrong, left + b, np.where(left == 0, np.copysign(left, b), left))
    quotient = np.where(wrong, quotient - one, quotient)
    low = np.floor(quotient)
    nearest = np.where(quotient - low > half, low + one, low)
    floored = np.where(quotient == 0, np.copysign(np.zeros_like(quotient), ratio), nearest)
    return np.where(b == 0, ratio, floored), remainder


def _extreme(dtype: np.dtype[Any], a: Lanes, b: Lanes, *, least: bool) -> Lanes:
    """The lesser or greater, with -0 < +0; NaN propagates as the canonical NaN."""
    if not is_float(dtype):
        return np.asarray(np.minimum(a, b) if least else np.maximum(a, b))
    with np.errstate(all="ignore"):
        below = (a < b) | ((a == b) & (np.signbit(a) >= np.signbit(b)))
        picked = np.where(below, a, b) if least else np.where(below, b, a)
        nan = np.array(canonical_nan(dtype), bits_dtype(dtype)).view(dtype)
        return np.where((a != a) | (b != b), nan, picked)


def minimum(_: Attrs, dtype: np.dtype[Any], a: Lanes, b: Lanes) -> Lanes:
    """IEEE 754-2019 minimum."""
    return _extreme(dtype, a, b, least=True)


def maximum(_: Attrs, dtype: np.dtype[Any], a: Lanes, b: Lanes) -> Lanes:
    """IEEE 754-2019 maximum."""
    return _extreme(dtype, a, b, least=False)


def _without_nan(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """The operands, where one is NaN the other one twice."""
    with np.errstate(all="ignore"):
        return np.where(a != a, b, a), np.where(b != b, a, b)


def minimum_number(_: Attrs, dtype: np.dtype[Any], a: Lanes, b: Lanes) -> Lanes:
    """IEEE 754-2019 minimumNumber."""
    return _extreme(dtype, *_without_nan(a, b), least=True)


def maximum_number(_: Attrs, dtype: np.dtype[Any], a: Lanes, b: Lanes) -> Lanes:
    """IEEE 754-2019 maximumNumber."""
    return _extreme(dtype, *_without_nan(a, b), least=False)


def fma(_: Attrs, dtype: np.dtype[Any], a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """a*b + c with one rounding."""
    return np.asarray(fused(dtype, a, b, c))


def mul_hi(_: Attrs, dtype: np.dtype[Any], a: Lanes, b: Lanes) -> Lanes:
    """High half of the product."""
    width = 8 * dtype.itemsize
    if width == 64:
        return _mul_hi_64(dtype, a, b)
    wide = np.dtype(f"{dtype.kind}8")
    return np.asarray(a.astype(wide) * b.astype(wide) >> wide.type(width)).astype(dtype)


def _mul_hi_64(dtype: np.dtype[Any], a: Lanes, b: Lanes) -> Lanes:
    """By four products of 32-bit halves; a negative operand subtracts the other one."""
    low, by = np.uint64(0xFFFFFFFF), np.uint64(32)
    x, y = (np.asarray(t).view(np.uint64) for t in (a, b))
    with np.errstate(over="ignore"):
        cross = (x >> by) * (y & low) + ((x & low) * (y & low) >> by)
        other = (x & low) * (y >> by) + (cross & low)
        high = (x >> by) * (y >> by) + (cross >> by) + (other >> by)
        if dtype.kind == "i":
            nought = np.uint64(0)
            high = high - np.where(a < 0, y, nought) - np.where(b < 0, x, nought)
    return np.asarray(high).view(dtype)


def _count(dtype: np.dtype[Any], count: Lanes) -> Lanes:
    """A shift count modulo the width."""
    return count & dtype.type(8 * dtype.itemsize - 1)


def shl(_: Attrs, dtype: np.dtype[Any], a: Lanes, b: Lanes) -> Lanes:
    """Left shift."""
    return np.asarray(np.left_shift(a, _count(dtype, b)))


def shr(_: Attrs, dtype: np.dtype[Any], a: Lanes, b: Lanes) -> Lanes:
    """Right shift."""
    return np.asarray(np.right_shift(a, _count(dtype, b)))


def popcount(_: Attrs, dtype: np.dtype[Any], a: Lanes) -> Lanes:
    """Number of one bits."""
    return np.asarray(np.bitwise_count(a.view(bits_dtype(dtype))).astype(dtype))


def ctz(_: Attrs, dtype: np.dtype[Any], a: Lanes) -> Lanes:
    """Number of trailing zero bits: the ones below the lowest one bit."""
    bits = np.asarray(a).view(bits_dtype(dtype))
    below = ~bits & (bits - bits.dtype.type(1))
    return np.asarray(np.bitwise_count(below).astype(dtype))


def clz(_: Attrs, dtype: np.dtype[Any], a: Lanes) -> Lanes:
    """Number of leading zero bits."""
    width = 8 * dtype.itemsize
    smeared = np.asarray(a).view(bits_dtype(dtype))
    step = 1
    while step < width:
        smeared = smeared | (smeared >> smeared.dtype.type(step))
        step *= 2
    return np.asarray((np.uint8(width) - np.bitwise_count(smeared)).astype(dtype))


def cast(_: Attrs, dtype: np.dtype[Any], a: Lanes) -> Lanes:
    """Every conversion, with one rounding."""
    return np.asarray(convert(a, dtype))


def bitcast(_: Attrs, dtype: np.dtype[Any], a: Lanes) -> Lanes:
    """The same bits; a NaN becomes canonical when the result is an integer."""
    lanes = np.asarray(a)
    if dtype.kind in "iu" and lanes.dtype in (*FLOATS, *F8):
        raw = bits_dtype(lanes.dtype)
        nan = raw.type(canonical_nan(lanes.dtype))
        with np.errstate(all="ignore"):
            lanes = np.where(np.isnan(lanes), nan, lanes.view(raw))
    return lanes.view(dtype)
