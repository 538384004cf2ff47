"""A kernel as a workgroup-level program over leaf regions of work-item code.

A barrier ends a leaf for the whole workgroup, a subgroup op for its subgroup. Control flow
around them is uniform at that level and runs once; everything else runs a work-item at a
time. `hetir.passes.uniformity` has refused kernels for which this does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hetir.backends.cpu.places import settle
from hetir.backends.cpu.program import (
    SUBGROUP_OPS,
    Control,
    Exchange,
    Exit,
    Leaf,
    Level,
    Node,
    Once,
    Schedule,
    Subgroups,
    connect,
)
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value
from hetir.ir.ops import Spec
from hetir.ir.types import ArrayType
from hetir.passes.layout import carried_args
from hetir.passes.regions import LOOPS

_JUMPS = (ops.BREAK, ops.CONTINUE, ops.RETURN)


def schedule(kernel: Kernel) -> Schedule:
    """Split a lowered kernel."""
    scheduler = _Scheduler()
    scheduler.uniform.update(p.value for p in kernel.params)
    nodes = scheduler.program(kernel.body, Level.WORKGROUP, _Place(top=True, last=True))
    program = connect(nodes, scheduler.uniform, masked=scheduler.masked)
    program.same.update(settle(program.nodes))
    return program


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a region stands: what follows it, and what its terminators end.

    `top` is the level's own region, outside every `if` and loop.
    `follows` says that a boundary may run after the region, `body` that it is a loop's
    own body, after which this iteration holds no more boundaries.
    """

    top: bool = False
    last: bool = False
    follows: bool = False
    body: bool = False
    join: tuple[Value, ...] = ()
    loop: Operation | None = None


