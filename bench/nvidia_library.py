"""Registers, shared memory and spills of every library kernel on every NVIDIA generation.

Usage: python -m bench.nvidia_library [sm_75 ...]. Needs an assembler, and no GPU.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetir import compiler, library, runtime
from hetir.artifact import Artifact
from hetir.backends.ptx import assembler, compile_kernel
from hetir.ir.core import Kernel
from hetir.passes.simplify import simplify
from hetir.target import Assumptions

CHIPS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A kernel with what its launch lets the code rely on."""

    kernel: Kernel
    workgroup: compiler.Dims
    promises: Assumptions


def cases() -> dict[str, Case]:
    """Every kernel of the library, as its case launches it on device arrays."""
    found: dict[str, Case] = {}
    for name in library.NAMES:
        for step in library.case(name, size=library.SMALL[name]).steps:
            values = tuple(map(runtime.as_operand, step.arguments))
            traced = compiler.record(step.kernel, step.kernel.specialise(values))
            kernel = simplify(compiler.prepare(traced.module))
            given = (step.arguments[int(p.source[0])] for p in kernel.params)
            promises = Assumptions(
                index_bits=32, disjoint=True, aligned=tuple(map(is_aligned, given))
            )
            found[step.kernel.name] = Case(
                kernel=kernel, workgroup=compiler.dims(step.workgroup), promises=promises
            )
    return found


def is_aligned(value: Any) -> bool:
    """Whether every stride but that of a contiguous last axis is a multiple of 16."""
    if not isinstance(value, np.ndarray):
        return False
    last = value.ndim and value.strides[-1] == value.itemsize
    return all(step % 16 == 0 for step in value.strides[: -1 if last else None])


def compiled(case: Case, chip: str) -> Artifact:
    """The kernel as the launch path compiles it."""
    return compile_kernel(
        case.kernel,
        target=f"ptx:{chip}",
        workgroup=case.workgroup,
        assumptions=case.promises,
    )


def main() -> int:
    """Print the table; the exit status is 1 when a kernel spills."""
    chips = tuple(sys.argv[1:]) or CHIPS
    print(f"{assembler.assembler_version()}: registers / bytes of shared memory / bytes spilled\n")
    print(f"| kernel | {' | '.join(chips)} |\n|---|{'---|' * len(chips)}")
    spilled = 0
    for name, case in sorted(cases().items()):
        cells: list[str] = []
        for chip in chips:
            used = compiled(case, chip).resources
            spilled += bool(used.spill_bytes)
            cells.append(f"{used.registers} / {used.shared_bytes} / {used.spill_bytes}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print(f"\n{spilled} kernels spill")
    return 1 if spilled else 0


if __name__ == "__main__":
    sys.exit(main())
