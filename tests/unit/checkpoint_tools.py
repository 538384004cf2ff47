"""Runs kernels through their resumable forms by hand: no launch, no file, any runner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetir import emulator
from hetir.ir.canonical import canonicalise
from hetir.ir.core import Kernel
from hetir.ir.text import parse_kernel, print_kernel
from hetir.ir.verify import verify
from hetir.passes.check_barriers import check_barriers
from hetir.passes.resumable import DONE, WORDS, Control, Resumable
from hetir.passes.safe_points import Plan, place, plan
from hetir.passes.simplify import simplify

Dims = tuple[int, int, int]
Run = Callable[[Kernel, list[Any], Dims, Dims], object]


def evaluator(kernel: Kernel, arguments: list[Any], grid: Dims, workgroup: Dims) -> None:
    """The reference evaluator with every check on; a fault fails the test."""
    report = emulator.run(kernel, arguments, grid, workgroup, checks=True)
    assert not report.faults, str(report.faults[0])


def placed(kernel: Kernel) -> Plan:
    """A kernel's safe points, by way of the text that a file would store."""
    return plan(parse_kernel(print_kernel(place(canonicalise(simplify(kernel))))))


@dataclass(slots=True)
class Hops:
    """How often a run was stopped, and how many workgroups were stopped on the way."""

    stops: int = 0
    midway: int = 0


def hop(
    found: Plan,
    arguments: list[Any],
    grid: Dims,
    workgroup: Dims,
    runners: Sequence[tuple[Run, bool]],
    *,
    limit: int,
    capacity: int,
    change: Callable[[Kernel], Kernel] = lambda kernel: kernel,
) -> Hops:
    """Run to the end, stopping every `limit` safe points, on one runner after the other.

    Each runner comes with whether it wants arrays initialised.
    """
    items, groups = int(np.prod(workgroup)), int(np.prod(grid))
    before: list[Any] = []
    hops = Hops()
    while True:
        run, initialise = runners[hops.stops % len(runners)]
        near = (hops.stops + limit) % 2 == 0
        kind = Resumable(resume=bool(before), counts=True, initialise=initialise, near=near)
        kernel = change(kind.run(found))
        verify(kernel)
        check_barriers(kernel)
        control = np.zeros(len(Control), np.int32)
        control[Control.LIMIT], control[Control.CAPACITY] = limit, capacity
        status = np.full(groups if near else groups * (1 + WORDS), DONE, np.int64)
        saved = [
            np.zeros(
                capacity
                * (found.elements(t, shared=False) * items + found.elements(t, shared=True)),
                t.numpy,
            )
            for t in found.types
        ]
        run(kernel, [*arguments, control, status, *saved, *before], grid, workgroup)
        status = status[:groups]
        if (status == DONE).all():
            return hops
        before = [status, *saved]
        hops.stops += 1
        hops.midway += int((status > 0).sum())
        assert hops.stops < 5000, "the run makes no progress"
