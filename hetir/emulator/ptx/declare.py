"""Declarations of variables, parameters and registers."""

from __future__ import annotations

from hetir.emulator.ptx.cursor import Cursor
from hetir.emulator.ptx.faults import PtxUnknownError
from hetir.emulator.ptx.syntax import Symbol, Variable
from hetir.emulator.ptx.types import TYPES, PtxType

_VECTORS = {".v2": 2, ".v4": 4, ".v8": 8}


def type_of(c: Cursor) -> PtxType:
    """A type, as `.f32`."""
    token = c.kind("dot", "a type")
    found = TYPES.get(token.text[1:])
    if found is None:
        raise PtxUnknownError(f"the type `{token.text}` is not known", c.place(token))
    return found


def declaration(c: Cursor, linking: str = "") -> list[Variable]:
    """`.space {.align n} {.vN} .type name {[n]} {= value} {, name ...};`."""
    space = c.step().text[1:]
    align, lanes, kind = _attributes(c)
    found: list[Variable] = []
    while True:
        place = c.place()
        name = c.kind("name", "a variable's name").text
        count = _extent(c)
        initial = tuple(_values(c)) if c.take("=") else None
        if count is None and initial is not None:
            count = len(initial)
        if count is None and linking != ".extern":
            raise c.fail("an extent")
        found.append(
            Variable(
                space=space,
                name=name,
                type=kind,
                count=None if count is None else count * lanes,
                align=align or kind.size * lanes,
                initial=initial,
                place=place,
            )
        )
        if not c.take(","):
            c.need(";")
            return found


def parameter(c: Cursor) -> Variable:
    """A parameter in a function's head or in a call prototype."""
    if c.token.text not in {".param", ".reg"}:
        raise c.fail("`.param` or `.reg`")
    space = c.step().text[1:]
    align, lanes, kind = _attributes(c)
    place = c.place()
    name = c.kind("name", "a parameter's name").text
    count = (_extent(c) or 1) * lanes
    align = align or kind.size * lanes
    return Variable(
        space=space, name=name, type=kind, count=count, align=align, initial=None, place=place
    )


def registers(c: Cursor) -> dict[str, PtxType]:
    """`.reg .type name, name<n>;`: the names and their types."""
    c.need(".reg")
    if c.token.text in _VECTORS:
        raise PtxUnknownError("vector registers are not executed", c.place())
    kind = type_of(c)
    found: dict[str, PtxType] = {}
    while True:
        name = c.kind("name", "a register's name").text
        if c.take("<"):
            count = c.integer()
            c.need(">")
            found.update((f"{name}{i}", kind) for i in range(count))
        else:
            found[name] = kind
        if not c.take(","):
            c.need(";")
            return found


def skip_section(c: Cursor) -> None:
    """`.section .debug_... { ... }`: debugging data, which has no meaning for execution."""
    token = c.kind("dot", "a section's name")
    if not token.text.startswith(".debug"):
        raise PtxUnknownError(f"the section `{token.text}` is not known", c.place(token))
    c.need("{")
    while not c.take("}"):
        if c.token.kind == "end":
            raise c.fail("`}`")
        c.step()


def _attributes(c: Cursor) -> tuple[int, int, PtxType]:
    align, lanes = 0, 1
    kind: PtxType | None = None
    while c.token.kind == "dot":
        word = c.token.text
        if word == ".align":
            c.step()
            align = c.integer()
        elif word in _VECTORS:
            c.step()
            lanes = _VECTORS[word]
        elif word == ".ptr":
            c.step()
            _pointer(c)
        elif kind is None:
            kind = type_of(c)
        else:
            raise PtxUnknownError(f"the attribute `{word}` is not known", c.place())
    if kind is None:
        raise c.fail("a type")
    return align, lanes, kind


def _pointer(c: Cursor) -> None:
    """`.ptr {.space} {.align n}`: what a parameter points to, which the accesses check."""
    if c.token.text in {".global", ".const", ".shared", ".local"}:
        c.step()
    if c.take(".align"):
        c.integer()


def _extent(c: Cursor) -> int | None:
    count = 1
    while c.take("["):
        if c.take("]"):
            return None
        count *= c.integer()
        c.need("]")
    return count


def _values(c: Cursor) -> list[int | float | Symbol]:
    if c.take("{"):
        found: list[int | float | Symbol] = []
        while not c.take("}"):
            found += _values(c)
            if not c.sees("}"):
                c.need(",")
        return found
    after = c.tokens[c.at + 1] if c.sees("-") else c.token
    if after.kind == "real":
        return [c.real().value]
    if after.kind == "int":
        return [c.integer()]
    name = c.kind("name", "a value").text
    generic = name == "generic" and c.take("(")
    if generic:
        name = c.kind("name", "a variable's name").text
    offset = c.integer() if c.take("+") else 0
    if generic:
        c.need(")")
        offset += c.integer() if c.take("+") else 0
    return [Symbol(name, offset, generic)]
