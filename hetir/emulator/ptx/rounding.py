"""Exactly rounded floating point over lanes: every format, every rounding mode.

What a format narrower than binary64 computes is first computed in binary64, exactly or rounded
to odd (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008), and then
rounded once. What binary64 computes beyond nearest-even goes through integers (exact.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hetir.emulator.ptx.types import Lanes


@dataclass(frozen=True, slots=True)
class Format:
    """A binary format: digits with the hidden one, smallest normal exponent, largest value."""

    precision: int
    emin: int
    largest: float
    infinite: bool = True


FORMATS = {
    "f64": Format(53, -1022, float(np.finfo(np.float64).max)),
    "f32": Format(24, -126, float(np.finfo(np.float32).max)),
    "f16": Format(11, -14, 65504.0),
    "bf16": Format(8, -126, float.fromhex("0x1.fep127")),
    "tf32": Format(11, -126, float.fromhex("0x1.ffcp127")),
    "e4m3": Format(4, -6, 448.0, infinite=False),
    "e5m2": Format(3, -14, 57344.0),
}


def _away(x: Lanes) -> Lanes:
    """Nearest, ties away from zero; exact, for x has no more than 53 digits and |x| < 2^53."""
    whole = np.trunc(x)
    return whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1.0, x), 0.0)


TO_INTEGER: dict[str, Callable[[Lanes], Lanes]] = {
    "rn": np.rint,
    "rz": np.trunc,
    "rm": np.floor,
    "rp": np.ceil,
    "rna": _away,
}


def round_to(x: Lanes, target: str, mode: str = "rn", saturate: bool = False) -> Lanes:
    """Binary64 values rounded once to a format, still held as binary64.

    `saturate` gives the largest finite value for what is beyond it (PTX `.satfinite`).
    """
    form = FORMATS[target]
    _, exponent = np.frexp(x)
    quantum = np.maximum(exponent, form.emin + 1) - form.precision
    out = np.ldexp(TO_INTEGER[mode](np.ldexp(x, -quantum)), quantum)
    over = np.abs(out) > form.largest
    if not np.any(over):
        return out
    if saturate:
        limit = np.full_like(out, form.largest)
    else:
        top = np.inf if form.infinite else np.nan
        stays = mode == "rz"
        limit = np.where(
            stays | ((out < 0) & (mode == "rp")) | ((out > 0) & (mode == "rm")), form.largest, top
        )
        # an infinity is exact in every mode
        limit = np.where(np.isinf(x), np.inf if form.infinite else np.nan, limit)
    return np.where(over, np.copysign(limit, out), out)


def narrow(x: Lanes, target: str, mode: str = "rn") -> Lanes:
    """Binary64 values as float32 or float16 lanes of the format's own NumPy type."""
    dtype = {"f32": np.float32, "f16": np.float16}[target]
    if mode == "rn":
        return x.astype(dtype)
    return round_to(x, target, mode).astype(dtype)


def to_odd(x: Lanes, error: Lanes) -> Lanes:
    """Round to odd: `x` is the nearest value, `error` has the sign of what it lacks."""
    bits = x.view(np.int64)
    inexact = (error != 0) & (error == error) & np.isfinite(x)
    even = (bits & 1) == 0
    outward = (error > 0) == (x > 0)
    return np.where(inexact & even, bits + np.where(outward, 1, -1), bits).view(np.float64)


def two_sum(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """The sum and its exact error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """The product and its exact error (Dekker), for factors and products far from the limits."""
    p = a * b
    ah, al = _split(a)
    bh, bl = _split(b)
    return p, al * bl - (((p - ah * bh) - al * bh) - ah * bl)


def _split(a: Lanes) -> tuple[Lanes, Lanes]:
    c = a * 134217729.0
    high = c - (c - a)
    return high, a - high


def odd_sum(a: Lanes, b: Lanes) -> Lanes:
    """a + b of binary64, rounded to odd."""
    s, error = two_sum(a, b)
    return to_odd(np.asarray(s), error)


def odd_quotient(a: Lanes, b: Lanes) -> Lanes:
    """a / b rounded to odd, for values of binary32 or narrower."""
    q = a / b
    high, low = _split(q)
    rest = (a - high * b) - low * b
    return to_odd(np.asarray(q), rest * np.sign(b))


def odd_root(a: Lanes) -> Lanes:
    """The square root rounded to odd, for values of binary32 or narrower."""
    root = np.sqrt(a)
    square, error = two_product(root, root)
    return to_odd(np.asarray(root), (a - square) - error)


def split_integer(x: Lanes) -> tuple[Lanes, Lanes]:
    """64-bit integers as binary64: the nearest, and the exact error."""
    low = (x & np.array(0xFFFFFFFF, x.dtype)).astype(np.float64)
    high = (x >> np.array(32, x.dtype)).astype(np.float64) * 4294967296.0
    return two_sum(high, low)


def fma32(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """a * b + c of binary32 to nearest.

    The product is exact in binary64. Rounding its sum once more errs only where that sum lies on
    a value of binary32 or midway between two: where its low 28 bits are zero.
    """
    product, term = np.asarray(a.astype(np.float64) * b), c.astype(np.float64)
    total = np.asarray(product + term)
    doubtful = total.view(np.int64) & 0xFFFFFFF == 0
    if doubtful.any():
        term = np.broadcast_to(term, total.shape)
        product = np.broadcast_to(product, total.shape)
        total[doubtful] = odd_sum(product[doubtful], term[doubtful])
    return total.astype(np.float32)


_SAFE_FACTOR = (2.0**-450, 2.0**450)
_SAFE_TERM = (2.0**-900, 2.0**900)


def fma64(a: Lanes, b: Lanes, c: Lanes) -> tuple[Lanes, Lanes]:
    """a * b + c of binary64 to nearest, and for which lanes that is certain.

    The others have a value near the limits of the format.
    """
    certain = _within(a, _SAFE_FACTOR) & _within(b, _SAFE_FACTOR) & _within(c, _SAFE_TERM)
    product, low = two_product(a, b)
    term, rest = two_sum(c, low)
    high, error = two_sum(product, term)
    return high + odd_sum(error, rest), certain


def _within(x: Lanes, limits: tuple[float, float]) -> Lanes:
    size = np.abs(x)
    return (x == 0) | ((size >= limits[0]) & (size <= limits[1]))
