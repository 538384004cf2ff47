"""The table of expansions: (op, types) -> function."""

from __future__ import annotations

from collections.abc import Callable
from hetir.ir.build import Builder
from hetir.ir.core import Operation, Value
from hetir.target import Key, key_of

Expansion = Callable[[Builder, Operation], tuple[Value, ...]]
EXPANSIONS: dict[Key, Expansion] = {}


def expansion_of(op: Operation) -> Expansion | None:
    """How to write an op in other ops."""
    return EXPANSIONS.get(key_of(op))
