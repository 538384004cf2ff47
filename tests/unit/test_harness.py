"""Kernels as litmus tests: the checker and the evaluator's weak mode say the same of them."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import emulator
from hetir.cli import main as cli
from hetir.compiler import litmus, prepare, record
from hetir.memory.check import Checker
from hetir.memory.claim import Claim, Compare, FinalLocation, FinalRegister, Quantifier
from hetir.memory.models.ir import IrModel
from hetir.passes.harness import Harness, HarnessError
from hetir.source import Loc
from tests.unit.weak_kernels import PLANTED, Plant

MAKERS = {plant.maker: plant for plant in PLANTED}


def harness_of(plant: Plant, weaker: dict[str, str]) -> Harness:
    arguments = tuple(np.zeros(n, np.int32) for n in plant.shapes)
    return litmus(plant.maker(**weaker), arguments, plant.grid, plant.workgroup)


def may_fail(checker: Checker, harness: Harness) -> bool:
    """Whether an execution fails an assertion."""
    claims = [Compare("==", FinalRegister(t, name), 1) for t, name, _ in harness.assertions]
    return any(checker.judge(Claim(Quantifier.EXISTS, claim)).witness for claim in claims)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda p: f"{p.maker.__name__}-{p.weaker}")
def test_the_checker_finds_what_the_evaluator_finds(plant: Plant) -> None:
    harness = harness_of(plant, plant.weaker)
    with Checker(harness.program, IrModel()) as checker:
        if plant.kind == "HET602":
            assert checker.races()
        else:
            assert not checker.races()
            assert may_fail(checker, harness)


@pytest.mark.parametrize("plant", MAKERS.values(), ids=lambda p: p.maker.__name__)
def test_the_right_kernel_is_right(plant: Plant) -> None:
    """And every result of the evaluator is one of the checker's outcomes."""
    harness = harness_of(plant, {})
    with Checker(harness.program, IrModel()) as checker:
        assert not checker.races()
        assert not may_fail(checker, harness)
        written = {str(item) for item in checker.observables()}
        names = [name for name in harness.outputs if name in written]
        outcomes = checker.outcomes([FinalLocation(name) for name in names])
    if plant.maker.__name__ == "ring":
        return  # its waits may take more turns than the checker unrolls
    kernel = plant.maker()
    found = {_final(kernel, plant, names, seed) for seed in range(12)}
    assert found <= outcomes


def _final(kernel: hetir.Kernel, plant: Plant, names: list[str], seed: int) -> tuple[int, ...]:
    arrays = [np.zeros(n, np.int32) for n in plant.shapes]
    traced = prepare(record(kernel, kernel.specialise(tuple(arrays))).module)
    emulator.run(traced, arrays, (plant.grid,), (plant.workgroup,), weak=True, seed=seed)
    values = dict(zip([p.value.name for p in traced.params], arrays, strict=True))
    parts = [name.rstrip("]").split("[") for name in names]
    return tuple(int(values[array][int(index)]) for array, index in parts)


def outcomes_of(kernel: hetir.Kernel, *arrays: np.ndarray, grid: int = 2) -> set[tuple[int, ...]]:
    harness = litmus(kernel, arrays, grid, 1)
    with Checker(harness.program, IrModel()) as checker:
        assert not checker.races()
        return set(checker.outcomes([FinalLocation(name) for name in harness.outputs]))


def test_loops_and_choices_are_read_as_python_runs_them() -> None:
    @hetir.kernel
    def kernel(x, y):
        total = 0
        for i in range(4):
            if x[i] == 2:
                continue
            if x[i] == 9:
                break
            total += x[i] if x[i] > 0 else 100
        y[0] = total

    y = np.zeros(1, np.int32)
    for given in ([1, 2, 3, 4], [0, 9, 5, 5], [2, 2, 2, 2], [7, 0, 0, 9]):
        x = np.array(given, np.int32)
        total = 0
        for value in given:
            if value == 9:
                break
            total += 0 if value == 2 else value if value > 0 else 100
        assert outcomes_of(kernel, x, y, grid=1) == {(*given, total)}


