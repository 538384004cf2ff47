"""The error functions: exp(-a**2) times a polynomial in (a - 4) / (a + 4), over 1 + 2a.

The form is M. M. Shepherd and J. G. Laframboise's, Chebyshev approximation of
(1 + 2x) exp(x**2) erfc x (Mathematics of Computation 36, 1981).
"""

from __future__ import annotations

import hetir.lang.values as hv
from hetir.frontend.primitive import elementary, library
from hetir.frontend.values import KernelValue
from hetir.ir.types import F64
from hetir.lang.math import tables
from hetir.lang.math.arithmetic import (
    INF,
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
    """n and the pair y with erfc(a + low) = 2**n * y, for a from 0 to 27.4."""
    p, e = two_product(a, a)
    n, h, tail = exp_pair(-p, -(e + 2.0 * a * low))
    t = (a - 4.0) / (a + 4.0)
    bump = polynomial(t, tables.ERFC_F64 if a.dtype == F64 else tables.ERFC_F32)
    nh, nl = fast_two_sum(h, tail + (h + tail) * bump)
    d, d_low = two_sum(a + a, 1.0)
    q, q_low = divide(nh, nl, d, d_low + 2.0 * low)
    return n, q, q_low


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
    return hv.where(x < 0.0, s + (e - scale(low, n)), y)


@elementary
def erf(x: KernelValue) -> KernelValue:
    """The error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to `x`."""
    a = size(x)
    n, h, low = erfc_pair(a, 0.0)
    s, e = fast_two_sum(1.0, -scale(h, n))
    y = s + (e - scale(low, n))
    y = hv.where(x < 0.0, -y, y)
    p = polynomial(x * x, tables.ERF_F64 if x.dtype == F64 else tables.ERF_F32)
    return hv.where(a < 1.0, x + x * p, y)


@library
def gelu_exact(x: KernelValue) -> KernelValue:
    """x times the normal distribution function, by erfc."""
    wide = x.dtype == F64
    y = hv.where(x < (-39.0 if wide else -15.0), -39.0 if wide else -15.0, x)
    y = hv.where(y > 9.0, 9.0, y)
    z, z_low = times(hv.abs(y), tables.SQRT_HALF_F64 if wide else tables.SQRT_HALF_F32)
    n, h, low = erfc_pair(z, z_low)
    s, e = fast_two_sum(1.0, -scale(h, n - 1))
    left = y < 0.0
    gh, gl = hv.where(left, h, s), hv.where(left, low, e - scale(low, n - 1))
    p, p_low = two_product(y, gh)
    result = scale(p + (p_low + y * gl), hv.where(left, n - 1, 0))
    result = hv.where((x > 9.0) | (x == 0.0), x, result)
    return hv.where(x == -INF, -0.0, result)
