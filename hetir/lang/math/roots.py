"""Roots with an exact residual: of the hardware's square root, or after Newton's iteration."""

from __future__ import annotations

import hetir.lang.values as hv
from hetir.frontend.primitive import elementary
from hetir.frontend.values import KernelValue
from hetir.ir.types import F32, F64
from hetir.lang.math import tables
from hetir.lang.math.arithmetic import (
    INF,
    NAN,
    bits_of,
    polynomial,
    power_of_two,
    scale,
    square_root,
    two_product,
    two_sum,
)
from hetir.lang.math.logarithm import normal


@elementary
def rsqrt(x: KernelValue) -> KernelValue:
    """1 / sqrt(x): infinite at 0 with its sign, NaN below 0."""
    wide = x.dtype == F64
    y, moved = normal(hv.abs(x))
    # y = m * 4**k with m from 1 to 4
    bits = bits_of(y)
    k = (bits - 0x3FF0000000000000) >> 53 if wide else (bits - 0x3F800000) >> 24
    m = hv.bitcast(bits - (k << (53 if wide else 24)), x.dtype)
    s = hv.sqrt(m)
    r = 1.0 / s
    p, e = two_product(s, s)
    one, low = two_product(s, r)
    # what the quotient lacks, less what the root lacks: sqrt(m) = s + (m - s**2) / 2s
    r = r + r * ((1.0 - one) - low - 0.5 * ((m - p) - e) * (r * r))
    r = r * power_of_two(-k - (moved >> 1))
    r = hv.where(x > 0.0, r, NAN)
    r = hv.where(x == INF, 0.0, r)
    r = hv.where(x == 0.0, INF, r)
    return hv.where((x == 0.0) & (bits_of(x) < 0), -INF, r)


@elementary
def cbrt(x: KernelValue) -> KernelValue:
    """The cube root."""
    wide = x.dtype == F64
    y, moved = normal(hv.abs(x))
    bits = bits_of(y)
    exponent = (bits >> 52) - 1023 if wide else (bits >> 23) - 127
    # the third of an exponent, floored
    third = ((exponent + 1536) * 21846 >> 16) - 512
    if wide:
        m = hv.bitcast(bits - (3 * third << 52), F64)
    else:
        m = hv.bitcast(bits - (3 * third << 23), F32)
    r = polynomial(m, tables.CBRT_F64 if wide else tables.CBRT_F32)
    for _ in (1, 2) if wide else (1,):
        e = 1.0 - m * r * r * r
        r = r + r * e * (0.3333333333333333 + 0.2222222222222222 * e)
    c = m * r * r
    h, e = two_product(c, c)
    p, p_low = two_product(h, c)
    c = c + (((m - p) - p_low) - e * c) * (r * r * 0.3333333333333333)
    # what made a subnormal normal is a multiple of 3: 24 or 54
    c = c * power_of_two(third + hv.where(moved == 0, moved, -18 if wide else -8))
    c = hv.where(x < 0.0, -c, c)
    return hv.where((x == 0.0) | (hv.abs(x) == INF) | (x != x), x, c)


@elementary
def hypot(x: KernelValue, y: KernelValue) -> KernelValue:
    """sqrt(x**2 + y**2) without overflow on the way; infinite beside NaN where one is."""
    wide = x.dtype == F64
    a, b = hv.abs(x), hv.abs(y)
    large, small = hv.where(a > b, a, b), hv.where(a > b, b, a)
    n = hv.where(large > (2.0**500 if wide else 2.0**50), -600 if wide else -80, 0)
    n = hv.where(large < (2.0**-400 if wide else 2.0**-30), 600 if wide else 80, n)
    n = hv.cast(n, bits_of(x).dtype)
    factor = power_of_two(n)
    nought = (large == 0.0) | (large == INF)
    p, p_low = two_product(
        hv.where(nought, 1.0, large * factor), hv.where(nought, 1.0, large * factor)
    )
    q, q_low = two_product(small * factor, small * factor)
    h, e = two_sum(p, q)
    root, low = square_root(h, e + (p_low + q_low))
    result = scale(root + low, -n)
    result = hv.where(large == 0.0, 0.0, result)
    result = hv.where((a <= INF) & (b <= INF), result, NAN)
    return hv.where((a == INF) | (b == INF), INF, result)
