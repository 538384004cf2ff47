"""The SAT solver, behind the few calls that the checker makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from pysat.solvers import Solver as _Solver  # pyright: ignore[reportMissingTypeStubs]

NAME = "cadical153"


class Solver(Protocol):
    """An incremental SAT solver."""

    def add_clause(self, clause: list[int]) -> None:
        """Require one of the literals."""
        ...

    def append_formula(self, formula: list[list[int]]) -> None:
        """Require every clause."""
        ...

    def solve(self, assumptions: Sequence[int]) -> bool | None:
        """Say whether the clauses and the assumptions can hold together."""
        ...

    def get_model(self) -> list[int] | None:
        """Return the literals that hold in the last answer."""
        ...

    def delete(self) -> None:
        """Free what the solver holds."""
        ...


def solver(clauses: list[list[int]]) -> Solver:
    """Return a solver of `clauses`."""
    return cast(Solver, _Solver(name=NAME, bootstrap_with=clauses))
