"""`min` and `max` of floats in vectors on the CPU: NaNs, zeros of two signs, every width."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hetir.backends.cpu import compile_kernel, disassemble
from hetir.backends.cpu.targets import resolve
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Value
from hetir.ir.types import SCALARS, array
from tests.unit.cpu_support import elementwise, enter, kernel_of

NAMES = ("min", "max", "min_number", "max_number")
RAW = {"f32": np.uint32, "f64": np.uint64}
INFINITY = {"f32": 0xFF << 23, "f64": 0x7FF << 52}

# processors whose code runs on this machine
_HERE = resolve("cpu")
_X86 = _HERE[1].triple.startswith("x86_64")
TARGETS = ("cpu", "cpu:x86-64", *(("cpu:x86-64-v3",) if "avx2" in _HERE[0].features else ()))


def values(kind: str) -> np.ndarray[Any, Any]:
    """Sixteen: zeros, subnormals, numbers, infinities and NaNs (one signalling) of both signs."""
    infinity = INFINITY[kind]
    positive = (0, 1, infinity // 2, infinity // 2 + 1, infinity - 1, infinity)
    quiet = infinity | infinity >> 1  # the fraction's first bit, and some of the exponent's
    bits = [*positive, quiet | 1, infinity | 1]
    sign = 1 << (31 if kind == "f32" else 63)
    return np.array([*bits, *(b | sign for b in bits)], RAW[kind]).view(SCALARS[kind].numpy)


def expected(name: str, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """IEEE 754-2019 by the order of the bits: sign and magnitude as an integer."""
    signed = np.int32 if a.dtype == np.float32 else np.int64
    keys = [
        np.where(v < 0, np.iinfo(signed).min - v - 1, v) for v in (a.view(signed), b.view(signed))
    ]
    first = keys[0] <= keys[1] if name.startswith("min") else keys[0] >= keys[1]
    if name.endswith("number"):
        first = np.where(np.isnan(b), True, np.where(np.isnan(a), False, first))
        return np.where(first, a, b)
    return np.where(np.isnan(a) | np.isnan(b), np.nan, np.where(first, a, b)).astype(a.dtype)


@pytest.mark.parametrize("lanes", [0, 2, 4, 8, 16, None])
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_minimum_and_maximum_of_all_pairs(kind: str, lanes: int | None) -> None:
    some = values(kind)
    a, b = (np.ascontiguousarray(v).ravel() for v in np.meshgrid(some, some))
    shape = (64, 1, 1)

    def build(code: Builder, *arrays: Value) -> None:
        at = code.value(ops.GLOBAL_ID, axis=0)
        args = [code.value(ops.LOAD, array, at) for array in arrays[:2]]
        for name, out in zip(NAMES, arrays[2:], strict=True):
            code.emit(ops.STORE, out, at, code.emit(ops.TABLE[name], *args).result)

    kernel = kernel_of(build, [array(SCALARS[kind], 1)] * 6)
    for target in TARGETS:
        out = [np.zeros_like(a) for _ in NAMES]
        made = compile_kernel(kernel, target=target, lanes=lanes, workgroup=shape)
        enter(made, [a, b, *out], (4, 1, 1), shape)(0, 4)
        for name, got in zip(NAMES, out, strict=True):
            want = expected(name, a, b)
            equal = (want.view(RAW[kind]) == got.view(RAW[kind])) | (np.isnan(want) & np.isnan(got))
            bad = [(target, name, a[i], b[i], got[i]) for i in np.flatnonzero(~equal)[:4]]
            assert not bad


def test_expected_values_are_the_standards() -> None:
    a = np.array([0.0, -0.0, 1.0, np.nan, np.inf], np.float32)
    b = np.array([-0.0, 0.0, np.nan, 2.0, -np.inf], np.float32)
    assert [str(v) for v in expected("max", a, b)] == ["0.0", "0.0", "nan", "nan", "inf"]
    assert [str(v) for v in expected("min", a, b)] == ["-0.0", "-0.0", "nan", "nan", "-inf"]
    assert [str(v) for v in expected("max_number", a, b)] == ["0.0", "0.0", "1.0", "2.0", "inf"]


@pytest.mark.parametrize(
    ("target", "lanes", "name", "shape"),
    [
        ("cpu:x86-64-v4", 16, "max", {"vmaxps": 2, "vpternlogd": 1}),
        ("cpu:x86-64-v4", 16, "min", {"vminps": 2, "vorps": 1}),
        ("cpu:x86-64-v3", 8, "max", {"vmaxps": 2, "vcmpunordps": 1, "vandps": 1, "vorps": 1}),
        ("cpu:x86-64", 4, "min", {"minps": 2, "orps": 1}),
        ("cpu:aarch64:neoverse-n1", 4, "max", {"fmax": 1}),
    ],
)
def test_how_many_instructions_a_register_takes(
    target: str, lanes: int, name: str, shape: dict[str, int]
) -> None:
    kernel = elementwise(ops.TABLE[name], [SCALARS["f32"]] * 2, SCALARS["f32"])
    made = compile_kernel(kernel, target=target, lanes=lanes, workgroup=(lanes, 1, 1))
    lines = [line.split() for line in disassemble(made).splitlines()]
    found = [line[0] for line in lines if line]
    copies = found.count(next(iter(shape))) // next(iter(shape.values()))
    assert copies
    assert {n: found.count(n) for n in shape} == {n: copies * k for n, k in shape.items()}
    assert not any("blend" in n or "movd2m" in n for n in found)
