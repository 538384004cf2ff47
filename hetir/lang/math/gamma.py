"""The gamma function and its logarithm: Stirling's formula in pairs, from 5/2 on.

Below 5/2 the logarithm is (y - 1) (y - 2) times a polynomial, so that it keeps its relative
accuracy at its zeros 1 and 2; the gamma function moves its argument up by 3. Negative
arguments are reflected, gamma(-a) = -pi / (a sin(pi a) gamma(a)). Near its zeros there the
logarithm is expanded about each, which is known as a pair: -log(1 + t / u0) of the pole that is
u0 away, plus a polynomial for the rest.
"""

from __future__ import annotations

import hetir.lang.values as hv
from hetir.frontend.primitive import elementary, library
from hetir.frontend.values import KernelValue
from hetir.ir.types import F64
from hetir.lang.control import static_range
from hetir.lang.math import tables
from hetir.lang.math.arithmetic import (
    INF,
    NAN,
    clip,
    divide,
    fast_two_sum,
    half_square,
    polynomial,
    scale,
    times,
    two_product,
    two_sum,
)
from hetir.lang.math.exponential import exp2_pair
from hetir.lang.math.logarithm import log_terms
from hetir.lang.math.power import log2_pair
from hetir.lang.math.trigonometric import cosine


@library
def multiply(ah: KernelValue, al: KernelValue, bh: KernelValue, bl: KernelValue) -> KernelValue:
    """The product of two pairs."""
    p, e = two_product(ah, bh)
    return fast_two_sum(p, e + (ah * bl + al * bh))


@library
def add(ah: KernelValue, al: KernelValue, bh: KernelValue, bl: KernelValue) -> KernelValue:
    """The sum of two pairs."""
    s, e = two_sum(ah, bh)
    return fast_two_sum(s, e + (al + bl))


@library
def log2_of_pair(high: KernelValue, low: KernelValue) -> KernelValue:
    """log2(high + low) as a pair."""
    h, t = log2_pair(high)
    return h, t + low / high * tables.INV_LN2_F64[0]


@library
def stirling(z: KernelValue, low: KernelValue) -> KernelValue:
    """log2(gamma(z + low)) as a pair, for z from 5/2 to 2**60 (2**500)."""
    wide = z.dtype == F64
    lh, ll = log2_pair(z)
    inverse = 1.0 / z
    one, error = two_product(z, inverse)
    lacks = inverse * ((1.0 - one) - error)
    u = inverse * inverse
    p = polynomial(u, tables.STIRLING_F64 if wide else tables.STIRLING_F32)
    c, c_low = times(z, tables.INV_LN2_F64 if wide else tables.INV_LN2_F32)
    a, a_low = two_sum(z, -0.5)
    high, tail = multiply(a, a_low, lh, ll)
    high, tail = add(high, tail, -c, -c_low)
    # 1 / 12z, and what follows it
    first = tables.TWELFTH_LN2_F64 if wide else tables.TWELFTH_LN2_F32
    h, t = times(inverse, first)
    t = t + (lacks * first[0] + inverse * u * p * tables.INV_LN2_F64[0])
    high, tail = add(high, tail, h, t)
    # the derivative in z, as far as low needs it
    slope = lh - inverse * (0.7213475 + 0.1202246 * inverse)
    fixed, fixed_low = tables.LOG2_PI_F64 if wide else tables.LOG2_PI_F32
    return add(high, tail, hv.cast(fixed, z.dtype), low * slope + fixed_low)


@library
def precise_sine(r: KernelValue, low: KernelValue) -> KernelValue:
    """sin(r + low) as a pair of a few bits more than `sine` gives, for |r| up to pi/4."""
    wide = r.dtype == F64
    u = r * r
    p = polynomial(u, tables.SIN5_F64 if wide else tables.SIN5_F32)
    half, error = half_square(r)
    cube, cube_low = two_product(r, half)
    t, t_low = times(cube, tables.THIRD_F64 if wide else tables.THIRD_F32)
    t_low = t_low + (cube_low + r * error) * 0.3333333333333333
    s, e = fast_two_sum(r, -t)
    return fast_two_sum(s, e + ((low * (1.0 - 0.5 * u) - t_low) + r * (u * u) * p))


@library
def sine_of_pi(a: KernelValue) -> KernelValue:
    """|sin(pi a)| as a pair; accurate near integers."""
    f = hv.abs(a - hv.rint(a))
    far = f > 0.25
    r, low = times(hv.where(far, 0.5 - f, f), tables.PI_F64 if a.dtype == F64 else tables.PI_F32)
    sh, sl = precise_sine(r, low)
    ch, cl = cosine(r, low)
    high, tail = fast_two_sum(hv.where(far, ch, sh), hv.where(far, cl, sl))
    return high, tail


