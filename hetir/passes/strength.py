"""Strength reduction: divisions of indices by powers of two become shifts and masks."""

from __future__ import annotations

from collections.abc import Sequence

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Value
from hetir.ir.types import Scalar
from hetir.passes.forward import Forward

_NOT_NEGATIVE = (
    ops.LOCAL_ID, ops.GROUP_ID, ops.GROUP_SIZE, ops.NUM_GROUPS, ops.GLOBAL_ID, ops.LANE_ID,
    ops.SUBGROUP_ID, ops.SUBGROUP_SIZE, ops.DIM, ops.POPCOUNT, ops.CLZ,
)  # fmt: skip
_DIVISIONS = (ops.DIV, ops.REM, ops.FLOORDIV, ops.MOD)
_KEEP_SIGN = (*_DIVISIONS, ops.MIN, ops.MAX)


def strength(kernel: Kernel) -> Kernel:
    """The kernel with cheaper ops for `//`, `%`, div and rem by constants, where exact.

    Products stay products: the address analysis reads them, and every backend's own
    compiler turns them into shifts or running sums.
    """
    return _Strength().kernel(kernel)


class _Strength(Forward):
    def visit(self, op: Operation) -> Sequence[Value] | None:
        if op.spec not in _DIVISIONS:
            return None
        kind = op.result.type
        if not isinstance(kind, Scalar) or not kind.is_int:
            return None
        a, b = op.operands
        divisor = self.known(b)
        if divisor is None or divisor <= 0:
            return None
        power = int(divisor)
        truncates = op.spec in (ops.DIV, ops.REM)
        if power & (power - 1) or (truncates and kind.signed and not self.not_negative(a)):
            return None
        if op.spec in (ops.DIV, ops.FLOORDIV):
            count = self.const(kind, power.bit_length() - 1, op.loc)
            return (self.emit(ops.SHR, a, count, loc=op.loc),)
        return (self.emit(ops.AND, a, self.const(kind, power - 1, op.loc), loc=op.loc),)

    def not_negative(self, value: Value, depth: int = 4) -> bool:
        """Whether a signed value is surely not below zero."""
        known = self.known(value)
        if known is not None:
            return known >= 0
        op = self.defs.get(value)
        if op is None:
            return False
        if op.spec in _NOT_NEGATIVE:
            return True
        if op.spec is ops.AND:
            return any(self.not_negative(v, depth - 1) for v in op.operands) if depth else False
        sources = op.operands if op.spec in _KEEP_SIGN else ()
        if op.spec is ops.SHR:
            sources = op.operands[:1]
        return bool(sources) and depth > 0 and all(self.not_negative(v, depth - 1) for v in sources)
