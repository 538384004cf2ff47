"""What a memory model is: axioms over relations, and when a program races."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from hetir.memory.events import Event
from hetir.memory.execution import Execution
from hetir.memory.logic import FALSE
from hetir.memory.relation import Relation


class Form(StrEnum):
    """What an axiom says of its relation."""

    ACYCLIC = "acyclic"
    IRREFLEXIVE = "irreflexive"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Axiom:
    """A named requirement on one relation."""

    name: str
    form: Form
    relation: Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """A model applied to the executions of one program.

    `overwrites` orders writes to one location: a final value is that of a write with none after
    it. `races` holds where the execution has a data race. `shown` are the relations that a
    witness is drawn with, besides program order.
    """

    axioms: tuple[Axiom, ...]
    overwrites: Relation
    races: int = FALSE
    shown: Mapping[str, Relation]


class Model(Protocol):
    """A memory model by name.

    With `undefined_on_race`, a race makes every outcome possible. With `thin_air`, it does not
    rule out values that only depend on themselves.
    """

    @property
    def name(self) -> str:
        """Return the model's name."""
        ...

    @property
    def undefined_on_race(self) -> bool:
        """Return whether a race makes every outcome possible."""
        ...

    @property
    def thin_air(self) -> bool:
        """Return whether values that only depend on themselves are possible."""
        ...

    def constrain(self, x: Execution) -> Constraints:
        """Apply the model to the candidate executions of a program."""
        ...


def no_thin_air(x: Execution) -> Axiom:
    """No value and no branch depends on itself through reads of what it led to."""
    return Axiom("no thin air", Form.ACYCLIC, x.reads_from | dependencies(x))


def dependencies(x: Execution) -> Relation:
    """Return each read with what uses its value: values, addresses, and what branches lead to."""
    return _uses(x, lambda event: event.data | event.address | event.control)


def control_dependencies(x: Execution) -> Relation:
    """Return the pairs of a read and an operation that a branch on the read leads to."""
    return _uses(x, lambda event: event.control)


def _uses(x: Execution, uses_of: Callable[[Event], frozenset[int]]) -> Relation:
    happens = [event.happens for event in x.events]
    both = x.logic.both
    return Relation.of(
        x.logic,
        (
            (use, event.number, both(happens[use], event.happens))
            for event in x.events
            for use in uses_of(event)
        ),
    )


def barriers_progress(x: Execution) -> Axiom:
    """No work-item waits at a barrier for one that waits for it at another."""
    return Axiom("barriers progress", Form.ACYCLIC, x.program_order @ x.meetings)


def conflicts(x: Execution) -> Relation:
    """Return the pairs of accesses of different threads to one place, one of them a write."""
    together = x.same_place.between(x.accesses, x.accesses)
    different = together & x.pairs(
        lambda a, b: not (a.is_initial or b.is_initial or x.same_thread(a, b))
    )
    return different.between(x.writes, None) | different.between(None, x.writes)
