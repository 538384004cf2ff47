"""Division, square root and fma without the target's own: reduced formats whole, the rest by
the processor."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from hetir import emulator
from hetir.backends.cpu.targets import resolve
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Value, walk
from hetir.ir.types import F32, F64, I32, U32, array
from hetir.passes.expand_arrays import expand_arrays
from hetir.passes.expansions import Writer, divide
from hetir.passes.legalize import legalize
from hetir.target import Target
from tests.unit.cpu_support import elementwise, kernel_of
from tests.unit.cpu_support import run as on_the_cpu

OPS = (ops.DIV, ops.SQRT, ops.FMA)
CPU = resolve("cpu")[0].rules
DROPPED = {(op.name, kind) for op in OPS for kind in ("f32", "f64")}
RULES = {k: v for k, v in CPU.items() if k not in DROPPED}
BARE = Target(name="bare", fingerprint="", rules=RULES)
SMALL = [(2, 3), (3, 3), (4, 4), (5, 3)]  # fraction and exponent bits


def format_of(fraction, exponent):
    mask = (1 << exponent) - 1
    return divide.Format(uint=U32, int=I32, fraction=fraction, exponents=mask)


def decoded(form, bits):
    """A number of a reduced format: a fraction, or `nan`, `inf` with a sign."""
    sign = -1 if bits & form.sign else 1
    raw, low = (bits & (form.sign - 1)) >> form.fraction, bits & ((1 << form.fraction) - 1)
    if raw == form.exponents:
        return ("nan", 0) if low else ("inf", sign)
    whole = low + (raw > 0) * (1 << form.fraction)
    scale = max(raw, 1) - (form.exponents >> 1) - form.fraction
    return Fraction(whole) * Fraction(2) ** scale * sign, sign


def nearest(form, value, exact_half):
    """The bits of the nearest number to a positive `value`; `exact_half` compares with a number."""
    # numbers in order of their bits: bisect for the last one not above the value
    low, high = 0, form.infinity
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if exact_half(number(form, middle)) >= 0 else (low, middle)
    between = (number(form, low) + number(form, low + 1)) / 2
    side = exact_half(between)
    return low + (side > 0 or (side == 0 and low & 1))


def number(form, bits):
    """A magnitude, with infinity as the power of two after the largest."""
    if bits == form.infinity:
        return Fraction(2) ** (form.exponents - (form.exponents >> 1))
    return decoded(form, bits)[0]


def run_small(form, build, *inputs):
    def body(b: Builder, *arrays: Value) -> None:
        at = b.value(ops.GLOBAL_ID, axis=0)
        given = [b.value(ops.LOAD, a, at) for a in arrays[:-1]]
        b.emit(ops.STORE, arrays[-1], at, build(Writer(b), form, *given))

    out = np.zeros(inputs[0].size, np.uint32)
    kernel = kernel_of(body, [array(U32, 1)] * (len(inputs) + 1))
    emulator.run(kernel, [*inputs, out], (out.size, 1, 1), (1, 1, 1))
    return out


@pytest.mark.parametrize(("fraction", "exponent"), SMALL)
def test_every_quotient_of_a_reduced_format(fraction, exponent):
    form = format_of(fraction, exponent)
    every = np.arange(2 * form.sign, dtype=np.uint32)
    step = 1 if form.sign < 128 else 13
    a, b = (v.ravel() for v in np.meshgrid(every[::step], every))
    for x, y, got in zip(
        a.tolist(), b.tolist(), run_small(form, divide.quotient, a, b), strict=True
    ):
        (u, s), (v, t) = decoded(form, x), decoded(form, y)
        sign = form.sign if s * t < 0 else 0
        if "nan" in (u, v) or (u == v == "inf") or (u == v == 0):
            assert got == form.nan, (x, y)
        elif u == "inf" or v == 0:
            assert got == form.infinity | sign, (x, y)
        elif v == "inf" or u == 0:
            assert got == sign, (x, y)
        else:
            value = abs(u / v)
            want = nearest(form, value, lambda n, value=value: (value > n) - (value < n))
            assert got == want | sign, (x, y)


@pytest.mark.parametrize(("fraction", "exponent"), [*SMALL, (7, 5)])
def test_every_root_of_a_reduced_format(fraction, exponent):
    form = format_of(fraction, exponent)
    every = np.arange(2 * form.sign, dtype=np.uint32)
    for x, got in zip(every.tolist(), run_small(form, divide.root, every), strict=True):
        value, sign = decoded(form, x)
        if value == "nan" or (sign < 0 and value != 0):
            assert got == form.nan, x
        elif value in ("inf", 0):
            assert got == x, x
        else:
            want = nearest(form, value, lambda n, v=value: (v > n * n) - (v < n * n))
            assert got == want, x


def test_the_reference_agrees_with_integers():
    """The bisection above, on a case worked by hand: 1 / 3 with three bits is 0.0101|01."""
    form = format_of(3, 3)
    third = nearest(form, Fraction(1, 3), lambda n: (Fraction(1, 3) > n) - (Fraction(1, 3) < n))
    assert decoded(form, third)[0] == Fraction(11, 32)


def inputs(kind, count, seed):
    """Any bits, numbers near each other, and quotients that are subnormal or overflow."""
    random = np.random.default_rng(seed)
    part = count // 4
    raw = random.integers(0, 1 << kind.bits, (2, part), dtype=f"u{kind.bytes}").view(kind.numpy)
    near = (1 + random.random((2, part))).astype(kind.numpy)
    few = np.ldexp(
        random.integers(1, 1 << 12, (2, part)).astype(kind.numpy), random.integers(-9, 9)
    )
    last = -149 if kind == F32 else -1074
    small = np.ldexp(near[0], random.integers(last, last + 60, part)).astype(kind.numpy)
    large = np.ldexp(near[1], random.integers(-60, 60, part)).astype(kind.numpy)
    return (
        np.concatenate([raw[0], near[0], few[0], small]),
        np.concatenate([raw[1], near[1], few[1], large]),
    )


def addends(a, b, seed):
    """Third operands: some as large as the product, where the sum cancels, and any others."""
    random = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        beside = -(a * b) * (1 + random.integers(-2, 3, a.size) * np.finfo(a.dtype).eps)
        far = np.ldexp(beside, random.integers(-120, 121, a.size))
    return np.where(random.random(a.size) < 0.4, beside, far).astype(a.dtype)


def on_the_evaluator(kernel, arrays, grid, group, _folder=None):
    emulator.run(kernel, arrays, grid, group)


def computed(kernel, given, folder, run):
    out = np.zeros_like(given[0])
    run(kernel, [*given, out], (out.size // 1000, 1, 1), (1000, 1, 1), folder)
    return out


def agree(kind, count, seed, folder, run=on_the_cpu):
    """The expansions give what the processor gives (for fma, the evaluator's where it runs)."""
    with np.errstate(all="ignore"):
        a, b = inputs(kind, count, seed)
        c = addends(a, b, seed)
        wants = ((ops.DIV, [a, b], a / b), (ops.SQRT, [a], np.sqrt(a)), (ops.FMA, [a, b, c], None))
    for spec, given, numpys in wants:
        kernel = elementwise(spec, [kind] * len(given), kind)
        bare = legalize(expand_arrays(kernel), BARE)
        assert spec.name not in {op.name for op in walk(bare.body)}
        got = computed(bare, given, folder, run)
        own = legalize(expand_arrays(kernel), Target(name="own", fingerprint="", rules=CPU))
        want = computed(own, given, folder, run) if numpys is None else numpys
        bits = f"u{kind.bytes}"
        same = (got.view(bits) == want.view(bits)) | (np.isnan(got) & np.isnan(want))
        assert same.all(), (spec.name, [v[~same][:3] for v in (*given, want, got)])


@pytest.mark.parametrize("kind", [F32, F64], ids=str)
def test_random_operands_have_the_processors_bits(kind, tmp_path: Path):
    agree(kind, 400_000, 1, tmp_path)


@pytest.mark.parametrize("kind", [F32, F64], ids=str)
def test_the_evaluator_has_them_too(kind, tmp_path: Path):
    agree(kind, 4000, 2, tmp_path, on_the_evaluator)


@pytest.mark.slow
@pytest.mark.parametrize("run", [on_the_cpu, on_the_evaluator])
@pytest.mark.parametrize("kind", [F32, F64], ids=str)
def test_a_hundred_million_operands_have_the_processors_bits(kind, run, tmp_path: Path):
    count = 4_000_000 if run is on_the_cpu else 400_000
    for seed in range(10**8 // count):
        agree(kind, count, seed, tmp_path, run)
