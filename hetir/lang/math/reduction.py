"""Arguments of the trigonometric functions reduced by multiples of pi/2.

Up to 2**12 quarters Cody and Waite's subtraction of pi/2 in parts; beyond it M. Payne and
R. Hanek, Radian reduction for trigonometric functions (SIGNUM Newsletter 18, 1983): the
fraction of x * 2/pi from those bits of 2/pi that matter, in integers.
"""

from __future__ import annotations

import hetir.lang.values as hv
from hetir.frontend.primitive import library
from hetir.frontend.values import KernelValue
from hetir.ir.types import F32, F64, I32, I64, U64
from hetir.lang.math import tables
from hetir.lang.math.arithmetic import (
    bits_of,
    fast_two_sum,
    nearest,
    times,
    two_product,
    two_sum,
)

# for each of four words that follow each other, those that may stand there
WINDOWS_F32 = tuple((0, *tables.TWO_OVER_PI_BITS_F32)[j : j + 5] for j in range(4))
WINDOWS_F64 = tuple((0, *tables.TWO_OVER_PI_BITS_F64)[j : j + 17] for j in range(4))


@library
def quarters(x: KernelValue) -> KernelValue:
    """n and the pair r with |x| = n pi/2 + r, |r| up to pi/4; n modulo 4, as `i32`."""
    a = hv.abs(x)
    if x.dtype == F64:
        large = a > 1e6
        n, high, low = _subtract_f64(hv.where(large, 0.0, a))
        if large:
            n, high, low = _large_f64(a)
        return n, high, low
    large = a > 6000.0
    n, high, low = _subtract_f32(hv.where(large, 0.0, a))
    if large:
        n, high, low = _large_f32(a)
    return n, high, low


@library
def _subtract_f32(a: KernelValue) -> KernelValue:
    p1, p2, p3, p4, p5 = tables.HALF_PI_N_F32
    k, n = nearest(a * tables.TWO_OVER_PI_F32[0])
    # the products with p1 to p4 are exact, and so are the first two differences
    r, e = two_sum((a - k * p1) - k * p2, -(k * p3))
    r, e2 = two_sum(r, -(k * p4))
    high, low = fast_two_sum(r, e + (e2 - k * p5))
    return n, high, low


@library
def _subtract_f64(a: KernelValue) -> KernelValue:
    p1, p2, p3 = tables.HALF_PI_N_F64
    k, n = nearest(a * tables.TWO_OVER_PI_F64[0])
    # the first difference is exact: it is a multiple of 2**-52 below 1
    r = hv.fma(k, -p1, a)
    t, t_low = two_product(k, p2)
    r, e = two_sum(r, -t)
    high, low = fast_two_sum(r, e - hv.fma(k, p3, t_low))
    return hv.cast(n, I32), high, low


@library
def _large_f32(a: KernelValue) -> KernelValue:
    """By the 96 bits of 2/pi that matter; the bits before them give multiples of 4 quarters."""
    bits = bits_of(a)
    start = (bits >> 23) - 120  # the 32 bits before the table's are 0
    m = hv.cast((bits & 0x7FFFFF) | 0x800000, U64)
    t0, t1, t2, t3 = [_chosen(start >> 5, words) for words in WINDOWS_F32]
    shift = hv.cast(start & 31, U64)
    w0 = ((t0 << 32) | t1) << shift >> 32
    w1 = ((t1 << 32) | t2) << shift >> 32
    w2 = ((t2 << 32) | t3) << shift >> 32
    # the quarters in units of 2**-62, modulo 4
    product = (m * w0 << 32) + m * w1 + (m * w2 >> 32)
    fraction = hv.bitcast(product << 2, I64)
    high = hv.cast(fraction, F32)
    low = hv.cast(fraction - hv.cast(high, I64), F32)
    p, e = times(high, tables.HALF_PI_F32)
    p, e = fast_two_sum(p, e + low * tables.HALF_PI_F64[0])
    n = hv.cast((product + 0x2000000000000000) >> 62, I32)
    return n, p * 5.421010862427522e-20, e * 5.421010862427522e-20


@library
def _large_f64(a: KernelValue) -> KernelValue:
    """By the 192 bits of 2/pi that matter."""
    bits = bits_of(a)
    start = (bits >> 52) - 1013  # the 64 bits before the table's are 0
    m = hv.cast((bits & 0xFFFFFFFFFFFFF) | 0x10000000000000, U64)
    t0, t1, t2, t3 = [_chosen(start >> 6, words) for words in WINDOWS_F64]
    shift = hv.cast(start & 63, U64)
    back = 63 - shift
    w0 = (t0 << shift) | (t1 >> 1 >> back)
    w1 = (t1 << shift) | (t2 >> 1 >> back)
    w2 = (t2 << shift) | (t3 >> 1 >> back)
    # the quarters in units of 2**-126, modulo 4
    middle = m * w1
    low_word = middle + hv.mul_hi(m, w2)
    carry = hv.where(low_word < middle, hv.cast(1, U64), 0)
    high_word = m * w0 + hv.mul_hi(m, w1) + carry
    fraction = hv.bitcast((high_word << 2) | (low_word >> 62), I64)
    high = hv.cast(fraction, F64)
    rest = hv.cast(fraction - hv.cast(high, I64), F64)
    below = hv.cast(low_word << 2, F64) * 5.421010862427522e-20
    high, low = fast_two_sum(high, rest + below)
    p, e = times(high, tables.HALF_PI_F64)
    p, e = fast_two_sum(p, e + low * tables.HALF_PI_F64[0])
    n = hv.cast((high_word + 0x2000000000000000) >> 62, I32)
    return n, p * 5.421010862427522e-20, e * 5.421010862427522e-20


@library
def _chosen(index: KernelValue, words: tuple[int, ...]) -> KernelValue:
    """The word at an index that is known at run time, as `u64`."""
    chosen = hv.cast(0, U64)
    for i, word in enumerate(words):
        chosen = hv.where(index == i, word, chosen)
    return chosen
