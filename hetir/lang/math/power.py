"""Powers: 2**(y log2 x) with the logarithm as a pair of 36 (70) good bits and more."""

from __future__ import annotations

import hetir.lang.values as hv
from hetir.frontend.primitive import elementary, library
from hetir.frontend.values import KernelValue
from hetir.ir.types import F32, F64, I64
from hetir.lang.math import tables
from hetir.lang.math.arithmetic import (
    INF,
    NAN,
    bits_of,
    clip,
    divide,
    fast_two_sum,
    polynomial,
    scale,
    times,
    two_product,
    two_sum,
)
from hetir.lang.math.exponential import exp2_pair
from hetir.lang.math.logarithm import mantissa, normal


@library
def atanh_rest(u: KernelValue, low: KernelValue) -> KernelValue:
    """atanh(s) / s - 1 as a pair, where u + low = s**2, for |s| up to 1/5."""
    if u.dtype == F64:
        # the powers of log2 reach 1024, which takes ten bits from the next term's rounding too
        fifth, fifth_low = tables.FIFTH_F64
        v, v_low = fast_two_sum(hv.cast(fifth, F64), u * polynomial(u, tables.ATANH_F64))
        w, w_low = two_product(u, v)
        w_low = w_low + (u * (v_low + fifth_low) + low * v)
        third, third_low = tables.THIRD_F64
        v, v_low = fast_two_sum(hv.cast(third, F64), w)
        v_low = v_low + (w_low + third_low)
        t, t_low = two_product(u, v)
        return fast_two_sum(t, t_low + (u * v_low + low * v))
    t, t_low = times(u, tables.THIRD_F32)
    p = polynomial(u, tables.ATANH_F32)
    return fast_two_sum(t, t_low + (low * tables.THIRD_F32[0] + u * u * p))


@library
def log2_pair(x: KernelValue) -> KernelValue:
    """log2(x) as a pair, for a positive finite x, by 2 atanh((m - 1) / (m + 1))."""
    y, moved = normal(x)
    k, m = mantissa(y)
    d, d_low = two_sum(m, 1.0)
    s, low = fast_two_sum(*divide(m - 1.0, 0.0, d, d_low))
    u, u_low = two_product(s, s)
    t, t_low = atanh_rest(u, u_low + 2.0 * s * low)
    product, error = two_product(s, t)
    h, e = fast_two_sum(s, product)
    h, e = fast_two_sum(h, e + (error + (s * t_low + low * (1.0 + t))))
    q, q_low = times(h + h, tables.INV_LN2_F64 if x.dtype == F64 else tables.INV_LN2_F32)
    high, tail = fast_two_sum(hv.cast(k + moved, x.dtype), q)
    return fast_two_sum(high, tail + (q_low + 2.0 * e * tables.INV_LN2_F64[0]))


@library
def magnitude(a: KernelValue, y: KernelValue, low: KernelValue) -> KernelValue:
    """a ** (y + low) for a from 0 to infinity."""
    wide = a.dtype == F64
    inside = (a > 0.0) & (a < INF)
    lh, ll = log2_pair(hv.where(inside, a, 1.0))
    # a logarithm other than 0 times the bound is past the range
    bound = 2.0**80 if wide else 2.0**50
    y = clip(y, -bound, bound)
    h, e = two_product(y, lh)
    h, e = fast_two_sum(h, e + (y * ll + low * lh))
    z = clip(h, -1076.0, 1025.0) if wide else clip(h, -151.0, 129.0)
    n, high, _ = exp2_pair(z, hv.where(z == h, e, 0.0))
    result = scale(high, n)
    result = hv.where(inside, result, 0.0)
    return hv.where((a == 0.0) & (y < 0.0) | (a == INF) & (y > 0.0), INF, result)


@library
def signed(x: KernelValue, y: KernelValue, odd: KernelValue) -> KernelValue:
    """y with the sign of an odd power of x."""
    return hv.where((bits_of(x) < 0) & odd, -y, y)


@elementary
def pow(x: KernelValue, y: KernelValue) -> KernelValue:
    """`x` to the power `y`; NaN for a negative `x` and a fraction, the rest as in C."""
    a = hv.abs(x)
    result = magnitude(a, y, 0.0)
    half = 0.5 * y
    whole = hv.trunc(y) == y
    odd = whole & (hv.trunc(half) != half)
    result = signed(x, result, odd)
    result = hv.where((x < 0.0) & (a < INF) & ~whole, NAN, result)
    result = hv.where((x == x) & (y == y), result, NAN)
    return hv.where((x == 1.0) | (y == 0.0), 1.0, result)


@library
def powi(x: KernelValue, n: KernelValue) -> KernelValue:
    """A float `x` to the power of an integer `n`; 1 for n = 0."""
    if x.dtype != F64 and x.dtype != F32:
        kind = x.dtype if x.dtype.is_float else F32
        return hv.cast(powi(hv.cast(x, F32), n), kind)
    count = hv.cast(n, I64)
    y = hv.cast(count, x.dtype)
    low = hv.cast(count - hv.cast(y, I64), x.dtype)
    result = signed(x, magnitude(hv.abs(x), y, low), (count & 1) != 0)
    result = hv.where(x == x, result, NAN)
    return hv.where(count == 0, 1.0, result)
