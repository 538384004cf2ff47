"""Every pure op at every type, and every kernel of the library, as SPIR-V: the evaluator's bits."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetir import library
from hetir.backends.spirv.targets import NAMES, resolve
from hetir.passes.expansions import EXPANSIONS
from hetir.target import instances
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
