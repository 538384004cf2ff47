"""Expansions of ops into other hetIR ops, for targets that have no rule for them."""

from __future__ import annotations

from hetir.ir.core import Operation
from hetir.passes.expansions.table import EXPANSIONS, Expansion, expansion_of

__all__ = ["EXPANSIONS", "Expansion", "Operation", "expansion_of"]
