"""What a kernel is specialised on: one description for each Python parameter."""

from __future__ import annotations

from dataclasses import dataclass

from hetir.frontend.forms import VectorType
from hetir.ir.types import ArrayType, Scalar


@dataclass(frozen=True, slots=True)
class Weak:
    """A Python number for an unannotated parameter; `kind` is `bool`, `int` or `float`.

    It makes one kernel parameter for each type that the kernel uses it as.
    """

    kind: str


@dataclass(frozen=True, slots=True)
class Static:
    """A compile-time constant: any Python object, and no kernel parameter."""

    value: object


@dataclass(frozen=True, slots=True)
class Tuple:
    """A NamedTuple (or a plain tuple) of arguments; `cls` is its class."""

    cls: type
    fields: tuple[Argument, ...]


Argument = Scalar | ArrayType | VectorType | Weak | Static | Tuple
