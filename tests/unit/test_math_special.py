"""Special values (C, Annex F), exact results, hard cases of the range reduction, symmetries."""

import math

import numpy as np
import pytest

from tests.unit.math_cases import CASES, compute, mp, mpf, ulp_error

INF, NAN = math.inf, math.nan
ODD = ("sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "erf", "cbrt")
DTYPES = [np.dtype("f4"), np.dtype("f8")]
# what C (ISO/IEC 9899:2018, F.10) prescribes; -0.0 and 0.0 are told apart
UNARY = {
    "exp": [(-INF, 0.0), (INF, INF), (0.0, 1.0), (-0.0, 1.0)],
    "exp2": [(-INF, 0.0), (INF, INF), (0.0, 1.0), (-0.0, 1.0)],
    "exp10": [(-INF, 0.0), (INF, INF), (0.0, 1.0), (-0.0, 1.0)],
    "expm1": [(-INF, -1.0), (INF, INF), (0.0, 0.0), (-0.0, -0.0)],
    "log": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (-1.0, NAN), (INF, INF), (-INF, NAN)],
    "log2": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (-1.0, NAN), (INF, INF), (-INF, NAN)],
    "log10": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (-1.0, NAN), (INF, INF), (-INF, NAN)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (-2.0, NAN), (INF, INF), (-INF, NAN)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1.5, NAN), (-INF, NAN)],
    "acos": [(1.0, 0.0), (1.5, NAN), (-1.5, NAN), (INF, NAN)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, math.pi / 2), (-INF, -math.pi / 2)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "cosh": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "acosh": [(1.0, 0.0), (0.5, NAN), (-INF, NAN), (INF, INF)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN), (-INF, NAN)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "erfc": [(-INF, 2.0), (INF, 0.0), (0.0, 1.0)],
    "tgamma": [
        (0.0, INF), (-0.0, -INF), (-1.0, NAN), (-2.0, NAN),
        (-INF, NAN), (INF, INF), (5.0, 24.0),
    ],
    "lgamma": [
        (1.0, 0.0), (2.0, 0.0), (0.0, INF), (-0.0, INF),
        (-3.0, INF), (INF, INF), (-INF, INF),
    ],
    "cbrt": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (27.0, 3.0), (-8.0, -2.0)],
    "rsqrt": [(0.0, INF), (-0.0, -INF), (-1.0, NAN), (INF, 0.0), (-INF, NAN), (4.0, 0.5)],
    "sigmoid": [(0.0, 0.5), (INF, 1.0), (-INF, 0.0)],
    "silu": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -0.0)],
    "gelu": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -0.0)],
    "gelu_tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -0.0)],
    "softplus": [(INF, INF), (-INF, 0.0), (0.0, math.log(2))],
    "log_sigmoid": [(INF, -0.0), (-INF, -INF), (0.0, -math.log(2))],
}  # fmt: skip
_PI = math.pi
BINARY = {
    "pow": [
        (0.0, -3.0, INF), (-0.0, -3.0, -INF), (0.0, -2.5, INF), (-0.0, -2.0, INF),
        (0.0, -INF, INF), (-0.0, -INF, INF), (0.0, 3.0, 0.0), (-0.0, 3.0, -0.0), (-0.0, 2.5, 0.0),
        (-1.0, INF, 1.0), (-1.0, -INF, 1.0), (1.0, NAN, 1.0), (NAN, 0.0, 1.0), (NAN, -0.0, 1.0),
        (-2.0, 0.5, NAN), (0.5, -INF, INF), (-0.5, -INF, INF), (2.0, -INF, 0.0), (0.5, INF, 0.0),
        (2.0, INF, INF), (-INF, -3.0, -0.0), (-INF, -2.5, 0.0), (-INF, 3.0, -INF),
        (-INF, 2.5, INF), (INF, -0.5, 0.0), (INF, 0.5, INF), (NAN, 2.0, NAN), (2.0, NAN, NAN),
        (3.0, 2.0, 9.0), (2.0, 10.0, 1024.0), (-2.0, 3.0, -8.0), (10.0, 10.0, 1e10),
    ],
    "atan2": [
        (0.0, 1.0, 0.0), (-0.0, 1.0, -0.0), (0.0, -1.0, _PI), (-0.0, -1.0, -_PI),
        (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (0.0, -0.0, _PI), (-0.0, -0.0, -_PI),
        (1.0, 0.0, _PI / 2), (-1.0, -0.0, -_PI / 2), (1.0, -INF, _PI), (-1.0, -INF, -_PI),
        (1.0, INF, 0.0), (-1.0, INF, -0.0), (INF, 1.0, _PI / 2), (-INF, -1.0, -_PI / 2),
        (INF, INF, _PI / 4), (INF, -INF, 3 * _PI / 4), (-INF, INF, -_PI / 4),
        (-INF, -INF, -3 * _PI / 4), (NAN, 1.0, NAN), (1.0, NAN, NAN),
    ],
    "hypot": [
        (INF, NAN, INF), (NAN, -INF, INF), (NAN, 1.0, NAN), (0.0, -0.0, 0.0), (3.0, -4.0, 5.0),
        (-5.0, 12.0, 13.0), (0.0, -7.5, 7.5),
    ],
}  # fmt: skip


def _same(got, want):
    nan = np.isnan(got) & np.isnan(want)
    return nan | ((got == want) & (np.signbit(got) == np.signbit(want)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_special_values(name, dtype):
    points = [*UNARY[name], (NAN, NAN)]
    x, want = (np.array(column, dtype) for column in zip(*points, strict=True))
    got = compute(name, x)
    assert _same(got, want).all(), (x, got, want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_special_values_of_two_arguments(name, dtype):
    a, b, want = (np.array(column, dtype) for column in zip(*BINARY[name], strict=True))
    got = compute(name, a, b)
    assert _same(got, want).all(), (a, b, got, want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_of_two_ten_and_cubes_are_exact(dtype):
    info = np.finfo(dtype)
    least = info.minexp - info.nmant
    n = np.arange(least, info.maxexp)
    powers = np.ldexp(np.ones(n.size, dtype), n)
    np.testing.assert_array_equal(compute("exp2", n.astype(dtype)), powers)
    np.testing.assert_array_equal(compute("log2", powers), n)
    tens = np.arange(11 if dtype.itemsize == 4 else 23)
    exact = np.array([10 ** int(k) for k in tens], dtype)
    np.testing.assert_array_equal(compute("exp10", tens.astype(dtype)), exact)
    np.testing.assert_array_equal(compute("log10", exact), tens)
    roots = np.arange(-255, 256)
    np.testing.assert_array_equal(compute("cbrt", (roots**3).astype(dtype)), roots)


@pytest.mark.parametrize("name", [*ODD, "expm1"])
def test_subnormal_arguments_near_a_linear_zero(name):
    slope = {"erf": 2 / math.sqrt(math.pi)}.get(name, 1.0)
    x = np.array([1, 2, 3, 1000, 0x7FFFFF, 0x800000, 0x80000001], np.uint32).view(np.float32)
    want = np.cbrt(x.astype(np.float64)) if name == "cbrt" else slope * x.astype(np.float64)
    got = compute(name, x)
    unit = np.spacing(np.abs(want.astype(np.float32)))
    assert (np.abs(got - want) <= 0.8 * unit).all()


# arguments very near a multiple of pi/2: J.-M. Muller, Elementary Functions, 3rd ed., 11.3
HARD = {
    "f4": [16367173.0 * 2.0**72, 12606225.0 * 2.0**-1, 8377573.0 * 2.0**20, 1.5707964, 6001.5],
    "f8": [6381956970095103.0 * 2.0**797, 6411027962775774.0 * 2.0**-48,
           5706674932067741.0 * 2.0**-50, 1e22, 2.0**1023],
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_arguments_near_multiples_of_half_pi(name, dtype):
    hard = np.array(HARD[dtype.str[1:]], dtype)
    multiples = (np.arange(1, 4000) * (math.pi / 2)).astype(dtype)
    x = np.concatenate([hard, multiples[:: 40 if dtype.itemsize == 4 else 80]])
    for value, result in zip(x, compute(name, x), strict=True):
        want = CASES[name].exact(mpf(float(value)))
        assert ulp_error(result, want) <= 1.0, (value, result, mp.nstr(want, 20))


@pytest.mark.parametrize("name", ODD)
def test_odd_functions_are_odd_bit_for_bit(name):
    x = np.arange(0, 1 << 31, 99991, dtype=np.uint64).astype(np.uint32).view(np.float32)
    np.testing.assert_array_equal(compute(name, -x), -compute(name, x))


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "atan", "erf", "sigmoid", "cbrt", "exp2"])
def test_neighbours_do_not_turn_back(name):
    """Monotonic over 2**18 neighbours: within an ULP a function could still turn back."""
    start = np.float32(0.7).view(np.uint32)
    x = (start + np.arange(1 << 18, dtype=np.uint32)).view(np.float32)
    assert (np.diff(compute(name, x)) >= 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_with_results_over_the_whole_range(dtype):
    """A logarithm near 1 and a large exponent: the product takes the bits of the logarithm."""
    hard = [(1.33775378, 2345.86372), (0.75000001, -2400.5), (1.0000001, 6e8), (1.3333334, 300.25)]
    bases = np.linspace(1.2, 1.45, 200)
    largest = 88 if dtype.itemsize == 4 else 709
    pairs = [*hard, *((b, 0.98 * largest / math.log(b)) for b in bases.tolist())]
    a, b = (np.array(column, dtype) for column in zip(*pairs, strict=True))
    for x, y, result in zip(a, b, compute("pow", a, b), strict=True):
        want = mp.power(mpf(float(x)), mpf(float(y)))
        if want < np.finfo(dtype).max:
            assert ulp_error(result, want) <= 1.0, (x, y)
        else:
            assert np.isinf(result)
