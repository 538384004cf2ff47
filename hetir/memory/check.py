"""The checker: which final states a model allows, with an execution that shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from hetir.memory.claim import (
    AllOf,
    AnyOf,
    Claim,
    Compare,
    Condition,
    FinalLocation,
    FinalRegister,
    Negation,
    Observable,
    Quantifier,
    Term,
    constants,
)
from hetir.memory.events import Event, Values, storage, unfold
from hetir.memory.execution import Execution
from hetir.memory.logic import FALSE, TRUE, Logic
from hetir.memory.models.base import Axiom, Constraints, Form, Model
from hetir.memory.program import Program, evaluate
from hetir.memory.relation import Relation, forbid_cycles
from hetir.memory.solver import solver

Outcome = tuple[int | None, ...]
"""The final values of the observed registers and locations, in their order.

None stands for a register that a thread, stuck at a barrier, never set.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """One execution: the events that happen and the relations between them."""

    events: tuple[Event, ...]
    read: Mapping[int, int]
    written: Mapping[int, int]
    place: Mapping[int, str]
    edges: Mapping[str, frozenset[tuple[int, int]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer to a claim.

    `holds` is whether the claim is true. `witness` is an execution of the condition (for
    `forall`, of its opposite), None where there is none. `forbidden_by` names axioms that
    together rule such executions out, and `near_miss` is one that breaks only those.
    `undefined` says that a data race makes everything possible.
    """

    holds: bool
    witness: Witness | None = None
    forbidden_by: tuple[str, ...] = ()
    near_miss: Witness | None = None
    undefined: bool = False


class Checker:
    """All executions of one program under one model, ready to be asked about."""

    def __init__(
        self,
        program: Program,
        model: Model,
        *,
        turns: int = 2,
        guesses: frozenset[int] = frozenset(),
    ) -> None:
        self.program = program
        self.model = model
        self.logic = Logic()
        possible = guesses if model.thin_air else frozenset[int]()
        self.execution = Execution(unfold(program, self.logic, turns, possible), self.logic)
        self.constraints: Constraints = model.constrain(self.execution)
        self._values: dict[Observable, Values] = {}
        self._storage = {place.name: place.alias or place.name for place in program.locations}
        self._last = self._last_writes()
        self._axioms = self._select_axioms()
        self._solver = solver(self.logic.clauses)
        self._loaded = len(self.logic.clauses)

    def close(self) -> None:
        """Free the solver."""
        self._solver.delete()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def judge(self, claim: Claim, *, explain: bool = False) -> Verdict:
        """Decide a claim; `explain` also says why an outcome is forbidden."""
        if claim.quantifier is Quantifier.FILTER:
            return Verdict(holds=not self.races(claim.condition))
        wanted = self.literal(claim.condition)
        if claim.quantifier is Quantifier.FORALL:
            wanted = -wanted
        possible = self._solve([wanted])
        witness = self._witness() if possible else None
        undefined = self.undefined
        found = possible or undefined
        verdict = Verdict(
            holds=found == (claim.quantifier is Quantifier.EXISTS),
            witness=witness,
            undefined=undefined,
        )
        return self._explained(verdict, wanted) if explain and not found else verdict

    @property
    def undefined(self) -> bool:
        """Whether some execution races and the model calls that undefined."""
        return self.model.undefined_on_race and self.races()

    def races(self, condition: Condition | None = None) -> bool:
        """Whether some consistent execution (of the final states in `condition`) races."""
        wanted = TRUE if condition is None else self.literal(condition)
        return self._solve([wanted, self.constraints.races])

    def race(self) -> Witness | None:
        """Return an execution with a data race, if there is one."""
        return self._witness() if self.races() else None

    def outcomes(
        self, observed: Iterable[Observable] | None = None, limit: int | None = None
    ) -> frozenset[Outcome]:
        """Return every final state, as the values of `observed` (default: `observables()`).

        With `limit`, stop at that many.
        """
        watched = self.observables() if observed is None else tuple(observed)
        values = [self.values(item) for item in watched]
        self._load()
        found: set[Outcome] = set()
        blocked = self.logic.variable()
        while (limit is None or len(found) < limit) and self._solve([blocked]):
            model = set(self._solver.get_model() or ())
            outcome = [_final(options, model) for options in values]
            found.add(tuple(value for value, _ in outcome))
            others = [-literal for _, literals in outcome for literal in literals]
            self._solver.add_clause([-blocked, *others])
        self._solver.add_clause([-blocked])
        return frozenset(found)

    def final(self, observed: Iterable[Observable]) -> Outcome:
        """Return the final values of the execution that the last answer showed."""
        model = set(self._solver.get_model() or ())
        return tuple(_final(self.values(item), model)[0] for item in observed)

    def observables(self) -> tuple[Observable, ...]:
        """Return every register that a thread sets and every location that one writes."""
        registers = {
            FinalRegister(thread, name)
            for thread, ends in enumerate(self.execution.ends)
            for end in ends
            for name in end.registers
        }
        written = {
            FinalLocation(name)
            for event in self.execution.events
            if event.writes and not event.is_initial
            for name in event.places
        }
        return (*sorted(registers, key=str), *sorted(written, key=str))

    def values(self, item: Observable) -> Values:
        """Return the possible final values of a register or a location."""
        known = self._values.get(item)
        if known is None:
            known = (
                self._register(item)
                if isinstance(item, FinalRegister)
                else self._location(self._storage[item.name])
            )
            self._values[item] = known
        return known

    def literal(self, condition: Condition) -> int:
        """Return the literal that says that a condition holds of the final state."""
        logic = self.logic
        match condition:
            case Compare(op=op, left=left, right=right):
                return self._compare(op, left, right)
            case AllOf(parts=parts):
                return logic.every([self.literal(part) for part in parts])
            case AnyOf(parts=parts):
                return logic.some([self.literal(part) for part in parts])
            case Negation(part=part):
                return -self.literal(part)

    def _compare(self, op: str, left: Term, right: Term) -> int:
        a = {left: TRUE} if isinstance(left, int) else self.values(left)
        b = {right: TRUE} if isinstance(right, int) else self.values(right)
        both = self.logic.both
        return self.logic.some(
            [both(p, q) for x, p in a.items() for y, q in b.items() if evaluate(op, x, y)]
        )

    def _register(self, item: FinalRegister) -> Values:
        terms: dict[int, list[int]] = {}
        for end in self.execution.ends[item.thread]:
            for value, literal in end.value(item.name).items():
                terms.setdefault(value, []).append(self.logic.both(end.happens, literal))
        return {value: self.logic.some(literals) for value, literals in terms.items()}

    def _location(self, name: str) -> Values:
        terms: dict[int, list[int]] = {}
        for event in self.execution.events:
            last = self._last.get((event.number, name), FALSE)
            if last != FALSE:
                for value, literal in event.written.items():
                    terms.setdefault(value, []).append(self.logic.both(last, literal))
        return {value: self.logic.some(literals) for value, literals in terms.items()}

    def _last_writes(self) -> dict[tuple[int, str], int]:
        """Choose, for each location, a write that none overwrites: its value is the final one."""
        logic = self.logic
        chosen: dict[tuple[int, str], int] = {}
        for location in storage(self.program):
            writes = [e for e in self.execution.events if e.writes and location.name in e.places]
            options: list[int] = []
            for event in writes:
                here = logic.both(event.happens, event.places[location.name])
                later = [self._overwritten(event, other, location.name) for other in writes]
                option = TRUE if len(writes) == 1 else logic.variable()
                logic.require(-option, here)
                for literal in later:
                    logic.require(-option, -literal)
                chosen[event.number, location.name] = option
                options.append(option)
            logic.exactly_one(options)
        return chosen

    def _overwritten(self, event: Event, other: Event, name: str) -> int:
        if event is other:
            return FALSE
        if event.is_initial:
            return self.logic.both(other.happens, other.places[name])
        return self.constraints.overwrites.at(event.number, other.number)

    def _select_axioms(self) -> dict[str, int]:
        selectors: dict[str, int] = {}
        for axiom in self.constraints.axioms:
            selector = self.logic.variable()
            selectors[axiom.name] = selector
            _impose(axiom, selector, self.logic)
        return selectors

    def _load(self) -> None:
        clauses = self.logic.clauses
        if self._loaded < len(clauses):
            self._solver.append_formula(clauses[self._loaded :])
            self._loaded = len(clauses)

    def _solve(self, wanted: list[int], without: Iterable[str] = ()) -> bool:
        self._load()
        dropped = set(without)
        axioms = [lit for name, lit in self._axioms.items() if name not in dropped]
        return bool(self._solver.solve(assumptions=[*axioms, *wanted]))

    def _explained(self, verdict: Verdict, wanted: int) -> Verdict:
        """Find a small set of axioms that forbids `wanted`, and an execution that breaks them."""
        if wanted == FALSE or not self._solve([wanted], without=self._axioms):
            return Verdict(holds=verdict.holds, forbidden_by=("no candidate has these values",))
        needed = list(self._axioms)
        for name in list(self._axioms):
            fewer = [other for other in needed if other != name]
            if not self._solve([wanted], without=set(self._axioms) - set(fewer)):
                needed = fewer
        near = self._near_miss(wanted, needed)
        return Verdict(holds=verdict.holds, forbidden_by=tuple(needed), near_miss=near)

    def _near_miss(self, wanted: int, needed: list[str]) -> Witness | None:
        for name in needed:
            if self._solve([wanted], without=[name]):
                return self._witness()
        return self._witness() if self._solve([wanted], without=needed) else None

    def _witness(self) -> Witness:
        """Read the last execution found out of the solver."""
        model = set(self._solver.get_model() or ())
        events = tuple(e for e in self.execution.events if _true(e.happens, model))
        edges = {
            name: frozenset((a, b) for a, b, literal in relation.pairs() if _true(literal, model))
            for name, relation in self.constraints.shown.items()
        }
        return Witness(
            events=events,
            read={e.number: _chosen(e.read, model) for e in events if e.reads},
            written={e.number: _chosen(e.written, model) for e in events if e.writes},
            place={
                e.number: next(name for name, lit in e.places.items() if _true(lit, model))
                for e in events
                if e.places
            },
            edges=edges,
        )


def outcomes(program: Program, model: Model, turns: int = 2) -> frozenset[Outcome]:
    """Return every final state of a program under a model."""
    with Checker(program, model, turns=turns) as checker:
        return checker.outcomes()


def judge(program: Program, model: Model, claim: Claim, *, explain: bool = False) -> Verdict:
    """Decide a claim about a program under a model."""
    with Checker(program, model, guesses=constants(claim.condition)) as checker:
        return checker.judge(claim, explain=explain)


def _impose(axiom: Axiom, selector: int, logic: Logic) -> None:
    relation: Relation = axiom.relation
    match axiom.form:
        case Form.ACYCLIC:
            forbid_cycles(relation, selector)
        case Form.IRREFLEXIVE:
            for event, row in relation.rows.items():
                logic.require(-selector, -row.get(event, FALSE))
        case Form.EMPTY:
            for _, _, literal in relation.pairs():
                logic.require(-selector, -literal)


def _true(literal: int, model: set[int]) -> bool:
    return literal == TRUE or literal in model


def _chosen(options: Values, model: set[int]) -> int:
    return next(value for value, literal in options.items() if _true(literal, model))


def _final(options: Values, model: set[int]) -> tuple[int | None, list[int]]:
    """Return the final value, with the literals that say so."""
    for value, literal in options.items():
        if _true(literal, model):
            return value, [literal]
    return None, [-literal for literal in options.values()]
