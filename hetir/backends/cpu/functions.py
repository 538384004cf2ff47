"""Elementary functions of the library, recognised in a kernel by all that they are made of.

AVX-512 has instructions that compute parts of them with the same bits. The parts do not show it: it
rests on what their arguments can be. So a function is recognised whole, by a digest of its ops
between argument and result, and only those are for which all arguments were tried
(`tests/unit/test_cpu_functions.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from hetir.ir import ops
from hetir.ir.core import Operation, Value

KNOWN: Mapping[str, str] = {
    "c3442ba29ead2bfa": "exp",
    "6fc6351dc2449799": "exp2",
    "8143f6eb8b1ee64c": "exp10",
    "da9a11b1a75a9f12": "log",
    "d529223d03cbe969": "log2",
    "6812d8073243f2cf": "log10",
}
"""The functions, each by the start of its digest."""

_ARGUMENT = b"x"
_MOST_OPS = 128
_SPECS = (
    *(ops.CONST, ops.ADD, ops.SUB, ops.MUL, ops.SHL, ops.SHR, ops.BITCAST, ops.CAST),
    *(ops.SELECT, ops.LT, ops.GT, ops.EQ),
)


@dataclass(frozen=True, slots=True)
class Shortcut:
    """What an op computes in another way: a word of `shortcuts.EMIT`, and of what."""

    kind: str
    operands: tuple[Value, ...]


class Function:
    """One function, looked at from its result."""

    def __init__(self, definitions: Mapping[Value, Operation]) -> None:
        self.definitions = definitions
        self.ops: list[Operation] = []
        self._digests: dict[Value, bytes] = {}

    def is_known(self, result: Value, argument: Value) -> bool:
        """Whether the result is one of the functions of the argument; `ops` has its ops then."""
        self._digests[argument] = _ARGUMENT
        return self._digest(result).hex()[:16] in KNOWN

    def made(self, value: Value, spec: ops.Spec) -> Operation | None:
        """The op that results in a value, where it is of a kind."""
        op = self.definitions.get(value)
        return op if op is not None and op.spec is spec and value in op.results else None

    def variable(self, op: Operation) -> list[Value]:
        """The operands that are no constants."""
        return [v for v in op.operands if self.made(v, ops.CONST) is None]

    def _digest(self, value: Value) -> bytes:
        """Of the ops that a value is made of, down to the argument."""
        known = self._digests.get(value)
        if known is not None:
            return known
        op = self.definitions.get(value)
        if op is None or op.spec not in _SPECS or len(self.ops) >= _MOST_OPS:
            return b""
        self.ops.append(op)
        parts = [self._digest(v) for v in op.operands]
        if op.spec.commutative:
            parts.sort()
        shown = f"{op.name} {sorted((k, str(v)) for k, v in op.attrs.items())}".encode()
        made = hashlib.sha256(b"\0".join((shown, *parts))).digest()
        self._digests[value] = made
        return made
