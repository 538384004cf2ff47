"""The locations that a kernel touches, and what else its litmus test needs beside events."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hetir.diagnostics import CompileError, Label
from hetir.ir.core import Operation
from hetir.memory import program as mp
from hetir.memory.program import Expr


class HarnessError(CompileError):
    """A kernel or launch cannot be read as a litmus test.

    Cause: too many work-items or accesses, float arithmetic, or an operation that depends on
    other work-items in a way that the checker does not know. Fix: a smaller launch or kernel.
    """

    code = "HET374"


@dataclass(frozen=True, slots=True)
class Array:
    """An array or a part of one: where it begins and how far its elements are apart."""

    name: str
    total: int
    offset: Expr
    shape: tuple[int, ...]
    strides: tuple[int, ...]


Held = Expr | Array
"""What a value of the kernel is: a number, known or read, or an array."""


@dataclass(slots=True)
class Places:
    """The locations that are touched, with the initial values of the arrays that hold them."""

    found: dict[str, mp.Location] = field(default_factory=dict[str, mp.Location])
    initial: dict[str, np.ndarray[Any, Any]] = field(
        default_factory=dict[str, np.ndarray[Any, Any]]
    )
    barriers: dict[Operation, str] = field(default_factory=dict[Operation, str])

    def touch(self, array: Array, index: int, space: mp.Space) -> str:
        """The name of an element."""
        name = f"{array.name}[{index}]"
        if name not in self.found:
            values = self.initial.get(array.name)
            first = 0 if values is None else integer(values.flat[index], None)
            self.found[name] = mp.Location(name=name, initial=first, space=space)
        return name

    def is_output(self, name: str) -> bool:
        """Whether a location is an element of an argument."""
        return name.partition("[")[0] in self.initial


def c_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides in elements of a C-contiguous array."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def integer(value: Any, op: Operation | None) -> int:
    """A value as the checker counts: an integer."""
    number = float(value) if np.asarray(value).dtype.kind not in "biu" else int(value)
    if not math.isfinite(number) or int(number) != number:
        raise refused(op, "the checker knows integers, not fractions")
    return int(number)


def refused(op: Operation | None, why: str) -> HarnessError:
    """An error at an op: why the kernel cannot be read."""
    labels = (Label(op.loc, ""),) if op is not None and op.loc is not None else ()
    return HarnessError(f"cannot read the kernel as a litmus test: {why}", *labels)
