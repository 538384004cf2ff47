"""Inverse trigonometric functions."""

from __future__ import annotations

import hetir.lang.values as hv
from hetir.frontend.primitive import elementary, library
from hetir.frontend.values import KernelValue
from hetir.ir.types import F64
from hetir.lang.math import tables
from hetir.lang.math.arithmetic import (
    INF,
    NAN,
    bits_of,
    divide,
    fast_two_sum,
    polynomial,
    square_root,
)


@library
def asin_pair(s: KernelValue, low: KernelValue) -> KernelValue:
    """asin(s + low) as a pair, for s from 0 to 1/2."""
    u = s * s
    p = polynomial(u, tables.ASIN_F64 if s.dtype == F64 else tables.ASIN_F32)
    return s, s * u * p + low * (1.0 + 0.5 * u)


@library
def folded(a: KernelValue) -> KernelValue:
    """For a from 0 to 1: whether a > 1/2, and the pair s that is a or sqrt((1 - a) / 2)."""
    above = a > 0.5
    z = 0.5 - 0.5 * a  # exact above 1/2
    root, low = square_root(hv.where(above & (z > 0.0), z, 1.0), 0.0)
    s = hv.where(above, hv.where(z > 0.0, root, 0.0), a)
    return above, s, hv.where(above & (z > 0.0), low, 0.0)


@library
def unit(x: KernelValue) -> KernelValue:
    """|x|, and 0 where it is above 1 or NaN."""
    a = hv.abs(x)
    return hv.where(a <= 1.0, a, 0.0)


@elementary
def asin(x: KernelValue) -> KernelValue:
    """The arc sine; NaN beyond 1."""
    a = unit(x)
    above, s, low = folded(a)
    high, tail = asin_pair(s, low)
    # asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2))
    p, p_low = tables.HALF_PI_SUM_F64 if x.dtype == F64 else tables.HALF_PI_SUM_F32
    r, e = fast_two_sum(hv.where(above, p, high), hv.where(above, -2.0 * high, 0.0))
    y = r + (e + hv.where(above, p_low - 2.0 * tail, tail))
    y = hv.where(x < 0.0, -y, y)
    y = hv.where(hv.abs(x) <= 1.0, y, NAN)
    return hv.where(hv.abs(x) < 1e-20, x, y)


@elementary
def acos(x: KernelValue) -> KernelValue:
    """The arc cosine; NaN beyond 1."""
    a = unit(x)
    above, s, low = folded(a)
    high, tail = asin_pair(s, low)
    wide = x.dtype == F64
    h, h_low = tables.HALF_PI_SUM_F64 if wide else tables.HALF_PI_SUM_F32
    p, p_low = tables.PI_SUM_F64 if wide else tables.PI_SUM_F32
    # pi/2 - asin(x) below 1/2; 2 asin(s) or pi - 2 asin(s) above
    below_zero = x < 0.0
    factor = hv.where(above, hv.where(below_zero, -2.0, 2.0), hv.where(below_zero, 1.0, -1.0))
    factor = hv.cast(factor, x.dtype)
    base = hv.cast(hv.where(above, hv.where(below_zero, p, 0.0), h), x.dtype)
    base_low = hv.cast(hv.where(above, hv.where(below_zero, p_low, 0.0), h_low), x.dtype)
    r, e = fast_two_sum(base, factor * high)
    y = r + (e + (base_low + factor * tail))
    return hv.where(hv.abs(x) <= 1.0, y, NAN)


@library
def atan_ratio(n: KernelValue, d: KernelValue) -> KernelValue:
    """atan(n / d) as a pair, for 0 <= n <= d, d normal and below 2**100 (2**1000)."""
    # above tan(pi/8): pi/4 + atan((n - d) / (n + d))
    fold = n > 0.41421356 * d
    up, up_low = fast_two_sum(-d, n)
    down, down_low = fast_two_sum(d, n)
    nh, nl = hv.where(fold, up, n), hv.where(fold, up_low, 0.0)
    t, low = divide(nh, nl, hv.where(fold, down, d), hv.where(fold, down_low, 0.0))
    u = t * t
    wide = n.dtype == F64
    p = polynomial(u, tables.ATAN_F64 if wide else tables.ATAN_F32)
    quarter, quarter_low = tables.QUARTER_PI_SUM_F64 if wide else tables.QUARTER_PI_SUM_F32
    s, e = fast_two_sum(hv.cast(hv.where(fold, quarter, 0.0), n.dtype), t)
    fixed = hv.cast(hv.where(fold, quarter_low, 0.0), n.dtype)
    return fast_two_sum(s, e + (fixed + (t * u * p + low * (1.0 - u))))


