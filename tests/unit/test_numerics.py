"""Every pure op against values computed with integers and fractions, not with NumPy floats."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from hetir.ir import numerics, ops
from hetir.ir.build import bits_of, value_of
from hetir.ir.types import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I8,
    SCALARS,
    U8,
    U32,
    U64,
    Scalar,
)  # fmt: skip

FLOATS = (F16, BF16, F32, F64)
INTS = [t for t in SCALARS.values() if t.is_int]
# name: bits of precision, least exponent of a normal number, largest exponent
FORMATS = {
    "f16": (11, -14, 15), "bf16": (8, -126, 127), "f32": (24, -126, 127),
    "f64": (53, -1022, 1023), "f8e4m3": (4, -6, 8), "f8e5m2": (3, -14, 15),
}  # fmt: skip


def evaluate(name: str, result: Scalar, *lanes: np.ndarray, **attrs: object) -> np.ndarray:
    function = ops.TABLE[name].evaluate
    assert function is not None
    return function(attrs, result.numpy, *lanes)


def rounded(value: Fraction, to: Scalar, sign: int = 1) -> float:
    """Nearest even, by integers; `sign` is that of a zero."""
    precision, least, largest = FORMATS[to.name]
    if not value:
        return math.copysign(0.0, sign)
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, least) - precision + 1)
    result = round(size / unit) * unit
    limit = (2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** largest
    if to is F8E4M3:
        limit = Fraction(448)
    if result > limit:
        result_float = float(limit) if to.kind == "f8" else math.inf
    else:
        result_float = float(result)
    return math.copysign(result_float, 1 if value > 0 else -1)


def plain(values: np.ndarray) -> np.ndarray:
    """As f64, without the warnings that NaNs make."""
    with np.errstate(all="ignore"):
        return values.astype(np.float64)


def same(got: np.ndarray, want: list[float], to: Scalar) -> None:
    expected = np.array(want, np.float64)
    found = plain(got)
    assert got.dtype == to.numpy
    bad = ~(
        ((found == expected) & (np.signbit(found) == np.signbit(expected)))
        | (np.isnan(found) & np.isnan(expected))
    )
    assert not bad.any(), (np.flatnonzero(bad)[:5], found[bad][:5], expected[bad][:5])


def every_code(of: Scalar) -> np.ndarray:
    return np.arange(1 << of.bits, dtype=f"u{of.bytes}").view(of.numpy)


def sample(of: Scalar, count: int, seed: int) -> np.ndarray:
    """Random bits, values near one another, and the edges."""
    rng = np.random.default_rng(seed)
    raw = f"u{of.bytes}"
    anything = rng.integers(0, 1 << of.bits, count, dtype=np.uint64).astype(raw).view(of.numpy)
    near = rng.integers(-64, 64, count) * 2.0 ** rng.integers(-5, 5, count)
    near = near.astype(np.int64).astype(of.numpy) if of.is_int else near.astype(of.numpy)
    if not of.is_float:
        edges = [v % (1 << of.bits) for v in (0, 1, -1, 2, -2, 7, 1 << of.bits - 1)]
        edges = np.array([*edges, (1 << of.bits - 1) - 1], raw).view(of.numpy)
        return np.concatenate([anything, near, edges])
    top, one = 1 << of.bits - 1, int(np.array(1, of.numpy).view(raw))
    inf = int(np.array(np.inf, of.numpy).view(raw))
    ends = [0, 1, 2, one, one + 1, one - 1, inf, inf - 1, inf + 1, inf + (top - inf) // 2]
    edges = np.array([e | s for e in ends for s in (0, top)], np.uint64).astype(raw)
    return np.concatenate([anything, near, edges.view(of.numpy)])


def finite(*values: float) -> bool:
    return all(map(math.isfinite, values))


# ---- floats --------------------------------------------------------------------------------


def fma_reference(a: float, b: float, c: float, to: Scalar) -> float:
    if not finite(a, b):
        return a * b + c
    if not math.isfinite(c):
        return c
    product = Fraction(a) * Fraction(b)
    minus = (math.copysign(1, a) * math.copysign(1, b) < 0) and math.copysign(1, c) < 0
    if product and c == 0 and not product + Fraction(c):
        minus = False
    return rounded(product + Fraction(c), to, -1 if minus else 1)


@pytest.mark.parametrize("of", FLOATS, ids=str)
def test_fma_rounds_once(of: Scalar) -> None:
    a, b, c = (sample(of, 1500, seed) for seed in (1, 2, 3))
    with np.errstate(all="ignore"):
        near = -(plain(a) * plain(b)).astype(of.numpy)
        beside = (near.view(f"u{of.bytes}") ^ 1).view(of.numpy)
    for third in (c, near, beside):
        got = evaluate("fma", of, a, b, third)
        lanes = zip(*(plain(t).tolist() for t in (a, b, third)), strict=True)
        same(got, [fma_reference(*lane, of) for lane in lanes], of)


@pytest.mark.parametrize("of", [F16, BF16, F32], ids=str)
def test_fma_where_two_roundings_differ(of: Scalar) -> None:
    """Products just beside the middle of two neighbours, decided by a tiny addend."""
    precision = FORMATS[of.name][0]
    one, unit = Fraction(1), Fraction(1, 2 ** (precision - 1))
    a = np.array([float(one + unit)] * 4, of.numpy)
    b = np.array([float(one + unit / 2 * k) for k in (2, 4, 6, 8)], of.numpy)
    tiny = float(Fraction(1, 2 ** (2 * precision + 2)))
    for addend in (tiny, -tiny):
        c = np.full(4, addend, of.numpy)
        want = [
            rounded(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)), of)
            for x, y, z in zip(a, b, c, strict=True)
        ]
        same(evaluate("fma", of, a, b, c), want, of)


def test_fma_beside_a_middle_that_f64_cannot_tell() -> None:
    """The exact sum lies above a middle by less than f64 sees; its neighbour is the middle."""
    a = np.array([1 + 2.0**-12], np.float32)
    above = np.array([2.0**-52 - 2.0**-76], np.float32)
    assert evaluate("fma", F32, a, a, above)[0] == np.float32(1 + 2.0**-11 + 2.0**-23)
    assert evaluate("fma", F32, a, a, -above)[0] == np.float32(1 + 2.0**-11)


def test_fma_f64_at_the_ends_of_its_range() -> None:
    """Products that overflow or underflow before the addend brings them back."""
    rng = random.Random(20)
    lanes = []
    for top in (1023, 1024, 1000, -960, -1022, -1074):
        for _ in range(150):
            ea = rng.randint(max(-1000, top - 1000), min(1000, top + 1000))
            a, b = (rng.uniform(1, 2) * rng.choice([1, -1]) for _ in range(2))
            near = top + rng.choice([-1, 0, 1, -53, -54, -106, -107])
            c = math.ldexp(rng.uniform(0.5, 1), min(near, 1024)) * rng.choice([1, -1])
            lanes.append((math.ldexp(a, ea), math.ldexp(b, top - ea), c))
    largest = math.ldexp(2 - 2.0**-52, 1023)
    lanes += [(2.0**485, 2.0**485 * k, largest) for k in (0.5, 1, 1.5, -1, -3)]
    a, b, c = (np.array(t) for t in zip(*lanes, strict=True))
    same(evaluate("fma", F64, a, b, c), [fma_reference(*lane, F64) for lane in lanes], F64)


def reference(name: str, a: float, b: float, to: Scalar) -> float:
    negative = (math.copysign(1, a) * math.copysign(1, b)) < 0
    if name in ("add", "sub"):
        b = -b if name == "sub" else b
        if not finite(a, b):
            return a + b
        minus = math.copysign(1, a) < 0 and math.copysign(1, b) < 0
        return rounded(Fraction(a) + Fraction(b), to, -1 if minus else 1)
    sign = -1 if negative else 1
    if name == "mul":
        return rounded(Fraction(a) * Fraction(b), to, sign) if finite(a, b) else a * b
    if math.isnan(a) or math.isnan(b) or (math.isinf(a) and math.isinf(b)) or (a == 0 == b):
        return math.nan
    if math.isinf(a) or b == 0:
        return math.copysign(math.inf, sign)
    return (
        math.copysign(0.0, sign) if math.isinf(b) else rounded(Fraction(a) / Fraction(b), to, sign)
    )


@pytest.mark.parametrize("of", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_arithmetic_rounds_once(name: str, of: Scalar) -> None:
    a, b = sample(of, 2000, 4), sample(of, 2000, 5)
    np.random.default_rng(6).shuffle(b)
    got = evaluate(name, of, a, b)
    pairs = zip(plain(a).tolist(), plain(b).tolist(), strict=True)
    same(got, [reference(name, x, y, of) for x, y in pairs], of)


@pytest.mark.parametrize("of", [F16, BF16], ids=str)
def test_small_quotients_round_once(of: Scalar) -> None:
    """Subnormal results, where the middle between neighbours has few bits."""
    least = 1 << (FORMATS[of.name][0] - 1)
    a = np.arange(1, 4 * least, dtype=np.uint16).view(of.numpy)
    for divisor in (1.5, 3.0, 7.0, 1.0009765625, 255.0):
        b = np.full(len(a), divisor, of.numpy)
        by = Fraction(float(b[0]))
        want = [rounded(Fraction(float(x)) / by, of) for x in a]
        same(evaluate("div", of, a, b), want, of)


def root(value: float, to: Scalar) -> float:
    """The rounded square root by integers: with its last bit sticky."""
    if value != value or value == 0 or value == math.inf:
        return value
    if value < 0:
        return math.nan
    scale = 700 if to is F64 else 200
    scaled = Fraction(value) * 4**scale
    whole = math.isqrt(int(scaled))
    sticky = Fraction(1, 2) if whole * whole != scaled else 0
    return rounded((whole + sticky) / Fraction(2) ** scale, to)


@pytest.mark.parametrize("of", [F16, BF16], ids=str)
def test_sqrt_of_every_16_bit_value(of: Scalar) -> None:
    values = every_code(of)
    positive = [root(float(v), of) for v in values[: 1 << 15]]
    same(evaluate("sqrt", of, values[: 1 << 15]), positive, of)
    rest = evaluate("sqrt", of, values[1 << 15 :])
    assert np.signbit(rest[0])
    assert rest[0] == 0
    assert np.isnan(plain(rest[1:])).all()


@pytest.mark.parametrize("of", [F32, F64], ids=str)
def test_sqrt_of_samples(of: Scalar) -> None:
    values = sample(of, 1000, 7)
    same(evaluate("sqrt", of, values), [root(v, of) for v in plain(values).tolist()], of)


@pytest.mark.parametrize("of", FLOATS, ids=str)
def test_integral_roundings(of: Scalar) -> None:
    values = every_code(of) if of.bits == 16 else sample(of, 3000, 8)
    numbers = plain(values).tolist()
    for name, function in (
        ("floor", math.floor), ("ceil", math.ceil), ("trunc", math.trunc), ("rint", round),
    ):  # fmt: skip
        want = [math.copysign(function(v), v) if math.isfinite(v) else v for v in numbers]
        same(evaluate(name, of, values), want, of)


@pytest.mark.parametrize("of", FLOATS, ids=str)
def test_sign_bits(of: Scalar) -> None:
    values, raw = sample(of, 500, 9), f"u{of.bytes}"
    bits = [int(v) for v in values.view(raw)]
    top = 1 << of.bits - 1
    assert [int(v) for v in evaluate("neg", of, values).view(raw)] == [b ^ top for b in bits]
    assert [int(v) for v in evaluate("abs", of, values).view(raw)] == [b & ~top for b in bits]


@pytest.mark.parametrize("of", FLOATS, ids=str)
def test_minimum_and_maximum(of: Scalar) -> None:
    special = np.array([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 2.5], of.numpy)
    a, b = (np.array(t, of.numpy) for t in zip(*itertools.product(special, special), strict=True))

    def order(x: float) -> tuple[float, float]:
        return (x, math.copysign(1, x))

    pairs = list(zip(plain(a).tolist(), plain(b).tolist(), strict=True))
    for name, best in (("min", min), ("max", max)):
        number = [
            math.nan
            if x != x and y != y
            else y
            if x != x
            else x
            if y != y
            else best(x, y, key=order)
            for x, y in pairs
        ]
        quiet = [
            math.nan if x != x or y != y else n for (x, y), n in zip(pairs, number, strict=True)
        ]
        same(evaluate(name, of, a, b), quiet, of)
        same(evaluate(f"{name}_number", of, a, b), number, of)


def test_nan_of_arithmetic_is_canonical_in_bits() -> None:
    canonical = {F16: 0x7E00, BF16: 0x7FC0, F32: 0x7FC00000, F64: 0x7FF8 << 48}
    for of, bits in canonical.items():
        to = SCALARS[f"u{of.bits}"]
        odd = np.array([bits | 5, bits | 1 << of.bits - 1, bits >> 1 | bits], to.numpy)
        got = evaluate("bitcast", to, odd.view(of.numpy), to=to)
        assert [int(v) for v in got] == [bits] * 3
        values = np.array([0.0, math.inf], of.numpy)
        made = evaluate("sub", of, values[1:], values[1:])
        assert int(evaluate("bitcast", to, made, to=to)[0]) == bits
    for f8, bits in ((F8E4M3, 0x7F), (F8E5M2, 0x7E)):
        nan = np.array([0xFF], np.uint8).view(f8.numpy)
        assert int(evaluate("bitcast", U8, nan, to=U8)[0]) == bits


def test_bitcast_to_float_and_back_keeps_bits() -> None:
    bits = np.array([0, 1, 0x80000001, 0x7F800000, 0x3F800000], np.uint32)
    floats = evaluate("bitcast", F32, bits, to=F32)
    assert floats.dtype == np.float32
    assert (evaluate("bitcast", U32, floats, to=U32) == bits).all()
    signalling = np.array([0x7FA00001], np.uint32)
    assert int(evaluate("bitcast", F32, signalling, to=F32).view(np.uint32)[0]) == 0x7FA00001


# ---- Python's // and % ---------------------------------------------------------------------


def bits64(values: list[float]) -> list[int]:
    return [int(b) for b in np.array(values).view(np.uint64)]


def test_float_floor_division_is_pythons() -> None:
    a, b = sample(F64, 4000, 10), sample(F64, 4000, 11)
    np.random.default_rng(12).shuffle(b)
    keep = np.isfinite(a) & np.isfinite(b) & (b != 0)
    a, b = a[keep], b[keep]
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    assert bits64(evaluate("floordiv", F64, a, b).tolist()) == bits64([x // y for x, y in pairs])
    assert bits64(evaluate("mod", F64, a, b).tolist()) == bits64([x % y for x, y in pairs])
    assert bits64(evaluate("rem", F64, a, b).tolist()) == bits64(
        [math.fmod(x, y) for x, y in pairs]
    )


@pytest.mark.parametrize("of", [F16, BF16, F32], ids=str)
def test_narrow_mod_is_exact_but_for_the_last_sum(of: Scalar) -> None:
    a, b = sample(of, 1500, 13), sample(of, 1500, 14)
    np.random.default_rng(15).shuffle(b)
    wide_a, wide_b = plain(a), plain(b)
    keep = np.isfinite(wide_a) & np.isfinite(wide_b) & (wide_b != 0)
    a, b, wide_a, wide_b = a[keep], b[keep], wide_a[keep], wide_b[keep]
    remainders, quotients = [], []
    for x, y in zip(wide_a.tolist(), wide_b.tolist(), strict=True):
        fx, fy = Fraction(x), Fraction(y)
        left = abs(fx) % abs(fy) * (-1 if x < 0 else 1)
        if left and (left < 0) != (y < 0):
            left += fy
        remainders.append(rounded(left, of, -1 if math.copysign(1, y) < 0 else 1))
        quotients.append(math.floor(fx / fy))
    same(evaluate("mod", of, a, b), remainders, of)
    got = evaluate("floordiv", of, a, b).astype(np.float64)
    small = np.array([abs(q) < 1 << FORMATS[of.name][0] - 3 for q in quotients])
    want = np.array([float(q) if s else 0 for q, s in zip(quotients, small, strict=True)])
    assert small.sum() > 200
    assert (got[small] == want[small]).all()
    with np.errstate(all="ignore"):
        whole = np.floor_divide(a.astype(np.float32), b.astype(np.float32)).astype(of.numpy)
    same(evaluate("floordiv", of, a, b), plain(whole).tolist(), of)


@pytest.mark.parametrize("of", FLOATS, ids=str)
def test_floor_division_by_zero_and_of_infinities(of: Scalar) -> None:
    a = np.array([1.0, -1.0, 0.0, math.inf, 5.0, -5.0], of.numpy)
    b = np.array([0.0, 0.0, 0.0, 2.0, math.inf, math.inf], of.numpy)
    same(evaluate("floordiv", of, a, b), [math.inf, -math.inf, math.nan, math.nan, 0.0, -1.0], of)
    same(evaluate("mod", of, a, b), [math.nan] * 4 + [5.0, math.inf], of)


# ---- integers ------------------------------------------------------------------------------


def wrap(value: int, of: Scalar) -> int:
    value &= (1 << of.bits) - 1
    return value - (1 << of.bits) if of.signed and value >> of.bits - 1 else value


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGER_OPS = {
    "add": lambda a, b, of: a + b,
    "sub": lambda a, b, of: a - b,
    "mul": lambda a, b, of: a * b,
    "div": lambda a, b, of: truncated(a, b) if b else 0,
    "rem": lambda a, b, of: a - truncated(a, b) * b if b else 0,
    "floordiv": lambda a, b, of: a // b if b else 0,
    "mod": lambda a, b, of: a % b if b else 0,
    "min": lambda a, b, of: min(a, b),
    "max": lambda a, b, of: max(a, b),
    "and": lambda a, b, of: a & b,
    "or": lambda a, b, of: a | b,
    "xor": lambda a, b, of: a ^ b,
    "shl": lambda a, b, of: a << b % of.bits,
    "shr": lambda a, b, of: a >> b % of.bits,
    "mul_hi": lambda a, b, of: a * b >> of.bits,
}


@pytest.mark.parametrize("of", INTS, ids=str)
@pytest.mark.parametrize("name", INTEGER_OPS)
def test_integer_pairs(name: str, of: Scalar) -> None:
    """Every pair of 8-bit operands; edges and random pairs of the wider ones."""
    values = every_code(of) if of.bits == 8 else sample(of, 20, 16)
    a, b = (t.ravel() for t in np.meshgrid(values, values))
    function = INTEGER_OPS[name]
    got = evaluate(name, of, a, b)
    assert got.dtype == of.numpy
    want = [wrap(function(x, y, of), of) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert got.tolist() == want


@pytest.mark.parametrize("of", INTS, ids=str)
def test_integer_unary(of: Scalar) -> None:
    values = every_code(of) if of.bits == 8 else sample(of, 300, 17)
    numbers, mask = values.tolist(), (1 << of.bits) - 1
    for name, function in {
        "neg": lambda v: -v,
        "abs": abs,
        "not": lambda v: ~v,
        "popcount": lambda v: (v & mask).bit_count(),
        "clz": lambda v: of.bits - (v & mask).bit_length(),
    }.items():
        assert evaluate(name, of, values).tolist() == [wrap(function(v), of) for v in numbers]


def test_comparisons_and_bools() -> None:
    nan = np.array([math.nan, 1.0], np.float32)
    one = np.array([1.0, 1.0], np.float32)
    expected = {"eq": [0, 1], "ne": [1, 0], "lt": [0, 0], "le": [0, 1], "gt": [0, 0], "ge": [0, 1]}
    for name, want in expected.items():
        assert evaluate(name, SCALARS["bool"], nan, one).tolist() == [bool(w) for w in want]
    true = np.array([True, True, False, False])
    other = np.array([True, False, True, False])
    assert evaluate("xor", SCALARS["bool"], true, other).tolist() == [False, True, True, False]
    assert evaluate("not", SCALARS["bool"], true).tolist() == [False, False, True, True]


# ---- conversions ---------------------------------------------------------------------------


def convert_reference(value: float | bool, to: Scalar) -> float | int | bool:
    if to.kind == "bool":
        return value != 0
    if to.is_int:
        if isinstance(value, int):
            return wrap(int(value), to)
        if math.isnan(value):
            return 0
        low = -(1 << to.bits - 1) if to.signed else 0
        high = (1 << to.bits - to.signed) - 1
        if math.isinf(value):
            return high if value > 0 else low
        return min(max(math.trunc(value), low), high)
    if isinstance(value, float) and not math.isfinite(value):
        largest = {"f8e4m3": 448.0, "f8e5m2": 57344.0}.get(to.name)
        return math.copysign(largest, value) if largest and math.isinf(value) else value
    sign = math.copysign(1, value) if isinstance(value, float) else 1
    return rounded(Fraction(value), to, -1 if sign < 0 else 1)


def long_integers(of: Scalar) -> np.ndarray:
    """Integers on and beside the middle of two floats, for every precision."""
    values = [
        sign * (((1 << precision) + odd << shift) + nudge)
        for precision in (3, 4, 8, 11, 24, 53)
        for shift in range(1, 64 - precision)
        for odd, nudge, sign in itertools.product((1, 3), (-1024, -1, 0, 1, 1024), (1, -1))
    ]
    low = -(1 << of.bits - 1) if of.signed else 0
    high = (1 << of.bits - of.signed) - 1
    return np.array([v for v in values if low <= v <= high], of.numpy)


@pytest.mark.parametrize("to", SCALARS.values(), ids=str)
@pytest.mark.parametrize("of", SCALARS.values(), ids=str)
def test_every_conversion(of: Scalar, to: Scalar) -> None:
    if of.kind == "bool":
        values = np.array([False, True])
    elif of.bits == 8:
        values = every_code(of)
    elif of.is_int:
        values = np.concatenate([sample(of, 100, 18), long_integers(of)])
    else:
        values = sample(of, 1000, 19)
    numbers = plain(values).tolist() if of.kind == "f8" or of.is_float else values.tolist()
    got = evaluate("cast", to, values, to=to)
    want = [convert_reference(v, to) if of != to else v for v in numbers]
    if to.is_int or to.kind == "bool":
        assert got.dtype == to.numpy
        assert got.tolist() == want
    else:
        same(got, [float(w) for w in want], to)


@pytest.mark.parametrize("of", [F32, F64], ids=str)
@pytest.mark.parametrize("to", [F16, BF16, F8E4M3, F8E5M2], ids=str)
def test_narrowing_beside_every_middle(of: Scalar, to: Scalar) -> None:
    """The middle of any two neighbours goes to the even code, its neighbours to theirs."""
    codes = every_code(to)
    numbers = plain(codes)
    finite_codes = np.flatnonzero(np.isfinite(numbers[: len(codes) // 2]))
    low = finite_codes[:-1]
    middle = ((numbers[low] + numbers[low + 1]) / 2).astype(of.numpy)
    assert (plain(middle) * 2 == numbers[low] + numbers[low + 1]).all()
    even = np.where(low % 2 == 0, low, low + 1)
    cases = (
        (middle, even),
        (np.nextafter(middle, of.numpy.type(-1)), low),
        (np.nextafter(middle, of.numpy.type(np.inf)), low + 1),
    )
    raw = f"u{to.bytes}"
    for values, want in cases:
        got = evaluate("cast", to, values, to=to).view(raw)
        assert (got == want).all()
        top = len(codes) // 2
        assert (evaluate("cast", to, -values, to=to).view(raw) == want + top).all()


def test_every_16_bit_float_survives_widening() -> None:
    for of, to in itertools.product((F16, BF16), (F32, F64)):
        values = every_code(of)
        wide = evaluate("cast", to, values, to=to)
        back = evaluate("cast", of, wide, to=of)
        nan = np.isnan(plain(values))
        assert (back.view(np.uint16)[~nan] == values.view(np.uint16)[~nan]).all()
        assert np.isnan(plain(back[nan])).all()


# ---- shapes --------------------------------------------------------------------------------


# `native` is its last operand, whatever that is
PURE = [s for s in ops.TABLE.values() if s.evaluate and s.name not in ("const", "select", "native")]


@pytest.mark.parametrize("spec", PURE, ids=lambda s: s.name)
def test_uniform_operands_give_what_lanes_give(spec: ops.Spec) -> None:
    """0-d operands stand for uniform values: any mixture gives the lanes' results."""
    random.seed(3)
    tried = 0
    for kind in SCALARS.values():
        kinds = [SCALARS.get(slot, kind) for slot in spec.operands]
        to = SCALARS[f"u{kind.bytes * 8}"] if spec.name == "bitcast" else F16
        attrs = {"to": to} if "to" in spec.attrs else {}
        try:
            (result,) = ops.infer(spec, kinds, attrs)
        except ops.RuleError:
            continue
        assert isinstance(result, Scalar)
        scalars = [np.array(random.randint(1, 9), k.numpy) for k in kinds]
        same_for_every_mixture(spec, attrs, result, scalars)
        tried += 1
    assert tried


