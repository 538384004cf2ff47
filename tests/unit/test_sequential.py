"""`memory_model="sc"`: what is added is enough, and no more than a hand would write."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import compiler, library
from hetir.ir.core import Kernel, Operation, Region, walk
from hetir.ir.text import parse_kernel
from hetir.memory.check import Checker, Outcome
from hetir.memory.claim import FinalLocation
from hetir.memory.models.ir import IrModel
from hetir.passes import harness
from hetir.passes.fences import weaken
from hetir.passes.sequential import ordered
from hetir.testing import synchronising


def every(kernel: Kernel, order: str) -> Kernel:
    """The kernel with this order on all atomics, and no fences."""

    def region(old: Region) -> Region:
        body = [inside(op) for op in old.body if op.name != "fence"]
        return Region(old.args, tuple(body))

    def inside(op: Operation) -> Operation:
        attrs = dict(op.attrs)
        if op.name.startswith("atomic."):
            attrs["order"] = order
        return replace(op, attrs=attrs, regions=tuple(map(region, op.regions)))

    return replace(kernel, body=region(kernel.body))


def outcomes(kernel: Kernel) -> frozenset[Outcome]:
    arrays = [np.zeros(n, np.int32) for n in synchronising.SHAPES.values()]
    small = harness.read(
        kernel, arrays, (synchronising.GRID, 1, 1), (synchronising.WORKGROUP, 1, 1)
    )
    with Checker(small.program, IrModel()) as checker:
        assert not checker.races()
        return checker.outcomes([FinalLocation(name) for name in small.outputs])


def added(seeds: range) -> Counter[str]:
    """Compare random kernels with what one memory does; count what was needed."""
    seen = Counter[str]()
    for seed in seeds:
        kernel = every(parse_kernel(synchronising.text(seed)), "relaxed")
        # by the theorem for programs without races, seq_cst everywhere is one memory
        right = outcomes(every(kernel, "seq_cst"))
        placed, changes = ordered(kernel)
        found = outcomes(weaken(placed)[0])
        assert found <= right, seed
        seen.update(change.rule for change in changes)
        seen["needed"] += not outcomes(kernel) <= right
        seen["without a fence"] += not any(op.name == "fence" for op in walk(placed.body))
    return seen


def test_random_kernels_do_what_one_memory_does() -> None:
    seen = added(range(120))
    assert seen["needed"] >= 2
    assert seen["without a fence"] >= 3
    assert min(seen["cycle"], seen["sc acquire"], seen["sc release"]) >= 5


@pytest.mark.slow
def test_a_thousand_random_kernels_do_what_one_memory_does() -> None:
    added(range(120, 1120))


# ---- the scenarios, without their orders ---------------------------------------------------


def scenario(name: str, folder: Path, fences: str = "local") -> list[library.Step]:
    """The small launches of a scenario whose kernels state no order."""
    source = (library.folder() / "sync" / f"{name}.py").read_text(encoding="utf-8")
    source = re.sub(r', order="\w+"|\n *hl\.fence\(.*', "", source)
    options = f'memory_model="sc", fences="{fences}"'
    source = source.replace("@hetir.kernel(", f"@hetir.kernel({options}, ")
    source = source.replace("@hetir.kernel\n", f"@hetir.kernel({options})\n")
    path = folder / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    return list(library.load(path).small())


def words(kernel: hetir.Kernel) -> list[str]:
    made = hetir.compile(kernel, target="ptx:sm_90")
    kept = [f for f in made.fences if not f.reason.startswith(("removed", "made relaxed"))]
    return [f"{f.kind} {f.order} {f.scope}" for f in kept if f.kind != "barrier"]


SAME = ("exchange", "locks", "last_block", "stream_k", "three_party", "tile_signal")


@pytest.mark.parametrize("name", SAME)
def test_a_scenario_gets_what_a_hand_wrote(name: str, tmp_path: Path) -> None:
    for step, by_hand in zip(scenario(name, tmp_path), library.scenario(name).small(), strict=True):
        assert words(step.kernel) == words(by_hand.kernel), step.kernel.name


def test_dekker_gets_one_fence_a_side(tmp_path: Path) -> None:
    accesses, fences = scenario("dekker", tmp_path)
    assert words(accesses.kernel) == words(fences.kernel) == ["fence seq_cst device"]
    assert words(library.scenario("dekker").by_fences) == ["fence seq_cst device"]


def test_independent_readers_get_a_fence_and_coherent_ones_nothing(tmp_path: Path) -> None:
    coherent, independent = scenario("coherent", tmp_path)
    assert words(coherent.kernel) == []
    assert words(independent.kernel) == ["fence seq_cst device"] * 2


@pytest.mark.parametrize("name", ["message", pytest.param("ring", marks=pytest.mark.slow)])
def test_checked_leaves_what_a_hand_wrote(name: str, tmp_path: Path) -> None:
    """Flags that go both ways need a fence by the proof, and none by the checker."""
    checked = scenario(name, tmp_path, "checked")
    for step, by_hand in zip(checked, library.scenario(name).small(), strict=True):
        if step.kernel.name == "across_system":
            continue  # system scope is left as it is
        assert sorted(words(step.kernel)) == sorted(words(by_hand.kernel)), step.kernel.name


@pytest.mark.parametrize("name", ["dekker", "seqlock"])
def test_a_scenario_is_safe_on_the_target(name: str, tmp_path: Path) -> None:
    for step in scenario(name, tmp_path):
        found = compiler.certificate(
            step.kernel, "ptx:sm_90", step.arguments, step.grid, step.workgroup
        )
        assert found.unsafe is None, step.kernel.name


def test_the_artifact_says_what_was_added_and_why() -> None:
    @hetir.kernel(memory_model="sc")
    def dekker(wants: hl.Array[hl.i32, 1], inside: hl.Array[hl.i32, 1]):
        me = hl.group_id(0)
        hl.atomic_store(wants, me, 1)
        if hl.atomic_load(wants, 1 - me) == 0:
            inside[me] = 1

    (fence,) = hetir.compile(dekker, target="ptx:sm_90").fences
    assert (fence.kind, fence.order, fence.scope) == ("fence", "seq_cst", "device")
    assert fence.instruction == "fence.sc.gpu;"
    line = dekker.__wrapped__.__code__.co_firstlineno + 3
    assert fence.reason.endswith(
        'added for memory_model="sc": work-items could see this access pass an earlier one, which '
        f"one memory forbids (line {line})"
    )


def test_the_evaluator_and_the_weak_machine_see_the_added_orders() -> None:
    @hetir.kernel(memory_model="sc")
    def message(data: hl.Array[hl.i32, 1], flag: hl.Array[hl.i32, 1], out: hl.Array[hl.i32, 1]):
        if hl.group_id(0) == 0:
            data[0] = 42
            hl.atomic_store(flag, 0, 1)
        elif hl.atomic_load(flag, 0) == 1:
            out[0] = data[0]

    words = tuple(np.zeros(1, np.int32) for _ in range(3))
    assert not hetir.check(message, words, 2, 1, weak=True, runs=40).faults
    plain = hetir.kernel(message.__wrapped__)
    assert hetir.check(plain, words, 2, 1, weak=True, runs=40).faults
