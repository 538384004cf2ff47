"""Propositional formulas as integer literals, folded while they are built and solved by SAT."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

TRUE = 1
FALSE = -1


class Logic:
    """A growing set of clauses whose gates are folded wherever their inputs are constants.

    A literal is a non-zero integer as in DIMACS; `TRUE` and `FALSE` are the constants. Gates are
    full equivalences, so a literal may be used with either sign.
    """

    __slots__ = ("_gates", "_last", "clauses")

    def __init__(self) -> None:
        self.clauses: list[list[int]] = [[TRUE]]
        self._last = 1
        self._gates: dict[tuple[int, ...], int] = {}

    def variable(self) -> int:
        """Return a fresh literal."""
        self._last += 1
        return self._last

    def require(self, *literals: int) -> None:
        """Add a clause: at least one of `literals` holds."""
        if TRUE in literals:
            return
        self.clauses.append([literal for literal in literals if literal != FALSE] or [FALSE])

    def both(self, a: int, b: int) -> int:
        """Return a literal equivalent to `a and b`."""
        if a in (TRUE, b):
            return b
        if b == TRUE:
            return a
        if a == FALSE or b == FALSE or a == -b:
            return FALSE
        key = (a, b) if a < b else (b, a)
        gate = self._gates.get(key)
        if gate is None:
            gate = self.variable()
            self._gates[key] = gate
            self.clauses += ([-gate, a], [-gate, b], [gate, -a, -b])
        return gate

    def every(self, literals: Iterable[int]) -> int:
        """Return a literal equivalent to the conjunction of `literals`."""
        return -self.some([-literal for literal in literals])

    def some(self, literals: Iterable[int]) -> int:
        """Return a literal equivalent to the disjunction of `literals`."""
        distinct = set(literals)
        distinct.discard(FALSE)
        if TRUE in distinct:
            return TRUE
        if not distinct:
            return FALSE
        if len(distinct) == 1:
            return distinct.pop()
        if len(distinct) == 2:
            a, b = distinct
            return -self.both(-a, -b)
        if any(-literal in distinct for literal in distinct):
            return TRUE
        key = (0, *sorted(distinct))
        gate = self._gates.get(key)
        if gate is None:
            gate = self.variable()
            self._gates[key] = gate
            self.clauses += [[gate, -literal] for literal in distinct]
            self.clauses.append([-gate, *distinct])
        return gate

    def exactly_one(self, literals: Sequence[int]) -> None:
        """Require exactly one of `literals`."""
        self.require(*literals)
        self.at_most_one(literals)

    def at_most_one(self, literals: Sequence[int], given: int = TRUE) -> None:
        """Require at most one of `literals` wherever `given` holds."""
        for position, a in enumerate(literals):
            for b in literals[:position]:
                self.require(-given, -a, -b)
