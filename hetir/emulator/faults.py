"""What the evaluator reports: faults of a run, drawn as the house's errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hetir.diagnostics import Label, LaunchError
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
    """An index lies outside its array; negative indices do too. Guard the access."""

    code = "HET600"


class UninitialisedError(Fault):
    """Shared or private memory is read before anything was written. Write it first."""

    code = "HET601"


class DataRaceError(Fault):
    """Two work-items touch one element, one of them writes, and nothing orders them.

    Put a barrier between the two, or use atomics of a scope that includes both.
    """

    code = "HET602"


class DivergentBarrierError(Fault):
    """Some work-items of a workgroup did not reach a barrier. Move it to uniform flow."""

    code = "HET603"


class IndexOverflowError(Fault):
    """A 64-bit operation that an index is made of overflowed. Compute it from smaller parts."""

    code = "HET604"


class DivergentSubgroupError(Fault):
    """A subgroup op was reached by part of a subgroup. Move it out; use `where=` instead."""

    code = "HET605"


class BadLaneError(Fault):
    """A shuffle names a lane outside the subgroup. Reduce the lane modulo the width."""

    code = "HET606"


class NotUniformError(Fault):
    """A value given to `assume_uniform` differs within a workgroup. Remove the promise."""

    code = "HET607"


class AssertionFailedError(Fault):
    """An `assert` of the kernel is false."""

    code = "HET608"


class StuckError(Fault):
    """A loop waits for memory that no work-item still running will write.

    Its work-items were ended. A work-item may wait only for a workgroup that started
    before its own, and never for one of its own workgroup.
    """

    code = "HET609"


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
