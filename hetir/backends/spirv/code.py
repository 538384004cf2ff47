"""The function of one kernel as SPIR-V: types, constants, blocks and instructions by name."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from hetir.backends.spirv.grammar import grammar
from hetir.backends.spirv.module import Module, Operand, Words
from hetir.ir.types import Scalar, Type
from hetir.source import Loc

_NATIVE_FLOATS = ("f32", "f64")
_INT_CAPABILITIES = {8: "Int8", 16: "Int16", 64: "Int64"}


class Code:
    """A module and the body of its only function.

    Integers have no sign; f16, bf16 and f8 are the integers of their bits. `entry` holds
    what runs once at the start, whatever is emitted later: ids, extents, constants.
    """

    def __init__(self, module: Module, *, extended: str, contraction: bool) -> None:
        self.module = module
        self.block = 0
        self.variables: list[Words] = []
        self.entry: list[Words] = []
        self.body: list[Words] = []
        self.alive = True
        self.hides: Callable[[], int] | None = None
        """Gives the condition under which values are hidden from the device's compiler."""
        self.unknown_zero: Callable[[int], int] | None = None
        """Gives one of several zeros of 64 bits that no compiler can know."""
        self._extended = extended
        self._no_contraction = contraction
        self._line: tuple[str, int, int] | None = None
        self._next_line: tuple[str, int, int] | None = None
        self._numbers: dict[int, int] = {}

    # ---- types ---------------------------------------------------------------------------

    def int(self, bits: int) -> int:
        """An integer type."""
        if bits in _INT_CAPABILITIES:
            self.module.require(_INT_CAPABILITIES[bits])
        return self.module.unique("OpTypeInt", bits, 0)

    def float(self, bits: int) -> int:
        """A float type."""
        if bits == 64:
            self.module.require("Float64")
        return self.module.unique("OpTypeFloat", bits)

    def bool(self) -> int:
        """The type of conditions."""
        return self.module.unique("OpTypeBool")

    def vector(self, element: int, count: int) -> int:
        """A vector type."""
        return self.module.unique("OpTypeVector", element, count)

    def pointer(self, storage: str, to: int) -> int:
        """A pointer type."""
        return self.module.unique("OpTypePointer", storage, to)

    def scalar(self, kind: Scalar) -> int:
        """The type of a value of a scalar type."""
        if kind.kind == "bool":
            return self.bool()
        return self.float(kind.bits) if kind.name in _NATIVE_FLOATS else self.int(kind.bits)

    def of(self, kind: Type) -> int:
        """The type of a value; references are the flavour's."""
        assert isinstance(kind, Scalar)
        return self.scalar(kind)

    # ---- constants -----------------------------------------------------------------------

    def number(self, bits: int, value: int) -> int:
        """An integer constant."""
        value &= (1 << bits) - 1
        words = (value,) if bits <= 32 else (value & 0xFFFFFFFF, value >> 32)
        found = self.module.unique("OpConstant", self.int(bits), words)
        self._numbers[found] = value
        return found

    def value_of(self, constant: int) -> int | None:
        """The bits of an integer constant, or None for what is none."""
        return self._numbers.get(constant)

    def const(self, kind: Scalar, bits: int) -> int:
        """A constant by its bits."""
        if kind.kind == "bool":
            return self.module.unique("OpConstantTrue" if bits else "OpConstantFalse", self.bool())
        if kind.name not in _NATIVE_FLOATS:
            return self.number(kind.bits, bits)
        words = (bits,) if kind.bits == 32 else (bits & 0xFFFFFFFF, bits >> 32)
        return self.module.unique("OpConstant", self.float(kind.bits), words)

    def nought(self, kind: int) -> int:
        """A value of a type that is never looked at."""
        return self.module.unique("OpUndef", kind)

    def scope(self, name: str) -> int:
        """A scope as the constant that instructions take."""
        value = self.module.enumerant("Scope", name)
        if name == "Device" and "VulkanMemoryModel" in self.module.capabilities:
            self.module.require("VulkanMemoryModelDeviceScope")
        return self.number(32, value)

    def semantics(self, names: str) -> int:
        """Memory semantics as the constant that instructions take."""
        # Relaxed is the absence of every bit, under another name in the grammar
        return self.number(32, self.module.enumerant("MemorySemantics", names))

    # ---- instructions --------------------------------------------------------------------

    def add(self, name: str, kind: int, *operands: Operand) -> int:
        """Append an instruction with a result and give the result's id."""
        found = self.module.fresh()
        self._append(self.module.encode(name, kind, found, *operands))
        return found

    def put(self, name: str, *operands: Operand) -> None:
        """Append an instruction without a result."""
        self._append(self.module.encode(name, *operands))

    def _append(self, words: Words) -> None:
        if self._next_line is not None:
            file, *place = self._line = self._next_line
            self._next_line = None
            self.body.append(self.module.encode("OpLine", self.module.string(file), *place))
        self.body.append(words)

    def first(self, name: str, kind: int, *operands: Operand) -> int:
        """As `add`, at the start of the function."""
        found = self.module.fresh()
        self.entry.append(self.module.encode(name, kind, found, *operands))
        return found

    @contextmanager
    def at_start(self) -> Generator[None]:
        """What is added inside runs at the start of the function; no blocks."""
        body, line = self.body, self._next_line
        self.body, self._next_line = self.entry, None
        yield
        self.body, self._next_line = body, line

    def rounded(self, name: str, kind: int, *operands: Operand) -> int:
        """A float operation that must not be contracted with another."""
        found = self.add(name, kind, *operands)
        if self._no_contraction:
            self.module.decorate(found, "NoContraction")
        return found

    def unknown(self, value: int, bits: int, place: int) -> int:
        """An integer that the device's compiler cannot know, where the driver found it needed.

        Values of unlike places (0 or 1) are also not known to be the same.
        """
        assert self.hides is not None
        assert self.unknown_zero is not None
        kind, zero = self.int(bits), self.unknown_zero(place)
        if bits == 32:
            zero = self.add("OpUConvert", kind, zero)
        hidden = self.add("OpBitwiseXor", kind, value, zero)
        return self.add("OpSelect", kind, self.hides(), hidden, value)

    def call(self, name: str, kind: int, *operands: int) -> int:
        """An instruction of the flavour's extended set."""
        number = grammar().extended[self._extended][name]
        return self.add(
            "OpExtInst", kind, self.module.import_set(self._extended), number, *operands
        )

    def local(self, kind: int) -> int:
        """A variable of the function."""
        found = self.module.fresh()
        pointer = self.pointer("Function", kind)
        self.variables.append(self.module.encode("OpVariable", pointer, found, "Function"))
        return found

    def at(self, loc: Loc | None) -> None:
        """Say where the next instructions come from."""
        if loc is not None:
            line = (loc.file, loc.line, loc.col + 1)
            self._next_line = None if line == self._line else line

    # ---- blocks --------------------------------------------------------------------------

    def label(self) -> int:
        """The id of a block to come."""
        return self.module.fresh()

    def start(self, label: int) -> None:
        """Begin a block; a line holds until its block ends."""
        self.body.append(self.module.encode("OpLabel", label))
        if self._next_line is None:
            self._next_line = self._line
        self.block, self.alive, self._line = label, True, None

    def end(self, name: str, *operands: Operand) -> None:
        """End the block."""
        self.put(name, *operands)
        self.alive = False

    def jump(self, label: int) -> None:
        """End the block with a branch."""
        self.end("OpBranch", label)

    def fork(self, cond: int, then: int, other: int, merge: int) -> None:
        """End the block with a choice whose arms meet at `merge`."""
        self.put("OpSelectionMerge", merge, "None")
        self.end("OpBranchConditional", cond, then, other)

    @contextmanager
    def when(self, cond: int) -> Generator[None]:
        """What is added inside runs where `cond` is true."""
        then, merge = self.label(), self.label()
        self.fork(cond, then, merge, merge)
        self.start(then)
        yield
        self.jump(merge)
        self.start(merge)

    def phi(self, kind: int, edges: Sequence[tuple[int, int]]) -> int:
        """A value that depends on the block before: pairs of value and block."""
        return self.add("OpPhi", kind, *(part for edge in edges for part in edge))

    def reserve(self) -> int:
        """Keep a place for instructions that are known later."""
        self.body.append([])
        return len(self.body) - 1

    def fill(self, place: int, rows: Sequence[Words]) -> None:
        """Write the instructions of a reserved place."""
        self.body[place] = [word for row in rows for word in row]
