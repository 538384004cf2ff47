"""Unrolling: short counted loops with constant bounds become straight code."""

from __future__ import annotations

from collections.abc import Sequence

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value, walk
from hetir.ir.ops import Effect
from hetir.ir.rewrite import clone
from hetir.ir.types import I64
from hetir.passes.forward import Forward
from hetir.passes.regions import count, exits_of

MAX_TRIPS = 16
MAX_OPS = 128
"""The most ops that one loop may become."""


def unroll(kernel: Kernel) -> Kernel:
    """The kernel with short loops unrolled, innermost first.

    A loop stays when it holds a `break` or `continue`, an alloc, or an op that waits for
    other work-items (only those of one trip are unrolled then), or would grow too large.
    """
    return _Unroll().kernel(kernel)


class _Unroll(Forward):
    def visit(self, op: Operation) -> Sequence[Value] | None:
        if op.spec is not ops.FOR:
            return None
        start, stop, step = (self.known(v) for v in op.operands[:3])
        if start is None or stop is None or not step:
            return None
        indices = range(int(start), int(stop), int(step))
        (body,) = op.regions
        if len(indices) > MAX_TRIPS or not _fits(body, len(indices)):
            return None
        carried = op.operands[3:]
        for index in indices:
            carried = self.iteration(body, index, carried, op)
        return carried

    def iteration(
        self, body: Region, index: int, carried: Sequence[Value], op: Operation
    ) -> Sequence[Value]:
        env = dict(zip(body.args, (self.const(I64, index, op.loc), *carried), strict=True))
        copy = clone(Region((), body.body), env)
        self.splice(copy.body)
        return self.out.pop().operands


def _fits(body: Region, trips: int) -> bool:
    if body.terminator.spec is not ops.YIELD or any(
        e is not body.terminator for e in exits_of(body)
    ):
        return False
    if trips > 1 and trips * count(body) > MAX_OPS:
        return False
    return trips <= 1 or not any(
        Effect.SYNC in o.spec.effect or o.spec is ops.ALLOC for o in walk(body)
    )
