"""From an instruction to a step: the table of instructions, their modifiers and operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hetir.emulator.ptx.batch import Batch
from hetir.emulator.ptx.faults import PtxOperandError, PtxUnknownError
from hetir.emulator.ptx.syntax import (
    Address,
    Instruction,
    Name,
    Negated,
    Number,
    Operand,
    Real,
    Vector,
)
from hetir.emulator.ptx.types import TYPES, UNSIGNED, Lanes, PtxType, as_type

Step = Callable[[Batch], None]
Reader = Callable[[Batch], Lanes]
Writer = Callable[[Batch, Lanes], None]
Builder = Callable[["Build"], Step]

BUILDERS: dict[str, Builder] = {}


@dataclass(frozen=True, slots=True)
class Register:
    """A register of an instance of a function."""

    slot: int
    type: PtxType


@dataclass(frozen=True, slots=True)
class Location:
    """A variable, function or parameter at an address of its state space."""

    space: str
    address: int
    size: int


class Scope(Protocol):
    """What the names of an instance of a function stand for."""

    is_entry: bool

    def find(self, name: str) -> Register | Location | None:
        """The meaning of a name."""
        ...

    def needed(self, register: Operand) -> bool:
        """Whether anybody may look at what a destination gets."""
        ...


def instruction(*opcodes: str) -> Callable[[Builder], Builder]:
    """Add a builder to the table."""

    def add(builder: Builder) -> Builder:
        for opcode in opcodes:
            BUILDERS[opcode] = builder
        return builder

    return add


class Build:
    """One instruction on its way to a step; modifiers are taken, what is left is an error."""

    def __init__(self, ins: Instruction, scope: Scope) -> None:
        self.ins = ins
        self.scope = scope
        self.left = list(ins.modifiers)

    def end(self) -> None:
        """That every modifier has been taken."""
        if self.left:
            raise self.unknown(self.left[0])

    def unknown(self, modifier: str) -> PtxUnknownError:
        """The error for a modifier that has no meaning here."""
        return PtxUnknownError(
            f"the modifier `.{modifier}` is not known on `{self.ins.opcode}`", self.ins.place
        )

    def wrong(self, message: str) -> PtxOperandError:
        """The error for an operand."""
        return PtxOperandError(f"`{self.ins}`: {message}", self.ins.place)

    # modifiers

    def flag(self, name: str) -> bool:
        """Take a modifier if it is there."""
        if name in self.left:
            self.left.remove(name)
            return True
        return False

    def choose(self, *names: str, default: str = "") -> str:
        """Take one of these modifiers; the default when none is there."""
        for name in self.left:
            if name in names:
                self.left.remove(name)
                return name
        return default

    def need(self, *names: str) -> str:
        """Take one of these modifiers, which must be there."""
        found = self.choose(*names)
        if not found:
            if self.left:
                raise self.unknown(self.left[0])
            raise self.wrong(f"one of {', '.join('.' + n for n in names)} is missing")
        return found

    def type(self, allowed: str = "") -> PtxType:
        """Take the next modifier that is a type; `allowed` lists names, empty is all."""
        names = allowed.split() or TYPES
        for name in self.left:
            if name in names:
                self.left.remove(name)
                return TYPES[name]
        if self.left:
            raise self.unknown(self.left[0])
        raise self.wrong("a type is missing")

    # operands

    def count(self, *allowed: int) -> int:
        """How many operands there are, which must be one of these numbers."""
        found = len(self.ins.operands)
        if found not in allowed:
            wanted = " or ".join(str(n) for n in allowed)
            raise self.wrong(f"{wanted} operands are needed, got {found}")
        return found

    def operand(self, index: int) -> Operand:
        """An operand by its place."""
        if index >= len(self.ins.operands):
            raise self.wrong(f"operand {index + 1} is missing")
        return self.ins.operands[index]

    def read(self, at: int | Operand, kind: PtxType, wide: bool = False) -> Reader:
        """A reader of an operand; `wide` lets a register be wider, and takes its low bits."""
        operand = self.operand(at) if isinstance(at, int) else at
        match operand:
            case Number() | Real():
                return _constant(self.literal(operand, kind))
            case Name():
                return self._read_name(operand, kind, wide)
            case Negated(of):
                inner = self.read(of, kind)
                return lambda r: ~inner(r)
            case _:
                raise self.wrong("a register or a number is needed")

    def literal(self, operand: Number | Real, kind: PtxType) -> Lanes:
        """A literal as a scalar of a type."""
        if isinstance(operand, Real):
            if operand.bits == kind.bits:
                return as_type(np.array(operand.raw, UNSIGNED[kind.bits]), kind.dtype)
            if kind.kind != "f" or kind.lane:
                raise self.wrong(f"a floating-point number is no .{kind.name}")
            return np.array(operand.value).astype(kind.dtype)
        if kind.kind == "p":
            return np.array(operand.value != 0)
        if kind.kind == "f" and not kind.lane:
            raise self.wrong(f"the integer {operand.value} is no .{kind.name}")
        value = operand.value % (1 << kind.bits)
        if kind.bits == 128:
            return np.array((value % (1 << 64), value >> 64), kind.dtype)
        return as_type(np.array(value, UNSIGNED[kind.bits]), kind.dtype)

    def _read_name(self, name: Name, kind: PtxType, wide: bool) -> Reader:
        found = self.scope.find(name.text)
        if isinstance(found, Register):
            if name.offset:
                raise self.wrong("a register has no offset here")
            return self._read_register(name.text, found, kind, wide)
        if isinstance(found, Location):
            return _constant(self.literal(Number(found.address + name.offset), kind))
        if name.text == "WARP_SZ":
            return _constant(self.literal(Number(32), kind))
        if name.text.startswith("%"):
            return self._read_special(name.text, kind, wide)
        raise self.wrong(f"`{name.text}` is not declared")

    def _read_register(self, name: str, register: Register, kind: PtxType, wide: bool) -> Reader:
        self.check(name, register.type, kind, wide)
        slot, dtype = register.slot, kind.dtype
        if register.type.bits != kind.bits:
            low = UNSIGNED[kind.bits]
            return lambda r: _pick(r, slot).astype(low).view(dtype)
        if register.type.storage == dtype:
            return lambda r: _pick(r, slot)
        return lambda r: _pick(r, slot).view(dtype)

    def _read_special(self, name: str, kind: PtxType, wide: bool) -> Reader:
        held = Batch.special_type(name)
        if held is None:
            what = "special register" if name.split(".")[0] in _LIKELY else "register"
            raise PtxUnknownError(f"the {what} `{name}` is not known", self.ins.place)
        self.check(name, held, kind, wide)
        dtype, storage = kind.dtype, UNSIGNED[kind.bits]

        def read(r: Batch) -> Lanes:
            value = r.special(name)
            if value.ndim and r.idx is not None:
                value = value[r.idx]
            return as_type(value.astype(storage), dtype)

        return read

    def check(self, name: str, held: PtxType, kind: PtxType, wide: bool) -> None:
        """That a register of one type may stand where an instruction wants another."""
        if held.bits == kind.bits or (wide and held.bits > kind.bits):
            floats = held.kind == "f" and kind.kind in "us" and not kind.lane and not wide
            whole = held.kind in "us" and kind.kind == "f" and not kind.lane and not wide
            if not floats and not whole:
                return
        raise self.wrong(f"`{name}` is .{held.name}, not .{kind.name}")

    def write(self, at: int | Operand, kind: PtxType, wide: bool = False) -> Writer:
        """A writer of a destination; a wider register is extended as the type's sign says."""
        operand = self.operand(at) if isinstance(at, int) else at
        if not isinstance(operand, Name):
            raise self.wrong("a register is needed as destination")
        if operand.text == "_":
            return _sink
        found = self.scope.find(operand.text)
        if not isinstance(found, Register):
            raise self.wrong(f"`{operand.text}` is not a declared register")
        self.check(operand.text, found.type, kind, wide)
        slot, storage = found.slot, found.type.storage
        if found.type.bits != kind.bits:
            signed = kind.kind == "s"
            return lambda r, value: _put(r, slot, _extend(value, storage, signed))
        return lambda r, value: _put(r, slot, as_type(value, storage))

    def vector(self, at: int | Operand) -> tuple[Operand, ...]:
        """The items of a vector operand."""
        operand = self.operand(at) if isinstance(at, int) else at
        if not isinstance(operand, Vector):
            raise self.wrong("a vector `{...}` is needed")
        return operand.items

    def address(self, at: int) -> Address:
        """An address operand."""
        operand = self.operand(at)
        if not isinstance(operand, Address):
            raise self.wrong("an address `[...]` is needed")
        return operand


_LIKELY = {"%tid", "%ntid", "%ctaid", "%nctaid", "%clusterid", "%nsmid", "%smid", "%gridid"}


def _constant(value: Lanes) -> Reader:
    return lambda r: value


def _pick(r: Batch, slot: int) -> Lanes:
    value = r.regs[slot]
    return value if r.idx is None else value[r.idx]


def _put(r: Batch, slot: int, value: Lanes) -> None:
    if r.idx is not None:
        r.regs[slot][r.idx] = value
    elif value.ndim:
        r.regs[slot] = value
    else:
        r.regs[slot] = np.full(r.lanes, value)


def _extend(value: Lanes, storage: np.dtype[Any], signed: bool) -> Lanes:
    narrow = value.dtype.itemsize
    signs = value.view(f"i{narrow}") if signed else value.view(f"u{narrow}")
    return signs.astype(storage)


def _sink(r: Batch, value: Lanes) -> None:
    """The destination `_`."""
