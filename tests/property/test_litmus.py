"""Small concurrent programs do nothing that the memory model forbids, on any target here.

The short form runs by default; the long one, of 10^5 runs a target, writes `litmus_runs.json`.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from hetir import emulator, testing
from hetir.artifact import Artifact
from hetir.backends.llvm import memory as llvm_memory
from hetir.backends.ptx import memory as ptx_memory
from hetir.backends.spirv import memory as spirv_memory
from hetir.ir.core import Kernel
from hetir.ir.text import parse_kernel, print_kernel
from hetir.memory.check import Checker, Outcome
from hetir.memory.claim import FinalLocation
from hetir.memory.litmus.reader import parse
from hetir.memory.lowering import Kind, Part, Row, lookup
from hetir.memory.models.ir import IrModel
from hetir.memory.program import Order, Scope
from hetir.memory.random_programs import SHAPES
from hetir.passes import harness
from hetir.runtime import LaunchFailedError
from hetir.target import UnsupportedError
from hetir.testing import litmus, synchronising
from hetir.testing.litmus import Launch, Litmus
from tests.property import litmus_targets
from tests.property.litmus_targets import WEAK, Target, targets

FRESH = random.SystemRandom().randrange(1 << 40)
STYLES = {
    "relaxed": (Order.RELAXED, Order.RELAXED),
    "ordered": (Order.ACQUIRE, Order.RELEASE),
    "seq_cst": (Order.SEQ_CST, Order.SEQ_CST),
}
LONG_RUN = 100_000
PAGE = Path(__file__).parents[2] / "docs" / "memory-model.md"
COLUMNS = ("programs", "runs", "seen", "allowed", "forbidden")
RECORD = Path(__file__).with_name("litmus_runs.json")


def programs(target: Target, fixed: int, fresh: int) -> Iterator[tuple[int, Litmus]]:
    """Programs of a fixed seed, then of one that differs in every run."""
    for seed, count in ((1, fixed), (FRESH, fresh)):
        for found in islice(litmus.stream(seed, widest=target.widest), count):
            yield seed, found


@cache
def documented() -> tuple[Litmus, ...]:
    """The examples of the memory model's page that do not race."""
    tests = re.findall(
        r"^```litmus \w+\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    judged = [litmus.judged(parse(test).program) for test in tests]
    return tuple(found for found in judged if found is not None)


def hold(target: Target, found: Litmus, launches: int, seed: int = 0) -> litmus.Tally | None:
    """Run a program and compare; None where the target refuses it."""
    try:
        tally = found.run(target.runner, target.launch_of(found), launches=launches, seed=seed)
        tally.check()
    except UnsupportedError:
        return None
    except Exception as error:
        error.add_note(f"on {target.name}, seed {seed}\n{found}")
        raise
    return tally


# ---- every target ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["evaluator", *targets()])
def test_nothing_forbidden_happens(name: str) -> None:
    target = targets().get(name, WEAK)
    launches, ran = 15 if target is WEAK else 1, 0
    for seed, found in programs(target, 4, 2):
        tally = hold(target, found, launches, seed)
        ran += tally.runs if tally else 0
    assert ran >= 90


@settings(
    max_examples=8,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(testing.concurrent_programs())
def test_programs_of_the_strategy_run_as_the_model_allows(found: Litmus) -> None:
    found.run(litmus.weakly, launches=5).check()


def test_kernels_that_synchronise_end_as_the_model_allows() -> None:
    """Barriers, elected work-items and shared words, on weak memory."""
    outcomes = 0
    for seed in (*range(6), FRESH):
        kernel = parse_kernel(_initialised(synchronising.text(seed)))
        arrays = [np.zeros(n, np.int32) for n in synchronising.SHAPES.values()]
        launch = (synchronising.GRID, 1, 1), (synchronising.WORKGROUP, 1, 1)
        read = harness.read(kernel, arrays, *launch)
        observed = tuple(map(FinalLocation, read.outputs))
        with Checker(read.program, IrModel()) as checker:
            allowed = checker.outcomes(observed)
        for turn in range(10):
            ends = [np.zeros(n, np.int32) for n in synchronising.SHAPES.values()]
            report = emulator.run(kernel, ends, *launch, weak=True, seed=turn)
            assert not report.faults, (seed, str(report))
            values = dict(zip(synchronising.SHAPES, ends, strict=True))
            assert tuple(_element(values, name) for name in read.outputs) in allowed, seed
        outcomes += len(allowed)
    assert outcomes > 20


def _initialised(text: str) -> str:
    """The kernel with its shared word set to 0, as the checker takes it."""
    begins = "%item: i64 = local_id axis=0"
    store = "atomic.store %s, %zero, %none order=relaxed scope=workgroup"
    return text.replace(begins, f"{begins}\n{store}\nbarrier scope=workgroup")


def _element(values: Mapping[str, Any], name: str) -> int:
    array, _, index = name.rstrip("]").partition("[")
    return int(values[array][int(index)])


# ---- the check can fail ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "style"),
    [*((name, "relaxed") for name in ("SB", "MP", "LB", "IRIW", "2+2W", "WRC", "ISA2")),
     ("SB", "ordered"), ("2+2W", "ordered"), ("MP", "ordered"), ("SB", "seq_cst")],
)  # fmt: skip
def test_weak_memory_shows_all_that_the_model_allows(name: str, style: str) -> None:
    load, store = STYLES[style]
    found = litmus.shaped(name, load=load, store=store)
    seen: set[Outcome] = set()
    for turn in range(40):
        tally = found.run(litmus.weakly, launches=25, seed=1000 * turn)
        tally.check()
        seen |= set(tally.seen)
        if frozenset(seen) == found.promise.outcomes:
            break
    assert frozenset(seen) == found.promise.outcomes


def test_shapes_take_fences_scopes_and_workgroups() -> None:
    fenced = litmus.shaped("SB", fence=Order.SEQ_CST)
    near: dict[str, Any] = {"load": Order.ACQUIRE, "store": Order.RELEASE, "scope": Scope.WORKGROUP}
    for found in (fenced, litmus.shaped("MP", groups=(0, 0), **near)):
        tally = found.run(litmus.weakly, launches=100)
        assert frozenset(tally.seen) == found.promise.outcomes
        assert len(tally.seen) == 3
    with pytest.raises(ValueError, match="races"):
        litmus.shaped("MP", groups=(0, 1), **near)


WEAKER: dict[str, dict[str, str]] = {
    "release as relaxed": {"release": "relaxed", "acq_rel": "acquire"},
    "acquire as relaxed": {"acquire": "relaxed", "acq_rel": "release"},
    "no seq_cst": {"seq_cst": "acq_rel"},
    "device scope as the workgroup's": {"device": "workgroup", "system": "workgroup"},
}


def weakened(kernel: Kernel, words: Mapping[str, str]) -> Kernel:
    """The kernel as a wrong mapping would have it: some orders or scopes taken for others."""
    lines = [_weaker(line, words) for line in print_kernel(kernel).splitlines()]
    return parse_kernel("\n".join(line for line in lines if "fence order=relaxed" not in line))


def _weaker(line: str, words: Mapping[str, str]) -> str:
    for name, value in words.items():
        if re.search(rf"scope={name}\b", line):
            return line.replace(f"scope={name}", f"scope={value}")
        if re.search(rf"order={name}\b", line):
            halves = {"atomic.load": "acquire", "atomic.store": "release"}
            half = next((order for access, order in halves.items() if access in line), value)
            order = half if value == "acq_rel" else value
            return line.replace(f"order={name}", f"order={order}")
    return line


def caught(target: Target, launches: int = 1) -> bool:
    """Whether a program of the documentation does what the model forbids, or races."""
    for found in documented():
        try:
            hold(target, found, launches)
        except AssertionError:
            return True
    return False


def test_the_documented_programs_run_as_documented() -> None:
    assert {"MP", "ISA2-scopes", "SB-fences", "last-block"} <= {f.name for f in documented()}
    for found in documented():
        hold(WEAK, found, 15)
        hold(targets()["ptx-emulator"], found, 2)


@pytest.mark.parametrize("name", WEAKER)
def test_weakened_kernels_are_caught_on_weak_memory(name: str) -> None:
    def run(kernel: Kernel, *rest: Any) -> None:
        litmus.weakly(weakened(kernel, WEAKER[name]), *rest)

    wrong = Target(name=name, runner=run, together=Launch())
    assert caught(wrong, launches=30)


Change = Callable[[Row], Row]


def reworded(pattern: str, instead: str, *kinds: Kind) -> Change:
    """Change the text of the table's instructions, of some kinds or of all."""

    def change(row: Row) -> Row:
        if kinds and row.kind not in kinds:
            return row
        steps = tuple(replace(s, text=re.sub(pattern, instead, s.text)) for s in row.steps)
        return replace(row, steps=steps)

    return change


def wrongly(monkeypatch: pytest.MonkeyPatch, module: ModuleType, change: Change) -> None:
    """Let a backend read a changed table."""

    def found(name: str, kind: Kind, order: Order | None, scope: Scope) -> Row:
        return change(lookup(name, kind, order, scope))

    monkeypatch.setattr(module, "lookup", found)


WRONG_PTX = {
    "acquire loads relaxed": reworded(r"\.acquire", ".relaxed", Kind.LOAD),
    "release stores relaxed": reworded(r"\.release", ".relaxed", Kind.STORE),
    "block scope for the device's": reworded(r"\.gpu", ".cta"),
    "relaxed accesses weak": reworded(r"\.relaxed\.\w+", ".weak", Kind.LOAD, Kind.STORE),
    "no barrier": reworded(r"^bar.*", "fence.acq_rel.cta", Kind.BARRIER),
}


@pytest.mark.parametrize("name", WRONG_PTX)
def test_a_weakened_mapping_to_ptx_races_on_the_emulator(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrongly(monkeypatch, ptx_memory, WRONG_PTX[name])
    assert caught(targets()["ptx-emulator"], launches=6)


@pytest.mark.skipif("ascend-shim:950" not in targets(), reason="no C++ compiler")
def test_ascend_c_without_its_fences_races_on_the_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    def unfenced(*given: Any) -> Artifact:
        made = compiled(*given)
        assert made.text is not None
        return replace(made, text=made.text.replace("asc_threadfence();", ""))

    compiled = litmus.compiled
    found = next(test for test in documented() if test.name == "MP")
    hold(targets()["ascend-shim:950"], found, 4)
    monkeypatch.setattr(litmus, "compiled", unfenced)
    with pytest.raises(LaunchFailedError, match="no barrier or fence orders them"):
        hold(targets()["ascend-shim:950"], found, 4)


def without_seq_cst(row: Row) -> Row:
    """Stores only release, loads only acquire; no hidden word."""
    weaker = {Kind.LOAD: Order.ACQUIRE, Kind.STORE: Order.RELEASE}.get(row.kind)
    if weaker is None or row.order is not Order.SEQ_CST:
        return row
    word = str(weaker).capitalize()
    steps = tuple(
        replace(step, order=weaker, text=step.text.replace("SequentiallyConsistent", word))
        for step in row.steps
        if step.part is not Part.HIDDEN_UPDATE
    )
    return replace(row, steps=steps)


REAL = {"cpu": llvm_memory, "vulkan": spirv_memory}
"""The lowering of the targets whose work-items run on this machine's cores.

Not OpenCL's: Intel's runtime makes a full barrier of every atomic store.
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in REAL if name in targets()])
def test_a_weakened_mapping_shows_on_real_cores(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrongly(monkeypatch, REAL[name], without_seq_cst)
    target = {t.name: t for t in litmus_targets.devices(scale=100)}[name]
    found = litmus.shaped("SB", load=Order.SEQ_CST, store=Order.SEQ_CST)
    until = time.monotonic() + 120
    forbidden: dict[Any, int] = {}
    for seed in range(1000):
        tally = found.run(target.runner, target.launch_of(found), seed=seed)
        forbidden = tally.forbidden
        if forbidden or time.monotonic() > until:
            break
    assert forbidden


# ---- the long run ----------------------------------------------------------------------------


def known(widest: Scope) -> Iterator[Litmus]:
    """Every shape with each style of orders, and random programs."""
    for name in SHAPES:
        for load, store in STYLES.values():
            yield litmus.shaped(name, load=load, store=store)
    yield from islice(litmus.stream(2, widest=widest), 3 * len(SHAPES))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["evaluator", *targets()])
def test_a_hundred_thousand_runs(name: str) -> None:
    target = {WEAK.name: WEAK} | {t.name: t for t in litmus_targets.devices(scale=10)}
    chosen = target.get(name, WEAK)
    cases = list(known(chosen.widest))
    table: dict[str, dict[str, int]] = {}
    for number, found in enumerate(cases):
        wanted = LONG_RUN * (number + 1) // len(cases) - sum(r["runs"] for r in table.values())
        launches = max(1, -(-wanted // chosen.launch_of(found).instances))
        tally = hold(chosen, found, launches, number)
        row = table.setdefault(found.name, dict.fromkeys(COLUMNS, 0))
        if tally is not None:
            row["programs"] += 1
            row["runs"] += tally.runs
            row["allowed"] += len(found.promise.outcomes)
            row["seen"] += len(tally.seen)
            row["forbidden"] += len(tally.forbidden)
    recorded: dict[str, Any] = {}
    if RECORD.exists():
        recorded = json.loads(RECORD.read_text(encoding="utf-8"))
    recorded[name] = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "shapes": table}
    text = json.dumps(recorded, indent=1, sort_keys=True)
    RECORD.write_text(text + "\n", encoding="utf-8")
    assert sum(row["runs"] for row in table.values()) >= LONG_RUN


def test_the_last_long_run_saw_nothing_forbidden() -> None:
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))
    assert {"evaluator", "cpu", "opencl", "vulkan", "ptx-emulator", "ascend-shim:950"} <= {
        *recorded
    }
    for name, run in recorded.items():
        rows = run["shapes"]
        assert {*SHAPES} <= {*rows}, name
        assert sum(row["runs"] for row in rows.values()) >= LONG_RUN, name
        assert all(row["forbidden"] == 0 for row in rows.values()), name
        assert all(row["seen"] <= row["allowed"] for row in rows.values()), name


def test_the_page_says_what_the_long_run_saw() -> None:
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))
    rows = {
        tuple(f"{sum(row[what] for row in run['shapes'].values()):,}" for what in COLUMNS)
        for run in recorded.values()
    }
    table = PAGE.read_text(encoding="utf-8").partition("| outcomes seen |")[2]
    cells = [line.split(" | ")[1:] for line in table.splitlines()[2:8]]
    assert {tuple(cell.rstrip(" |") for cell in row) for row in cells} == rows
