"""Legality: every op at every type has a rule, an expansion or a sentence, and means the same."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from hetir import emulator
from hetir.backends.cpu.targets import resolve
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Value, walk
from hetir.ir.types import BF16, F8E4M3, F8E5M2, F16, F32, F64, SCALARS, Scalar, array
from hetir.passes.expand_arrays import expand_arrays
from hetir.passes.expansions import EXPANSIONS
from hetir.passes.legalize import legalize
from hetir.target import Instance, Key, Target, UnsupportedError, instances, key_of
from hetir.testing.differential import differences
from tests.unit.cpu_support import elementwise, kernel_of
from tests.unit.test_cpu_memory import rmw

CPUS = ("cpu", "cpu:x86-64", "cpu:x86-64-v3", "cpu:aarch64")


@pytest.mark.parametrize("name", CPUS)
def test_every_instance_has_exactly_one_answer(name: str) -> None:
    target = resolve(name)[0]
    count = 0
    for instance in instances():
        key = instance.key
        covered = key in target.rules
        refused = key in target.unsupported
        expanded = not covered and not refused and key in EXPANSIONS
        assert covered + refused + expanded == 1, key
        count += 1
    assert count > 900


@pytest.mark.parametrize("name", CPUS)
def test_no_rule_is_dead(name: str) -> None:
    """A key that no legal op can have is a misspelt rule."""
    known = {i.key for i in instances()}
    target = resolve(name)[0]
    assert set(EXPANSIONS) <= known
    assert set(target.unsupported) <= known
    assert {k for k in target.rules if k != ("select", "ref")} <= known


def bare(needed: Mapping[Key, object], drop: frozenset[str]) -> Target:
    """A target without the rules of some ops, so that their expansions are used."""
    rules = {k: v for k, v in needed.items() if k[0] not in drop}
    return Target(name="bare", fingerprint="", rules=rules)


REMOVED = frozenset(
    {"floordiv", "mod", "floor", "ceil", "trunc", "rint"}
    | {"subgroup_reduce", "subgroup_scan", "ballot", "vote"}
)


def _expanded() -> list[Instance]:
    target = bare(resolve("cpu:x86-64")[0].rules, REMOVED)
    return [
        i
        for i in instances()
        if i.spec.evaluate is not None and i.key in EXPANSIONS and i.key not in target.rules
    ]


@pytest.mark.parametrize("instance", _expanded(), ids=lambda i: "-".join(i.key))
def test_expansions_mean_what_the_op_means(instance: Instance) -> None:
    """Run by the evaluator, which has the op itself too; both are checked to the bit."""
    target = bare(resolve("cpu:x86-64")[0].rules, REMOVED)
    sources = [SCALARS[str(t)] for t in instance.operands]
    (to,) = ops.infer(instance.spec, instance.operands, instance.attrs)
    assert isinstance(to, Scalar)
    kernel = elementwise(instance.spec, sources, to, instance.attrs)
    lowered = legalize(expand_arrays(kernel), target)
    assert instance.key not in {key_of(op) for op in walk(lowered.body)}
    random = np.random.default_rng(0)
    count = 200
    inputs = [_random(k, count, random) for k in sources]
    outputs = [np.zeros(count, to.numpy) for _ in range(2)]
    for some, out in zip((kernel, lowered), outputs, strict=True):
        emulator.run(some, [*inputs, out], (1, 1, 1), (count, 1, 1))
    assert not differences(outputs[:1], outputs[1:])


def _random(kind: Scalar, count: int, random: np.random.Generator) -> np.ndarray:
    if kind.kind == "bool":
        return random.integers(0, 2, count).astype(bool)
    raw = np.frombuffer(random.bytes(count * kind.bytes), f"u{kind.bytes}").view(kind.numpy)
    if kind.is_float:
        small = random.integers(-40, 40, count) / 4
        return np.where(random.random(count) < 0.5, small.astype(kind.numpy), raw)
    return raw


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize(("kind", "want"), [("add", 41), ("sub", -31), ("min", -4), ("max", 11)])
def test_float_atomics_in_step(element: str, kind: str, want: int) -> None:
    """All items of a workgroup at once: all but one of them have to try again."""
    dtype = SCALARS[element].numpy
    x = np.array([11, -4, 5, 5, 5, 5, 5, 4], np.float32).astype(dtype)
    y, old = np.array([5], np.float32).astype(dtype), np.zeros(8, dtype)
    kernel = legalize(expand_arrays(rmw(element, kind, "global")), resolve("cpu")[0])
    emulator.run(kernel, [x, y, old], (1, 1, 1), (8, 1, 1))
    assert float(y[0]) == want


def test_refusal_names_the_target_and_the_reason() -> None:
    kernel = kernel_of(lambda b: b.emit(ops.BARRIER, attrs={"scope": "device"}) and None, [])
    with pytest.raises(UnsupportedError, match=r"barrier over the whole grid .* target `cpu`"):
        legalize(kernel, resolve("cpu")[0])


def test_remainders_of_huge_quotients_are_exact() -> None:
    """Against Python's own fmod, which is exact."""
    random = np.random.default_rng(5)
    x = np.exp2(random.uniform(-1070, 1020, 500)) * random.choice([-1, 1], 500)
    y = np.exp2(random.uniform(-1070, 1020, 500)) * random.choice([-1, 1], 500)
    out = np.zeros(500)
    kernel = legalize(expand_arrays(elementwise(ops.REM, [F64, F64], F64)), resolve("cpu")[0])
    emulator.run(kernel, [x, y, out], (1, 1, 1), (500, 1, 1))
    want = [math.fmod(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    np.testing.assert_array_equal(out.view(np.uint64), np.array(want).view(np.uint64))


@pytest.mark.parametrize("to", [F16, BF16, F8E4M3, F8E5M2], ids=str)
def test_every_code_survives_the_way_to_f32_and_back(to: Scalar) -> None:
    codes = np.arange(1 << to.bits, dtype=f"u{to.bytes}").view(to.numpy)

    def build(b: Builder, x: Value, y: Value, z: Value) -> None:
        i = b.value(ops.GLOBAL_ID, axis=0)
        wide = b.value(ops.CAST, b.value(ops.LOAD, x, i), to=F32)
        b.emit(ops.STORE, y, i, wide)
        b.emit(ops.STORE, z, i, b.value(ops.CAST, wide, to=to))

    kernel = kernel_of(build, [array(to, 1), array(F32, 1), array(to, 1)])
    lowered = legalize(expand_arrays(kernel), resolve("cpu:x86-64")[0])
    wide, back = np.zeros(len(codes), np.float32), np.zeros(len(codes), to.numpy)
    emulator.run(lowered, [codes, wide, back], (1, 1, 1), (len(codes), 1, 1))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(wide, codes.astype(np.float32))
    finite = np.isfinite(wide)
    raw = f"u{to.bytes}"
    np.testing.assert_array_equal(back.view(raw)[finite], codes.view(raw)[finite])
    assert np.isnan(back[np.isnan(wide)].astype(np.float32)).all()
