"""SPIR-V words as assembly text, in the syntax of Khronos' tools; takes any producer's modules."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence

from hetir.backends.spirv.grammar import MAGIC, Grammar, Row, grammar
from hetir.diagnostics import CompileError

_HEADER_WORDS = 5
_BITS16, _BITS32, _BITS64 = 16, 32, 64
_FLOAT_FORMS = {_BITS16: (5, 10), _BITS32: (8, 23), _BITS64: (11, 52)}


class InvalidModuleError(CompileError):
    """The bytes are no SPIR-V module.

    Cause: another file, or a damaged one. Fix: compile it again.
    """

    code = "HET380"


class Instruction:
    """An instruction of a module that is read: its name and its words after the first."""

    __slots__ = ("name", "words")

    def __init__(self, name: str, words: Sequence[int]) -> None:
        self.name, self.words = name, words


def instructions(binary: bytes) -> Iterator[Instruction]:
    """The instructions of a module. Raises InvalidModuleError."""
    if len(binary) % 4 or len(binary) < 4 * _HEADER_WORDS:
        raise InvalidModuleError("a SPIR-V module is whole words, five at least")
    order = "<" if binary[:4] == MAGIC.to_bytes(4, "little") else ">"
    words = struct.unpack(f"{order}{len(binary) // 4}I", binary)
    if words[0] != MAGIC:
        raise InvalidModuleError(f"{words[0]:#010x} is not the first word of a SPIR-V module")
    names, at = grammar().opcodes, _HEADER_WORDS
    while at < len(words):
        count, opcode = words[at] >> 16, words[at] & 0xFFFF
        if not count or at + count > len(words) or opcode not in names:
            raise InvalidModuleError(f"word {at} of the module starts no instruction")
        yield Instruction(names[opcode], words[at + 1 : at + count])
        at += count


def disassemble(binary: bytes) -> str:
    """The module as text, an instruction a line; ids keep their numbers."""
    major, minor = binary[6], binary[5]
    if binary[:4] == MAGIC.to_bytes(4, "big"):
        major, minor = binary[5], binary[6]
    reader = _Reader()
    lines = [reader.line(instruction) for instruction in instructions(binary)]
    bound = struct.unpack_from("<I", binary, 12)[0]
    head = ("; SPIR-V", f"; Version: {major}.{minor}", f"; Bound: {bound}")
    return "\n".join((*head, *lines, ""))


class _Reader:
    """What earlier instructions say about ids: types of values, widths, imported sets."""

    def __init__(self) -> None:
        self.grammar: Grammar = grammar()
        self.numbers: dict[int, tuple[str, int]] = {}
        self.types: dict[int, int] = {}
        self.sets: dict[int, str] = {}

    def line(self, instruction: Instruction) -> str:
        """One line."""
        row = self.grammar.instructions[instruction.name]
        words = list(instruction.words)
        self._note(instruction)
        kind = words[0] if row.operands[:1] == ("IdResultType",) and words else 0
        selector = self.types.get(words[0], 0) if instruction.name == "OpSwitch" else kind
        shown = self._operands(row.operands, words, selector)
        result = ""
        if "IdResult" in row.operands[:2]:
            result = shown.pop(row.operands.index("IdResult"))
        text = " ".join((instruction.name, *shown))
        return f"{result:>12} = {text}" if result else " " * 15 + text

    def _note(self, instruction: Instruction) -> None:
        name, words = instruction.name, instruction.words
        row = self.grammar.instructions[name]
        if name == "OpTypeInt":
            self.numbers[words[0]] = ("int" if words[2] else "uint", words[1])
        elif name == "OpTypeFloat":
            self.numbers[words[0]] = ("float", words[1])
        elif name == "OpExtInstImport":
            self.sets[words[0]] = _string(words[1:])[0]
        elif row.operands[:2] == ("IdResultType", "IdResult"):
            self.types[words[1]] = words[0]

    def _operands(self, kinds: Sequence[str], words: list[int], kind: int) -> list[str]:
        shown: list[str] = []
        for operand in kinds:
            plain = operand.rstrip("?*")
            while words:
                self._operand(plain, words, kind, shown)
                if not operand.endswith("*"):
                    break
        shown += (f"!{word}" for word in words)
        return shown

    def _operand(self, kind: str, words: list[int], typed: int, shown: list[str]) -> None:
        if kind in self.grammar.composites:
            for base in self.grammar.composites[kind]:
                number = base == "LiteralInteger" and typed in self.numbers
                same = "LiteralContextDependentNumber" if number else base
                self._operand(same, words, typed, shown)
        elif kind.startswith("Id"):
            shown.append(f"%{words.pop(0)}")
        elif kind == "LiteralString":
            text, count = _string(words)
            del words[:count]
            shown.append(json.dumps(text, ensure_ascii=False))
        elif kind == "LiteralContextDependentNumber":
            shown.append(self._number(words, typed))
        elif kind == "LiteralExtInstInteger":
            shown.append(self._extended(int(shown[-1][1:]), words.pop(0)))
        elif kind == "LiteralSpecConstantOpInteger":
            name = self.grammar.opcodes[words.pop(0)]
            shown.append(name.removeprefix("Op"))
            rest = self.grammar.instructions[name].operands[2:]
            shown += self._operands(rest, words, typed)
            words.clear()
        elif kind in self.grammar.enums:
            self._enumerant(kind, words, typed, shown)
        else:
            shown.append(str(words.pop(0)))

    def _enumerant(self, kind: str, words: list[int], typed: int, shown: list[str]) -> None:
        number, rows = words.pop(0), self.grammar.enums[kind]
        found: list[tuple[str, Row]] = []
        if kind in self.grammar.masks and number:
            bits = [1 << b for b in range(32) if number >> b & 1]
            found = [next(p for p in rows.items() if p[1].number == bit) for bit in bits]
        else:
            found = [next(p for p in rows.items() if p[1].number == number)]
        shown.append("|".join(name for name, _ in found))
        for _, row in found:
            shown += self._parameters(row, words, typed)

    def _parameters(self, row: Row, words: list[int], typed: int) -> list[str]:
        shown: list[str] = []
        for kind in row.operands:
            self._operand(kind.rstrip("?*"), words, typed, shown)
        return shown

    def _extended(self, set_id: int, number: int) -> str:
        names = self.grammar.extended.get(self.sets.get(set_id, ""), {})
        return next((name for name, n in names.items() if n == number), str(number))

    def _number(self, words: list[int], typed: int) -> str:
        kind, bits = self.numbers.get(typed, ("uint", _BITS32))
        value = words.pop(0)
        if bits > _BITS32:
            value |= words.pop(0) << _BITS32
        if kind == "float":
            return _float(value, bits)
        value &= (1 << bits) - 1
        return str(value - (1 << bits) if kind == "int" and value >> (bits - 1) else value)


def _float(value: int, bits: int) -> str:
    """A float by its bits, in hexadecimal; infinities and NaNs as one past the exponents."""
    exponent_bits, fraction_bits = _FLOAT_FORMS[bits]
    bias = (1 << (exponent_bits - 1)) - 1
    sign = "-" if value >> (bits - 1) else ""
    exponent = value >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = value & ((1 << fraction_bits) - 1)
    if not exponent and not fraction:
        return f"{sign}0x0p+0"
    if not exponent:
        shift = fraction_bits + 1 - fraction.bit_length()
        fraction, exponent = (fraction << shift) & ((1 << fraction_bits) - 1), 1 - shift
    digits = -(-fraction_bits // 4)
    text = f"{fraction << (4 * digits - fraction_bits):0{digits}x}".rstrip("0")
    point = f".{text}" if text else ""
    return f"{sign}0x1{point}p{exponent - bias:+d}"


def _string(words: Sequence[int]) -> tuple[str, int]:
    """A string and the words that it takes."""
    data = struct.pack(f"<{len(words)}I", *words)
    text = data.partition(b"\0")[0]
    return text.decode(errors="replace"), len(text) // 4 + 1
