"""Simplification: exact folding, time that grows with the kernel, and what must stay."""

import math
import time

import numpy as np
import pytest

from hetir import emulator
from hetir.ir import ops
from hetir.ir.build import Builder, value_of
from hetir.ir.core import Kernel, Param, Region, Value, walk
from hetir.ir.text import parse_kernel
from hetir.ir.types import F32, F64, I32, I64, SCALARS, array
from hetir.ir.verify import verify
from hetir.passes.fold import fold
from hetir.passes.identities import identities
from hetir.passes.simplify import PASSES, simplify


def kernel(fill, *types):
    """A kernel whose body `fill` writes; it gets a builder and the parameters."""
    values = [Value(t, f"p{n}") for n, t in enumerate(types)]
    builder = Builder()
    fill(builder, *values)
    builder.emit(ops.RETURN)
    params = tuple(Param(v, (n,)) for n, v in enumerate(values))
    return Kernel(name="k", params=params, body=builder.region())


def folded(spec, kind, numbers, **attrs):
    """The number that an op on constants folds to."""

    def fill(b, x):
        operands = [b.const(kind, n) for n in numbers]
        result = b.value(spec, *operands, **attrs)
        index = b.const(I64, 0)
        b.emit(ops.STORE, x, index, result)

    to = attrs.get("to") or (SCALARS["bool"] if spec.results == ("bool",) else kind)
    after = fold(kernel(fill, array(to, 1)))
    store = next(op for op in walk(after.body) if op.spec is ops.STORE)
    (made,) = [op for op in after.body.body if op.results == (store.operands[-1],)]
    assert made.spec is ops.CONST
    return value_of(to, made.attrs["bits"])


@pytest.mark.parametrize(
    ("name", "kind", "numbers", "expected"),
    [
        ("add", "i32", (2**31 - 1, 1), -(2**31)),
        ("mul", "u8", (200, 2), 144),
        ("div", "i32", (-7, 2), -3),
        ("rem", "i32", (-7, 2), -1),
        ("floordiv", "i32", (-7, 2), -4),
        ("mod", "i32", (-7, 2), 1),
        ("div", "i64", (5, 0), 0),
        ("mod", "i64", (5, 0), 0),
        ("div", "i32", (-(2**31), -1), -(2**31)),
        ("shl", "i32", (1, 33), 2),
        ("shr", "i8", (-128, 9), -64),
        ("shr", "u8", (128, 9), 64),
        ("mul_hi", "u64", (2**64 - 1, 2**64 - 1), 2**64 - 2),
        ("clz", "u32", (0,), 32),
        ("popcount", "i8", (-1,), 8),
        ("add", "f32", (0.1, 0.2), float(np.float32(0.1) + np.float32(0.2))),
        ("div", "f64", (1.0, 0.0), math.inf),
        ("min", "f32", (0.0, -0.0), -0.0),
        ("lt", "f32", (math.nan, 1.0), False),
        ("ne", "f32", (math.nan, math.nan), True),
        ("sqrt", "f64", (2.0,), math.sqrt(2)),
        ("rint", "f32", (2.5,), 2.0),
    ],
)
def test_folding(name, kind, numbers, expected):
    got = folded(ops.TABLE[name], SCALARS[kind], numbers)
    assert got == expected
    assert math.copysign(1, got) == math.copysign(1, expected)


def test_folded_casts():
    assert folded(ops.CAST, F32, (1e20,), to=I32) == 2**31 - 1
    assert folded(ops.CAST, F32, (math.nan,), to=I32) == 0
    assert folded(ops.CAST, I64, (2**32 + 5,), to=I32) == 5
    assert folded(ops.CAST, I64, (2**53 + 1,), to=F64) == 2.0**53


def test_nans_made_by_folding_are_canonical():
    def fill(b, x):
        zero = b.const(F32, 0.0)
        b.emit(ops.STORE, x, b.const(I64, 0), b.value(ops.DIV, zero, zero))

    after = fold(kernel(fill, array(F32, 1)))
    bits = [op.attrs["bits"] for op in after.body.body if op.spec is ops.CONST]
    assert 0x7FC00000 in bits


