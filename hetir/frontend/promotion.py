"""Which type an expression has: PyTorch's promotion with hetir's exceptions."""

from __future__ import annotations

from functools import cache

from hetir.ir.types import BF16, F16, F32, SCALARS, Scalar


def rank(kind: Scalar) -> int:
    """The category: 0 bool, 1 integers, 2 floats."""
    return 0 if kind.kind == "bool" else 1 if kind.is_int else 2


@cache
def promote(a: Scalar, b: Scalar) -> Scalar | None:
    """The common type of two scalars, or None for a signed integer with `u64`.

    `f8` types only store; callers refuse them first.
    """
    if a == b:
        return a
    if rank(a) != rank(b):
        return a if rank(a) > rank(b) else b
    if a.is_float:
        return F32 if {a, b} == {F16, BF16} else max(a, b, key=_bits)
    if a.kind == b.kind:
        return max(a, b, key=_bits)
    signed, unsigned = (a, b) if a.signed else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    return SCALARS.get(f"i{2 * unsigned.bits}")


def _bits(kind: Scalar) -> int:
    return kind.bits
