"""`exp` and its like on AVX-512, whose `vscalefps` rounds y * 2**k once.

The library scales by two factors, made of integers, which is as exact where y is near 1 and k is
no larger than floats' exponents. Neither can be seen from the multiplications. So a function is
recognised whole, by a digest of its ops between argument and result, and only those are for which
all arguments were tried (`tests/unit/test_cpu_powers.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import frexp

from hetir.backends.llvm.code import Code
from hetir.backends.llvm.registers import by_register
from hetir.ir import ops
from hetir.ir.build import constant
from hetir.ir.core import Operation, Region, Value, walk
from hetir.ir.types import F32

Definitions = Mapping[Value, Operation]

KNOWN: Mapping[str, str] = {
    "c3442ba29ead2bfa": "exp",
    "6fc6351dc2449799": "exp2",
    "8143f6eb8b1ee64c": "exp10",
}
"""The functions, each by the start of its digest."""

_ARGUMENT = b"x"
_MOST_OPS = 128
_EXACT_BITS = 16  # of a factor whose products with k, of 8 bits, are exact
_PURE = (ops.ADD, ops.SUB, ops.MUL, ops.SHL, ops.SHR, ops.BITCAST, ops.SELECT, ops.LT, ops.GT)


@dataclass(frozen=True, slots=True)
class Shortcut:
    """What an op computes in another way: `scale` y * 2**k, `fuse` c - k * b rounded once."""

    kind: str
    operands: tuple[Value, ...]


def shortcuts(body: Region, definitions: Definitions) -> dict[Operation, Shortcut]:
    """The ops of a kernel that have a shortcut with the same bits."""
    found: dict[Operation, Shortcut] = {}
    for op in walk(body):
        if op.spec is ops.MUL and op.result.type == F32:
            found.update(_Function(definitions).ending(op))
    return found


def scaled(code: Code, y: str, k: str) -> str:
    """y * 2**k of f32 vectors, for a k that is integral or NaN."""
    return by_register(code, ("float", 32), "mask.scalef.ps", (y, k, y), "i16 -1, i32 4")


def fused(code: Code, k: str, b: str, c: str) -> str:
    """c - k * b of f32 vectors, rounded once."""
    kind = code.of("float")
    negated = code.add(f"fneg {kind} {k}")
    return code.intrinsic("fma", kind, (kind, negated), (kind, b), (kind, c))


class _Function:
    """One function of an argument, looked at from its result."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._digests: dict[Value, bytes] = {}
        self._ops: list[Operation] = []

    def ending(self, op: Operation) -> dict[Operation, Shortcut]:
        """The shortcuts of a known function whose result this op makes."""
        inner = self._unscaled(op)
        y = inner and self._unscaled(self._definitions[inner])
        moved = y and self._moved(op)
        argument = moved and self._argument(moved)
        if not (y and moved and argument):
            return {}
        self._digests[argument] = _ARGUMENT
        if self._digest(op.result).hex()[:16] not in KNOWN:
            return {}
        (k,) = (o.result for o in self._ops if o.spec is ops.SUB and o.operands[0] is moved)
        return {op: Shortcut("scale", (y, k)), **self._fused(k)}

    def _fused(self, k: Value) -> dict[Operation, Shortcut]:
        """Differences with a product of k that is exact."""
        found: dict[Operation, Shortcut] = {}
        for op in self._ops:
            product = self._made(op.operands[1], ops.MUL) if op.spec is ops.SUB else None
            if product is not None and k in product.operands:
                (factor,) = (v for v in product.operands if v is not k)
                if self._is_short(factor):
                    found[op] = Shortcut("fuse", (k, factor, op.operands[0]))
        return found

    def _is_short(self, value: Value) -> bool:
        made = self._definitions.get(value)
        number = made and constant(made)
        if not isinstance(number, float):
            return False
        return (frexp(number)[0] * 2**_EXACT_BITS).is_integer()

    def _unscaled(self, op: Operation | None) -> Value | None:
        """y of a product of y with a float made of an integer."""
        if op is None or op.spec is not ops.MUL:
            return None
        rest = [v for v in op.operands if not self._of_bits(v)]
        return rest[0] if len(rest) == 1 and rest[0] in self._definitions else None

    def _of_bits(self, value: Value) -> bool:
        made = self._made(value, ops.BITCAST)
        return made is not None and self._made(made.operands[0], ops.SHL) is not None

    def _moved(self, op: Operation) -> Value | None:
        """The sum in whose low bits the exponent stands."""
        (power,) = (v for v in op.operands if self._of_bits(v))
        value: Value | None = self._definitions[power].operands[0]
        while value is not None and value.type != F32:
            made = self._definitions.get(value)
            if made is None or made.spec not in _PURE:
                return None
            rest = [v for v in made.operands if self._made(v, ops.CONST) is None]
            value = rest[0] if rest else None
        return value

    def _argument(self, moved: Value) -> Value | None:
        """What is clipped from both sides, perhaps multiplied by a constant, and moved."""
        value = moved
        for spec in (ops.ADD, ops.MUL, ops.SELECT, ops.SELECT):
            made = self._made(value, spec)
            if made is None:
                if spec is ops.MUL:
                    continue
                return None
            rest = [v for v in made.operands[-2:] if self._made(v, ops.CONST) is None]
            if len(rest) != 1:
                return None
            value = rest[0]
        return value

    def _digest(self, value: Value) -> bytes:
        """Of the ops that a value is made of, down to the argument."""
        known = self._digests.get(value)
        if known is not None:
            return known
        op = self._definitions.get(value)
        if op is None or op.spec not in (*_PURE, ops.CONST) or len(self._ops) >= _MOST_OPS:
            return b""
        self._ops.append(op)
        parts = [self._digest(v) for v in op.operands]
        if op.spec.commutative:
            parts.sort()
        shown = f"{op.name} {sorted((k, str(v)) for k, v in op.attrs.items())}".encode()
        made = hashlib.sha256(b"\0".join((shown, *parts))).digest()
        self._digests[value] = made
        return made

    def _made(self, value: Value, spec: ops.Spec) -> Operation | None:
        """The op that results in a value, where it is of a kind."""
        op = self._definitions.get(value)
        return op if op is not None and op.spec is spec and value in op.results else None
