"""Helper functions, captured values, methods, statics, and what a trace depends on."""

# ruff: noqa: RET503, RET505 - the helpers show Python as users write it

import math
from typing import NamedTuple

import numpy as np
import pytest
from frontend_tools import argument_of, run, same_as_python, traced

import hetir.lang as hl
from hetir.frontend import Static, func, parameters, parse_signature, record, trace
from hetir.frontend.errors import (
    CallError,
    RecursionRefusedError,
    ReturnError,
    SignatureError,
)
from hetir.ir import ops
from hetir.ir.core import walk
from hetir.ir.types import SCALARS, ArrayType

SCALE = 3
TABLE = (1.0, 0.5, 0.25)


def clamp01(v):
    if v < 0:
        return 0
    if v > 1:
        return 1.0
    return v


def find(x, wanted):
    for i in range(len(x)):
        if x[i] == wanted:
            return i
    return -1


def first_above(x, limit):
    i = 0
    while True:
        if x[i] > limit:
            return x[i]
        i += 1


def minmax(x):
    low = high = x[0]
    for i in range(1, len(x)):
        low, high = min(low, x[i]), max(high, x[i])
    return low, high


class Stats(NamedTuple):
    total: object
    count: int


def stats(x, scale=2, *, bias=0):
    total = 0
    for i in range(len(x)):
        total += x[i] * scale + bias
    return Stats(total, 3)


def fill(x, value):
    for i in range(len(x)):
        if i == 3:
            return
        x[i] = value


def longest(a, b):
    return a if len(a) > len(b) else b


def tail(x, n):
    return x[n:]


def variadic(first, *rest):
    for v in rest:
        first += v
    return first


def sign_or_zero(v):
    if v > 0:
        return 1
    elif v < 0:
        return -1
    return 0


def early_returns(x, y):
    for i in range(len(x)):
        y[i] = clamp01(x[i]) + sign_or_zero(x[i])


def search(x, y):
    y[0] = find(x, 2.5)
    y[1] = find(x, 77)
    y[2] = first_above(x, 2)


def tuples(x, y):
    low, high = minmax(x)
    y[0] = high - low
    s = stats(x, bias=1)
    y[1] = s.total
    y[2] = s.count
    y[3] = stats(x, scale=x[0]).total


def nothing_returned(x, y):
    fill(y, x[1])
    fill(y[1:], 9)


def arrays_returned(x, y):
    longest(y, x[:2])[0] = 5
    y[1] = tail(x, 2)[0] + tail(tail(x, 1), 1)[1]
    y[2] = variadic(x[0], x[1], 2, 0.5)


def recursion_free_chain(x, y):
    y[0] = clamp01(clamp01(x[0]) + clamp01(x[1])) + math.floor(2.7) + int(math.sqrt(SCALE * 3))


@pytest.mark.parametrize("kernel", [
    early_returns, search, tuples, nothing_returned, arrays_returned, recursion_free_chain,
], ids=lambda k: k.__name__)  # fmt: skip
def test_like_python(kernel):
    same_as_python(kernel, np.array([0.25, -3, 2.5, 7]), np.zeros(4))


def calls(module):
    kernels = [op for k in module.kernels for op in walk(k.body)]
    return [str(op.attrs["callee"]) for op in kernels if op.spec is ops.CALL]


def test_a_helper_is_read_once_for_each_kind_of_arguments():
    def kernel(x, h, y):
        y[0] = clamp01(x[0]) + clamp01(x[1]) + clamp01(h[0]) + clamp01(x[2])

    module = traced(kernel, np.ones(3), np.ones(1, np.float16), np.ones(1))
    assert calls(module) == ["clamp01", "clamp01", "clamp01_1", "clamp01"]
    assert [f.name for f in module.functions] == ["clamp01", "clamp01_1"]
    assert [str(f.results[0]) for f in module.functions] == ["f64", "f16"]


def test_a_helper_of_constants_makes_no_call():
    def tile(n):
        k = 1
        for _ in hl.static_range(n):
            k = k * 2
        return k

    def kernel(y):
        hl.static_assert(hl.shared(tile(3), hl.f32).shape[0] == 8)
        y[0] = tile(2)

    module = traced(kernel, np.ones(1))
    assert calls(module) == []
    assert module.functions == ()