def same_for_every_mixture(
    spec: ops.Spec, attrs: dict[str, Scalar], result: Scalar, scalars: list[np.ndarray]
) -> None:
    wide = evaluate(spec.name, result, *(np.full(5, s, s.dtype) for s in scalars), **attrs)
    for uniform in itertools.product((False, True), repeat=len(scalars)):
        lanes = [s if u else np.full(5, s, s.dtype) for s, u in zip(scalars, uniform, strict=True)]
        got = evaluate(spec.name, result, *lanes, **attrs)
        assert isinstance(got, np.ndarray)
        assert got.ndim == (0 if all(uniform) else 1)
        assert np.broadcast_to(got, 5).tobytes() == wide.tobytes()
        assert got.dtype == result.numpy


def test_subnormals_are_kept() -> None:
    for of in FLOATS:
        least = np.array([1], f"u{of.bytes}").view(of.numpy)
        assert (evaluate("add", of, least, least).view(f"u{of.bytes}") == 2).all()
        half = np.array([0.5], of.numpy)
        assert evaluate("mul", of, least, half)[0] == 0
        smallest = np.array([1 << FORMATS[of.name][0] - 1], f"u{of.bytes}").view(of.numpy)
        halved = evaluate("mul", of, smallest, half).view(f"u{of.bytes}")
        assert int(halved[0]) == 1 << FORMATS[of.name][0] - 2


