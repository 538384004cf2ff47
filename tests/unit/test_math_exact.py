"""Exact sums against sums in integers, in every order."""

import math
from fractions import Fraction

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir.frontend import parse_signature, trace
from hetir.frontend.errors import OperandError
from hetir.ir.core import Options
from hetir.passes.inline import inline
from hetir.passes.reproducible import reproducible

BF16 = hl.bf16.numpy
# bits of the mantissa and the exponent of the least subnormal
FORMATS = {"float64": (53, -1074), "float32": (24, -149), "float16": (11, -24)}
FORMATS["bfloat16"] = (8, -133)
DEVICES = tuple(device.name for device in hetir.devices())


@hetir.kernel
def gather(x, sums, groups):
    i = hl.global_id(0)
    value = x.dtype(0)
    if i < x.shape[0]:
        value = x[i]
        hl.exact_add(sums, value)
    total = hl.sum_exact(value)
    if hl.local_id(0) == 0:
        groups[hl.group_id(0)] = total


@hetir.kernel
def finish(sums, y):
    y[0] = hl.exact_value(sums, y.dtype)


def exact_sum(x, device="cpu"):
    words = hl.EXACT_WORDS_F64 if x.dtype == np.float64 else hl.EXACT_WORDS
    sums, y = np.zeros(words, np.int64), np.zeros(1, x.dtype)
    groups = np.zeros(hetir.cdiv(x.size, 64), x.dtype)
    gather.launch((x, sums, groups), grid=groups.size, workgroup=64, device=device).wait()
    finish[1, 1](sums, y)
    return y[0], groups


def wanted(x):
    """The exact sum in integers of the least subnormal, rounded once to nearest even."""
    bits, least = FORMATS[x.dtype.name]
    total = sum(int(Fraction(float(v)) * Fraction(2) ** -least) for v in x)
    size = abs(total)
    drop = max(size.bit_length() - bits, 0)
    kept, rest = size >> drop, size & ((1 << drop) - 1)
    half = (1 << drop) >> 1
    kept += drop > 0 and (rest > half or (rest == half and kept & 1))
    with np.errstate(over="ignore"):
        try:
            rounded = np.array(math.ldexp(kept, drop + least)).astype(x.dtype)[()]
        except OverflowError:
            rounded = x.dtype.type(math.inf)
    return -rounded if total < 0 else rounded


def cases():
    rng = np.random.default_rng(9)
    spread = rng.normal(size=700) * 10.0 ** rng.uniform(-44, 37, 700)
    bits = rng.integers(0, 1 << 32, 900, dtype=np.uint32).view(np.float32)
    yield "spread", spread
    yield "any bits", bits[np.isfinite(bits)]
    yield "cancels", [*spread[:300], 1.5, *-spread[:300]]
    yield "subnormal", [1e-45] * 5 + [-3e-45]
    yield "negative subnormal", [-1e-45] * 7
    yield "past the largest and back", [3.4e38] * 5 + [-3.4e38] * 4
    yield "overflow", [3.4e38] * 5 + [-3.4e38] * 2
    yield "zeros", [0.0, -0.0, 0.0]
    yield "tie to even, down", [2.0**24, 1.0]
    yield "tie broken by a far bit", [2.0**24, 1.0, 1e-45]
    yield "tie to even, up", [2.0**24 + 2, 1.0]
    yield "negative tie", [-(2.0**24), -1.0, -1e-45]


def wide_cases():
    rng = np.random.default_rng(11)
    spread = rng.normal(size=500) * 10.0 ** rng.uniform(-320, 300, 500)
    bits = rng.integers(0, 1 << 64, 900, dtype=np.uint64).view(np.float64)
    yield "spread", spread
    yield "any bits", bits[np.isfinite(bits)]
    yield "cancels", [*spread[:300], 1.5, *-spread[:300]]
    yield "subnormal", [5e-324] * 5 + [-1.5e-323]
    yield "past the largest and back", [1.7e308] * 5 + [-1.7e308] * 4
    yield "overflow", [1.7e308] * 5 + [-1.7e308] * 2
    yield "tie to even", [2.0**53, 1.0]
    yield "tie broken by the farthest bit", [2.0**53, 1.0, 5e-324]
    yield "negative tie", [-(2.0**53), -1.0, -5e-324]
    yield "the largest 64 times", [np.finfo(np.float64).max] * 64


