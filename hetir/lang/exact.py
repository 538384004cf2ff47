"""Sums of `f32` without error until one rounding: no order changes their bits.

A value is added to a fixed-point number of 288 bits in nine words, each an `i64` that gains
less than 2**32 in magnitude an addition, so that 2**31 additions cannot overflow it. Integer
additions commute, which makes the sum reproducible; see U. Kulisch, Computer Arithmetic and
Validity (2013), chapter 8, for such accumulators.
"""

from __future__ import annotations

import hetir.lang.values as hv
from hetir.frontend.primitive import library
from hetir.frontend.values import KernelValue
from hetir.ir.types import F32, I32, I64, U64
from hetir.lang.atomics import atomic_add
from hetir.lang.math.arithmetic import INF, NAN, scale
from hetir.lang.workgroup import workgroup_reduce

EXACT_WORDS = 12
"""Length of the `i64` array that `exact_add` adds to: nine words, then counts of specials."""

_PLACES = (0, 1, 2, 3, 4, 5, 6, 7, 8)


@library
def _split(x: KernelValue) -> KernelValue:
    """The word where a finite `f32` begins, and what it adds to that word and the next."""
    bits = hv.bitcast(x, I32)
    exponent = (bits >> 23) & 255
    normal = exponent > 0
    m = (bits & 0x7FFFFF) | hv.where(normal, hv.cast(0x800000, I32), 0)
    place = hv.where(normal, exponent - 1, 0)
    shifted = hv.cast(m, I64) << hv.cast(place & 31, I64)
    shifted = hv.where(bits < 0, -shifted, shifted)
    shifted = hv.where(exponent == 255, 0, shifted)
    return place >> 5, shifted & 0xFFFFFFFF, shifted >> 32


@library
def _digits(words: KernelValue) -> KernelValue:
    """Whether the number in nine words is negative, and the ten digits of its magnitude."""
    digits = ()
    carry = hv.cast(0, I64)
    for word in words:
        total = word + carry
        digits = (*digits, total & 0xFFFFFFFF)
        carry = total >> 32
    negative = carry < 0
    # the magnitude of a negative number is its two's complement
    magnitude = ()
    carry_in = hv.where(negative, hv.cast(1, I64), 0)
    for digit in (*digits, carry & 0xFFFFFFFF):
        total = hv.where(negative, 0xFFFFFFFF - digit, digit) + carry_in
        magnitude = (*magnitude, hv.cast(total & 0xFFFFFFFF, U64))
        carry_in = total >> 32
    return negative, magnitude


@library
def _rounded(words: KernelValue, specials: KernelValue) -> KernelValue:
    """The nearest `f32` of the number in nine words, given the counts of +inf, -inf and NaN."""
    negative, digits = _digits(words)
    zero = hv.cast(0, U64)
    top, second, rest, at = zero, zero, zero, hv.cast(0, I32)
    before, below = zero, zero
    for place, digit in enumerate(digits):
        found = digit != 0
        top, second = hv.where(found, digit, top), hv.where(found, before, second)
        rest, at = hv.where(found, below, rest), hv.where(found, place, at)
        before, below = digit, below | before
    # the lowest of the 64 bits says whether anything is below them
    sticky = hv.where(rest != 0, hv.cast(1, U64), 0)
    y = scale(hv.cast(top << 32 | second | sticky, F32), 32 * at - 181)
    y = hv.where(negative, -y, y)
    plus, minus, nan = specials
    y = hv.where(plus > 0, INF, hv.where(minus > 0, -INF, y))
    return hv.where((nan > 0) | (plus > 0) & (minus > 0), NAN, y)


@library
def exact_add(sums: KernelValue, value: KernelValue) -> KernelValue:
    """Add an `f32` to a sum that `exact_value` rounds, atomically at device scope.

    `sums` is an `i64` array of `hl.EXACT_WORDS` that starts as zeros, global or shared.
    """
    x = hv.cast(value, F32)
    place, low, high = _split(x)
    if (low != 0) | (high != 0):
        atomic_add(sums, place, low)
        atomic_add(sums, place + 1, high)
    if ~(hv.abs(x) < INF):
        atomic_add(sums, hv.where(x == INF, hv.cast(9, I32), hv.where(x == -INF, 10, 11)), 1)


@library
def exact_value(sums: KernelValue) -> KernelValue:
    """The sum that `exact_add` has gathered, rounded once to `f32`; a zero is +0."""
    words = (sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6], sums[7], sums[8])
    return _rounded(words, (sums[9], sums[10], sums[11]))


@library
def sum_exact(value: KernelValue) -> KernelValue:
    """The sum of an `f32` over the workgroup, rounded once, in every work-item.

    Every work-item of the workgroup (at most 1024) must call it.
    """
    x = hv.cast(value, F32)
    place, low, high = _split(x)
    words = ()
    for word in _PLACES:
        part = hv.where(place == word, low, 0) + hv.where(place + 1 == word, high, 0)
        words = (*words, workgroup_reduce(part, "add"))
    specials = ()
    for special in (x == INF, x == -INF, x != x):
        specials = (*specials, workgroup_reduce(hv.cast(special, I64), "add"))
    return _rounded(words, specials)