def test_helpers_take_functions_types_and_tuples():
    def twice(f, v):
        return f(f(v))

    def halve(v):
        return v / 2

    def zero_like(x, dtype):
        return dtype(0) + x

    def total(pair):
        return pair[0] + pair[1].total

    def kernel(x, y):
        y[0] = twice(halve, x[0]) + twice(clamp01, x[1])
        hl.static_assert(zero_like(x[0].to(hl.i8), hl.i32).dtype == hl.i32)
        y[1] = total((x[0], Stats(x[1], 0)))

    x, y = np.array([6.0, 4.0]), np.zeros(2)
    run(kernel, x, y)
    np.testing.assert_array_equal(y, [6 / 4 + 1, 10])


def test_marked_helpers_work_in_kernels_and_outside():
    @func
    def square(v):
        """The square."""
        return v * v

    def kernel(y):
        y[0] = square(y[0])

    y = np.array([3.0])
    run(kernel, y)
    assert y[0] == square(3.0) == 9
    assert square.__name__ == "square"
    assert square.__doc__ == "The square."


def test_closures_and_module_constants_are_captured_by_value():
    factor = 5

    def scaled(v):
        return v * factor + SCALE

    def kernel(y):
        y[0] = scaled(y[0]) + TABLE[1]

    found = record(kernel, (ArrayType(SCALARS["f32"], 1),))
    names = {capture.name: capture.value for capture in found.captures}
    assert names["factor"] == 5
    assert names["SCALE"] == 3
    assert names["TABLE"] == TABLE
    assert not found.stale
    factor = 6
    assert found.stale


def test_a_changed_helper_constant_or_attribute_is_stale():
    class Config:
        tile = 4

    scope = {"config": Config(), "limits": [1, 2]}
    text = (
        "def helper(v):\n    return v + 1\n"
        "def kernel(y):\n    y[0] = helper(y[0]) + config.tile + limits[1]\n"
    )
    define(text, scope)
    found = record(scope["kernel"], (ArrayType(SCALARS["f32"], 1),))
    assert not found.stale
    scope["config"].tile = 5
    assert found.stale
    scope["config"].tile = 4
    assert not found.stale
    scope["limits"].append(3)
    assert found.stale
    scope["limits"].pop()
    old = scope["helper"].__code__
    scope["helper"].__code__ = (lambda v: v + 2).__code__
    assert found.stale
    scope["helper"].__code__ = old
    assert not found.stale
    define("def helper(v):\n    return v + 3\n", scope)
    assert found.stale


def define(text, scope):
    import linecache

    name = f"<test {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), scope)


def test_a_global_defined_later_is_found():
    scope = {}
    define("def kernel(y):\n    y[0] = LATER\n", scope)
    with pytest.raises(Exception, match="`LATER` is not defined"):
        traced(scope["kernel"], np.ones(1))
    scope["LATER"] = 4
    y = np.ones(1)
    run(scope["kernel"], y)
    assert y[0] == 4


class Model:
    """A class with a kernel as method."""

    def __init__(self, n):
        self.n = n

    @property
    def double(self):
        return 2 * self.n

    def scale(self, v):
        return v * self.double

    def kernel(self, y):
        y[0] = self.scale(y[0])


def test_methods_are_kernels_and_helpers():
    model = Model(4)
    found = record(model.kernel, (ArrayType(SCALARS["f64"], 1),))
    assert [p.source for p in found.module.kernels[0].params] == [(1,)]
    assert not found.stale
    model.n = 5
    assert found.stale
    y = np.array([1.5])
    run(Model.kernel, Static(model), y)
    assert y[0] == 15


def test_recursion_is_refused():
    def factorial(v):
        return 1 if v < 2 else v * factorial(v - 1)

    def kernel(y):
        y[0] = factorial(y[0])

    with pytest.raises(RecursionRefusedError, match="`factorial` calls itself") as caught:
        traced(kernel, np.ones(1))
    loc = caught.value.labels[0].loc
    assert loc.caller is not None
    assert loc.caller.source().strip() == "y[0] = factorial(y[0])"


def test_recursion_over_constants_ends_or_is_refused():
    def power(v, n):
        return v if n == 1 else v * power(v, n - 1)

    def endless(v, n):
        return endless(v, n + 1)

    def kernel(y):
        y[0] = power(y[0], 5)

    def bad(y):
        y[0] = endless(y[0], 0)

    y = np.array([3.0])
    run(kernel, y)
    assert y[0] == 243
    with pytest.raises(RecursionRefusedError):
        traced(bad, y)