def test_no_contraction() -> None:
    """a*b + c rounds twice unless it is written as fma."""
    a = np.array([1 + 2.0**-12], np.float32)
    c = np.array([-(1 + 2.0**-11)], np.float32)
    product = evaluate("mul", F32, a, a)
    assert evaluate("add", F32, product, c)[0] == 0
    assert evaluate("fma", F32, a, a, c)[0] == np.float32(2.0**-24)


def test_const_gives_its_bits() -> None:
    for of, bits in ((F32, 0x7FA00001), (I8, 0x80), (U64, (1 << 64) - 1), (F8E4M3, 0x7E)):
        got = numerics.const({"bits": bits}, of.numpy)
        assert got.ndim == 0
        assert int(got.view(f"u{of.bytes}")) == bits


def test_constants_round_once_and_saturate_as_cast_does() -> None:
    cases = [
        (BF16, 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-7),
        (F32, (1 << 53) + (1 << 29) + 1, float((1 << 53) + (1 << 30))),
        (F16, 65519.99, 65504.0), (F16, 65520, math.inf), (F8E4M3, 1e9, 448.0),
        (F8E5M2, -math.inf, -57344.0), (F64, (1 << 63) + 1, 2.0**63),
    ]  # fmt: skip
    for kind, given, want in cases:
        assert value_of(kind, bits_of(kind, given)) == want, (kind, given)
