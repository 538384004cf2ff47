"""Compares hetir's register estimate with NVIDIA's assembler, kernel by kernel.

`python tools/measure_registers.py sm_80 sm_90` prints a table over the kernel library;
`--mathematics` adds a kernel for each function of the mathematics. Needs ptxas (HETIR_PTXAS, the
CUDA toolkit, or `pip install nvidia-cuda-nvcc`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import hetir  # noqa: E402
import hetir.lang as hl  # noqa: E402
from hetir import compiler, library, runtime  # noqa: E402
from hetir.backends import ptx  # noqa: E402
from hetir.backends.ptx.assembler import find  # noqa: E402
from hetir.ir.core import Kernel  # noqa: E402
from hetir.passes.pressure import registers  # noqa: E402
from hetir.passes.simplify import simplify  # noqa: E402
from hetir.target import Assumptions  # noqa: E402

_TWO_ARGUMENTS = {"atan2", "hypot", "pow"}
_OTHER = {"powi", "sincos"}


def library_kernels(names: Sequence[str] = library.NAMES) -> Iterator[tuple[Kernel, Any]]:
    """Each kernel of the library's cases once, without calls, and its workgroup."""
    for name in names:
        steps = library.case(name, size=library.SMALL[name]).steps
        for step in {id(s.kernel): s for s in steps}.values():
            yield _prepared(step.kernel, step.arguments), compiler.dims(step.workgroup)


def mathematics() -> Iterator[tuple[Kernel, Any]]:
    """A kernel for each function of one or two arguments."""
    x = np.zeros(64, np.float32)
    for name in hl.math.__all__:
        if name not in _OTHER:
            made = _binary(name) if name in _TWO_ARGUMENTS else _unary(name)
            yield _prepared(made, (x, x, x)), (256, 1, 1)


def _unary(name: str) -> Any:
    function = getattr(hl, name)

    @hetir.kernel
    def unary(x: Any, _: Any, y: Any) -> None:
        i = hl.global_id(0)
        if i < x.shape[0]:
            y[i] = function(x[i])

    unary.name = name
    return unary


def _binary(name: str) -> Any:
    function = getattr(hl, name)

    @hetir.kernel
    def binary(x: Any, z: Any, y: Any) -> None:
        i = hl.global_id(0)
        if i < x.shape[0]:
            y[i] = function(x[i], z[i])

    binary.name = name
    return binary


def _prepared(kernel: Any, arguments: Sequence[Any]) -> Kernel:
    values = tuple(map(runtime.as_operand, kernel.bind(arguments, {})))
    return compiler.prepare(compiler.record(kernel, kernel.specialise(values)).module)


def compare(kernel: Kernel, workgroup: Any, target: str) -> tuple[int, int]:
    """The estimate, and what the assembler says of the code for small disjoint arrays."""
    simple = simplify(kernel)
    promised = Assumptions(index_bits=32, disjoint=True)
    made = ptx.compile_kernel(simple, target=target, workgroup=workgroup, assumptions=promised)
    assert made.resources.registers is not None
    emitted = ptx.lowered(simple, target=target, workgroup=workgroup, assumptions=promised)
    return registers(emitted), made.resources.registers


def table(kernels: Iterator[tuple[Kernel, Any]], targets: Sequence[str]) -> list[list[float]]:
    """Print a row a kernel; gives the relative errors by target."""
    print(f"| kernel | {' | '.join(f'estimate, {t}' for t in targets)} |")
    print("|---" * (len(targets) + 1) + "|")
    errors: list[list[float]] = [[] for _ in targets]
    for kernel, workgroup in kernels:
        pairs = [compare(kernel, workgroup, f"ptx:{t}") for t in targets]
        for column, (guess, found) in zip(errors, pairs, strict=True):
            column.append(abs(guess - found) / found)
        shown = " | ".join(f"{guess}, {found}" for guess, found in pairs)
        print(f"| {kernel.name} | {shown} |", flush=True)
    return errors


def main() -> None:
    """Print the tables and the median and 90th percentile of the errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", default=["sm_80", "sm_90"])
    parser.add_argument("--mathematics", action="store_true")
    asked = parser.parse_args()
    if find("ptxas") is None:
        sys.exit("ptxas is not here: set HETIR_PTXAS, or pip install nvidia-cuda-nvcc")
    for title, kernels in (("library", library_kernels()), ("mathematics", mathematics())):
        if title == "library" or asked.mathematics:
            for target, errors in zip(asked.targets, table(kernels, asked.targets), strict=True):
                tenth = np.percentile(errors, 90)
                print(
                    f"{title}, {target}: {len(errors)} kernels, error median "
                    f"{median(errors):.1%}, 90th percentile {tenth:.0%}, most {max(errors):.0%}"
                )


if __name__ == "__main__":
    main()
