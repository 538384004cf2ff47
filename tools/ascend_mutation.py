"""Takes away each flag, barrier and cache operation of the library's SIMD kernels, one at a time.

    python -m tools.ascend_mutation [KERNEL...]

The independent checker (hetir/backends/ascend/simd_sync_check.py) must miss it. What it does not
miss is counted: there the order holds by other means, and the operation is one too many.
"""

from __future__ import annotations

import sys
import time

from hetir import compiler, library
from hetir.backends.ascend.simd import build
from hetir.backends.ascend.simd_program import instructions
from hetir.backends.ascend.simd_sync_check import check
from hetir.diagnostics import HetirError
from hetir.passes.simplify import simplify

TARGETS = ("ascend:910b", "ascend:310p")


def removed(name: str, target: str) -> tuple[int, int]:
    """How many operations there are, and how many the checker misses when they are gone."""
    total = missed = 0
    for step in library.case(name, size=library.SMALL[name]).steps:
        values = step.kernel.operands(step.arguments)
        kernel = simplify(step.kernel.specialisation(values).kernel)
        made = build(kernel, target, compiler.dims(step.workgroup), disjoint=True)
        assert check(made.program) == []
        for instr in list(instructions(made.program)):
            for at in range(len(instr.syncs)):
                sync = instr.syncs.pop(at)
                total += 1
                missed += bool(check(made.program))
                instr.syncs.insert(at, sync)
    return total, missed


def main() -> None:
    """Print a row a kernel and target."""
    totals = [0, 0]
    print("| kernel | target | flags, barriers, cache operations | missed when gone |")
    print("|---|---|---|---|")
    for name in sys.argv[1:] or library.NAMES:
        for target in TARGETS:
            start = time.perf_counter()
            try:
                total, missed = removed(name, target)
            except HetirError as error:
                print(f"| {name} | {target} | refused: {error.message} | |", flush=True)
                continue
            totals = [totals[0] + total, totals[1] + missed]
            seconds = time.perf_counter() - start
            print(f"| {name} | {target} | {total} | {missed} |", flush=True)
            print(f"{name} {target}: {seconds:.1f} s", file=sys.stderr)
    print(f"\nIn all {totals[0]}, of which {totals[1]} are missed when they are gone.")


if __name__ == "__main__":
    main()
