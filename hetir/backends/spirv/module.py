"""A SPIR-V module under construction: sections, ids, and what the used instructions need.

Capabilities and extensions are recorded when something that needs them is written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from hetir.backends.spirv.grammar import MAGIC, Row, Version, grammar

Operand = int | str | tuple[int | str, ...]
Words = list[int]

_SECTIONS = (
    *("capabilities", "extensions", "imports", "memory model", "entry points", "modes"),
    *("strings", "names", "decorations", "globals", "functions"),
)
_ENDIAN = "<{}I"


class Module:
    """A module of one SPIR-V version.

    `given` are capabilities that the flavour has from the start; where an instruction is
    enabled by one of several capabilities, those of `preferred` are declared first.
    """

    def __init__(
        self, version: Version, given: Sequence[str], preferred: Sequence[str] = ()
    ) -> None:
        self.version = version
        self._preferred = preferred
        self._sections: dict[str, list[Words]] = {name: [] for name in _SECTIONS}
        self._bound = 0
        self._known: dict[tuple[Operand, ...], int] = {}
        self._imports: dict[str, int] = {}
        self._strings: dict[str, int] = {}
        self._extensions: set[str] = set()
        self._satisfied: set[str] = set()
        self.capabilities: list[str] = []
        self.variables: list[int] = []
        for capability in given:
            self.require(capability)

    # ---- what the module needs -----------------------------------------------------------

    def require(self, *capabilities: str) -> None:
        """Declare one of some capabilities, unless one is there or implied already."""
        if not capabilities or not self._satisfied.isdisjoint(capabilities):
            return
        chosen = next((c for c in self._preferred if c in capabilities), capabilities[0])
        row = grammar().enums["Capability"][chosen]
        self.capabilities.append(chosen)
        self._satisfied |= _implied(chosen)
        self._extend(row)

    def _extend(self, row: Row) -> None:
        """Name an extension where the version is too old for a row."""
        old = row.version is None or self.version < row.version
        if old and row.extensions and self._extensions.isdisjoint(row.extensions):
            self._extensions.add(row.extensions[0])

    def _uses(self, row: Row) -> None:
        if row.capabilities:
            self.require(*row.capabilities)
        if row.extensions:
            self._extend(row)

    def enumerant(self, kind: str, name: str) -> int:
        """The number of an enumerant, or of several joined by `|`, recorded as used."""
        rows, number = grammar().enums[kind], 0
        for part in name.split("|"):
            self._uses(rows[part])
            number |= rows[part].number
        return number

    # ---- instructions --------------------------------------------------------------------

    def fresh(self) -> int:
        """A new id."""
        self._bound += 1
        return self._bound

    def encode(self, name: str, *operands: Operand) -> Words:
        """The words of an instruction; enumerants go by name, strings as they are."""
        row = grammar().instructions[name]
        self._uses(row)
        words = [0]
        kinds = _kinds(row.operands)
        for operand in operands:
            kind = next(kinds, "IdRef")  # those of OpSpecConstantOp go on, as its opcode says
            if isinstance(operand, int):
                words.append(operand)
            elif isinstance(operand, tuple):
                words += (self._one(kind, part) for part in operand)
            elif kind == "LiteralString":
                words += string_words(operand)
            else:
                words.append(self._one(kind, operand))
                found = grammar().enums[kind]
                following = [k for part in operand.split("|") for k in found[part].operands]
                kinds = _then(following, kinds)
        words[0] = len(words) << 16 | row.number
        return words

    def _one(self, kind: str, operand: int | str) -> int:
        return operand if isinstance(operand, int) else self.enumerant(kind, operand)

    def put(self, section: str, name: str, *operands: Operand) -> None:
        """Append an instruction to a section."""
        self._sections[section].append(self.encode(name, *operands))

    def unique(self, name: str, *operands: Operand) -> int:
        """The id of a type or constant: equal ones are written once. Operands lack the id."""
        key = (name, *operands)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.fresh()
            typed = grammar().instructions[name].operands[0] == "IdResultType"
            at = 1 if typed else 0
            self.put("globals", name, *operands[:at], found, *operands[at:])
        return found

    def variable(self, pointer: int, storage: str, *initial: int) -> int:
        """A new variable outside of functions."""
        found = self.fresh()
        self.put("globals", "OpVariable", pointer, found, storage, *initial)
        self.variables.append(found)
        return found

    def has(self, name: str, *operands: Operand) -> bool:
        """Whether a type or constant is there."""
        return (name, *operands) in self._known

    def import_set(self, name: str) -> int:
        """The id of an extended instruction set."""
        if name not in self._imports:
            self._imports[name] = self.fresh()
            self.put("imports", "OpExtInstImport", self._imports[name], name)
        return self._imports[name]

    def string(self, text: str) -> int:
        """The id of a string for debug information."""
        if text not in self._strings:
            self._strings[text] = self.fresh()
            self.put("strings", "OpString", self._strings[text], text)
        return self._strings[text]

    def decorate(self, target: int, name: str, *operands: Operand) -> None:
        """Decorate an id."""
        self.put("decorations", "OpDecorate", target, name, *operands)

    def function(self, instructions: Iterable[Words]) -> None:
        """Append a whole function."""
        self._sections["functions"].extend(instructions)

    def binary(self) -> bytes:
        """The module's words as bytes, little-endian."""
        for name in self._least():
            self.put("capabilities", "OpCapability", name)
        for name in sorted(self._extensions):
            self.put("extensions", "OpExtension", name)
        major, minor = self.version
        words = [MAGIC, major << 16 | minor << 8, 0, self._bound + 1, 0]
        for section in self._sections.values():
            for instruction in section:
                words += instruction
        return struct.pack(_ENDIAN.format(len(words)), *words)

    def _least(self) -> list[str]:
        """The capabilities without those that others imply."""
        implied = {i for c in self.capabilities for i in _implied(c) - {c}}
        return [c for c in self.capabilities if c not in implied]


def _kinds(operands: Sequence[str]) -> Iterator[str]:
    """The kinds of an instruction's operands, those that repeat for ever."""
    for kind in operands:
        plain = kind.rstrip("?*")
        yield plain
        while kind.endswith("*"):
            yield plain


def _then(first: Iterable[str], rest: Iterator[str]) -> Iterator[str]:
    yield from first
    yield from rest


@cache
def _implied(capability: str) -> frozenset[str]:
    """A capability and all that it implies."""
    found = {capability}
    for other in grammar().enums["Capability"][capability].capabilities:
        found |= _implied(other)
    return frozenset(found)


def string_words(text: str) -> Words:
    """A string as words: UTF-8, ended by a zero byte."""
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return list(struct.unpack(_ENDIAN.format(len(data) // 4), data))
