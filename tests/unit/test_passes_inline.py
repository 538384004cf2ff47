"""Inlining: calls of calls, locations with their callers, recursion, placeholders for arrays."""

import subprocess
import sys

import numpy as np
import pytest

from hetir import emulator
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Param, Region, Value, walk
from hetir.ir.text import parse_module
from hetir.ir.types import I64, U64, array
from hetir.ir.verify import verify
from hetir.passes.inline import RecursiveCallError, inline
from hetir.passes.lower_exits import lower_exits, trip_count

NESTED = """hetir 1
file 0 = "k.py"
func inner(%v: i64) -> i64 { @1:0-9
  %two: i64 = const 2 @2:4-5
  %r: i64 = mul %v, %two @2:4-9
  return %r
}
func outer(%v: i64) -> i64 { @4:0-9
  %a: i64 = call %v callee="inner" @5:4-12
  %b: i64 = call %a callee="inner" @6:4-12
  return %b
}
kernel k(%x: array<i64[?], global> from 0) {
  %i: i64 = local_id axis=0 @10:4-9
  %r: i64 = call %i callee="outer" @11:4-12
  store %x, %i, %r @12:4-9
  return
}
"""


def test_calls_of_calls():
    kernel = inline(parse_module(NESTED))
    verify(kernel)
    data = np.zeros(5, np.int64)
    assert not emulator.run(kernel, [data], (1, 1, 1), (5, 1, 1)).faults
    assert data.tolist() == [0, 4, 8, 12, 16]


def test_locations_say_who_called():
    kernel = inline(parse_module(NESTED))
    chains = []
    for op in walk(kernel.body):
        if op.spec is ops.MUL:
            loc, lines = op.loc, []
            while loc is not None:
                lines.append(loc.line)
                loc = loc.caller
            chains.append(lines)
    assert chains == [[2, 5, 11], [2, 6, 11]]


def test_recursion_is_refused():
    text = NESTED.replace("%r: i64 = mul %v, %two", '%r: i64 = call %v callee="outer"')
    with pytest.raises(RecursiveCallError, match="`outer` calls itself"):
        inline(parse_module(text))


def test_the_kernel_is_chosen_by_name():
    second = "kernel other(%n: i64 from 0) {\n  return\n}\n"
    module = parse_module(NESTED + second)
    assert inline(module, "other").name == "other"
    with pytest.raises(ValueError, match="2 kernels"):
        inline(module)


def test_a_function_that_returns_arrays_early():
    """The value for the path that does not return is made from a parameter."""
    text = """hetir 1
func pick(%x: array<i32[?, ?], global>, %n: i64) -> array<i32[?], global> {
  %zero: i64 = const 0
  %one: i64 = const 1
  %width: i64 = dim %x axis=1
  for %zero, %n, %one (%i: i64) {
    %row: array<i32[?], global> = view %x, %i, %zero, %width steps=[0, 1]
    %v: i32 = load %row, %zero
    %want: i32 = const 7
    %same: bool = eq %v, %want
    if %same {
      return %row
    } else {
      yield
    }
    yield
  }
  %last: array<i32[?], global> = view %x, %zero, %zero, %width steps=[0, 1]
  return %last
}
kernel k(%x: array<i32[?, ?], global> from 0, %y: array<i32[?], global> from 1) {
  %i: i64 = local_id axis=0
  %n: i64 = dim %x axis=0
  %row: array<i32[?], global> = call %x, %n callee="pick"
  %one: i64 = const 1
  %v: i32 = load %row, %one
  store %y, %i, %v
  return
}
"""
    kernel = inline(parse_module(text))
    for form in (kernel, lower_exits(kernel)):
        verify(form)
        x = np.array([[1, 10], [7, 20], [7, 30]], np.int32)
        y = np.zeros(2, np.int32)
        assert not emulator.run(form, [x, y], (1, 1, 1), (2, 1, 1)).faults
        assert y.tolist() == [20, 20]


LIMITS = [-(2**63), -(2**63) + 1, -7, -1, 0, 1, 2, 5, 7, 2**62, 2**63 - 2, 2**63 - 1]


def test_trip_counts_are_exact():
    """For all bounds: Python's own range says how often it runs."""
    values = [Value(I64) for _ in range(3)]
    out = Value(array(U64, 1))
    body = []
    count = trip_count(*values, body, None)
    builder = Builder()
    builder.body = body
    builder.emit(ops.STORE, out, builder.const(I64, 0), count)
    builder.emit(ops.RETURN)
    params = tuple(Param(v, (n,)) for n, v in enumerate((*values, out)))
    kernel = Kernel(name="k", params=params, body=Region((), tuple(builder.body)))
    random = np.random.default_rng(1)
    for start in LIMITS:
        for stop in LIMITS:
            for step in random.choice(LIMITS, 3).tolist():
                data = np.zeros(1, np.uint64)
                numbers = [np.int64(v) for v in (start, stop, step)]
                emulator.run(kernel, [*numbers, data], (1, 1, 1), (1, 1, 1))
                numbers = range(start, stop, step) if step else range(0)
                # len() stops at 2**63 - 1
                want = (numbers[-1] - numbers[0]) // step + 1 if numbers else 0
                assert int(data[0]) == want, (start, stop, step)


def test_hypothesis_is_needed_by_the_tests_alone():
    code = (
        "import sys, hetir.compiler, hetir.passes.simplify; assert 'hypothesis' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
