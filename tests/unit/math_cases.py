"""The functions of `hl` with what they must be: references, limits and where to sample."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import mpmath
import numpy as np
from mpmath import mp, mpf

import hetir
import hetir.lang as hl

INF = math.inf
mp.dps = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One function: `exact` by mpmath, `double` by NumPy or Python's math, limits in ULP.

    `extended` takes NumPy's 80-bit floats; a `double` that is a ufunc does so too.
    """

    name: str
    function: object
    exact: Callable[..., mpf]
    double: Callable[..., np.ndarray] | None = None
    extended: Callable[..., np.ndarray] | None = None
    ranges: tuple[tuple[float, float], ...] = ()
    wide: tuple[tuple[float, float], ...] = ()
    limits: dict[str, float] = field(default_factory=lambda: {"f32": 1.0, "f64": 1.5})


def _sigmoid(x):
    return 1 / (1 + mp.exp(-x)) if x > 0 else mp.exp(x) / (1 + mp.exp(x))


def _softplus(x):
    return (max(0, x)) + mp.log1p(mp.exp(-abs(x)))


def _erfc(x):
    # mpmath fails on huge arguments, where the value is below every f64
    return mp.erfc(x) if abs(x) < 1e6 else mpf(0 if x > 0 else 2)


def _gelu(x):
    return x * _erfc(-x / mp.sqrt(2)) / 2


def _gelu_tanh(x):
    return x * _sigmoid(2 * mp.sqrt(2 / mp.pi) * (x + mpf("0.044715") * x**3))


def _lgamma(x):
    # |gamma| in working precision that a zero of the logarithm does not exhaust
    with mp.workdps(80):
        if x <= 0 and mp.isint(x):
            return mp.inf
        if x > 0:
            return mp.loggamma(x)
        return mp.log(abs(mp.pi / (x * mp.sinpi(x)))) - mp.loggamma(-x)


def _wide_sigmoid(x):
    small = np.exp(-np.abs(x))
    return np.where(x > 0, 1, small) / (1 + small)


def _wide_softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _math(function):
    """A function of Python's math on an array of doubles; what it raises on are its limits."""

    def safe(x):
        try:
            return function(x)
        except OverflowError:
            return INF
        except ValueError:
            return math.nan

    return lambda x: np.array([safe(v) for v in x.tolist()])


def _power(base):
    return lambda x: mp.power(base, x)


