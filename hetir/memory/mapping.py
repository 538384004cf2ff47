"""Whether a lowering is sound for a program: no outcome on the target that hetIR forbids."""

from __future__ import annotations

from dataclasses import dataclass

from hetir.memory.check import Checker, Outcome
from hetir.memory.claim import AllOf, Compare, Condition, Observable
from hetir.memory.lower import Lookup, lower, model_of
from hetir.memory.lowering import OPENCL, VULKAN, lookup
from hetir.memory.models.ir import IrModel
from hetir.memory.program import Program

RACES_ARE_ERRORS = frozenset({OPENCL, VULKAN})
"""Targets whose specification leaves a data race undefined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What hetIR promises of a program: its observables and every outcome they may have."""

    program: Program
    observed: tuple[Observable, ...]
    outcomes: frozenset[Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A lowered program that does what hetIR forbids: an outcome, or a race (no outcome)."""

    target: str
    lowered: Program
    observed: tuple[Observable, ...]
    outcome: Outcome | None

    @property
    def condition(self) -> Condition:
        """Return the outcome as a condition, for a witness."""
        values = self.outcome or ()
        pairs = zip(self.observed, values, strict=False)
        return AllOf(
            tuple(Compare("==", item, value) for item, value in pairs if value is not None)
        )


def promise(program: Program) -> Promise | None:
    """Return what hetIR promises; None where the program races, so that nothing is promised."""
    with Checker(program, IrModel()) as checker:
        if checker.races():
            return None
        observed = checker.observables()
        return Promise(program=program, observed=observed, outcomes=checker.outcomes(observed))


def check_mapping(promised: Promise, target: str, rows: Lookup = lookup) -> Violation | None:
    """Return how the lowered program breaks the promise, or None.

    Raises:
        RefusedError: the table refuses one of its operations.
    """
    lowered = lower(promised.program, target, rows)
    with Checker(lowered, model_of(target)) as checker:
        found = checker.outcomes(promised.observed)
        raced = target in RACES_ARE_ERRORS and checker.races()
    wrong = min(found - promised.outcomes, default=None, key=str)
    if wrong is None and not raced:
        return None
    return Violation(target=target, lowered=lowered, observed=promised.observed, outcome=wrong)
