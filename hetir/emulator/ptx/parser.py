"""PTX text to a module."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Callable
from pathlib import PurePosixPath

from hetir.emulator.ptx.body import Body
from hetir.emulator.ptx.cursor import Cursor
from hetir.emulator.ptx.declare import declaration, parameter, skip_section
from hetir.emulator.ptx.faults import PtxUnknownError
from hetir.emulator.ptx.lexer import tokens
from hetir.emulator.ptx.syntax import Function, Module, Variable

_LINKING = (".visible", ".extern", ".weak", ".common")
_SPACES = (".global", ".const", ".shared")
_LIMITS = (".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".maxnreg")


def parse(text: str, name: str | None = None) -> Module:
    """Read a module; `name` stands for its file in messages, and its lines are kept for them."""
    if name is None:
        name = f"<ptx {hashlib.sha256(text.encode()).hexdigest()[:8]}>"
    if not PurePosixPath(name).is_absolute():
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    return _Parser(Cursor(tokens(text.rstrip("\0"), name), name)).module()


class _Parser:
    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.files: dict[int, str] = {}
        self.functions: dict[str, Function] = {}
        self.variables: dict[str, Variable] = {}
        self.version = self.target = ""

    def module(self) -> Module:
        c = self.cursor
        self._find_files()
        while c.token.kind != "end":
            self._item()
        if not self.version or not self.target:
            raise c.fail("`.version` and `.target`")
        return Module(
            name=c.name,
            version=self.version,
            target=self.target,
            functions=self.functions,
            variables=self.variables,
        )

    def _item(self) -> None:
        c = self.cursor
        linking = ""
        while c.token.text in _LINKING:
            linking = c.step().text
        word = c.token.text
        if word in {".entry", ".func"}:
            self._function()
        elif word in _SPACES:
            for variable in declaration(c, linking):
                self._declare(variable, linking)
        else:
            self._directive(word)

    def _declare(self, variable: Variable, linking: str) -> None:
        old = self.variables.get(variable.name)
        if old is None or linking != ".extern" or old.count is None:
            self.variables[variable.name] = variable

    def _directive(self, word: str) -> None:
        c = self.cursor
        known: dict[str, Callable[[], None]] = {
            ".version": self._version,
            ".target": self._target,
            ".address_size": self._address_size,
            ".file": self._file,
            ".section": lambda: skip_section(c),
            ".pragma": self._pragma,
        }
        action = known.get(word)
        if action is None:
            raise PtxUnknownError(f"the directive `{word}` is not known", c.place())
        c.step()
        action()

    def _version(self) -> None:
        self.version = self.cursor.kind("real", "a version").text

    def _target(self) -> None:
        c = self.cursor
        self.target = c.kind("name", "a target").text
        while c.take(","):
            option = c.kind("name", "a target option")
            if option.text != "debug":
                raise PtxUnknownError(
                    f"the target option `{option.text}` is not known", c.place(option)
                )

    def _address_size(self) -> None:
        c = self.cursor
        token = c.token
        if c.integer() != 64:
            raise PtxUnknownError("only `.address_size 64` is executed", c.place(token))

    def _find_files(self) -> None:
        """Read the files' names beforehand: `.file` may stand after the lines that name it."""
        rows = zip(self.cursor.tokens, self.cursor.tokens[1:], self.cursor.tokens[2:], strict=False)
        for word, number, name in rows:
            if word.text == ".file" and number.kind == "int" and name.kind == "string":
                self.files[int(number.text, 0)] = name.text[1:-1]

    def _file(self) -> None:
        c = self.cursor
        c.integer()
        c.kind("string", "a file name")
        if c.take(","):
            c.integers()

    def _pragma(self) -> None:
        self.cursor.kind("string", "a string")
        self.cursor.need(";")

    def _function(self) -> None:
        c = self.cursor
        is_entry = c.step().text == ".entry"
        returns = self._parameters() if not is_entry and c.sees("(") else ()
        place = c.place()
        name = c.kind("name", "a function's name").text
        parameters = self._parameters() if c.sees("(") else ()
        function = Function(
            name=name,
            is_entry=is_entry,
            returns=returns,
            parameters=parameters,
            place=place,
            limits=self._limits(),
        )
        if c.take(";"):
            self.functions.setdefault(name, function)
            return
        Body(c, function, self.files).parse()
        self.functions[name] = function

    def _limits(self) -> dict[str, tuple[int, ...]]:
        c = self.cursor
        limits: dict[str, tuple[int, ...]] = {}
        while c.token.kind == "dot":
            word = c.token.text
            if word in _LIMITS:
                c.step()
                limits[word[1:]] = c.integers()
            elif word == ".noreturn":
                c.step()
            elif word == ".pragma":
                c.step()
                self._pragma()
            else:
                raise PtxUnknownError(f"the directive `{word}` is not known", c.place())
        return limits

    def _parameters(self) -> tuple[Variable, ...]:
        c = self.cursor
        c.need("(")
        found: list[Variable] = []
        while not c.take(")"):
            found.append(parameter(c))
            if not c.sees(")"):
                c.need(",")
        return tuple(found)
