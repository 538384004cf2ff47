"""The flags of SIMD kernels: enough by a checker of its own, none too many, and missed if gone."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetir import compiler, library
from hetir.backends.ascend import simd
from hetir.backends.ascend.simd import Built, build
from hetir.backends.ascend.simd_passes import ties
from hetir.backends.ascend.simd_program import Instr, Sync, count_syncs, instructions
from hetir.backends.ascend.simd_sync import covered, synchronise
from hetir.backends.ascend.simd_sync_check import Checker, check
from hetir.backends.ascend.targets import resolve
from hetir.diagnostics import HetirError
from hetir.emulator import ascend as shim
from hetir.ir.core import Kernel
from hetir.ir.types import F64, SCALARS
from hetir.passes.simplify import simplify
from hetir.testing import Shape, generate
from hetir.testing.cases import Case
from tests.unit.ascend_support import copied, evaluated, launch_of, run, same_bits
from tests.unit.test_ascend_simd import lowered
from tests.unit.test_cpu_ops import GROUPS
from tests.unit.test_cpu_ops import check as check_ops

SMALL = ("saxpy", "sum", "histogram", "transpose", "jacobi", "triangular_solve", "spmv", "rotary")
needs_compiler = pytest.mark.skipif(not shim.compilers(), reason="no C++ compiler is here")


def built(name: str, target: str = "ascend:910b") -> Built:
    """The last step of a library kernel."""
    return of_step(library.case(name, size=library.SMALL[name]).steps[-1], target)


def of_step(step: Any, target: str) -> Built:
    kernel, _ = lowered(step)
    return build(simplify(kernel), target, compiler.dims(step.workgroup), disjoint=True)


def sites(made: Built) -> list[tuple[Instr, Sync]]:
    return [(i, s) for i in instructions(made.program) for s in i.syncs]


def needless(made: Built) -> list[Sync]:
    """What the checker does not miss."""
    checker = Checker(made.program)
    return [sync for _, sync in sites(made) if not checker.needs(sync)]


@pytest.mark.parametrize("name", SMALL)
def test_each_flag_is_missed_when_the_program_without_it_is_checked(name: str) -> None:
    made = built(name)
    assert count_syncs(made.program) > 1
    assert check(made.program) == []
    for instr, sync in sites(made):
        at = instr.syncs.index(sync)
        instr.syncs.pop(at)
        assert check(made.program), (sync, instr.lines)
        assert not covered(made.program), (sync, instr.lines)
        instr.syncs.insert(at, sync)


TARGETS = ("ascend:910b", "ascend:310p")
REFUSED = {("monte_carlo", target) for target in TARGETS} | {("histogram", "ascend:310p")}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", library.NAMES)
def test_the_library_has_the_flags_that_it_needs_and_no_others(
    name: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Placed within a second."""
    taken: list[float] = []

    def timed(*arguments: Any) -> None:
        start = time.process_time()
        synchronise(*arguments)
        taken.append(time.process_time() - start)

    monkeypatch.setattr(simd, "synchronise", timed)
    steps = library.case(name, size=library.SMALL[name]).steps
    for step in {step.kernel.name: step for step in steps}.values():
        if (name, target) not in REFUSED:
            made = of_step(step, target)
            assert check(made.program) == []
            assert needless(made) == []
            assert max(taken) < 1


@needs_compiler
@pytest.mark.parametrize("name", ["saxpy", "jacobi"])
def test_the_shim_misses_each_flag(name: str) -> None:
    """Without a SetFlag its wait hangs; without a WaitFlag or barrier a hazard shows."""
    step = library.case(name, size=library.SMALL[name]).steps[-1]
    kernel, slots = lowered(step)
    grid, workgroup = compiler.dims(step.grid), compiler.dims(step.workgroup)
    made = build(simplify(kernel), "ascend:910b", workgroup, disjoint=True)
    launch = launch_of(kernel, copied(slots), grid, workgroup)
    found = [s for s in shim.sync_sites(made.text) if "event" not in s.detail[0]]
    assert len(found) >= 7
    for site in found:
        report = shim.run(
            made.text,
            arch="910b",
            arrays=launch.arrays,
            launch_block=launch.block,
            blocks=1,
            addresses=launch.addresses,
            disabled=[site.index],
        )
        assert not report.ok, site


# ---- generated kernels ---------------------------------------------------------------------


def generated(seed: int) -> Case:
    """A random kernel without f64."""
    shape = Shape(types=tuple(t for t in SCALARS.values() if t != F64))
    return generate(random.Random(seed).randrange, shape)


@needs_compiler
@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=() if n < 6 else pytest.mark.slow) for n in range(60)]
)
def test_generated_kernels(seed: int) -> None:
    case = generated(seed)
    kernel = simplify(case.kernel) if seed % 2 else case.kernel
    target = ("ascend:910b", "ascend:310p")[seed % 4 == 3]
    workgroup = case.workgroup if ties(kernel) or seed % 3 else None  # None: in tiles
    try:
        made = build(kernel, target, workgroup, disjoint=True)
    except HetirError as error:
        assert "not available" in error.message  # noqa: PT017 (of the kernel, not of the test)
        return
    assert check(made.program) == []
    assert needless(made) == []
    arguments = case.arguments()
    if any(isinstance(a, np.ndarray) and 0 in a.strides for a in arguments):
        return  # the shim's own arrays are contiguous
    slots = [
        np.ascontiguousarray(a).reshape(a.shape) if isinstance(a, np.ndarray) else a
        for a in arguments
    ]
    want = evaluated(case.kernel, slots, case.grid, case.workgroup)
    got = copied(slots)
    run(kernel, got, case.grid, case.workgroup, target=target, order=seed % 3, source=made.text)
    same_bits(got, want)


# ---- operations ----------------------------------------------------------------------------


class _EnoughError(Exception):
    pass


def op_kernels(target: str) -> Iterator[Kernel]:
    """A kernel for each group of ops of the same operand types."""
    refused = resolve(target).unsupported
    found: list[Kernel] = []

    def note(kernel: Kernel, *_: object) -> None:
        found.append(kernel)
        raise _EnoughError

    for group in GROUPS.values():
        kept = [i for i in group if i.key not in refused and i.spec.name != "assume_uniform"]
        if kept:
            with pytest.raises(_EnoughError):
                check_ops(kept, Path(), note)
            yield found[-1]


@pytest.mark.parametrize("target", TARGETS)
def test_every_op_and_type_has_the_flags_that_it_needs_and_no_others(target: str) -> None:
    kernels = flags = 0
    for kernel in op_kernels(target):
        made = build(kernel, target, (64, 1, 1), disjoint=True)
        assert check(made.program) == []
        assert needless(made) == []
        kernels += 1
        flags += count_syncs(made.program)
    assert kernels > 30
    assert flags > 500