CASES = {
    case.name: case
    for case in (
        Case(name="exp", function=hl.exp, exact=mp.exp, double=np.exp,
             ranges=((-104, 89), (-1, 1)), wide=((-746, 710), (-1, 1))),
        Case(name="exp2", function=hl.exp2, exact=_power(2), double=np.exp2,
             ranges=((-150, 128), (-1, 1)), wide=((-1075, 1024), (-1, 1))),
        Case(name="exp10", function=hl.exp10, exact=_power(10),
             extended=lambda x: np.power(np.longdouble(10), x),
             ranges=((-46, 39), (-1, 1)), wide=((-324, 309), (-1, 1))),
        Case(name="expm1", function=hl.expm1, exact=mp.expm1, double=np.expm1,
             ranges=((-20, 89), (-1, 1)), wide=((-45, 710), (-1, 1))),
        Case(name="log", function=hl.log, exact=mp.log, double=np.log, ranges=((0, 3),)),
        Case(name="log2", function=hl.log2, exact=lambda x: mp.log(x, 2), double=np.log2,
             ranges=((0, 3),)),
        Case(name="log10", function=hl.log10, exact=mp.log10, double=np.log10, ranges=((0, 3),)),
        Case(name="log1p", function=hl.log1p, exact=mp.log1p, double=np.log1p,
             ranges=((-1, 3), (-0.01, 0.01))),
        Case(name="sin", function=hl.sin, exact=mp.sin, double=np.sin,
             ranges=((-10, 10), (-7000, 7000)), wide=((-10, 10), (-2e6, 2e6))),
        Case(name="cos", function=hl.cos, exact=mp.cos, double=np.cos,
             ranges=((-10, 10), (-7000, 7000)), wide=((-10, 10), (-2e6, 2e6))),
        Case(name="tan", function=hl.tan, exact=mp.tan, double=np.tan,
             ranges=((-10, 10), (-7000, 7000)), wide=((-10, 10), (-2e6, 2e6))),
        Case(name="asin", function=hl.asin, exact=mp.asin, double=np.arcsin, ranges=((-1, 1),)),
        Case(name="acos", function=hl.acos, exact=mp.acos, double=np.arccos, ranges=((-1, 1),)),
        Case(name="atan", function=hl.atan, exact=mp.atan, double=np.arctan,
             ranges=((-3, 3), (-100, 100))),
        Case(name="sinh", function=hl.sinh, exact=mp.sinh, double=np.sinh,
             ranges=((-90, 90), (-3, 3)), wide=((-711, 711), (-3, 3))),
        Case(name="cosh", function=hl.cosh, exact=mp.cosh, double=np.cosh,
             ranges=((-90, 90), (-3, 3)), wide=((-711, 711), (-3, 3))),
        Case(name="tanh", function=hl.tanh, exact=mp.tanh, double=np.tanh,
             ranges=((-10, 10), (-1, 1)), wide=((-20, 20), (-1, 1))),
        Case(name="asinh", function=hl.asinh, exact=mp.asinh, double=np.arcsinh,
             ranges=((-3, 3), (-100, 100))),
        Case(name="acosh", function=hl.acosh, exact=mp.acosh, double=np.arccosh,
             ranges=((1, 3), (1, 1000))),
        Case(name="atanh", function=hl.atanh, exact=mp.atanh, double=np.arctanh,
             ranges=((-1, 1),)),
        Case(name="erf", function=hl.erf, exact=mp.erf, double=_math(math.erf),
             ranges=((-4, 4), (-1, 1)), wide=((-6, 6), (-1, 1))),
        Case(name="erfc", function=hl.erfc, exact=_erfc, double=_math(math.erfc),
             ranges=((-4, 10.1), (-1, 1)), wide=((-6, 27.3), (-1, 1))),
        Case(name="tgamma", function=hl.tgamma, exact=mp.gamma, double=_math(math.gamma),
             ranges=((-42, 35.1), (-4, 4)), wide=((-180, 171.6), (-4, 4))),
        Case(name="lgamma", function=hl.lgamma, exact=_lgamma, double=_math(math.lgamma),
             ranges=((-42, 100), (0, 4), (-10, -2)), wide=((-180, 200), (0, 4), (-17, -2))),
        Case(name="cbrt", function=hl.cbrt, exact=lambda x: mp.sign(x) * mp.cbrt(abs(x)),
             double=np.cbrt, ranges=((-10, 10),)),
        Case(name="rsqrt", function=hl.rsqrt, exact=lambda x: 1 / mp.sqrt(x),
             extended=lambda x: 1 / np.sqrt(x), ranges=((0, 10),)),
        Case(name="sigmoid", function=hl.sigmoid, exact=_sigmoid, extended=_wide_sigmoid,
             ranges=((-104, 20), (-1, 1)), wide=((-746, 40), (-1, 1))),
        Case(name="silu", function=hl.silu, exact=lambda x: x * _sigmoid(x),
             extended=lambda x: np.where(x == -np.inf, -0.0, x * _wide_sigmoid(x)),
             ranges=((-108, 20), (-1, 1)), wide=((-750, 40), (-1, 1))),
        Case(name="gelu", function=hl.gelu, exact=_gelu,
             ranges=((-14.5, 9), (-1, 1)), wide=((-38.7, 9), (-1, 1))),
        Case(name="gelu_tanh", function="tanh", exact=_gelu_tanh,
             ranges=((-11, 9), (-1, 1)), wide=((-22, 9), (-1, 1))),
        Case(name="softplus", function=hl.softplus, exact=_softplus, extended=_wide_softplus,
             ranges=((-104, 20), (-1, 1)), wide=((-746, 40), (-1, 1))),
        Case(name="log_sigmoid", function=hl.log_sigmoid, exact=lambda x: -_softplus(-x),
             extended=lambda x: -_wide_softplus(-x),
             ranges=((-20, 104), (-1, 1)), wide=((-40, 746), (-1, 1))),
    )
}  # fmt: skip

