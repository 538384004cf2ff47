"""Which values, and which control flow, are the same for a whole workgroup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value
from hetir.ir.types import ArrayType
from hetir.passes.regions import LOOPS, exits_of, falls

SCOPES = ("subgroup", "row", "column", "workgroup", "device")

_AXIS = {"row": 0, "column": 1}  # along which work-items of such a scope lie

# results that all lanes of a subgroup share, though subgroups differ
_SUBGROUP = frozenset({ops.SUBGROUP_ID, ops.BALLOT, ops.VOTE, ops.SUBGROUP_REDUCE})


@dataclass(frozen=True, slots=True)
class Uniformity:
    """The answer for one kernel and one scope.

    A value is uniform when all work-items of the scope that compute it in one execution get
    the same bits. An op's control flow is divergent when some work-items of the scope may
    reach it in an execution in which others do not.
    """

    values: Mapping[Value, Operation]
    flow: Mapping[Operation, Operation]

    def varying(self, value: Value) -> bool:
        """Whether the value may differ between work-items."""
        return value in self.values

    def divergent(self, op: Operation) -> bool:
        """Whether control flow around the op may diverge."""
        return op in self.flow

    def origin(self, value: Value) -> Operation | None:
        """The op that made the value varying: an id, a memory access, a divergent branch."""
        return self.values.get(value)

    def reason(self, op: Operation) -> Operation | None:
        """The `if` or loop whose condition or bounds split the work-items around the op."""
        return self.flow.get(op)


def uniformity(kernel: Kernel, *, scope: str = "workgroup", lockstep: bool = False) -> Uniformity:
    """Find what is uniform over `scope` in a kernel without calls.

    A `row` is the work-items of a workgroup that agree in y and z, a `column` those in x and z.
    A loop that work-items leave in unlike iterations carries varying values; with `lockstep`,
    for targets that run all work-items of the scope together, values of one iteration that
    are computed alike stay uniform inside it.
    """
    analysis = _Analysis(scope, lockstep)
    while True:
        before = len(analysis.values)
        analysis.flow.clear()
        analysis.region(kernel.body, None)
        if len(analysis.values) == before:
            return Uniformity(analysis.values, analysis.flow)


Exits = dict[ops.Spec, Operation | None]
"""The exits out of a region, each with the op that made it divergent or None."""


class _Analysis:
    """One walk in program order; values only ever turn varying, so repeating it ends."""

    def __init__(self, scope: str, lockstep: bool) -> None:
        if scope not in SCOPES:
            raise ValueError(f"`{scope}` is not one of {', '.join(SCOPES)}")
        self.scope = scope
        self.lockstep = lockstep
        self.values: dict[Value, Operation] = {}
        self.flow: dict[Operation, Operation] = {}
        self.around: Operation | None = None  # what splits the flow outside the current loop

    def mark(self, values: Iterable[Value], why: Operation | None) -> None:
        if why is not None:
            for value in values:
                self.values.setdefault(value, why)

    def first(self, values: Iterable[Value]) -> Operation | None:
        """Why the first varying one of some values varies."""
        return next((self.values[v] for v in values if v in self.values), None)

    def region(self, region: Region, split: Operation | None) -> Exits:
        """`split` is what divided the work-items since the loop (or kernel) was entered."""
        exits: Exits = {}
        for op in region.body:
            if (why := self.around or split) is not None:
                self.flow[op] = why
            if op.spec is ops.IF:
                left = self.branch(op, split)
            elif op.spec in LOOPS:
                left = self.loop(op, split)
            elif op.spec.terminator:
                left: Exits = {} if op.spec is ops.YIELD else {op.spec: split}
            else:
                left = {}
                self.plain(op)
            for spec, why in left.items():
                exits[spec] = exits.get(spec) or why
                split = split or why
        return exits

    def plain(self, op: Operation) -> None:
        if op.spec is ops.SAFE_POINT:
            for operand, result in zip(op.operands, op.results, strict=True):
                self.mark((result,), self.values.get(operand))
        elif self.never(op):
            return
        elif self.always(op):
            self.mark(op.results, op)
        else:
            self.mark(op.results, self.first(op.operands))

    def never(self, op: Operation) -> bool:
        if self.scope == "subgroup" and op.spec in _SUBGROUP:
            return True
        if self.scope == "device" and op.spec is ops.GROUP_ID:
            return False
        if self.scope in _AXIS and op.spec in (ops.LOCAL_ID, ops.GLOBAL_ID):
            return op.attrs["axis"] != _AXIS[self.scope]
        if op.spec is ops.ALLOC:
            kind = op.attrs["type"]
            assert isinstance(kind, ArrayType)
            return kind.space == "shared" and self.scope != "device"
        return op.spec.varying == "never"

    def always(self, op: Operation) -> bool:
        return op.spec.varying == "always" or op.spec in (ops.GROUP_ID, ops.CALL)

    def branch(self, op: Operation, split: Operation | None) -> Exits:
        cond = self.values.get(op.operands[0])
        inner = split or (op if cond else None)
        exits: Exits = {}
        for arm in op.regions:
            for spec, why in self.region(arm, inner).items():
                exits[spec] = exits.get(spec) or why
        arms = [r.terminator.operands for r in op.regions if falls(r)]
        for result, *choices in zip(op.results, *arms, strict=True):
            differs = cond is not None and len(set(choices)) > 1
            self.mark((result,), op if differs else self.first(choices))
        return exits

    def loop(self, op: Operation, split: Operation | None) -> Exits:
        """Inside, `split` starts anew: work-items that never entered do not matter there."""
        (body,) = op.regions
        counted = op.spec is ops.FOR
        bounds = op if counted and self.first(op.operands[:3]) else None
        outside, self.around = self.around, self.around or split
        exits = self.region(body, bounds)
        uneven = bounds or exits.get(ops.BREAK) or exits.get(ops.RETURN)
        if uneven and not bounds:
            exits = self.region(body, uneven)
        self.around = outside
        self.carried(op, exits, uneven)
        if ops.RETURN not in exits:
            return {}
        return {ops.RETURN: split or exits[ops.RETURN] or uneven}

    def carried(self, op: Operation, exits: Exits, uneven: Operation | None) -> None:
        (body,) = op.regions
        ends = list(exits_of(body))
        counted = op.spec is ops.FOR
        initial = op.operands[3:] if counted else op.operands
        args = body.args[1:] if counted else body.args
        nexts = [e.operands for e in ends if e.spec is not ops.BREAK]
        skipped = exits.get(ops.CONTINUE)
        lost = None if self.lockstep else uneven
        if counted:
            self.mark(body.args[:1], lost or self.first((op.operands[0], op.operands[2])))
        for arg, start, *following in zip(args, initial, *nexts, strict=True):
            differs = skipped if len(set(following)) > 1 else None
            self.mark((arg,), lost or differs or self.first((start, *following)))
        leaving = [e.operands for e in ends if e.spec is ops.BREAK]
        sources = zip(args, *leaving, strict=True) if counted else zip(*leaving, strict=True)
        for result, choices in zip(op.results, sources, strict=False):
            self.mark((result,), uneven or self.first(choices))
