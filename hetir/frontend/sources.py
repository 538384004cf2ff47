"""From a Python function to its syntax tree, read once, with places in the user's file."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import sys
import textwrap
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hetir.diagnostics import Label
from hetir.frontend import liveness
from hetir.frontend.errors import SourceError, UnsupportedSyntaxError
from hetir.source import Loc, whole_line


@dataclass(frozen=True, slots=True, eq=False)
class FunctionSource:
    """One function's tree; `shift` is added to the tree's lines to get the file's."""

    node: ast.FunctionDef
    file: str
    shift: int
    lines: tuple[str, ...]
    flow: liveness.Flow
    locs: dict[ast.AST, Loc] = field(default_factory=dict[ast.AST, Loc])

    def loc(self, node: Any) -> Loc:
        """Where a node stands in the file."""
        if (found := self.locs.get(node)) is None:
            found = self.locs[node] = Loc(
                self.file,
                node.lineno + self.shift,
                self._column(node.lineno, node.col_offset),
                node.end_lineno + self.shift,
                self._column(node.end_lineno, node.end_col_offset),
            )
        return found

    def text(self, node: ast.AST) -> str:
        """The source of an expression on one line."""
        return ast.unparse(node)

    def _column(self, line: int, offset: int) -> int:
        # ast counts bytes, editors and carets count characters
        text = self.lines[line - 1]
        return offset if text.isascii() else len(text.encode()[:offset].decode())


_CACHE: dict[int, tuple[weakref.ref[types.CodeType], FunctionSource]] = {}


def source_of(function: Callable[..., object]) -> FunctionSource:
    """The syntax tree of a Python function, from the cache where it was read before."""
    code = function.__code__
    found = _CACHE.get(id(code))
    if found is not None and found[0]() is code:
        return found[1]
    source = _read(function, code)
    _CACHE[id(code)] = (weakref.ref(code, functools.partial(_forget, id(code))), source)
    return source


def _forget(key: int, _: object) -> None:
    _CACHE.pop(key, None)


def _read(function: Callable[..., object], code: types.CodeType) -> FunctionSource:
    name = function.__name__
    place = Label(whole_line(code.co_filename, code.co_firstlineno), "")
    if code.co_name == "<lambda>":
        raise SourceError(
            "a lambda cannot be compiled: Python does not say which part of the line it is",
            place,
            hint="write it with `def`",
        )
    text = _block(code)
    if text is None:
        raise SourceError(f"the source of `{name}` is not available", hint=_advice(code))
    return _parse(code, text, place)


def _parse(code: types.CodeType, text: list[str], place: Label) -> FunctionSource:
    """Parse a function's own lines; an indented one goes under an `if` that keeps columns."""
    indented = text[0][:1].isspace()
    lines = ["if 1:\n", *text] if indented else text
    stale = SourceError(
        f"the file of `{code.co_name}` changed after it was imported",
        place,
        hint="import it again",
    )
    try:
        (node,) = ast.parse("".join(lines)).body
    except (SyntaxError, ValueError):
        raise stale from None
    if isinstance(node, ast.If):
        node = node.body[0]
    if isinstance(node, ast.AsyncFunctionDef):
        raise UnsupportedSyntaxError(
            "`async def` has no meaning in a kernel", place, hint="write `def`"
        )
    if not isinstance(node, ast.FunctionDef) or _names(node) != _code_names(code):
        raise stale
    shift = code.co_firstlineno - 1 - int(indented)
    return FunctionSource(node, code.co_filename, shift, tuple(lines), liveness.analyse(node))


def _names(node: ast.FunctionDef) -> tuple[str, ...]:
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return (node.name, *(a.arg for a in plain))


def _code_names(code: types.CodeType) -> tuple[str, ...]:
    return (code.co_name, *code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def _block(code: types.CodeType) -> list[str] | None:
    """The lines of a function, decorators included."""
    file = code.co_filename
    if file == "<string>":
        _remember_command_line()
    linecache.checkcache(file)
    lines = linecache.getlines(file)
    if not 0 < code.co_firstlineno <= len(lines):
        return None
    return inspect.getblock(lines[code.co_firstlineno - 1 :])


def _remember_command_line() -> None:
    """Give `linecache` the text of `python -c`, which it keeps only from 3.13."""
    if "<string>" in linecache.cache or sys.argv[:1] != ["-c"]:
        return
    for position, argument in enumerate(sys.orig_argv[1:-1], 1):
        # -c ends a group of short options, as in -Ic
        if argument[:1] == "-" and argument[1:2] != "-" and argument.endswith("c"):
            # python -c strips the indentation from 3.14 on, and refuses it before
            text = textwrap.dedent(sys.orig_argv[position + 1])
            lines = [line + "\n" for line in text.splitlines()]
            linecache.cache["<string>"] = (len(text), None, lines, "<string>")
            return


def _advice(code: types.CodeType) -> str:
    if code.co_filename == "<stdin>":
        return "put it into a file or a notebook, or use the prompt of Python 3.13 or newer"
    return "put it into a file"
