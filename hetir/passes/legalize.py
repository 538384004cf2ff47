"""Legalisation: what a target's rules do not cover becomes other hetIR ops, or is refused."""

from __future__ import annotations

from dataclasses import replace

from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Operation, Region, Value
from hetir.passes.dce import dce
from hetir.passes.expansions import EXPANSIONS, Writer
from hetir.target import ORDERS_APART, Target, key_of

__all__ = ["EXPANSIONS", "legal_ops", "legalize"]


def legalize(kernel: Kernel, target: Target) -> Kernel:
    """Rewrite an expanded kernel until `target` covers every op.

    Raises UnsupportedError with the target's own sentence for what it cannot do.
    """
    native = kernel.options.math == "native"
    legalizer = _Legalizer(target, kernel.options.width, native=native)
    legal = replace(kernel, body=legalizer.region(kernel.body))
    return dce(legal) if native else legal


def legal_ops(op: Operation, target: Target) -> tuple[tuple[Operation, ...], Value]:
    """One pure op as legal ops, and the value that its result became."""
    legalizer, body = _Legalizer(target, 1), list[Operation]()
    legalizer.visit(op, body)
    return tuple(body), legalizer.env.get(op.result, op.result)


class _Legalizer:
    def __init__(self, target: Target, width: int, *, native: bool = False) -> None:
        self.target = target
        self.width = width
        self.native = native
        self.env: dict[Value, Value] = {}

    def region(self, region: Region) -> Region:
        """A region with every op legal."""
        body: list[Operation] = []
        for op in region.body:
            self.visit(op, body)
        return Region(region.args, tuple(body))

    def visit(self, op: Operation, body: list[Operation]) -> None:
        """Append what an op becomes; an expansion's ops are legalised in turn."""
        operands = tuple(self.env.get(v, v) for v in op.operands)
        if operands != op.operands:
            op = replace(op, operands=operands)
        if op.spec is ops.NATIVE and not self.native:
            self.env[op.result] = op.operands[-1]
            return
        if self.target.covers(op):
            if op.spec is ops.NATIVE:
                # nothing else needs the reproducible value, which then is dead
                op = replace(op, operands=op.operands[:-1])
            if op.regions:
                op = replace(op, regions=tuple(map(self.region, op.regions)))
            body.append(op)
            return
        expand = EXPANSIONS.get(key_of(op))
        if expand is None or key_of(op) in self.target.unsupported:
            raise self.target.refuse(op)
        writer = Writer(Builder(op.loc), self.width, ORDERS_APART in self.target.features)
        result = expand(writer, op)
        for inner in writer.builder.body:
            self.visit(inner, body)
        self.env[op.result] = self.env.get(result, result)
