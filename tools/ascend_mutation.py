"""Takes away each flag, barrier and cache operation of the library's kernels, one at a time.

    python -m tools.ascend_mutation [--shim [--most=N]] [KERNEL...]

The independent checker (hetir/backends/ascend/simd_sync_check.py) must find that something is not
ordered any more. With `--shim` each kernel also runs on the shim with the operation switched off,
under its hostile orders until one shows it; there the flags of queues and the barriers of SIMT
kernels (`ascend:950`) are taken away too; of a kernel with more than N, every second, third... one.
What no run shows is listed: there the checker knows of a path that the case does not take, or
takes two parts of an array for one.
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
from hetir.backends.ascend.simd_sync_check import Checker
from hetir.diagnostics import HetirError
from hetir.emulator import ascend as shim
from hetir.emulator.ascend.sites import Sync, removals
from hetir.ir.core import Kernel
from hetir.passes.simplify import simplify
from tests.unit.ascend_support import Dims, Launch, copied, evaluated, launch_of

SIMD = ("ascend:910b", "ascend:310p")
SIMT = "ascend:950"
ORDERS = (*shim.ORDERS, "random:1", "random:2")
ALL = 1 << 30
SIZES = {**library.SMALL, "vector_add": 10_001, "saxpy": 10_001}  # with a last block half full


@dataclass(frozen=True, slots=True)
class Step:
    """A kernel of the library as its case launches it for the first time."""

    kernel: Kernel
    slots: list[Any]
    grid: Dims
    workgroup: Dims


def steps(name: str) -> Iterator[Step]:
    """Each kernel of a case once, with the arguments that the steps before it left."""
    case = library.case(name, size=SIZES[name])
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


def shown(step: Step, text: str, target: str, most: int) -> tuple[list[tuple[Sync, ...]], int]:
    """What was taken away with no run showing it, and how much was taken away."""
    runs = Runs(step, text, target)
    found = removals(text)
    found = found[:: -(-len(found) // most) or 1]
    return [sites for sites in found if not runs.shows(sites)], len(found)


# ---- the table -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel and target: operations there are, missed by proof; taken away, shown by runs.

    `unseen` are the places in the source of what no run shows.
    """

    name: str
    counts: tuple[int, int, int, int]
    unseen: tuple[str, ...]


def row(step: Step, target: str, most: int) -> Row:
    """Take away each operation of a kernel, `most` of them by runs.

    Raises HetirError where the target refuses it.
    """
    simple = simplify(step.kernel)
    made = build(simple, target, step.workgroup, disjoint=True) if target in SIMD else None
    text = (made or compile_kernel(simple, target=target, workgroup=step.workgroup)).text
    there, missed = proven(made.program) if made else (0, 0)
    unseen, taken = shown(step, text, target, most) if most else ([], 0)
    places = (f"line {s[0].line}: {s[0].call}{s[0].detail}" for s in unseen)
    name = f"{step.kernel.name} | {target.partition(':')[2]}"
    return Row(name, (there, missed, taken, taken - len(unseen)), tuple(places))


def rows(names: Sequence[str], most: int) -> Iterator[Row]:
    """Of all kernels of some cases on all targets; progress goes to stderr."""
    for step in (step for name in names for step in steps(name)):
        for target in (*SIMD, *([SIMT] if most else [])):
            start = time.perf_counter()
            try:
                yield (made := row(step, target, most))
            except HetirError as error:
                print(f"{step.kernel.name} {target}: refused: {error.message}", file=sys.stderr)
                continue
            seconds = time.perf_counter() - start
            print(f"{made.name} {made.counts} {seconds:.1f} s", file=sys.stderr, flush=True)


def table(found: Sequence[Row]) -> str:
    """What was found, as a page."""
    head = ("kernel", "target", "operations", "missed by proof", "taken away", "shown by runs")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    lines += [f"| {r.name} | {' | '.join(map(str, r.counts))} |" for r in found]
    there, missed, taken, seen = (sum(r.counts[n] for r in found) for n in range(4))
    lines.append(f"| all | | {there} | {missed} | {taken} | {seen} |")
    unseen = [f"- {r.name.replace(' |', ',')}, {place}" for r in found for place in r.unseen]
    return "\n".join([*lines, *(["", "Not shown by a run:", "", *unseen] if unseen else [])])


def main() -> None:
    """Print a row a kernel and target."""
    names = [a for a in sys.argv[1:] if not a.startswith("-")]
    counts = [int(a.partition("=")[2]) for a in sys.argv if a.startswith("--most=")]
    most = (counts or [ALL])[0] if "--shim" in sys.argv else 0
    print(table([*rows(names or library.NAMES, most)]))


if __name__ == "__main__":
    main()
