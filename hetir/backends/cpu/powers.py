"""`exp` and its like: scaling by a power of two.

The library scales by two factors, made of integers, which is as exact as AVX-512's `vscalefps`
where y is near 1 and k is no larger than floats' exponents.
"""

from __future__ import annotations

from math import frexp

from hetir.backends.cpu.functions import Function, Shortcut
from hetir.ir import ops
from hetir.ir.build import constant
from hetir.ir.core import Operation, Value
from hetir.ir.types import F32

_EXACT_BITS = 16  # of a factor whose products with k, of 8 bits, are exact


class Power(Function):
    """A function that ends with two multiplications by powers of two."""

    def ending(self, op: Operation) -> dict[Operation, Shortcut]:
        """The shortcuts of a known function whose result this op makes."""
        inner = self._unscaled(op)
        y = inner and self._unscaled(self.definitions[inner])
        moved = y and self._moved(op)
        argument = moved and self._argument(moved)
        if not (y and moved and argument and self.is_known(op.result, argument)):
            return {}
        (k,) = (o.result for o in self.ops if o.spec is ops.SUB and o.operands[0] is moved)
        return {op: Shortcut("scale", (y, k)), **self._fused(k)}

    def _fused(self, k: Value) -> dict[Operation, Shortcut]:
        """Differences with a product of k that is exact."""
        found: dict[Operation, Shortcut] = {}
        for op in self.ops:
            product = self.made(op.operands[1], ops.MUL) if op.spec is ops.SUB else None
            if product is not None and k in product.operands:
                (factor,) = (v for v in product.operands if v is not k)
                if self._is_short(factor):
                    found[op] = Shortcut("fuse", (k, factor, op.operands[0]))
        return found

    def _is_short(self, value: Value) -> bool:
        made = self.made(value, ops.CONST)
        number = made and constant(made)
        if not isinstance(number, float):
            return False
        return (frexp(number)[0] * 2**_EXACT_BITS).is_integer()

    def _unscaled(self, op: Operation) -> Value | None:
        """y of a product of y with a float made of an integer."""
        if op.spec is not ops.MUL:
            return None
        rest = [v for v in op.operands if not self._of_bits(v)]
        return rest[0] if len(rest) == 1 and rest[0] in self.definitions else None

    def _of_bits(self, value: Value) -> bool:
        made = self.made(value, ops.BITCAST)
        return made is not None and self.made(made.operands[0], ops.SHL) is not None

    def _moved(self, op: Operation) -> Value | None:
        """The sum in whose low bits the exponent stands."""
        (power,) = (v for v in op.operands if self._of_bits(v))
        value = self.definitions[power].operands[0]
        while value.type != F32:
            made = self.definitions.get(value)
            rest = self.variable(made) if made is not None and made.spec in _BITS else []
            if not rest:
                return None
            value = rest[0]
        return value

    def _argument(self, moved: Value) -> Value | None:
        """What is clipped from both sides, perhaps multiplied by a constant, and moved."""
        value = moved
        for spec in (ops.ADD, ops.MUL, ops.SELECT, ops.SELECT):
            made = self.made(value, spec)
            if made is None:
                if spec is ops.MUL:
                    continue
                return None
            rest = [v for v in self.variable(made) if v.type == F32]
            if len(rest) != 1:
                return None
            value = rest[0]
        return value


_BITS = (ops.ADD, ops.SUB, ops.SHL, ops.SHR, ops.BITCAST)
