"""`exp`, `log` and their like by instructions of AVX-512: the same bits as without, everywhere."""

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir.backends.cpu import compile_kernel, disassemble, functions
from hetir.backends.cpu.shortcuts import shortcuts
from hetir.lang.math.arithmetic import clip, fast_two_sum, nearest, scale
from hetir.lang.math.exponential import reduce, rest
from hetir.lang.math.logarithm import add_exponent, log_terms, mantissa, normal
from hetir.passes.expand_arrays import expand_arrays
from hetir.passes.regions import definitions
from tests.unit.test_cpu_clamps import prepared, runner

GROUP = 64
ITEMS = np.zeros(GROUP, np.float32)


@hetir.kernel
def exp(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    y[i] = hl.exp(x[i])


@hetir.kernel
def exp2(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    y[i] = hl.exp2(x[i])


@hetir.kernel
def exp10(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    y[i] = hl.exp10(x[i])


@hetir.kernel
def log(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    y[i] = hl.log(x[i])


@hetir.kernel
def log2(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    y[i] = hl.log2(x[i])


@hetir.kernel
def log10(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    y[i] = hl.log10(x[i])


@hetir.kernel
def with_parts(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    """Reads the parts that `log` is made of, which are bits of whatever x is."""
    i = hl.global_id(0)
    z, moved = normal(x[i])
    k, m = mantissa(z)
    y[i] = hl.where(hl.log(x[i]) > 3.0, m, m + hl.f32(k + moved))


@hetir.kernel
def unfinished(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    """Reads what `log` is before it decides what special arguments give."""
    i = hl.global_id(0)
    z, moved = normal(x[i])
    k, m = mantissa(z)
    high, low = add_exponent(hl.f32(k + moved), *log_terms(m - 1.0))
    y[i] = hl.where(hl.log(x[i]) > 3.0, 2.0 * (high + low), high + low)


@hetir.kernel
def product(x: hl.Array[hl.f32, 1], t: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    """As `exp` ends, but what is scaled can be so small that the first factor rounds."""
    i = hl.global_id(0)
    k, n = nearest(clip(x[i], -104.0, 89.0) * 1.442695)
    y[i] = scale(t[i] + 0.0 * k, n)


@hetir.kernel
def parted(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    """`exp` as the library has it, with a barrier before the scaling."""
    i = hl.global_id(0)
    n, high, low = reduce(clip(x[i], -104.0, 89.0))
    s, e = fast_two_sum(1.0, high)
    value = s + (e + rest(high, low))
    hl.barrier()
    y[i] = scale(value, n)


@hetir.kernel
def behind(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    """Some lanes take the function; its argument is a difference."""
    i = hl.global_id(0)
    v = x[i]
    if v < 80.0:
        v = hl.exp(v - 3.0) + hl.exp2(v) * hl.log(v)
    y[i] = v


@hetir.kernel
def exp_of_any(x, y):
    i = hl.global_id(0)
    y[i] = hl.exp(x[i])


FUNCTIONS = (exp, exp2, exp10, log, log2, log10)


def found(kernel, *arguments):
    """The kinds of the shortcuts of a kernel."""
    lowered = expand_arrays(prepared(kernel, arguments))
    made = shortcuts(lowered.body, definitions(lowered.body))
    return sorted(shortcut.kind for shortcut in made.values())


def test_the_librarys_functions_are_recognised():
    assert found(exp, ITEMS, ITEMS) == ["fuse", "scale"]
    assert found(exp2, ITEMS, ITEMS) == ["scale"]
    assert found(exp10, ITEMS, ITEMS) == ["fuse", "scale"]
    assert found(behind, ITEMS, ITEMS) == [
        "exponent",
        "fuse",
        "scale",
        "scale",
        "significand",
        "special",
    ]
    assert found(parted, ITEMS, ITEMS) == ["fuse", "scale"]
    parts = ["exponent", "significand", "special"]
    assert [found(kernel, ITEMS, ITEMS) for kernel in (log, log2, log10)] == [parts] * 3
    assert found(with_parts, ITEMS, ITEMS) == ["special"]
    assert found(unfinished, ITEMS, ITEMS) == ["special"]
    names = ["exp", "exp10", "exp2", "log", "log10", "log2"]
    assert sorted(functions.KNOWN.values()) == names


def test_nothing_else_is():
    assert found(product, ITEMS, ITEMS, ITEMS) == []
    double = ITEMS.astype(np.float64)
    assert found(exp_of_any, double, double) == []
    assert found(exp_of_any, ITEMS, ITEMS) == ["fuse", "scale"]


@pytest.mark.parametrize("kernel", FUNCTIONS, ids=lambda k: k.__name__)
def test_the_instructions(kernel):
    ready = prepared(kernel, (ITEMS, ITEMS))
    made = {
        target: disassemble(compile_kernel(ready, target=target, workgroup=(GROUP, 1, 1)))
        for target in ("cpu:x86-64-v4", "cpu:x86-64-v3", "cpu:aarch64")
    }
    powers = kernel.__name__.startswith("exp")
    for mnemonic in ("vscalefps",) if powers else ("vgetexpps", "vgetmantps", "vfixupimmps"):
        assert mnemonic in made["cpu:x86-64-v4"]
        assert mnemonic not in made["cpu:x86-64-v3"] + made["cpu:aarch64"]
    assert "vpsrad" not in made["cpu:x86-64-v4"]


def both(kernel, arguments, lanes=None):
    """The results in vectors, and of one work-item at a time, which knows no shortcut."""
    results = []
    for width in (lanes, 0):
        out = np.zeros_like(arguments[0])
        run = runner(kernel, (*arguments, out), GROUP, width)
        run((*arguments, out), out.size // GROUP)
        results.append(out)
    return results


def assert_same(arguments, got, want):
    """Equal bits; NaNs are alike."""
    differ = got.view(np.uint32) != want.view(np.uint32)
    bad = np.flatnonzero(differ & ~(np.isnan(got) & np.isnan(want)))
    assert not bad.size, [(*(a[i] for a in arguments), got[i], want[i]) for i in bad[:5]]


def some():
    """A million: all exponents and both signs, and many where results are subnormal or infinite."""
    bits = np.arange(0, 1 << 32, 8191, np.uint64).astype(np.uint32)[: 1 << 19].view(np.float32)
    low = np.linspace(-151, -80, 1 << 18, dtype=np.float32)
    edges = [np.linspace(a, b, 1 << 16, dtype=np.float32) for a, b in EDGES]
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 89, -104] * 8, np.float32)
    return np.concatenate([bits, low, *edges, special])


EDGES = ((-46, -37), (38, 39), (88, 90), (126, 129))


@pytest.mark.parametrize("lanes", [16, None])
@pytest.mark.parametrize(
    "kernel", [*FUNCTIONS, behind, parted, with_parts, unfinished], ids=lambda k: k.__name__
)
def test_vectors_have_the_bits_of_scalars(kernel, lanes):
    x = some()
    assert_same((x,), *both(kernel, (x,), lanes))


def test_what_only_looks_like_it_rounds_twice_as_it_says():
    x = np.linspace(-30, 0, 1 << 14, dtype=np.float32)
    t = (np.random.default_rng(0).random(x.size, np.float32) + 1) * np.float32(2**-120)
    got, want = both(product, (x, t))
    assert_same((x, t), got, want)
    n = np.rint(x * np.float32(1.442695)).astype(np.int32)
    once = np.ldexp(t.astype(np.float64), n).astype(np.float32)
    assert (once != want).any()  # so one rounding would show


@pytest.mark.slow
@pytest.mark.parametrize("kernel", FUNCTIONS, ids=lambda k: k.__name__)
def test_every_argument(kernel):
    size = 1 << 24
    out = [np.zeros(size, np.float32) for _ in range(2)]
    runs = [runner(kernel, (out[0], out[0]), GROUP, lanes) for lanes in (None, 0)]
    for first in range(0, 1 << 32, size):
        x = np.arange(first, first + size, dtype=np.uint64).astype(np.uint32).view(np.float32)
        for run, y in zip(runs, out, strict=True):
            run((x, y), size // GROUP)
        assert_same((x,), *out)
