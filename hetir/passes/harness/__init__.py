"""Reads a small kernel over a small launch into a program that the memory checker judges.

Each work-item becomes a thread of events. Ids, sizes, counted loops and whatever else is
known without reading memory is computed; what was read is a register, and branches on it are
jumps. Values are integers: wrapping is left out. Shared memory begins as 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetir.ir.core import Kernel, Value
from hetir.ir.types import ArrayType
from hetir.memory import program as mp
from hetir.memory.program import Const
from hetir.passes.harness.item import Item, Triple
from hetir.passes.harness.places import Array, HarnessError, Held, Places, c_strides, integer
from hetir.source import Loc

__all__ = ["Harness", "HarnessError", "read"]

MOST_THREADS = 16


@dataclass(frozen=True, slots=True)
class Harness:
    """The program, its assertions' registers by thread with their places, and its arrays."""

    program: mp.Program
    assertions: tuple[tuple[int, str, Loc | None], ...]
    outputs: tuple[str, ...]


def read(kernel: Kernel, arguments: Sequence[Any], grid: Triple, workgroup: Triple) -> Harness:
    """Read a kernel without calls; arrays (C-contiguous) give shapes and initial values.

    Raises:
        HarnessError: the kernel or the launch is more than the checker can judge.
    """
    items = math.prod(workgroup)
    total = math.prod(grid) * items
    if total > MOST_THREADS:
        raise HarnessError(
            f"{total} work-items are too many for the checker, which takes {MOST_THREADS}",
            hint="launch fewer: --grid 2 --workgroup 1 shows most of what two can do",
        )
    places = Places()
    known = _parameters(kernel, arguments, places)
    threads: list[mp.Thread] = []
    assertions: list[tuple[int, str, Loc | None]] = []
    for number in range(total):
        reader = Item(kernel, places, known, grid, workgroup, number)
        threads.append(reader.thread())
        assertions += [(number, name, loc) for name, loc in reader.assertions]
    return Harness(
        mp.Program(
            name=kernel.name, locations=tuple(places.found.values()), threads=tuple(threads)
        ),
        tuple(assertions),
        tuple(name for name in places.found if places.is_output(name)),
    )


def _parameters(kernel: Kernel, arguments: Sequence[Any], places: Places) -> Mapping[Value, Held]:
    known: dict[Value, Held] = {}
    for number, (param, given) in enumerate(zip(kernel.params, arguments, strict=True)):
        value = param.value
        if not isinstance(value.type, ArrayType):
            known[value] = Const(integer(given, None))
            continue
        name, array = value.name or f"argument{number}", np.ascontiguousarray(given)
        places.initial[name] = array
        known[value] = Array(name, array.size, Const(0), array.shape, c_strides(array.shape))
    return known
