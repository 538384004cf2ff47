"""`log` and its like: exponent and significand of the argument, and what the special ones give.

AVX-512 has an instruction for each; the library takes floats' bits apart, which for arguments that
are not above 0 or not finite gives something else. What the function gives for those is the last to
be decided, so that nobody sees it where nobody else reads what comes before.
"""

from __future__ import annotations

from collections.abc import Mapping

from hetir.backends.cpu.functions import Function, Shortcut
from hetir.ir import ops
from hetir.ir.core import Operation, Value
from hetir.ir.types import F32, I32


class Logarithm(Function):
    """A function that ends with selects of what special arguments give."""

    def ending(
        self, op: Operation, users: Mapping[Value, set[Operation]]
    ) -> dict[Operation, Shortcut]:
        """The shortcuts of a known function whose result this op makes.

        `users` are the ops that read each value of the kernel.
        """
        argument = op.operands[2]
        finite = self.made(op.operands[0], ops.LT)
        if finite is None or finite.operands[0] is not argument:
            return {}
        y: Value = op.operands[1]
        for _ in range(2):
            made = self.made(y, ops.SELECT)
            if made is None:
                return {}
            y = made.operands[2]
        if not self.is_known(op.result, argument):
            return {}
        found = {op: Shortcut("special", (y, argument))}
        inside = [o for o in self.ops if o is not op and o.spec is not ops.CONST]
        if all(users[o.result] <= set(self.ops) for o in inside if o.result.type == F32):
            for part in inside:
                kind = _PARTS.get(part.spec) if part.result.type == F32 else None
                if kind and part.operands[0].type == I32:
                    found[part] = Shortcut(kind, (argument,))
        return found


_PARTS = {ops.BITCAST: "significand", ops.CAST: "exponent"}
