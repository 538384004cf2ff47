"""The error functions: exp(-a**2) times a polynomial in (a - 2) / (a + 2), over 1 + 3a/2.

The form, there with 1 + 2a, is M. M. Shepherd and J. G. Laframboise's, Chebyshev approximation of
(1 + 2x) exp(x**2) erfc x (Mathematics of Computation 36, 1981).
"""

from __future__ import annotations

import hetir.lang.values as hv
from hetir.frontend.primitive import elementary, library
from hetir.frontend.values import KernelValue
from hetir.ir.types import F64
from hetir.lang.math import tables
from hetir.lang.math.arithmetic import (
    divide,
    fast_two_sum,
    polynomial,
    scale,
    times,
    two_product,
    two_sum,
)
from hetir.lang.math.exponential import exp_pair


@library
def erfc_pair(a: KernelValue, low: KernelValue) -> KernelValue:
    """n and the pair y with erfc(a + low) = 2**n * y, for a from 0.49 to 27.4."""
    p, e = two_product(a, a)
    n, h, tail = exp_pair(-p, -(e + 2.0 * a * low))
    t = (a - 2.0) / (a + 2.0)
    bump = polynomial(t, tables.ERFC_F64 if a.dtype == F64 else tables.ERFC_F32)
    nh, nl = fast_two_sum(h, tail + (h * bump + tail * bump))
    d, e = two_sum(a, 1.0)
    d, d_low = fast_two_sum(d, 0.5 * a)
    q, q_low = divide(nh, nl, d, d_low + (e + 1.5 * low))
    return n, q, q_low


@library
def erf_slope(x: KernelValue) -> KernelValue:
    """erf(x) / x - 1, for |x| up to 3/4."""
    return polynomial(x * x, tables.ERF_F64 if x.dtype == F64 else tables.ERF_F32)


@library
def size(x: KernelValue) -> KernelValue:
    """|x|, up to where erfc(|x|) is 0."""
    a = hv.abs(x)
    bound = 27.4 if x.dtype == F64 else 10.2
    return hv.where(a > bound, bound, a)


@elementary
def erfc(x: KernelValue) -> KernelValue:
    """1 - erf(x), accurate where it is small."""
    n, h, low = erfc_pair(size(x), 0.0)
    y = scale(h + low, n)
    s, e = fast_two_sum(2.0, -scale(h, n))
    y = hv.where(x < 0.0, s + (e - scale(low, n)), y)
    s, e = fast_two_sum(1.0, -x)
    return hv.where(hv.abs(x) < 0.5, s + (e - x * erf_slope(x)), y)


@elementary
def erf(x: KernelValue) -> KernelValue:
    """The error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to `x`."""
    a = size(x)
    n, h, low = erfc_pair(a, 0.0)
    s, e = fast_two_sum(1.0, -scale(h, n))
    y = s + (e - scale(low, n))
    y = hv.where(x < 0.0, -y, y)
    return hv.where(a < 0.75, x + x * erf_slope(x), y)


@library
def normal_share(x: KernelValue) -> KernelValue:
    """n and the pair y with (1 + erf(x / sqrt(2))) / 2 = 2**n * y, for |x| up to 38.7."""
    z, z_low = times(x, tables.SQRT_HALF_F64 if x.dtype == F64 else tables.SQRT_HALF_F32)
    sign = hv.cast(hv.where(x < 0.0, -1.0, 1.0), x.dtype)
    n, h, low = erfc_pair(sign * z, sign * z_low)
    s, e = fast_two_sum(1.0, -scale(h, n - 1))
    left = x < 0.0
    high, tail = hv.where(left, h, s), hv.where(left, low, e - scale(low, n - 1))
    s, e = fast_two_sum(1.0, z)
    s, e = fast_two_sum(s, e + (z * erf_slope(z) + z_low * 1.1283791670955126))
    middle = hv.abs(z) < 0.5
    n = hv.where(middle, -1, hv.where(left, n - 1, 0))
    return n, hv.where(middle, s, high), hv.where(middle, e, tail)
