"""Ranges hold for every value of a run; narrowed kernels leave the evaluator's bits."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from hetir import compiler, library, runtime, testing
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Operation, Value, walk
from hetir.ir.types import I32, I64, U32, Scalar, array
from hetir.ir.verify import verify
from hetir.passes.expand_arrays import expand_arrays
from hetir.passes.narrow_indices import narrow_indices
from hetir.passes.ranges import Bounds, ranges
from hetir.passes.simplify import simplify
from hetir.testing.interpret import interpret
from tests.unit.cpu_support import kernel_of

MOST = (2**31 - 1, 65535, 65535)


def case_of(seed: int) -> tuple[testing.Case, Kernel, Bounds]:
    """A generated kernel, its form, and what its launch allows to assume."""
    case = testing.generate(random.Random(31_000 + seed).randrange)
    kernel = simplify(case.kernel) if seed % 2 else case.kernel
    fixed = case.workgroup if seed % 3 else None
    bits = 32 if seed % 5 else 64
    bounds = Bounds(index_bits=bits, workgroup=fixed, max_groups=MOST)
    return case, expand_arrays(kernel), bounds


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in range(40, 3000, 40))]
)
def test_narrowed_kernels_leave_the_evaluators_bits(first: int) -> None:
    narrowed = 0
    for seed in range(first, first + 40):
        case, kernel, bounds = case_of(seed)
        made = narrow_indices(kernel, bounds)
        verify(made)
        narrowed += count(made) < count(kernel)
        found = case.run(testing.evaluator, made)
        wrong = testing.differences(case.run(testing.evaluator, kernel), found)
        assert not wrong, f"seed {seed}: {wrong}"
    assert narrowed > 25


def count(kernel: Kernel) -> int:
    """Arithmetic of 64 bits."""
    spec = (ops.ADD, ops.SUB, ops.MUL, ops.LT, ops.GE, ops.LE, ops.GT, ops.FOR, ops.MOD)
    return sum(op.spec in spec and op.operands[0].type == I64 for op in walk(kernel.body))


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in range(24, 800, 24))]
)
def test_every_value_of_a_run_lies_in_its_range(first: int) -> None:
    seen = 0
    for seed in range(first, first + 24):
        case, _, bounds = case_of(seed)
        kernel = case.kernel
        found = ranges(kernel, bounds)

        def watch(op: Operation, _: Any, __: Any, results: list[Any], found: Any = found) -> None:
            nonlocal seen
            for value, got in zip(op.results, results, strict=False):
                if value in found and isinstance(value.type, Scalar):
                    low, high = found[value]
                    assert low <= int(np.asarray(got).ravel()[0]) <= high, (value, got)
                    seen += 1

        if any(op.spec is ops.SHUFFLE or "subgroup" in op.name for op in walk(kernel.body)):
            continue
        interpret(kernel, case.arguments(), case.grid, case.workgroup, watch)
    assert seen > 500


EDGES = (-(2**31), -(2**31) + 6, -1, 0, 1, 2**31 - 7, 2**31 - 1)


def counting(step: int, unsigned: bool) -> Kernel:
    """out[0, 1] = how often a loop between two 32-bit numbers runs (at most 9 times), index sum."""

    def build(b: Builder, out: Value, start: Value, stop: Value) -> None:
        index, count, total, body = Value(I64), Value(I64), Value(I64), Builder()
        more = body.value(ops.ADD, count, body.const(I64, 1))
        sums = body.value(ops.ADD, total, index)
        then, other = Builder(), Builder()
        then.emit(ops.BREAK, more, sums)
        other.emit(ops.YIELD)
        enough = body.value(ops.GE, more, body.const(I64, 9))
        body.emit(ops.IF, enough, types=(), regions=(then.region(), other.region()))
        body.emit(ops.YIELD, more, sums)
        ends = [b.value(ops.CAST, v, to=I64) for v in (start, stop)]
        zero = b.const(I64, 0)
        region = body.region(index, count, total)
        loop = b.emit(
            *(ops.FOR, *ends, b.const(I64, step), zero, zero), types=(I64, I64), regions=(region,)
        )
        for place, value in enumerate(loop.results):
            b.emit(ops.STORE, out, b.const(I64, place), value)

    kind = U32 if unsigned else I32
    return kernel_of(build, [array(I64, 1), kind, kind])


@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.parametrize("step", [1, 3, 2**30, -1, -5, -(2**30)])
def test_loops_at_the_ends_of_32_bits(step: int, unsigned: bool) -> None:
    """Python's own range, from and to every edge, whichever way the loop counts."""
    kernel = expand_arrays(counting(step, unsigned))
    made = narrow_indices(kernel, Bounds(index_bits=32, max_groups=MOST))
    verify(made)
    shift = 2**31 if unsigned else 0
    for start in EDGES:
        for stop in EDGES:
            ends = start + shift, stop + shift
            turns = list(itertools.islice(range(*ends, step), 9))
            out = np.zeros(2, np.int64)
            given = [np.uint32(e) if unsigned else np.int32(e) for e in ends]
            testing.evaluator(made, [out, *given], (1, 1, 1), (1, 1, 1))
            assert list(out) == [len(turns), sum(turns)], (ends, step)


