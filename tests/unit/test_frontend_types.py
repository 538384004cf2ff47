"""Types of expressions, by the table of the language: written out here, not computed."""

# ruff: noqa: SIM108, SIM300, UP037 - the kernels show Python as users write it

import math

import ml_dtypes
import numpy as np
import pytest
from frontend_tools import run, traced

import hetir.lang as hl
from hetir.diagnostics import HetirError
from hetir.frontend import Weak, trace
from hetir.frontend.errors import JoinError, NumberRangeError, OperandError
from hetir.frontend.promotion import promote
from hetir.ir.core import walk
from hetir.ir.types import SCALARS, ArrayType

S = SCALARS

JOINS = {
    ("i8", "i32"): "i32", ("i64", "i16"): "i64", ("u8", "u32"): "u32", ("i8", "u8"): "i16",
    ("u16", "i16"): "i32", ("i32", "u32"): "i64", ("i64", "u32"): "i64", ("u32", "i8"): "i64",
    ("i16", "u8"): "i16", ("i64", "u64"): None, ("i8", "u64"): None, ("bool", "bool"): "bool",
    ("bool", "u8"): "u8", ("bool", "f16"): "f16", ("i64", "f16"): "f16", ("u64", "bf16"): "bf16",
    ("i32", "f64"): "f64", ("f16", "bf16"): "f32", ("f16", "f32"): "f32", ("bf16", "f64"): "f64",
    ("f32", "f64"): "f64", ("f16", "f16"): "f16", ("u64", "u8"): "u64",
}  # fmt: skip


@pytest.mark.parametrize(("a", "b", "joined"), [(*k, v) for k, v in JOINS.items()])
def test_promotion_of_typed_values(a, b, joined):
    for x, y in ((a, b), (b, a)):
        found = promote(S[x], S[y])
        assert (found and found.name) == joined


def type_of(expression, *arguments):
    """The type of an expression, seen through `dtype` by a static assertion."""
    found = []

    def note(kind):
        found.append(kind)
        return True

    def kernel(a, b):
        hl.static_assert(note2(expression(a, b).dtype))

    note2 = Plain(note)
    trace(kernel, arguments)
    return found[-1].name


