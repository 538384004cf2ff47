"""The OpenCL flavour: pointers as arguments, the rest of the block by value.

A kernel's arguments: for each array a pointer into its buffer, whose address in the block is
the byte offset there; the block, by value, or in a buffer of its own where it is large; the
buffer of records, or null; the device's hidden word; and where subgroup operations need it,
eight bytes of local memory a work-item.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from hetir.artifact import BLOCK_BY_VALUE_BYTES
from hetir.backends.spirv.flavour import U64, Dialect, Flavour, Place
from hetir.ir.types import ArrayType, Scalar

KEEP_ORDER = 0
"""The specialisation constant (a bool) that keeps compilers from reordering sums of floats."""

_STORAGE = {
    "global": "CrossWorkgroup",
    "constant": "CrossWorkgroup",
    "shared": "Workgroup",
    "private": "Function",
}


_INPUTS = {
    "local_id": "LocalInvocationId",
    "group_id": "WorkgroupId",
    "group_size": "WorkgroupSize",
    "num_groups": "NumWorkgroups",
}


class OpenCL(Flavour):
    """Kernels with 64-bit pointers."""

    dialect: ClassVar[Dialect] = Dialect(
        name="spirv:opencl",
        version=(1, 2),
        environment="",
        extended="OpenCL.std",
        capabilities=("Addresses", "Kernel", "Int64"),
        preferred=("Kernel", "Addresses"),
        contraction=False,
    )

    @property
    def reference(self) -> int:
        """A pointer to bytes of global memory."""
        return self._bytes("CrossWorkgroup")

    def _bytes(self, storage: str) -> int:
        return self.code.pointer(storage, self.code.int(8))

    # ---- the function's parameters -------------------------------------------------------

    @cached_property
    def _pointers(self) -> dict[int, int]:
        """The pointer of each array slot."""
        slots = enumerate(self.layout.slots)
        return {index: self.module.fresh() for index, slot in slots if slot.ndim is not None}

    @cached_property
    def _block(self) -> tuple[int, int]:
        """The block's type and id."""
        storage = self._block_storage
        words = self.code.number(32, self.layout.size // 8)
        array = self.module.unique("OpTypeArray", self.code.int(64), words)
        structure = self.module.unique("OpTypeStruct", array)
        name = self.module.fresh()
        if self._by_value:
            self.module.decorate(name, "FuncParamAttr", "ByVal")
        return self.code.pointer(storage, structure), name

    @cached_property
    def _block_bytes(self) -> int:
        return self.code.first("OpBitcast", self._bytes(self._block_storage), self._block[1])

    @property
    def _by_value(self) -> bool:
        return self.layout.size <= BLOCK_BY_VALUE_BYTES

    @property
    def _block_storage(self) -> str:
        return "Function" if self._by_value else "CrossWorkgroup"

    @cached_property
    def _extras(self) -> tuple[int, int]:
        """The two parameters after the block."""
        return self.module.fresh(), self.module.fresh()

    @property
    def records(self) -> int:
        """The first parameter after the block."""
        return self._extras[0]

    @property
    def hidden(self) -> int:
        """The second parameter after the block."""
        return self._extras[1]

    @cached_property
    def _lanes(self) -> int:
        """The last parameter, which only some kernels have."""
        return self.module.fresh()

    def argument(self, offset: int, kind: Scalar) -> int:
        """Load from the block, at the start."""
        code = self.code
        storage = self._block_storage
        memory = code.int(8) if kind.kind == "bool" else code.scalar(kind)
        start, place = self._block_bytes, code.number(64, offset)
        with code.at_start():
            at = code.add("OpInBoundsPtrAccessChain", self._bytes(storage), start, place)
            typed = code.add("OpBitcast", code.pointer(storage, memory), at)
            value = code.add("OpLoad", memory, typed, "Aligned", kind.bytes)
            if kind.kind == "bool":
                return code.add("OpINotEqual", code.bool(), value, code.number(8, 0))
            return value

    def base(self, index: int) -> int:
        """The buffer's pointer and the offset in the block."""
        offset = self.argument(self.layout.slots[index].offset, U64)
        pointer = self._pointers[index]
        return self.code.first("OpPtrAccessChain", self.reference, pointer, offset)

    # ---- memory --------------------------------------------------------------------------

    def array(self, kind: ArrayType, *, words: bool) -> int:
        """A variable, as a pointer to its bytes."""
        code, count = self.code, 1
        for extent in kind.shape or ():
            count *= extent
        element = code.int(8) if kind.element.kind == "bool" else code.scalar(kind.element)
        # parts of words are updated through the word around them
        padded = -(-max(1, count) // 4) * 4 if words else max(1, count)
        whole = self.module.unique("OpTypeArray", element, code.number(32, padded))
        storage = _STORAGE[kind.space]
        if kind.space == "private":
            variable = code.local(whole)
        else:
            variable = self.module.variable(code.pointer(storage, whole), storage)
        if words:
            self.module.decorate(variable, "Alignment", 4)
        return code.first("OpBitcast", self._bytes(storage), variable)

    def place(self, space: str, reference: int, offset: int, element: Scalar) -> Place:
        """The bytes' pointer moved and cast."""
        code, storage = self.code, _STORAGE[space]
        kind = code.int(8) if element.kind == "bool" else code.scalar(element)
        moved = code.add("OpPtrAccessChain", self._bytes(storage), reference, offset)
        pointer = code.add("OpBitcast", code.pointer(storage, kind), moved)
        return Place(pointer, kind, typed=True, access=("Aligned", element.bytes))

    def word(self, space: str, reference: int, offset: int) -> tuple[int, int]:
        """By the address as an integer."""
        code, wide = self.code, self.code.int(64)
        moved = code.add("OpPtrAccessChain", self._bytes(_STORAGE[space]), reference, offset)
        address = code.add("OpConvertPtrToU", wide, moved)
        low = code.add("OpBitwiseAnd", wide, address, code.number(64, 3))
        start = code.add("OpBitwiseXor", wide, address, low)
        word = code.pointer(_STORAGE[space], code.int(32))
        bits = code.add("OpUConvert", code.int(32), low)
        shift = code.add("OpShiftLeftLogical", code.int(32), bits, code.number(32, 3))
        return code.add("OpConvertUToPtr", word, start), shift

    def address(self, reference: int) -> int:
        """The pointer as an integer."""
        return self.code.add("OpConvertPtrToU", self.code.int(64), reference)

    def lane_slot(self, item: int) -> Place:
        """Eight bytes of the local memory that the launch gives."""
        offset = self.code.add(
            "OpShiftLeftLogical", self.code.int(64), item, self.code.number(64, 3)
        )
        return self.place("shared", self._lanes, offset, U64)

    def keep_order(self) -> None:
        """A volatile store, where the driver found that it is needed.

        Intel's runtime for CPUs turns a loop that sums floats into sums of every second term
        and so on, whatever the module says; not so a loop with a volatile access.
        """
        code = self.code
        needed, place = self._order
        with code.when(needed):
            code.put("OpStore", place, code.number(32, 0), "Volatile|Aligned", 4)

    @cached_property
    def _order(self) -> tuple[int, int]:
        """The specialisation constant that asks for the stores, and where they go."""
        needed = self.module.unique("OpSpecConstantFalse", self.code.bool())
        self.module.decorate(needed, "SpecId", KEEP_ORDER)
        return needed, self.code.local(self.code.int(32))

    # ---- ids -----------------------------------------------------------------------------

    @cached_property
    def _inputs(self) -> dict[str, int]:
        """The built-in variables that are used."""
        return {}

    def _input(self, name: str, axis: int) -> int:
        code = self.code
        vector = code.vector(code.int(64), 3)
        if name not in self._inputs:
            variable = self.module.variable(code.pointer("Input", vector), "Input")
            self.module.decorate(variable, "BuiltIn", name)
            self.module.decorate(variable, "Constant")
            self._inputs[name] = variable
        whole = code.first("OpLoad", vector, self._inputs[name], "Aligned", 32)
        return code.first("OpCompositeExtract", code.int(64), whole, axis)

    def make_index(self, name: str, axis: int) -> int:
        """Built-in variables; the workgroup's size is a constant where it is compiled in."""
        if name == "group_size" and self.workgroup is not None:
            return self.code.number(64, self.workgroup[axis])
        return self._input(_INPUTS[name], axis)

    # ---- the function --------------------------------------------------------------------

    def finish(self, entry: str) -> bytes:
        """The kernel function and its entry point."""
        module, main = self.module, self.module.fresh()
        parameters = [(self.reference, pointer) for pointer in self._pointers.values()]
        if self.layout.size:
            parameters.append(self._block)
        parameters += [(self.reference, self.records), (self.reference, self.hidden)]
        if "_lanes" in self.__dict__:
            parameters.append((self._bytes("Workgroup"), self._lanes))
        module.put("memory model", "OpMemoryModel", "Physical64", "OpenCL")
        inputs = tuple(self._inputs.values())
        module.put("entry points", "OpEntryPoint", "Kernel", main, entry, *inputs)
        module.put("modes", "OpExecutionMode", main, "ContractionOff")
        if self.workgroup is not None:
            module.put("modes", "OpExecutionMode", main, "LocalSize", *self.workgroup)
        if self.pinned:
            module.put("modes", "OpExecutionMode", main, "SubgroupSize", self.kernel.options.width)
        module.put("names", "OpName", main, entry)
        self.function(main, parameters)
        return module.binary()