@library
def rising(a: KernelValue) -> KernelValue:
    """a (a + 1) (a + 2) as a pair."""
    b, b_low = two_sum(a, 1.0)
    c, c_low = two_sum(a, 2.0)
    h, low = multiply(b, b_low, c, c_low)
    return multiply(h, low, a, 0.0)


@library
def quotient(a: KernelValue, left: KernelValue) -> KernelValue:
    """n and the pair y with gamma(a), or |gamma(-a)| where left, 2**n * y, for a below 190."""
    near = a < 3.0
    z, z_low = two_sum(a, hv.cast(hv.where(near, 3.0, 0.0), a.dtype))
    # gamma(a) = gamma(a + 3) / (a (a + 1) (a + 2))
    b, b_low = rising(a)
    b, b_low = hv.where(near, b, 1.0), hv.where(near, b_low, 0.0)
    n, g, g_low = exp2_pair(*stirling(z, z_low))
    pi, pi_low = tables.PI_SUM_F64 if a.dtype == F64 else tables.PI_SUM_F32
    sh, sl = sine_of_pi(a)
    sh, sl = multiply(sh, sl, a, 0.0)
    sh, sl = multiply(sh, sl, g, g_low)
    ph, pl = multiply(b, b_low, hv.cast(pi, a.dtype), hv.cast(pi_low, a.dtype))
    whole = hv.rint(a) == a
    dh = hv.where(left, hv.where(whole, 1.0, sh), b)
    dl = hv.where(left, hv.where(whole, 0.0, sl), b_low)
    q, q_low = divide(hv.where(left, ph, g), hv.where(left, pl, g_low), dh, dl)
    return hv.where(left, -n, n), q, q_low


@elementary
def tgamma(x: KernelValue) -> KernelValue:
    """The gamma function; NaN at negative integers, infinite at 0 with its sign."""
    wide = x.dtype == F64
    tiny = 6.9e-18 if wide else 3.7e-9
    left = x < 0.0
    n, high, low = quotient(clip(hv.abs(x), 0.125 * tiny, 186.0 if wide else 44.0), left)
    y = scale(high + low, n)
    # gamma is negative from -1 to 0, from -3 to -2 and so on
    half = 0.5 * hv.trunc(hv.abs(x))
    y = hv.where(left & (hv.trunc(half) == half), -y, y)
    y = hv.where(hv.abs(x) < tiny, 1.0 / x, y)
    y = hv.where(left & (hv.rint(x) == x), NAN, y)
    return hv.where(x == INF, x, y)


@library
def log_gamma_middle(x: KernelValue) -> KernelValue:
    """log(gamma(x)) or, below 1, log(gamma(1 + x)), as a pair, for x from 0 to 5/2."""
    below = x < 1.0
    t = hv.where(below, x - 0.75, x - 1.75)
    table = tables.LGAMMA_F64 if x.dtype == F64 else tables.LGAMMA_F32
    first, *others = table
    p, e = two_product(t, polynomial(t, others))
    q, q_low = two_sum(hv.cast(first, x.dtype), p)
    a, a_low = two_sum(x, hv.cast(hv.where(below, -1.0, -2.0), x.dtype))
    h, low = multiply(q, q_low + e, a, a_low)
    return multiply(h, low, hv.where(below, x, x - 1.0), 0.0)


@library
def scaled_log(high: KernelValue, low: KernelValue) -> KernelValue:
    """A pair times log(2)."""
    ln2 = tables.LN2_F64 if high.dtype == F64 else tables.LN2_F32
    h, tail = times(high, ln2)
    return h, tail + low * ln2[0]


@library
def log_gamma(a: KernelValue, huge: KernelValue) -> KernelValue:
    """log(gamma(a)), and below 1 log(gamma(1 + a)), as a pair, where a is not huge."""
    middle = a < 2.5
    mh, ml = log_gamma_middle(hv.where(middle, a, 1.0))
    e, e_low = stirling(hv.where(middle | huge, 2.5, a), 0.0)
    s, s_low = scaled_log(e, e_low)
    return hv.where(middle, mh, s), hv.where(middle, ml, s_low)


@library
def log_of_huge(a: KernelValue, huge: KernelValue, h: KernelValue, low: KernelValue) -> KernelValue:
    """log(gamma(a)) near a (log(a) - 1), where log(a) = h + low and a is huge."""
    down, up = (2.0**-64, 2.0**64) if a.dtype == F64 else (2.0**-32, 2.0**32)
    b = hv.where(huge, a * down, 1.0)
    s, e = fast_two_sum(h, -1.0)
    p, p_low = two_product(b, s)
    return (p + (p_low + b * (e + low))) * up


