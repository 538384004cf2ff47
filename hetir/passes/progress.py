"""Loops that wait for another work-item, and which devices let it get there."""

from __future__ import annotations

from collections.abc import Iterator

from hetir.diagnostics import CompileError, Label
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value, walk
from hetir.ir.types import Scalar
from hetir.passes.regions import LOOPS, definitions, source_of

_WRITES = (ops.STORE, ops.ATOMIC_STORE, ops.ATOMIC_RMW, ops.ATOMIC_CAS)


class ProgressError(CompileError):
    """A loop waits for another work-item on a device that may never run it meanwhile.

    Cause: a flag or a lock on a device that runs work-items or workgroups one after another, or
    between workgroups in a kernel whose workgroups need not all run at once. Fix: use a device
    with progress for every work-item and `@hetir.kernel(cooperative=True)`, or split the kernel
    into two launches.
    """

    code = "HET302"


def check_progress(kernel: Kernel, device: str, progress: str) -> None:
    """Raise ProgressError for a wait that a device does not promise to end.

    `progress` is what the device promises: `items` if every work-item of the workgroups that
    run gets its turn, and those of a cooperative kernel all run; empty if nothing.
    """
    loops = [op for op in walk(kernel.body) if op.spec in LOOPS]
    made = definitions(kernel.body) if loops else {}
    for loop in loops:
        read = waits_on(loop, made)
        if read is None or not _written(kernel, read, made):
            continue
        far = read.attrs["scope"] in ("device", "system") and _space(read) == "global"
        if progress == "items" and (kernel.options.cooperative or not far):
            continue
        labels = [Label(read.loc, "this waits for another work-item")] if read.loc else []
        if progress == "items":
            raise ProgressError(
                f"this loop waits for another workgroup, which `{device}` may not have started",
                *labels,
                hint="write `@hetir.kernel(cooperative=True)`, so that all workgroups run at once",
            )
        raise ProgressError(
            f"this loop waits for another work-item, which `{device}` may never run meanwhile",
            *labels,
            hint="signal by two launches in order instead, or use a device with progress for all",
        )


def waits_on(loop: Operation, made: dict[Value, Operation]) -> Operation | None:
    """The atomic access whose value alone ends a loop that changes nothing by itself, or None.

    A compare-and-exchange with what was read last ends when nobody comes between, which needs
    no other work-item: that is no wait.
    """
    inside = set(walk(loop.regions[0]))
    for test in _tests(loop.regions[0]):
        seen: set[Value] = set()
        pending = [test]
        while pending:
            value = pending.pop()
            op = made.get(value)
            if value in seen or op is None or op not in inside:
                continue
            seen.add(value)
            if op.name.startswith("atomic.") and _space(op) != "private":
                retries = op.spec is ops.ATOMIC_CAS and made.get(op.operands[-2]) in inside | {loop}
                if not retries:
                    return op
                continue
            pending += op.operands
            pending += (v for r in op.regions for v in r.terminator.operands)
    return None


def _written(kernel: Kernel, read: Operation, made: dict[Value, Operation]) -> bool:
    """Whether the kernel itself writes the array that a loop waits on; else the host does."""
    root = source_of(read.operands[0], made)
    writes = (op for op in walk(kernel.body) if op.spec in _WRITES)
    return any(source_of(op.operands[0], made).root is root.root for op in writes)


def _space(op: Operation) -> str:
    kind = op.operands[0].type
    return "" if isinstance(kind, Scalar) else kind.space


def _tests(region: Region) -> Iterator[Value]:
    """The conditions in a loop's body under which it is left."""
    for op in region.body:
        if op.spec is ops.IF:
            if any(map(_leaves, op.regions)):
                yield op.operands[0]
            for inner in op.regions:
                yield from _tests(inner)


def _leaves(region: Region) -> bool:
    if region.terminator.spec in (ops.BREAK, ops.RETURN):
        return True
    return any(_leaves(r) for op in region.body if op.spec is ops.IF for r in op.regions)
