"""Identities of the mathematics on arguments that hypothesis chooses."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.math_cases import compute

FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
POSITIVE = st.floats(width=32, min_value=2.0**-149, allow_nan=False, allow_infinity=False)
FEW = settings(max_examples=60, deadline=None)


def one(name, *arguments):
    return compute(name, *(np.array([a], np.float32) for a in arguments))[0]


@FEW
@given(FINITE)
def test_the_first_power_and_the_zeroth(x):
    assert one("pow", x, 1.0) == np.float32(x)
    assert one("pow", x, 0.0) == 1


@FEW
@given(FINITE)
def test_the_square_is_rounded_from_the_exact_square(x):
    exact = float(np.float32(x)) ** 2
    with np.errstate(over="ignore"):
        rounded = np.float32(exact)
    got = one("pow", x, 2.0)
    assert got == rounded or abs(float(got) - exact) <= float(np.spacing(rounded))


@FEW
@given(FINITE, FINITE)
def test_hypot_is_symmetric_and_at_least_each_side(x, y):
    h = one("hypot", x, y)
    assert h == one("hypot", -y, x)
    assert h >= max(abs(np.float32(x)), abs(np.float32(y)))


@FEW
@given(FINITE, FINITE)
def test_atan2_lies_in_the_quadrant_of_the_point(y, x):
    angle = one("atan2", y, x)
    assert abs(angle) <= np.float32(math.pi)
    assert np.signbit(angle) == np.signbit(np.float32(y))
    if x > 0:
        assert abs(angle) <= np.float32(math.pi / 2)


@FEW
@given(FINITE)
def test_sine_and_cosine_lie_on_the_circle(x):
    s, c = float(one("sin", x)), float(one("cos", x))
    assert abs(s * s + c * c - 1) < 3e-7


@FEW
@given(POSITIVE)
def test_logarithms_and_roots_come_back(x):
    if x < 3.4e38:  # the logarithm of what is larger may round up past the largest exponent
        assert math.isclose(one("exp", one("log", x)), x, rel_tol=1e-5)
    if x > 2.0**-126:
        root = float(one("cbrt", x))
        assert math.isclose(root**3, x, rel_tol=3e-7)
        assert math.isclose(float(one("rsqrt", x)) ** -2, x, rel_tol=3e-7)


@FEW
@given(st.floats(width=32, min_value=-80, max_value=80))
def test_sigmoid_and_its_logarithm_agree(x):
    assert math.isclose(math.log(one("sigmoid", x)), one("log_sigmoid", x), rel_tol=1e-5,
                        abs_tol=2e-7)  # fmt: skip
    total = float(one("sigmoid", x)) + float(one("sigmoid", -x))
    assert math.isclose(total, 1, rel_tol=2e-7)
