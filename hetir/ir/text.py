"""The text form of hetIR, driven by the op table: printer here, parser in `hetir.ir.parse`.

An example stands in docs/ir.md. `@line:col-end` is a location in file 0, and
`@file:line:col-line:col^n` the whole of it, with `n` the `caller` line that says where the
helper was called. An attribute that repeats the type of the result is left out. `//` starts a
comment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields

from hetir.ir.core import Attr, Function, Kernel, Module, Operation, Options, Param, Region, Value
from hetir.ir.literals import print_constant
from hetir.ir.ops import CONST
from hetir.ir.parse import IDENTIFIER, NUMBERED, RESERVED, VERSION, parse_kernel, parse_module
from hetir.ir.types import Scalar, Type
from hetir.source import Loc

__all__ = ["VERSION", "parse_kernel", "parse_module", "print_kernel", "print_module"]

_DEFAULTS = Options()
_WIDTH = 100


def print_module(module: Module, *, locations: bool = True, names: bool = True) -> str:
    """Spell out a module so that `parse_module` gives it back.

    Locations, and the names of values, may be left out.
    """
    printer = _Printer(locations=locations, names=names)
    for unit in (*module.functions, *module.kernels):
        printer.lines.append("")
        printer.unit(unit)
    return "\n".join([f"hetir {VERSION}", *printer.tables(), *printer.lines, ""])


def print_kernel(kernel: Kernel, *, locations: bool = True) -> str:
    """Spell out one kernel, without the line that states the version."""
    printer = _Printer(locations=locations)
    printer.unit(kernel)
    tables = printer.tables()
    return "\n".join([*tables, *([""] if tables else []), *printer.lines, ""])


class _Printer:
    """Collects lines, and the files and callers that their locations refer to."""

    def __init__(self, *, locations: bool, names: bool = True) -> None:
        self.locations = locations
        self.named = names
        self.lines: list[str] = []
        self.files: dict[str, int] = {}
        self.callers: dict[str, int] = {}
        self.shown: dict[int, str] = {}  # locations, by identity
        self.types: dict[Type, str] = {}
        self.names: dict[Value, str] = {}
        self.taken: dict[str, int] = {}  # a name to the next suffix to try for it
        self.unnamed = 0

    def tables(self) -> list[str]:
        """The lines that come before the kernels: files and callers."""
        files = [f"file {index} = {_quote(name)}" for name, index in self.files.items()]
        return files + [f"caller {index} = {text}" for text, index in self.callers.items()]

    def unit(self, unit: Kernel | Function) -> None:
        """Print a kernel or function."""
        self.names, self.taken, self.unnamed = {}, {}, 0
        if isinstance(unit, Kernel):
            head, tail = f"kernel {_word(unit.name)}", _options(unit.options)
            params = [f"{self.typed(p.value)} from {_source(p)}" for p in unit.params]
        else:
            head = f"func {_word(unit.name)}"
            tail = " -> " + ", ".join(map(self.type, unit.results)) if unit.results else ""
            params = [self.typed(value) for value in unit.params]
        line = f"{head}({', '.join(params)}){tail}"
        if len(line) + 2 > _WIDTH:
            line = f"{head}(\n  " + ",\n  ".join(params) + f"\n){tail}"
        self.lines.append(f"{line} {{{self.loc(unit.loc)}")
        self.body(unit.body, "  ")
        self.lines.append("}")

    def body(self, region: Region, indent: str) -> None:
        """Print the operations of a region."""
        for op in region.body:
            self.operation(op, indent)

    def operation(self, op: Operation, indent: str) -> None:
        """Print one operation; the location ends its first line."""
        results = ", ".join(map(self.typed, op.results))
        operands = ", ".join(map(self.name, op.operands))
        words = [f"{results} = {op.name}" if results else op.name, operands, *self.attrs(op)]
        line = indent + " ".join(filter(None, words))
        loc = self.loc(op.loc)
        for index, region in enumerate(op.regions):
            args = f" ({', '.join(map(self.typed, region.args))})" if region.args else ""
            head = f"{indent}}} else" if index else line
            self.lines.append(f"{head}{args} {{{'' if index else loc}")
            self.body(region, indent + "  ")
        self.lines.append(f"{indent}}}" if op.regions else f"{line}{loc}")

    def attrs(self, op: Operation) -> Iterator[str]:
        """The attributes as words, in the order of the table."""
        known = op.spec.attrs
        implied = op.results[0].type if len(op.results) == 1 else None
        for name in (*known, *sorted(set(op.attrs) - set(known))):
            value = op.attrs.get(name)
            if value is None or (type(value) is known.get(name) and value == implied):
                continue
            number = _constant(op, implied) if name == "bits" else None
            bare = isinstance(known.get(name), tuple)
            yield number or f"{name}={_attr(value, bare=bare)}"

    def typed(self, value: Value) -> str:
        """A value where it is defined."""
        return f"{self.name(value)}: {self.type(value.type)}"

    def type(self, kind: Type) -> str:
        """The spelling of a type."""
        text = self.types.get(kind)
        if text is None:
            text = self.types[kind] = str(kind)
        return text

    def name(self, value: Value) -> str:
        """The name of a value, unlike any other's in its kernel or function."""
        name = self.names.get(value)
        if name is None:
            name = self.names[value] = f"%{self.fresh(value.name if self.named else '')}"
        return name

    def fresh(self, hint: str) -> str:
        """A new name: the hint, the hint and a number, or a number."""
        if not hint or NUMBERED.fullmatch(hint):
            self.unnamed += 1
            return str(self.unnamed - 1)
        if not _HINT.fullmatch(hint):
            hint = re.sub(r"[^\w.]", "_", hint)
            hint = hint if _HINT.fullmatch(hint) else f"_{hint}"
        name = hint
        while name in self.taken:
            name = f"{hint}.{self.taken[hint]}"
            self.taken[hint] += 1
        self.taken[name] = 1
        return name

    def loc(self, loc: Loc | None) -> str:
        """A location with a space before it, or nothing."""
        if loc is None or not self.locations:
            return ""
        text = self.shown.get(id(loc))
        if text is None:
            text = self.shown[id(loc)] = f" {self.place(loc)}"
        return text

    def place(self, loc: Loc) -> str:
        """The spelling of a location; its callers get lines of their own."""
        chain: list[Loc] = []
        step: Loc | None = loc
        while step is not None:
            chain.append(step)
            step = step.caller
        text = ""
        for one in reversed(chain):
            if text:
                text = f"^{self.callers.setdefault(text, len(self.callers))}"
            file = self.files.setdefault(one.file, len(self.files))
            head = f"@{file}:" if file else "@"
            end = f"{one.end_line}:" if one.end_line != one.line else ""
            text = f"{head}{one.line}:{one.col}-{end}{one.end_col}{text}"
        return text


