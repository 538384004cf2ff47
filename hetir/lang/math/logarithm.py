"""Logarithms: x = 2**k * (1 + f), a polynomial for log(1 + f), and k log(2) added as a pair."""

from __future__ import annotations

import hetir.lang.values as hv
from hetir.frontend.primitive import elementary, library
from hetir.frontend.values import KernelValue
from hetir.ir.types import F32, F64, I32, I64
from hetir.lang.math import tables
from hetir.lang.math.arithmetic import (
    INF,
    NAN,
    bits_of,
    fast_two_sum,
    half_square,
    polynomial,
    power_of_two,
    times,
    two_sum,
)


@library
def mantissa(x: KernelValue) -> KernelValue:
    """k and m with x = 2**k * m, m from 2/3 to 4/3, for a positive normal x."""
    bits = bits_of(x)
    if x.dtype == F64:
        k = (bits - 0x3FE5555555555555) >> 52
        return k, hv.bitcast(bits - (k << 52), F64)
    k = (bits - 0x3F2AAAAB) >> 23
    return k, hv.bitcast(bits - (k << 23), F32)


@library
def normal(x: KernelValue) -> KernelValue:
    """A subnormal x made normal, and the exponent that was taken from it."""
    if x.dtype == F64:
        small = x < 2.2250738585072014e-308
        return hv.where(small, x * 18014398509481984.0, x), hv.where(small, hv.cast(-54, I64), 0)
    small = x < 1.1754943508222875e-38
    return hv.where(small, x * 16777216.0, x), hv.where(small, hv.cast(-24, I32), 0)


@library
def log_terms(f: KernelValue, low: KernelValue | None = None) -> KernelValue:
    """log(1 + f + low) as a pair, for |f| up to 1/3."""
    square, error = half_square(f)
    p = polynomial(f, tables.LOG_F64 if f.dtype == F64 else tables.LOG_F32)
    s = f - square
    tail = f * f * f * p
    if low is not None:
        tail += low * (1.0 - f * (1.0 - f))
    return s, ((f - s) - square) + (tail - error)


@library
def special(x: KernelValue, y: KernelValue) -> KernelValue:
    """y, or what a logarithm is at 0, below 0, at infinity and NaN."""
    y = hv.where(x == 0.0, -INF, y)
    y = hv.where(x < 0.0, NAN, y)
    return hv.where(x < INF, y, x)


@library
def add_exponent(k: KernelValue, f: KernelValue, tail: KernelValue) -> KernelValue:
    """k ln(2) + f + tail, as a pair."""
    ln2 = tables.LN2_N_F64 if f.dtype == F64 else tables.LN2_N_F32
    s, e = fast_two_sum(k * ln2[0], f)
    return s, e + (tail + k * ln2[1])


@elementary
def log(x: KernelValue) -> KernelValue:
    """The natural logarithm; -infinity at 0, NaN below."""
    y, moved = normal(x)
    k, m = mantissa(y)
    high, low = add_exponent(hv.cast(k + moved, x.dtype), *log_terms(m - 1.0))
    return special(x, high + low)


@elementary
def log2(x: KernelValue) -> KernelValue:
    """The logarithm to base 2; exact for powers of two."""
    y, moved = normal(x)
    k, m = mantissa(y)
    high, low = fast_two_sum(*log_terms(m - 1.0))
    scaled, tail = times(high, tables.INV_LN2_F64 if x.dtype == F64 else tables.INV_LN2_F32)
    s, e = fast_two_sum(hv.cast(k + moved, x.dtype), scaled)
    return special(x, s + (e + (tail + low * tables.INV_LN2_F64[0])))


@elementary
def log10(x: KernelValue) -> KernelValue:
    """The logarithm to base 10; exact for powers of ten."""
    wide = x.dtype == F64
    y, moved = normal(x)
    k, m = mantissa(y)
    high, low = fast_two_sum(*log_terms(m - 1.0))
    scaled, tail = times(high, tables.INV_LN10_F64 if wide else tables.INV_LN10_F32)
    count = hv.cast(k + moved, x.dtype)
    lg2 = tables.LG2_N_F64 if wide else tables.LG2_N_F32
    s, e = fast_two_sum(count * lg2[0], scaled)
    return special(x, s + (e + (tail + (low * tables.INV_LN10_F64[0] + count * lg2[1]))))


@library
def log1p_pair(u: KernelValue, low: KernelValue) -> KernelValue:
    """log(1 + u + low) as a pair, relatively accurate near 0; u above -1 and finite."""
    v, error = two_sum(1.0, u)
    k, m = mantissa(v)
    # for the largest k the error counts no more
    scaled = (error + low) * power_of_two(hv.where(k > 126, -126, -k))
    f = hv.where(k == 0, u, m - 1.0)
    high, tail = log_terms(f, hv.where(k == 0, low, scaled))
    return add_exponent(hv.cast(k, u.dtype), high, tail)


@elementary
def log1p(x: KernelValue) -> KernelValue:
    """log(1 + x), accurate near 0."""
    high, low = log1p_pair(x, 0.0)
    y = special(1.0 + x, high + low)
    return hv.where(hv.abs(x) < 1e-20, x, y)
