"""A kernel with a launch and arguments, and runs of it that must agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetir.ir.core import Kernel
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


@dataclass(frozen=True, slots=True)
class Case(Written):
    """A generated kernel with its launch."""

    kernel: Kernel

    def run(self, runner: Runner, kernel: Kernel | None = None) -> list[Any]:
        """The written arrays after a run of the kernel, or of another form of it."""
        arguments = self.arguments()
        runner(kernel or self.kernel, arguments, self.grid, self.workgroup)
        return self.written(arguments)


def differences(one: Sequence[Any], two: Sequence[Any]) -> list[str]:
    """Where two lists of arrays differ in bits; NaNs are equal to each other."""
    found: list[str] = []
    for number, (a, b) in enumerate(zip(one, two, strict=True)):
        a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
        raw = f"u{a.dtype.itemsize}"
        unequal = a.view(raw) != b.view(raw)
        if a.dtype.kind not in "iub":
            with np.errstate(invalid="ignore"):
                unequal &= ~((a != a) & (b != b))
        for place in np.argwhere(unequal)[:3]:
            at = tuple(int(i) for i in place)
            found.append(f"array {number} at {at}: {a[at]!r} and {b[at]!r}")
    return found


def run_differential(case: Case, runners: Mapping[str, Runner]) -> None:
    """Run a case in several ways; raise AssertionError where one differs from the first."""
    results = {name: case.run(runner) for name, runner in runners.items()}
    (first, expected), *others = results.items()
    for name, got in others:
        if wrong := differences(expected, got):
            lines = "\n  ".join(wrong)
            raise AssertionError(f"`{first}` and `{name}` differ:\n  {lines}")
