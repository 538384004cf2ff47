"""Lines of `print` and failed checks: records in the launch's buffer.

The buffer: u64 capacity, u64 used (may grow past the capacity), then the records. Only the
low word of `used` is counted with, so that no device needs atomics of 64 bits; it stops
before it would wrap.
"""

from __future__ import annotations

from collections.abc import Sequence

from hetir.backends.spirv.flavour import Flavour
from hetir.backends.spirv.rules import FLOATS
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation
from hetir.ir.types import I64, U32, U64, Scalar
from hetir.passes.sites import reporting, shown

_CAPACITY, _USED, _FIRST = 0, 8, 16
_HEADER_BYTES = 24
_FULL = 1 << 31


class Records:
    """Emits records."""

    def __init__(self, flavour: Flavour, kernel: Kernel) -> None:
        self._flavour, self._code = flavour, flavour.code
        self._sites = {op: index for index, op in enumerate(reporting(kernel))}

    def emit(self, op: Operation, args: Sequence[int]) -> None:
        """Write a record where there is a buffer; an `assert` only when it fails."""
        code, flag = self._code, self._code.bool()
        address = self._flavour.address(self._flavour.records)
        wanted = code.add("OpINotEqual", flag, address, code.number(64, 0))
        if op.spec is ops.ASSERT:
            failed = code.add("OpLogicalNot", flag, args[0])
            wanted = code.add("OpLogicalAnd", flag, wanted, failed)
        with code.when(wanted):
            self._reserve(op, args)

    def _reserve(self, op: Operation, args: Sequence[int]) -> None:
        code, flag = self._code, self._code.bool()
        size = _HEADER_BYTES + 8 * len(shown(op))
        count = self._at(code.number(64, _USED), U32)
        relaxed = code.scope("Device"), code.semantics("Relaxed")
        before = code.add("OpAtomicLoad", code.int(32), count, *relaxed)
        with code.when(code.add("OpULessThan", flag, before, code.number(32, _FULL))):
            bytes_ = code.number(32, size)
            used = code.add("OpAtomicIAdd", code.int(32), count, *relaxed, bytes_)
            start = code.add("OpUConvert", code.int(64), used)
            capacity = self._load(_CAPACITY)
            end = code.add("OpIAdd", code.int(64), start, code.number(64, size))
            with code.when(code.add("OpULessThanEqual", flag, end, capacity)):
                self._write(op, args, size, start)

    def _write(self, op: Operation, args: Sequence[int], size: int, start: int) -> None:
        code = self._code
        values = shown(op)
        head = code.number(64, self._sites[op] << 32 | size)
        words = [head, self._flavour.linear_group, self._flavour.linear_item]
        names = args[len(args) - len(values) :]
        words += (self._word(v.type, name) for v, name in zip(values, names, strict=True))
        for index, word in enumerate(words):
            place = code.number(64, _FIRST + 8 * index)
            offset = code.add("OpIAdd", code.int(64), start, place)
            target = self._flavour.place("global", self._flavour.records, offset, U64)
            code.put("OpStore", target.pointer, word, *target.access)

    def _at(self, offset: int, kind: Scalar) -> int:
        return self._flavour.place("global", self._flavour.records, offset, kind).pointer

    def _load(self, offset: int) -> int:
        place = self._flavour.place(
            "global", self._flavour.records, self._code.number(64, offset), I64
        )
        return self._code.add("OpLoad", place.kind, place.pointer, *place.access)

    def _word(self, kind: object, value: int) -> int:
        """The bits of an operand, widened with zeros."""
        code = self._code
        assert isinstance(kind, Scalar)
        if kind.kind == "bool":
            return code.add("OpSelect", code.int(64), value, code.number(64, 1), code.number(64, 0))
        if kind.name in FLOATS:
            value = code.add("OpBitcast", code.int(kind.bits), value)
        return value if kind.bits == 64 else code.add("OpUConvert", code.int(64), value)