@library
def about_zero(t: KernelValue, low: KernelValue, zero: object, rest: object) -> KernelValue:
    """log|gamma| at t + low from a zero: its slope times that, and a polynomial."""
    _, _, slope, slope_low = zero
    first, *others = rest
    q, q_low = two_product(t, hv.cast(first, t.dtype))
    s, e = fast_two_sum(hv.cast(slope, t.dtype), q)
    e = e + (slope_low + (q_low + t * t * polynomial(t, others)))
    p, p_low = two_product(t, s)
    return p + (p_low + (t * e + low * slope))


@library
def between_poles(x: KernelValue) -> KernelValue:
    """log|gamma(x)| near its zeros between -2 and -3."""
    wide = x.dtype == F64
    one = tables.ZERO_2_F64 if wide else tables.ZERO_2_F32
    two = tables.ZERO_3_F64 if wide else tables.ZERO_3_F32
    t, low = two_sum(x - one[0], hv.cast(-one[1], x.dtype))
    y = about_zero(t, low, one, tables.LGAMMA_2_F64 if wide else tables.LGAMMA_2_F32)
    t, low = two_sum(x - two[0], hv.cast(-two[1], x.dtype))
    z = about_zero(t, low, two, tables.LGAMMA_3_F64 if wide else tables.LGAMMA_3_F32)
    return hv.where(x < -2.6, z, y)


@library
def beside_pole(x: KernelValue) -> KernelValue:
    """log|gamma(x)| near its zeros below -3."""
    rows = tables.LGAMMA_ZEROS_F64 if x.dtype == F64 else tables.LGAMMA_ZEROS_F32
    count = len(rows[-1])
    chosen = ()
    for place in static_range(1, count):
        value = hv.cast(0.0, x.dtype)
        for row in rows:
            if place < len(row):
                value = hv.where(x > row[0], row[place], value)
        chosen = (*chosen, value)
    zero, zero_low, inverse, inverse_low = chosen[0], chosen[1], chosen[2], chosen[3]
    t, low = two_sum(x - zero, -zero_low)
    r, e = two_product(t, inverse)
    s, tail = log_terms(r, e + (t * inverse_low + low * inverse))
    p = chosen[-1]
    for coefficient in chosen[-2:3:-1]:
        p = p * t + coefficient
    h, e = two_sum(-s, t * p)
    return h + (e - tail)


@elementary
def lgamma(x: KernelValue) -> KernelValue:
    """The logarithm of |gamma(x)|; infinite at 0 and negative integers."""
    wide = x.dtype == F64
    a = hv.abs(x)
    tiny = a < (1e-60 if wide else 1e-20)
    huge = a > (2.0**120 if wide else 2.0**60)
    b = hv.where(tiny | ~(a < INF), 1.0, a)
    base, base_low = log_gamma(b, huge)
    # the logarithm that is subtracted: of a below 1, of a sin(pi a) to reflect
    left = (x < 0.0) & ~tiny
    whole = left & (hv.rint(b) == b)
    sh, sl = sine_of_pi(hv.where(left, b, 0.5))
    sh, sl = multiply(sh, sl, hv.where((b < 1.0) | ~left, 1.0, b), 0.0)
    right = hv.where(tiny | huge | (a < 1.0), a, 1.0)
    wh = hv.where(left, hv.where(whole, 1.0, sh), right)
    wl = hv.where(left & ~whole, sl, 0.0)
    lh, ll = scaled_log(*log2_of_pair(wh, wl))
    # log(gamma(a)) - log(w), or log(pi) - log(w) - log(gamma(a)) to reflect
    pi, pi_low = tables.LN_PI_F64 if wide else tables.LN_PI_F32
    fixed = hv.cast(hv.where(left, pi, 0.0), x.dtype)
    fixed_low = hv.cast(hv.where(left, pi_low, 0.0), x.dtype)
    h, low = add(fixed, fixed_low, -lh, -ll)
    sign = hv.cast(hv.where(left, -1.0, 1.0), x.dtype)
    h, low = add(h, low, sign * base, sign * base_low)
    y = hv.where(tiny, -(lh + ll), h + low)
    y = hv.where(huge, log_of_huge(a, huge, lh, ll), y)
    y = hv.where(whole | (x == 0.0) | (a == INF), INF, y)
    y = hv.where(x == x, y, NAN)
    # near a zero the terms above cancel
    if (x < -2.0) & (hv.abs(y) < 0.0625):
        y = between_poles(x) if x > -3.0 else beside_pole(x)
    return y
