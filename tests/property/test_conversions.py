"""Conversions to narrow floats of values beside every tie: expansions and backends round once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hetir import emulator
from hetir.backends.cpu.targets import resolve
from hetir.ir import ops
from hetir.ir.types import SCALARS
from hetir.passes.expand_arrays import expand_arrays
from hetir.passes.legalize import legalize
from hetir.testing.differential import differences
from tests.unit.cpu_support import elementwise

NARROW = ("f16", "bf16", "f8e4m3", "f8e5m2")
SOURCES = ("f64", "f32", "i64", "u64", "i32", "u32")


def finite(name: str) -> np.ndarray:
    """The finite values of a narrow type that are not negative, ascending, as f64."""
    kind = SCALARS[name]
    codes = np.arange(1 << (kind.bits - 1), dtype=f"u{kind.bytes}").view(kind.numpy)
    with np.errstate(all="ignore"):
        values = codes.astype(np.float64)
    return values[np.isfinite(values)]


def beside_ties(source: str, to: str, random: np.random.Generator) -> np.ndarray:
    """Values halfway between two of `to`, and their neighbours, near and less near."""
    values = finite(to)
    at = random.integers(0, len(values) - 1, 150)
    ties = (values[at] + values[at + 1]) / 2
    ties = np.where(random.random(150) < 0.5, ties, -ties)
    if source[0] in "iu":
        info = np.iinfo(SCALARS[source].numpy)
        whole = ties[(np.abs(ties) >= 1) & (ties > info.min) & (ties < 2.0 ** (info.bits - 2))]
        near = [int(t) + d for t in whole for d in (-1, 0, 1)]
        return np.array([n for n in near if n >= info.min] + [0, info.max], info.dtype)
    kind = SCALARS[source].numpy.type
    with np.errstate(all="ignore"):
        exact = ties.astype(kind)
        beside = [np.nextafter(exact, kind(s * np.inf)) for s in (-1, 1)]
        far = [(ties * (1 + s * 2.0**-28)).astype(kind) for s in (-1, 1)]
    return np.concatenate([exact, *beside, *far])


def nearest(value: Fraction, values: np.ndarray) -> tuple[Fraction, ...]:
    """The values of a type nearest to a rational: one, or two at a tie."""
    at = int(np.searchsorted(values, float(abs(value))))
    some = [Fraction(v) for v in values[max(0, at - 2) : at + 2].tolist()]
    least = min(abs(s - abs(value)) for s in some)
    return tuple(s for s in some if abs(s - abs(value)) == least)


@pytest.mark.parametrize("to", NARROW)
@pytest.mark.parametrize("source", SOURCES)
def test_conversions_round_once(source, to):
    inputs = beside_ties(source, to, np.random.default_rng(3))
    kernel = elementwise(ops.CAST, [SCALARS[source]], SCALARS[to], {"to": SCALARS[to]})
    lowered = legalize(expand_arrays(kernel), resolve("cpu:x86-64")[0])
    outputs = [np.zeros(len(inputs), SCALARS[to].numpy) for _ in range(2)]
    for some, out in zip((kernel, lowered), outputs, strict=True):
        emulator.run(some, [inputs, out], (1, 1, 1), (len(inputs), 1, 1))
    assert not differences(outputs[:1], outputs[1:])
    values = finite(to)
    for given, got in zip(inputs.tolist(), outputs[1].astype(np.float64).tolist(), strict=True):
        if abs(given) <= values[-1]:
            assert abs(Fraction(got)) in nearest(Fraction(given), values), (given, got)