class Plain:
    """Called by Python itself while the kernel is read."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *arguments):
        return self.function(*arguments)


def add(a, b):
    return a + b


def divide(a, b):
    return a / b


def floor_divide(a, b):
    return a // b


def shift(a, b):
    return a << b


def both(a, b):
    return a & b


def less(a, b):
    return a < b


def plus_one(a, b):
    return a + 1


def plus_half(a, b):
    return 0.5 + a


def power(a, b):
    return a**3


def logical(a, b):
    return a and b


def choice(a, b):
    return a if b else 2


def rounded(a, b):
    return round(a)


def to_int(a, b):
    return int(a)


def to_float(a, b):
    return float(a)


def least(a, b):
    return min(a, b, 1)


def selected(a, b):
    return hl.where(a > 0, a, b)


def root(a, b):
    return hl.sqrt(a)


def inverse(a, b):
    return ~a


def negative(a, b):
    return -a


EXPRESSIONS = [
    (add, "i32", "i64", "i64"), (add, "f16", "bf16", "f32"), (add, "bool", "bool", "i64"),
    (add, "u8", "f16", "f16"), (divide, "i32", "i32", "f32"), (divide, "i64", "u8", "f32"),
    (divide, "f16", "i64", "f16"), (divide, "f64", "f32", "f64"),
    (floor_divide, "i8", "u8", "i16"), (floor_divide, "bool", "bool", "i64"),
    (shift, "i8", "i64", "i8"), (shift, "u32", "i8", "u32"), (both, "bool", "bool", "bool"),
    (both, "bool", "u16", "u16"), (less, "i32", "f64", "bool"), (less, "bool", "bool", "bool"),
    (plus_one, "u8", "u8", "u8"), (plus_one, "f16", "u8", "f16"), (plus_one, "bool", "u8", "i64"),
    (plus_half, "i64", "u8", "f32"), (plus_half, "bf16", "u8", "bf16"),
    (plus_half, "f64", "u8", "f64"), (plus_half, "bool", "u8", "f32"), (power, "i8", "i8", "i8"),
    (power, "f16", "f16", "f16"), (logical, "i32", "f32", "f32"), (choice, "f16", "i64", "f16"),
    (choice, "u8", "i64", "u8"), (rounded, "f16", "f16", "i64"), (rounded, "u8", "u8", "u8"),
    (to_int, "f64", "f64", "i64"), (to_int, "u16", "u16", "u16"), (to_int, "bool", "bool", "i64"),
    (to_float, "i64", "i64", "f32"), (to_float, "f64", "f64", "f64"), (least, "u8", "i8", "i16"),
    (selected, "i32", "f16", "f16"), (root, "i32", "i32", "f32"), (root, "f64", "f64", "f64"),
    (root, "f16", "f16", "f16"), (inverse, "bool", "bool", "bool"), (inverse, "u8", "u8", "u8"),
    (negative, "bool", "bool", "i64"), (negative, "u8", "u8", "u8"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "a", "b", "wanted"), EXPRESSIONS,
                         ids=lambda v: getattr(v, "__name__", v))  # fmt: skip
def test_type_of_expression(expression, a, b, wanted):
    assert type_of(expression, S[a], S[b]) == wanted


@pytest.mark.parametrize(("weak", "typed", "wanted"), [
    ("int", "u8", "u8"), ("int", "f16", "f16"), ("float", "f16", "f16"), ("float", "i64", "f32"),
    ("bool", "i8", "i8"), ("int", "bool", "i64"), ("float", "f64", "f64"),
])  # fmt: skip
def test_unannotated_scalars_take_the_typed_values_type(weak, typed, wanted):
    assert type_of(add, Weak(weak), S[typed]) == wanted
    assert type_of(add, S[typed], Weak(weak)) == wanted


@pytest.mark.parametrize(("a", "b", "wanted"), [
    ("int", "int", "i64"), ("int", "float", "f32"), ("bool", "bool", "i64"),
    ("float", "bool", "f32"),
])  # fmt: skip
def test_weak_values_that_meet_none_have_defaults(a, b, wanted):
    assert type_of(add, Weak(a), Weak(b)) == wanted
    assert type_of(divide, Weak(a), Weak(b)) == "f32"


def test_one_parameter_for_each_type_a_weak_argument_is_used_as():
    def kernel(a, x, y):
        x[0] = x[0] * a
        y[0] = y[0] * a + a

    x, y = np.ones(1, np.float32), np.ones(1, np.float64)
    module = traced(kernel, 0.1, x, y)
    params = module.kernels[0].params
    assert [(str(p.value.type), p.source) for p in params if p.source == (0,)] == [
        ("f32", (0,)),
        ("f64", (0,)),
    ]
    run(kernel, 0.1, x, y)
    assert x[0] == np.float32(0.1)
    assert y[0] == 0.1 + 0.1


def test_weak_arguments_lose_nothing_through_expressions_branches_and_helpers():
    def scaled(v, s):
        return v * (s * 2)

    def kernel(a, x):
        i = hl.global_id(0)
        b = a if i == 0 else 0.7
        if i < 2:
            c = a * 0.1
            if i == 1:
                c = 0.3
        elif i == 2:
            c = 0.2
        else:
            return
        x[i] = scaled(x[i], a) + b * c

    x = np.full(3, 3.0)
    run(kernel, 0.1, x, workgroup=4)
    cs, bs = [0.1 * 0.1, 0.3, 0.2], [0.1, 0.7, 0.7]
    np.testing.assert_array_equal(x, [3.0 * (0.1 * 2) + b * c for b, c in zip(bs, cs, strict=True)])


def test_unused_weak_argument_makes_no_parameter_and_an_unused_array_does():
    def kernel(a, x, y: hl.f32):
        pass

    params = traced(kernel, 1, np.ones(1), 2.0).kernels[0].params
    assert [p.source for p in params] == [(1,), (2,)]


def test_weak_integers_out_of_range_are_errors_and_casts_wrap():
    def bad(x):
        x[0] = x[0] + 300

    def negative(x):
        x[0] = x[0] * -1

    def compared(x):
        x[0] = 1 if x[0] < 256 else 0

    def cast(x):
        x[0] = hl.u8(300) + hl.u8(-1)

    x = np.zeros(1, np.uint8)
    for kernel in (bad, negative, compared):
        with pytest.raises(NumberRangeError, match="does not fit `u8`"):
            traced(kernel, x)
    run(cast, x)
    assert x[0] == (300 % 256 + 255) % 256


def test_a_store_converts():
    def kernel(x, f, i, b, h):
        f[0] = x[0]
        i[0] = x[1]
        i[1] = x[0]
        i[2] = x[2]
        b[0] = x[1]
        h[0] = x[3]
        i[3] = 2.9

    x = np.array([1e10, -2.75, math.nan, 0.1])
    f, i = np.zeros(1, np.float32), np.zeros(4, np.int32)
    b, h = np.zeros(1, np.bool_), np.zeros(1, np.float16)
    run(kernel, x, f, i, b, h)
    assert f[0] == np.float32(1e10)
    np.testing.assert_array_equal(i, [-2, 2**31 - 1, 0, 2])
    assert b[0]
    assert h[0] == np.float16(0.1)


def test_storage_types_convert_and_do_not_compute():
    def kernel(x, y):
        y[0] = x[0].to(hl.f32) * 2
        x[1] = y[1]

    def bad(x):
        x[0] = x[0] + x[1]

    x = np.array([1.5, 0], ml_dtypes.float8_e4m3fn)
    y = np.array([0, 1000.0], np.float32)
    run(kernel, x, y)
    assert y[0] == 3
    assert float(x[1]) == 448
    with pytest.raises(OperandError, match="only stores"):
        traced(bad, x)


def test_weak_accumulators_take_the_typed_values_type():
    def kernel(x, y):
        acc = 0
        low = 0.0
        for i in range(3):
            acc += x[i]
            low = min(low, x[i])
        hl.static_assert(acc.dtype == x.dtype)
        hl.static_assert(low.dtype == x.dtype)
        y[0] = acc
        y[1] = low

    for dtype in (np.float16, np.float32, np.float64):
        y = np.zeros(2)
        run(kernel, np.array([1.5, -2, 3], dtype), y)
        np.testing.assert_array_equal(y, [2.5, -2])


def test_integer_accumulators_keep_narrow_types_and_widen():
    def kernel(x, w, y):
        acc = 0
        for i in range(2):
            acc += x[i]
        hl.static_assert(acc.dtype == hl.u8)
        wide = x[0]
        for i in range(2):
            wide = wide + w[i]
        hl.static_assert(wide.dtype == hl.i32)
        y[0] = acc
        y[1] = wide

    y = np.zeros(2, np.int64)
    run(kernel, np.array([200, 100], np.uint8), np.array([1000, 1], np.int32), y)
    np.testing.assert_array_equal(y, [(200 + 100) % 256, 1201])


def test_counters_without_a_type_are_i64():
    def kernel(y, n):
        k = 0
        s = 1
        while k < n:
            k += 1
            s *= 3
        hl.static_assert(k.dtype == hl.i64)
        y[0] = s

    y = np.zeros(1, np.int64)
    run(kernel, y, 39)
    assert y[0] == 3**39


def test_change_of_category_is_an_error_that_names_both_assignments():
    def loop(x, n):
        acc = hl.i32(0)
        for i in range(n):
            acc = acc + x[i]
        x[0] = acc

    def branch(x, n):
        if n > 0:
            v = x[0]
        else:
            v = n + hl.i32(1)
        x[0] = v

    for kernel, lines in ((loop, 2), (branch, 2)):
        with pytest.raises(JoinError) as caught:
            traced(kernel, np.ones(1), 1)
        assert len(caught.value.labels) == lines
        assert caught.value.labels[0].loc.line != caught.value.labels[1].loc.line


def test_i64_with_u64_asks_for_a_cast():
    def kernel(x, y):
        x[0] = x[0] + y[0]

    with pytest.raises(OperandError, match="`i64` and `u64` have no common type"):
        traced(kernel, np.ones(1, np.int64), np.ones(1, np.uint64))


DIVISIONS = [(7, 2), (-7, 2), (7, -2), (-7, -2), (5, 0), (-5, 0), (0, 3), (-128, -1), (127, 1)]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_division_floors_and_truncates(dtype):
    def kernel(x, y, out):
        i = hl.global_id(0)
        out[i, 0] = x[i] // y[i]
        out[i, 1] = x[i] % y[i]
        out[i, 2] = hl.div(x[i], y[i])
        out[i, 3] = hl.rem(x[i], y[i])

    x, y = (np.array(v, dtype) for v in zip(*DIVISIONS, strict=True))
    if dtype != np.int8:
        x[7] = np.iinfo(dtype).min
    out = np.zeros((9, 4), dtype)
    run(kernel, x, y, out, workgroup=9)
    low = int(x[7])
    np.testing.assert_array_equal(out, [
        [3, 1, 3, 1], [-4, 1, -3, -1], [-4, -1, -3, 1], [3, -1, 3, -1], [0, 0, 0, 0], [0, 0, 0, 0],
        [0, 0, 0, 0], [low, 0, low, 0], [127, 0, 127, 0],
    ])  # fmt: skip


def test_shift_counts_are_taken_modulo_the_width():
    def kernel(x, n, y):
        i = hl.global_id(0)
        y[i, 0] = x[0] << n[i]
        y[i, 1] = x[0] >> n[i]
        y[i, 2] = x[0] << 33
        y[i, 3] = x[0] >> -1

    n = np.array([0, 1, 31, 32, 33, -1, 2**40 + 3], np.int64)
    x, y = np.array([-7], np.int32), np.zeros((7, 4), np.int32)
    run(kernel, x, n, y, workgroup=7)
    for row, count in zip(y, n, strict=True):
        by = int(count) % 32
        left = np.int64(-7 << by).astype(np.int32)
        assert list(row) == [left, -7 >> by, -14, -7 >> 31]


def test_chained_comparison_with_nan_and_mixed_signs():
    def kernel(x, u, y):
        y[0] = 1 if x[0] < 1 or x[0] >= 1 else 2
        y[1] = 1 if x[0] != x[0] else 2
        y[2] = 1 if -1 < u[0].to(hl.i64) else 2

    y = np.zeros(3, np.int32)
    run(kernel, np.array([math.nan]), np.array([3], np.uint32), y)
    np.testing.assert_array_equal(y, [2, 1, 1])


def test_numpy_scalars_and_math_constants_are_plain():
    half, three, tau = np.float64(0.5), np.int32(3), math.tau

    def kernel(x):
        x[0] = x[0] * half + three
        x[1] = math.pi * tau
        x[2] = np.float32(2.5)
        hl.static_assert((x[0] * half).dtype == hl.f32)

    x = np.full(3, 2.0, np.float32)
    run(kernel, x)
    np.testing.assert_array_equal(x, np.array([4, math.pi * math.tau, 2.5], np.float32))


def test_large_integers_and_infinities():
    def kernel(x, y):
        x[0] = 2**63 - 1
        x[1] = hl.i64(2**64 - 1)
        y[0] = math.inf
        y[1] = 10**30

    x, y = np.zeros(2, np.int64), np.zeros(2)
    run(kernel, x, y)
    np.testing.assert_array_equal(x, [2**63 - 1, -1])
    np.testing.assert_array_equal(y, [math.inf, 1e30])


def test_conditional_expression_promotes_across_categories():
    def kernel(x, i, y):
        y[0] = x[0] if i[0] > 0 else i[0]
        y[1] = i[0] and x[0]

    y = np.zeros(2)
    run(kernel, np.array([0.5]), np.array([-3], np.int32), y)
    np.testing.assert_array_equal(y, [-3, 0.5])


def test_annotated_assignment_converts():
    def kernel(x):
        a: hl.f32 = x[0]
        b: float = 0.1
        c: "anything" = 2  # noqa: F821
        d: hl.i8
        d = 5
        hl.static_assert(a.dtype == hl.f32)
        x[1] = a * b + c + d

    x = np.array([0.1, 0])
    run(kernel, x)
    assert x[1] == float(np.float32(np.float32(0.1) * np.float32(0.1)) + np.float32(7))


def test_every_type_is_callable_in_a_kernel():
    def kernel(x, y):
        y[0] = hl.i8(x[0]) + hl.u16(x[0]) + hl.f64(x[0]) + hl.bool_(x[0])
        y[1] = hl.cast(x[0], hl.i32) + x[0].to(hl.f16)

    y = np.zeros(2)
    run(kernel, np.array([3.75], np.float32), y)
    np.testing.assert_array_equal(y, [3 + 3 + 3.75 + 1, 6.75])


@pytest.mark.parametrize("kind", ["i8", "u8", "i32", "u64", "f16", "bf16", "f32", "f64"])
def test_casts_of_plain_floats_are_those_of_the_cast_op(kind):
    def kernel(x, y):
        for v in (300.7, -300.7, 1e20, -1e20, math.nan, math.inf, -math.inf, -0.5, 0):
            y[0] = dtype(v)
            y[1] = x[0].to(dtype)
            x[0] = v

    dtype = S[kind]
    ops = [
        op.name for op in walk(traced(kernel, np.ones(1), np.ones(2, dtype.numpy)).kernels[0].body)
    ]
    assert "const" in ops

    def compare(x, y, n: hl.static):
        y[0] = dtype(n)
        y[1] = x[0].to(dtype)

    from hetir.frontend import Static

    for value in (300.7, -300.7, 1e20, -1e20, math.nan, math.inf, -math.inf, -0.5, 0.0):
        y = np.zeros(2, dtype.numpy)
        run(compare, np.array([value]), y, Static(value))
        assert y[:1].tobytes() == y[1:].tobytes()


def test_only_hetir_errors_leave_for_bad_types():
    def kernel(x):
        x[0] = x[0] @ x[1]

    with pytest.raises(HetirError):
        trace(kernel, (ArrayType(S["f32"], 1),))


def test_weak_arguments_are_only_ever_converted_upwards_by_the_host():
    def kernel(x, i, a, n, flag):
        i[0] = a
        i[1] = n if a else 7
        x[0] = flag + a
        if n and flag:
            x[1] = n

    x, i = np.zeros(2), np.zeros(2, np.uint8)
    params = traced(kernel, x, i, 2.75, 9, True).kernels[0].params
    found = {(p.source[0], str(p.value.type)) for p in params[2:]}
    # no float comes as an integer or a bool; `n` and `flag` meet in `and` as integers
    assert found == {
        (2, "f32"), (2, "f64"), (3, "i64"), (3, "f64"), (4, "i64"), (4, "f64"),
    }  # fmt: skip
    run(kernel, x, i, 2.75, 9, True)
    np.testing.assert_array_equal(x, [3.75, 9])
    np.testing.assert_array_equal(i, [2, 9])
