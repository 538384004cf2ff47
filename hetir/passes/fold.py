"""Constant folding: pure ops on constants, by the rules that the evaluator runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hetir.ir import numerics, ops
from hetir.ir.core import Kernel, Operation, Value
from hetir.ir.types import Scalar
from hetir.passes.forward import Forward
from hetir.passes.regions import make_const

# these hand bits on; every other op makes the one canonical NaN
_COPIES = (ops.NEG, ops.ABS, ops.SELECT, ops.BITCAST)


def fold(kernel: Kernel) -> Kernel:
    """The kernel with every pure op on constants replaced by its value."""
    return Fold().kernel(kernel)


class Fold(Forward):
    """The walk of `fold`."""

    def visit(self, op: Operation) -> Sequence[Value] | None:
        """Replace an op on constants."""
        if not op.operands or op.spec.evaluate is None or not op.spec.pure:
            return None
        if op.spec is ops.SELECT and (cond := self.known(op.operands[0])) is not None:
            return (op.operands[1 if cond else 2],)
        lanes: list[Any] = []
        for value in op.operands:
            source = self.defs.get(value)
            if source is None or source.spec is not ops.CONST:
                return None
            assert isinstance(value.type, Scalar)
            lanes.append(numerics.const(source.attrs, value.type.numpy).reshape(1))
        kind = op.result.type
        assert isinstance(kind, Scalar)
        bits = evaluate(op, kind, lanes)
        self.keep(make_const(kind, bits, op.loc))
        return (self.out[-1].result,)


def evaluate(op: Operation, kind: Scalar, lanes: Sequence[Any]) -> int:
    """The bits of a pure op's result on one lane."""
    assert op.spec.evaluate is not None
    result = np.asarray(op.spec.evaluate(op.attrs, kind.numpy, *lanes)).reshape(1)
    if kind.kind == "bool":
        return int(bool(result[0]))
    if kind.kind in ("float", "f8") and op.spec not in _COPIES and np.isnan(result)[0]:
        return numerics.canonical_nan(kind.numpy)
    return int(result.astype(kind.numpy, copy=False).view(f"u{kind.bytes}")[0])
