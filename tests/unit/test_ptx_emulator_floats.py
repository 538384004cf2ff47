"""Floating-point instructions against the C library in each rounding mode, mpmath and fractions."""

import ctypes
import platform
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from ptx_emulator_support import BF16, USED, Values, assemble_used, evaluate

from hetir.emulator.ptx import PtxError


@pytest.fixture(autouse=True)
def quiet():
    """NaN and infinity are among the operands."""
    with np.errstate(all="ignore"):
        yield


RNG = np.random.default_rng(11)
MODES = ("rn", "rz", "rm", "rp")
SPECIAL32 = [0x0, 0x80000000, 0x1, 0x80000001, 0x7FFFFF, 0x800000, 0x3F800000, 0xBF800000,
             0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001,
             0x3F7FFFFF, 0x34000000, 0x33FFFFFF]  # fmt: skip


def floats32(count: int = 600) -> np.ndarray:
    """Specials, every exponent, and values near each other, for cancellation."""
    raw = RNG.integers(0, 2**32, count, dtype=np.uint64).astype(np.uint32)
    raw[: len(SPECIAL32)] = SPECIAL32
    near = slice(count // 2, count)
    raw[near] = (raw[near] & 0x807FFFFF) | (RNG.integers(120, 134, count - count // 2) << 23)
    return RNG.permutation(raw).view(np.float32)


def floats64(count: int = 500) -> np.ndarray:
    raw = RNG.integers(0, 2**64, count, dtype=np.uint64)
    near = slice(count // 3, count)
    exponent = RNG.integers(1015, 1032, count - count // 3).astype(np.uint64)
    raw[near] = (raw[near] & np.uint64(0x800FFFFFFFFFFFFF)) | exponent << np.uint64(52)
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324,
               2.2250738585072014e-308,
               1.7976931348623157e308, 1e-200, -1e200, 2.0**-537, 2.0**-538]  # fmt: skip
    out = raw.view(np.float64)
    out[: len(special)] = special
    return RNG.permutation(out)


def small(values: np.ndarray) -> np.ndarray:
    """Subnormals as zeros of their sign."""
    tiny = np.abs(values) < np.finfo(values.dtype).smallest_normal
    return np.where(tiny, np.copysign(np.zeros_like(values), values), values)


def same(got: np.ndarray, want: np.ndarray, nan: int | None = None) -> None:
    """Equal bits, and every NaN the canonical one."""
    bits = f"u{got.dtype.itemsize}"
    nans = want != want
    assert ((got != got) == nans).all()
    if nan is not None:
        assert (got[nans].view(bits) == nan).all()
    bad = np.flatnonzero(~nans & (got.view(bits) != want.view(bits)))
    assert not len(bad), (len(bad), got[bad[:4]], want[bad[:4]])


class Library:
    """fma of the C library under a rounding mode of the processor."""

    def __init__(self):
        self.numbers = {"rn": 0, "rm": 0x400, "rp": 0x800, "rz": 0xC00}
        self.m = ctypes.CDLL("libm.so.6")
        for name, kind in (("fma", ctypes.c_double), ("fmaf", ctypes.c_float)):
            getattr(self.m, name).argtypes = [kind] * 3
            getattr(self.m, name).restype = kind
        for name, kind in (("sqrt", ctypes.c_double), ("sqrtf", ctypes.c_float)):
            getattr(self.m, name).argtypes = [kind]
            getattr(self.m, name).restype = kind

    def call(self, name, mode, *columns):
        function = getattr(self.m, name)
        rows = [[float(x) for x in row] for row in zip(*columns, strict=True)]
        self.m.fesetround(self.numbers[mode])
        try:
            out = [function(*row) for row in rows]
        finally:
            self.m.fesetround(0)
        return np.array(out, columns[0].dtype)


@pytest.fixture(scope="module")
def library():
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        pytest.skip("the oracle sets the rounding mode of x86-64 through glibc")
    return Library()


@pytest.mark.parametrize("mode", MODES)
def test_f32(library, mode):
    a, b, c = floats32(), floats32(), floats32()
    one, zero = np.ones_like(a), np.full_like(a, -0.0)
    nan = 0x7FFFFFFF
    for name, want in (
        (f"add.{mode}.f32 %d, %a, %b;", library.call("fmaf", mode, a, one, b)),
        (f"sub.{mode}.f32 %d, %a, %b;", library.call("fmaf", mode, a, one, -b)),
    ):
        same(evaluate(name, a, b, out="f4"), want, nan)
    product = library.call("fmaf", mode, a, b, zero)
    exact_zero = (a == 0) | (b == 0)
    product[exact_zero] = (a * b)[exact_zero]
    same(evaluate(f"mul.{mode}.f32 %d, %a, %b;", a, b, out="f4"), product, nan)
    fused = library.call("fmaf", mode, a, b, c)
    same(evaluate(f"fma.{mode}.f32 %d, %a, %b, %c;", a, b, c, out="f4"), fused, nan)
    same(evaluate(f"mad.{mode}.f32 %d, %a, %b, %c;", a, b, c, out="f4"), fused, nan)
    root = library.call("sqrtf", mode, a)
    same(evaluate(f"sqrt.{mode}.f32 %d, %a;", a, out="f4"), root, nan)


@pytest.mark.parametrize("mode", MODES)
def test_f64(library, mode):
    a, b, c = floats64(), floats64(), floats64()
    one, zero = np.ones_like(a), np.full_like(a, -0.0)
    same(evaluate(f"add.{mode}.f64 %d, %a, %b;", a, b, out="f8"),
         library.call("fma", mode, a, one, b))  # fmt: skip
    same(evaluate(f"sub.{mode}.f64 %d, %a, %b;", a, b, out="f8"),
         library.call("fma", mode, a, one, -b))  # fmt: skip
    product = library.call("fma", mode, a, b, zero)
    exact_zero = (a == 0) | (b == 0)
    product[exact_zero] = (a * b)[exact_zero]
    same(evaluate(f"mul.{mode}.f64 %d, %a, %b;", a, b, out="f8"), product)
    same(evaluate(f"fma.{mode}.f64 %d, %a, %b, %c;", a, b, c, out="f8"),
         library.call("fma", mode, a, b, c))  # fmt: skip
    same(evaluate(f"sqrt.{mode}.f64 %d, %a;", a, out="f8"), library.call("sqrt", mode, a))


def test_fma_f64_near_ties_and_limits(library):
    a = np.repeat([2.0**-537, 1 + 2.0**-52, 1 + 2.0**-30, 3e-160, 1e155, 2.0**511], 40)
    b = a * RNG.integers(-3, 4, len(a))
    c = -(a * b) * (1 + RNG.integers(-2, 3, len(a)) * 2.0**-52)
    for mode in MODES:
        same(evaluate(f"fma.{mode}.f64 %d, %a, %b, %c;", a, b, c, out="f8"),
             library.call("fma", mode, a, b, c))  # fmt: skip


LETTER = {"rn": "n", "rz": "d", "rm": "f", "rp": "c"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bits", [32, 64])
def test_division(mode, bits):
    values = floats32() if bits == 32 else floats64()
    digits, dtype = (24, np.float32) if bits == 32 else (53, np.float64)
    a, b = values, RNG.permutation(values)
    got = evaluate(f"div.{mode}.f{bits} %d, %a, %b;", a, b, out=dtype)
    inverse = evaluate(f"rcp.{mode}.f{bits} %d, %a;", b, out=dtype)
    least, most = np.finfo(dtype).smallest_normal, np.finfo(dtype).max
    checked = 0
    for x, y, q, r in zip(a.tolist(), b.tolist(), got, inverse, strict=True):
        if not np.isfinite([x, y]).all() or y == 0:
            continue
        for top, found in ((x, q), (1.0, r)):
            want = mpmath.fdiv(top, y, prec=digits, rounding=LETTER[mode])
            if least <= abs(want) <= most / 2:
                assert float(found) == float(want), (top, y)
                checked += 1
    assert checked > 200
    if mode == "rn":
        with np.errstate(all="ignore"):
            same(got, a / b, 0x7FFFFFFF if bits == 32 else None)


def test_f32_flush_and_saturate():
    a, b, c = floats32(), floats32() * np.float32(1e-20), floats32()
    with np.errstate(all="ignore"):
        flushed = small(small(a) + small(b))
        same(evaluate("add.rn.ftz.f32 %d, %a, %b;", a, b, out="f4"), flushed, 0x7FFFFFFF)
        product = small(small(a) * small(b))
        same(evaluate("mul.rn.ftz.f32 %d, %a, %b;", a, b, out="f4"), product, 0x7FFFFFFF)
        total = a + c
        clipped = np.where(total >= 0, np.minimum(total, np.float32(1)), np.float32(0))
        clipped[total == 0] = 0
        same(evaluate("add.rn.sat.f32 %d, %a, %b;", a, c, out="f4"), clipped.astype("f4"))
        same(evaluate("sqrt.rn.ftz.f32 %d, %a;", a, out="f4"), np.sqrt(small(a)), 0x7FFFFFFF)


FORMATS = {"f16": (np.dtype(np.float16), Values(np.float16, 16)), "bf16": (BF16, Values(BF16, 16))}


def narrow_values(dtype, count=500):
    raw = RNG.integers(0, 2**16, count).astype(np.uint16)
    raw[:10] = [0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x7F, 0x80, 0x3C00, 0x3F80]
    raw[10:14] = 0x7FC1  # a NaN in both formats
    near = slice(count // 3, count)
    base = 0x3800 if dtype == np.float16 else 0x3F00
    raw[near] = base + RNG.integers(0, 0x800, count - count // 3)
    raw[near] |= (RNG.integers(0, 2, count - count // 3) << 15).astype(np.uint16)
    return RNG.permutation(raw).view(dtype)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_narrow_arithmetic_has_one_rounding(name):
    dtype, table = FORMATS[name]
    a, b, c = (narrow_values(dtype) for _ in range(3))
    got = {
        "add": evaluate(f"add.rn.{name} %d, %a, %b;", a, b, out=dtype),
        "sub": evaluate(f"sub.rn.{name} %d, %a, %b;", a, b, out=dtype),
        "mul": evaluate(f"mul.rn.{name} %d, %a, %b;", a, b, out=dtype),
        "fma": evaluate(f"fma.rn.{name} %d, %a, %b, %c;", a, b, c, out=dtype),
    }
    exact = {
        "add": lambda x, y, z: x + y,
        "sub": lambda x, y, z: x - y,
        "mul": lambda x, y, z: x * y,
        "fma": lambda x, y, z: x * y + z,
    }
    wide = [v.astype(np.float64) for v in (a, b, c)]
    finite = np.isfinite(wide).all(axis=0)
    for op, rule in exact.items():
        found = got[op].astype(np.float64)
        for i in np.flatnonzero(finite):
            want = table.nearest(rule(*(Fraction(float(w[i])) for w in wide)))
            assert found[i] == want, (op, [w[i] for w in wide])
    nan = got["add"][(wide[0] != wide[0]) | (wide[1] != wide[1])]
    assert len(nan)
    assert (nan.view(np.uint16) == 0x7FFF).all()


def test_packed_halves_are_two_scalars():
    for name, dtype in (("f16", np.dtype(np.float16)), ("bf16", BF16)):
        a, b, c = (narrow_values(dtype) for _ in range(3))
        one = evaluate(f"fma.rn.{name} %d, %a, %b, %c;", a, b, c, out="u2")
        wide = [x.view(np.uint32) for x in (a, b, c)]
        two = evaluate(f"fma.rn.{name}x2 %d, %a, %b, %c;", *wide, out="u4")
        assert (two.view(np.uint16) == one).all()
        relu = evaluate(f"fma.rn.relu.{name} %d, %a, %b, %c;", a, b, c, out="u2")
        value = one.view(dtype)
        assert (relu == np.where((value > 0) | (value != value), one, 0)).all()


def test_half_flush():
    a, b = narrow_values(np.dtype("f2")), narrow_values(np.dtype("f2"))
    with np.errstate(all="ignore"):
        want = small(small(a) * small(b))
    same(evaluate("mul.rn.ftz.f16 %d, %a, %b;", a, b, out="f2"), want, 0x7FFF)


def test_two_singles_in_one_register():
    a, b = floats32(), floats32()
    got = evaluate("add.rn.f32x2 %d, %a, %b;", a.view("u8"), b.view("u8"), out="u8",
                   target="sm_100")  # fmt: skip
    with np.errstate(all="ignore"):
        same(got.view("f4"), a + b, 0x7FFFFFFF)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_mixed_precision(name):
    dtype = FORMATS[name][0]
    a, b, c = narrow_values(dtype), narrow_values(dtype), floats32(500)
    x, y = a.astype("f4"), b.astype("f4")
    got = evaluate(f"add.rn.f32.{name} %d, %a, %b;", a, c, out="f4", target="sm_100")
    same(got, x + c, 0x7FFFFFFF)
    got = evaluate(f"sub.rn.f32.{name} %d, %a, %b;", a, c, out="f4", target="sm_100")
    same(got, x - c, 0x7FFFFFFF)
    got = evaluate(f"fma.rn.f32.{name} %d, %a, %b, %c;", a, b, c, out="f4", target="sm_100")
    plain = evaluate("fma.rn.f32 %d, %a, %b, %c;", x, y, c, out="f4")
    assert (got.view("u4") == plain.view("u4")).all()


def lesser(x, y, propagate):
    """IEEE 754-2019 minimum or minimumNumber."""
    if x != x or y != y:
        return np.nan if propagate or (x != x and y != y) else (y if x != x else x)
    if x == y == 0:
        return x if np.signbit(x) else y
    return min(x, y)


@pytest.mark.parametrize("name", ["f32", "f16", "bf16"])
def test_minimum_and_maximum(name):
    dtype = {"f32": np.dtype("f4"), "f16": np.dtype("f2"), "bf16": BF16}[name]
    a = np.array([0.0, -0.0, 1, -1, np.nan, np.inf, -np.inf, 2.5] * 8, dtype)
    b = np.repeat(np.array([0.0, -0.0, 1, -1, np.nan, np.inf, -np.inf, 2.5], dtype), 8)
    nan = 0x7FFFFFFF if name == "f32" else 0x7FFF
    for suffix, propagate in (("", False), (".NaN", True)):
        least = [lesser(x, y, propagate) for x, y in zip(a, b, strict=True)]
        most = [-lesser(-x, -y, propagate) for x, y in zip(a, b, strict=True)]
        same(
            evaluate(f"min{suffix}.{name} %d, %a, %b;", a, b, out=dtype),
            np.array(least, dtype),
            nan,
        )
        same(
            evaluate(f"max{suffix}.{name} %d, %a, %b;", a, b, out=dtype), np.array(most, dtype), nan
        )


def test_minimum_of_magnitudes_with_the_sign_of_both():
    a = np.array([3, -3, 2, -2, -0.0, np.nan], "f4")
    b = np.array([-2, -4, 5, 5, 4, -1], "f4")
    got = evaluate("min.xorsign.abs.f32 %d, %a, %b;", a, b, out="f4")
    assert got.view("u4").tolist() == np.array([-2, 3, 2, -2, -0.0, -1], "f4").view("u4").tolist()


def test_minimum_f64():
    a, b = floats64(), floats64()
    least = np.array([lesser(x, y, False) for x, y in zip(a, b, strict=True)])
    same(evaluate("min.f64 %d, %a, %b;", a, b, out="f8"), least)


def test_sign_instructions_touch_the_sign_only():
    a, b = floats32(), floats32()
    bits, other = a.view("u4"), b.view("u4")
    top = np.uint32(1 << 31)
    assert (evaluate("neg.f32 %d, %a;", bits, out="u4") == bits ^ top).all()
    assert (evaluate("abs.f32 %d, %a;", bits, out="u4") == bits & ~top).all()
    got = evaluate("copysign.f32 %d, %a, %b;", bits, other, out="u4")
    assert (got == (bits & top | other & ~top)).all()
    halves = narrow_values(np.dtype("f2")).view("u4")
    assert (evaluate("neg.f16x2 %d, %a;", halves, out="u4") == halves ^ np.uint32(0x80008000)).all()


def test_classes():
    a = floats32()
    least = np.finfo("f4").smallest_normal
    want = {
        "finite": np.isfinite(a),
        "infinite": np.isinf(a),
        "number": ~np.isnan(a),
        "notanumber": np.isnan(a),
        "normal": np.isfinite(a) & (np.abs(a) >= least),
        "subnormal": (np.abs(a) < least) & (a != 0),
    }
    for name, truth in want.items():
        body = f"testp.{name}.f32 %p1, %a; selp.b32 %d, 1, 0, %p1;"
        assert (evaluate(body, a, out="u4") == truth).all(), name


@pytest.mark.parametrize("name", ["f32", "f64", "f16", "bf16"])
def test_comparisons(name):
    dtype = {"f32": "f4", "f64": "f8", "f16": "f2", "bf16": BF16}[name]
    some = np.array([0.0, -0.0, 1, -1, np.nan, np.inf, -np.inf, 1.5], dtype)
    a, b = np.tile(some, 8), np.repeat(some, 8)
    x, y = a.astype("f8"), b.astype("f8")
    unordered = np.isnan(x) | np.isnan(y)
    plain = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}
    table = {op: truth & ~unordered for op, truth in plain.items()}
    table |= {f"{op}u": truth | unordered for op, truth in plain.items()}
    table |= {"num": ~unordered, "nan": unordered}
    for op, truth in table.items():
        body = f"setp.{op}.{name} %p1, %a, %b; selp.b32 %d, 1, 0, %p1;"
        assert (evaluate(body, a, b, out="u4") == truth).all(), op
        body = f"set.{op}.u32.{name} %d, %a, %b;"
        if name != "f64":
            assert (evaluate(body, a, b, out="u4") == np.where(truth, 0xFFFFFFFF, 0)).all(), op


def test_packed_comparison():
    a = np.array([1, 2, np.nan, 4], "f2").view("u4")
    b = np.array([2, 1, 3, 4], "f2").view("u4")
    body = """setp.lt.f16x2 %p1|%p2, %a, %b; selp.b32 %r3, 1, 0, %p1; selp.b32 %r4, 2, 0, %p2;
    or.b32 %d, %r3, %r4;"""
    assert evaluate(body, a, b, out="u4").tolist() == [1, 0]
    assert evaluate("set.ltu.f16x2.f16x2 %d, %a, %b;", a, b, out="u4").tolist() == [0x3C00, 0x3C00]


def test_flushed_comparison():
    a = np.array([1e-40, -1e-40], "f4")
    body = "setp.eq.ftz.f32 %p1, %a, 0f00000000; selp.b32 %d, 1, 0, %p1;"
    assert evaluate(body, a, out="u4").tolist() == [1, 1]
    assert evaluate(body.replace(".ftz", ""), a, out="u4").tolist() == [0, 0]


BOUNDS = {
    "rcp.approx.f32": (lambda x: 1 / x, 1e-7),
    "rsqrt.approx.f32": (lambda x: 1 / np.sqrt(x), 2.0**-22.4),
    "sqrt.approx.f32": (np.sqrt, 2.0**-22),
    "lg2.approx.f32": (np.log2, 2.0**-22),
    "ex2.approx.f32": (np.exp2, 2.0**-22),
    "sin.approx.f32": (np.sin, 2.0**-20.5),
    "cos.approx.f32": (np.cos, 2.0**-20.5),
    "tanh.approx.f32": (np.tanh, 2.0**-10),
}


def test_approximations_are_within_their_bounds():
    x = RNG.uniform(0.01, 3, 400).astype("f4")
    for name, (function, bound) in BOUNDS.items():
        got = evaluate(f"{name} %d, %a;", x, out="f4").astype("f8")
        want = function(x.astype("f8"))
        scale = np.maximum(np.abs(want), 1) if name[:3] in {"sin", "cos", "lg2"} else np.abs(want)
        assert (np.abs(got - want) <= bound * scale).all(), name


def test_approximate_corner_cases():
    big = np.array([2.0**127, 2.0**127, 4.0], "f4")
    top = np.array([1.0, np.inf, 2.0], "f4")
    got = evaluate("div.approx.f32 %d, %a, %b;", top, big, out="f4")
    assert got[0] == 0
    assert np.isnan(got[1])
    assert got[2] == 0.5
    x = np.array([0.0, -0.0, -1.0, np.inf, np.nan], "f4")
    assert evaluate("rsqrt.approx.f32 %d, %a;", x, out="f4").tolist()[:2] == [np.inf, -np.inf]
    assert np.isnan(evaluate("lg2.approx.f32 %d, %a;", x, out="f4")[[2, 4]]).all()
    assert evaluate("lg2.approx.f32 %d, %a;", x, out="f4")[0] == -np.inf
    got = evaluate("rcp.approx.ftz.f64 %d, %a;", np.array([3.0, np.inf]), out="f8")
    assert got.view("u8")[0] & 0xFFFFFFFF == 0
    assert abs(got[0] * 3 - 1) < 2.0**-19
    assert got[1] == 0


WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


@pytest.mark.parametrize("source", ["f16", "f32", "f64"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("kind", "us")
def test_float_to_integer(source, bits, kind):
    dtype = {"f16": "f2", "f32": "f4", "f64": "f8"}[source]
    edge = [
        0.0,
        -0.0,
        0.5,
        1.5,
        2.5,
        -0.5,
        -1.5,
        127.5,
        128,
        -128.5,
        255.4,
        255.6,
        np.nan,
        np.inf,
        -np.inf,
    ]
    edge += [2.0**31, 2.0**31 - 1, -(2.0**31), 2.0**63, -(2.0**63), 2.0**64, 2.0**32, 65504, 1e30]
    with np.errstate(over="ignore"):
        a = np.array(edge + list(RNG.normal(size=60) * 300), dtype)
    low, high = (0, 2**bits - 1) if kind == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    nan = 2 ** (bits - 1) if bits == 64 or source == "f64" else 0
    register = max(bits, 16)
    for mode, rounded in WHOLE.items():
        got = evaluate(
            f"cvt.{mode}.{kind}{bits}.{source} %d, %a;",
            a,
            out=f"{'i' if kind == 's' else 'u'}{register // 8}",
        )
        for x, found in zip(a.astype("f8").tolist(), got.tolist(), strict=True):
            if x != x:
                assert found % 2**bits == nan
            else:
                want = (
                    high
                    if x == np.inf
                    else low
                    if x == -np.inf
                    else min(high, max(low, int(rounded(x))))
                )
                assert found == want, (mode, x)


def integers(bits, kind):
    info = np.iinfo(f"{'i' if kind == 's' else 'u'}{bits // 8}")
    some = [0, 1, info.max, info.max - 1, info.min]
    for power in range(8, bits):
        some += [
            v
            for v in (2**power - 1, 2**power + 1, 2**power + 2 ** (power // 2) + 1)
            if v <= info.max
        ]
    rest = [int(x) for x in RNG.integers(info.min, info.max, 60, dtype=info.dtype)]
    return np.array(some + rest, info.dtype)


@pytest.mark.parametrize("target", ["f16", "f32", "f64", "bf16"])
@pytest.mark.parametrize("source", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
def test_integer_to_float(target, source):
    if target == "bf16" and source in {"u8", "s8"}:
        with pytest.raises(PtxError, match="no such conversion"):
            evaluate(f"cvt.rn.bf16.{source} %d, %a;", np.zeros(2, "u1"), out=BF16)
        USED.pop(f"cvt.rn.bf16.{source} %d, %a;")
        return
    kind, bits = source[0], int(source[1:])
    a = integers(bits, kind)
    digits, emax, dtype = {"f16": (11, 15, np.dtype("f2")), "f32": (24, 127, np.dtype("f4")),
                           "f64": (53, 1023, np.dtype("f8")), "bf16": (8, 127, BF16)}[
                               target]  # fmt: skip
    for mode in MODES:
        found = evaluate(f"cvt.{mode}.{target}.{source} %d, %a;", a, out=dtype).astype("f8")
        for x, got in zip(a.tolist(), found.tolist(), strict=True):
            want = float(mpmath.mpf(x, prec=digits, rounding=LETTER[mode])) if x else 0.0
            largest = (2 - 2.0 ** (1 - digits)) * 2.0**emax
            if abs(want) > largest:
                up = mode == "rn" or (mode == "rp" and x > 0) or (mode == "rm" and x < 0)
                want = np.copysign(np.inf if up else largest, x)
            assert got == want, (mode, x)


def test_integer_widths():
    a = RNG.integers(0, 2**32, 200, dtype=np.uint64).astype("u4")
    s = a.view("i4")
    assert (evaluate("cvt.s64.s32 %d, %a;", a, out="i8") == s).all()
    assert (evaluate("cvt.u64.u32 %d, %a;", a, out="u8") == a).all()
    assert (evaluate("cvt.s32.s8 %d, %a;", a, out="i4") == a.astype("i1")).all()
    assert (evaluate("cvt.u32.u16 %d, %a;", a, out="u4") == a.astype("u2")).all()
    assert (evaluate("cvt.sat.s8.s32 %d, %a;", a, out="i4") == np.clip(s, -128, 127)).all()
    assert (evaluate("cvt.sat.u16.s32 %d, %a;", a, out="u4") == np.clip(s, 0, 65535)).all()
    assert (evaluate("cvt.sat.s32.u32 %d, %a;", a, out="u4") == np.minimum(a, 2**31 - 1)).all()


@pytest.mark.parametrize("mode", MODES)
def test_float_to_narrower_float(library, mode):
    a = np.concatenate([floats64(), RNG.normal(size=100) * 1e-41, RNG.normal(size=50) * 1e-6])
    dtypes = {"f32": np.dtype("f4"), "f16": np.dtype("f2"), "bf16": BF16}
    with np.errstate(all="ignore"):
        sources = {"f64": a, "f32": a.astype("f4")}
    for target, source in (
        ("f32", "f64"),
        ("f16", "f64"),
        ("f16", "f32"),
        ("bf16", "f32"),
        ("bf16", "f64"),
    ):
        value = sources[source]
        if mode in {"rm", "rp"} and target == "bf16" and source == "f32":
            continue  # the ISA has no such instruction
        got = evaluate(f"cvt.{mode}.{target}.{source} %d, %a;", value, out=dtypes[target])
        check_rounded(got.astype("f8"), value.astype("f8"), target, mode)


TABLES = {"f16": FORMATS["f16"][1], "bf16": FORMATS["bf16"][1]}


def check_rounded(got, exact, target, mode):
    digits, emin, largest = {"f32": (24, -149, float(np.finfo("f4").max)),
                             "f16": (11, -24, 65504.0),
                             "bf16": (8, -133, float.fromhex("0x1.fep127"))}[target]  # fmt: skip
    for x, found in zip(exact.tolist(), got.tolist(), strict=True):
        if x != x:
            assert found != found
            continue
        if np.isinf(x):
            assert found == x
            continue
        want = mpmath.mpf(x, prec=digits, rounding=LETTER[mode])
        if abs(x) < 2.0 ** (emin + digits - 1):
            scaled = mpmath.mpf(x) * mpmath.mpf(2) ** -emin
            rounder = {"rn": mpmath.nint, "rm": mpmath.floor, "rp": mpmath.ceil}
            trunc = mpmath.floor if x > 0 else mpmath.ceil
            want = rounder.get(mode, trunc)(scaled) * mpmath.mpf(2) ** emin
        want = float(want)
        if abs(want) > largest:
            up = mode == "rn" or (mode == "rp" and x > 0) or (mode == "rm" and x < 0)
            want = np.copysign(np.inf if up else largest, x)
        assert found == want, (x, target, mode)
        assert np.signbit(found) == np.signbit(x)


def test_float_to_wider_float():
    halves = np.arange(2**16).astype("u2")
    with np.errstate(all="ignore"):
        for source, dtype in (("f16", np.dtype("f2")), ("bf16", BF16)):
            value = halves.view(dtype)
            got = evaluate(f"cvt.f32.{source} %d, %a;", halves, out="f4")
            same(got, value.astype("f4"), 0x7FFFFFFF)
    a = floats32()
    same(evaluate("cvt.f64.f32 %d, %a;", a, out="f8"), a.astype("f8"))


def test_float_to_whole_float():
    a = np.concatenate([RNG.normal(size=100) * 5, [0.5, 1.5, -0.5, -0.0, np.inf, 1e30]]).astype(
        "f4"
    )
    for mode, function in WHOLE.items():
        same(evaluate(f"cvt.{mode}.f32.f32 %d, %a;", a, out="f4"), function(a))
        same(
            evaluate(f"cvt.{mode}.f64.f64 %d, %a;", a.astype("f8"), out="f8"),
            function(a.astype("f8")),
        )


def test_saturated_float_conversions():
    a = np.array([-1, -0.0, 0.25, 1.5, np.nan, np.inf, -np.inf, 70000], "f4")
    want = np.array([0, 0, 0.25, 1, 0, 1, 0, 1], "f4")
    same(evaluate("cvt.sat.f32.f32 %d, %a;", a, out="f4"), want)
    got = evaluate("cvt.rn.satfinite.f16.f32 %d, %a;", a, out="f2", target="sm_100")
    assert got[[3, 5, 6, 7]].tolist() == [1.5, 65504, -65504, 65504]
    assert got[4:5].view("u2")[0] == 0x7FFF
    got = evaluate("cvt.rn.relu.f16.f32 %d, %a;", a, out="f2")
    assert got[[0, 1, 2]].tolist() == [0, 0, 0.25]
    assert np.isnan(got[4])
    assert got[7] == np.inf


def test_pairs():
    a, b = floats32(), floats32()
    with np.errstate(all="ignore"):
        upper, lower = a.astype("f2"), b.astype("f2")
    got = evaluate("cvt.rn.f16x2.f32 %d, %a, %b;", a, b, out="u4").view("u2").view("f2")
    same(got[1::2].copy(), upper, 0x7FFF)
    same(got[0::2].copy(), lower, 0x7FFF)
    got = evaluate("cvt.rz.bf16x2.f32 %d, %a, %b;", a, b, out="u4").view("u2")
    finite = np.isfinite(a)
    assert (got[1::2][finite] == (a.view("u4") >> 16)[finite]).all()


@pytest.mark.parametrize("name", ["e4m3", "e5m2"])
def test_eighths(name):
    import ml_dtypes

    dtype = np.dtype({"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[name])
    table, largest = Values(dtype, 8), {"e4m3": 448.0, "e5m2": 57344.0}[name]
    a = np.concatenate(
        [
            RNG.normal(size=200),
            RNG.normal(size=100) * 0.01,
            [np.nan, 1e9, -1e9, 464, 465, -0.0, np.inf],
        ]
    )
    a = a.astype("f4")
    b = RNG.permutation(a)
    got = evaluate(f"cvt.rn.satfinite.{name}x2.f32 %d, %a, %b;", a, b, out="u2").view("u1")
    for values, found in ((a, got[1::2]), (b, got[0::2])):
        for x, byte in zip(values.tolist(), found, strict=True):
            value = float(byte.view(dtype).astype("f8"))
            if x != x:
                assert byte == 0x7F
            elif abs(x) >= largest:
                assert value == np.copysign(largest, x)
            else:
                assert value == table.nearest(Fraction(x))
    every = np.arange(2**16).astype("u2")
    halves = evaluate(f"cvt.rn.f16x2.{name}x2 %d, %a;", every, out="u4").view("u2").view("f2")
    with np.errstate(all="ignore"):
        same(halves, every.view("u1").view(dtype).astype("f2"), 0x7FFF)
    packed = evaluate(f"cvt.rn.satfinite.{name}x2.f16x2 %d, %a;", halves.view("u4"), out="u2")
    finite = np.isfinite(every.view("u1").view(dtype).astype("f4")).reshape(-1, 2).all(axis=1)
    assert (packed[finite] == every[finite]).all()


def test_tf32():
    a = np.array([1.0, 1 + 2.0**-11, 1 + 2.0**-10 + 2.0**-11, -1 - 2.0**-11, np.inf], "f4")
    got = evaluate("cvt.rna.tf32.f32 %d, %a;", a, out="f4")
    assert got.tolist() == [1, 1 + 2.0**-10, 1 + 2.0**-9, -1 - 2.0**-10, np.inf]
    got = evaluate("cvt.rn.tf32.f32 %d, %a;", a, out="f4")
    assert got.tolist() == [1, 1, 1 + 2.0**-9, -1, np.inf]


def test_packed_integer_conversion():
    a = np.array([70000, -5, 3], "i4")
    b = np.array([-70000, 7, -9], "i4")
    got = evaluate("cvt.pack.sat.s16.s32 %d, %a, %b;", a, b, out="u4")
    x, y = (np.clip(v, -32768, 32767).astype("i2").view("u2").astype("u4") for v in (a, b))
    want = (x << 16 | y).tolist()
    assert got.tolist() == want
    c = np.array([0x11112222] * 3, "u4")
    got = evaluate("cvt.pack.sat.u8.s32.b32 %d, %a, %b, %c;", a, b, c, out="u4")
    assert got.tolist() == [0x2222FF00, 0x22220007, 0x22220300]


def test_assembler_takes_all_of_this():
    assemble_used()
