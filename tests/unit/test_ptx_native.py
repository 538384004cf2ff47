"""`math="native"` on PTX: each function's instruction, and PTX's own bound on its error.

The emulator stays inside the bounds without having the device's bits; what is tested here is that
the code asks for the right function of the right argument, and that ptxas takes it.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import hetir
from hetir.backends.ptx.native import INSTRUCTIONS
from hetir.ir import ops
from tests.unit.ptx_support import CHIPS, assemble_together
from tests.unit.test_math_native import native, reproducible

SIGNATURE = "f32[::1], f32[:, ::1]"
ORDER = (*("exp", "exp2", "log", "log2", "sin", "cos", "rsqrt", "tanh", "sqrt", "recip", "divide"),)


def exact(kind: str, x: float) -> mpmath.mpf:
    v = mpmath.mpf(x)
    functions = {
        "exp": mpmath.exp,
        "exp2": lambda a: mpmath.mpf(2) ** a,
        "log": mpmath.log,
        "log2": lambda a: mpmath.log(a, 2),
        "rsqrt": lambda a: 1 / mpmath.sqrt(a),
        "recip": lambda a: 1 / a,
        "divide": lambda a: a / 3,
    }
    return functions.get(kind, getattr(mpmath, kind, None))(v)


def bound(kind: str, x: float, want: float) -> float:
    """The largest absolute error that docs/ptx.md states."""
    ulp = float(np.spacing(np.float32(abs(want))))
    return {
        "exp2": 2.5 * ulp,
        "exp": 2.5 * ulp + abs(x) * 2**-23 * abs(want),
        "log2": 2**-22 if 0.5 < x < 2 else 2**-22 * abs(want),
        "log": (2**-22 if 0.5 < x < 2 else 2**-22 * abs(want)) + ulp,
        "sin": 2**-20.5,
        "cos": 2**-20.5,
        "rsqrt": 2**-22.9 * abs(want),
        "tanh": 2**-11 * abs(want),
        "sqrt": 2**-23 * abs(want),
        "recip": ulp,
        "divide": 2 * ulp,
    }[kind]


def test_every_function_is_an_instruction() -> None:
    assert sorted(INSTRUCTIONS) == sorted(ops.NATIVE_KINDS) == sorted(ORDER)
    text = hetir.compile(native, SIGNATURE, target="ptx:sm_75").text
    for instruction in INSTRUCTIONS.values():
        assert f"\t{instruction} " in text
    kept = hetir.compile(reproducible, SIGNATURE, target="ptx:sm_75").text
    assert ".approx" not in kept
    assert ".full" not in kept


def test_values_are_within_the_stated_errors() -> None:
    x = np.random.default_rng(11).uniform(0.01, 6.28, 256).astype(np.float32)
    y = np.zeros((x.size, len(ORDER)), np.float32)
    native.launch((x, y), grid=4, workgroup=64, device="ptx-emulator").wait()
    for row, value in enumerate(map(float, x)):
        for column, kind in enumerate(ORDER):
            want = exact(kind, value)
            error = abs(mpmath.mpf(float(y[row, column])) - want)
            assert error <= bound(kind, value, float(want)), (kind, value)


@pytest.mark.parametrize("chip", CHIPS)
def test_the_assembler_takes_them(chip: str) -> None:
    text = hetir.compile(native, SIGNATURE, target=f"ptx:{chip}").text
    assert "Compiling entry" in assemble_together([text], chip)
