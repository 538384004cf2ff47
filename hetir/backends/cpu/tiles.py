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
from hetir.backends.llvm import memory
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value, walk
from hetir.ir.types import I64, RefType
from hetir.passes.regions import LOOPS, number
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

    def __init__(self, kernel: Kernel, definitions: Mapping[Value, Operation]) -> None:
        self.known, self._row, self._column = (
            uniformity(kernel, scope=scope, lockstep=True)
            for scope in ("workgroup", "row", "column")
        )
        self._kernel = kernel
        self._definitions = definitions
        self._steps: dict[Value, int] = {}

    def widths(self, schedule: Schedule, shape: Shape, found: Mapping[int, int]) -> dict[int, int]:
        """The lanes of the leaves that run several rows at a time, by their ids.

        `found` holds what they would have otherwise.
        """
        wide: dict[int, int] = {}
        if schedule.private or schedule.has_subgroups:
            return wide
        self._find_steps()
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
        pressure = Pressure(self._row, self._definitions, shared=self._column)
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
                step, size = self._step(op.operands[1]), memory.element_of(op).bytes
                if step != size and (step != 0 or op.spec is ops.STORE):
                    return False
                if step == size and not self._column.varying(op.operands[1]):
                    shared += _ENOUGH if looped else 1
        return shared >= _ENOUGH

    def _find_steps(self) -> None:
        """Look at all that ops make, which comes after what they make it of."""
        for op in walk(self._kernel.body):
            if len(op.results) == 1 and not op.regions:
                step = self._made(op)
                if step is not None:
                    self._steps[op.result] = step

    def _step(self, value: Value) -> int | None:
        """How much an i64 that is held by rows grows from item to item of a row, else None."""
        return self._steps.get(value) if self.known.varying(value) else 0

    def _made(self, op: Operation) -> int | None:
        """The same for what an op makes; other types than i64 do not grow."""
        if op.spec in (ops.LOCAL_ID, ops.GLOBAL_ID):
            return int(op.attrs["axis"] == 0)
        steps = [self._step(v) for v in op.operands]
        known = [step for step in steps if step is not None]
        if len(known) < len(steps) or not (op.spec.pure or op.spec is ops.LOAD):
            return None
        if not any(known):
            return 0 if known else None
        match op.name:
            case "add":
                return sum(known)
            case "sub":
                return known[0] - known[1]
            case "mul":
                by = [number(self._definitions.get(v)) for v in reversed(op.operands)]
                pairs = zip(known, by, strict=True)
                return next((step * n for step, n in pairs if step and n is not None), None)
            case "cast" if op.operands[0].type == I64 == op.result.type:
                return known[0]
            case _:
                return None


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
