"""Loops around subgroup operations whose turns are known: straight code, for emulated subgroups.

    offset = 16
    while offset > 0:
        v += hl.shuffle_down(v, offset)
        offset //= 2

Where a subgroup is emulated, every turn of such a loop would end and begin the code of all its
work-items, and bring their values through memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value, walk
from hetir.ir.rewrite import clone
from hetir.passes.fold import Fold
from hetir.passes.regions import count, exits, returns

MAX_TURNS = 16
MAX_OPS = 256
"""The most ops that one loop may become."""

_EXCHANGES = (ops.SHUFFLE, ops.BALLOT, ops.VOTE, ops.SUBGROUP_REDUCE, ops.SUBGROUP_SCAN)
_ONCE = (ops.BARRIER, ops.ALLOC, ops.PRINT, ops.ASSERT, ops.OUT_OF_BOUNDS, ops.SAFE_POINT)


def unroll_exchanges(kernel: Kernel) -> Kernel:
    """The kernel with loops around subgroup operations unrolled, where constants lead them."""
    return _Unroll().kernel(kernel)


class _Unroll(Fold):
    def visit(self, op: Operation) -> Sequence[Value] | None:
        if op.spec not in (ops.LOOP, ops.FOR):
            return super().visit(op)
        specs = {inner.spec for inner in walk(op.regions[0])}
        if specs.isdisjoint(_EXCHANGES) or not specs.isdisjoint(_ONCE) or returns(op):
            return None
        before = len(self.out)
        found = self._counted(op) if op.spec is ops.FOR else self._turns(op, op.operands)
        if found is None:
            del self.out[before:]
        return found

    def _counted(self, op: Operation) -> Sequence[Value] | None:
        """A `for`, if its bounds are known."""
        start, stop, step = (self.known(v) for v in op.operands[:3])
        if start is None or stop is None or not step:
            return None
        indices = range(int(start), int(stop), int(step))
        (body,), carried = op.regions, op.operands[3:]
        if len(indices) > MAX_TURNS or len(indices) * count(body) > MAX_OPS:
            return None
        index = body.args[0]
        for number in indices:
            here = self.const(index.type, number, op.loc)  # pyright: ignore[reportArgumentType]
            end = self._turn(body, (here, *carried))
            if end is None:
                return None
            carried = end[1]
            if end[0] is ops.BREAK:
                break
        return carried

    def _turns(self, op: Operation, carried: Sequence[Value]) -> Sequence[Value] | None:
        """A `loop`, if it is known when it ends."""
        (body,) = op.regions
        for _ in range(min(MAX_TURNS, MAX_OPS // count(body)) + 1):
            end = self._turn(body, carried)
            if end is None or end[0] is ops.BREAK:
                return end and end[1]
            carried = end[1]
        return None

    def _turn(self, body: Region, values: Sequence[Value]) -> tuple[ops.Spec, list[Value]] | None:
        """Emit a turn; gives its terminator, and what that carries, if it is known."""
        copy = clone(Region((), body.body), dict(zip(body.args, values, strict=True)))
        return self._straight(copy.body)

    def _straight(self, body: Sequence[Operation]) -> tuple[ops.Spec, list[Value]] | None:
        """Emit a region's ops, of `if`s that jump the side that is known to be taken."""
        *before, end = body
        for op in before:
            if not exits(op):
                self.op(op)
                continue
            taken = self.known(self.env.get(op.operands[0], op.operands[0]))
            arm = None if taken is None else self._straight(op.regions[0 if taken else 1].body)
            if arm is None or arm[0] is not ops.YIELD:
                return arm
            self.env.update(zip(op.results, arm[1], strict=True))
        return end.spec, [self.env.get(v, v) for v in end.operands]
