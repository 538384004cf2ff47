"""Fused multiply-add and conversions with one rounding, by rounding to odd in between.

A value rounded to odd in a format with at least two more bits than the result's keeps
what the last rounding needs to know (Boldo and Melquiond, IEEE Trans. Computers 57, 2008).
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

Lanes = np.ndarray[Any, np.dtype[Any]]

BF16 = np.dtype(ml_dtypes.bfloat16)
F8E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
F8E5M2 = np.dtype(ml_dtypes.float8_e5m2)
F16, F32, F64 = (np.dtype(t) for t in (np.float16, np.float32, np.float64))
F8 = (F8E4M3, F8E5M2)
FLOATS = (F16, BF16, F32, F64)

_F8_LARGEST = {F8E4M3: 448.0, F8E5M2: 57344.0}
_U64 = np.uint64


# ---- conversions ---------------------------------------------------------------------------


def convert(a: Lanes, dtype: np.dtype[Any]) -> Lanes:
    """`cast`: every conversion between scalar types, one rounding each."""
    with np.errstate(all="ignore"):
        if a.dtype == dtype:
            return a
        if a.dtype in F8:
            return convert(a.astype(F32), dtype)
        if dtype == np.bool_:
            return a != 0
        if dtype.kind in "iu":
            return _float_to_int(a, dtype) if a.dtype in FLOATS else a.astype(dtype)
        if dtype in F8:
            return _to_f8(_to_f32_odd(a), dtype)
        if dtype == BF16:
            return _to_f32_odd(a).astype(BF16)
        # NumPy rounds f64 to f16 and f32 once, i64 and u64 to f32 once, and integers that
        # f32 cannot hold exactly are beyond f16's range
        return a.astype(dtype)


def _to_f32_odd(a: Lanes) -> Lanes:
    """As f32, rounded to odd where f32 cannot hold the value."""
    if a.dtype in (F16, BF16, F32) or a.dtype.itemsize <= 2:
        return a.astype(F32)
    return f64_to_f32_odd(_int_to_f64_odd(a) if a.dtype.kind in "iu" else a)


def _int_to_f64_odd(a: Lanes) -> Lanes:
    """As f64; of integers too long for it the low bits are jammed into one."""
    if a.dtype.itemsize <= 4:
        return a.astype(F64)
    negative = a < 0
    size = np.where(negative, np.negative(a), a).view(_U64)
    long = size >= _U64(1 << 53)
    jammed = (size >> _U64(11)) | ((size & _U64(0x7FF)) != 0).astype(_U64)
    exact = np.where(long, jammed, size).astype(F64)
    return exact * np.where(long, 2048.0, 1.0) * np.where(negative, -1.0, 1.0)


def f64_to_f32_odd(a: Lanes) -> Lanes:
    """Rounded to odd: the neighbour with an odd last bit, unless exact."""
    near = a.astype(F32)
    # the neighbour towards zero: where rounding went away, or overflowed, one step back
    away = np.abs(near.astype(F64)) > np.abs(a)
    bits = near.view(np.uint32) - away.astype(np.uint32)
    inexact = bits.view(F32).astype(F64) != a
    return (bits | inexact.astype(np.uint32)).view(F32)  # a NaN stays one


def _to_f8(a: Lanes, dtype: np.dtype[Any]) -> Lanes:
    """From f32 (rounded to odd); what is too large, infinities too, becomes the largest."""
    largest = F32.type(_F8_LARGEST[dtype])
    return np.clip(a, -largest, largest).astype(dtype)


def _float_to_int(a: Lanes, dtype: np.dtype[Any]) -> Lanes:
    """Truncated and saturated; NaN is 0."""
    wide = np.trunc(a.astype(F64))
    info = np.iinfo(dtype)
    high, low = wide >= math.ldexp(1, info.bits - (dtype.kind == "i")), wide < float(info.min)
    inside = np.where(high | low | np.isnan(wide), 0.0, wide).astype(dtype)
    clamped = np.where(high, dtype.type(info.max), inside)
    return np.where(low, dtype.type(info.min), clamped)


# ---- fused multiply-add --------------------------------------------------------------------


def fused(dtype: np.dtype[Any], a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """a*b + c with one rounding."""
    with np.errstate(all="ignore"):
        if dtype == F64:
            return _fma_f64(*np.broadcast_arrays(a, b, c))
        # the product is exact in f64: 2 * 24 bits, exponents within f64's
        product = a.astype(F64) * b.astype(F64)
        return convert(_add_odd(product, np.asarray(c.astype(F64))), dtype)


def two_sum(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """The rounded sum and its exact error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _add_odd(a: Lanes, b: Lanes) -> Lanes:
    """Sum in f64, rounded to odd."""
    total, error = (np.asarray(t) for t in two_sum(a, b))
    bits = total.view(np.int64)
    fix = np.isfinite(error) & (error != 0) & ((bits & 1) == 0)
    # one step towards the error's sign, which is away from zero when the signs agree
    step = np.where(np.signbit(total) == np.signbit(error), 1, -1)
    return np.where(fix, bits + step, bits).view(F64)


def _fma_f64(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Boldo and Melquiond's algorithm where nothing can overflow or underflow, else exactly."""
    high, low = _two_product(a, b)
    top, bottom = two_sum(c, low)
    first, second = two_sum(high, top)
    result = np.asarray(first + _add_odd(np.asarray(second), np.asarray(bottom)))
    safe = _safe(a, b, c)
    if safe.all():
        return result
    plain = np.asarray(np.where(np.isfinite(a) & np.isfinite(b) & ~np.isfinite(c), c, a * b + c))
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (a != 0) & (b != 0)
    result = np.where(safe, result, plain)
    hard = finite & ~safe
    if hard.any():
        exact = [_fma_exact(*map(float, t)) for t in zip(a[hard], b[hard], c[hard], strict=True)]
        result[hard] = exact
    return result


def _safe(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Where every intermediate of the f64 algorithm is exact or normally rounded.

    The product's last bit, 2^-106 below its first, must be a double; splitting multiplies
    by 2^27 and must not overflow; a product or c of zero goes the plain way.
    """
    ea, eb, ec = (np.frexp(t)[1] for t in (a, b, c))
    product = ea + eb
    ok = (product > -960) & (product < 1000) & (ea < 990) & (eb < 990) & (ec < 1000)
    return ok & (a != 0) & (b != 0) & np.isfinite(a) & np.isfinite(b) & np.isfinite(c)


def _two_product(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """The rounded product and its exact error (Dekker, with Veltkamp's splitting)."""
    product = a * b
    a1, a2 = _split(a)
    b1, b2 = _split(b)
    return product, a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)


def _split(a: Lanes) -> tuple[Lanes, Lanes]:
    scaled = a * 134217729.0
    high = scaled - (scaled - a)
    return high, a - high


def _fma_exact(a: float, b: float, c: float) -> float:
    """By integers: their true quotient is correctly rounded, subnormals included."""
    (an, ad), (bn, bd), (cn, cd) = (t.as_integer_ratio() for t in (a, b, c))
    top, bottom = an * bn * cd + cn * ad * bd, ad * bd * cd
    if not top:
        return a * b + c if c == 0 else 0.0
    try:
        nearest = top / bottom
    except OverflowError:
        return math.inf if top > 0 else -math.inf
    return nearest or math.copysign(0.0, 1 if top > 0 else -1)