def test_an_index_that_was_read_may_be_any_element() -> None:
    @hetir.kernel
    def kernel(next_, out):
        slot = hl.atomic_add(next_, 0, 1)
        out[slot] = hl.group_id(0) + 1

    found = outcomes_of(kernel, np.zeros(1, np.int32), np.zeros(2, np.int32))
    assert found == {(2, 1, 2), (2, 2, 1)}


def test_events_know_their_lines() -> None:
    harness = harness_of(MAKERS[PLANTED[0].maker], {})
    origins = [
        item.origin for t in harness.program.threads for item in t.body if hasattr(item, "origin")
    ]
    assert origins
    assert all(isinstance(o, Loc) and o.file.endswith("weak_kernels.py") for o in origins)


def test_what_cannot_be_judged_is_refused_with_the_reason() -> None:
    @hetir.kernel
    def sums(x, y):
        y[0] = x[0] * x[0]

    floats = np.ones(1, np.float32)
    with pytest.raises(HarnessError, match="computes floats from what it reads"):
        litmus(sums, (floats, floats.copy()), 1, 1)
    with pytest.raises(HarnessError, match="64 work-items are too many"):
        litmus(sums, (floats, floats.copy()), 2, 32)
    with pytest.raises(HarnessError, match="integers, not fractions"):
        litmus(sums, (floats / 2, floats), 1, 1)


KERNEL = """
import hetir, hetir.lang as hl

@hetir.kernel
def both(wants, seen):
    me = hl.group_id(0)
    hl.atomic_store(wants, me, 1, order="{order}")
    seen[me] = hl.atomic_load(wants, 1 - me, order="{order}")

@hetir.kernel
def hand(data, flag, out):
    if hl.group_id(0) == 0:
        data[0] = 42
        hl.atomic_store(flag, 0, 1, order="{order}")
    elif hl.atomic_load(flag, 0, order="acquire") == 1:
        out[0] = data[0]
"""
BOTH = ("wants=i32[2]", "seen=i32[2]", "--grid", "2", "--workgroup", "1")
HAND = ("data=i32[1]", "flag=i32[1]", "out=i32[1]", "--grid", "2", "--workgroup", "1")


def command(monkeypatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["hetir", *words])
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.mark.parametrize(("order", "count"), [("relaxed", 4), ("seq_cst", 3)])
def test_the_command_lists_outcomes(tmp_path, monkeypatch, capsys, order: str, count: int) -> None:
    file = tmp_path / "k.py"
    file.write_text(KERNEL.format(order=order))
    assert command(monkeypatch, "litmus", f"{file}:both", *BOTH) == 0
    printed = capsys.readouterr().out
    assert "no execution has a data race" in printed
    assert f"{count} outcomes" in printed
    assert ("seen[0]=0  seen[1]=0" in printed) == (order == "relaxed")


def test_the_commands_name_a_race(tmp_path, monkeypatch, capsys) -> None:
    file = tmp_path / "k.py"
    file.write_text(KERNEL.format(order="relaxed"))
    assert command(monkeypatch, "litmus", f"{file}:hand", *HAND) == 1
    assert "races with" in capsys.readouterr().out
    assert command(monkeypatch, "check", f"{file}:hand", *HAND, "--weak", "--runs", "200") == 1
    errors = capsys.readouterr().err
    assert "data race on `data` at 0" in errors
    assert 'give the atomic store at line 14 order="release"' in errors
    assert (
        command(
            monkeypatch,
            "check",
            f"{file}:hand",
            *HAND[:3],
            "--weak",
            "--grid",
            "600",
            "--workgroup",
            "1",
        )
        == 1
    )
    assert "too many for the weak-memory mode" in capsys.readouterr().err
