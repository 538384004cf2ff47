"""Exponential functions: x = n ln 2 + r, a polynomial for e**r, and a scaling by 2**n.

The reduction is Cody and Waite's (Software Manual for the Elementary Functions, 1980) with
the rounding error of r kept, so that the final addition is the only one that counts.
"""

from __future__ import annotations

import hetir.lang.values as hv
from hetir.frontend.primitive import elementary, library
from hetir.frontend.values import KernelValue
from hetir.ir.types import F64
from hetir.lang.math import tables
from hetir.lang.math.arithmetic import (
    clip,
    fast_two_sum,
    half_square,
    nearest,
    polynomial,
    power_of_two,
    scale,
    times,
    two_sum,
)


@library
def reduce(x: KernelValue) -> KernelValue:
    """n and the pair r with x = n ln 2 + r, for |x| below 750."""
    wide = x.dtype == F64
    log2_e = tables.LOG2_E_F64 if wide else tables.LOG2_E_F32
    head, tail = tables.LN2_N_F64 if wide else tables.LN2_N_F32
    k, n = nearest(x * log2_e[0])
    r = x - k * head
    t = k * tail
    high = r - t
    return n, high, (r - high) - t


@library
def rest(high: KernelValue, low: KernelValue) -> KernelValue:
    """e**(high + low) - 1 - high, for |high| up to ln(2) / 2."""
    p = polynomial(high, tables.EXP_F64 if high.dtype == F64 else tables.EXP_F32)
    return low + high * (low + high * p)


@library
def exp_pair(x: KernelValue, low: KernelValue) -> KernelValue:
    """n and the pair y with e**(x + low) = 2**n * y, for |x| below 750."""
    n, high, tail = reduce(x)
    high, tail = fast_two_sum(high, tail + low)
    s, e = fast_two_sum(1.0, high)
    high, tail = fast_two_sum(s, e + rest(high, tail))
    return n, high, tail


@library
def exp2_pair(x: KernelValue, low: KernelValue) -> KernelValue:
    """n and the pair y with 2**(x + low) = 2**n * y, for |x| up to 1100."""
    k, n = nearest(x)
    r, error = fast_two_sum(x - k, low)
    ln2 = tables.LN2_F64 if x.dtype == F64 else tables.LN2_F32
    high, tail = times(r, ln2)
    s, e = fast_two_sum(1.0, high)
    high, tail = fast_two_sum(s, e + rest(high, tail + error * ln2[0]))
    return n, high, tail


@elementary
def exp(x: KernelValue) -> KernelValue:
    """e to the power `x`; infinity and 0 past the range, subnormal results kept."""
    x = clip(x, -746.0, 710.0) if x.dtype == F64 else clip(x, -104.0, 89.0)
    n, high, low = reduce(x)
    s, e = fast_two_sum(1.0, high)
    return scale(s + (e + rest(high, low)), n)


@elementary
def exp2(x: KernelValue) -> KernelValue:
    """2 to the power `x`; exact where `x` is an integer."""
    wide = x.dtype == F64
    x = clip(x, -1076.0, 1025.0) if wide else clip(x, -151.0, 129.0)
    k, n = nearest(x)
    high, low = times(x - k, tables.LN2_F64 if wide else tables.LN2_F32)
    s, e = fast_two_sum(1.0, high)
    return scale(s + (e + rest(high, low)), n)


@elementary
def exp10(x: KernelValue) -> KernelValue:
    """10 to the power `x`."""
    wide = x.dtype == F64
    x = clip(x, -324.0, 309.0) if wide else clip(x, -46.0, 39.0)
    log2_10 = tables.LOG2_10_F64 if wide else tables.LOG2_10_F32
    head, tail = tables.LG2_N_F64 if wide else tables.LG2_N_F32
    k, n = nearest(x * log2_10[0])
    r, error = fast_two_sum(x - k * head, -(k * tail))
    ln10 = tables.LN10_F64 if wide else tables.LN10_F32
    high, low = times(r, ln10)
    s, e = fast_two_sum(1.0, high)
    return scale(s + (e + rest(high, low + error * ln10[0])), n)


@library
def reduce_large(x: KernelValue) -> KernelValue:
    """As `reduce`, with n = 0 up to 1/2: just above ln(2) / 2 the terms would cancel."""
    n, high, low = reduce(hv.where(hv.abs(x) < 0.5, 0.0, x))
    return n, hv.where(n == 0, x, high), low


@library
def expm1_terms(x: KernelValue) -> KernelValue:
    """n and the pair y with e**x - 1 = 2**n * y; x above -45."""
    n, high, low = reduce_large(x)
    p = polynomial(high, tables.EXPM1_F64 if high.dtype == F64 else tables.EXPM1_F32)
    square, error = half_square(high)
    a, a_low = two_sum(1.0, -power_of_two(hv.where(n > 64, -64, -n)))
    s, e = fast_two_sum(a, high)
    s, e2 = fast_two_sum(s, square)
    return n, s, e + (e2 + (a_low + (error + (low * (1.0 + high) + high * high * high * p))))


@elementary
def expm1(x: KernelValue) -> KernelValue:
    """e**x - 1, accurate near 0."""
    n, high, low = expm1_terms(clip(x, -45.0, 711.0) if x.dtype == F64 else clip(x, -25.0, 90.0))
    return hv.where(hv.abs(x) < 1e-20, x, scale(high + low, n))
