"""Every pure op at every type on the CPU, against the evaluator's meaning, on corner values."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Value
from hetir.ir.types import SCALARS, Scalar, array
from hetir.target import Assumptions, Instance, instances
from tests.unit.cpu_support import kernel_of, run

_BITS: dict[str, tuple[int, ...]] = {
    "f16": (0, 1, 0x3FF, 0x400, 0x3BFF, 0x3C00, 0x3C01, 0x3555, 0x4248, 0x5640, 0x7BFF, 0x7C00),
    "bf16": (0, 1, 0x7F, 0x80, 0x3F7F, 0x3F80, 0x3F81, 0x4049, 0x42C8, 0x4B80, 0x7F7F, 0x7F80),
    "f32": (
        *(0, 1, 0x7FFFFF, 0x800000, 0x3F000000, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x40490FDB),
        *(0x42C80000, 0x477FE000, 0x477FF000, 0x4B000001, 0x4EFFFFFF, 0x4F000000, 0x5F800000),
        *(0x7F7FFFFF, 0x7F800000, 0x33000001, 0x3B000000, 0x3D800001, 0x43E80000),
    ),
    "f64": (
        *(0, 1, 0xFFFFFFFFFFFFF, 0x10000000000000, 0x3FE0000000000000, 0x3FF0000000000000),
        *(0x3FF0000000000001, 0x400921FB54442D18, 0x4059000000000000, 0x40EFFDFFFFFFFFFF),
        *(0x43E0000000000000, 0x43EFFFFFFFFFFFFF, 0x43F0000000000000, 0x47EFFFFFEFFFFFFF),
        *(0x47EFFFFFF0000000, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0x3FF0001000000001),
    ),
}
_NAN = {"f16": (0x7E00, 0xFE01), "bf16": (0x7FC0,), "f32": (0x7FC00000,), "f64": (0x7FF8 << 48,)}


def corners(kind: Scalar) -> np.ndarray[Any, Any]:
    """Values where mistakes live, with both signs, and a few at random."""
    if kind.kind == "bool":
        return np.array([False, True])
    if kind.kind == "f8":
        return np.arange(256, dtype=np.uint8).view(kind.numpy)
    raw = np.dtype(f"u{kind.bytes}")
    noise = np.random.default_rng(kind.bits).integers(0, 1 << kind.bits, 12, np.uint64)
    if kind.is_int:
        top = 1 << (kind.bits - 1)
        fixed = [0, 1, 2, 3, 7, 16, kind.bits - 1, kind.bits, top - 1, top, top + 1, 2 * top - 1]
        fixed += [2 * top - 2, 2 * top - 7] + [1 << b for b in (24, 53) if b < kind.bits]
        fixed += [(1 << b) + 1 for b in (24, 53) if b < kind.bits]
        # just above half way between two bf16s, by a bit that f32 cannot hold
        fixed += [(257 << b) + 1 for b in (20, 50) if b + 10 < kind.bits]
        return np.array(sorted({*fixed, *map(int, noise)}), np.uint64).astype(raw).view(kind.numpy)
    bits = [*_BITS[kind.name]]
    bits += [b | 1 << (kind.bits - 1) for b in bits]
    bits += [*_NAN[kind.name], *map(int, noise)]
    return np.array(bits, np.uint64).astype(raw).view(kind.numpy)


def lanes(kinds: Sequence[Scalar]) -> list[np.ndarray[Any, Any]]:
    """All pairs of corners; three operands take a sample of the triples."""
    sets = [corners(k) for k in kinds]
    if len(kinds) == 1:
        return sets
    rows = list(itertools.product(*(range(len(s)) for s in sets)))
    if len(rows) > 4000:
        picks = np.random.default_rng(3).choice(len(rows), 4000, replace=False)
        rows = [rows[i] for i in picks]
    columns = np.array(rows).T
    return [s[c] for s, c in zip(sets, columns, strict=True)]


def _groups() -> dict[str, list[Instance]]:
    """Pure ops by operand types: one kernel a group, so that LLVM starts seldom."""
    groups: dict[str, list[Instance]] = defaultdict(list)
    for instance in instances():
        if instance.spec.evaluate is not None and instance.operands:
            groups[",".join(map(str, instance.operands))].append(instance)
    return groups


GROUPS = _groups()


def result_of(instance: Instance) -> Scalar:
    """The type of the only result."""
    (kind,) = ops.infer(instance.spec, instance.operands, instance.attrs)
    assert isinstance(kind, Scalar)
    return kind


@pytest.mark.parametrize("key", GROUPS)
def test_pure_ops(key: str, tmp_path: Path) -> None:
    check(GROUPS[key], tmp_path, assumptions=Assumptions(disjoint=True))


@pytest.mark.parametrize("key", [k for k in GROUPS if "f" in k])
def test_pure_ops_without_half_or_rounding_instructions(key: str, tmp_path: Path) -> None:
    """x86-64 alone has neither F16C nor SSE4.1 nor FMA: sequences, and libm's fma."""
    check(GROUPS[key], tmp_path, target="cpu:x86-64", optimise=0)


def check(
    group: list[Instance], folder: Path, runner: Callable[..., object] = run, **options: Any
) -> None:
    """One workgroup over all corners, so that LLVM vectorises the loop."""
    sources = [SCALARS[str(t)] for t in group[0].operands]
    kinds = [result_of(i) for i in group]

    def build(b: Builder, *arrays: Value) -> None:
        at = b.value(ops.GLOBAL_ID, axis=0)
        args = [b.value(ops.LOAD, a, at) for a in arrays[: len(sources)]]
        for instance, out in zip(group, arrays[len(sources) :], strict=True):
            value = b.emit(instance.spec, *args, attrs=instance.attrs).result
            b.emit(ops.STORE, out, at, value)

    kernel = kernel_of(build, [array(t, 1) for t in (*sources, *kinds)])
    inputs = lanes(sources)
    count = len(inputs[0])
    outputs = [np.zeros(count, k.numpy) for k in kinds]
    runner(kernel, [*inputs, *outputs], (1, 1, 1), (count, 1, 1), folder, **options)
    for instance, kind, got in zip(group, kinds, outputs, strict=True):
        assert instance.spec.evaluate is not None
        want = np.broadcast_to(
            instance.spec.evaluate(instance.attrs, kind.numpy, *inputs), got.shape
        )
        same(instance, inputs, want, got)


def test_every_op_is_there() -> None:
    """The walk is not empty: all pure ops with operands, all types that the table allows."""
    names = {i.spec.name for group in GROUPS.values() for i in group}
    pure = {n for n, s in ops.TABLE.items() if s.evaluate is not None and s.signature[0] != "-"}
    assert names == pure
    assert sum(map(len, GROUPS.values())) >= 620


def same(instance: Instance, inputs: list[Any], want: Any, got: Any) -> None:
    """Equal bits; NaNs compare equal."""
    raw = np.dtype(f"u{got.dtype.itemsize}")
    a, b = np.ascontiguousarray(want).view(raw), got.view(raw)
    equal = a == b
    if got.dtype.kind not in "iub":
        equal |= (want != want) & (got != got)
    bad = np.flatnonzero(~equal)
    shown = [(*(x[i] for x in inputs), want[i], got[i]) for i in bad[:5]]
    assert not len(bad), f"{instance.key}: operands, want, got: {shown}"