@pytest.mark.parametrize(
    "body",
    [
        "%z: f32 = const 0.0\n%r: f32 = add %f, %z",  # -0 + 0 is +0
        "%z: f32 = const -0.0\n%r: f32 = sub %f, %z",
        "%z: f32 = const 0.0\n%r: f32 = mul %f, %z",  # inf, nan and the sign of zero
        "%r: f32 = sub %f, %f",
        "%r: f32 = div %f, %f",
        "%a: f32 = add %f, %g\n%r: f32 = sub %a, %g",
        "%r: f32 = floordiv %f, %one",
        "%a: f32 = mul %f, %g\n%r: f32 = div %a, %g",
    ],
)
def test_floats_are_left_alone(body):
    head = "kernel k(%x: array<f32[?], global> from 0, %f: f32 from 1, %g: f32 from 2) {"
    text = f"{head}\n%one: f32 = const 1.0\n{body}\n%i: i64 = local_id axis=0\n"
    before = parse_kernel(f"{text}store %x, %i, %r\nreturn\n}}")
    assert identities(before) is before


def test_exact_float_identities():
    head = (
        "kernel k(%x: array<f32[?], global> from 0, %f: f32 from 1) {\n%i: i64 = local_id axis=0\n"
    )
    for line in ("add %f, %c", "add %c, %f", "mul %f, %d", "sub %f, %e", "div %f, %d"):
        text = "%c: f32 = const -0.0\n%d: f32 = const 1.0\n%e: f32 = const 0.0\n"
        after = simplify(
            parse_kernel(f"{head}{text}%r: f32 = {line}\nstore %x, %i, %r\nreturn\n}}")
        )
        assert [op.name for op in after.body.body] == ["local_id", "store", "return"]


def test_effects_stay():
    """Prints, checks, atomics, barriers and writes outlive every pass."""
    text = """kernel k(%x: array<i32[?], global> from 0, %v: i32 from 1, %c: bool from 2) {
      %i: i64 = local_id axis=0
      %old: i32 = atomic.rmw %x, %i, %v kind="add" order="relaxed" scope="device"
      print %old format="{}"
      assert %c message="no"
      fence order="acq_rel" scope="device"
      barrier scope=workgroup
      %seen: i32 = atomic.load %x, %i order="acquire" scope="device"
      store %x, %i, %v
      store %x, %i, %v
      return
    }"""
    before = parse_kernel(text)
    assert [op.name for op in simplify(before).body.body] == [op.name for op in before.body.body]


