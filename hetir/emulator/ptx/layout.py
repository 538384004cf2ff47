"""Where variables and registers live, and what the names of an inlined function stand for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np

from hetir.emulator.ptx.build import Location, Register
from hetir.emulator.ptx.faults import PtxUnknownError
from hetir.emulator.ptx.spaces import FUNCTION_WINDOW
from hetir.emulator.ptx.syntax import (
    Address,
    Function,
    Instruction,
    Module,
    Name,
    Operand,
    Pair,
    Symbol,
    Variable,
    Vector,
)
from hetir.emulator.ptx.types import Lanes, PtxType

_GUARD_BYTES = 16


class Space:
    """Places of variables in a space, a gap between them, so that none runs into the next."""

    def __init__(self, gap: int) -> None:
        self.gap = gap
        self.next = 0
        self.placed: list[tuple[int, int]] = []

    def place(self, size: int, align: int) -> int:
        """The offset of a new variable."""
        at = -(-self.next // align) * align
        self.placed.append((at, size))
        self.next = at + size + self.gap
        return at

    @property
    def stride(self) -> int:
        """Bytes that a copy of the space takes."""
        return -(-(self.next + 32) // 32) * 32

    def table(self, size: int = 0) -> Lanes:
        """For each byte the number of the variable that has it, 0 for none."""
        table = np.zeros(max(size, self.stride), np.int32)
        for number, (at, length) in enumerate(self.placed, 1):
            table[at : at + length] = number
        return table


class Layout:
    """What all instances of a program share: register slots, spaces, notes on instructions."""

    def __init__(self, module: Module, entry: Function, addresses: Mapping[str, int]) -> None:
        self.module = module
        self.addresses = addresses
        self.register_types: list[PtxType] = []
        self.local = Space(_GUARD_BYTES)
        self.shared = Space(_GUARD_BYTES)
        self.parameters = Space(0)
        self.approximate: set[str] = set()
        self.contractible: set[str] = set()
        self.instances = 0
        self.functions = self.function_addresses(module)
        self.shared_places: dict[tuple[str, str], Location] = {}
        self.static_shared_bytes = 0
        self.entry_places = {p.name: self._parameter(p) for p in entry.parameters}
        self.parameter_bytes = self.parameters.next
        self.dynamic_base = self._place_shared(entry)

    @staticmethod
    def function_addresses(module: Module) -> dict[str, int]:
        """The addresses that pointers to functions hold."""
        return {name: FUNCTION_WINDOW + 16 * (i + 1) for i, name in enumerate(module.functions)}

    def _parameter(self, variable: Variable) -> Location:
        at = self.parameters.place(variable.size, variable.align)
        return Location("param", at, variable.size)

    def _place_shared(self, entry: Function) -> int:
        """Place the shared variables that the entry and what it calls name; dynamic ones last."""
        plain = align = 0
        dynamic: list[tuple[str, str]] = []
        for owner, variable in self._shared_variables(entry):
            key = (owner, variable.name)
            align = max(align, variable.align)
            if variable.count is None:
                dynamic.append(key)
                continue
            plain = -(-plain // variable.align) * variable.align + variable.size
            at = self.shared.place(variable.size, variable.align)
            self.shared_places[key] = Location("shared", at, variable.size)
        self.static_shared_bytes = plain
        base = -(-self.shared.next // max(align, 16)) * max(align, 16)
        for key in dynamic:
            self.shared_places[key] = Location("shared", base, 0)
        return base

    def _shared_variables(self, entry: Function) -> Iterator[tuple[str, Variable]]:
        done: set[str] = set()
        work = [entry.name]
        named: set[str] = set()
        while work:
            function = self.module.functions[work.pop()]
            if function.name in done:
                continue
            done.add(function.name)
            yield from (
                (function.name, v) for v in function.variables.values() if v.space == "shared"
            )
            for item in function.body:
                if isinstance(item, Instruction):
                    named.update(_names(item.operands))
            work += sorted((named | self._address_taken()) & set(self.module.functions))
        for variable in self.module.variables.values():
            if variable.space == "shared" and variable.name in named:
                yield "", variable

    def _address_taken(self) -> set[str]:
        """Functions whose address an initial value has."""
        return {
            value.name
            for variable in self.module.variables.values()
            for value in variable.initial or ()
            if isinstance(value, Symbol) and value.name in self.module.functions
        }

    def register(self, kind: PtxType) -> Register:
        """A new register."""
        self.register_types.append(kind)
        return Register(len(self.register_types) - 1, kind)

    def global_place(self, name: str) -> Location | None:
        """A variable at module scope, or a function's address."""
        variable = self.module.variables.get(name)
        if variable is not None:
            if variable.space == "shared":
                return self.shared_places.get(("", name))
            return Location(variable.space, self.addresses[name], variable.size)
        if name in self.functions:
            return Location("code", self.functions[name], 0)
        return None

    def candidates(self) -> Iterator[tuple[str, int]]:
        """Functions that a pointer may hold, with their addresses."""
        for name, address in self.functions.items():
            if not self.module.functions[name].is_entry:
                yield name, address


def _names(operands: tuple[Operand, ...]) -> Iterator[str]:
    for operand in operands:
        match operand:
            case Name(text):
                yield text
            case Vector(items):
                yield from _names(items)
            case Address(Name(text)):
                yield text
            case Pair(first, second):
                yield from _names((first, second))
            case _:
                pass


class Instance:
    """One inlined copy of a function: what its names stand for."""

    def __init__(self, layout: Layout, function: Function, callers: tuple[str, ...] = ()) -> None:
        self.layout = layout
        self.function = function
        self.callers = (*callers, function.name)
        self.is_entry = function.is_entry
        self.serial = layout.instances
        layout.instances += 1
        self.names: dict[str, Register | Location] = {}
        if function.is_entry:
            self.names.update(layout.entry_places)

    def label(self, name: str) -> str:
        """A label's name that is unique in the program."""
        return f"{name}#{self.serial}"

    def needed(self, register: Operand) -> bool:
        """Whether the function names a destination again: else nobody looks at what it gets."""
        return not isinstance(register, Name) or self._mentions[register.text] > 1

    @cached_property
    def _mentions(self) -> Counter[str]:
        body = self.function.body
        return Counter(n for i in body if isinstance(i, Instruction) for n in _names(i.operands))

    def find(self, name: str) -> Register | Location | None:
        """The meaning of a name."""
        found = self.names.get(name)
        if found is not None:
            return found
        found = self._make(name)
        if found is not None:
            self.names[name] = found
        return found

    def _make(self, name: str) -> Register | Location | None:
        kind = self.function.registers.get(name)
        if kind is not None:
            return self.layout.register(kind)
        variable = self.function.variables.get(name)
        if variable is None:
            return self.layout.global_place(name)
        return self.variable(variable)

    def variable(self, variable: Variable) -> Location:
        """A place for a variable of the function's body, or for a parameter of a call."""
        match variable.space:
            case "shared":
                return self.layout.shared_places[self.function.name, variable.name]
            case "local" | "param":
                at = self.layout.local.place(variable.size, variable.align)
                return Location("local", at, variable.size)
            case _:
                raise PtxUnknownError(
                    f"a .{variable.space} variable in a function is not executed", variable.place
                )
