"""Small branches without effects become selects."""

from __future__ import annotations

from collections.abc import Sequence

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Value
from hetir.passes.forward import Forward
from hetir.passes.regions import falls

MAX_COST = 6
"""Pure ops that both arms together may hold; constants and ids count nothing."""

_DEAR = (ops.DIV, ops.REM, ops.FLOORDIV, ops.MOD, ops.SQRT)


def if_to_select(kernel: Kernel) -> Kernel:
    """The kernel with cheap ifs computed on both sides and chosen from."""
    return _Select().kernel(kernel)


class _Select(Forward):
    def visit(self, op: Operation) -> Sequence[Value] | None:
        if op.spec is not ops.IF or not op.results or not _cheap(op):
            return None
        ends: list[tuple[Value, ...]] = []
        for arm in op.regions:
            self.splice(arm.body)
            ends.append(self.out.pop().operands)
        cond = op.operands[0]
        results: list[Value] = []
        for one, two in zip(*ends, strict=True):
            same = one is two
            results.append(one if same else self.emit(ops.SELECT, cond, one, two, loc=op.loc))
        return results


def _cheap(op: Operation) -> bool:
    if len(op.results) > MAX_COST or not all(map(falls, op.regions)):
        return False
    cost = 0
    for arm in op.regions:
        for inner in arm.body[:-1]:
            if not inner.spec.pure or inner.spec in _DEAR:
                return False
            cost += bool(inner.operands)
            if cost > MAX_COST:
                return False
    return True
