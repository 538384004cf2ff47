"""Subgroups of the logical width, by way of shared memory: right on devices of any width.

Each exchange has a barrier of the workgroup before and after it, and so asks for control
flow that is uniform there. Where the flavour is pinned, the device's subgroups have the logical
width and order of lanes, and exchange values by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from hetir.backends.spirv.flavour import Flavour
from hetir.backends.spirv.memory import Memory
from hetir.backends.spirv.rules import FLOATS
from hetir.ir.core import Kernel, Operation, walk
from hetir.ir.ops import SHUFFLE
from hetir.ir.types import Scalar


def exchanges(kernel: Kernel) -> bool:
    """Whether a legal kernel exchanges values."""
    return any(op.spec is SHUFFLE for op in walk(kernel.body))


class Lanes:
    """Emits the ids of lanes and exchanges between them."""

    def __init__(self, flavour: Flavour, memory: Memory, width: int) -> None:
        self._flavour, self._memory, self._width = flavour, memory, width
        self._code = flavour.code

    @cached_property
    def lane(self) -> int:
        """Linear local id modulo the width."""
        return self._split("OpUMod")

    @cached_property
    def subgroup(self) -> int:
        """Linear local id divided by the width."""
        return self._split("OpUDiv")

    def _split(self, opcode: str) -> int:
        code, item = self._code, self._flavour.linear_item
        return code.first(opcode, code.int(64), item, code.number(64, self._width))

    def shuffle(self, op: Operation, args: Sequence[int]) -> int:
        """Every lane puts its value down and picks another one's up; 0 where there is none."""
        code, flavour = self._code, self._flavour
        wide, flag, kind = code.int(64), code.bool(), op.result.type
        assert isinstance(kind, Scalar)
        value, by, takes = args
        zero = code.number(64, 0)
        mine = code.add("OpSelect", wide, takes, self._wide(kind, value), zero)
        source = self._source(str(op.attrs["mode"]), by)
        first = code.add("OpISub", wide, flavour.linear_item, self.lane)
        item = code.add("OpIAdd", wide, first, source)
        near = code.add("OpULessThan", flag, source, code.number(64, self._width))
        there = code.add("OpULessThan", flag, item, flavour.items)
        exists = code.add("OpLogicalAnd", flag, near, there)
        if flavour.pinned:
            lane = code.add("OpSelect", wide, exists, source, self.lane)
            found = self._exchanged(mine, lane, kind.bits)
        else:
            safe = code.add("OpSelect", wide, exists, item, flavour.linear_item)
            found = self._by_memory(mine, safe)
        return self._narrow(kind, code.add("OpSelect", wide, exists, found, zero))

    def _exchanged(self, mine: int, source: int, bits: int) -> int:
        """By the device's own instruction, of 32 bits where they hold the value."""
        code, word = self._code, self._code.int(32)
        lane = code.add("OpUConvert", word, source)
        scope = code.scope("Subgroup")
        if bits > 32:
            return code.add("OpGroupNonUniformShuffle", code.int(64), scope, mine, lane)
        narrow = code.add("OpUConvert", word, mine)
        found = code.add("OpGroupNonUniformShuffle", word, scope, narrow, lane)
        return code.add("OpUConvert", code.int(64), found)

    def _by_memory(self, mine: int, item: int) -> int:
        """Every work-item's place in shared memory holds its value between two barriers."""
        code, flavour = self._code, self._flavour
        slot = flavour.lane_slot(flavour.linear_item)
        code.put("OpStore", slot.pointer, mine, *slot.access)
        self._memory.barrier()
        place = flavour.lane_slot(item)
        found = code.add("OpLoad", place.kind, place.pointer, *place.access)
        self._memory.barrier()
        return found

    def _source(self, mode: str, by: int) -> int:
        if mode == "index":
            return by
        opcode = {"xor": "OpBitwiseXor", "up": "OpISub", "down": "OpIAdd"}[mode]
        return self._code.add(opcode, self._code.int(64), self.lane, by)

    def _wide(self, kind: Scalar, value: int) -> int:
        """A value's bits as 64."""
        code, wide = self._code, self._code.int(64)
        if kind.kind == "bool":
            return code.add("OpSelect", wide, value, code.number(64, 1), code.number(64, 0))
        if kind.name in FLOATS:
            value = code.add("OpBitcast", code.int(kind.bits), value)
        return value if kind.bits == 64 else code.add("OpUConvert", wide, value)

    def _narrow(self, kind: Scalar, value: int) -> int:
        code = self._code
        if kind.kind == "bool":
            return code.add("OpINotEqual", code.bool(), value, code.number(64, 0))
        if kind.bits != 64:
            value = code.add("OpUConvert", code.int(kind.bits), value)
        if kind.name in FLOATS:
            return code.add("OpBitcast", code.scalar(kind), value)
        return value
