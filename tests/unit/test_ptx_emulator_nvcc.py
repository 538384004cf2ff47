"""PTX that nvcc writes for the kernels in ptx_cuda, against NumPy and Python.

The committed PTX always runs; with nvcc here, what it writes now runs too.
"""

import functools
import math
import shutil
import subprocess
from pathlib import Path

import ml_dtypes
import mpmath
import numpy as np
import pytest
from ptx_emulator_support import signed

from hetir.emulator.ptx import Machine, parse

HERE = Path(__file__).parent / "ptx_cuda"
NVCC = shutil.which("nvcc")
RNG = np.random.default_rng(1)
BF16 = np.dtype(ml_dtypes.bfloat16)


@functools.cache
def text(name: str, target: str) -> str:
    if target != "nvcc":
        return (HERE / f"{name}_{target}.ptx").read_text()
    command = [
        NVCC,
        "-ptx",
        "-arch=sm_90",
        "-std=c++17",
        "-lineinfo",
        "-o",
        "-",
        HERE / f"{name}.cu",
    ]
    return subprocess.run(command, text=True, capture_output=True, check=True).stdout


@pytest.fixture(params=["sm_80", "sm_90", "nvcc"])
def machine(request):
    """Makes the machine of a source file."""
    if request.param == "nvcc" and NVCC is None:
        pytest.skip("nvcc is not installed; the committed PTX was tested")
    return lambda name: built(name, request.param)


@functools.cache
def built(name: str, target: str) -> Machine:
    return Machine(parse(text(name, target)))


def test_every_entry_is_known(machine):
    for name in ("basic", "shared", "values"):
        machine(name).check()


def test_saxpy(machine):
    x, y = (RNG.normal(size=1000).astype("f4") for _ in range(2))
    want = (2.5 * x.astype("f8") + y).astype("f4")  # nvcc contracts to one rounding
    machine("basic").launch("saxpy", 4, 256, [1000, 2.5, x, y])
    assert (y == want).all()


def collatz(value):
    for count in range(300):
        if value == 1:
            return count
        value = (3 * value + 1) % 2**32 if value & 1 else value >> 1
    return 300


def test_divergent_loops(machine):
    start, steps = RNG.integers(1, 10000, 1000).astype("u4"), np.zeros(1000, "u4")
    machine("basic").launch("collatz", 4, 256, [start, steps, 1000])
    assert steps.tolist() == [collatz(v) for v in start.tolist()]


