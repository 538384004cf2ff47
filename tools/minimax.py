"""Derives the coefficients of hetir/lang/math/tables.py: `python tools/minimax.py`.

Each row of `POLYNOMIALS` states a function, an interval and the weight that turns the
polynomial's error into the relative error of the result. The coefficients come from Remez'
exchange on a fixed Chebyshev grid in 60 digits (E. W. Cheney, Introduction to Approximation
Theory, 1966, chapter 3), rounded to the type one by one from the lowest, the rest being
found anew after each. Splits of constants are computed below from their digits.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from mpmath import mp, mpf

mp.dps = 60
GRID = 1200
TABLES = Path(__file__).parent.parent / "hetir" / "lang" / "math" / "tables.py"
Real = Callable[[mpf], mpf]
DTYPES = {"F32": np.float32, "F64": np.float64}


@dataclass(frozen=True, slots=True, kw_only=True)
class Polynomial:
    """One approximation: `function` on [low, high] with terms of `terms[type]` coefficients."""

    name: str
    function: Real
    low: mpf
    high: mpf
    weight: Real
    terms: dict[str, int]
    doc: str


def rounded(value: mpf, dtype: type) -> float:
    """`value` rounded once to f32 or f64, as a Python float."""
    bits = 24 if dtype is np.float32 else 53
    with mp.workprec(bits):
        return float(+value)


def grid(low: mpf, high: mpf) -> list[mpf]:
    """Chebyshev points without the ends, where a weight may vanish."""
    middle, half = (low + high) / 2, (high - low) / 2
    return [middle + half * mp.cos(mp.pi * (2 * k + 1) / (2 * GRID)) for k in range(GRID)][::-1]


def horner(coefficients: Sequence[mpf], x: mpf) -> mpf:
    """The polynomial's value, lowest coefficient first."""
    total = mpf(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def exchange(xs: list[mpf], target: list[mpf], weight: list[mpf], free: range) -> list[mpf]:
    """Coefficients of x**k, k in `free`, that minimise max |weight * (target - sum)|."""
    count = len(free)
    picks = [round((GRID - 1) * (1 - np.cos(np.pi * i / count)) / 2) for i in range(count + 1)]
    found: list[mpf] = []
    for _ in range(30):
        matrix, right = mp.matrix(count + 1), mp.matrix(count + 1, 1)
        for row, at in enumerate(picks):
            for column, k in enumerate(free):
                matrix[row, column] = weight[at] * xs[at] ** k
            matrix[row, count] = (-1) ** row
            right[row] = weight[at] * target[at]
        solution = mp.lu_solve(matrix, right)
        found = list(solution[:count])
        first = free[0]
        errors = [
            w * (t - x**first * horner(found, x))
            for x, t, w in zip(xs, target, weight, strict=True)
        ]
        new = alternation(errors, count + 1)
        if new is None or new == picks:
            break
        picks = new
        if max(map(abs, errors)) < abs(solution[count]) * mpf("1.0005"):
            break
    return found


def alternation(errors: list[mpf], count: int) -> list[int] | None:
    """Places of `count` extrema of alternating sign, the largest kept."""
    peaks: list[int] = []
    for i, e in enumerate(errors):
        if peaks and (errors[peaks[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[peaks[-1]]):
                peaks[-1] = i
        else:
            peaks.append(i)
    while len(peaks) > count:
        peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
    return peaks if len(peaks) == count else None


def fit(row: Polynomial, kind: str) -> tuple[list[float], float]:
    """The rounded coefficients and log2 of the largest weighted error with them."""
    xs = grid(row.low, row.high)
    target, weight = [row.function(x) for x in xs], [row.weight(x) for x in xs]
    terms, dtype = row.terms[kind], DTYPES[kind]

    def worst(coefficients: Sequence[float]) -> mpf:
        exact = list(map(mpf, coefficients))
        errors = zip(xs, target, weight, strict=True)
        return max(abs(w * (t - horner(exact, x))) for x, t, w in errors)

    best = [rounded(c, dtype) for c in exchange(xs, target, weight, range(terms))]
    done: list[float] = []
    # what follows the first ones is too small for another fit to matter
    for k in range(min(terms - 1, 4)):
        done.append(best[k])
        fixed = list(map(mpf, done))
        rest = [t - horner(fixed, x) for x, t in zip(xs, target, strict=True)]
        found = exchange(xs, rest, weight, range(k + 1, terms))
        trial = [*done, *(rounded(c, dtype) for c in found)]
        # around 0 the remaining powers are no Chebyshev system, and the exchange may fail
        if worst(trial) < worst(best):
            best = trial
    return best, float(mp.log(worst(best), 2))


# ---- the functions that are approximated --------------------------------------------------


def _series(function: Real, terms: int) -> Real:
    """`function` from its Taylor coefficients at 0: no cancellation near 0."""
    coefficients = mp.taylor(function, 0, terms)
    return lambda x: horner(coefficients, x)


def exp_tail(r: mpf) -> mpf:
    """(e**r - 1 - r) / r**2."""
    return (mp.expm1(r) - r) / r**2


def log_tail(f: mpf) -> mpf:
    """(log(1 + f) - f + f**2 / 2) / f**3."""
    return (mp.log1p(f) - f + f**2 / 2) / f**3


def erfcx(a: mpf) -> mpf:
    """exp(a**2) * erfc(a)."""
    return mp.exp(a * a) * mp.erfc(a)


HALF_LN2 = mp.log(2) / 2
PI_4 = (mp.pi / 4) ** 2
SLACK = mpf("1.002")
"""Reduced arguments leave their interval by a rounding of n."""

# how far the argument of erfc is moved: t = (a - C) / (a + C)
ERFC_CENTRE = 2


def _erfc_low(t: mpf) -> mpf:
    a = ERFC_CENTRE * (1 + t) / (1 - t)
    return erfcx(a) * (1 + 3 * a / 2) - 1


def _erfc_argument(value: str) -> mpf:
    a = mpf(value)
    return (a - ERFC_CENTRE) / (a + ERFC_CENTRE)


def _atanh(s: mpf) -> mpf:
    """atanh(s) / s."""
    return mp.atanh(s) / s


def _stirling(u: mpf) -> mpf:
    """(z * (log gamma(z) - (z - 1/2) log z + z - log(2 pi) / 2) - 1/12) / u with u = 1 / z**2."""
    z = 1 / mp.sqrt(u)
    with mp.workdps(90):
        main = (z - mpf(1) / 2) * mp.log(z) - z + mp.log(2 * mp.pi) / 2
        return (z * (mp.loggamma(z) - main) - mpf(1) / 12) / u


def _log_gamma(t: mpf) -> mpf:
    """log gamma(y) / ((y - 1) * (y - 2)) with y = t + 7/4."""
    y = t + mpf(7) / 4
    return mp.loggamma(y) / ((y - 1) * (y - 2))


# ---- the zeros of log |gamma| at negative arguments ----------------------------------------


def log_of_gamma(x: mpf) -> mpf:
    """log |gamma(x)| of a negative x, in digits that its zeros do not exhaust."""
    with mp.workdps(2 * mp.dps):
        return mp.log(mp.pi / abs(x * mp.sinpi(x))) - mp.loggamma(-x)


@cache
def zero_near(n: int, side: int) -> mpf:
    """How far from -n the zero on that side (-1 or 1) lies; the two in (-3, -2) are of 2 and 3."""
    if n < 4 and (n, side) != (3, -1):
        return mp.findroot(log_of_gamma, mpf("-2.457") if n == 2 else mpf("-2.7476")) + n
    u = side / mp.factorial(n)
    for _ in range(60):
        u *= mp.exp(log_of_gamma(u - n))
    return u


def smooth(n: int, u: mpf) -> mpf:
    """log |gamma(u - n)| + log |u|, without the pole at u = 0."""
    product = mp.fprod(1 - u / j for j in range(1, n + 1))
    return mp.loggamma(1 + u) - mp.log(product) - mp.log(mp.factorial(n))


# how far arguments are from a zero, of its distance from the pole, where |log gamma| < 1/16
NEAR_ZERO = mpf("0.075")
ZEROS = {"F32": 9, "F64": 16}
"""The last pole -n around which some argument has so small a logarithm."""


def zero_row(n: int, side: int, dtype: type) -> tuple[float, ...]:
    """Where arguments of this zero begin, the zero, 1 / (its distance from -n), a polynomial.

    The polynomial in t is (smooth(u0 + t) - smooth(u0)) / t for the zero at u0 - n.
    """
    u0 = zero_near(n, side)
    full, small = (24, 2.0**-29) if dtype is np.float32 else (53, 2.0**-58)
    terms = mp.taylor(lambda u: smooth(n, u), u0, 16)[1:]
    reach = NEAR_ZERO * abs(u0)
    count = next(k for k in range(1, 16) if abs(terms[k] * reach**k * u0) < small)
    begins = -n - 0.5 if side < 0 else float(-n)
    pairs = (*split(u0 - n, dtype, full), *split(1 / u0, dtype, full))
    return (begins, *pairs, *(rounded(c, dtype) for c in terms[:count]))


def _between(root: mpf) -> Real:
    """(log |gamma(z + t)| / t - its slope at the zero z) / t."""
    slope = mp.psi(0, root)
    return lambda t: (log_of_gamma(root + t) / t - slope) / t


def _zero_weight(root: mpf) -> Real:
    return lambda t: t**2 / log_of_gamma(root + t)


ROOT_2, ROOT_3 = zero_near(2, -1) - 2, zero_near(3, 1) - 3

POLYNOMIALS = (
    Polynomial(
        name="EXP",
        function=exp_tail,
        low=-HALF_LN2 * SLACK,
        high=HALF_LN2 * SLACK,
        weight=lambda r: r**2 / mp.exp(r),
        terms={"F32": 5, "F64": 10},
        doc="(e**r - 1 - r) / r**2 on [-ln(2)/2, ln(2)/2]",
    ),
    Polynomial(
        name="EXPM1",
        function=lambda r: (mp.expm1(r) - r - r**2 / 2) / r**3,
        low=-mpf(1) / 2,
        high=mpf(1) / 2,
        weight=lambda r: r**3 / mp.expm1(r),
        terms={"F32": 6, "F64": 11},
        doc="(e**r - 1 - r - r**2/2) / r**3 on [-1/2, 1/2]",
    ),
    Polynomial(
        name="COSH",
        function=lambda u: (mp.cosh(mp.sqrt(u)) - 1) / u,
        low=mpf(0),
        high=mpf(1) / 4,
        weight=lambda u: u,
        terms={"F32": 3, "F64": 7},
        doc="(cosh(r) - 1) / r**2 in r**2",
    ),
    Polynomial(
        name="SINH",
        function=lambda u: (mp.sinh(mp.sqrt(u)) / mp.sqrt(u) - 1) / u,
        low=mpf(0),
        high=mpf(1) / 4,
        weight=lambda u: u,
        terms={"F32": 3, "F64": 7},
        doc="(sinh(r) - r) / r**3 in r**2",
    ),
    Polynomial(
        name="LOG",
        function=log_tail,
        low=-mpf(1) / 3 * (1 + mpf("1e-6")),
        high=mpf(1) / 3,
        weight=lambda f: f**3 / mp.log1p(f),
        terms={"F32": 9, "F64": 20},
        doc="(log(1 + f) - f + f**2/2) / f**3 on [-1/3, 1/3]",
    ),
    Polynomial(
        name="ATANH",
        function=lambda u: (_atanh(mp.sqrt(u)) - 1 - u / 3) / u**2,
        low=mpf(0),
        high=mpf(1) / 25 * SLACK,
        weight=lambda u: u**2,
        terms={"F32": 4},
        doc="(atanh(s) - s - s**3/3) / s**5 in s**2, |s| <= 1/5",
    ),
    Polynomial(
        name="ATANH",
        function=lambda u: (_atanh(mp.sqrt(u)) - 1 - u / 3 - u**2 / 5) / u**3,
        low=mpf(0),
        high=mpf(1) / 25 * SLACK,
        weight=lambda u: u**3,
        terms={"F64": 9},
        doc="(atanh(s) - s - s**3/3 - s**5/5) / s**7 in s**2, |s| <= 1/5",
    ),
    Polynomial(
        name="SIN",
        function=lambda u: (mp.sin(mp.sqrt(u)) / mp.sqrt(u) - 1) / u,
        low=mpf(0),
        high=PI_4 * SLACK,
        weight=lambda u: u / mp.sinc(mp.sqrt(u)),
        terms={"F32": 4, "F64": 7},
        doc="(sin(r) - r) / r**3 in r**2, |r| <= pi/4",
    ),
    Polynomial(
        name="COS",
        function=lambda u: (mp.cos(mp.sqrt(u)) - 1 + u / 2) / u**2,
        low=mpf(0),
        high=PI_4 * SLACK,
        weight=lambda u: u**2 / mp.cos(mp.sqrt(u)),
        terms={"F32": 4, "F64": 7},
        doc="(cos(r) - 1 + r**2/2) / r**4 in r**2, |r| <= pi/4",
    ),
    Polynomial(
        name="ASIN",
        function=lambda u: (mp.asin(mp.sqrt(u)) / mp.sqrt(u) - 1) / u,
        low=mpf(0),
        high=mpf(1) / 4,
        weight=lambda u: u / (mp.asin(mp.sqrt(u)) / mp.sqrt(u)),
        terms={"F32": 6, "F64": 13},
        doc="(asin(x) - x) / x**3 in x**2, |x| <= 1/2",
    ),
    Polynomial(
        name="ATAN",
        function=lambda u: (mp.atan(mp.sqrt(u)) / mp.sqrt(u) - 1) / u,
        low=mpf(0),
        high=(mp.sqrt(2) - 1) ** 2 * SLACK,
        weight=lambda u: u / (mp.atan(mp.sqrt(u)) / mp.sqrt(u)),
        terms={"F32": 5, "F64": 11},
        doc="(atan(t) - t) / t**3 in t**2, |t| <= tan(pi/8)",
    ),
    Polynomial(
        name="CBRT",
        function=lambda m: m ** (-mpf(1) / 3),
        low=mpf(1),
        high=mpf(8),
        weight=lambda m: m ** (mpf(1) / 3),
        terms={"F32": 6, "F64": 6},
        doc="m ** (-1/3) on [1, 8], refined by iteration",
    ),
    Polynomial(
        name="STIRLING",
        function=_stirling,
        low=mpf("1e-9"),
        high=mpf("0.16"),
        weight=lambda u: u * mp.sqrt(u),
        terms={"F32": 4, "F64": 12},
        doc="(the rest of Stirling's formula times z, less 1/12) times z**2, in 1 / z**2, z >= 5/2",
    ),
    Polynomial(
        name="SIN5",
        function=lambda u: (mp.sin(mp.sqrt(u)) / mp.sqrt(u) - 1 + u / 6) / u**2,
        low=mpf(0),
        high=PI_4 * SLACK,
        weight=lambda u: u**2 / mp.sinc(mp.sqrt(u)),
        terms={"F32": 3, "F64": 6},
        doc="(sin(r) - r + r**3/6) / r**5 in r**2, |r| <= pi/4",
    ),
    Polynomial(
        name="LGAMMA_2",
        function=_between(ROOT_2),
        low=mpf("-2.507") - ROOT_2,
        high=mpf("-2.419") - ROOT_2,
        weight=_zero_weight(ROOT_2),
        terms={"F32": 6, "F64": 13},
        doc="(log |gamma(x)| / t - slope) / t, t = x + 2.457.., a zero, x from -2.507 to -2.419",
    ),
    Polynomial(
        name="LGAMMA_3",
        function=_between(ROOT_3),
        low=mpf("-2.778") - ROOT_3,
        high=mpf("-2.706") - ROOT_3,
        weight=_zero_weight(ROOT_3),
        terms={"F32": 8, "F64": 17},
        doc="(log |gamma(x)| / t - slope) / t, t = x + 2.748.., a zero, x from -2.778 to -2.706",
    ),
    Polynomial(
        name="LGAMMA",
        function=_log_gamma,
        low=-mpf(3) / 4,
        high=mpf(3) / 4,
        weight=lambda t: 1 / _log_gamma(t),
        terms={"F32": 14, "F64": 28},
        doc="log(gamma(y)) / ((y - 1) * (y - 2)) in y - 7/4, y from 1 to 5/2",
    ),
    Polynomial(
        name="ERF",
        function=lambda u: mp.erf(mp.sqrt(u)) / mp.sqrt(u) - 1,
        low=mpf(0),
        high=mpf("0.5625"),
        weight=lambda u: 1 / (mp.erf(mp.sqrt(u)) / mp.sqrt(u)),
        terms={"F32": 7, "F64": 14},
        doc="erf(x) / x - 1 in x**2, |x| <= 3/4",
    ),
    Polynomial(
        name="ERFC",
        function=_erfc_low,
        low=_erfc_argument("0.49"),
        high=_erfc_argument("10.3"),
        weight=lambda t: 1 / (1 + _erfc_low(t)),
        terms={"F32": 11},
        doc="exp(a**2) * erfc(a) * (1 + 3*a/2) - 1 in (a - 2) / (a + 2), a from 0.49 to 10.3",
    ),
    Polynomial(
        name="ERFC",
        function=_erfc_low,
        low=_erfc_argument("0.49"),
        high=_erfc_argument("27.5"),
        weight=lambda t: 1 / (1 + _erfc_low(t)),
        terms={"F64": 25},
        doc="exp(a**2) * erfc(a) * (1 + 3*a/2) - 1 in (a - 2) / (a + 2), a from 0.49 to 27.5",
    ),
)


def split(value: mpf, dtype: type, *bits: int) -> tuple[float, ...]:
    """`value` as a sum: heads truncated to `bits` significant bits, then what is left, rounded."""
    parts: list[float] = []
    for count in bits:
        exponent = int(mp.floor(mp.log(abs(value), 2)))
        unit = mpf(2) ** (exponent + 1 - count)
        head = mp.nint(value / unit) * unit
        parts.append(float(head))
        value -= head
    return (*parts, rounded(value, dtype))


def constants(kind: str) -> dict[str, tuple[tuple[float, ...], str]]:
    """The split constants of a type."""
    dtype, short = DTYPES[kind], kind == "F32"
    ln2, ln10, pi = mp.log(2), mp.log(10), mp.pi
    full = 24 if short else 53
    head = 12 if short else 53
    return {
        "LOG2_E": ((rounded(1 / ln2, dtype),), "1 / ln(2)"),
        "LOG2_10": ((rounded(ln10 / ln2, dtype),), "log2(10)"),
        # n has 8 (11) bits at most, with a product of 24 (53)
        "LN2_N": (split(ln2, dtype, 16 if short else 42), "ln(2), its head exact times n"),
        "LG2_N": (split(ln2 / ln10, dtype, 16 if short else 42), "log10(2), the same"),
        "LN2": (split(ln2, dtype, head), "ln(2)"),
        "LN10": (split(ln10, dtype, head), "ln(10)"),
        "INV_LN2": (split(1 / ln2, dtype, head), "1 / ln(2)"),
        "INV_LN10": (split(1 / ln10, dtype, head), "1 / ln(10)"),
        "TWO_OVER_PI": ((rounded(2 / pi, dtype),), "2 / pi"),
        "HALF_PI_N": (
            split(pi / 2, dtype, 11, 12, 12, 12) if short else split(pi / 2, dtype, 53, 53),
            "pi/2, its heads exact times n",
        ),
        "HALF_PI": (split(pi / 2, dtype, head), "pi/2"),
        "HALF_PI_SUM": (split(pi / 2, dtype, full), "pi/2, both parts whole"),
        "QUARTER_PI_SUM": (split(pi / 4, dtype, full), "pi/4, both parts whole"),
        "PI": (split(pi, dtype, head), "pi"),
        "PI_SUM": (split(pi, dtype, full), "pi, both parts whole"),
        "SQRT_HALF": (split(mp.sqrt(mpf(1) / 2), dtype, head), "sqrt(1/2)"),
        "GELU_CUBIC": (split(mpf("0.044715"), dtype, head), "the coefficient of gelu's tanh form"),
        "GELU_FACTOR": (split(2 * mp.sqrt(2 / pi), dtype, head), "2 sqrt(2/pi)"),
        "LOG2_PI": (split(mp.log(2 * pi) / ln2 / 2, dtype, full), "log2(2 pi) / 2"),
        "LN_PI": (split(mp.log(pi), dtype, full), "log(pi)"),
        "ZERO_2": ((*split(ROOT_2, dtype, full), *split(mp.psi(0, ROOT_2), dtype, full)),
                   "the zero of log |gamma| at -2.457 and its slope, in pairs"),
        "ZERO_3": ((*split(ROOT_3, dtype, full), *split(mp.psi(0, ROOT_3), dtype, full)),
                   "the zero of log |gamma| at -2.748 and its slope, in pairs"),
        "TWELFTH_LN2": (split(1 / (12 * ln2), dtype, head), "1 / (12 ln(2))"),
        "FIFTH": (split(mpf(1) / 5, dtype, head), "1/5"),
        "THIRD": (split(mpf(1) / 3, dtype, head), "1/3"),
    }  # fmt: skip


def two_over_pi(bits: int, words: int) -> tuple[int, ...]:
    """2/pi as a binary fraction, in words of `bits` bits."""
    with mp.workprec(bits * words + 64):
        scaled = int(mp.floor(2 / mp.pi * mpf(2) ** (bits * words)))
    return tuple(scaled >> bits * (words - 1 - i) & (1 << bits) - 1 for i in range(words))


HEADER = '''"""Coefficients and split constants; tools/minimax.py writes this file.

Polynomials are given lowest coefficient first; the comment gives log2 of the largest
relative error that one adds to the result.
"""

# fmt: off
# ruff: noqa: E501, ERA001 - long rows; comments that are formulas
'''


def render() -> str:
    """The text of the tables."""
    lines = [HEADER]
    for row in POLYNOMIALS:
        for kind in row.terms:
            coefficients, worst = fit(row, kind)
            print(f"{row.name}_{kind}: {len(coefficients)} terms, 2**{worst:.1f}", file=sys.stderr)
            lines.append(f"# {row.doc}: 2**{worst:.1f}")
            lines.append(f"{row.name}_{kind} = (")
            lines += [f"    {c!r}," for c in coefficients]
            lines.append(")\n")
    for kind in DTYPES:
        for name, (parts, doc) in constants(kind).items():
            lines.append(f"# {doc}")
            lines.append(f"{name}_{kind} = (")
            lines += [f"    {part!r}," for part in parts]
            lines.append(")")
        lines.append("")
    for kind, last in ZEROS.items():
        lines.append("# zeros of log |gamma| below -3, from the least: where it begins, the zero,")
        lines.append("# 1 / (its distance from the pole), and a polynomial; see zero_row")
        lines.append(f"LGAMMA_ZEROS_{kind} = (")
        zeros = [(n, side) for n in range(last, 2, -1) for side in (-1, 1)][:-1]
        lines += [f"    {zero_row(n, side, DTYPES[kind])!r}," for n, side in zeros]
        lines.append(")\n")
    for name, bits, words in (("F32", 32, 7), ("F64", 64, 20)):
        lines.append("# 2/pi as a binary fraction, most significant word first")
        lines.append(f"TWO_OVER_PI_BITS_{name} = (")
        lines += [f"    {w:#x}," for w in two_over_pi(bits, words)]
        lines.append(")\n")
    return "\n".join(lines)


def main() -> None:
    """Write the tables, or with --check say whether they are what this script gives."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    text = render()
    if arguments.check:
        sys.exit(0 if TABLES.read_text() == text else "tables.py differs")
    TABLES.write_text(text)


if __name__ == "__main__":
    main()
