"""Takes away each flag, barrier and cache operation of the library's kernels, one at a time.

    python -m tools.ascend_mutation [--shim] [KERNEL...]

The independent checker (hetir/backends/ascend/simd_sync_check.py) must find that something is not
ordered any more. With `--shim` each kernel also runs on the shim with the operation switched off,
under its hostile orders until one shows it; there the flags of queues and the barriers and fences
of SIMT kernels (`ascend:950`) are taken away too. What no run shows is printed: there the checker
names a path that the case does not take, or the operation is one too many.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetir import compiler, library, runtime
from hetir.backends.ascend import compile_kernel
from hetir.backends.ascend.simd import build
from hetir.backends.ascend.simd_program import Block, instructions
from hetir.backends.ascend.simd_sync_check import Checker, check
from hetir.diagnostics import HetirError
from hetir.emulator import ascend as shim
from hetir.emulator.ascend.sites import Sync, removals
from hetir.ir.core import Kernel
from hetir.passes.simplify import simplify
from tests.unit.ascend_support import Dims, Launch, copied, evaluated, launch_of

SIMD = ("ascend:910b", "ascend:310p")
SIMT = "ascend:950"
ORDERS = (*shim.ORDERS, "random:1", "random:2")
QUEUES = ("EnQue", "DeQue", "AllocTensor", "FreeTensor")


@dataclass(frozen=True, slots=True)
class Step:
    """A kernel of the library as its case launches it for the first time."""

    kernel: Kernel
    slots: list[Any]
    grid: Dims
    workgroup: Dims


def steps(name: str) -> Iterator[Step]:
    """Each kernel of a case once, with the arguments that the steps before it left."""
    case = library.case(name, size=library.SMALL[name])
    case.reset()
    seen: set[str] = set()
    for step in case.steps:
        values = step.kernel.operands(step.arguments)
        module = compiler.record(step.kernel, step.kernel.specialise(values)).module
        kernel = compiler.prepare(module)
        layout = compiler.layout_of(kernel)
        slots = runtime.host_slots(layout, values, step.kernel.parameters)
        made = Step(kernel, slots, compiler.dims(step.grid), compiler.dims(step.workgroup))
        if kernel.name not in seen:
            seen.add(kernel.name)
            yield made
        if len(seen) == len({s.kernel.name for s in case.steps}):
            return
        left = evaluated(kernel, slots, made.grid, made.workgroup)
        for slot, value in zip(slots, left, strict=True):
            if isinstance(slot, np.ndarray) and slot.flags.writeable:
                slot[...] = value


# ---- by proof ------------------------------------------------------------------------------


def proven(program: Block) -> tuple[int, int]:
    """How many operations a program has, and how many the checker misses when they are gone."""
    checker = Checker(program)
    assert list(checker.faults()) == []
    syncs = [s for i in instructions(program) for s in i.syncs]
    return len(syncs), sum(map(checker.needs, syncs))


def rebuilt(program: Block) -> int:
    """How many are missed when each program without one is checked from the beginning."""
    missed = 0
    for instr in list(instructions(program)):
        for at in range(len(instr.syncs)):
            sync = instr.syncs.pop(at)
            missed += bool(check(program))
            instr.syncs.insert(at, sync)
    return missed


# ---- by running ----------------------------------------------------------------------------


class Runs:
    """Runs of one source on the shim, all its workgroups on one core."""

    def __init__(self, step: Step, text: str, target: str) -> None:
        self.step, self.text, self.target = step, text, target
        self.want = self._run((), ORDERS[0])
        assert self.want is not None, "the kernel fails as it is"

    def shows(self, sites: Sequence[Sync]) -> bool:
        """Whether an order shows that operations are missing."""
        disabled = [site.index for site in sites]
        return any(self._differs(self._run(disabled, order)) for order in ORDERS)

    def _differs(self, got: list[bytes] | None) -> bool:
        return got != self.want

    def _run(self, disabled: Sequence[int], order: str) -> list[bytes] | None:
        """What a run leaves in memory, or None where it breaks a rule."""
        launch = self._launch()
        report = shim.run(
            self.text,
            arch=self.target,
            arrays=launch.arrays,
            launch_block=launch.block,
            blocks=1,
            addresses=launch.addresses,
            order=order,
            disabled=disabled,
            # one block of a SIMT kernel walks through all workgroups too
            shape=shim.Shape(workgroup=self.step.workgroup),
            align=8,
            seconds=120,
        )
        return [array.tobytes() for array in launch.arrays] if report.ok else None

    def _launch(self) -> Launch:
        step = self.step
        return launch_of(step.kernel, copied(step.slots), step.grid, step.workgroup)


def shown(step: Step, text: str, target: str) -> tuple[list[tuple[Sync, ...]], int]:
    """What was taken away with no run showing it, and how much was taken away."""
    runs = Runs(step, text, target)
    found = removals(text)
    return [sites for sites in found if not runs.shows(sites)], len(found)


# ---- the table -----------------------------------------------------------------------------


def row(step: Step, target: str, run: bool) -> tuple[str, int, int, int, int]:
    """A line of the table: counts of the checker (there are, missed) and of the shim."""
    simple = simplify(step.kernel)
    made = build(simple, target, step.workgroup, disjoint=True) if target in SIMD else None
    text = (made or compile_kernel(simple, target=target, workgroup=step.workgroup)).text
    there, missed = proven(made.program) if made else (0, 0)
    unseen, taken = shown(step, text, target) if run else ([], 0)
    cells = f"{there} | {missed}" if made else "- | -"
    cells += f" | {taken} | {taken - len(unseen)}" if run else " | - | -"
    for sites in unseen:
        call = f"line {sites[0].line}, {sites[0].call}{sites[0].detail}"
        print(f"{step.kernel.name} {target}: {call}", flush=True)
    line = f"| {step.kernel.name} | {target.partition(':')[2]} | {cells} |"
    return line, there, missed, taken, taken - len(unseen)


def main() -> None:
    """Print a row a kernel and target."""
    names = [a for a in sys.argv[1:] if not a.startswith("-")]
    run = "--shim" in sys.argv
    totals = np.zeros(4, int)
    lines = ["| kernel | target | operations | missed by proof | taken away | shown by runs |"]
    lines.append("|---|---|---|---|---|---|")
    for name in names or library.NAMES:
        for step in steps(name):
            for target in (*SIMD, *([SIMT] if run else [])):
                start = time.perf_counter()
                try:
                    line, *counts = row(step, target, run)
                except HetirError as error:
                    print(f"{name} {target}: refused: {error.message}", file=sys.stderr)
                    continue
                totals += counts
                lines.append(line)
                print(f"{line} {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    print("\n".join(lines))
    print(f"\nBy proof: {totals[0]}, missed when gone: {totals[1]}.")
    print(f"By running: {totals[2]}, shown when gone: {totals[3]}.")


if __name__ == "__main__":
    main()
