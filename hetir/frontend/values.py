"""What an expression of a kernel can be: a plain Python object or one of these."""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hetir.ir.core import Value
from hetir.ir.types import BOOL, F32, I64, ArrayType, Scalar
from hetir.source import Loc

if TYPE_CHECKING:
    from hetir.frontend.tracer import Tracer

KernelValue = Any
"""A number, a scalar or array of the kernel, or a tuple of them (only a kernel knows)."""

DEFAULT = {"bool": BOOL, "int": I64, "float": F32}
RANK = {"bool": 0, "int": 1, "float": 2}


@dataclass(frozen=True, slots=True, eq=False)
class Typed:
    """A scalar with a type."""

    ir: Value

    @property
    def type(self) -> Scalar:
        """Its scalar type."""
        kind = self.ir.type
        assert isinstance(kind, Scalar)
        return kind


@dataclass(frozen=True, slots=True, eq=False)
class WeakNumber:
    """A run-time Python number: it takes the type of the typed value that it meets.

    `build(tracer, type)` emits it as a type. A leaf builds as any type; another one is built
    as floats where it is a float and as its default type else. A portable one depends on
    nothing but arguments and constants, so that it can be built in any region.
    """

    kind: str
    build: Callable[[Tracer, Scalar], Value]
    leaf: bool = False
    portable: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class ArrayHandle:
    """An array or a sub-array."""

    ir: Value

    @property
    def type(self) -> ArrayType:
        """Its array type."""
        kind = self.ir.type
        assert isinstance(kind, ArrayType)
        return kind


@dataclass(frozen=True, slots=True, eq=False)
class Extents:
    """`x.shape` or `x.strides` of an array whose extents are known at run time only."""

    array: ArrayHandle
    what: str

    def __len__(self) -> int:
        return self.array.type.ndim


@dataclass(frozen=True, slots=True, eq=False)
class RangeValue:
    """`range(...)` in a kernel."""

    start: object
    stop: object
    step: object
    loc: Loc


@dataclass(frozen=True, slots=True, eq=False)
class FormatText:
    """An f-string that holds kernel values: only `hl.print` takes it."""

    format: str
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """A method of a kernel value, such as `x.to`, before it is called."""

    owner: object
    name: str


@dataclass(frozen=True, slots=True)
class Unset:
    """A variable without a value on some path; `loc` is where another path assigns it."""

    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Poison:
    """A variable whose values do not join; reading it raises what `error` makes."""

    error: Exception


KERNEL_VALUES = (Typed, WeakNumber, ArrayHandle, Extents, RangeValue, FormatText, Method)


def is_plain(value: object) -> bool:
    """Whether Python itself can compute with `value`."""
    if isinstance(value, KERNEL_VALUES):
        return False
    if isinstance(value, (tuple, list)):
        return all(map(is_plain, value))  # pyright: ignore[reportUnknownArgumentType]
    return True


def number_kind(value: object) -> str | None:
    """`bool`, `int` or `float` for a plain number (NumPy's included), else None."""
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if isinstance(value, (int, np.integer)):
        return "int"
    if isinstance(value, (float, np.floating)):
        return "float"
    # ml_dtypes' scalars are no np.floating
    if isinstance(value, np.generic) and value.dtype.name in ("bfloat16", *_F8_NAMES):
        return "float"
    return None


_F8_NAMES = ("float8_e4m3fn", "float8_e5m2")


def shown_array(kind: ArrayType) -> str:
    """An array type as users write it: `f32[:, :]`, or with the extents of a fixed shape."""
    axes = ":" * kind.ndim if kind.shape is None else map(str, kind.shape)
    space = "" if kind.space == "global" else f"{kind.space} "
    return f"{space}{kind.element}[{', '.join(axes)}]"


def describe(value: object) -> str:
    """How an error message names a value's type."""
    match value:
        case Typed():
            return f"`{value.type}`"
        case ArrayHandle():
            return f"the array `{shown_array(value.type)}`"
        case types.ModuleType():
            return f"the module `{value.__name__}`"
        case WeakNumber():
            return f"a run-time Python {value.kind}"
        case Extents():
            return f"the {value.what} of an array"
        case RangeValue():
            return "a range"
        case FormatText():
            return "an f-string"
        case Method():
            return f"the method `{value.name}`"
        case Scalar():
            return f"the type `{value}`"
        case None:
            return "None"
        case bool() | int() | float() | str():
            return f"`{value!r}`"
        case _ if isinstance(value, type):
            return f"the class `{value.__name__}`"
        case _:
            return f"a Python `{type(value).__name__}`"


def quoted(error: Exception) -> str:
    """Python's message with names in backticks."""
    return re.sub(r"'(\w+)'", r"`\1`", str(error))
