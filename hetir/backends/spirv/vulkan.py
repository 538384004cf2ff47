"""The Vulkan flavour: compute shaders that take addresses in push constants.

Push constants, eight bytes each: the addresses of the argument block, of the records (or 0)
and of the device's hidden word; where this dispatch starts in the grid, an axis each; the
grid's extents. A grid that is larger than the device takes is several dispatches. Each
array's slot in the block holds its address. The workgroup's size is the specialisation
constants 0, 1 and 2, unless it is compiled in; constant 3 is `HIDE`.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, NamedTuple

from hetir.artifact import Layout
from hetir.backends.spirv.flavour import U64, Dialect, Flavour, Place, Workgroup
from hetir.backends.spirv.grammar import grammar
from hetir.backends.spirv.module import Operand
from hetir.backends.spirv.options import Options
from hetir.ir.core import Kernel
from hetir.ir.types import ArrayType, Scalar

_BLOCK, _RECORDS, _HIDDEN, _START, _GRID = 0, 1, 2, 3, 6
_WORDS = 9
_MULTIPLY = grammar().instructions["OpIMul"].number
_STORAGE = {"shared": "Workgroup", "private": "Function"}
_SMALL = {1: "StorageBuffer8BitAccess", 2: "StorageBuffer16BitAccess"}


HIDE = 3
"""The specialisation constant (a bool) that keeps compilers from knowing what they get wrong."""


class _Array(NamedTuple):
    """A shared or private array: its elements' bits there, and bytes in hetIR."""

    bits: int
    bytes: int


