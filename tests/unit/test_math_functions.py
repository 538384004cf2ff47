"""Every function of the mathematics: errors against NumPy and mpmath, and the same bits."""

import math

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir.frontend import parse_signature, trace
from hetir.ir.core import Options, walk
from hetir.passes.inline import inline
from tests.unit.math_cases import (
    BINARY,
    CASES,
    compute,
    disagree,
    kernel_of,
    mp,
    mp_value,
    samples,
    ulp_error,
    ulp_errors,
)

F4, F8 = np.dtype("f4"), np.dtype("f8")
UFUNCS = [name for name, case in CASES.items() if isinstance(case.double, np.ufunc)]
# what f32 code may use: no fma, and nothing that a target computes by a library of its own
PORTABLE = {
    *("const", "add", "sub", "mul", "div", "neg", "abs", "sqrt", "rint", "trunc", "select"),
    *("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "shl", "shr"),
    *("cast", "bitcast", "if", "yield", "return", "load", "store", "global_id", "dim"),
}


def _wrong_by(name, x, y):
    """The largest error by mpmath; NaN and infinity must agree."""
    case, worst, finite = CASES[name], 0.0, np.isfinite(x)
    for value, result in zip(x[finite], y[finite], strict=True):
        want = mp_value(case, float(value))
        if mp.isnan(want):
            assert np.isnan(result), (name, value, result)
        elif not mp.isinf(want):
            assert not np.isnan(result), (name, value)
            if np.isfinite(result):
                worst = max(worst, ulp_error(result, want))
            else:
                assert abs(want) > np.finfo(x.dtype).max, (name, value)
    return worst


@pytest.mark.parametrize("name", UFUNCS)
def test_f32_is_within_one_ulp_of_the_double_function(name):
    with np.errstate(all="ignore"):
        every = np.arange(7, 1 << 32, 40009, dtype=np.uint64).astype(np.uint32).view(np.float32)
        x = np.concatenate([every, samples(CASES[name], F4, 20000)])
        got, want = compute(name, x), CASES[name].double(x.astype(np.float64))
        errors = ulp_errors(got, want)
    assert errors.max() <= CASES[name].limits["f32"], (x[errors.argmax()], errors.max())
    assert errors.max() > 0.49  # the comparison sees rounding
    wrong = disagree(got, want)
    assert not wrong.any(), (x[wrong][:3], got[wrong][:3], want[wrong][:3])


@pytest.mark.parametrize("name", [n for n in CASES if n not in UFUNCS])
def test_f32_is_within_one_ulp_by_mpmath(name):
    x = samples(CASES[name], F4, 150)
    assert 0.3 < _wrong_by(name, x, compute(name, x)) <= CASES[name].limits["f32"]


@pytest.mark.parametrize("name", CASES)
def test_f64_is_within_the_limit_by_mpmath(name):
    x = samples(CASES[name], F8, 100)
    assert 0.3 < _wrong_by(name, x, compute(name, x)) <= CASES[name].limits["f64"]


@pytest.mark.parametrize("name", [*CASES, *BINARY])
def test_the_evaluator_has_the_same_bits(name):
    case = {**CASES, **BINARY}[name]
    for dtype in (F4, F8):
        count = 1 + (name in BINARY)
        x = [samples(case, dtype, 700, seed) for seed in range(count)]
        ours, theirs = compute(name, *x), compute(name, *x, device="emulator")
        same = (ours == theirs) & (np.signbit(ours) == np.signbit(theirs))
        same |= np.isnan(ours) & np.isnan(theirs)
        assert same.all(), (dtype, [a[~same][:3] for a in x], ours[~same][:3], theirs[~same][:3])


@pytest.mark.parametrize("name", [*CASES, *BINARY])
def test_f32_code_has_no_fma_and_branches_only_in_reductions(name):
    kernel = kernel_of(name)
    arrays = "f32[:], f32[:]" + (", f32[:]" if name in BINARY else "")
    body = inline(trace(kernel.function, parse_signature(arrays), options=Options())).body
    names = [op.spec.name for op in walk(body)]
    assert set(names) <= PORTABLE, set(names) - PORTABLE
    # the kernel's own bound check, Payne and Hanek's reduction, and the zeros of lgamma
    own = {"sin": 1, "cos": 1, "tan": 1, "lgamma": 2}
    assert names.count("if") == 1 + own.get(name, 0)


@pytest.mark.parametrize("dtype", [np.dtype("f2"), hl.bf16.numpy])
@pytest.mark.parametrize("name", ["exp", "log", "sin", "tanh", "rsqrt"])
def test_narrow_floats_are_computed_in_f32_and_rounded_once(name, dtype):
    x = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(dtype)
    with np.errstate(all="ignore"):
        want = compute(name, x.astype(np.float32)).astype(dtype)
    got = compute(name, x)
    same = (got.view(np.uint16) == want.view(np.uint16)) | (np.isnan(got) & np.isnan(want))
    assert same.all()


def _negative_zeros(last):
    """The zeros of log|gamma| below 0 down to those beside -`last`, by bisection."""
    exact = CASES["lgamma"].exact
    sides = [(-n, side) for n in range(2, last + 1) for side in (-1, 1)]
    for pole, side in sides[:1] + sides[2:]:
        # it falls from the pole outwards
        near, far = mp.mpf(pole), pole + side * mp.mpf("0.4" if pole < -3 or side > 0 else "0.6")
        for _ in range(120):
            middle = (near + far) / 2
            near, far = (middle, far) if exact(middle) > 0 else (near, middle)
        yield middle


@pytest.mark.parametrize(("dtype", "last"), [(F4, 9), (F8, 16)])
def test_lgamma_is_accurate_beside_its_negative_zeros(dtype, last):
    """The neighbours of each zero, and arguments farther and farther away."""
    bits = np.dtype(f"i{dtype.itemsize}")
    away = np.concatenate([np.arange(4), 3 ** np.arange(2, 15)])
    zeros = np.array([float(zero) for zero in _negative_zeros(last)], dtype).view(bits)
    x = (zeros[:, None] + np.concatenate([-away, away])).astype(bits).view(dtype).ravel()
    x = x[x < -2]
    limit = CASES["lgamma"].limits[f"f{8 * dtype.itemsize}"]
    assert _wrong_by("lgamma", x, compute("lgamma", x)) <= limit


def test_integers_and_python_numbers_become_floats():
    @hetir.kernel
    def kernel(n, x, y, z):
        y[0] = hl.exp(n[0])
        y[1] = hl.exp(1)
        y[2] = x[0] + hl.log(2.0)
        z[0] = z[1] + hl.log(2.0)

    n, x, y = np.array([3], np.int32), np.zeros(1, np.float32), np.zeros(3, np.float32)
    z = np.zeros(2)
    kernel[1, 1](n, x, y, z)
    np.testing.assert_array_equal(y, np.float32([math.exp(3), math.exp(1), math.log(2)]))
    assert z[0] == math.log(2)


def want_is_infinite(want, result):
    return np.isinf(result) and abs(want) > np.finfo(result.dtype).max and want * result > 0


def test_sincos_is_both():
    @hetir.kernel
    def kernel(x, y):
        i = hl.global_id(0)
        y[i, 0], y[i, 1] = hl.sincos(x[i])

    x = samples(CASES["sin"], F4, 256)
    y = np.empty((x.size, 2), np.float32)
    kernel[x.size // 256, 256](x, y)
    np.testing.assert_array_equal(y[:, 0], compute("sin", x))
    np.testing.assert_array_equal(y[:, 1], compute("cos", x))


@pytest.mark.parametrize("dtype", [F4, F8])
def test_powi_is_within_one_ulp_for_every_integer(dtype):
    @hetir.kernel
    def kernel(x, n, y):
        i = hl.global_id(0)
        y[i] = hl.powi(x[i], n[i])

    rng = np.random.default_rng(3)
    n = np.concatenate(
        [rng.integers(-40, 40, 512), rng.integers(-(2**31), 2**31, 512), [2**31 - 1, -(2**31)]]
    ).astype(np.int32)
    near = np.exp(rng.uniform(-80, 80, n.size) / np.maximum(np.abs(n.astype(float)), 1))
    x = (near * rng.choice([-1, 1], n.size)).astype(dtype)
    y = np.empty_like(x)
    kernel[n.size, 1](x, n, y)
    for base, power, result in zip(x, n, y, strict=True):
        want = mp.power(mp.mpf(float(base)), int(power))
        assert result == want or ulp_error(result, want) <= 1 or want_is_infinite(want, result)
    zero = np.zeros(1, dtype)
    kernel[1, 1](np.array([math.nan], dtype), np.zeros(1, np.int32), zero)
    assert zero[0] == 1
