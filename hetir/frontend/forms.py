"""The types of values that hold several scalars: vectors and matrix fragments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hetir.diagnostics import OutsideKernelError
from hetir.frontend.errors import SignatureError
from hetir.ir.types import SCALARS, Scalar

LENGTHS = (2, 3, 4, 8, 16)
"""How many elements a vector can have."""

USES = ("a", "b", "acc")
"""The operands of a matrix product that a fragment can be: of `a @ b + acc`."""

SIDES = (4, 8, 16, 32)
"""Rows and columns that a fragment can have."""

ACCUMULATORS = {"f16": "f32", "bf16": "f32", "f32": "f32", "f64": "f64", "i8": "i32", "u8": "i32"}
"""The type in which the products of an element type are added."""


@dataclass(frozen=True, slots=True)
class VectorType:
    """A vector of 2, 3, 4, 8 or 16 scalars of one type.

    Inside a kernel, calling it makes a vector: of as many scalars (vectors count as theirs), or
    of one that is repeated.
    """

    element: Scalar
    length: int

    def of(self, element: Scalar) -> VectorType:
        """The vector of as many elements of another type."""
        return replace(self, element=element)

    def __call__(self, *values: Any) -> Any:
        """Make a vector, inside a kernel; the frontend reads the call and never makes it."""
        raise OutsideKernelError(str(self))

    def __str__(self) -> str:
        return f"{self.element}x{self.length}"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class FragmentType:
    """A matrix whose elements the lanes of a subgroup hold together; see `hl.fragment`."""

    use: str
    rows: int
    columns: int
    element: Scalar

    def of(self, element: Scalar) -> FragmentType:
        """The fragment of as many elements of another type."""
        return replace(self, element=element)

    def held(self, width: int) -> tuple[int, int]:
        """The rows and columns of which one lane of a subgroup holds the elements."""
        down, along = lane_grid(width)
        rows = self.rows if self.use == "b" else max(1, self.rows // down)
        return rows, self.columns if self.use == "a" else max(1, self.columns // along)

    def share(self, width: int) -> int:
        """The elements that one lane of a subgroup holds."""
        rows, columns = self.held(width)
        return rows * columns

    def __call__(self, value: Any) -> Any:
        """Fill one, inside a kernel; the frontend reads the call and never makes it."""
        raise OutsideKernelError(str(self))

    def __str__(self) -> str:
        return f"fragment {self.use} {self.element}[{self.rows}, {self.columns}]"

    __repr__ = __str__


Form = VectorType | FragmentType


def lane_grid(width: int) -> tuple[int, int]:
    """The lanes of a subgroup as rows and columns, nearly square."""
    down = 1 << (width.bit_length() - 1) // 2
    return down, width // down


def vector_type(dtype: Any, length: Any) -> VectorType:
    """The vector type of an element type and a length. Raises SignatureError."""
    if not isinstance(dtype, Scalar):
        raise SignatureError(
            f"a vector's element is a scalar type, got `{dtype!r}`",
            hint="write `hl.vector(hl.f32, 4)`",
        )
    if type(length) is not int or length not in LENGTHS:
        raise SignatureError(
            f"a vector has {', '.join(map(str, LENGTHS[:-1]))} or {LENGTHS[-1]} elements,"
            f" got {length!r}",
            hint="use several vectors, or an array: `hl.private(n, dtype)`",
        )
    return VectorType(dtype, length)


def fragment_type(use: Any, rows: Any, columns: Any, dtype: Any) -> FragmentType:
    """The fragment type of an operand. Raises SignatureError."""
    if use not in USES:
        raise SignatureError(
            f"a fragment is used as {', '.join(map(repr, USES))}, got {use!r}",
            hint='write `hl.fragment("a", 16, 16, hl.f16)`',
        )
    for side in (rows, columns):
        if type(side) is not int or side not in SIDES:
            raise SignatureError(
                f"a fragment has {', '.join(map(str, SIDES))} rows and columns, got {side!r}",
                hint="cut the matrix into such tiles",
            )
    allowed = ACCUMULATORS if use != "acc" else ACCUMULATORS.values()
    names = list(dict.fromkeys(allowed))
    if not isinstance(dtype, Scalar) or dtype.name not in names:
        raise SignatureError(
            f"a fragment {use!r} holds {', '.join(names)}, got `{dtype!r}`",
            hint="convert while storing the tile into shared memory",
        )
    return FragmentType(use, rows, columns, dtype)


def accumulator_of(element: Scalar) -> Scalar | None:
    """The type in which products of an element type are added; None where there is none."""
    name = ACCUMULATORS.get(element.name)
    return None if name is None else SCALARS[name]
