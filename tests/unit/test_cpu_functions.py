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


def applied(name):
    """A kernel that applies a function of the language to elements of any type."""
    function = getattr(hl, name)

    @hetir.kernel
    def kernel(x, y):
        i = hl.global_id(0)
        y[i] = function(x[i])

    return kernel


FUNCTIONS = {name: applied(name) for name in ("exp", "exp2", "exp10", "log", "log2", "log10")}


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


PIECES = {k.__name__: k for k in (behind, parted, with_parts, unfinished)}


def found(kernel, *arguments):
    """The kinds of the shortcuts of a kernel."""
    lowered = expand_arrays(prepared(kernel, arguments))
    made = shortcuts(lowered.body, definitions(lowered.body))
    return sorted(shortcut.kind for shortcut in made.values())


def test_the_librarys_functions_are_recognised():
    parts = ["exponent", "significand", "special"]
    assert {name: found(kernel, ITEMS, ITEMS) for name, kernel in FUNCTIONS.items()} == {
        "exp": ["fuse", "scale"],
        "exp2": ["scale"],
        "exp10": ["fuse", "scale"],
        "log": parts,
        "log2": parts,
        "log10": parts,
    }
    assert found(behind, ITEMS, ITEMS) == [
        "exponent",
        "fuse",
        "scale",
        "scale",
        "significand",
        "special",
    ]
    assert found(parted, ITEMS, ITEMS) == ["fuse", "scale"]
    assert found(with_parts, ITEMS, ITEMS) == ["special"]
    assert found(unfinished, ITEMS, ITEMS) == ["special"]
    assert sorted(functions.KNOWN.values()) == sorted(FUNCTIONS)


def test_nothing_else_is():
    assert found(product, ITEMS, ITEMS, ITEMS) == []
    double = ITEMS.astype(np.float64)
    assert [found(kernel, double, double) for kernel in FUNCTIONS.values()] == [[]] * 6


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_instructions(name):
    ready = prepared(FUNCTIONS[name], (ITEMS, ITEMS))
    made = {
        target: disassemble(compile_kernel(ready, target=target, workgroup=(GROUP, 1, 1)))
        for target in ("cpu:x86-64-v4", "cpu:x86-64-v3", "cpu:aarch64")
    }
    parts = ("vgetexpps", "vgetmantps", "vfixupimmps")
    for mnemonic in ("vscalefps",) if name.startswith("exp") else parts:
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
@pytest.mark.parametrize("name", [*FUNCTIONS, *PIECES])
def test_vectors_have_the_bits_of_scalars(name, lanes):
    kernel = {**FUNCTIONS, **PIECES}[name]
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
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument(name):
    size = 1 << 24
    out = [np.zeros(size, np.float32) for _ in range(2)]
    runs = [runner(FUNCTIONS[name], (out[0], out[0]), GROUP, lanes) for lanes in (None, 0)]
    for first in range(0, 1 << 32, size):
        x = np.arange(first, first + size, dtype=np.uint64).astype(np.uint32).view(np.float32)
        for run, y in zip(runs, out, strict=True):
            run((x, y), size // GROUP)
        assert_same((x,), *out)
