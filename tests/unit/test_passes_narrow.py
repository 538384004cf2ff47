"""Ranges hold for every value of a run; narrowed kernels leave the evaluator's bits."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from hetir import testing
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, walk
from hetir.ir.types import I64, Scalar
from hetir.ir.verify import verify
from hetir.passes.expand_arrays import expand_arrays
from hetir.passes.narrow_indices import narrow_indices
from hetir.passes.ranges import Bounds, ranges
from hetir.passes.simplify import simplify
from hetir.testing.interpret import interpret

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
    "first", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in range(60, 3000, 60))]
)
def test_narrowed_kernels_leave_the_evaluators_bits(first: int) -> None:
    narrowed = 0
    for seed in range(first, first + 60):
        case, kernel, bounds = case_of(seed)
        made = narrow_indices(kernel, bounds)
        verify(made)
        narrowed += count(made) < count(kernel)
        found = case.run(testing.evaluator, made)
        wrong = testing.differences(case.run(testing.evaluator, kernel), found)
        assert not wrong, f"seed {seed}: {wrong}"
    assert narrowed > 40


def count(kernel: Kernel) -> int:
    """Arithmetic of 64 bits."""
    spec = (ops.ADD, ops.SUB, ops.MUL, ops.LT, ops.GE, ops.LE, ops.GT, ops.FOR, ops.MOD)
    return sum(op.spec in spec and op.operands[0].type == I64 for op in walk(kernel.body))


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in range(40, 800, 40))]
)
def test_every_value_of_a_run_lies_in_its_range(first: int) -> None:
    seen = 0
    for seed in range(first, first + 40):
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
    assert seen > 1000
