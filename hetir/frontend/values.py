"""What an expression of a kernel can be: a plain Python object or one of these."""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from hetir.frontend.forms import Form, FragmentType, VectorType
from hetir.ir.core import Value
from hetir.ir.types import BF16, BOOL, F8E4M3, F8E5M2, F32, I64, ArrayType, Scalar
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

    `build(tracer, type)` emits it as a type. A leaf builds as any type of its category or a
    higher one; another one is built as floats where it is a float and as its default type
    else. A portable one depends on nothing but arguments and constants, so that it can be
    built in any region.
    """

    kind: str
    build: Callable[[Tracer, Scalar], Value]
    leaf: bool = False
    portable: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """Scalars of one type that are computed with together: of a vector, a lane's of a fragment."""

    type: Form
    items: tuple[Value, ...]


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


KERNEL_VALUES = (Typed, WeakNumber, Bundle, ArrayHandle, Extents, RangeValue, FormatText, Method)


def is_plain(value: Any) -> bool:
    """Whether Python itself can compute with `value`."""
    if isinstance(value, KERNEL_VALUES):
        return False
    return all(map(is_plain, value)) if isinstance(value, _SEQUENCES) else True


_SEQUENCES: Any = (tuple, list)


def is_tuple(value: Any) -> TypeGuard[tuple[Any, ...]]:
    """Whether `value` is a tuple whose elements may be the kernel's."""
    bases: tuple[type, ...] = type(value).__mro__
    return bases[0] is tuple or (tuple in bases and hasattr(value, "_fields"))


def number_kind(value: object) -> str | None:
    """`bool`, `int` or `float` for a plain number (NumPy's included), else None."""
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if isinstance(value, (int, np.integer)):
        return "int"
    if isinstance(value, (float, np.floating)):
        return "float"
    # ml_dtypes' scalars are no np.floating
    return "float" if isinstance(value, _ML_FLOATS) else None


_ML_FLOATS = tuple(kind.numpy.type for kind in (BF16, F8E4M3, F8E5M2))


def shown_array(kind: ArrayType) -> str:
    """An array type as users write it: `f32[:, :]`, or with the extents of a fixed shape."""
    axes = ":" * kind.ndim if kind.shape is None else map(str, kind.shape)
    space = "" if kind.space == "global" else f"{kind.space} "
    return f"{space}{kind.element}[{', '.join(axes)}]"


def describe(value: object) -> str:
    """How an error message names a value's type."""
    if isinstance(value, KERNEL_VALUES):
        return _describe_kernel_value(value)
    if isinstance(value, types.ModuleType):
        return f"the module `{value.__name__}`"
    if isinstance(value, (Scalar, VectorType, FragmentType)):
        return f"the type `{value}`"
    if value is None or isinstance(value, (bool, int, float, str)):
        return f"`{value!r}`"
    if isinstance(value, type):
        return f"the class `{value.__name__}`"
    return f"a Python `{type(value).__name__}`"


def _describe_kernel_value(value: object) -> str:
    match value:
        case Typed() | Bundle():
            return f"`{value.type}`"
        case ArrayHandle():
            return f"the array `{shown_array(value.type)}`"
        case WeakNumber():
            return f"a run-time Python {value.kind}"
        case Extents():
            return f"the {value.what} of an array"
        case FormatText():
            return "an f-string"
        case Method():
            return f"the method `{value.name}`"
        case _:
            return "a range"


def quoted(error: Exception) -> str:
    """Python's message with names in backticks."""
    return re.sub(r"'(\w+)'", r"`\1`", str(error))
