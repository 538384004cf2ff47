"""The nodes of a workgroup-level program, and the values that cross its leaves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from hetir.ir import ops
from hetir.ir.core import Operation, Region, Value, walk
from hetir.ir.types import BOOL, I64, ArrayType

SUBGROUP_OPS = (ops.SHUFFLE, ops.BALLOT, ops.VOTE, ops.SUBGROUP_REDUCE, ops.SUBGROUP_SCAN)


class Level(IntEnum):
    """Who runs a program together."""

    WORKGROUP = 0
    SUBGROUP = 1


@dataclass(slots=True)
class Once:
    """Pure ops on uniform values, run once by the level."""

    ops: list[Operation]


@dataclass(slots=True)
class Leaf:
    """Ops that each work-item runs to the end.

    A terminator at the end moves its operands into `moved`. `inputs` are values of other
    leaves that it reads, `again` cheap ops of other leaves that it repeats, `outputs` those
    of its own values that others read.
    """

    ops: list[Operation]
    moved: tuple[Value, ...] = ()
    inputs: list[Value] = field(default_factory=list[Value])
    again: list[Operation] = field(default_factory=list[Operation])
    outputs: list[Value] = field(default_factory=list[Value])


@dataclass(slots=True)
class Exchange:
    """A subgroup op: reads and writes context arrays."""

    op: Operation


@dataclass(slots=True)
class Subgroups:
    """A program that each subgroup runs to the end."""

    nodes: list[Node]


@dataclass(slots=True)
class Control:
    """An `if`, `for` or `loop` that the level runs once."""

    op: Operation
    regions: list[list[Node]]


@dataclass(slots=True)
class Exit:
    """A terminator that the level runs once; what it carries was moved by a leaf."""

    op: Operation


Node = Once | Leaf | Exchange | Subgroups | Control | Exit


@dataclass(slots=True)
class Schedule:
    """The program, its context values in order, and what stays per work-item.

    `same` gives the results of the level's `for` loops the places of the carried values.
    """

    nodes: list[Node]
    context: list[Value]
    same: dict[Value, Value]
    private: list[Operation]
    masked: bool

    @property
    def has_subgroups(self) -> bool:
        """Whether some of it runs a subgroup at a time."""
        return any(isinstance(node, Subgroups) for node in every(self.nodes))


def connect(nodes: list[Node], uniform: set[Value], *, masked: bool) -> Schedule:
    """Find the values that cross leaves: they need a place in the context."""
    wires = _Wires(uniform)
    for node in every(nodes):
        wires.define(node)
    for node in every(nodes):
        wires.use(node)
    same: dict[Value, Value] = {}
    for node in every(nodes):
        if isinstance(node, Control) and node.op.spec is ops.FOR:
            same.update(zip(node.op.results, node.op.regions[0].args[1:], strict=True))
    return Schedule(nodes, list(wires.context), same, wires.kept_arrays(), masked)


def every(nodes: Sequence[Node]) -> Iterator[Node]:
    """All nodes, inner ones too, in program order."""
    for node in nodes:
        yield node
        if isinstance(node, Subgroups):
            yield from every(node.nodes)
        elif isinstance(node, Control):
            for region in node.regions:
                yield from every(region)


# what is cheaper to compute again than to keep, on ids and what the level knows
_CHEAP = (
    ops.ADD,
    ops.SUB,
    ops.MUL,
    ops.MIN,
    ops.MAX,
    ops.AND,
    ops.OR,
    ops.SHR,
    ops.EQ,
    ops.NE,
    ops.LT,
    ops.LE,
    ops.GT,
    ops.GE,
)
_DEEPEST = 6
_REPEATED = (ops.LOCAL_ID, ops.GLOBAL_ID, ops.LANE_ID, ops.SUBGROUP_ID, ops.BASE)


class _Wires:
    def __init__(self, uniform: set[Value]) -> None:
        self.uniform = uniform
        self.context: dict[Value, None] = {}
        self._leaf: dict[Value, Leaf] = {}
        self._repeated: dict[Value, Operation] = {}
        self._depth: dict[Value, int] = {}
        self._arrays: dict[Value, Operation] = {}
        self._kept: dict[Operation, None] = {}

    def define(self, node: Node) -> None:
        """Note where the values of a leaf come from."""
        if not isinstance(node, Leaf):
            return
        for op in walk(Region((), tuple(node.ops))):
            self._leaf.update(dict.fromkeys(op.results, node))
            for region in op.regions:
                self._leaf.update(dict.fromkeys(region.args, node))
            if op.spec is ops.ALLOC:
                self._arrays[op.result] = op
            if op.spec in _REPEATED or self._cheap(op):
                self._repeated[op.result] = op
                depths = (self._depth.get(v, 0) for v in op.operands)
                self._depth[op.result] = 1 + max(depths, default=0)

    def _cheap(self, op: Operation) -> bool:
        """Whether an op is cheaper to do again than its result is to keep."""
        return (
            op.spec in _CHEAP
            and op.operands[0].type in (I64, BOOL)
            and all(v in self.uniform or v in self._repeated for v in op.operands)
            and all(self._depth.get(v, 0) < _DEEPEST for v in op.operands)
        )

    def use(self, node: Node) -> None:
        """Note the values that a node takes from others."""
        match node:
            case Leaf():
                self._use_leaf(node)
            case Exchange(op):
                self._keep(v for v in (*op.operands, *op.results) if v not in self.uniform)
            case Control(op):
                count = 3 if op.spec is ops.FOR else 1 if op.spec is ops.IF else 0
                self._keep(v for v in op.operands[:count] if v not in self.uniform)
            case _:
                pass

    def _use_leaf(self, leaf: Leaf) -> None:
        self._keep(leaf.moved)
        seen: set[Value] = set()
        for op in walk(Region((), tuple(leaf.ops))):
            for value in op.operands:
                if value in seen or value in self.uniform or self._leaf.get(value) is leaf:
                    continue
                seen.add(value)
                if value in self._repeated:
                    self._repeat(self._repeated[value], leaf)
                elif value in self._arrays:
                    self._kept[self._arrays[value]] = None
                elif not isinstance(value.type, ArrayType):
                    leaf.inputs.append(value)
                    self._keep((value,))

    def _repeat(self, op: Operation, leaf: Leaf) -> None:
        """Do an op of another leaf again, after those that it needs."""
        if op in leaf.again:
            return
        for value in op.operands:
            if value in self._repeated and self._leaf.get(value) is not leaf:
                self._repeat(self._repeated[value], leaf)
        leaf.again.append(op)
        self._keep_array(op)

    def _keep_array(self, op: Operation) -> None:
        if op.spec is ops.BASE:
            self._kept[self._arrays[op.operands[0]]] = None

    def _keep(self, values: Iterable[Value]) -> None:
        for value in values:
            if value not in self.context:
                self.context[value] = None
                if value in self._leaf:
                    self._leaf[value].outputs.append(value)

    def kept_arrays(self) -> list[Operation]:
        """The private arrays that live across leaves."""
        return list(self._kept)
