"""Sine, cosine and tangent in radians, for every finite argument."""

from __future__ import annotations

import hetir.lang.values as hv
from hetir.frontend.primitive import elementary, library
from hetir.frontend.values import KernelValue
from hetir.ir.types import F64
from hetir.lang.math import tables
from hetir.lang.math.arithmetic import (
    INF,
    NAN,
    divide,
    fast_two_sum,
    half_square,
    polynomial,
)
from hetir.lang.math.reduction import quarters


@library
def sine(r: KernelValue, low: KernelValue) -> KernelValue:
    """sin(r + low) as a pair, for |r| up to pi/4."""
    u = r * r
    p = polynomial(u, tables.SIN_F64 if r.dtype == F64 else tables.SIN_F32)
    return r, u * r * p + low * (1.0 - 0.5 * u)


@library
def cosine(r: KernelValue, low: KernelValue) -> KernelValue:
    """cos(r + low) as a pair, for |r| up to pi/4."""
    u = r * r
    p = polynomial(u, tables.COS_F64 if r.dtype == F64 else tables.COS_F32)
    square, error = half_square(r)
    s, e = fast_two_sum(1.0, -square)
    return s, e + ((u * u * p - r * low) - error)


@library
def turned(n: KernelValue, r: KernelValue, low: KernelValue) -> KernelValue:
    """sin(n pi/2 + r + low)."""
    sh, sl = sine(r, low)
    ch, cl = cosine(r, low)
    y = hv.where((n & 1) == 0, sh + sl, ch + cl)
    return hv.where((n & 2) == 0, y, -y)


@elementary
def sin(x: KernelValue) -> KernelValue:
    """The sine of `x` radians; NaN at infinity."""
    n, r, low = quarters(x)
    y = turned(n, r, low)
    y = hv.where(x < 0.0, -y, y)
    y = hv.where(hv.abs(x) < INF, y, NAN)
    return hv.where(hv.abs(x) < 1e-20, x, y)


@elementary
def cos(x: KernelValue) -> KernelValue:
    """The cosine of `x` radians; NaN at infinity."""
    n, r, low = quarters(x)
    return hv.where(hv.abs(x) < INF, turned(n + 1, r, low), NAN)


@library
def sincos(x: KernelValue) -> KernelValue:
    """`sin(x), cos(x)`; the reduction of the argument is shared."""
    return sin(x), cos(x)


@elementary
def tan(x: KernelValue) -> KernelValue:
    """The tangent of `x` radians; NaN at infinity."""
    n, r, low = quarters(x)
    sh, sl = fast_two_sum(*sine(r, low))
    ch, cl = fast_two_sum(*cosine(r, low))
    even = (n & 1) == 0
    nh, nl = hv.where(even, sh, -ch), hv.where(even, sl, -cl)
    q, e = divide(nh, nl, hv.where(even, ch, sh), hv.where(even, cl, sl))
    y = q + e
    y = hv.where(x < 0.0, -y, y)
    y = hv.where(hv.abs(x) < INF, y, NAN)
    return hv.where(hv.abs(x) < 1e-20, x, y)