def chosen(i, kind, v):
    match kind:
        case 0:
            return v * v
        case 1:
            return -(-v // 3) if v < 0 else v // 3
        case 2:
            return (v ^ (v >> 7)) + 11
        case 3:
            return v + 11
        case 4:
            return -v
        case 5:
            for k in range(i % 5):
                v = v * 5 - k
            return v
        case 6:
            return (v % 2**32).bit_count()
        case 7:
            return 32 - (v % 2**32).bit_length()
        case _:
            return 7777


def test_switch(machine):
    kind = RNG.integers(-2, 11, 512).astype("i4")
    x, out = RNG.integers(-(2**31), 2**31, 512).astype("i4"), np.zeros(512, "i4")
    machine("basic").launch("choose", 2, 256, [kind, x, out])
    rows = enumerate(zip(kind.tolist(), x.tolist(), strict=True))
    assert out.tolist() == [signed(chosen(i, k, v), 32) for i, (k, v) in rows]


def test_vector_accesses(machine):
    x, u = RNG.normal(size=(256, 4)).astype("f4"), RNG.normal(size=(256, 2))
    y, v = np.zeros_like(x), np.zeros_like(u)
    machine("basic").launch("copy4", 1, 256, [x, y, u, v])
    assert (y == x[:, ::-1]).all()
    assert (v == u[:, ::-1]).all()


def test_constants_and_globals(machine):
    out = np.zeros(65, "i4")
    machine("basic").launch("constants", 1, 64, [out])
    assert out.tolist() == [40 + [3, 1, 4, 1, 5, 9, 2, 6][i % 8] for i in range(64)] + [9]


def test_local_arrays(machine):
    picks, out = RNG.integers(0, 256, 64).astype("u1"), np.zeros(128, "i4")
    machine("basic").launch("local_array", 2, 64, [picks, out, 23])
    want = []
    for i in range(128):
        box = [3 * k + i for k in range(16)]
        for k in range(23):
            source, to = picks[(i + k) & 63] & 15, picks[(7 * i + k) & 63] & 15
            box[source], box[to] = box[to], box[source] + 1
        want.append(signed(functools.reduce(lambda s, v: s * 31 + v, box, 0), 32))
    assert out.tolist() == want


def test_matmul_is_race_free(machine):
    n = 50
    a, b = (RNG.normal(size=(n, n)).astype("f4") for _ in range(2))
    c = np.zeros((n, n), "f4")
    report = machine("shared").launch("matmul", (4, 4), (16, 16), [a, b, c, n], races=True,
                                      uninitialised=True)  # fmt: skip
    want = np.zeros((n, n), "f4")
    for k in range(n):  # one fma after another, in the kernel's order
        want = (a[:, k, None].astype("f8") * b[None, k] + want).astype("f4")
    assert np.abs(c - a @ b).max() < 1e-4
    assert (c == want).mean() > 0.99  # binary64 is not quite a fused sum
    assert report.races == ()
    assert report.static_shared_bytes == 16 * 16 * 4 + 16 * 17 * 4


def test_reduction(machine):
    x, total = RNG.integers(-1000, 1000, 5000).astype("i4"), np.zeros(1, "i4")
    report = machine("shared").launch("reduce", 7, 128, [x, total, 5000], races=True)
    assert total[0] == x.sum()
    assert report.races == ()


def test_histogram(machine):
    x, bins = RNG.integers(0, 256, 5000).astype("u1"), np.zeros(256, "u4")
    machine("shared").launch("histogram", 7, 96, [x, bins, 5000], uninitialised=True)
    assert (bins == np.bincount(x, minlength=256)).all()


def test_warp_operations(machine):
    x, out = RNG.integers(0, 100, 64).astype("i4"), np.zeros((64, 8), "u4")
    machine("shared").launch("warp_ops", 1, 64, [x, out])
    for i in range(64):
        base, lane = i - i % 32, i % 32
        v = x[base : base + 32].tolist()
        bits = [sum(1 << k for k in range(32) if rule(v[k])) for rule in (
            lambda e: e & 1, lambda e, own=v[lane]: e & 3 == own & 3)]  # fmt: skip
        half = v[16:]
        want = [
            bits[0],
            any(e > 90 for e in v) * 2 + all(e > 5 for e in v),
            bits[1],
            sum(v),
            max(v) - 50,
            v[lane & ~7 | lane * 5 & 7],
            v[lane - 3 if lane % 16 >= 3 else lane],
            v[lane ^ 1] if lane < 16 else functools.reduce(lambda p, q: p ^ q, half),
        ]
        assert out[i].tolist() == [w % 2**32 for w in want]


def test_dynamic_shared_memory(machine):
    x = np.arange(256, dtype="i4").reshape(4, 64)
    want = x[:, ::-1].copy()
    machine("shared").launch("reverse", 4, 64, [x], 256, races=True, uninitialised=True)
    assert (x == want).all()


def test_last_block_sums_up(machine):
    x = RNG.integers(-9, 1000, 288).astype("i4")
    part, total = np.zeros(9, "i4"), np.zeros(1, "i4")
    report = machine("shared").launch("last_block", 9, 32, [x, part, total], races=True)
    assert total[0] == x.sum()
    assert report.races == ()


def test_compare_and_swap(machine):
    x, best = RNG.random(2048).astype("f4"), np.zeros(1, "f4")
    machine("shared").launch("cas_max", 8, 256, [x, best])
    assert best[0] == x.max()


def truncated(x, y):
    q = abs(x) // abs(y)
    return -q if (x < 0) != (y < 0) else q


def test_division_of_all_signs(machine):
    a, b = (RNG.integers(-(2**31), 2**31, 256).astype("i4") for _ in range(2))
    c, d = (RNG.integers(-(2**63), 2**63, 256) for _ in range(2))
    b[:100], d[:100] = (
        RNG.integers(1, 20, 100) * RNG.choice([-1, 1], 100),
        RNG.integers(-9, -1, 100),
    )
    a[0], b[0] = -(2**31), 1
    q, r = np.zeros(256, "i4"), np.zeros(256, "i4")
    lq, lr = np.zeros(256, "i8"), np.zeros(256, "u8")
    machine("values").launch("divide", 1, 256, [a, b, q, r, c, d, lq, lr])
    for i in range(256):
        x, y, u, v = int(a[i]), int(b[i]), int(c[i]), int(d[i])
        tens = x - 10 * truncated(x, 10)
        assert q[i] == signed(truncated(x, y) + truncated(x, 7) + tens, 32)
        assert r[i] == x - y * truncated(x, y)
        assert lq[i] == truncated(u, v)
        assert lr[i] == (u % 2**64) % (v % 2**64)


def test_bit_tricks(machine):
    x, y = (RNG.integers(0, 2**32, 64, dtype=np.uint64).astype("u4") for _ in range(2))
    out = np.zeros((64, 14), "u4")
    machine("values").launch("bits", 1, 64, [x, y, out])

    def parts(v, is_signed):
        return [signed(v >> s & 255, 8) if is_signed else v >> s & 255 for s in (0, 8, 16, 24)]

    for i in range(64):
        a, b = int(x[i]), int(y[i])
        w, sa, sb = a << 32 | b, signed(a, 32), signed(b, 32)
        picked = [(w_ >> 8 * k) & 255 for w_ in [b << 32 | a] for k in (5, 1, 7, 3)]
        want = [
            a.bit_count() + 100 * (32 - b.bit_length()) + 10000 * w.bit_count(),
            int(f"{a:032b}"[::-1], 2),
            sum(p << 8 * k for k, p in enumerate(picked)),
            ((b << 32 | a) << (b & 31)) >> 32,
            (b << 32 | a) >> min(a & 63, 32),
            (a & b) ^ (~a | b >> 3),
            a >> 5 & 0x7F,
            (a & -a).bit_length() + 100 * (64 - w.bit_length()),
            a * b >> 32,
            sa * sb >> 32,
            sa * sb >> 16,
            sum(p * q for p, q in zip(parts(a, False), parts(b, False), strict=True)) + 5,
            sum(p * q for p, q in zip(parts(a, True), parts(b, True), strict=True)) - 9,
            abs(sa - sb) + 3 + signed(a, 16) + signed(b, 8),
        ]
        assert out[i].tolist() == [v % 2**32 for v in want]


def test_halves(machine):
    a, b, c = (RNG.normal(size=(64, 2)).astype("f2") for _ in range(3))
    p, q = (RNG.normal(size=64).astype(BF16) for _ in range(2))
    out, r = np.zeros((64, 4, 2), "f2"), np.zeros((64, 3), BF16)
    machine("values").launch("halves", 1, 64, [a, b, c, out, p, q, r])
    assert (out[:, 0] == a + b).all()
    assert (out[:, 1] == (a.astype("f8") * b + c).astype("f2")).all()
    assert (out[:, 2] == np.maximum(a * c, b)).all()
    assert (out[:, 3] == a - c).all()
    wide = p.astype("f4"), q.astype("f4")
    assert (r[:, 0] == (wide[0] + wide[1]).astype(BF16)).all()
    assert (r[:, 2] == (wide[0] * np.float32(1.7)).astype(BF16)).all()
    exact = wide[0].astype("f8") * wide[1] + wide[0]
    step = np.spacing(np.abs(exact).astype("f4")) * 2.0**15
    assert (np.abs(r[:, 1].astype("f8") - exact) <= step * 1.01).all()


def test_doubles(machine):
    x, y = RNG.normal(size=64) * 100, RNG.normal(size=64) * 7
    out = np.zeros((64, 8))
    machine("values").launch("doubles", 1, 64, [x, y, out])
    assert (out[:, 0] == x / y).all()
    assert (out[:, 1] == np.sqrt(np.abs(x))).all()
    for i in range(64):
        a, b = mpmath.mpf(x[i]), mpmath.mpf(y[i])
        with mpmath.workprec(300):
            fused = a * b - a
        assert out[i, 2] == float(fused)
        assert out[i, 3] == float(mpmath.fadd(a, b, prec=53, rounding="d"))
        assert out[i, 4] == float(mpmath.fmul(a, b, prec=53, rounding="c"))
    assert (out[:, 5] == np.floor(x) + np.trunc(y)).all()
    assert (out[:, 6] == x.astype("f4").astype("f8") + np.trunc(y)).all()
    assert (out[:, 7] == np.minimum(x, y) + np.trunc(x * 1e3)).all()


def test_mathematics(machine):
    x, out = RNG.normal(size=128).astype("f4"), np.zeros((128, 6), "f4")
    report = machine("values").launch("mathematics", 1, 128, [x, out])
    v = x.astype("f8")
    sine = np.sin((x * np.float32(40)).astype("f8"))
    assert np.abs(out[:, 0] / np.exp(v) - 1).max() < 2.5e-7
    assert np.abs(out[:, 1] - np.log(np.abs(v) + 0.5)).max() < 2.5e-7
    assert np.abs(out[:, 2] - sine).max() < 2.5e-7
    assert np.abs(out[:, 4] / (np.abs(v) + 0.1) ** 1.3 - 1).max() < 2e-6
    want = np.tanh(v) + v + 0.1 + np.exp(v) + 1 / (v + 9) + np.sqrt(v + 9)
    assert np.abs(out[:, 5] - want).max() < 2e-5
    assert "ex2.approx.ftz.f32" in report.approximate
    assert "mul.f32" in report.contractible


def test_sines_of_large_doubles(machine):
    x, out = RNG.normal(size=64) * 1e11, np.zeros((64, 3))
    machine("values").launch("sines", 1, 64, [x, out])
    for i in range(64):
        with mpmath.workprec(200):
            want = float(mpmath.sin(mpmath.mpf(x[i])))
        assert abs(out[i, 0] - want) <= 2 * math.ulp(want)
    with np.errstate(over="ignore"):
        assert np.allclose(out[:, 1], np.exp(x * 0.01), rtol=1e-14)
    assert np.allclose(out[:, 2], np.log(x * x + 0.5), rtol=1e-15)


def test_calls_with_structures(machine):
    n = 64
    base = np.array([(1.5, 7, 2.25)], [("first", "f8"), ("second", "i4"), ("third", "f4")])
    x = RNG.integers(-3, 90, n).astype("i4")
    first, second, third = np.zeros(n), np.zeros(n, "i4"), np.zeros(n, "f4")
    machine("values").launch("calls", 1, n, [base.tobytes(), x, first, second, third, n])

    def blend(p, q, k):
        return (p[0] * q[0], p[1] + q[1] * k, p[2] if k & 1 else q[2])

    for i in range(n):
        given = (1.5, 7, 2.25)
        out = blend(given, (0.5 * i, i, -1.0 * i), i)
        if i & 2:
            out = blend(out, given, 3)
        rest = x[i:].tolist()
        stop = next((k for k, v in enumerate(rest) if v < 0), None)
        walked = sum(rest) if stop is None else -sum(rest[:stop])
        four = sorted(int(x[(i + d) % n]) for d in (0, 3, 5, 7))
        assert (first[i], third[i]) == (out[0], out[2])
        assert second[i] == out[1] + walked + 1000 * four[1]


def test_calls_through_pointers(machine):
    x, out = RNG.integers(-100, 100, 64).astype("i4"), np.zeros(64, "i4")
    machine("values").launch("indirect", 1, 64, [x, out])
    assert (out == np.where(x & 1, x * x, 2 * x)).all()


@pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")
def test_faults_point_into_the_cuda_source():
    small = np.zeros(10, "f4")
    with pytest.raises(Exception, match="lie in no allocation") as caught:
        Machine(parse(text("basic", "nvcc"))).launch("saxpy", 1, 32, [32, 1.0, small, small.copy()])
    where = caught.value.labels[0].loc
    assert where.file.endswith("basic.cu")
    assert where.source().strip() == "if (i < n) y[i] = a * x[i] + y[i];"
