"""The body of a function: declarations, labels, instructions, and nested scopes."""

from __future__ import annotations

from dataclasses import replace

from hetir.emulator.ptx.cursor import Cursor
from hetir.emulator.ptx.declare import declaration, parameter, registers
from hetir.emulator.ptx.faults import Place, PtxOperandError, PtxUnknownError
from hetir.emulator.ptx.syntax import (
    Address,
    Function,
    Guard,
    Instruction,
    LabelMark,
    Name,
    Negated,
    Operand,
    Pair,
    Prototype,
    Variable,
    Vector,
)
from hetir.source import Loc

Scope = dict[str, str]
"""From a name as written to the name that is unique in the function."""


class Body:
    """Parses one body into its function; names of inner scopes become unique."""

    def __init__(self, cursor: Cursor, function: Function, files: dict[int, str]) -> None:
        self.cursor = cursor
        self.function = function
        self.files = files
        self.scopes: list[Scope] = []
        self.used: set[str] = {v.name for v in self._heads()}
        self.serial = 0

    def parse(self) -> None:
        """Read `{ ... }`."""
        self.function.defined = True
        self.scopes.append({v.name: v.name for v in self._heads()})
        self._block()
        self.scopes.pop()
        self.cursor.user = None

    def _heads(self) -> tuple[Variable, ...]:
        return self.function.returns + self.function.parameters

    def _block(self) -> None:
        c = self.cursor
        c.need("{")
        self.scopes.append({})
        self.serial += 1
        self._find_labels()
        while not c.take("}"):
            self._statement()
        self.scopes.pop()

    def _find_labels(self) -> None:
        """Declare the labels of this scope beforehand, for they are used before they stand."""
        c = self.cursor
        depth, at = 0, c.at
        while c.tokens[at].kind != "end" and depth >= 0:
            text = c.tokens[at].text
            depth += (text == "{") - (text == "}")
            if depth == 0 and text == ":" and c.tokens[at - 1].kind == "name":
                self._declare(c.tokens[at - 1].text)
            at += 1

    def _declare(self, name: str) -> str:
        unique = name if name not in self.used else f"{name}@{self.serial}"
        self.used.add(unique)
        if name in self.scopes[-1]:
            raise PtxOperandError(f"`{name}` is declared twice", self.cursor.place())
        self.scopes[-1][name] = unique
        return unique

    def _resolve(self, name: str) -> str | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def _statement(self) -> None:
        c = self.cursor
        token = c.token
        if token.text == "{":
            self._block()
        elif token.kind == "dot":
            self._directive(token.text)
        elif token.kind == "name" and c.tokens[c.at + 1].text == ":":
            c.step()
            c.step()
            self._label(token.text)
        else:
            self._instruction()

    def _directive(self, word: str) -> None:
        c = self.cursor
        match word:
            case ".reg":
                for name, kind in registers(c).items():
                    self.function.registers[self._declare(name)] = kind
            case ".local" | ".shared" | ".param" | ".global" | ".const":
                for variable in declaration(c):
                    unique = self._declare(variable.name)
                    self.function.variables[unique] = replace(variable, name=unique)
            case ".loc":
                self._loc()
            case ".pragma":
                c.step()
                c.kind("string", "a string")
                c.need(";")
            case _:
                raise PtxUnknownError(f"the directive `{word}` is not known", c.place())

    def _loc(self) -> None:
        """`.loc file line column {, function_name label {, inlined_at file line column}}`."""
        c = self.cursor
        c.step()
        loc = self._position()
        if c.take(","):
            c.need("function_name")
            c.kind("name", "a label")
            if c.take("+"):
                c.integer()
            if c.take(","):
                c.need("inlined_at")
                loc = replace(loc, caller=self._position())
        c.user = loc

    def _position(self) -> Loc:
        c = self.cursor
        file, line, col = c.integer(), c.integer(), max(0, c.integer() - 1)
        return Loc(self.files.get(file, f"file {file}"), line, col, line, col + 1)

    def _label(self, name: str) -> None:
        c = self.cursor
        unique = self.scopes[-1][name]
        match c.token.text:
            case ".callprototype":
                c.step()
                self.function.prototypes[unique] = self._prototype()
            case ".branchtargets" | ".calltargets" as word:
                c.step()
                names = [self._target(word)]
                while c.take(","):
                    names.append(self._target(word))
                c.need(";")
                table = self.function.branch_targets
                if word == ".calltargets":
                    table = self.function.call_targets
                table[unique] = tuple(names)
            case _:
                self.function.body.append(LabelMark(unique))

    def _target(self, word: str) -> str:
        name = self.cursor.kind("name", "a label").text
        return (self._resolve(name) or name) if word == ".branchtargets" else name

    def _prototype(self) -> Prototype:
        c = self.cursor
        returns = self._sizes() if c.sees("(") else ()
        c.kind("name", "`_`")
        parameters = self._sizes() if c.sees("(") else ()
        c.take(".noreturn")
        c.need(";")
        return Prototype(returns, parameters)

    def _sizes(self) -> tuple[int, ...]:
        c = self.cursor
        c.need("(")
        sizes: list[int] = []
        while not c.take(")"):
            sizes.append(parameter(c).size)
            if not c.sees(")"):
                c.need(",")
        return tuple(sizes)

    def _instruction(self) -> None:
        c = self.cursor
        first = c.token
        guard = self._guard() if c.sees("@") else None
        opcode = c.kind("name", "an instruction").text
        modifiers: list[str] = []
        while c.token.kind == "dot":
            modifiers.append(c.step().text[1:])
        operands: list[Operand] = []
        while not c.sees(";"):
            operands.append(self._renamed(c.operand()))
            if not c.sees(";"):
                c.need(",")
        last = c.step()
        end = last.col if last.line == first.line else first.col + 1
        place = Place(Loc(c.name, first.line, first.col, first.line, end), c.user)
        self.function.body.append(
            Instruction(opcode, tuple(modifiers), tuple(operands), guard, place)
        )

    def _guard(self) -> Guard:
        c = self.cursor
        c.need("@")
        negated = c.take("!")
        name = c.kind("name", "a predicate").text
        return Guard(self._resolve(name) or name, negated)

    def _renamed(self, operand: Operand) -> Operand:
        match operand:
            case Name(text, offset):
                return Name(self._resolve(text) or text, offset)
            case Address(Name(text, offset), extra):
                return Address(Name(self._resolve(text) or text, offset), extra)
            case Vector(items):
                return Vector(tuple(self._renamed(item) for item in items))
            case Pair(first, second):
                return Pair(self._renamed(first), self._renamed(second))
            case Negated(name):
                return Negated(Name(self._resolve(name.text) or name.text))
            case _:
                return operand