def test_loops_between_small_numbers_count_in_32_bits() -> None:
    made = narrow_indices(expand_arrays(counting(1, False)), Bounds(index_bits=32))
    assert not any(op.spec is ops.FOR for op in walk(made.body))
    # one step past the end of i32 is compared, and does not fit
    kept = narrow_indices(expand_arrays(counting(3, False)), Bounds(index_bits=32))
    assert any(op.spec is ops.FOR for op in walk(kept.body))


def test_a_number_that_is_doubled_many_times_is_taken_apart_only_so_far() -> None:
    def build(b: Builder, out: Value) -> None:
        index = b.value(ops.GLOBAL_ID, axis=0)
        for _ in range(60):
            index = b.value(ops.AND, b.value(ops.ADD, index, index), b.const(I64, 7))
            index = b.value(ops.ADD, b.value(ops.ADD, index, index), b.value(ops.NEG, index))
        b.emit(ops.STORE, out, index, index)
        for _ in range(40):
            index = b.value(ops.ADD, index, index)
        b.emit(ops.STORE, out, b.value(ops.MUL, index, b.const(I64, 0)), b.const(I64, 5))

    made = narrow_indices(expand_arrays(kernel_of(build, [array(I64, 1)])), Bounds(index_bits=32))
    verify(made)
    out = np.zeros(8, np.int64)
    testing.evaluator(made, [out], (1, 1, 1), (2, 1, 1))
    assert out[0] == 5


@pytest.mark.parametrize("step", [1, 7])
def test_a_loop_that_starts_past_32_bits_runs_never(step: int) -> None:
    """Its low half alone would be a start before the end."""

    def build(b: Builder, out: Value, start: Value, stop: Value) -> None:
        index, count, body = Value(I64), Value(I64), Builder()
        body.emit(ops.YIELD, body.value(ops.ADD, count, body.const(I64, 1)))
        first = b.value(ops.AND, start, b.const(I64, (1 << 40) - 1))
        last = b.value(ops.MAX, b.value(ops.CAST, stop, to=I64), b.const(I64, 0))
        bounds = first, last, b.const(I64, step)
        region = body.region(index, count)
        loop = b.emit(ops.FOR, *bounds, b.const(I64, 0), types=(I64,), regions=(region,))
        b.emit(ops.STORE, out, b.const(I64, 0), loop.result)

    kernel = expand_arrays(kernel_of(build, [array(I64, 1), I64, I32]))
    made = narrow_indices(kernel, Bounds(index_bits=32))
    assert not any(op.spec is ops.FOR for op in walk(made.body))
    for start, stop in ((2**33 + 3, 10), (2**32, 1), (5, 40), (39, 40), (40, 40), (2**31, 0)):
        out = np.zeros(1, np.int64)
        testing.evaluator(made, [out, np.int64(start), np.int32(stop)], (1, 1, 1), (1, 1, 1))
        assert out[0] == len(range(start, stop, step))


@pytest.mark.parametrize("name", ["jacobi", "sobel", "transpose", "histogram", "nbody"])
def test_library_kernels_read_the_same_elements(name: str) -> None:
    """Neighbours in rows of run-time strides, tiles, and slices."""
    case = library.case(name, size=library.SMALL[name])
    for step in case.steps:
        values = tuple(map(runtime.as_operand, step.arguments))
        traced = compiler.record(step.kernel, step.kernel.specialise(values))
        workgroup = compiler.dims(step.workgroup)
        bounds = Bounds(index_bits=32, workgroup=workgroup, max_groups=MOST)
        kernel = expand_arrays(simplify(compiler.prepare(traced.module)))
        made = narrow_indices(kernel, bounds)
        verify(made)
        testing.evaluator(made, list(step.arguments), compiler.dims(step.grid), workgroup)
    assert case.error() <= case.tolerance


@pytest.mark.parametrize("bits", [32, 64])
def test_arrays_of_six_axes(bits: Any) -> None:
    def build(b: Builder, x: Value, y: Value) -> None:
        i, zero = b.value(ops.GLOBAL_ID, axis=0), b.const(I64, 0)
        last = b.value(ops.SUB, b.value(ops.DIM, x, axis=5), b.const(I64, 1))
        b.emit(ops.STORE, y, i, b.value(ops.LOAD, x, zero, i, zero, zero, zero, last))

    kernel = expand_arrays(kernel_of(build, [array(I32, 6), array(I32, 1)]))
    made = narrow_indices(kernel, Bounds(index_bits=bits))
    verify(made)
    x, y = np.arange(24, dtype=np.int32).reshape(1, 4, 1, 2, 1, 3), np.zeros(4, np.int32)
    testing.evaluator(made, [x, y], (1, 1, 1), (4, 1, 1))
    np.testing.assert_array_equal(y, x[0, :, 0, 0, 0, 2])
