"""Expansions of ops into other hetIR ops, for targets that have no rule for them."""

from hetir.passes.expansions import (
    atomics,
    conversions,
    divide,
    floats,
    fused,
    integers,
    narrow,
    subgroups,
)
from hetir.passes.expansions.table import EXPANSIONS, Expansion, Writer

__all__ = [
    "EXPANSIONS",
    "Expansion",
    "Writer",
    "atomics",
    "conversions",
    "divide",
    "floats",
    "fused",
    "integers",
    "narrow",
    "subgroups",
]