_HINT = re.compile(r"[^\W\d][\w.]*")


def _constant(op: Operation, kind: Type | None) -> str | None:
    """The number that a well-formed `const` stands for."""
    bits = op.attrs["bits"]
    if op.spec is not CONST or not isinstance(kind, Scalar) or op.attrs.get("type") != kind:
        return None
    fits = type(bits) is int and 0 <= bits < 1 << kind.bits
    return print_constant(kind, bits) if fits else None


def _options(options: Options) -> str:
    """The options that are not the default."""
    pairs = ((f.name, getattr(options, f.name)) for f in fields(Options))
    changed = ((name, v) for name, v in pairs if v != getattr(_DEFAULTS, name))
    return "".join(f" {name}={_attr(value, bare=True)}" for name, value in changed)


def _source(param: Param) -> str:
    position, *path = param.source
    return ".".join([str(position), *(_word(str(field)) for field in path)])


def _attr(value: Attr, *, bare: bool = False) -> str:
    """The spelling of an attribute; strings go without quotes where the table lists them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _word(value) if bare else _quote(value)
    if isinstance(value, tuple):
        return f"[{', '.join(_attr(v) for v in value)}]"
    return str(value)


def _word(text: str) -> str:
    return text if IDENTIFIER.fullmatch(text) and text not in RESERVED else _quote(text)


def _quote(text: str) -> str:
    lone = any("\ud800" <= c <= "\udfff" for c in text)  # not to be written as UTF-8
    return json.dumps(text, ensure_ascii=lone)