def long_kernel(count):
    """Straight code, branches and loops, none of which can go."""

    def fill(b, x, y):
        i = b.value(ops.GLOBAL_ID, axis=0)
        one, ten = b.const(I64, 1), b.const(I64, 10)
        value = b.value(ops.LOAD, x, i)
        for number in range(count // 10):
            at = b.value(ops.ADD, b.value(ops.MUL, i, ten), b.const(I64, number))
            value = b.value(ops.ADD, value, b.value(ops.LOAD, x, at))
            less = b.value(ops.LT, value, b.value(ops.LOAD, y, at))
            inner = Builder()
            inner.emit(ops.STORE, y, at, value)
            inner.emit(ops.YIELD)
            empty = Region((), (Builder().emit(ops.YIELD),))
            b.emit(ops.IF, less, types=(), regions=(inner.region(), empty))
        b.emit(ops.STORE, y, b.value(ops.ADD, i, one), value)

    return kernel(fill, array(F32, 1), array(F32, 1))


def test_time_grows_with_the_kernel():
    def seconds(count):
        item = long_kernel(count)
        best = math.inf
        for _ in range(2):
            begun = time.process_time()
            simplify(item)
            best = min(best, time.process_time() - begun)
        return best

    small, large = seconds(1000), seconds(10_000)
    assert large < 25 * small + 0.05
    assert large < 5


def test_deep_nesting():
    """100 loops inside each other, near the limit of the verifier."""

    def fill(b, x):
        zero, one, n = b.const(I64, 0), b.const(I64, 1), b.value(ops.DIM, x, axis=0)

        def nest(depth):
            inner, index = Builder(), Value(I64)
            if depth:
                body = nest(depth - 1)
                inner.emit(ops.FOR, zero, n, one, types=(), regions=(body,))
            inner.emit(ops.STORE, x, index, inner.value(ops.CAST, index, to=F32))
            inner.emit(ops.YIELD)
            return inner.region(index)

        b.emit(ops.FOR, zero, n, one, types=(), regions=(nest(100),))

    before = kernel(fill, array(F32, 1))
    after = simplify(before)
    data = np.full(1, -1, np.float32)
    assert not emulator.run(after, [data], (1, 1, 1), (1, 1, 1)).faults
    assert data[0] == 0


def test_unused_loops_go_with_what_they_carry():
    text = """kernel k(%x: array<i32[?], global> from 0, %n: i64 from 1, %v: i32 from 2) {
      %zero: i64 = const 0
      %one: i64 = const 1
      %r: i32 = for %zero, %n, %one, %v (%i: i64, %acc: i32) {
        %e: i32 = load %x, %i
        %s: i32 = add %acc, %e
        yield %s
      }
      return
    }"""
    assert [op.name for op in simplify(parse_kernel(text)).body.body] == ["return"]


def test_casts_through_floats_saturate():
    """i8 -4 as f16 as u64 is 0, and not 2**64 - 4; found by generated kernels."""
    text = """kernel k(%x: array<u64[?], global> from 0, %v: i8 from 1) {
      %i: i64 = local_id axis=0
      %f: f16 = cast %v
      %r: u64 = cast %f
      store %x, %i, %r
      return
    }"""
    data = np.ones(1, np.uint64)
    emulator.run(simplify(parse_kernel(text)), [data, np.int8(-4)], (1, 1, 1), (1, 1, 1))
    assert data[0] == 0


@pytest.mark.parametrize("kind", [SCALARS["u8"], SCALARS["i8"]], ids=str)
def test_the_magnitude_of_a_negated_integer(kind):
    """-x of an unsigned x is 2**8 - x, and its magnitude is itself."""

    def fill(b, x, y):
        i = b.value(ops.GLOBAL_ID, axis=0)
        negated = b.value(ops.NEG, b.value(ops.LOAD, x, i))
        b.emit(ops.STORE, y, i, b.value(ops.ABS, negated))

    x = np.arange(256).astype(kind.numpy)
    y = np.zeros_like(x)
    after = simplify(kernel(fill, array(kind, 1), array(kind, 1)))
    emulator.run(after, [x, y], (1, 1, 1), (256, 1, 1))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y, np.abs(-x))


BOTH_LEAVE = """
kernel k(%x: array<i64[?], global> from 0) {
  %i: i64 = local_id axis=0
  %p: array<i64[1], private> = alloc
  %zero: i64 = const 0
  store %p, %zero, %zero
  loop %zero (%n: i64) {
    %two: i64 = const 2
    %over: bool = ge %n, %two
    if %over {
      break
    } else {
      yield
    }
    %first: bool = eq %i, %zero
    if %first {
      %again: bool = eq %n, %two
      if %again {
        break
      } else {
        %seven: i64 = const 7
        store %p, %zero, %seven
        break
      }
      return
    } else {
      yield
    }
    %one: i64 = const 1
    %next: i64 = add %n, %one
    store %p, %zero, %next
    yield %next
  }
  %last: i64 = load %p, %zero
  store %x, %i, %last
  return
}
"""


@pytest.mark.parametrize("first", PASSES, ids=lambda p: p.__name__)
def test_a_branch_that_leaves_either_way(first):
    """Work-item 0 leaves in its first round with 7, the others after two: for any two passes."""
    for second in PASSES:
        after = second(first(parse_kernel(BOTH_LEAVE)))
        verify(after)
        x = np.zeros(3, np.int64)
        assert not emulator.run(after, [x], (1, 1, 1), (3, 1, 1)).faults
        assert x.tolist() == [7, 2, 2]
