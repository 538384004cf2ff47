"""Reproducible mathematics: the same bits on every target, written in the kernel language.

How to add a function: write it with `@elementary` for arguments of one type that is `f32` or
`f64` (`x.dtype` says which, decided while compiling). `f32` code uses + - * and integer
operations, and one division or square root where that pays; `f64` code may use `fma`. What
the last addition rounds must be a pair (`arithmetic.py`), so that the error stays near half
a ULP. Integers arrive as `f32`; `f16` and `bf16` arrive as `f32` and the result is rounded
once. Export it here and from `hetir.lang`, add its row to tests/unit/math_cases.py, and
measure it with tools/measure_math.py, which writes docs/math.md.
"""

from hetir.lang.math.activation import gelu, log_sigmoid, sigmoid, silu, softplus
from hetir.lang.math.error import erf, erfc
from hetir.lang.math.exponential import exp, exp2, exp10, expm1
from hetir.lang.math.gamma import lgamma, tgamma
from hetir.lang.math.hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from hetir.lang.math.inverse import acos, asin, atan, atan2
from hetir.lang.math.logarithm import log, log1p, log2, log10
from hetir.lang.math.power import pow, powi
from hetir.lang.math.roots import cbrt, hypot, rsqrt
from hetir.lang.math.trigonometric import cos, sin, sincos, tan

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "exp10",
    "expm1",
    "gelu",
    "hypot",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_sigmoid",
    "pow",
    "powi",
    "rsqrt",
    "sigmoid",
    "silu",
    "sin",
    "sincos",
    "sinh",
    "softplus",
    "tan",
    "tanh",
    "tgamma",
]
