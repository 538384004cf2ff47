"""Runs of one kernel in several ways, which must leave the same bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from hetir import emulator, runtime
from hetir.artifact import Artifact
from hetir.backends.cpu import compile_kernel
from hetir.emulator.faults import AssertionFailedError
from hetir.ir.core import Kernel
from hetir.ir.literals import shown
from hetir.ir.types import SCALARS
from hetir.passes.simplify import simplify
from hetir.records import read
from hetir.testing.cases import Case, Dim3, Runner, Said

RECORD_BYTES = 1 << 22


def evaluator(kernel: Kernel, arguments: list[Any], grid: Dim3, workgroup: Dim3) -> Said:
    """Run on the reference evaluator, which also checks bounds."""
    return said_by(emulator.run(kernel, arguments, grid, workgroup))


def checked(kernel: Kernel, arguments: list[Any], grid: Dim3, workgroup: Dim3) -> Said:
    """Run on the reference evaluator with every check on: races, uninitialised reads."""
    return said_by(emulator.run(kernel, arguments, grid, workgroup, checks=True))


def said_by(report: emulator.Report) -> Said:
    """The lines and failed assertions; AssertionError for any other fault."""
    said = Said([(*who, line) for who, line in zip(report.writers, report.output, strict=True)])
    wrong: list[str] = []
    for fault in report.faults:
        if isinstance(fault, AssertionFailedError):
            message = fault.message.removeprefix("assertion failed: ").partition(", in work-item ")
            said.failed[message[0]] += fault.count
        else:
            wrong.append(str(fault))
    if wrong:
        raise AssertionError("\n\n".join(wrong))
    return said


def said_in(artifact: Artifact, data: bytes) -> Said:
    """What a launch wrote into the buffer of its records."""
    found, lost = read(artifact, data)
    assert not lost, f"{lost} bytes of records found no room"
    said = Said()
    for record in found:
        kinds = [SCALARS[d] for d in record.site.dtypes]
        words = [shown(kind, v) for kind, v in zip(kinds, record.operands, strict=True)]
        if record.site.kind == "print":
            said.print(record.group, record.item, record.site.format.format(*words))
        else:
            said.fail(record.site.format)
    return said


def on_cpu(*, optimise: int = 3, simplified: bool = True, lanes: int | None = 0) -> Runner:
    """A runner that compiles for this machine's CPU at one of LLVM's levels.

    `lanes` work-items run as one vector, 0 for one at a time, None as the backend chooses.
    """

    def run(kernel: Kernel, arguments: list[Any], grid: Dim3, workgroup: Dim3) -> Said:
        ready = simplify(kernel) if simplified else kernel
        artifact = compile_kernel(ready, optimise=optimise, workgroup=workgroup, lanes=lanes)
        names = [f"argument {n}" for n in range(len(arguments))]
        return launched(_cpu().load(artifact, names), arguments, grid, workgroup)

    return run


def launched(
    program: runtime.Program, arguments: Sequence[Any], grid: Dim3, workgroup: Dim3
) -> Said:
    """What a launch of a loaded program said, after its end."""
    if not program.artifact.sites:
        program.run(arguments, grid, workgroup)
        return Said()
    written: list[bytes] = []
    records = runtime.Records(size=RECORD_BYTES, finish=written.append)
    program.run(arguments, grid, workgroup, records=records)
    return said_in(program.artifact, *written).in_order()


@cache
def _cpu() -> runtime.Device:
    return runtime.device("cpu")


def on_simplified(runner: Runner) -> Runner:
    """The same runner, given the simplified kernel."""

    def run(kernel: Kernel, arguments: list[Any], grid: Dim3, workgroup: Dim3) -> object:
        return runner(simplify(kernel), arguments, grid, workgroup)

    return run


RUNNERS: Mapping[str, Runner] = {
    "evaluator": evaluator,
    "evaluator, simplified": on_simplified(evaluator),
    "cpu, as written": on_cpu(optimise=0, simplified=False),
    "cpu": on_cpu(),
}
"""What `run_differential` compares unless told otherwise; the first one is right."""


def run_differential(
    kernel: Kernel | Case,
    arguments: Sequence[Any] | None = None,
    grid: Dim3 = (1, 1, 1),
    workgroup: Dim3 = (1, 1, 1),
    *,
    runners: Mapping[str, Runner] = RUNNERS,
) -> None:
    """Run a kernel without calls in several ways; AssertionError says where they differ.

    A generated case brings its own launch and arguments. Every run gets copies of the
    arguments, of the same strides; afterwards all arrays are compared, NaNs as equal, and what
    was said where the runners know it.
    """
    case = kernel if isinstance(kernel, Case) else None
    if isinstance(kernel, Case):
        kernel, grid, workgroup = kernel.kernel, kernel.grid, kernel.workgroup
    results: dict[str, tuple[list[Any], object]] = {}
    for name, runner in runners.items():
        copies = case.arguments() if case else [duplicate(a) for a in arguments or ()]
        results[name] = copies, runner(kernel, copies, grid, workgroup)
    (first, (expected, right)), *others = results.items()
    for name, (got, said) in others:
        wrong = differences(expected, got)
        if isinstance(right, Said) and isinstance(said, Said):
            wrong += right.in_order().differences(said.in_order())
        if wrong:
            lines = "\n  ".join(wrong)
            raise AssertionError(f"`{first}` and `{name}` differ:\n  {lines}")


def duplicate(argument: Any) -> Any:
    """A copy of an array in memory of its own, with the same strides; scalars as they are."""
    if np.ndim(argument) == 0 or not np.size(argument):
        return argument
    array: np.ndarray[Any, Any] = argument
    spans = [s * (n - 1) for s, n in zip(array.strides, array.shape, strict=True)]
    low, high = sum(min(0, s) for s in spans), sum(max(0, s) for s in spans)
    memory = np.zeros(high - low + array.itemsize, np.uint8)
    copy = np.ndarray(array.shape, array.dtype, memory, -low, array.strides)
    copy[...] = array
    return copy


def differences(one: Sequence[Any], two: Sequence[Any]) -> list[str]:
    """Where two lists of arrays differ in bits; NaNs are equal to each other."""
    found: list[str] = []
    for number, pair in enumerate(zip(one, two, strict=True)):
        a, b = (np.ascontiguousarray(array) for array in pair)
        raw = f"u{a.dtype.itemsize}"
        unequal = a.view(raw) != b.view(raw)
        if a.dtype.kind not in "iub":
            with np.errstate(invalid="ignore"):
                unequal &= ~((a != a) & (b != b))
        for place in np.argwhere(unequal)[:3]:
            at = tuple(int(i) for i in place)
            found.append(f"array {number} at {at}: {a[at]!r} and {b[at]!r}")
    return found
