"""Every pure op at every type as PTX: taken by NVIDIA's assembler, right bits on the emulator."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from hetir.backends.llvm.machine import compile_ir
from hetir.backends.ptx import compile_kernel
from hetir.backends.ptx.targets import chip_of, target_of
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Value
from hetir.ir.types import I64, SCALARS, array
from hetir.passes.expansions import EXPANSIONS
from hetir.target import instances
from tests.unit.cpu_support import Run, kernel_of
from tests.unit.ptx_support import CHIPS, assemble_together, launch
from tests.unit.test_cpu_ops import GROUPS, check, result_of

EXECUTED = ("sm_75", "sm_90")
CHIP_CASES = [pytest.param(c, marks=() if c in EXECUTED else pytest.mark.slow) for c in CHIPS]


@cache
def artifact_of(key: str, chip: str) -> Any:
    """out[i] = op(in0[i], ...) for every op of a group."""
    group = GROUPS[key]
    sources, kinds = [SCALARS[t] for t in key.split(",")], [result_of(i) for i in group]

    def build(b: Builder, *arrays: Value) -> None:
        at = b.value(ops.GLOBAL_ID, axis=0)
        args = [b.value(ops.LOAD, a, at) for a in arrays[: len(sources)]]
        for instance, out in zip(group, arrays[len(sources) :], strict=True):
            value = b.emit(instance.spec, *args, attrs=instance.attrs).result
            b.emit(ops.STORE, out, at, value)

    kernel = kernel_of(build, [array(t, 1) for t in (*sources, *kinds)])
    return compile_kernel(kernel, target=f"ptx:{chip}", binary=False)


def in_small_groups(chip: str, key: str) -> Callable[..., Run]:
    """As `run`, in place of the one workgroup that the CPU's test asks for."""

    def runner(kernel: Any, arguments: list[Any], grid: Any, workgroup: Any, folder: Any) -> Run:
        del kernel, grid, folder
        count = workgroup[0]
        size = next(s for s in range(1024, 0, -1) if count % s == 0)
        artifact = artifact_of(key, chip)
        launch(artifact, arguments, (count // size, 1, 1), (size, 1, 1))
        return Run(b"", artifact)

    return runner


@pytest.mark.parametrize("chip", CHIP_CASES)
@pytest.mark.parametrize("key", GROUPS)
def test_pure_ops(key: str, chip: str, tmp_path: Any) -> None:
    check(GROUPS[key], tmp_path, in_small_groups(chip, key))


def test_a_wrong_result_is_noticed(tmp_path: Any) -> None:
    """The comparison is alive: products where sums are wanted do not pass."""
    names = [i.spec.name for i in GROUPS["f32,f32"]]
    group, other = [GROUPS["f32,f32"][names.index("add")]], names.index("mul")

    def runner(_: Any, arguments: list[Any], *__: Any) -> None:
        outputs = [np.zeros(len(arguments[0]), result_of(i).numpy) for i in GROUPS["f32,f32"]]
        inputs = arguments[:2]
        launch(artifact_of("f32,f32", "sm_90"), [*inputs, *outputs], (57, 1, 1), (57, 1, 1))
        arguments[2][:] = outputs[other]

    with pytest.raises(AssertionError, match="add"):
        check(group, tmp_path, runner)


@pytest.mark.parametrize("chip", CHIP_CASES)
def test_the_assembler_takes_every_op(chip: str) -> None:
    """One module a chip."""
    log = assemble_together([artifact_of(key, chip).text for key in GROUPS], chip)
    assert log.count("Compiling entry function") == len(GROUPS)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("width", [16, 32, 64])
def test_every_op_has_a_rule_an_expansion_or_a_refusal(chip: str, width: int) -> None:
    target = target_of(f"ptx:{chip}", width)
    known = {i.key for i in instances()}
    for key in known:
        ways = (key in target.rules, key in EXPANSIONS, key in target.unsupported)
        assert any(ways), key
        assert not (ways[0] and ways[2]), key
    assert {k for k in target.rules if k != ("select", "ref")} <= known


def test_nothing_is_contracted_and_rounding_is_stated() -> None:
    """a*b + c stays two roundings; quotient and root are the correctly rounded ones."""

    def build(b: Builder, x: Value, y: Value) -> None:
        i = b.value(ops.GLOBAL_ID, axis=0)
        u, v = b.value(ops.LOAD, x, i), b.value(ops.LOAD, y, i)
        total = b.value(ops.ADD, b.value(ops.MUL, u, v), v)
        b.emit(ops.STORE, y, i, b.value(ops.SQRT, b.value(ops.DIV, total, u)))

    for name, letters in (("f32", "f32"), ("f64", "f64")):
        kernel = kernel_of(build, [array(SCALARS[name], 1)] * 2)
        text = compile_kernel(kernel, target="ptx:sm_90", binary=False).text
        for word in ("mul.rn", "add.rn", "div.rn", "sqrt.rn"):
            assert f"{word}.{letters}" in text
        for word in ("fma", "mad.f", ".ftz", ".approx", ".full"):
            assert word not in text


def test_the_text_is_the_same_every_time() -> None:
    def build(b: Builder, x: Value) -> None:
        i = b.value(ops.GLOBAL_ID, axis=0)
        b.emit(ops.STORE, x, i, b.value(ops.ADD, b.value(ops.LOAD, x, i), i))

    kernels = [kernel_of(build, [array(I64, 1)]) for _ in range(2)]
    one, two = (compile_kernel(k, target="ptx:sm_86", binary=False) for k in kernels)
    assert one.text == two.text
    assert one.key == two.key


@pytest.mark.parametrize(
    ("name", "version"),
    [("sm_75", "6.3"), ("sm_89", "7.8"), ("sm_90a", "8.0"), ("sm_100f", "8.8"), ("sm_121", "8.8")],
)
def test_the_ptx_version_is_the_oldest_that_will_do(name: str, version: str) -> None:
    chip = chip_of(f"ptx:{name}")
    empty = "define ptx_kernel void @k() {\n  ret void\n}\n"
    made = compile_ir(empty, chip.machine(0), level=0, assembly=True)
    assert f".version {version}\n.target {name}\n" in (made.assembly or "")