def test_returns_that_do_not_agree():
    def sometimes(v):
        if v > 0:
            return v

    def other_category(v):
        if v > 0:
            return v
        return hl.i32(3)

    def lengths(v):
        if v > 0:
            return v, v
        return v, v, v

    for helper in (sometimes, other_category, lengths):

        def kernel(y, helper: hl.static):
            helper(y[0])

        with pytest.raises(ReturnError, match="depending on the path"):
            traced(kernel, np.ones(1), Static(helper))


def test_wrong_arguments_of_a_call():
    def kernel(y):
        y[0] = clamp01()

    def unknown(y):
        y[0] = clamp01(v=1, w=2)

    for bad in (kernel, unknown):
        with pytest.raises(CallError, match="`clamp01`"):
            traced(bad, np.ones(1))


def test_an_error_in_a_helper_shows_the_chain_of_callers():
    def inner(v):
        return v.shape

    def outer(v):
        return inner(v)

    def kernel(y):
        outer(y[0])

    with pytest.raises(Exception, match="has no attribute `shape`") as caught:
        traced(kernel, np.ones(1))
    text = str(caught.value)
    assert text.count("called from here") == 2
    assert text.index("return v.shape") < text.index("inner(v)\n") < text.index("outer(y[0])\n")


# ---- parameters ----------------------------------------------------------------------------


def test_parameters_and_text_annotations():
    def kernel(a: "hl.f32", x: hl.Array[hl.f16, 2], n: hl.static, b: int, c=3, d: "No" = 4):  # noqa: F821
        pass

    found = parameters(kernel)
    assert [p.name for p in found] == ["a", "x", "n", "b", "c", "d"]
    assert found[0].annotation == SCALARS["f32"]
    assert found[1].annotation == ArrayType(SCALARS["f16"], 2)
    assert repr(found[2].annotation) == "hl.static"
    assert [p.annotation for p in found[3:]] == [None] * 3
    assert found[4].default == 3


def test_annotations_decide_and_defaults_fill_in():
    def kernel(y, a: hl.f64, n=3):
        hl.static_assert(n == 3)
        y[0] = a * n

    module = traced(kernel, np.ones(1), 2)
    assert [str(p.value.type) for p in module.kernels[0].params][1] == "f64"


def test_arguments_that_do_not_fit():
    def kernel(a: hl.i32, x: hl.Array[hl.f32, 1], n: hl.static):
        pass

    array = ArrayType(SCALARS["f32"], 1)
    good = (SCALARS["i32"], array, Static(1))
    trace(kernel, good)
    for bad in [
        good[:2],
        (*good, array),
        (SCALARS["f32"], *good[1:]),
        (argument_of(1.5), *good[1:]),
        (good[0], ArrayType(SCALARS["f64"], 1), good[2]),
        (good[0], ArrayType(SCALARS["f32"], 2), good[2]),
        (*good[:2], argument_of(3)),
        (array, *good[1:]),
    ]:
        with pytest.raises(SignatureError):
            trace(kernel, bad)


def test_star_parameters_are_refused():
    def many(*x):
        pass

    def named(*, x):
        pass

    for kernel in (many, named):
        with pytest.raises(SignatureError, match="must be an ordinary one"):
            trace(kernel, (ArrayType(SCALARS["f32"], 1),))


@pytest.mark.parametrize(("text", "wanted"), [
    ("", []),
    ("f32, f32[:], i64", ["f32", "array<f32[?], global>", "i64"]),
    ("f32[:,:],bool", ["array<f32[?, ?], global>", "bool"]),
    ("f16[:, ::1], bool_", ["array<f16[?, ?:1], global>", "bool"]),
    ("f8e4m3[]", ["array<f8e4m3[], global>"]),
    ("int, float, 16, -2.5, 'a, b', True", [
        "Weak(kind='int')", "Weak(kind='float')", "Static(value=16)", "Static(value=-2.5)",
        "Static(value='a, b')", "Static(value=True)",
    ]),
])  # fmt: skip
def test_signature_strings(text, wanted):
    assert [str(a) for a in parse_signature(text)] == wanted


@pytest.mark.parametrize("text", ["f33", "f32[", "f32[1]", "f32[::1, :]", "f32,,f32", "f32[:] x"])
def test_malformed_signatures(text):
    with pytest.raises(SignatureError):
        parse_signature(text)