def narrow_cases():
    rng = np.random.default_rng(12)
    for dtype in (np.dtype(np.float16), BF16):
        spread = rng.normal(size=300) * 10.0 ** rng.uniform(-7, 3, 300)
        one = {"float16": 2048.0, "bfloat16": 256.0}[dtype.name]
        least = math.ldexp(1, FORMATS[dtype.name][1])
        yield dtype, "spread", spread
        yield dtype, "tie to even", [one, 1.0]
        # by way of f32 the far bit would be lost, and the tie with it
        yield dtype, "tie broken by a far bit", [one, 1.0, least]
        yield dtype, "subnormal", [least] * 3


def every_case():
    for name, x in cases():
        yield pytest.param(np.array(x, np.float32), id=f"f32 {name}")
    for name, x in wide_cases():
        yield pytest.param(np.array(x, np.float64), id=f"f64 {name}")
    for dtype, name, x in narrow_cases():
        yield pytest.param(np.array(x).astype(dtype), id=f"{dtype.name} {name}")


@pytest.mark.parametrize("x", list(every_case()))
def test_the_sum_is_rounded_once_in_any_order(x):
    rng = np.random.default_rng(1)
    for order in (x, x[::-1].copy(), rng.permutation(x)):
        total, groups = exact_sum(order)
        assert total == wanted(order)
        parts = [wanted(order[at : at + 64]) for at in range(0, x.size, 64)]
        np.testing.assert_array_equal(groups, parts)


@pytest.mark.filterwarnings("ignore:.*ends loops after:RuntimeWarning")
@pytest.mark.parametrize("device", [*DEVICES[1:], "emulator"])
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.float64), BF16])
def test_other_devices_have_the_same_sum(dtype, device):
    x = (np.random.default_rng(4).normal(size=200) * 1e20).astype(dtype)
    ours, theirs = exact_sum(x), exact_sum(x, device)
    assert ours[0] == theirs[0]
    np.testing.assert_array_equal(ours[1], theirs[1])


def test_integers_wrap_and_other_types_are_refused():
    @hetir.kernel
    def sums(x, y):
        y[hl.global_id(0)] = hl.sum_exact(x[hl.global_id(0)])

    for dtype in (np.int8, np.uint32, np.int64):
        x = np.random.default_rng(2).integers(0, 120, 48).astype(dtype)
        y = np.zeros_like(x)
        sums[1, 48](x, y)
        np.testing.assert_array_equal(y, np.full(48, x.sum(dtype=dtype)))
    with pytest.raises(OperandError, match="adds floats, got `bool`"):
        sums[1, 4](np.zeros(4, bool), np.zeros(4, bool))

    @hetir.kernel
    def whole(x, y):
        hl.exact_add(y, x[0])

    with pytest.raises(OperandError, match=r"use `hl\.atomic_add`"):
        whole[1, 1](np.zeros(4, np.int32), np.zeros(hl.EXACT_WORDS, np.int64))


@pytest.mark.parametrize(
    ("specials", "want"),
    [
        ([math.inf], math.inf),
        ([-math.inf, -math.inf], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan], math.nan),
        ([math.nan, math.inf], math.nan),
    ],
)
def test_infinities_and_nan(specials, want):
    for dtype in (np.float32, np.float64, BF16):
        total, groups = exact_sum(np.array([1.0, *specials, -3e38]).astype(dtype))
        np.testing.assert_array_equal(np.array([total, groups[0]], float), [want, want])


def test_a_sum_by_atomics_is_called_reproducible():
    kernel = inline(
        trace(gather.function, parse_signature("f32[:], i64[:], f32[:]"), options=Options())
    )
    assert reproducible(kernel).holds
