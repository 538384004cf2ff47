"""What the evaluator reports: faults of a run, drawn as the house's errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hetir.diagnostics import Label, LaunchError
from hetir.ir.core import Operation
from hetir.source import Loc

Triple = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItem:
    """One work-item of a launch, by its ids; axis 0 is x."""

    group: Triple
    local: Triple
    size: Triple

    @property
    def global_id(self) -> Triple:
        """Group * group size + local id."""
        x, y, z = (g * s + i for g, s, i in zip(self.group, self.size, self.local, strict=True))
        return (x, y, z)

    def __str__(self) -> str:
        return f"work-item {self.global_id} (local id {self.local} of workgroup {self.group})"


class Fault(LaunchError):  # noqa: N818 (a public name)
    """A work-item did what has no meaning; the access was skipped and the run went on.

    `count` is how often the same op had the same kind of fault; the work-item, array,
    index and shape are those of the first. `other` is the second access of a race.
    """

    def __init__(  # noqa: PLR0913 (the facts of one report)
        self,
        message: str,
        *,
        kernel: str,
        item: WorkItem,
        loc: Loc | None = None,
        other: Label | None = None,
        array: str = "",
        index: tuple[int, ...] = (),
        shape: tuple[int, ...] = (),
        hint: str | None = None,
        count: int = 1,
    ) -> None:
        self.kernel, self.item, self.loc, self.count = kernel, item, loc, count
        self.array, self.index, self.shape = array, index, shape
        where = f"{item} of kernel `{kernel}`"
        if count > 1:
            where += f", and {count - 1} more"
        labels = (Label(loc, where),) if loc else ()
        if other is not None:
            labels += (other,)
        super().__init__(message if loc else f"{message}, in {where}", *labels, hint=hint)


class OutOfBoundsError(Fault):
    """An index lies outside its array.

    Cause: an index past the extent, or a negative one. Fix: guard the access.
    """

    code = "HET600"


class UninitialisedError(Fault):
    """Shared or private memory is read before anything was written there.

    Cause: such memory starts with no value. Fix: write it first.
    """

    code = "HET601"


class DataRaceError(Fault):
    """Two work-items touch one element, one of them writes, and nothing orders them.

    Cause: no barrier, or no acquire that saw a release of a scope with both work-items, lies
    between; or a plain access meets an atomic one. Fix: a barrier, or atomics with an order
    and a scope that includes both.
    """

    code = "HET602"


class DivergentBarrierError(Fault):
    """Some work-items of a workgroup did not reach a barrier.

    Cause: it stands in a branch or loop that they do not all take. Fix: move it out.
    """

    code = "HET603"


class IndexOverflowError(Fault):
    """A 64-bit operation that an index is made of overflowed.

    Cause: the true result does not fit `i64`. Fix: compute the index from smaller parts.
    """

    code = "HET604"


class DivergentSubgroupError(Fault):
    """A subgroup op was reached by part of a subgroup.

    Cause: it stands in divergent flow. Fix: move it out and say with `where=` who takes part.
    """

    code = "HET605"


class BadLaneError(Fault):
    """A shuffle names a lane outside the subgroup.

    Cause: a lane below 0 or past the width. Fix: take it modulo `hl.subgroup_size()`.
    """

    code = "HET606"


class NotUniformError(Fault):
    """A value given to `assume_uniform` differs within a workgroup.

    Cause: the promise is false. Fix: remove it, or make the value uniform.
    """

    code = "HET607"


class AssertionFailedError(Fault):
    """An assertion of the kernel is false.

    Cause: the condition, for the work-item named. Fix: the kernel or its arguments.
    """

    code = "HET608"


class StuckError(Fault):
    """A loop waits for memory that no work-item still running will write.

    Cause: it waits for a work-item of its own workgroup, or for a workgroup that need not
    have started; its work-items were ended. Fix: wait only for earlier tickets.
    """

    code = "HET609"


def place_of(op: Operation) -> object:
    """What faults are counted by: the place in the source, of which an op may be a copy."""
    return op.loc or op


@dataclass(slots=True)
class Faults:
    """Collects faults: one for each kind and place, with a count; at most `limit`."""

    kernel: str
    limit: int = 100
    _found: dict[object, _Record] = field(default_factory=dict[object, "_Record"])

    def new(self, kind: type[Fault], place: object, count: int = 1) -> bool:
        """Count `count` faults at a place; whether the first is still to be described."""
        record = self._found.get((kind, place))
        if record is not None:
            record.count += count
        return record is None and len(self._found) < self.limit

    def describe(
        self, kind: type[Fault], place: object, message: str, *, count: int = 1, **facts: Any
    ) -> None:
        """Record the first fault at a place; `facts` are the keywords of `Fault`."""
        self._found[kind, place] = _Record(kind, message, facts, count)

    def count(self, kind: type[Fault]) -> int:
        """How many different faults of a kind there are."""
        return sum(record.kind is kind for record in self._found.values())

    def explain(self, kind: type[Fault], **facts: Any) -> None:
        """Add facts to the newest fault of a kind."""
        record = next(r for r in reversed(self._found.values()) if r.kind is kind)
        record.facts.update(facts)

    def report(self) -> tuple[Fault, ...]:
        """Every fault, in the order found."""
        return tuple(
            r.kind(r.message, kernel=self.kernel, count=r.count, **r.facts)
            for r in self._found.values()
        )


@dataclass(slots=True)
class _Record:
    kind: type[Fault]
    message: str
    facts: dict[str, Any]
    count: int
