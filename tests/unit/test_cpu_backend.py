"""The CPU backend end to end: objects linked with libc and libm alone, run on this machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Value
from hetir.ir.types import F32, array
from hetir.target import Assumptions
from tests.unit.cpu_support import kernel_of, run


def saxpy() -> Kernel:
    def build(b: Builder, a: Value, x: Value, y: Value) -> None:
        i = b.value(ops.GLOBAL_ID, axis=0)
        then, other = Builder(), Builder()
        product = then.value(ops.MUL, a, then.value(ops.LOAD, x, i))
        then.emit(ops.STORE, y, i, then.value(ops.ADD, product, then.value(ops.LOAD, y, i)))
        then.emit(ops.YIELD)
        other.emit(ops.YIELD)
        inside = b.value(ops.LT, i, b.value(ops.DIM, x, axis=0))
        b.emit(ops.IF, inside, types=(), regions=(then.region(), other.region()))

    contiguous = array(F32, 1, strides=(1,))
    return kernel_of(build, [F32, contiguous, contiguous])


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("disjoint", [False, True])
def test_saxpy(tmp_path: Path, level: int, disjoint: bool) -> None:
    x = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
    y = np.random.default_rng(2).standard_normal(1000).astype(np.float32)
    want = np.float32(1.7) * x + y
    args = (np.float32(1.7), x, y)
    run(
        saxpy(),
        args,
        (9, 1, 1),
        (128, 1, 1),
        tmp_path,
        pieces=3,
        optimise=level,
        assumptions=Assumptions(disjoint=disjoint),
    )
    np.testing.assert_array_equal(y, want)
