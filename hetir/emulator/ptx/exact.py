"""Binary64 arithmetic in any rounding mode, lane by lane through whole numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from hetir.emulator.ptx.types import Lanes

_PRECISION, _EMIN, _EMAX = 53, -1022, 1023


def round_fraction(value: Fraction, mode: str, sign_of_zero: float) -> float:
    """The binary64 value that a fraction rounds to; an exact zero takes the sign given."""
    if value == 0:
        return math.copysign(0.0, sign_of_zero)
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    quantum = max(exponent, _EMIN) - _PRECISION + 1
    scaled = size / Fraction(2) ** quantum
    whole = scaled.numerator // scaled.denominator
    rest = scaled - whole
    if _up(mode, value > 0, rest, whole):
        whole += 1
    if whole.bit_length() + quantum > _EMAX + 1:
        whole, quantum = _overflow(mode, value > 0)
    result = math.inf if whole < 0 else math.ldexp(whole, quantum)
    return result if value > 0 else -result


def _up(mode: str, positive: bool, rest: Fraction, whole: int) -> bool:
    """Whether the magnitude is rounded up."""
    half = Fraction(1, 2)
    match mode:
        case "rn":
            return rest > half or (rest == half and whole % 2 == 1)
        case "rm":
            return rest > 0 and not positive
        case "rp":
            return rest > 0 and positive
        case _:
            return False


def _overflow(mode: str, positive: bool) -> tuple[int, int]:
    """The largest magnitude, or -1 for infinity."""
    if mode == "rz" or (mode == "rm" and positive) or (mode == "rp" and not positive):
        return (1 << _PRECISION) - 1, _EMAX - _PRECISION + 1
    return -1, 0


def _fma(a: float, b: float, c: float, mode: str) -> float:
    product = Fraction(a) * Fraction(b)
    total = product + Fraction(c)
    down = -0.0 if mode == "rm" else 0.0
    signs = {math.copysign(1.0, a) * math.copysign(1.0, b), math.copysign(1.0, c)}
    # an exact zero of equal signs keeps the sign, of unlike ones is +0, or -0 towards minus
    both = product == 0 and c == 0 and len(signs) == 1
    return round_fraction(total, mode, signs.pop() if both else down)


def _root(a: float, mode: str) -> float:
    shift = 220 if Fraction(a).denominator == 1 else 1300
    value = Fraction(a) * (1 << 2 * shift)
    whole = value.numerator // value.denominator
    root = math.isqrt(whole)
    sticky = Fraction(1, 2) if root * root != value else Fraction(0)
    return round_fraction((root + sticky) / (1 << shift), mode, a)


def add(mode: str, a: Lanes, b: Lanes) -> Lanes:
    """a + b."""
    return fma(mode, a, np.ones_like(a), b)


def subtract(mode: str, a: Lanes, b: Lanes) -> Lanes:
    """a - b."""
    return add(mode, a, -b)


def multiply(mode: str, a: Lanes, b: Lanes) -> Lanes:
    """a * b."""

    def one(x: float, y: float) -> float:
        sign = math.copysign(1.0, x) * math.copysign(1.0, y)
        return round_fraction(Fraction(x) * Fraction(y), mode, sign)

    return _each(one, np.multiply(a, b), a, b)


def fma(mode: str, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """a * b + c with one rounding."""

    def one(x: float, y: float, z: float) -> float:
        return _fma(x, y, z, mode)

    # a product of finite factors is finite here, however large
    finite = np.isfinite(a) & np.isfinite(b)
    plain = np.where(finite & np.isinf(c), c, a * b + c)
    return _each(one, plain, a, b, c)


def divide(mode: str, a: Lanes, b: Lanes) -> Lanes:
    """a / b."""

    def one(x: float, y: float) -> float:
        sign = math.copysign(1.0, x) * math.copysign(1.0, y)
        if y == 0:
            return math.nan if x == 0 else sign * math.inf
        return round_fraction(Fraction(x) / Fraction(y), mode, sign)

    return _each(one, np.divide(a, b), a, b)


def root(mode: str, a: Lanes) -> Lanes:
    """The square root."""

    def one(x: float) -> float:
        if x == 0:
            return x
        return _root(x, mode) if x > 0 else math.nan

    return _each(one, np.sqrt(a), a)


OPERATIONS: dict[str, Callable[..., Lanes]] = {
    "add": add,
    "sub": subtract,
    "mul": multiply,
    "div": divide,
    "fma": fma,
    "sqrt": root,
}
"""By the names of PTX; the rounding mode comes first."""


def _each(one: Callable[..., float], plain: Lanes, *operands: Lanes) -> Lanes:
    """One lane after another where all operands are finite, else NumPy's result."""
    lanes = np.broadcast_arrays(*operands)
    out = np.array(np.broadcast_to(plain, lanes[0].shape), np.float64)
    finite = np.logical_and.reduce([np.isfinite(lane) for lane in lanes])
    for i in np.flatnonzero(finite):
        out.flat[i] = one(*(float(lane.flat[i]) for lane in lanes))
    return out