BINARY = {
    case.name: case
    for case in (
        Case(name="pow", function=hl.pow, exact=mp.power,
             double=lambda x, y: np.power(np.longdouble(x), y)),
        Case(name="atan2", function=hl.atan2, exact=mp.atan2, double=np.arctan2),
        Case(name="hypot", function=hl.hypot, exact=mp.hypot,
             double=lambda x, y: np.hypot(np.longdouble(x), y)),
    )
}  # fmt: skip


@functools.cache
def kernel_of(name: str) -> hetir.Kernel:
    """A kernel that applies a function to every element."""
    if name == "gelu_tanh":

        @hetir.kernel
        def apply(x, y):
            i = hl.global_id(0)
            if i < y.shape[0]:
                y[i] = hl.gelu(x[i], approximate="tanh")

        return apply
    if name in BINARY:
        binary = BINARY[name].function

        @hetir.kernel
        def apply_two(a, b, y):
            i = hl.global_id(0)
            if i < y.shape[0]:
                y[i] = binary(a[i], b[i])

        return apply_two
    function = CASES[name].function

    @hetir.kernel
    def apply_one(x, y):
        i = hl.global_id(0)
        if i < y.shape[0]:
            y[i] = function(x[i])

    return apply_one


def compute(name: str, *arguments: np.ndarray, device: str = "cpu") -> np.ndarray:
    """The function's values, from a kernel that runs on a device."""
    y = np.empty_like(arguments[0])
    grid = hetir.cdiv(y.size, 256)
    kernel_of(name).launch((*arguments, y), grid=grid, workgroup=256, device=device).wait()
    return y


def mp_value(case: Case, *x: float) -> mpf | float:
    """The exact value to 60 digits; infinities and NaN as floats."""
    try:
        value = case.exact(*map(mpf, x))
    except (ValueError, ZeroDivisionError):
        return math.nan
    if isinstance(value, mpmath.mpc):
        return math.nan
    return value


FORMATS = {np.dtype("f4"): (24, -126), np.dtype("f8"): (53, -1022), np.dtype("f2"): (11, -14)}


def ulp_error(got: np.floating, want: mpf) -> float:
    """|got - want| in units of the last place of `want`."""
    bits, least = FORMATS[got.dtype]
    if want == 0:
        return float(abs(mpf(float(got))) * mpf(2) ** (bits - 1 - least))
    exponent = max(int(mp.floor(mp.log(abs(want), 2))), least)
    return float(abs(mpf(float(got)) - want) * mpf(2) ** (bits - 1 - exponent))


def ulp_errors(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """The same of arrays, `want` in a wider type; 0 where either is not finite in `got`'s type."""
    bits, least = FORMATS[got.dtype]
    with np.errstate(all="ignore"):
        finite = np.isfinite(got) & np.isfinite(want.astype(got.dtype))
        safe = np.where(finite, want, 0)
        _, exponent = np.frexp(safe)
        unit = np.maximum(exponent - 1, least) - (bits - 1)
        difference = np.where(finite, got, 0).astype(safe.dtype) - safe
        return np.abs(np.ldexp(difference, -unit))


def disagree(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Where one is NaN or infinite, or 0 of another sign, and the other is not.

    Past the middle between the largest number and the next power of two both may stand.
    """
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        largest = np.finfo(got.dtype).max
        nan = np.isnan(got) != np.isnan(rounded)
        infinite = (np.isinf(got) | np.isinf(rounded)) & (got != rounded)
        edge = np.abs(want.astype(np.longdouble) / np.longdouble(largest) - 1) < 1e-7
        zero = (got == 0) & (rounded == 0) & (np.signbit(got) != np.signbit(rounded))
    return nan | (infinite & ~np.isnan(rounded) & ~np.isnan(got) & ~edge) | zero


def samples(case: Case, dtype: np.dtype, count: int, seed: int = 0) -> np.ndarray:
    """Random bit patterns, the case's ranges, and magnitudes from tiny to large."""
    rng = np.random.default_rng(seed)
    width = 8 * dtype.itemsize
    ranges = case.wide if dtype.itemsize == 8 and case.wide else case.ranges
    parts = [rng.integers(0, 1 << width, count, dtype=f"u{dtype.itemsize}").view(dtype)]
    parts += [rng.uniform(low, high, count).astype(dtype) for low, high in ranges]
    spread = np.exp(rng.uniform(-30, 5, count)) * rng.choice([-1.0, 1.0], count)
    return np.concatenate([*parts, spread.astype(dtype)])
