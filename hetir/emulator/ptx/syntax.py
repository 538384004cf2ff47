"""What PTX text says: modules, functions, variables, instructions and their operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hetir.emulator.ptx.faults import Place
from hetir.emulator.ptx.types import PtxType


@dataclass(frozen=True, slots=True)
class Name:
    """A register, variable, function, label or special register, with an optional offset."""

    text: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Number:
    """An integer literal."""

    value: int


@dataclass(frozen=True, slots=True)
class Real:
    """A floating-point literal; `bits` is its width when `raw` was written (0f, 0d), else 0."""

    value: float
    bits: int
    raw: int


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset]`."""

    base: Name | Number
    offset: int


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b}` of data, or `(a, b)` of a call."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Negated:
    """`!p`."""

    of: Name


@dataclass(frozen=True, slots=True)
class Pair:
    """`d|p`: two destinations."""

    first: Operand
    second: Operand


Operand = Name | Number | Real | Address | Vector | Negated | Pair


@dataclass(frozen=True, slots=True)
class Guard:
    """`@p` or `@!p`."""

    name: str
    negated: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: opcode, modifiers without their dots, operands."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None
    place: Place

    def __str__(self) -> str:
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True, slots=True)
class LabelMark:
    """`name:`."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """An initial value that is an address: name, offset, and whether it is generic."""

    name: str
    offset: int
    generic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable of a state space; `count` elements, None when its extent is open.

    `initial` holds the flattened elements that are given; the rest are zero.
    """

    space: str
    name: str
    type: PtxType
    count: int | None
    align: int
    initial: tuple[int | float | Symbol, ...] | None
    place: Place

    @property
    def size(self) -> int:
        """Bytes; 0 when the extent is open."""
        return (self.count or 0) * self.type.bits // 8


@dataclass(frozen=True, slots=True)
class Prototype:
    """`.callprototype`: the sizes in bytes of what is returned and passed."""

    returns: tuple[int, ...]
    parameters: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class Function:
    """An `.entry` or a `.func`; nested scopes are resolved, every name in it is unique."""

    name: str
    is_entry: bool
    returns: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    place: Place
    limits: Mapping[str, tuple[int, ...]]
    defined: bool = False
    registers: dict[str, PtxType] = field(default_factory=dict[str, PtxType])
    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])
    body: list[Instruction | LabelMark] = field(default_factory=list["Instruction | LabelMark"])
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    call_targets: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    prototypes: dict[str, Prototype] = field(default_factory=dict[str, Prototype])


@dataclass(slots=True, kw_only=True)
class Module:
    """A PTX module: its version, target, functions, and variables at module scope."""

    name: str
    version: str
    target: str
    functions: dict[str, Function]
    variables: dict[str, Variable]

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of the entries."""
        return tuple(f.name for f in self.functions.values() if f.is_entry)
