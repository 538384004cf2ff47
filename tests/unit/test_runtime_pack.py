"""Scalars in the block, against NumPy, exact rationals and the struct of C."""

import struct
from fractions import Fraction
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetir.runtime.dtypes import NUMPY, converter_of
from hetir.runtime.layout import bounds, contiguous_strides, overlaps_itself

FLOATS = st.floats(allow_nan=False) | st.floats(-1e6, 1e6) | st.floats(-1e-30, 1e-30)


def value_of(dtype, bits):
    kind = NUMPY[dtype]
    return np.array(bits, f"u{kind.itemsize}").view(kind)[()]


@cache
def finite_values(dtype):
    """All finite values of a type in order, and their codes."""
    codes = np.arange(1 << (8 * NUMPY[dtype].itemsize), dtype=f"u{NUMPY[dtype].itemsize}")
    with np.errstate(invalid="ignore"):
        values = codes.view(NUMPY[dtype]).astype(np.float64)
    order = np.argsort(values[np.isfinite(values)], kind="stable")
    return values[np.isfinite(values)][order], codes[np.isfinite(values)][order]


def nearest_even(exact, dtype):
    """The value of `dtype` nearest to a rational, by search over all its finite values."""
    values, codes = finite_values(dtype)
    at = int(np.searchsorted(values, float(exact)))
    near = range(max(0, at - 3), min(len(values), at + 3))
    key = {i: (abs(Fraction(float(values[i])) - exact), int(codes[i]) & 1) for i in near}
    return float(values[min(near, key=key.__getitem__)])


@given(FLOATS)
def test_f32_and_f16_are_rounded_as_numpy_rounds(value):
    with np.errstate(over="ignore"):
        assert converter_of("f32")(value) == int(np.float32(value).view(np.uint32))
        assert converter_of("f16")(value) == int(np.float16(value).view(np.uint16))


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f8e4m3", "f8e5m2"])
@given(value=st.floats(-400, 400) | st.floats(-1e-3, 1e-3))
def test_small_floats_are_rounded_once(dtype, value):
    got = float(value_of(dtype, converter_of(dtype)(value)))
    assert got == nearest_even(Fraction(value), dtype)


def test_a_second_rounding_would_be_seen():
    """1 + 2^-8 + 2^-40 lies above a tie of bf16; by way of f32 it would fall on it."""
    value = 1 + 2.0**-8 + 2.0**-40
    assert float(value_of("bf16", converter_of("bf16")(value))) == 1 + 2.0**-7
    assert float(np.float64(value).astype(np.float32).astype(ml_dtypes.bfloat16)) == 1.0


@given(st.integers(-(2**64), 2**64))
def test_integers_become_f32_by_one_rounding(value):
    got = Fraction(float(value_of("f32", converter_of("f32")(value))))
    error = abs(got - value)
    for neighbour in (-np.inf, np.inf):
        other = Fraction(float(np.nextafter(np.float32(float(got)), np.float32(neighbour))))
        assert error <= abs(other - value)


def test_an_integer_that_two_roundings_spoil():
    value = 2**60 + 2**36 + 1  # just above the tie between two f32; an f64 drops the 1
    assert int(value_of("f32", converter_of("f32")(value))) == 2**60 + 2**37


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("f32", 1e300, np.inf),
        ("f32", -(10**400), -np.inf),
        ("f64", 10**400, np.inf),
        ("f16", 65520, np.inf),
        ("f8e4m3", 1e9, 448.0),
        ("f8e4m3", -np.inf, -448.0),
        ("f8e5m2", 1e9, 57344.0),
    ],
)
def test_numbers_too_large(dtype, value, expected):
    bits = converter_of(dtype)(value)
    assert (bits if dtype == "f64" else float(value_of(dtype, bits))) == expected


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f8e4m3", "f8e5m2"])
def test_values_of_the_type_keep_their_bits(dtype):
    """Infinities of f8, and the payload of a NaN, too."""
    convert = converter_of(dtype)
    for code in range(1 << (8 * NUMPY[dtype].itemsize)):
        assert convert(value_of(dtype, code)) == code


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f8e4m3", "f8e5m2"])
def test_nan_stays_nan_and_zero_keeps_its_sign(dtype):
    assert np.isnan(float(value_of(dtype, converter_of(dtype)(float("nan")))))
    sign = 1 << (8 * NUMPY[dtype].itemsize - 1)
    assert converter_of(dtype)(-0.0) == sign


@pytest.mark.parametrize("dtype", ["bool", "i32", "u64", "f16", "bf16", "f32", "f64", "f8e4m3"])
@pytest.mark.parametrize("value", ["1", None, [1.0], 1j], ids=str)
def test_what_is_no_number_is_refused(dtype, value):
    with pytest.raises((AttributeError, TypeError, struct.error)):
        converter_of(dtype)(value)


def test_booleans_are_numbers_of_any_kind():
    values = [True, np.bool_(True), np.array(True), 2, np.int8(-1)]
    assert [converter_of("bool")(value) for value in values] == [True] * 5
    assert converter_of("bool")(np.bool_(False)) is False


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=3),
    st.lists(st.integers(-12, 12), min_size=3, max_size=3),
)
def test_bounds_and_overlap_against_every_element(shape, strides):
    strides = strides[: len(shape)]
    starts = [
        sum(i * s for i, s in zip(index, strides, strict=True)) for index in np.ndindex(*shape)
    ]
    low, high = bounds(1000, shape, strides, 2)
    if not starts:
        assert low == high
        assert not overlaps_itself(shape, strides, 2)
        return
    assert (low, high) == (1000 + min(starts), 1000 + max(starts) + 2)
    touched = [byte for start in starts for byte in (start, start + 1)]
    if len(set(touched)) < len(touched):
        assert overlaps_itself(shape, strides, 2)


def test_contiguous_layouts_do_not_overlap():
    for shape in [(3,), (2, 5), (4, 1, 3), (), (0, 2)]:
        strides = contiguous_strides(shape, 4)
        assert strides == np.zeros(shape, np.float32).strides or 0 in shape
        assert not overlaps_itself(shape, strides, 4)
