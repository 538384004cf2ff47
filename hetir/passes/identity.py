"""Identities of reductions: what a lane that takes no part counts as."""

from __future__ import annotations

from hetir.ir.build import bits_of
from hetir.ir.types import BOOL, Scalar


def identity_bits(kind: str, element: Scalar) -> int:
    """The bits of +0, 1, the largest value, the least, or all ones."""
    ones = (1 << element.bits) - 1
    match kind:
        case "mul":
            return bits_of(element, 1)
        case "and":
            return ones
        case "min" | "max" if element.is_float:
            return bits_of(element, float("inf") if kind == "min" else float("-inf"))
        case "min" if element.is_int:
            return ones >> 1 if element.signed else ones
        case "max" if element.is_int:
            return 1 << (element.bits - 1) if element.signed else 0
        case _:
            assert kind in ("add", "or", "xor") or element == BOOL
            return 0
