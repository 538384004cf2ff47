"""A generated kernel with its launch and its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetir.ir.core import Kernel
from hetir.ir.text import print_kernel
from hetir.ir.types import Scalar

Dim3 = tuple[int, int, int]
Runner = Callable[[Kernel, list[Any], Dim3, Dim3], object]
"""Runs a kernel on arguments, writing the arrays in place."""


@dataclass(frozen=True, slots=True)
class Input:
    """One argument: an array of `extents` in a memory layout, or a scalar (extents None)."""

    kind: Scalar
    extents: tuple[int, ...] | None
    layout: str
    writes: bool

    def make(self, random: np.random.Generator) -> Any:
        """The argument with random bits, special values among them."""
        if self.extents is None:
            return _values(self.kind, (1,), random)[0]
        shape = self.extents
        if self.layout == "F":
            return _values(self.kind, shape[::-1], random).T
        if self.layout == "step":
            return _values(self.kind, tuple(2 * n for n in shape), random)[
                (slice(1, None, 2),) * len(shape)
            ]
        if self.layout == "broadcast":
            return np.broadcast_to(_values(self.kind, (1, *shape[1:]), random), shape)
        made = _values(self.kind, shape, random)
        return made[(slice(None, None, -1),) * len(shape)] if self.layout == "reversed" else made


def _values(kind: Scalar, shape: tuple[int, ...], random: np.random.Generator) -> Any:
    count = int(np.prod(shape))
    if kind.kind == "bool":
        return random.integers(0, 2, shape).astype(np.bool_)
    small = random.integers(-4, 5, count).astype(kind.numpy if kind.kind != "f8" else np.float32)
    small = small.astype(kind.numpy)
    wild = np.frombuffer(random.bytes(count * kind.bytes), f"u{kind.bytes}").view(kind.numpy)
    return np.where(random.random(count) < 0.7, small, wild).reshape(shape)


@dataclass(frozen=True, slots=True)
class Written:
    """A launch and how to make its arguments."""

    grid: Dim3
    workgroup: Dim3
    inputs: tuple[Input, ...]
    seed: int

    def arguments(self) -> list[Any]:
        """Fresh arguments, the same at every call."""
        random = np.random.default_rng(self.seed)
        return [i.make(random) for i in self.inputs]

    def written(self, arguments: Sequence[Any]) -> list[Any]:
        """Those of the arguments that a kernel may write."""
        return [a for a, i in zip(arguments, self.inputs, strict=True) if i.writes]


@dataclass(frozen=True, slots=True, repr=False)
class Case(Written):
    """A generated kernel with its launch."""

    kernel: Kernel

    def __repr__(self) -> str:
        """The kernel as text, and the launch."""
        launch = f"grid {self.grid}, workgroup {self.workgroup}, data seed {self.seed}"
        return "\n".join([print_kernel(self.kernel), launch, *map(str, self.inputs)])

    def run(self, runner: Runner, kernel: Kernel | None = None) -> list[Any]:
        """The written arrays after a run of the kernel, or of another form of it."""
        arguments = self.arguments()
        runner(kernel or self.kernel, arguments, self.grid, self.workgroup)
        return self.written(arguments)
