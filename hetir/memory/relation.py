"""Sets of events and relations between events, each membership a literal of `Logic`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from hetir.memory.logic import FALSE, TRUE, Logic

Rows = dict[int, dict[int, int]]
Members = Mapping[int, int]


class Relation:
    """A binary relation over event numbers; a missing pair is false.

    `|` is union, `&` intersection, `-` difference, `@` composition.
    """

    __slots__ = ("logic", "rows")

    def __init__(self, logic: Logic, rows: Rows) -> None:
        self.logic = logic
        self.rows = rows

    @classmethod
    def of(cls, logic: Logic, pairs: Iterable[tuple[int, int, int]]) -> Relation:
        """Return the relation of (source, target, literal) triples; repeated pairs are joined."""
        rows: Rows = {}
        for source, target, literal in pairs:
            if literal == FALSE:
                continue
            row = rows.setdefault(source, {})
            row[target] = logic.some((row[target], literal)) if target in row else literal
        return cls(logic, rows)

    @classmethod
    def identity(cls, logic: Logic, members: Members) -> Relation:
        """Return the relation of each member of a set to itself."""
        return cls(logic, {event: {event: literal} for event, literal in members.items()})

    def pairs(self) -> Iterator[tuple[int, int, int]]:
        """Yield (source, target, literal) for every pair that is not false."""
        for source, row in self.rows.items():
            for target, literal in row.items():
                yield source, target, literal

    def at(self, source: int, target: int) -> int:
        """Return the literal of one pair."""
        return self.rows.get(source, {}).get(target, FALSE)

    def __or__(self, other: Relation) -> Relation:
        rows = {source: dict(row) for source, row in self.rows.items()}
        for source, row in other.rows.items():
            mine = rows.setdefault(source, {})
            for target, literal in row.items():
                known = mine.get(target)
                mine[target] = literal if known is None else self.logic.some((known, literal))
        return Relation(self.logic, rows)

    def __and__(self, other: Relation) -> Relation:
        both = self.logic.both
        rows: Rows = {}
        for source, row in self.rows.items():
            theirs = other.rows.get(source)
            if theirs is None:
                continue
            kept = {t: both(lit, theirs[t]) for t, lit in row.items() if t in theirs}
            rows[source] = {t: lit for t, lit in kept.items() if lit != FALSE}
        return Relation(self.logic, rows)

    def __sub__(self, other: Relation) -> Relation:
        return self.keep(lambda source, target: -other.at(source, target))

    def __matmul__(self, other: Relation) -> Relation:
        both, some = self.logic.both, self.logic.some
        rows: Rows = {}
        for source, row in self.rows.items():
            terms: dict[int, list[int]] = {}
            for middle, first in row.items():
                for target, second in other.rows.get(middle, {}).items():
                    terms.setdefault(target, []).append(both(first, second))
            joined = {target: some(literals) for target, literals in terms.items()}
            rows[source] = {t: lit for t, lit in joined.items() if lit != FALSE}
        return Relation(self.logic, rows)

    def keep(self, condition: Callable[[int, int], int]) -> Relation:
        """Return the pairs, each conjoined with the literal that `condition` gives for it."""
        return Relation.of(
            self.logic,
            ((s, t, self.logic.both(lit, condition(s, t))) for s, t, lit in self.pairs()),
        )

    def between(self, sources: Members | None, targets: Members | None) -> Relation:
        """Return the pairs from `sources` to `targets`; None stands for every event."""
        both = self.logic.both
        rows: Rows = {}
        for source, row in self.rows.items():
            first = TRUE if sources is None else sources.get(source, FALSE)
            if first == FALSE:
                continue
            kept: dict[int, int] = {}
            for target, literal in row.items():
                second = TRUE if targets is None else targets.get(target, FALSE)
                joined = both(literal, both(first, second))
                if joined != FALSE:
                    kept[target] = joined
            rows[source] = kept
        return Relation(self.logic, rows)

    def inverse(self) -> Relation:
        """Return the relation with every pair turned round."""
        rows: Rows = {}
        for source, target, literal in self.pairs():
            rows.setdefault(target, {})[source] = literal
        return Relation(self.logic, rows)

    def distinct(self) -> Relation:
        """Return the pairs of two different events."""
        return Relation(
            self.logic,
            {s: {t: lit for t, lit in row.items() if t != s} for s, row in self.rows.items()},
        )

    def closure(self) -> Relation:
        """Return the transitive closure, exactly (Warshall over literals)."""
        both, some = self.logic.both, self.logic.some
        rows = {source: dict(row) for source, row in self.rows.items()}
        for middle in list(rows):
            through = list(rows[middle].items())
            if not through:
                continue
            for source, row in rows.items():
                first = row.get(middle)
                if first is None or source == middle:
                    continue
                for target, second in through:
                    known = row.get(target)
                    if known == TRUE:
                        continue
                    step = both(first, second)
                    row[target] = step if known is None else some((known, step))
        clean = {s: {t: v for t, v in row.items() if v != FALSE} for s, row in rows.items()}
        return Relation(self.logic, clean)

    def reflexive(self) -> int:
        """Return the literal that says that some event is related to itself."""
        return self.logic.some([row.get(source, FALSE) for source, row in self.rows.items()])

    def inhabited(self) -> int:
        """Return the literal that says that some pair is related."""
        return self.logic.some([literal for _, _, literal in self.pairs()])


def forbid_cycles(relation: Relation, selector: int) -> None:
    """Require `relation` to be acyclic wherever `selector` holds.

    Each strongly connected part of the possible pairs gets a total order of its own, as one
    variable for two events, which every pair that holds must follow.
    """
    logic = relation.logic
    for component in _components(relation.rows):
        inside = set(component)
        order: dict[tuple[int, int], int] = {}
        for position, a in enumerate(component):
            for b in component[:position]:
                order[a, b] = logic.variable()
                order[b, a] = -order[a, b]
        for source in component:
            for target, literal in relation.rows[source].items():
                if target == source:
                    logic.require(-selector, -literal)
                elif target in inside:
                    logic.require(-selector, -literal, order[source, target])
        _require_transitive(logic, component, order)


def _require_transitive(
    logic: Logic, component: list[int], order: Mapping[tuple[int, int], int]
) -> None:
    for i, a in enumerate(component):
        for j in range(i):
            b = component[j]
            for k in range(j):
                c = component[k]
                ab, bc, ca = order[a, b], order[b, c], order[c, a]
                logic.clauses += ([-ab, -bc, -ca], [ab, bc, ca])


def _components(rows: Mapping[int, Mapping[int, int]]) -> list[list[int]]:
    """Return the strongly connected components that can hold a cycle (Tarjan)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    found: list[list[int]] = []

    def visit(node: int) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in rows.get(node, ()):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            position = stack.index(node)
            component = stack[position:]
            del stack[position:]
            if len(component) > 1 or node in rows.get(node, ()):
                found.append(component)

    for node in rows:
        if node not in index:
            visit(node)
    return found
