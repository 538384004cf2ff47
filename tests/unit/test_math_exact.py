"""Exact sums against Python's fsum, in every order."""

import math

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir.frontend import parse_signature, trace
from hetir.ir.core import Options
from hetir.passes.inline import inline
from hetir.passes.reproducible import reproducible


@hetir.kernel
def gather(x, sums, groups):
    i = hl.global_id(0)
    value = hl.f32(0)
    if i < x.shape[0]:
        value = x[i]
        hl.exact_add(sums, value)
    total = hl.sum_exact(value)
    if hl.local_id(0) == 0:
        groups[hl.group_id(0)] = total


@hetir.kernel
def finish(sums, y):
    y[0] = hl.exact_value(sums)


def exact_sum(x, device="cpu"):
    sums, y = np.zeros(hl.EXACT_WORDS, np.int64), np.zeros(1, np.float32)
    groups = np.zeros(hetir.cdiv(x.size, 64), np.float32)
    gather.launch((x, sums, groups), grid=groups.size, workgroup=64, device=device).wait()
    finish[1, 1](sums, y)
    return y[0], groups


def wanted(x):
    """The exact sum in integers of 2**-149, rounded once to nearest even."""
    total = sum(int(math.ldexp(float(v), 149)) for v in x)
    size = abs(total)
    drop = max(size.bit_length() - 24, 0)
    kept, rest = size >> drop, size & ((1 << drop) - 1)
    half = (1 << drop) >> 1
    kept += drop > 0 and (rest > half or (rest == half and kept & 1))
    with np.errstate(over="ignore"):
        rounded = np.float32(math.ldexp(kept, drop - 149))
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


@pytest.mark.parametrize(("name", "x"), [pytest.param(n, x, id=n) for n, x in cases()])
def test_the_sum_is_rounded_once_in_any_order(name, x):
    x = np.array(x, np.float32)
    rng = np.random.default_rng(1)
    for order in (x, x[::-1].copy(), rng.permutation(x)):
        total, groups = exact_sum(order)
        assert total == wanted(order)
        parts = [wanted(order[at : at + 64]) for at in range(0, x.size, 64)]
        np.testing.assert_array_equal(groups, parts)


def test_the_evaluator_has_the_same_sum():
    x = (np.random.default_rng(4).normal(size=200) * 1e20).astype(np.float32)
    ours, theirs = exact_sum(x), exact_sum(x, "emulator")
    assert ours[0] == theirs[0]
    np.testing.assert_array_equal(ours[1], theirs[1])


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
    x = np.array([1.0, *specials, -3e38], np.float32)
    total, groups = exact_sum(x)
    np.testing.assert_array_equal([total, groups[0]], [want, want])


def test_a_sum_by_atomics_is_called_reproducible():
    kernel = inline(
        trace(gather.function, parse_signature("f32[:], i64[:], f32[:]"), options=Options())
    )
    assert reproducible(kernel).holds
