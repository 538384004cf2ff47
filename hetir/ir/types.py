"""The types of hetIR: scalars, arrays and (after array expansion) references."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from hetir.diagnostics import OutsideKernelError


@dataclass(frozen=True)
class Scalar:
    """A scalar type. `kind` is `bool`, `int` (signed), `uint`, `float` or `f8` (storage only).

    Inside a kernel, calling a type converts: `hl.f32(x)` is `hl.cast(x, hl.f32)`.
    """

    name: str
    kind: str
    bits: int

    @cached_property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype of the same bits."""
        return _NUMPY[self.name]

    @property
    def bytes(self) -> int:
        """The size in memory; `bool` takes one byte."""
        return max(1, self.bits // 8)

    @property
    def is_int(self) -> bool:
        """Whether this is a signed or unsigned integer."""
        return self.kind in ("int", "uint")

    @property
    def is_float(self) -> bool:
        """Whether arithmetic on floats is defined for this type (`f8` only stores)."""
        return self.kind == "float"

    @property
    def signed(self) -> bool:
        """Whether this is a signed integer."""
        return self.kind == "int"

    def __call__(self, value: Any) -> Any:
        """Convert, inside a kernel; the frontend reads the call and never makes it."""
        raise OutsideKernelError(self.name)

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


BOOL = Scalar("bool", "bool", 1)
I8, I16, I32, I64 = (Scalar(f"i{b}", "int", b) for b in (8, 16, 32, 64))
U8, U16, U32, U64 = (Scalar(f"u{b}", "uint", b) for b in (8, 16, 32, 64))
F16 = Scalar("f16", "float", 16)
BF16 = Scalar("bf16", "float", 16)
F32 = Scalar("f32", "float", 32)
F64 = Scalar("f64", "float", 64)
F8E4M3 = Scalar("f8e4m3", "f8", 8)
F8E5M2 = Scalar("f8e5m2", "f8", 8)

SCALARS: Mapping[str, Scalar] = MappingProxyType(
    {
        t.name: t
        for t in (
            *(BOOL, I8, I16, I32, I64, U8, U16, U32, U64),
            *(F16, BF16, F32, F64, F8E4M3, F8E5M2),
        )
    }
)

_NUMPY: Mapping[str, np.dtype[np.generic]] = {
    "bool": np.dtype(np.bool_),
    **{f"i{b}": np.dtype(f"int{b}") for b in (8, 16, 32, 64)},
    **{f"u{b}": np.dtype(f"uint{b}") for b in (8, 16, 32, 64)},
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f8e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
}

SPACES = ("global", "shared", "private", "constant")


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array of `element` in `space`.

    `strides` holds what is known at compile time of each axis' stride in elements: 1
    (contiguous, last axis only), 0 (broadcast) or None (a run-time value); nothing known
    is None for all, so that equal types compare equal. `shape` is static for shared and
    private arrays, which are C-contiguous, and None otherwise.
    `align` is the known alignment of the first element in bytes.
    """

    element: Scalar
    ndim: int
    space: str = "global"
    shape: tuple[int, ...] | None = None
    strides: tuple[int | None, ...] | None = None
    align: int = 0

    def __post_init__(self) -> None:
        if self.strides is not None and all(s is None for s in self.strides):
            object.__setattr__(self, "strides", None)

    def __str__(self) -> str:
        extents = ("?",) * self.ndim if self.shape is None else self.shape
        known = self.strides or (None,) * self.ndim
        dims = ", ".join(
            f"{n}" if s is None else f"{n}:{s}" for n, s in zip(extents, known, strict=False)
        )
        # a static array without axes has no brackets, a view without axes has empty ones
        shown = f"{self.element}" if self.shape == () else f"{self.element}[{dims}]"
        align = f", align {self.align}" if self.align else ""
        return f"array<{shown}, {self.space}{align}>"


@dataclass(frozen=True, slots=True)
class RefType:
    """The address of the first byte of an array's storage, after array expansion."""

    space: str

    def __str__(self) -> str:
        return f"ref<{self.space}>"


Type = Scalar | ArrayType | RefType


def array(element: Scalar, ndim: int, **known: object) -> ArrayType:
    """A global array type; `known` are ArrayType's optional fields."""
    return ArrayType(element, ndim, **known)  # pyright: ignore[reportArgumentType]


def static_array(element: Scalar, shape: tuple[int, ...], space: str) -> ArrayType:
    """A shared or private array of fixed shape."""
    return ArrayType(element, len(shape), space, shape)
