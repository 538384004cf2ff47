"""Runs a kernel over a grid: batches of workgroups in a seeded order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetir.emulator.checker import Checker
from hetir.emulator.faults import Fault, Faults, Triple
from hetir.emulator.frame import Batch
from hetir.emulator.machine import execute
from hetir.emulator.memory import Buffer, argument_buffer, root_view
from hetir.emulator.run_state import Run
from hetir.emulator.values import Held
from hetir.emulator.weak import execute as execute_weak
from hetir.ir.core import Kernel, Operation, Value, walk
from hetir.ir.types import ArrayType, Scalar

LANES_A_BATCH = 1 << 16
LANES_TIMES_OPS = 1 << 23  # every value of a region is kept until the region ends
BYTES_A_BATCH = 1 << 26


@dataclass(frozen=True, slots=True)
class Report:
    """What a run found: its faults, and its printed lines in the order of work-items.

    `writers` has the linear workgroup and work-item that wrote each line.
    Of several weak runs, `seed` is that of the last one, whose faults and output these are,
    and `results` counts the different contents that the arrays had in the end.
    """

    faults: tuple[Fault, ...] = ()
    output: tuple[str, ...] = ()
    writers: tuple[tuple[int, int], ...] = ()
    seed: int = 0
    results: int = 1

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.faults)) or "no faults"


def run(
    kernel: Kernel,
    arguments: Sequence[Any],
    grid: Sequence[int],
    workgroup: Sequence[int],
    *,
    checks: bool = False,
    seed: int = 0,
    groups: Sequence[int] | None = None,
    weak: bool = False,
) -> Report:
    """Run a kernel without calls over a grid; arrays are read and written in place.

    `arguments` stand in the order of `kernel.params`: arrays of any strides, or scalars.
    `grid` and `workgroup` have one to three extents, x first. `seed` decides the order of
    workgroups and atomics. `groups` runs only the workgroups of these linear ids, so that
    a grid too large to run can be looked into. Bounds and `assert` are always checked;
    `checks` adds uninitialised reads, data races, index overflow and misuse of subgroups.

    `weak` interleaves the steps of all work-items as the seed says, and lets each read return
    any value that the memory model allows; it finds races and uninitialised reads too. It is
    slow, and refuses more than 256 work-items (`weak.TooLargeError`).
    """
    extents, size = _triple(grid), _triple(workgroup)
    rng = np.random.default_rng(seed)
    buffers, parameters = _bind(kernel, arguments)
    faults = Faults(kernel.name)
    state = Run(kernel, rng, buffers, parameters, faults, then_first=bool(rng.integers(2)))
    if weak:
        execute_weak(state, extents, size, seed)
        return _report(state)
    if checks:
        state.checker = Checker(state)
    first = 0
    for some in _batches(kernel, extents, size, rng, groups):
        batch = Batch(some, extents, size, kernel.options.width, first, rng)
        first += batch.count
        state.start(batch)
        execute(state, batch)
    return _report(state)


def _report(state: Run) -> Report:
    lines = sorted(state.lines, key=lambda line: line[:3])
    writers = tuple((group, item) for group, item, *_ in lines)
    return Report(state.faults.report(), tuple(line for *_, line in lines), writers)


def _triple(extents: Sequence[int]) -> Triple:
    x, y, z = (*map(int, extents), 1, 1)[:3]
    return x, y, z


def _bind(kernel: Kernel, arguments: Sequence[Any]) -> tuple[list[Buffer], dict[Value, Held]]:
    """A buffer for each argument (an empty one for scalars) and each parameter's value."""
    buffers: list[Buffer] = []
    parameters: dict[Value, Held] = {}
    for number, (param, given) in enumerate(zip(kernel.params, arguments, strict=True)):
        value, kind = param.value, param.value.type
        name = value.name or f"argument {number}"
        if isinstance(kind, ArrayType):
            assert given.ndim == kind.ndim, f"`{name}` has {given.ndim} axes, not {kind.ndim}"
            assert given.itemsize == kind.element.bytes, f"`{name}` holds {given.dtype}"
            buffer = argument_buffer(name, kind.space, given)
            held: Held = root_view(number, buffer, np.array(buffer.origin))
        else:
            assert isinstance(kind, Scalar)
            buffer = Buffer(name, "global", np.empty(0, np.uint8), (), (), 1)
            held = np.asarray(given).astype(kind.numpy)
        buffers.append(buffer)
        parameters[value] = held
    return buffers, parameters


def _batches(
    kernel: Kernel,
    grid: Triple,
    size: Triple,
    rng: np.random.Generator,
    groups: Sequence[int] | None,
) -> Iterator[np.ndarray[Any, np.dtype[np.int64]]]:
    """Linear workgroup ids, in batches."""
    total, items = math.prod(grid), math.prod(size)
    if not total or not items:
        return
    step = total if _meets_grid(kernel) else _groups_a_batch(kernel, items)
    if groups is not None:
        chosen = rng.permutation(np.asarray(groups, np.int64))
        yield from (chosen[at : at + step] for at in range(0, len(chosen), step))
    elif total <= 1 << 22:
        order = rng.permutation(total)
        yield from (order[at : at + step] for at in range(0, total, step))
    else:
        for at in range(0, total, step):
            yield at + rng.permutation(min(step, total - at))


def _meets_grid(kernel: Kernel) -> bool:
    """Whether the kernel has a barrier over the whole grid."""
    return any(op.name == "barrier" and op.attrs["scope"] == "device" for op in walk(kernel.body))


def _may_wait(op: Operation) -> bool:
    """Whether an op is a loop that could leave because of what an atomic saw."""
    if op.name not in ("loop", "for"):
        return False
    names = {inner.name for inner in walk(op.regions[0])}
    atomic = any(name.startswith("atomic") for name in names)
    return atomic and (op.name == "loop" or bool(names & {"break", "return"}))


def _groups_a_batch(kernel: Kernel, items: int) -> int:
    """How many workgroups run side by side.

    One where a loop holds atomics: it may wait for a workgroup that started before.
    """
    shared = private = ops = 0
    waits = False
    for op in walk(kernel.body):
        ops += 1
        kind = op.attrs.get("type")
        if op.name == "alloc" and isinstance(kind, ArrayType):
            size = math.prod(kind.shape or ()) * kind.element.bytes
            shared, private = shared + (kind.space == "shared") * size, private + size
        waits |= _may_wait(op)
    if waits:
        return 1
    room = BYTES_A_BATCH // max(1, shared + private * items)
    lanes = min(LANES_A_BATCH, max(LANES_A_BATCH >> 4, LANES_TIMES_OPS // ops))
    return max(1, min(lanes // items, room))
