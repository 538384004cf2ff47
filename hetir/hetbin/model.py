"""What a hetbin holds: kernels by specialisation, and their code by target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from hetir.artifact import Artifact, Layout, Slot
from hetir.hetbin.errors import DamagedHetbinError
from hetir.ir.binary import BinaryError, decode
from hetir.ir.core import Kernel
from hetir.ir.types import ArrayType
from hetir.ir.verify import faults
from hetir.passes.layout import layout_of
from hetir.runtime.dtypes import NUMPY
from hetir.runtime.pack import value_of
from hetir.source import Loc
from hetir.target import Assumptions

STATIC = "static "
"""What the type of a compile-time constant begins with; its value as Python spells it follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """Code for one target, and what a launch must keep to for it."""

    artifact: Artifact
    assumptions: Assumptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A place where the kernel orders memory or can be stopped.

    `kind` is `fence`, `barrier` or `safe point`; `text` is the op with its order and scope, or
    the safe point's id.
    """

    kind: str
    text: str
    loc: Loc | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of the Python function, and its type as a signature spells it."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """What a specialisation knows of an array: axes whose stride is one element, or 0."""

    unit: int = 0
    zero: int = 0


@dataclass(frozen=True, kw_only=True)
class Specialisation:
    """One kernel for one choice of types. `module` is binary hetIR at byte `offset` of `file`."""

    name: str
    parameters: tuple[Parameter, ...]
    layout: Layout
    axes: tuple[Axes, ...]
    module: bytes
    payloads: tuple[Payload, ...]
    subgroup_size: int = 32
    cooperative: bool = False
    reproducible: bool = True
    irreproducible_reason: str = ""
    loc: Loc | None = None
    points: tuple[Point, ...] = ()
    file: str = ""
    offset: int = field(default=0, compare=False)

    @property
    def signature(self) -> str:
        """The types of the parameters."""
        return ", ".join(p.type for p in self.parameters)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(p.name for p in self.parameters)

    @cached_property
    def kernel(self) -> Kernel:
        """The hetIR, read when it is first needed. Raises DamagedHetbinError."""
        try:
            kernels = decode(self.module).kernels
        except BinaryError as error:
            raise DamagedHetbinError(self.file, self.offset, error.message) from None
        wrong = faults(kernels[0]) if len(kernels) == 1 else ("not one kernel",)
        if wrong or kernels[0].name != self.name or layout_of(kernels[0]) != self.layout:
            first = wrong[0] if wrong else "another kernel, or another argument block"
            text = str(getattr(first, "message", first))
            raise DamagedHetbinError(self.file, self.offset, f"the hetIR of `{self.name}`: {text}")
        return kernels[0]

    def takes(self, values: Sequence[Any], *, exact: bool) -> bool:
        """Whether arguments have the element types, ranks and strides that this was built for.

        NumPy scalars must have the type if `exact`, and else be numbers that a launch converts.
        """
        constants = zip(self.parameters, values, strict=True)
        if any(p.type.startswith(STATIC) and p.type != f"{STATIC}{v!r}" for p, v in constants):
            return False
        try:
            pairs = zip(self.layout.slots, self.axes, strict=True)
            return all(_fits(slot, axes, value_of(slot, values), exact) for slot, axes in pairs)
        except (AttributeError, IndexError, TypeError):  # a number where a vector belongs
            return False


def _fits(slot: Slot, axes: Axes, value: Any, exact: bool) -> bool:
    kind = NUMPY[slot.dtype]
    if slot.ndim is None:
        return _is_number(kind, value, exact)
    if getattr(value, "dtype", None) != kind or getattr(value, "ndim", None) != slot.ndim:
        return False
    for axis, (extent, stride) in enumerate(zip(value.shape, value.strides, strict=True)):
        unit, zero = axes.unit >> axis & 1, axes.zero >> axis & 1
        if (unit and stride != kind.itemsize and extent != 1) or (zero and stride != 0):
            return False
    return True


def _is_number(kind: np.dtype[Any], value: Any, exact: bool) -> bool:
    """Whether a value is a scalar that packs as this type."""
    dtype = getattr(value, "dtype", None)
    if dtype is not None:
        widens = dtype.kind in ("iu" if kind.kind in "iu" else "b" if kind.kind == "b" else "iuf")
        return not getattr(value, "ndim", 1) and (dtype == kind or (widens and not exact))
    if kind.kind == "b":
        return isinstance(value, bool)
    return isinstance(value, int if kind.kind in "iu" else int | float)


def axes_of(kernel: Kernel) -> tuple[Axes, ...]:
    """What the types of a kernel's parameters say of strides, one entry a slot."""
    found: list[Axes] = []
    for param in kernel.params:
        kind = param.value.type
        strides = (kind.strides or ()) if isinstance(kind, ArrayType) else ()
        unit = sum(1 << axis for axis, stride in enumerate(strides) if stride == 1)
        zero = sum(1 << axis for axis, stride in enumerate(strides) if stride == 0)
        found.append(Axes(unit=unit, zero=zero))
    return tuple(found)
