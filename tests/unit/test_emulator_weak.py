"""The weak-memory mode: planted missing orders are found and their lines named."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

import hetir
from tests.unit.weak_kernels import PLANTED, Plant

MAKERS = {plant.maker: plant for plant in PLANTED}


def _arguments(plant: Plant) -> tuple[np.ndarray, ...]:
    return tuple(np.zeros(n, np.int32) for n in plant.shapes)


def _check(plant: Plant, weaker: dict[str, str], runs: int) -> hetir.Report:
    return hetir.check(
        plant.maker(**weaker), _arguments(plant), plant.grid, plant.workgroup,
        weak=True, runs=runs,
    )  # fmt: skip


def _marked(plant: Plant, mark: str) -> int:
    lines, first = inspect.getsourcelines(plant.maker)
    ends = [line.rstrip().endswith(f"mark: {mark}") for line in lines]
    return first + ends.index(True)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda p: f"{p.maker.__name__}-{p.weaker}")
def test_a_planted_mistake_is_found_and_its_line_named(plant: Plant) -> None:
    report = _check(plant, plant.weaker, 300)
    assert report.faults, "not found"
    codes = {fault.code for fault in report.faults}
    assert plant.kind in codes, codes
    fault = next(f for f in report.faults if f.code == plant.kind)
    named = {label.loc.line for label in fault.labels}
    named |= {int(n) for n in re.findall(r"line (\d+)", fault.hint or "")}
    missing = [mark for mark in plant.marks if _marked(plant, mark) not in named]
    assert not missing, (missing, str(fault))


@pytest.mark.parametrize("plant", MAKERS.values(), ids=lambda p: p.maker.__name__)
def test_the_right_kernel_has_no_fault(plant: Plant) -> None:
    report = _check(plant, {}, 40)
    assert not report.faults, str(report)
