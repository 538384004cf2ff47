"""The table of expansions, (op, types) -> function, and a terse way to write ops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Attr, Operation, Value
from hetir.ir.types import Scalar
from hetir.target import Key


@dataclass(frozen=True, slots=True)
class Writer:
    """Appends ops by name; every result is one value.

    `width` is the subgroup's. With `apart`, orders are fences outside of loops.
    """

    builder: Builder
    width: int = 32
    apart: bool = False

    def __call__(self, name: str, *operands: Value, **attrs: Attr) -> Value:
        """Append one op."""
        return self.builder.emit(ops.TABLE[name], *operands, attrs=attrs).result

    def cast(self, value: Value, to: Scalar) -> Value:
        """Convert, unless the type is right already."""
        return value if value.type == to else self("cast", value, to=to)

    def bits(self, value: Value, to: Scalar) -> Value:
        """The same bits as another type."""
        return self("bitcast", value, to=to)

    def const(self, kind: Scalar, number: float) -> Value:
        """A constant from a Python number."""
        return self.builder.const(kind, number)

    def raw(self, kind: Scalar, bits: int) -> Value:
        """A constant from its bits."""
        return self("const", type=kind, bits=bits)

    def like(self, value: Value, number: float) -> Value:
        """A constant of a value's type."""
        return self.const(scalar(value), number)

    def inner(self) -> Writer:
        """A writer for a region of an op to come."""
        return Writer(Builder(self.builder.loc), self.width, self.apart)


Expansion = Callable[[Writer, Operation], Value]
EXPANSIONS: dict[Key, Expansion] = {}


def expansion(name: str, *kinds: str) -> Callable[[Expansion], Expansion]:
    """Enter a function for an op at each of the types."""

    def add(function: Expansion) -> Expansion:
        EXPANSIONS.update({(name, *kind.split()): function for kind in kinds})
        return function

    return add


def scalar(value: Value) -> Scalar:
    """The type of a value that is no reference."""
    assert isinstance(value.type, Scalar)
    return value.type
