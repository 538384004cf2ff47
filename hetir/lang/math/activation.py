"""Activation functions of neural networks, accurate in both tails."""

from __future__ import annotations

import hetir.lang.values as hv
from hetir.frontend.primitive import elementary, library
from hetir.frontend.values import KernelValue
from hetir.ir.types import F64
from hetir.lang.math import tables
from hetir.lang.math.arithmetic import (
    INF,
    clip,
    divide,
    fast_two_sum,
    power_of_two,
    scale,
    times,
    two_product,
    two_sum,
)
from hetir.lang.math.error import normal_share
from hetir.lang.math.exponential import exp_pair, reduce, rest
from hetir.lang.math.logarithm import log1p_pair


@library
def sigmoid_share(
    left: KernelValue, n: KernelValue, h: KernelValue, tail: KernelValue
) -> KernelValue:
    """n and the pair y with the sigmoid of x = 2**n * y, from e**-|x| = 2**n * (h + tail)."""
    # below 2**-64 the exponential is below a rounding of 1
    factor = power_of_two(hv.where(n < -64, -64, n))
    d, e = fast_two_sum(1.0, h * factor)
    q, q_low = divide(hv.where(left, h, 1.0), hv.where(left, tail, 0.0), d, e + tail * factor)
    return hv.where(left, n, 0), q, q_low


@library
def sigmoid_pair(x: KernelValue, low: KernelValue) -> KernelValue:
    """n and the pair y with 1 / (1 + e**-(x + low)) = 2**n * y, for |x| below 750."""
    left = x < 0.0
    sign = hv.cast(hv.where(left, 1.0, -1.0), x.dtype)
    n, h, tail = exp_pair(sign * x, sign * low)
    return sigmoid_share(left, n, h, tail)


@library
def sigmoid_of(x: KernelValue) -> KernelValue:
    """`sigmoid_pair` with low = 0."""
    n, high, low = reduce(-hv.abs(x))
    s, e = fast_two_sum(1.0, high)
    h, tail = fast_two_sum(s, e + rest(high, low))
    return sigmoid_share(x < 0.0, n, h, tail)


@library
def within(x: KernelValue) -> KernelValue:
    """x moved to where the functions of this page are at their limits."""
    return clip(x, -746.0, 746.0) if x.dtype == F64 else clip(x, -104.0, 104.0)


@library
def lowered(y: KernelValue, n: KernelValue) -> KernelValue:
    """y * 2**n with one rounding, for n from -190 (-1086) to 63."""
    return y * power_of_two(n + 64) * 5.421010862427522e-20


@library
def weighed(x: KernelValue, n: KernelValue, high: KernelValue, low: KernelValue) -> KernelValue:
    """x * 2**n * (high + low), rounded."""
    p, e = two_product(x, high)
    return scale(p + (e + x * low), n)


@elementary
def sigmoid(x: KernelValue) -> KernelValue:
    """1 / (1 + e**-x)."""
    n, high, low = sigmoid_of(within(x))
    return lowered(high + low, n)


@elementary
def silu(x: KernelValue) -> KernelValue:
    """x * sigmoid(x); -0 at -infinity."""
    y = clip(x, -760.0, 746.0) if x.dtype == F64 else clip(x, -110.0, 104.0)
    n, high, low = sigmoid_of(y)
    # half of a tiny argument: its product may lose the sign of zero
    result = hv.where(hv.abs(x) < 1e-20, 0.5 * x, weighed(y, n, high, low))
    return hv.where(x > y, x, result)


@library
def softplus_value(x: KernelValue) -> KernelValue:
    """log(1 + e**x), for |x| below 750."""
    left = x < 0.0
    n, h, low = exp_pair(hv.where(left, x, -x), 0.0)
    tiny = n < -60
    factor = power_of_two(hv.where(tiny, -60, n))
    high, tail = log1p_pair(h * factor, low * factor)
    s, e = two_sum(hv.where(left, 0.0, x), high)
    return hv.where(tiny & left, scale(h + low, n), s + (e + tail))


@elementary
def softplus(x: KernelValue) -> KernelValue:
    """log(1 + e**x)."""
    y = within(x)
    return hv.where(x > y, x, softplus_value(y))


@elementary
def log_sigmoid(x: KernelValue) -> KernelValue:
    """log(sigmoid(x))."""
    y = within(x)
    return hv.where(x < y, x, -softplus_value(-y))


@library
def gelu(x: KernelValue, approximate: str = "none") -> KernelValue:
    """x times the normal distribution function; -0 at -infinity.

    `approximate="tanh"` is the form with x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x**3))) / 2.
    """
    return gelu_tanh(x) if approximate == "tanh" else gelu_erf(x)


@elementary
def gelu_erf(x: KernelValue) -> KernelValue:
    """x times the normal distribution function, by erfc."""
    y = clip(x, -38.7, 9.0) if x.dtype == F64 else clip(x, -14.4, 9.0)
    n, high, low = normal_share(y)
    result = weighed(y, n, high, low)
    result = hv.where((x > 9.0) | (x == 0.0), x, result)
    return hv.where(x == -INF, -0.0, result)


@elementary
def gelu_tanh(x: KernelValue) -> KernelValue:
    """x * sigmoid(2 sqrt(2/pi) * (x + 0.044715 x**3)), which is the form with tanh."""
    wide = x.dtype == F64
    y = clip(x, -22.0, 20.0) if wide else clip(x, -11.0, 10.0)
    square, error = two_product(y, y)
    cubic, cubic_low = times(square, tables.GELU_CUBIC_F64 if wide else tables.GELU_CUBIC_F32)
    h, e = two_sum(1.0, cubic)
    e = e + (cubic_low + error * tables.GELU_CUBIC_F64[0])
    factor = tables.GELU_FACTOR_F64 if wide else tables.GELU_FACTOR_F32
    c, c_low = times(y, factor)
    u, u_low = two_product(c, h)
    u, u_low = fast_two_sum(u, u_low + (c * e + c_low * h))
    n, high, low = sigmoid_pair(u, u_low)
    result = hv.where(hv.abs(x) < 1e-20, 0.5 * x, weighed(y, n, high, low))
    result = hv.where(x > y, x, result)
    return hv.where(x == -INF, -0.0, result)
