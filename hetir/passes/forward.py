"""A walk in program order that replaces values as it goes: the frame of local rewrites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hetir.ir import ops
from hetir.ir.build import bits_of, constant
from hetir.ir.core import Kernel, Operation, Region, Value
from hetir.ir.rewrite import Env
from hetir.ir.types import Scalar, Type
from hetir.passes.regions import make_const, simple
from hetir.source import Loc

Ops = list[Operation]


class Forward:
    """Subclasses say in `visit` what becomes of an op whose operands are already replaced.

    `visit` gives None to keep the op, or the values that replace its results; ops that it
    needs go to `out` through `emit`. A kernel in which nothing changed comes back itself.
    """

    def __init__(self) -> None:
        self.env: Env = {}
        self.defs: dict[Value, Operation] = {}
        self.changed = False
        self.out: Ops = []

    def kernel(self, kernel: Kernel) -> Kernel:
        """The rewritten kernel."""
        body = self.region(kernel.body)
        return replace(kernel, body=body) if self.changed else kernel

    def region(self, region: Region) -> Region:
        """The rewritten region."""
        outer, self.out = self.out, []
        self.splice(region.body)
        body, self.out = tuple(self.out), outer
        same = len(body) == len(region.body) and all(map(_same, body, region.body))
        return region if same else Region(region.args, body)

    def splice(self, body: Sequence[Operation]) -> None:
        """Rewrite ops to the end of the current region, up to a terminator."""
        for op in body:
            self.op(op)
            if self.out and self.out[-1].spec.terminator:
                return

    def op(self, op: Operation) -> None:
        """Rewrite one op to the end of the current region."""
        operands = tuple(self.env.get(v, v) for v in op.operands) if self.env else op.operands
        if operands != op.operands:
            op = replace(op, operands=operands)
            self.changed = True
        values = self.visit(op)
        if values is not None:
            self.changed = True
            # fewer values than results: control left, and nothing after the op is reached
            self.env.update(zip(op.results, values, strict=False))
            return
        if op.regions:
            op = self.inside(op)
        self.finish(op)

    def finish(self, op: Operation) -> None:
        """Append an op that `visit` kept, its operands and regions rewritten."""
        self.keep(op)

    def inside(self, op: Operation) -> Operation:
        """The op with its regions rewritten."""
        regions = tuple(map(self.region, op.regions))
        if all(map(_same, regions, op.regions)):
            return op
        return replace(op, regions=regions)

    def keep(self, op: Operation) -> None:
        """Append an op as it is."""
        self.out.append(op)
        for value in op.results:
            self.defs[value] = op

    def visit(self, op: Operation) -> Sequence[Value] | None:
        """See the class."""
        raise AssertionError("a subclass says this")

    # -- what rewrites say

    def emit(
        self, spec: ops.Spec, *operands: Value, loc: Loc | None, to: Type | None = None
    ) -> Value:
        """Append an op of one result (see `regions.simple`)."""
        self.keep(simple(spec, *operands, loc=loc, to=to))
        return self.out[-1].result

    def const(self, kind: Scalar, value: float | bool, loc: Loc | None) -> Value:
        """Append a constant."""
        self.keep(make_const(kind, bits_of(kind, value), loc))
        return self.out[-1].result

    def known(self, value: Value) -> float | int | bool | None:
        """The number that a value is, where it is a constant."""
        op = self.defs.get(value)
        return constant(op) if op is not None else None

    def made_by(self, value: Value, spec: ops.Spec) -> Operation | None:
        """The op that defines the value, where it is of this row."""
        op = self.defs.get(value)
        return op if op is not None and op.spec is spec else None


def _same(one: object, two: object) -> bool:
    return one is two
