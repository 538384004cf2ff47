"""A generated kernel with its launch and its arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hetir import emulator
from hetir.ir.core import Kernel
from hetir.ir.text import print_kernel
from hetir.ir.types import Scalar
from hetir.testing.reproduce import IR_HEAD, IR_RUN, script

Dim3 = tuple[int, int, int]
Runner = Callable[[Kernel, list[Any], Dim3, Dim3], object]
"""Runs a kernel on arguments, writing the arrays in place; gives what it `Said`, if it knows."""


@dataclass(slots=True)
class Said:
    """What a launch reported.

    Lines stand with the linear workgroup and work-item that wrote them, in their order;
    `failed` counts for each `assert`, by its message, how often it failed.
    """

    lines: list[tuple[int, int, str]] = field(default_factory=list[tuple[int, int, str]])
    failed: Counter[str] = field(default_factory=Counter[str])

    def print(self, group: int, item: int, line: str) -> None:
        """Add a line."""
        self.lines.append((group, item, line))

    def fail(self, message: str) -> None:
        """Count a failed check."""
        self.failed[message] += 1

    def in_order(self) -> Said:
        """The same, the lines of each work-item together."""
        return Said(sorted(self.lines, key=lambda line: line[:2]), self.failed)

    def differences(self, other: Said) -> list[str]:
        """Where another launch of the kernel said something else."""
        found: list[str] = []
        if len(self.lines) != len(other.lines):
            found.append(f"{len(self.lines)} and {len(other.lines)} printed lines")
        pairs = zip(self.lines, other.lines, strict=False)
        found += [f"printed {one} and {two}" for one, two in pairs if one != two][:3]
        if self.failed != other.failed:
            found.append(f"failed checks {dict(self.failed)} and {dict(other.failed)}")
        return found


@dataclass(frozen=True, slots=True)
class Input:
    """One argument: an array of `extents` in a memory layout, or a scalar (extents None).

    With `of`, the array lies in the memory of that earlier argument and has its contents:
    `layout` "same" is the array itself, "flipped" all its axes backwards, "bits" its bytes as
    `kind`, and "odd" the rows that lie between the rows of one with layout "even". `zero`
    starts from zeros instead of random bits.
    """

    kind: Scalar
    extents: tuple[int, ...] | None
    layout: str
    writes: bool
    of: int | None = None
    zero: bool = False

    def make(self, random: np.random.Generator) -> Any:
        """The argument with random bits, special values among them."""
        if self.extents is None:
            return _values(self.kind, (1,), random)[0]
        shape = self.extents
        if self.zero:
            return np.zeros(shape, self.kind.numpy)
        match self.layout:
            case "F":
                return _values(self.kind, shape[::-1], random).T
            case "step" | "backwards":
                large = _values(self.kind, tuple(2 * n for n in shape), random)
                step = 2 if self.layout == "step" else -2
                return large[(slice(1 if step > 0 else None, None, step),) * len(shape)]
            case "broadcast":
                one = _values(self.kind, (1, *shape[1:]), random)
                return np.broadcast_to(one, shape)
            case "even":
                return _values(self.kind, (2 * shape[0], *shape[1:]), random)[::2]
            case "reversed":
                made = _values(self.kind, shape, random)
                return made[(slice(None, None, -1),) * len(shape)]
            case _:
                return _values(self.kind, shape, random)

    def share(self, other: Any) -> Any:
        """The argument in the memory of another one."""
        match self.layout:
            case "odd":
                return other.base.reshape(-1, *other.shape[1:])[1::2]
            case "flipped":
                return other[(slice(None, None, -1),) * other.ndim]
            case "bits":
                return other.view(self.kind.numpy)
            case _:
                return other


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

    @property
    def apart(self) -> bool:
        """Whether no two elements of the arguments lie in the same memory."""
        return all(
            i.of is None and i.layout not in ("broadcast", "even")
            for i in self.inputs
            if i.extents is not None
        )

    def arguments(self) -> list[Any]:
        """Fresh arguments, the same at every call; those that share memory do so again."""
        random = np.random.default_rng(self.seed)
        made: list[Any] = []
        for one in self.inputs:
            made.append(one.make(random) if one.of is None else one.share(made[one.of]))
        return made

    def written(self, arguments: Sequence[Any]) -> list[Any]:
        """Those of the arguments that a kernel may write."""
        return [a for a, i in zip(arguments, self.inputs, strict=True) if i.writes]


@dataclass(frozen=True, slots=True, repr=False)
class Case(Written):
    """A generated kernel with its launch."""

    kernel: Kernel

    def __repr__(self) -> str:
        """The script, for whoever reads a failure."""
        return self.script()

    def script(self) -> str:
        """A Python script that needs hetir and NumPy only, and fails where results differ.

        It expects what the evaluator leaves now.
        """
        arguments = self.arguments()
        report = emulator.run(self.kernel, arguments, self.grid, self.workgroup)
        pairs = enumerate(zip(arguments, self.inputs, strict=True))
        expected = {n: array for n, (array, given) in pairs if given.writes}
        text = f'KERNEL = """\\\n{print_kernel(self.kernel)}"""\n'
        launch = (self.grid, self.workgroup)
        return script(IR_HEAD, text, IR_RUN, self.arguments(), expected, report.output, launch)

    def run(self, runner: Runner, kernel: Kernel | None = None) -> list[Any]:
        """The written arrays after a run of the kernel, or of another form of it."""
        arguments = self.arguments()
        runner(kernel or self.kernel, arguments, self.grid, self.workgroup)
        return self.written(arguments)
