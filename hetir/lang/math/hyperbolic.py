"""Hyperbolic functions and their inverses, from the pairs of exponentials and logarithms."""

from __future__ import annotations

import hetir.lang.values as hv
from hetir.frontend.primitive import elementary, library
from hetir.frontend.values import KernelValue
from hetir.ir.types import F64
from hetir.lang.math import tables
from hetir.lang.math.arithmetic import (
    INF,
    NAN,
    clip,
    divide,
    fast_two_sum,
    polynomial,
    power_of_two,
    scale,
    square_root,
    two_product,
    two_sum,
)
from hetir.lang.math.exponential import expm1_terms, reduce_large
from hetir.lang.math.logarithm import log1p_pair


@library
def odd(x: KernelValue, y: KernelValue) -> KernelValue:
    """An odd function near x at 0 from its value y at |x|."""
    y = hv.where(x < 0.0, -y, y)
    return hv.where(hv.abs(x) < 1e-20, x, y)


@library
def halves_of_exp(x: KernelValue) -> KernelValue:
    """For x >= 0: n, t = 4**-n, r, and e, o with e**r = 1 + e + r + o, e even and o odd in r."""
    n, r, low = reduce_large(x)
    u = r * r
    wide = x.dtype == F64
    even = u * polynomial(u, tables.COSH_F64 if wide else tables.COSH_F32) + r * low
    rest = r * u * polynomial(u, tables.SINH_F64 if wide else tables.SINH_F32) + low
    return n, power_of_two(hv.where(n > 32, -64, -2 * n)), r, even, rest


@elementary
def sinh(x: KernelValue) -> KernelValue:
    """The hyperbolic sine."""
    size = clip(hv.abs(x), 0.0, 712.0) if x.dtype == F64 else clip(hv.abs(x), 0.0, 90.0)
    # sinh(n ln 2 + r) = 2**(n-1) * (e**r - 4**-n * e**-r)
    n, t, r, even, rest = halves_of_exp(size)
    a, e1 = fast_two_sum(1.0, -t)
    s, e2 = fast_two_sum(a, r)
    s, e3 = fast_two_sum(s, t * r)
    return odd(x, scale(s + (e3 + e2 + e1 + (even * a + rest * (1.0 + t))), n - 1))


@elementary
def cosh(x: KernelValue) -> KernelValue:
    """The hyperbolic cosine."""
    size = clip(hv.abs(x), 0.0, 712.0) if x.dtype == F64 else clip(hv.abs(x), 0.0, 90.0)
    n, t, r, even, rest = halves_of_exp(size)
    b, e1 = fast_two_sum(1.0, t)
    s, e2 = fast_two_sum(b, r)
    s, e3 = fast_two_sum(s, -(t * r))
    return scale(s + (e3 + e2 + e1 + (even * b + rest * (1.0 - t))), n - 1)


@elementary
def tanh(x: KernelValue) -> KernelValue:
    """The hyperbolic tangent: expm1(2|x|) / (expm1(2|x|) + 2) of pairs."""
    size = clip(hv.abs(x), 0.0, 22.0) if x.dtype == F64 else clip(hv.abs(x), 0.0, 10.0)
    n, high, low = expm1_terms(size + size)
    nh, nl = fast_two_sum(high, low)
    dh, dl = two_sum(nh, 2.0 * power_of_two(-n))
    q, e = divide(nh, nl, dh, dl + nl)
    return odd(x, q + e)


@library
def add_ln2(large: KernelValue, high: KernelValue, low: KernelValue) -> KernelValue:
    """high + low, and ln(2) where large."""
    head, tail = tables.LN2_N_F64 if high.dtype == F64 else tables.LN2_N_F32
    s, e = two_sum(hv.cast(hv.where(large, head, 0.0), high.dtype), high)
    return s + (e + (low + hv.cast(hv.where(large, tail, 0.0), high.dtype)))


@elementary
def asinh(x: KernelValue) -> KernelValue:
    """The inverse of sinh: log1p(a + a**2 / (1 + sqrt(1 + a**2))), and log(2a) where a is large."""
    a = hv.abs(x)
    large = a > (1e18 if x.dtype == F64 else 1e9)
    b = hv.where(large, 1.0, a)
    square, error = two_product(b, b)
    h, e = two_sum(1.0, square)
    root, root_low = square_root(h, e + error)
    d, d_low = fast_two_sum(root, 1.0)
    q, q_low = divide(square, error, d, d_low + root_low)
    u, low = two_sum(b, q)
    # where a is large, 1 + a is a
    high, tail = log1p_pair(hv.where(large, a, u), hv.where(large, 0.0, low + q_low))
    y = add_ln2(large, high, tail)
    return odd(x, hv.where(a < INF, y, a))


@elementary
def acosh(x: KernelValue) -> KernelValue:
    """The inverse of cosh; NaN below 1."""
    large = x > (1e18 if x.dtype == F64 else 1e9)
    # cosh(y) = 1 + v gives y = log1p(v + sqrt(v * (v + 2)))
    v = hv.where(large, 1.0, x - 1.0)
    d, e = two_sum(v, 2.0)
    p, p_low = two_product(v, d)
    root, root_low = square_root(hv.where(p > 0.0, p, 1.0), hv.where(p > 0.0, p_low + v * e, 0.0))
    u, low = two_sum(hv.where(p > 0.0, root, 0.0), v)
    high, tail = log1p_pair(hv.where(large, x, u), hv.where(large, 0.0, low + root_low))
    y = add_ln2(large, high, tail)
    y = hv.where(x < INF, y, x)
    y = hv.where(x == 1.0, 0.0, y)
    return hv.where(x < 1.0, NAN, y)


@elementary
def atanh(x: KernelValue) -> KernelValue:
    """The inverse of tanh: log1p(2a / (1 - a)) / 2; infinite at 1, NaN beyond."""
    a = hv.abs(x)
    b = hv.where(a < 1.0, a, 0.0)
    d, e = fast_two_sum(1.0, -b)
    u, low = divide(b + b, 0.0, d, e)
    high, tail = log1p_pair(u, low)
    y = 0.5 * (high + tail)
    y = hv.where(a == 1.0, INF, y)
    return odd(x, hv.where(a > 1.0, NAN, hv.where(a <= 1.0, y, x)))