class Vulkan(Flavour):
    """Shaders of Vulkan 1.3."""

    dialect: ClassVar[Dialect] = Dialect(
        name="spirv:vulkan",
        version=(1, 5),
        environment="vulkan1.3",
        extended="GLSL.std.450",
        capabilities=(*("Shader", "Int64", "VulkanMemoryModel", "PhysicalStorageBufferAddresses"),),
        preferred=("Shader",),
        contraction=True,
    )

    def __init__(
        self,
        kernel: Kernel,
        layout: Layout,
        workgroup: Workgroup | None,
        options: Options = frozenset(),
    ) -> None:
        super().__init__(kernel, layout, workgroup, options)
        self.code.hides = lambda: self._hides
        self.code.unknown_zero = lambda place: self._zeros[place]

    @property
    def reference(self) -> int:
        """An address."""
        return self.code.int(64)

    # ---- push constants and the block ----------------------------------------------------

    @cached_property
    def _pushed(self) -> int:
        """The variable of the push constants."""
        module, code = self.module, self.code
        structure = module.unique("OpTypeStruct", *(code.int(64),) * _WORDS)
        module.decorate(structure, "Block")
        for index in range(_WORDS):
            module.put("decorations", "OpMemberDecorate", structure, index, "Offset", 8 * index)
        return module.variable(code.pointer("PushConstant", structure), "PushConstant")

    @cached_property
    def _push_known(self) -> dict[int, int]:
        return {}

    def _push(self, index: int) -> int:
        """A push constant, loaded once."""
        if index not in self._push_known:
            code = self.code
            pointer = code.pointer("PushConstant", code.int(64))
            place = code.first("OpAccessChain", pointer, self._pushed, code.number(32, index))
            self._push_known[index] = code.first("OpLoad", code.int(64), place)
        return self._push_known[index]

    @property
    def records(self) -> int:
        """An address in the push constants."""
        return self._push(_RECORDS)

    @property
    def hidden(self) -> int:
        """An address in the push constants."""
        return self._push(_HIDDEN)

    def argument(self, offset: int, kind: Scalar) -> int:
        """Load from the block's address, at the start."""
        code, block = self.code, self._push(_BLOCK)
        with code.at_start():
            place = self._global(block, code.number(64, offset), kind)
            value = code.add("OpLoad", place.kind, place.pointer, *place.access)
            if kind.kind == "bool":
                return code.add("OpINotEqual", code.bool(), value, code.number(8, 0))
            return value

    def base(self, index: int) -> int:
        """The address in the array's slot."""
        return self.argument(self.layout.slots[index].offset, U64)

    def address(self, reference: int) -> int:
        """References are addresses."""
        return reference

    # ---- memory --------------------------------------------------------------------------

    @cached_property
    def _arrays(self) -> dict[int, _Array]:
        return {}

    def array(self, kind: ArrayType, *, words: bool) -> int:
        """A variable of integers; `words` gives each element a word of its own."""
        code, count = self.code, 1
        for extent in kind.shape or ():
            count *= extent
        bits = 32 if words else 8 * kind.element.bytes
        length = code.number(32, max(1, count))
        whole = self.module.unique("OpTypeArray", code.int(bits), length)
        if kind.space == "private":
            variable = code.local(whole)
        else:
            variable = self.module.variable(code.pointer("Workgroup", whole), "Workgroup")
        self._arrays[variable] = _Array(bits, kind.element.bytes)
        return variable

    def place(self, space: str, reference: int, offset: int, element: Scalar) -> Place:
        """An address plus the offset, or an element of a variable."""
        if space not in _STORAGE:
            return self._global(reference, offset, element)
        code, array = self.code, self._arrays[reference]
        shift = code.number(64, array.bytes.bit_length() - 1)
        index = code.add("OpShiftRightLogical", code.int(64), offset, shift)
        kind = code.int(array.bits)
        pointer = code.pointer(_STORAGE[space], kind)
        access: tuple[Operand, ...] = ()
        if space == "shared":
            access = ("NonPrivatePointer",)
        chain = code.add("OpAccessChain", pointer, reference, index)
        return Place(chain, kind, typed=False, access=access, widened=array.bits > 8 * array.bytes)

    def _global(self, reference: int, offset: int, element: Scalar) -> Place:
        code = self.code
        if element.bytes in _SMALL:
            self.module.require(_SMALL[element.bytes])
        kind = code.int(8) if element.kind == "bool" else code.scalar(element)
        address = code.add("OpIAdd", code.int(64), reference, offset)
        pointer = code.pointer("PhysicalStorageBuffer", kind)
        typed = code.add("OpConvertUToPtr", pointer, address)
        access = ("Aligned|NonPrivatePointer", element.bytes)
        return Place(typed, kind, typed=True, access=access)

    def word(self, space: str, reference: int, offset: int) -> tuple[int, int]:
        """By the address; elements of shared arrays have words of their own."""
        code, wide = self.code, self.code.int(64)
        if space in _STORAGE:
            element = Scalar("u32", "uint", 32)
            return self.place(space, reference, offset, element).pointer, code.number(32, 0)
        address = code.add("OpIAdd", wide, reference, offset)
        low = code.add("OpBitwiseAnd", wide, address, code.number(64, 3))
        start = code.add("OpBitwiseXor", wide, address, low)
        word = code.pointer("PhysicalStorageBuffer", code.int(32))
        bits = code.add("OpUConvert", code.int(32), low)
        shift = code.add("OpShiftLeftLogical", code.int(32), bits, code.number(32, 3))
        return code.add("OpConvertUToPtr", word, start), shift

    @cached_property
    def _lanes(self) -> int:
        """A place for each work-item; as many as the workgroup's size says."""
        module, code = self.module, self.code
        word = code.int(32)
        x, y, z = (self._size(axis) for axis in (0, 1, 2))
        count = module.unique("OpSpecConstantOp", word, _MULTIPLY, x, y)
        count = module.unique("OpSpecConstantOp", word, _MULTIPLY, count, z)
        whole = module.unique("OpTypeArray", code.int(64), count)
        return module.variable(code.pointer("Workgroup", whole), "Workgroup")

    def lane_slot(self, item: int) -> Place:
        """An element of a shared array."""
        code = self.code
        pointer = code.pointer("Workgroup", code.int(64))
        place = code.add("OpAccessChain", pointer, self._lanes, item)
        return Place(place, code.int(64), typed=True, access=("NonPrivatePointer",))

    # ---- ids -----------------------------------------------------------------------------

    @cached_property
    def _inputs(self) -> dict[str, int]:
        """The built-in variables that are used."""
        return {}

    def _input(self, name: str, axis: int) -> int:
        code = self.code
        vector = code.vector(code.int(32), 3)
        if name not in self._inputs:
            variable = self.module.variable(code.pointer("Input", vector), "Input")
            self.module.decorate(variable, "BuiltIn", name)
            self._inputs[name] = variable
        whole = code.first("OpLoad", vector, self._inputs[name])
        narrow = code.first("OpCompositeExtract", code.int(32), whole, axis)
        return code.first("OpUConvert", code.int(64), narrow)

    @cached_property
    def _sizes(self) -> tuple[int, int, int]:
        """The workgroup's size as constants, and the composite that tells Vulkan."""
        module, code = self.module, self.code
        word = code.int(32)
        if self.workgroup is not None:
            x, y, z = (code.number(32, n) for n in self.workgroup)
            return x, y, z
        x, y, z = (self._special(axis, word) for axis in (0, 1, 2))
        whole = module.unique("OpSpecConstantComposite", code.vector(word, 3), x, y, z)
        module.decorate(whole, "BuiltIn", "WorkgroupSize")
        return x, y, z

    def _special(self, axis: int, word: int) -> int:
        found = self.module.fresh()
        self.module.put("globals", "OpSpecConstant", word, found, 1)
        self.module.decorate(found, "SpecId", axis)
        return found

    def _size(self, axis: int) -> int:
        return self._sizes[axis]

    @cached_property
    def _zeros(self) -> list[int]:
        """The first bits of two sizes of the grid."""
        code = self.code
        sizes = (self._push(_GRID + axis) for axis in (0, 1))
        shift = code.number(64, 63)
        return [code.first("OpShiftRightLogical", code.int(64), size, shift) for size in sizes]

    @cached_property
    def _hides(self) -> int:
        """The condition of `Code.hides`."""
        needed = self.module.unique("OpSpecConstantFalse", self.code.bool())
        self.module.decorate(needed, "SpecId", HIDE)
        return needed

    def make_index(self, name: str, axis: int) -> int:
        """Built-in variables and push constants: a dispatch may be a part of the grid."""
        code, wide = self.code, self.code.int(64)
        match name:
            case "local_id":
                return self._input("LocalInvocationId", axis)
            case "group_id":
                start, own = self._push(_START + axis), self._input("WorkgroupId", axis)
                return code.first("OpIAdd", wide, start, own)
            case "num_groups":
                return self._push(_GRID + axis)
            case _ if self.workgroup is not None:
                return code.number(64, self.workgroup[axis])
            case _:
                return code.first("OpUConvert", wide, self._size(axis))

    # ---- the function --------------------------------------------------------------------

    def finish(self, entry: str) -> bytes:
        """The shader's function and its entry point."""
        module, main = self.module, self.module.fresh()
        module.put("memory model", "OpMemoryModel", "PhysicalStorageBuffer64", "Vulkan")
        self._float_controls(main)
        if self.workgroup is None:
            self._size(0)  # the constants say the size, whether the kernel asks for it or not
        size = self.workgroup or (1, 1, 1)
        module.put("modes", "OpExecutionMode", main, "LocalSize", *size)
        module.put("names", "OpName", main, entry)
        self.function(main, ())
        module.put("entry points", "OpEntryPoint", "GLCompute", main, entry, *module.variables)
        return module.binary()

    def _float_controls(self, main: int) -> None:
        """IEEE's floats, for each width that is used."""
        used = [bits for bits in (32, 64) if self.module.has("OpTypeFloat", bits)]
        for bits in used:
            for mode in ("DenormPreserve", "SignedZeroInfNanPreserve", "RoundingModeRTE"):
                self.module.put("modes", "OpExecutionMode", main, mode, bits)
