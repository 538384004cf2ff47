"""The types of PTX: their names, widths, and the NumPy types that hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Lanes = np.ndarray[Any, np.dtype[Any]]
"""One value a lane, or a NumPy scalar when every lane holds the same."""


@dataclass(frozen=True, slots=True)
class PtxType:
    """A type; `kind` is b, u, s, f or p (predicate); `lane` is the part of a packed type."""

    name: str
    kind: str
    bits: int
    dtype: np.dtype[Any]
    lane: str = ""

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self.bits // 8

    @property
    def storage(self) -> np.dtype[Any]:
        """How a register of this type is held: bool, or unsigned of its width."""
        return self.dtype if self.kind == "p" or self.bits == 128 else UNSIGNED[self.bits]


UNSIGNED = {8: np.dtype("u1"), 16: np.dtype("u2"), 32: np.dtype("u4"), 64: np.dtype("u8")}
SIGNED = {8: np.dtype("i1"), 16: np.dtype("i2"), 32: np.dtype("i4"), 64: np.dtype("i8")}
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
QUAD = np.dtype([("low", "u8"), ("high", "u8")])
"""128 bits, only moved, loaded, stored, exchanged and compared."""


def _table() -> dict[str, PtxType]:
    rows = [PtxType("pred", "p", 1, np.dtype(bool)), PtxType("b128", "b", 128, QUAD)]
    for bits in (8, 16, 32, 64):
        rows.append(PtxType(f"b{bits}", "b", bits, UNSIGNED[bits]))
        rows.append(PtxType(f"u{bits}", "u", bits, UNSIGNED[bits]))
        rows.append(PtxType(f"s{bits}", "s", bits, SIGNED[bits]))
    rows += [
        PtxType("f16", "f", 16, np.dtype("f2")),
        PtxType("bf16", "f", 16, BFLOAT16),
        PtxType("f32", "f", 32, np.dtype("f4")),
        PtxType("f64", "f", 64, np.dtype("f8")),
        PtxType("tf32", "f", 32, np.dtype("f4")),
        PtxType("f16x2", "f", 32, UNSIGNED[32], "f16"),
        PtxType("bf16x2", "f", 32, UNSIGNED[32], "bf16"),
        PtxType("f32x2", "f", 64, UNSIGNED[64], "f32"),
        PtxType("u16x2", "u", 32, UNSIGNED[32], "u16"),
        PtxType("s16x2", "s", 32, UNSIGNED[32], "s16"),
        PtxType("e4m3x2", "f", 16, UNSIGNED[16], "e4m3"),
        PtxType("e5m2x2", "f", 16, UNSIGNED[16], "e5m2"),
    ]
    return {row.name: row for row in rows}


TYPES = _table()
PRED, B8, B16, B32, B64, B128, U32, U64, S32 = (
    TYPES[name] for name in ("pred", "b8", "b16", "b32", "b64", "b128", "u32", "u64", "s32")
)


def as_type(value: Lanes, dtype: np.dtype[Any]) -> Lanes:
    """The same bits as another type of the same width."""
    if value.dtype == dtype:
        return value
    assert value.dtype.itemsize == dtype.itemsize, (value.dtype, dtype)
    return value.view(dtype)