@library
def turn(base: KernelValue, low: KernelValue, high: KernelValue, tail: KernelValue) -> KernelValue:
    """base + low + high + tail, rounded."""
    s, e = fast_two_sum(base, high)
    return s + (e + (low + tail))


@elementary
def atan(x: KernelValue) -> KernelValue:
    """The arc tangent."""
    a = hv.abs(x)
    large = a > 1.0
    # past 2**64 the reciprocal is below a rounding of pi/2
    d = hv.where(large, hv.where(a < 1.8446744073709552e19, a, 1.8446744073709552e19), 1.0)
    high, tail = atan_ratio(hv.where(large, 1.0, hv.where(a <= 1.0, a, 0.0)), d)
    p, p_low = tables.HALF_PI_SUM_F64 if x.dtype == F64 else tables.HALF_PI_SUM_F32
    sign = hv.cast(hv.where(large, -1.0, 1.0), x.dtype)
    y = turn(
        hv.cast(hv.where(large, p, 0.0), x.dtype),
        hv.cast(hv.where(large, p_low, 0.0), x.dtype),
        sign * high,
        sign * tail,
    )
    y = hv.where(x < 0.0, -y, y)
    y = hv.where(a <= INF, y, x)
    return hv.where(a < 1e-20, x, y)


@elementary
def atan2(y: KernelValue, x: KernelValue) -> KernelValue:
    """The angle of the point (x, y), from -pi to pi; signed zeros and infinities as in C."""
    wide = x.dtype == F64
    a, b = hv.abs(y), hv.abs(x)
    steep = a > b
    small, large = hv.where(steep, b, a), hv.where(steep, a, b)
    both = small == INF
    n = hv.where(both, 1.0, small)
    d = hv.where(both, 1.0, hv.where(large == INF, 1.0, large))
    n = hv.where((large == INF) & (small < INF), 0.0, n)
    d = hv.where(large == 0.0, 1.0, d)
    # a small ratio is its own angle: divided with n scaled up, and scaled down in one rounding
    gain, loss, bound = (2.0**200, 2.0**-200, 2.0**-60) if wide else (2.0**60, 2.0**-60, 2.0**-30)
    tiny = n < d * bound
    # into the middle of the range: the quotient stays
    up, down = (2.0**600, 2.0**-600) if wide else (2.0**64, 2.0**-64)
    factor = hv.cast(hv.where(d > up, down, hv.where(d < down, up, 1.0)), x.dtype)
    n = n * (factor * hv.where(tiny, gain, hv.cast(1.0, x.dtype)))
    d = d * factor
    high, tail = atan_ratio(hv.where(tiny, 0.0, n), d)
    t, t_low = divide(n, 0.0, d, 0.0)
    high, tail = hv.where(tiny, (t + t_low) * loss, high), hv.where(tiny, 0.0, tail)
    left = bits_of(x) < 0
    h, h_low = tables.HALF_PI_SUM_F64 if wide else tables.HALF_PI_SUM_F32
    p, p_low = tables.PI_SUM_F64 if wide else tables.PI_SUM_F32
    base = hv.cast(hv.where(steep, h, hv.where(left, p, 0.0)), x.dtype)
    low = hv.cast(hv.where(steep, h_low, hv.where(left, p_low, 0.0)), x.dtype)
    sign = hv.cast(hv.where(steep != left, -1.0, 1.0), x.dtype)
    angle = turn(base, low, sign * high, sign * tail)
    angle = hv.where(bits_of(y) < 0, -angle, angle)
    return hv.where((a <= INF) & (b <= INF), angle, NAN)
