"""Reproducible mathematics: the same bits on every target, written in the kernel language.

How to add a function: write it with `@elementary` for arguments of one type that is `f32` or
`f64` (`x.dtype` says which, decided while compiling), over + - * and integer operations only
for `f32`, export it from `hetir.lang`, and state its method and largest error here. Integers
arrive as `f32`; `f16` and `bf16` arrive as `f32` and the result is rounded once.
"""

from __future__ import annotations

import math

import hetir.lang.values as hv
from hetir.frontend.primitive import elementary, library
from hetir.frontend.values import KernelValue
from hetir.ir.types import F32, F64, I32, I64

_LOG2_E = math.log2(math.e)


@elementary
def exp(x: KernelValue) -> KernelValue:
    """e to the power `x`; 0 and infinity past the range, subnormal results kept.

    Method: x = k ln 2 + r with |r| <= ln 2 / 2 by a two-part ln 2 (Cody and Waite), a
    polynomial for e**r, and 2**k in two factors so that subnormals round once. The largest
    error is below 1 ULP for `f32` and `f64`.
    """
    if x.dtype == F64:
        return _exp_f64(x)
    return _exp_f32(x)


# (e**r - 1 - r) / r**2 on |r| <= ln 2 / 2, interpolated at Chebyshev nodes: 2**-32 and 2**-68
_EXP_F32 = (
    0.5000000013473895,
    0.1666666668163221,
    0.041666464844507485,
    0.00833331091651024,
    0.0013933658961533572,
    0.00019891000780597316,
)
_EXP_F64 = (
    0.5,
    0.16666666666666666,
    0.04166666666666668,
    0.008333333333333333,
    0.0013888888888879067,
    0.00019841269841263293,
    2.4801587336463165e-05,
    2.7557319247232678e-06,
    2.7557263256695514e-07,
    2.5052071079368163e-08,
    2.091814602114974e-09,
    1.6086633477899041e-10,
)


@library
def polynomial(x: KernelValue, coefficients: tuple[float, ...]) -> KernelValue:
    """The polynomial with `coefficients` from the constant term up, by Horner's rule."""
    result = hv.cast(coefficients[-1], x.dtype)
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient
    return result


def _exp_f32(x: KernelValue) -> KernelValue:
    x = hv.min(hv.max(x, -104.0), 89.0)
    k = hv.rint(x * _LOG2_E)
    # k times the high part of ln 2 is exact: it has 12 bits, k has 8
    r = (x - k * 0.693115234375) - k * 3.1946184945309415e-05
    y = 1.0 + (r + r * r * polynomial(r, _EXP_F32))
    n = hv.cast(k, I32)
    half = n >> 1
    return y * _power_of_two_f32(half) * _power_of_two_f32(n - half)


def _exp_f64(x: KernelValue) -> KernelValue:
    x = hv.min(hv.max(x, -746.0), 710.0)
    k = hv.rint(x * _LOG2_E)
    # the high part has 40 bits, k has 11
    r = (x - k * 0.6931471805592082) - k * 7.371002565167799e-13
    y = 1.0 + (r + r * r * polynomial(r, _EXP_F64))
    n = hv.cast(k, I64)
    half = n >> 1
    return y * _power_of_two_f64(half) * _power_of_two_f64(n - half)


def _power_of_two_f32(n: KernelValue) -> KernelValue:
    """2**n for a normal result."""
    return hv.bitcast((n + 127) << 23, F32)


def _power_of_two_f64(n: KernelValue) -> KernelValue:
    """2**n for a normal result."""
    return hv.bitcast((n + 1023) << 52, F64)
