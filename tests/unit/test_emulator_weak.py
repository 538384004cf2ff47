"""The weak-memory mode: planted missing orders are found and their lines named."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import emulator
from hetir.compiler import prepare, record
from hetir.emulator.weak import MixedElementsError, TooLargeError
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


@hetir.kernel
def reduces(x, y):
    """Shared memory, barriers, subgroup operations, private arrays, loops and views."""
    part = hl.shared(8, hl.i32)
    own = hl.private(2, hl.i32)
    i = hl.local_id(0)
    row = x[hl.group_id(0)]
    own[0] = row[i]
    own[1] = hl.subgroup_reduce(own[0], "add")
    part[i] = own[1] + own[0]
    hl.barrier()
    total = 0
    for k in range(8):
        total += part[k] * (k + 1)
    y[hl.group_id(0), i] = total + part[7 - i]


def test_a_kernel_without_races_gives_the_evaluators_result() -> None:
    x = np.arange(16, dtype=np.int32).reshape(2, 8) ** 2 % 11
    y = np.zeros_like(x)
    kernel = prepare(record(reduces, reduces.specialise((x, y))).module)
    emulator.run(kernel, (x, y), (2,), (8,), checks=True)
    part = x + x.sum(axis=1, keepdims=True)  # a subgroup of 32 holds the whole workgroup
    total = (part * np.arange(1, 9)).sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(y, total + part[:, ::-1])
    for seed in range(3):
        again = np.zeros_like(x)
        report = emulator.run(kernel, (x, again), (2,), (8,), weak=True, seed=seed)
        assert not report.faults, str(report)
        np.testing.assert_array_equal(again, y)


def test_a_seed_gives_the_same_run() -> None:
    plant = PLANTED[0]
    first, second = (_check(plant, plant.weaker, 300) for _ in range(2))
    assert (first.seed, str(first)) == (second.seed, str(second))
    again = hetir.check(
        plant.maker(**plant.weaker), _arguments(plant), 2, 1, weak=True, runs=1, seed=first.seed
    )
    assert str(again) == str(first)


def test_different_results_are_counted() -> None:
    @hetir.kernel
    def tickets(count, out):
        out[hl.atomic_add(count, 0, 1)] = hl.group_id(0)

    arguments = (np.zeros(1, np.int32), np.zeros(2, np.int32))
    report = hetir.check(tickets, arguments, 2, 1, weak=True, runs=30)
    assert not report.faults
    assert report.results == 2


@hetir.kernel
def waits_for_nobody(x):
    while hl.atomic_load(x, 0, order="acquire") == 0:
        pass


@hetir.kernel
def meets_alone(x):
    i = hl.local_id(0)
    if hl.assume_uniform(i == 0):
        hl.barrier()
    x[i] = 1


@hetir.kernel
def reads_nothing(x):
    tile = hl.shared(2, hl.i32)
    x[hl.local_id(0)] = tile[hl.local_id(0)]


@hetir.kernel
def reads_outside(x):
    x[hl.local_id(0)] = x[hl.local_id(0) + 2]


@pytest.mark.parametrize(
    ("kernel", "code"),
    [
        (waits_for_nobody, "HET609"),
        (meets_alone, "HET603"),
        (reads_nothing, "HET601"),
        (reads_outside, "HET600"),
    ],
)
def test_other_faults_are_found_too(kernel: hetir.Kernel, code: str) -> None:
    report = hetir.check(kernel, (np.zeros(2, np.int32),), 1, 2, weak=True, runs=1)
    assert [fault.code for fault in report.faults] == [code]


def test_large_launches_are_refused() -> None:
    x = np.zeros(512, np.int32)
    with pytest.raises(TooLargeError, match="512 work-items are too many"):
        hetir.check(reads_nothing, (x,), 2, 256, weak=True)


@hetir.kernel
def through_both(x, y):
    i = hl.global_id(0)
    x[i] = 10 + i
    hl.barrier()
    y[i] = y[i] * 2


def test_arrays_that_overlap_are_one_memory() -> None:
    """Two names of one array, and views that meet in part: each write is seen by either name."""
    for second, wanted in ((0, [20, 22, 24, 26, 4, 5]), (2, [10, 11, 24, 26, 8, 10])):
        for seed in range(20):
            memory = np.arange(6, dtype=np.int32)
            views = memory[:4], memory[second : second + 4]
            kernel = prepare(record(through_both, through_both.specialise(views)).module)
            report = emulator.run(kernel, views, (1,), (4,), weak=True, seed=seed)
            assert not report.faults, str(report)
            assert memory.tolist() == wanted


def test_overlapping_elements_that_do_not_coincide_are_refused() -> None:
    memory = np.zeros(8, np.int32)
    for other in (memory.view(np.int16), memory.view(np.int64)):
        with pytest.raises(MixedElementsError, match="overlaps another array"):
            hetir.check(through_both, (memory, other), grid=1, workgroup=2, weak=True)
