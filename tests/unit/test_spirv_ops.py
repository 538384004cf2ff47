"""Every pure op at every type, and every kernel of the library, as SPIR-V: the evaluator's bits."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetir import emulator, library
from hetir.backends.spirv.targets import NAMES, resolve
from hetir.ir import ops
from hetir.ir.core import walk
from hetir.ir.types import F64
from hetir.passes.expand_arrays import expand_arrays
from hetir.passes.expansions import EXPANSIONS
from hetir.passes.legalize import legalize
from hetir.target import instances
from tests.unit.cpu_support import elementwise
from tests.unit.cpu_support import run as on_the_cpu
from tests.unit.spirv_support import HERE, device_of, run
from tests.unit.test_cpu_ops import GROUPS, check


@pytest.mark.parametrize("name", NAMES)
def test_every_instance_has_exactly_one_answer(name: str) -> None:
    target = resolve(name)
    every = tuple(instances())
    assert len(every) > 900
    for instance in every:
        key = instance.key
        covered, refused = key in target.rules, key in target.unsupported
        expanded = not covered and not refused and key in EXPANSIONS
        assert covered + refused + expanded == 1, key


@pytest.mark.parametrize("name", NAMES)
def test_no_rule_is_dead(name: str) -> None:
    """A key that no legal op can have is a misspelt rule."""
    known = {i.key for i in instances()} | {("select", "ref")}
    assert set(resolve(name).rules) <= known
    assert set(resolve(name).unsupported) <= known


def launch(
    kernel: Any, arguments: Any, grid: Any, workgroup: Any, folder: Path, *, target: str
) -> None:
    """In groups of an even size, since a thousand work-items are too many for some devices."""
    count = workgroup[0]
    size = max(n for n in range(1, 65) if count % n == 0)
    run(kernel, arguments, (count // size, 1, 1), (size, 1, 1), folder, target=target)


OPENCL, VULKAN = HERE


@pytest.mark.parametrize("target", [OPENCL])
@pytest.mark.parametrize("key", GROUPS)
def test_pure_ops(key: str, target: str, tmp_path: Path) -> None:
    check(GROUPS[key], tmp_path, functools.partial(launch, target=target))


@pytest.mark.parametrize("target", [VULKAN])
@pytest.mark.parametrize(
    "key", [pytest.param(k, marks=() if "32" in k else pytest.mark.slow) for k in GROUPS]
)
def test_pure_ops_of_shaders(key: str, target: str, tmp_path: Path) -> None:
    group = [i for i in GROUPS[key] if i.key not in resolve(target).unsupported]
    if group:
        check(group, tmp_path, functools.partial(launch, target=target))


@functools.cache
def evaluated(name: str) -> dict[str, bytes]:
    """What the evaluator leaves in a case's results."""
    return ran(name, "emulator")


def ran(name: str, device: Any) -> dict[str, bytes]:
    case = library.case(name, size=library.SMALL[name])
    case.reset()
    case.run(device)
    assert case.error() <= case.tolerance
    return {key: np.ascontiguousarray(value).tobytes() for key, value in case.results.items()}


@pytest.mark.parametrize("name", library.NAMES)
@pytest.mark.parametrize("target", HERE)
def test_library(name: str, target: str) -> None:
    assert ran(name, device_of(target)) == evaluated(name)


SPREADS = {
    "alike": lambda r, n: (r(0, 1, n), r(0, 1, n), r(0, 1, n)),
    "any": lambda r, n: (r(-1070, 1023, n), r(-1070, 1023, n), r(-1070, 1023, n)),
    "subnormal": lambda r, n: (r(-540, -539, n), r(-540, -480, n), r(-1074, -1000, n)),
    "overflowing": lambda r, n: (r(600, 601, n), r(418, 424, n), r(960, 1023, n)),
}


@pytest.mark.parametrize("spread", [*SPREADS, "cancelling"])
def test_fma_by_integers_is_the_processor_s(spread: str, tmp_path: Path) -> None:
    """f64's fma where a device has none that is fused, against this processor's."""
    random, count = np.random.default_rng(3), 20_000
    signs = random.choice([-1.0, 1.0], (3, count))
    a, b, c = (random.random((3, count)) + 0.5) * signs
    if spread == "cancelling":
        c = -(a * b)
    else:
        exponents = SPREADS[spread](random.integers, count)
        a, b, c = (np.ldexp(v, e) for v, e in zip((a, b, c), exponents, strict=True))
    kernel = elementwise(ops.FMA, [F64] * 3, F64)
    lowered = legalize(expand_arrays(kernel), resolve("spirv:vulkan"))
    assert "fma" not in {op.name for op in walk(lowered.body)}
    want, got = np.zeros(count), np.zeros(count)
    on_the_cpu(kernel, [a, b, c, want], (1, 1, 1), (count, 1, 1), tmp_path)
    emulator.run(lowered, [a, b, c, got], (count // 100, 1, 1), (100, 1, 1))
    assert np.isfinite(want).any()
    assert got.tobytes() == want.tobytes()
