"""One kernel as a SPIR-V module: from legal hetIR, in either flavour."""

from __future__ import annotations

from hetir.artifact import Layout
from hetir.backends.spirv.flavour import Flavour
from hetir.backends.spirv.lanes import Lanes
from hetir.backends.spirv.memory import Memory, in_parts_of_words
from hetir.backends.spirv.records import Records
from hetir.backends.spirv.rules import Rule
from hetir.backends.spirv.structure import Structured
from hetir.ir.core import Kernel, Operation, walk
from hetir.ir.types import ArrayType, RefType, Scalar, Type
from hetir.target import Target, key_of


def entry_of(kernel: Kernel) -> str:
    """The name of the entry point: no kernel's name can hide a function of the device's."""
    shown = "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in kernel.name)
    return f"hetir_kernel_{shown.replace('_5f_', '_')}"


class Emitter(Structured):
    """Emits a kernel that `legalize` has made legal."""

    def __init__(self, kernel: Kernel, target: Target, flavour: Flavour, layout: Layout) -> None:
        super().__init__(flavour.code)
        self.kernel, self.target, self.flavour, self.layout = kernel, target, flavour, layout
        self.memory = Memory(flavour, kernel)
        self.records = Records(flavour, kernel)
        self.lanes = Lanes(flavour, self.memory, kernel.options.width)
        self._words = in_parts_of_words(kernel)
        self._places = {param.value: index for index, param in enumerate(kernel.params)}

    def module(self) -> bytes:
        """The whole module."""
        for param, slot in zip(self.kernel.params, self.layout.slots, strict=True):
            kind = param.value.type
            if isinstance(kind, Scalar):
                self.ids[param.value] = self.flavour.argument(slot.offset, kind)
        self.code.alive, self.code.block = True, self.flavour.first_block
        self.region(self.kernel.body.body)
        return self.flavour.finish(entry_of(self.kernel))

    def type_of(self, kind: Type) -> int:
        """References to global memory are the flavour's."""
        return self.flavour.reference if isinstance(kind, RefType) else self.code.of(kind)

    def enter(self, loop: Operation) -> None:
        """A loop over floats says that their order is what it is."""
        (body,) = loop.regions
        if any(op.name in _ROUNDING and _is_float(op) for op in walk(body)):
            self.flavour.keep_order()

    def emit(self, op: Operation) -> None:
        """Emit an op without regions that is no terminator."""
        args = [self.ids[v] for v in op.operands if not isinstance(v.type, ArrayType)]
        found = self._result(op, args) if op.results else self._effect(op, args)
        if found is not None:
            self.ids[op.result] = found

    def _effect(self, op: Operation, args: list[int]) -> None:
        match op.name:
            case "store":
                self.memory.store(op, args)
            case "atomic.store":
                self.memory.atomic(op, args)
            case "fence":
                self.memory.fence(op)
            case "barrier":
                self.memory.barrier()
            case _:
                self.records.emit(op, args)

    def _result(self, op: Operation, args: list[int]) -> int | None:
        match op.name:
            case "load":
                return self.memory.load(op, args)
            case "atomic.load" | "atomic.rmw" | "atomic.cas":
                return self.memory.atomic(op, args)
            case "shuffle":
                return self.lanes.shuffle(op, args)
            case "alloc" | "base" | "dim" | "stride":
                return self._array(op)
            case "select" if isinstance(op.result.type, RefType):
                return self.code.add("OpSelect", self.flavour.reference, *args)
            case _ if op.name in _IDS:
                return self._id(op)
            case _:
                rule: Rule = self.target.rules[key_of(op)]  # pyright: ignore[reportAssignmentType]
                return rule(self.code, op, args)

    def _array(self, op: Operation) -> int:
        """A new array, the start of one, or what the block says of a parameter."""
        if op.name == "alloc":
            kind = op.attrs["type"]
            assert isinstance(kind, ArrayType)
            return self.flavour.array(kind, words=op.result in self._words)
        (array,) = op.operands
        if array not in self._places:
            return self.ids[array]
        index = self._places[array]
        slot = self.layout.slots[index]
        if op.name == "base":
            return self.flavour.base(index)
        axis = op.attrs["axis"]
        assert isinstance(axis, int)
        assert slot.ndim is not None
        number = axis if op.name == "dim" else slot.ndim + axis
        kind = op.result.type
        assert isinstance(kind, Scalar)
        return self.flavour.argument(slot.offset + 8 + 8 * number, kind)

    def _id(self, op: Operation) -> int:
        match op.name:
            case "lane_id":
                return self.lanes.lane
            case "subgroup_id":
                return self.lanes.subgroup
            case "subgroup_size":
                return self.code.number(64, self.kernel.options.width)
            case _:
                axis = op.attrs["axis"]
                assert isinstance(axis, int)
                return self.flavour.index(op.name, axis)


def _is_float(op: Operation) -> bool:
    kind = op.result.type
    return isinstance(kind, Scalar) and kind.is_float


_ROUNDING = frozenset(("add", "sub", "mul", "fma"))
_IDS = frozenset(
    (
        *("local_id", "group_id", "group_size", "num_groups", "global_id"),
        *("lane_id", "subgroup_id", "subgroup_size"),
    )
)
