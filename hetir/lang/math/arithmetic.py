"""Pairs of floats that stand for their sum, exact scaling, and polynomials.

The sums and products are those of T. J. Dekker, A floating-point technique for extending the
available precision (Numerische Mathematik 18, 1971). In `f32` they use + - * only, in `f64`
the error of a product is one fma.
"""

from __future__ import annotations

import hetir.lang.values as hv
from hetir.frontend.primitive import library
from hetir.frontend.values import KernelValue
from hetir.ir.types import F32, F64, I32, I64

INF = float("inf")
NAN = float("nan")


@library
def polynomial(x: KernelValue, coefficients: tuple[float, ...]) -> KernelValue:
    """The polynomial with `coefficients` from the constant term up, by Horner's rule."""
    result = hv.cast(coefficients[-1], x.dtype)
    for coefficient in coefficients[-2::-1]:
        wide = x.dtype == F64
        result = hv.fma(result, x, coefficient) if wide else result * x + coefficient
    return result


@library
def fast_two_sum(a: KernelValue, b: KernelValue) -> KernelValue:
    """a + b rounded and its error, where |a| >= |b| or a = 0."""
    s = a + b
    return s, b - (s - a)


@library
def two_sum(a: KernelValue, b: KernelValue) -> KernelValue:
    """a + b rounded and its error."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@library
def halves(a: KernelValue) -> KernelValue:
    """An `f32` as two of 12 bits; |a| below 2**115."""
    c = a * 4097.0
    high = c - (c - a)
    return high, a - high


@library
def two_product(a: KernelValue, b: KernelValue) -> KernelValue:
    """a * b rounded and its error, exact while the error is no subnormal."""
    p = a * b
    if a.dtype == F64:
        return p, hv.fma(a, b, -p)
    ah, al = halves(a)
    bh, bl = halves(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


@library
def half_square(x: KernelValue) -> KernelValue:
    """x * x / 2 as a pair that does not overlap; |x| below 2**63."""
    if x.dtype == F64:
        h = 0.5 * x
        p = x * h
        return p, hv.fma(x, h, -p)
    high, low = halves(x)
    return 0.5 * high * high, 0.5 * low * (x + high)


@library
def times(x: KernelValue, constant: tuple[float, float]) -> KernelValue:
    """x times a constant split as head and tail (12 bits of head in `f32`), as a pair."""
    head, tail = constant
    if x.dtype == F64:
        p = x * head
        return p, hv.fma(x, head, -p) + x * tail
    high, low = halves(x)
    return fast_two_sum(high * head, low * head + x * tail)


@library
def divide(nh: KernelValue, nl: KernelValue, dh: KernelValue, dl: KernelValue) -> KernelValue:
    """(nh + nl) / (dh + dl) as a pair, in one division."""
    inverse = 1.0 / dh
    q = nh * inverse
    p, e = two_product(q, dh)
    return q, (((nh - p) - e) + (nl - q * dl)) * inverse


@library
def square_root(h: KernelValue, low: KernelValue) -> KernelValue:
    """The square root of h + low as a pair; h above 0."""
    s = hv.sqrt(h)
    p, e = two_product(s, s)
    return s, (((h - p) - e) + low) * (0.5 / s)


@library
def power_of_two(n: KernelValue) -> KernelValue:
    """2**n of an `i32` as `f32`, of an `i64` as `f64`; the result must be a normal number."""
    if n.dtype == I64:
        return hv.bitcast((n + 1023) << 52, F64)
    return hv.bitcast((n + 127) << 23, F32)


@library
def scale(y: KernelValue, n: KernelValue) -> KernelValue:
    """y * 2**n in two exact factors and one rounding, for |n| up to 252 (2044 in `f64`)."""
    half = n >> 1
    return y * power_of_two(half) * power_of_two(n - half)


@library
def nearest(x: KernelValue) -> KernelValue:
    """The nearest integer as a float and as `i32` (`i64` for `f64`), |x| below 2**21."""
    # added to 1.5 * 2**23 (2**52) the integer stands in the low bits
    if x.dtype == F64:
        moved = x + 6755399441055744.0
        return moved - 6755399441055744.0, hv.bitcast(moved, I64) - 0x4338000000000000
    moved = x + 12582912.0
    return moved - 12582912.0, hv.bitcast(moved, I32) - 0x4B400000


@library
def bits_of(x: KernelValue) -> KernelValue:
    """The bits of a float as a signed integer."""
    return hv.bitcast(x, I64 if x.dtype == F64 else I32)


@library
def clip(x: KernelValue, low: float, high: float) -> KernelValue:
    """x moved into [low, high]; NaN stays."""
    x = hv.where(x < low, low, x)
    return hv.where(x > high, high, x)
