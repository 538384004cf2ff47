"""Which leaves run several rows of work-items as one vector: those whose rows share what they load.

In a loop such as `acc += a[ty, k] * b[k, tx]` the rows of a workgroup load the same line of b, and
a row's work-items the same element of a. A vector of several rows loads the line once, and has as
many sums side by side as there are rows: a tile of results in registers. Where one vector holds the
whole workgroup, they stay there across barriers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hetir.backends.cpu.pressure import (
    LONGEST,
    ONE_BY_ONE,
    Pressure,
    Shape,
    leaves,
    size_of,
    touched,
)
from hetir.backends.cpu.program import Leaf, Schedule
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value, walk
from hetir.ir.types import RefType
from hetir.passes.access import Addresses
from hetir.passes.regions import LOOPS
from hetir.passes.uniformity import uniformity

_MOST_LANES = 256
_ADDRESSES = 8  # of rows that general registers hold
_ENOUGH = 4  # shared loads that pay; a loop does at least as many


def rows_of(width: int, workgroup: tuple[int, int, int] | None) -> int:
    """How many whole rows of work-items, all of one plane, a vector of that width holds; or 1."""
    sx, sy, _ = workgroup or (1, 1, 1)
    rows = width // sx
    return rows if rows > 1 and width % sx == 0 and sy % rows == 0 else 1


class Tiles:
    """Answers for the leaves of one kernel; `known` says what is the same in a workgroup."""

    def __init__(self, kernel: Kernel, addresses: Addresses) -> None:
        self.known, self._row, self._column = (
            uniformity(kernel, scope=scope, lockstep=True)
            for scope in ("workgroup", "row", "column")
        )
        self._accesses = addresses

    def widths(self, schedule: Schedule, shape: Shape, found: Mapping[int, int]) -> dict[int, int]:
        """The lanes of the leaves that run several rows at a time, by their ids.

        `found` holds what they would have otherwise.
        """
        wide: dict[int, int] = {}
        if schedule.private or schedule.has_subgroups:
            return wide
        given = (leaf for leaf, _ in leaves(schedule.nodes, _MOST_LANES, shape.subgroup))
        every = [leaf for leaf in given if size_of(leaf) <= LONGEST]
        for leaf in every:
            lanes = self._lanes(leaf, shape)
            if lanes > max(shape.workgroup[0], found[id(leaf)]) and self._shares(leaf):
                wide[id(leaf)] = lanes
        items = shape.workgroup[0] * shape.workgroup[1] * shape.workgroup[2]
        whole = [leaf for leaf in every if wide.get(id(leaf)) == items]
        kept = {v for leaf in whole for v in _places(leaf, schedule)}
        for leaf in every:
            if not kept.isdisjoint(_places(leaf, schedule)) and _straight(leaf):
                wide.setdefault(id(leaf), items)
        return wide

    def _lanes(self, leaf: Leaf, shape: Shape) -> int:
        """As many rows as registers hold, but for what the rows share; a power of two, or 0."""
        pressure = Pressure(self._row, self._accesses.definitions, shared=self._column)
        most = min(_MOST_LANES, shape.register_bytes // max(1, pressure.leaf(leaf)))
        sx, sy, _ = shape.workgroup
        most //= sx
        if addresses := self._addresses(leaf):
            most = min(most, _ADDRESSES // addresses)
        rows = 1 if sx & (sx - 1) == 0 else 0
        while rows and sy % (2 * rows) == 0 and 2 * rows <= most:
            rows *= 2
        return rows * sx

    def _addresses(self, leaf: Leaf) -> int:
        """How many addresses a row has of its own in loops: those in arrays of unknown strides."""
        found: set[Value] = set()
        for op, looped in _walk(leaf.ops):
            if looped and op.spec in (ops.LOAD, ops.STORE):
                kind = op.operands[0].type
                assert isinstance(kind, RefType)
                if kind.space == "global" and self._column.varying(op.operands[1]):
                    found.add(op.operands[1])
        return len(found)

    def _shares(self, leaf: Leaf) -> bool:
        """Whether rows load the same lines again and again, and vectors of rows do no harm."""
        shared = 0
        for op, looped in _walk(leaf.ops):
            if op.spec in ONE_BY_ONE:
                return False
            if looped and op.spec is ops.FOR and any(map(self.known.varying, op.operands[:3])):
                return False
            if looped and op.spec is ops.IF and self.known.varying(op.operands[0]):
                return False
            if op.spec in (ops.LOAD, ops.STORE):
                kind = self._accesses.of(op).kind(self._row)
                if kind != "contiguous" and (kind != "uniform" or op.spec is ops.STORE):
                    return False
                if kind == "contiguous" and not self._column.varying(op.operands[1]):
                    shared += _ENOUGH if looped else 1
        return shared >= _ENOUGH


def _walk(body: Iterable[Operation], *, looped: bool = False) -> Iterator[tuple[Operation, bool]]:
    """All ops, inner ones too, each with whether it is a loop or stands in one."""
    for op in body:
        inside = looped or op.spec in LOOPS
        yield op, inside
        for region in op.regions:
            yield from _walk(region.body, looped=inside)


def _places(leaf: Leaf, schedule: Schedule) -> set[Value]:
    return {schedule.same.get(value, value) for value in touched(leaf)}


def _straight(leaf: Leaf) -> bool:
    """Whether a leaf has no loops, and nothing that lanes do one by one."""
    return not any(op.spec in (*LOOPS, *ONE_BY_ONE) for op in walk(Region((), tuple(leaf.ops))))