class _Scheduler:
    """Recursive splitting; `uniform` holds the values that a level computes once."""

    def __init__(self) -> None:
        self.uniform: set[Value] = set()
        self.masked = False
        self._holds: dict[tuple[Operation, Level], bool] = {}
        self._jumps: dict[Operation, frozenset[Spec]] = {}

    def program(self, region: Region, level: Level, place: _Place) -> list[Node]:
        """The nodes of a region that the level runs."""
        later = self._suffixes(region.body, level, place)
        nodes: list[Node] = []
        pending: list[Operation] = []
        for index, op in enumerate(region.body):
            if op.spec.terminator:
                self._end(op, level, place, nodes, pending)
            elif self._once(op):
                _append_once(nodes, op)
            elif self._boundary(op, level):
                self._flush(nodes, pending, level)
                if op.spec is not ops.BARRIER:
                    nodes.append(Exchange(op))
            elif self._controls(op, level, place, later[index]):
                self._flush(nodes, pending, level)
                last = place.last and index == len(region.body) - 2
                follows = place.follows or later[index]
                self._control(op, level, replace(place, last=last, follows=follows), nodes)
            else:
                pending.append(op)
        self._flush(nodes, pending, level, last=place.last)
        return nodes

    def _suffixes(self, body: Sequence[Operation], level: Level, place: _Place) -> list[bool]:
        """For each op, whether a boundary or what the level runs itself stands after it."""
        found, result = False, [False] * len(body)
        for index in range(len(body) - 1, -1, -1):
            result[index], op = found, body[index]
            found = found or self.holds(op, level) or self._controls(op, level, place, found)
        return result

    def _boundary(self, op: Operation, level: Level) -> bool:
        if op.spec is ops.BARRIER:
            return (op.attrs["scope"] == "subgroup") == (level is Level.SUBGROUP)
        return level is Level.SUBGROUP and op.spec in SUBGROUP_OPS

    def holds(self, op: Operation, level: Level) -> bool:
        """Whether a boundary of the level stands in the op."""
        if not op.regions:
            return self._boundary(op, level)
        known = self._holds.get((op, level))
        if known is None:
            known = any(self.holds(o, level) for r in op.regions for o in r.body)
            self._holds[op, level] = known
        return known

    def _controls(self, op: Operation, level: Level, place: _Place, later: bool) -> bool:
        """Whether the level must run this structured op itself."""
        if not op.regions:
            return False
        if self.holds(op, level):
            return True
        jumps = self.jumps(op)
        if ops.BREAK in jumps or (ops.CONTINUE in jumps and (later or not place.body)):
            return True
        return ops.RETURN in jumps and (later or place.follows)

    def jumps(self, op: Operation) -> frozenset[Spec]:
        """The ways in which the op leaves the regions around it."""
        if op not in self._jumps:
            found = {o.spec for r in op.regions for o in r.body if o.spec in _JUMPS}
            found.update(*(self.jumps(o) for r in op.regions for o in r.body if o.regions))
            captured: frozenset[Spec] = (
                frozenset() if op.spec is ops.IF else frozenset((ops.BREAK, ops.CONTINUE))
            )
            self._jumps[op] = frozenset(found) - captured
        return self._jumps[op]

    def _once(self, op: Operation) -> bool:
        """Whether the op is pure on values that the level computes once."""
        if op.spec is ops.BASE and not movable_base(op):
            return False
        pure = op.spec is ops.ASSUME_UNIFORM or (op.spec.pure and op.spec.varying != "always")
        array = op.spec in (ops.BASE, ops.DIM, ops.STRIDE)
        free = pure and (array or all(v in self.uniform for v in op.operands))
        if free:
            self.uniform.update(op.results)
        return free

    def _flush(
        self, nodes: list[Node], pending: list[Operation], level: Level, *, last: bool = False
    ) -> None:
        """Close the open leaf, as a subgroup program where it holds subgroup ops."""
        if not pending:
            return
        body = tuple(pending)
        pending.clear()
        if level is Level.WORKGROUP and any(self.holds(o, Level.SUBGROUP) for o in body):
            before, body, after = self._apart(body)
            if before:
                nodes.append(Leaf(list(before)))
            place = _Place(top=True, last=last and not after)
            nodes.append(Subgroups(self.program(Region((), body), Level.SUBGROUP, place)))
            if after:
                nodes.append(Leaf(list(after)))
            return
        self.masked |= not last and any(
            o.spec is ops.RETURN or ops.RETURN in self.jumps(o) for o in body
        )
        nodes.append(Leaf(list(body)))

    def _apart(self, body: tuple[Operation, ...]) -> tuple[tuple[Operation, ...], ...]:
        """What comes before the subgroup ops, they, and what comes after.

        Loops before and after are better run for the workgroup, whose vectors may be wider.
        """
        holds = [self.holds(op, Level.SUBGROUP) for op in body]
        first, last = holds.index(True), len(body) - holds[::-1].index(True)
        if not self._loops(body[:first]):
            first = 0
        if not self._loops(body[last:]):
            last = len(body)
        return body[:first], body[first:last], body[last:]

    def _loops(self, body: Sequence[Operation]) -> bool:
        """Whether there are loops, and nothing that leaves the code around."""
        leaves = any(o.spec.terminator or self.jumps(o) for o in body)
        return any(o.spec in LOOPS for o in body) and not leaves

    def _end(
        self,
        op: Operation,
        level: Level,
        place: _Place,
        nodes: list[Node],
        pending: list[Operation],
    ) -> None:
        """A terminator: a leaf moves what it carries, then the level leaves the region."""
        if op.spec is ops.RETURN:
            if level is Level.SUBGROUP:
                pending.append(op)
            self._flush(nodes, pending, level, last=place.last)
            if not (place.top and place.last):
                nodes.append(Exit(op))
            return
        moved = place.join
        if op.spec is not ops.YIELD:
            assert place.loop is not None
            moved = place.loop.results if op.spec is ops.BREAK else carried_args(place.loop)
        self._move(op, moved, level, nodes, pending, place)
        nodes.append(Exit(op))

    def _move(
        self,
        op: Operation,
        moved: tuple[Value, ...],
        level: Level,
        nodes: list[Node],
        pending: list[Operation],
        place: _Place,
    ) -> None:
        """Close the open leaf with moves into `moved`, if there are any."""
        if level is Level.WORKGROUP and any(self.holds(o, Level.SUBGROUP) for o in pending):
            self._flush(nodes, pending, level)
        jumps = any(ops.CONTINUE in self.jumps(o) for o in pending)
        if moved or jumps:
            self.masked |= any(ops.RETURN in self.jumps(o) for o in pending)
            nodes.append(Leaf([*pending, op], moved))
            pending.clear()
        else:
            self._flush(nodes, pending, level, last=place.last)

    def _control(self, op: Operation, level: Level, place: _Place, nodes: list[Node]) -> None:
        if op.spec is ops.IF:
            inner = replace(place, top=False, body=False, join=op.results)
            nodes.append(Control(op, [self.program(r, level, inner) for r in op.regions]))
            return
        (region,) = op.regions
        carried = carried_args(op)
        init = op.operands[3:] if op.spec is ops.FOR else op.operands
        if carried:
            nodes.append(Leaf([Operation(ops.YIELD, init)], carried))
        if op.spec is ops.FOR:
            self.uniform.add(region.args[0])
        inner = _Place(follows=True, body=True, join=carried, loop=op)
        nodes.append(Control(op, [self.program(region, level, inner)]))


def _append_once(nodes: list[Node], op: Operation) -> None:
    if nodes and isinstance(nodes[-1], Once):
        nodes[-1].ops.append(op)
    else:
        nodes.append(Once([op]))


def movable_base(op: Operation) -> bool:
    """Whether a `base` is one address for the whole workgroup."""
    kind = op.operands[0].type
    return isinstance(kind, ArrayType) and kind.space != "private"
