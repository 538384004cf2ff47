"""What is emitted: any one order less is flagged, any one more too; what it costs is counted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import hetir
from hetir import compiler, library
from hetir.cli.fences_litmus import harness_text
from hetir.ir.core import Kernel, Operation, walk
from hetir.ir.text import parse_kernel
from hetir.memory.check import Checker
from hetir.memory.claim import constants
from hetir.memory.litmus.reader import parse
from hetir.passes.certificate import Judge, Launch, certify
from hetir.passes.fences import Change, applied, placed
from hetir.passes.simplify import simplify
from hetir.testing import synchronising
from tools import fence_table

PAGE = Path(__file__).parents[2] / "docs" / "fences-table.md"

# ---- deleting and weakening ----------------------------------------------------------------


def holds(text: str) -> bool:
    test = parse(text)
    with Checker(test.program, test.model, guesses=constants(test.claim.condition)) as checker:
        return checker.judge(test.claim).holds


def cells(text: str) -> list[tuple[int, int, str]]:
    """Each instruction of a litmus table with its place in the text."""
    begin, end = text.index("}") + 1, text.index("forall")
    return [
        (begin + m.start(1), begin + m.end(1), m[1].rstrip())
        for m in re.finditer(r"([^|;\n]+)", text[begin:end])
        if m[1].strip()
    ]


def mutants(text: str) -> Iterator[str]:
    """The test with one order, fence or barrier less."""
    for start, end, cell in cells(text):
        word = cell.split()[0]
        wide = end - start
        if re.search(r"\.(acquire|release|acq_rel)\b", word) and not word.startswith("fence"):
            weaker = re.sub(r"\.(acquire|release|acq_rel)\b", ".relaxed", cell)
            yield text[:start] + weaker.ljust(wide) + text[end:]
        elif word.startswith("fence"):
            yield text[:start] + " " * wide + text[end:]
        if ".gpu" in word and not word.startswith("fence.sc"):
            yield text[:start] + cell.replace(".gpu", ".cta").ljust(wide) + text[end:]
    for name in sorted(set(re.findall(r"bar\.sync (\w+)", text))):
        # all work-items' arrivals are one instruction
        yield re.sub(rf"bar\.sync {name}\b", lambda m: " " * len(m[0]), text)


@pytest.mark.parametrize("name", ["message", "stream_k", "tile_signal", "three_party"])
def test_any_one_emitted_order_less_is_flagged(name: str) -> None:
    count = 0
    for step in library.scenario(name).small():
        if step.kernel.name == "across_system":
            continue  # the launch has one device
        made = hetir.compile(step.kernel, target="ptx:sm_90")
        found = compiler.certificate(
            step.kernel, "ptx:sm_90", step.arguments, step.grid, step.workgroup
        )
        text = harness_text(made, found)
        assert holds(text)
        for mutant in mutants(text):
            assert not holds(mutant), mutant
            count += 1
    assert count >= 4


# ---- adding --------------------------------------------------------------------------------


def stronger(kernel: Kernel) -> Iterator[Kernel]:
    """The kernel with one relaxed access of its own made acquire or release."""
    orders = {"atomic.load": "acquire", "atomic.store": "release", "atomic.rmw": "acq_rel"}
    orders["atomic.cas"] = "acq_rel"
    for op in walk(kernel.body):
        if op.attrs.get("order") == "relaxed" and op.name in orders:
            left = f"{orders[op.name]} {op.attrs['scope']}"
            yield applied(kernel, Change(op=op, left=left, rule="checked"))


def of(kernel: Kernel) -> list[str]:
    return [f"{op.name} {op.attrs.get('order')}" for op in walk(kernel.body) if _orders(op)]


def _orders(op: Operation) -> bool:
    return op.name == "fence" or op.attrs.get("order", "relaxed") != "relaxed"


@pytest.mark.parametrize("name", ["coherent", "dekker", "locks", "once"])
def test_any_one_order_more_goes_or_is_flagged(name: str) -> None:
    count = 0
    for step in library.scenario(name).small():
        if step.kernel.name == "independent":
            continue  # all of its accesses are ordered
        types = step.kernel.specialise(step.arguments)
        kernel = simplify(compiler.prepare(compiler.record(step.kernel, types).module))
        launch = Launch(arguments=step.arguments, grid=_three(step.grid), workgroup=(1, 1, 1))
        for more in stronger(kernel):
            gone = of(placed(more)[0]) == of(placed(kernel)[0])
            assert gone or not certify(more, launch, "ptx:sm_90").minimal
            count += 1
    assert count >= 1


def _three(grid: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*grid, 1, 1)[:3]
    return x, y, z


# ---- random kernels ------------------------------------------------------------------------


def judged(seed: int, target: str) -> None:
    kernel = parse_kernel(synchronising.text(seed))
    words = tuple(np.zeros(n, np.int32) for n in synchronising.SHAPES.values())
    launch = Launch(arguments=words, grid=(2, 1, 1), workgroup=(2, 1, 1))
    judge = Judge(kernel, launch, target)
    assert judge.breaks_on_target(placed(kernel)[0]) is None, seed


def test_random_kernels_are_safe_as_emitted() -> None:
    for seed in range(200):
        judged(seed, ("ptx:sm_90", "spirv:vulkan", "spirv:opencl", "ptx:sm_75")[seed % 4])


@pytest.mark.slow
@pytest.mark.parametrize("target", ["ptx:sm_90", "ptx:sm_75", "spirv:opencl", "spirv:vulkan"])
def test_a_thousand_random_kernels_are_safe_as_emitted(target: str) -> None:
    for seed in range(200, 1200):
        judged(seed, target)


# ---- what it costs -------------------------------------------------------------------------


def test_the_page_counts_what_the_code_has() -> None:
    """One release: one MEMBAR, before it; one acquire: one CCTL.IVALL, after it."""
    (step,) = library.scenario("tile_signal").small()
    found = fence_table.compared(step.kernel, step.arguments)
    assert found is not None
    assert found["MEMBAR"] == (1, 3)
    assert found["CCTL.IVALL"] == (1, 3)
    assert found["dmb"][0] == 0
    assert found["x86 full barriers"][0] == 0
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    row = next(line for line in lines if "tile_signal" in line)
    assert row.split(" | ")[1:3] == ["1 / 3", "1 / 3"]


def test_the_page_has_every_kernel_that_orders() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = {line.split()[1] for line in lines if line.startswith("| sync/")}
    ordering = {
        shown
        for shown, kernel, arguments in fence_table.kernels()
        if shown.startswith("sync/") and _ordered(kernel, arguments)
    }
    assert rows == ordering


def _ordered(kernel: hetir.Kernel, arguments: tuple[object, ...]) -> bool:
    traced = compiler.prepare(compiler.record(kernel, kernel.specialise(arguments)).module)
    return any(_orders(op) for op in walk(traced.body))
