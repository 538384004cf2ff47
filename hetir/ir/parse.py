"""The parser of the text form (see `hetir.ir.text`), driven by the op table."""

from __future__ import annotations

import difflib
import json
import linecache
import re
from collections.abc import Callable
from dataclasses import fields
from typing import NoReturn, TypeVar

from hetir.diagnostics import CompileError, Label, render
from hetir.ir.core import Attr, Function, Kernel, Module, Operation, Options, Param, Region, Value
from hetir.ir.fields import MAX_CALLERS, MAX_NESTING, MAX_TUPLES, is_file
from hetir.ir.literals import parse_constant
from hetir.ir.ops import CONST, TABLE, Spec
from hetir.ir.types import SCALARS, ArrayType, RefType, Scalar, Type
from hetir.source import Loc

VERSION = 1  # of hetIR: what the ops, types and structure of a text mean

IDENTIFIER = re.compile(r"[^\W\d]\w*")
NUMBERED = re.compile(r"[0-9]+")
RESERVED = frozenset({"true", "false", "inf", "nan", "array", "ref", *SCALARS})

_TOKEN = re.compile(
    r"""(?P<newline>\n)
    | (?P<blank>[ \t\r]+ | //[^\n]*)
    | (?P<value>%[\w.]+)
    | (?P<loc>@[0-9]+:[0-9]+(?::[0-9]+)?-[0-9]+(?::[0-9]+)?(?:\^[0-9]+)?)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<number>-?(?:inf\b | nan\b(?::0x[0-9a-f]+)? | [0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?))
    | (?P<word>[^\W\d]\w*(?:\.\w+)*)
    | (?P<mark>->|[(){}\[\]<>=,:?.])
    | (?P<other>.)""",
    re.VERBOSE,
)
_LOC = re.compile(r"@(?:(\d+):)?(\d+):(\d+)-(?:(\d+):)?(\d+)(?:\^(\d+))?")
_LONGEST = 64  # characters of a number
_T = TypeVar("_T")


class TextError(CompileError):
    """The text of a `.hir` file cannot be read.

    Cause: a word, number or mark where the text form has another one, a name used before
    its definition, or a file of a newer hetIR. Fix: what the caret points at.
    """

    code = "HET110"

    def __init__(
        self, message: str, loc: Loc | None = None, text: str = "", hint: str | None = None
    ) -> None:
        super().__init__(message, *((Label(loc, ""),) if loc else ()), hint=hint)
        if loc:
            # the text need not be on disk: let it be found like a source file, once
            lines = [f"{line}\n" for line in text.split("\n")]
            linecache.cache[loc.file] = (len(text), None, lines, loc.file)
        self.rendered = render(self)

    def __str__(self) -> str:
        return self.rendered


def parse_module(text: str, file: str = "<hir>") -> Module:
    """Read a module; it need not verify. Raises TextError with the place."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TextError(
            f"hetIR is read from text, got a `{type(text).__name__}`",
            hint="read a file first: `hetir.parse(path.read_text())`",
        )
    return _Parser(text, file).module()


def parse_kernel(text: str, file: str = "<hir>") -> Kernel:
    """Read a text that holds one kernel and nothing else."""
    parser = _Parser(text, file)
    module = parser.module()
    if len(module.kernels) != 1 or module.functions:
        parser.at = 0
        parser.fail("expected one kernel and no functions")
    return module.kernels[0]


class _Parser:
    """Reads tokens from left to right; `env` holds the values of one kernel or function."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file
        self.kinds: list[str] = []
        self.words: list[str] = []
        self.starts: list[int] = []
        self.at = 0
        self.files: list[str] = []
        self.callers: list[Loc] = []
        self.depths: dict[int, int] = {}  # how many callers a caller has, by identity
        self.locs: dict[str, Loc] = {}
        self.env: dict[str, Value] = {}
        self.scan()

    def scan(self) -> None:
        """Split the text; newlines inside parentheses and brackets do not count."""
        depth = 0
        for match in _TOKEN.finditer(self.text):
            kind, word = match.lastgroup or "", match.group()
            if kind == "blank" or (kind == "newline" and depth > 0):
                continue
            if kind == "mark":
                depth += (word in "([<") - (word in ")]>")
            self.kinds.append(kind)
            self.words.append(word)
            self.starts.append(match.start())
        for _ in range(3):
            self.kinds.append("end")
            self.words.append("")
            self.starts.append(len(self.text))

    # -- tokens

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        """Raise the error at the current token."""
        start = self.starts[self.at]
        line = self.text.count("\n", 0, start)
        col = start - (self.text.rfind("\n", 0, start) + 1)
        loc = Loc(self.file, line + 1, col, line + 1, col + len(self.words[self.at]))
        raise TextError(message, loc, self.text, hint)

    def expected(self, what: str) -> NoReturn:
        """Raise the error that something else was expected here."""
        kind, word = self.kinds[self.at], self.words[self.at]
        got = {"newline": "the end of the line", "end": "the end of the text"}.get(kind)
        self.fail(f"expected {what}, got {got or f'`{word[:40]}`'}")

    def take(self, kind: str, what: str) -> str:
        """The next token, which must be of this kind."""
        if self.kinds[self.at] != kind:
            self.expected(what)
        self.at += 1
        return self.words[self.at - 1]

    def mark(self, word: str) -> None:
        """The next token, which must be this mark or word."""
        if not self.see(word):
            self.expected(f"`{word}`")
        self.at += 1

    def see(self, word: str) -> bool:
        """Whether the next token is this mark or word."""
        return self.words[self.at] == word and self.kinds[self.at] in ("mark", "word")

    def skip(self, word: str) -> bool:
        """Take the next token if it is this mark or word."""
        found = self.see(word)
        self.at += found
        return found

    def lines(self) -> None:
        """Skip line ends."""
        while self.kinds[self.at] == "newline":
            self.at += 1

    def items(self, close: str, item: Callable[[], _T]) -> list[_T]:
        """Items between commas, up to and with a closing mark."""
        found: list[_T] = []
        while not self.see(close):
            found.append(item())
            if not self.skip(","):
                break
        self.mark(close)
        return found

    def integer(self) -> int:
        """The next token, which must be an integer."""
        word = self.take("number", "an integer")
        if len(word) > _LONGEST or not word.removeprefix("-").isdecimal():
            self.at -= 1
            self.expected("an integer")
        return int(word)

    def string(self) -> str:
        """The next token, which must be a string in JSON's notation."""
        word = self.take("string", "a string")
        try:
            return str(json.loads(word))
        except ValueError:
            self.at -= 1
            self.fail("this string cannot be read", hint="write it as JSON does")

    def word(self, what: str) -> str:
        """A name: a word, or a string."""
        return self.string() if self.kinds[self.at] == "string" else self.take("word", what)

    # -- modules, kernels and functions

    def module(self) -> Module:
        """Read all of the text."""
        self.lines()
        if self.skip("hetir"):
            self.version()
        kernels: list[Kernel] = []
        functions: list[Function] = []
        self.lines()
        while self.kinds[self.at] != "end":
            if self.skip("kernel"):
                kernels.append(self.kernel())
            elif self.skip("func"):
                functions.append(self.function())
            elif self.skip("file"):
                self.table(len(self.files))
                self.files.append(self.file_name())
            elif self.skip("caller"):
                self.table(len(self.callers))
                self.callers.append(self.caller())
            else:
                self.expected("`kernel`, `func`, `file` or `caller`")
            self.line_end()
        return Module(kernels=tuple(kernels), functions=tuple(functions))

    def version(self) -> None:
        """Refuse what a newer hetIR wrote."""
        version = self.integer()
        if not 1 <= version <= VERSION:
            self.at -= 1
            self.fail(f"this text is hetIR {version}, and hetIR 1 to {VERSION} can be read")
        self.line_end()

    def line_end(self) -> None:
        """Nothing more may stand on the line; go to the next one that is not empty."""
        if self.kinds[self.at] not in ("newline", "end"):
            self.expected("the end of the line")
        self.lines()

    def table(self, index: int) -> None:
        """The number and `=` of a `file` or `caller` line."""
        if self.integer() != index:
            self.at -= 1
            self.expected(f"`{index}`: these lines are numbered from 0")
        self.mark("=")

    def file_name(self) -> str:
        """A string that could name a file."""
        name = self.string()
        if not is_file(name):
            self.at -= 1
            self.fail("no file can have this name")
        return name

    def caller(self) -> Loc:
        """The location on a `caller` line."""
        loc = self.loc() or self.expected("a location")
        depth = 1 if loc.caller is None else self.depths[id(loc.caller)] + 1
        if depth >= MAX_CALLERS:
            self.at -= 1
            self.fail(f"a location has at most {MAX_CALLERS} callers")
        self.depths[id(loc)] = depth
        return loc

    def kernel(self) -> Kernel:
        """Read a kernel after its keyword."""
        self.env = {}
        name = self.word("the name of the kernel")
        self.mark("(")
        params = tuple(self.items(")", self.param))
        options = self.options()
        body, loc = self.region(0)
        return Kernel(name=name, params=params, body=body, options=options, loc=loc)

    def function(self) -> Function:
        """Read a function after its keyword."""
        self.env = {}
        name = self.word("the name of the function")
        self.mark("(")
        params = tuple(self.items(")", self.argument))
        results = [self.type()] if self.skip("->") else []
        while results and self.skip(","):
            results.append(self.type())
        body, loc = self.region(0)
        return Function(name=name, params=params, results=tuple(results), body=body, loc=loc)

    def param(self) -> Param:
        """A kernel parameter and its source."""
        value = self.argument()
        self.mark("from")
        source: list[int | str] = [self.integer()]
        while self.skip("."):
            quoted = self.kinds[self.at] == "string"
            field = self.word("the name of a field")
            source += [field] if quoted else field.split(".")
        return Param(value, tuple(source))

    def options(self) -> Options:
        """What stands between a kernel's parameters and its body."""
        values: dict[str, Attr] = {}
        names = [field.name for field in fields(Options)]
        while self.kinds[self.at] == "word":
            if self.words[self.at] not in names:
                self.expected(f"`{{` or one of the options {', '.join(names)}")
            name = self.words[self.at]
            self.at += 1
            self.mark("=")
            values[name] = self.attr()
        return Options(**values)  # pyright: ignore[reportArgumentType] - for the verifier

    # -- regions and operations

    def region(self, depth: int) -> tuple[Region, Loc | None]:
        """Arguments, braces and operations; after the brace a location may stand."""
        if depth > MAX_NESTING:
            self.fail(f"regions are nested deeper than {MAX_NESTING}")
        args = tuple(self.items(")", self.argument)) if self.skip("(") else ()
        self.mark("{")
        loc = self.loc()
        body: list[Operation] = []
        self.line_end()
        while not self.see("}"):
            body.append(self.operation(depth))
            self.line_end()
        self.mark("}")
        return Region(args, tuple(body)), loc

    def operation(self, depth: int) -> Operation:
        """One operation with its regions."""
        starts: list[int] = []
        types: list[Type] = []
        while self.kinds[self.at] == "value":
            starts.append(self.at)
            types.append(self.typed())
            if not self.skip(","):
                break
        if starts:
            self.mark("=")
        spec = self.spec()
        operands = self.operands()
        attrs = self.attrs(spec, types)
        loc = self.loc()
        regions: list[Region] = []
        more = loc is None and (self.see("(") or self.see("{"))
        while more:
            region, place = self.region(depth + 1)
            regions.append(region)
            loc = loc or place
            more = self.skip("else")
        results = tuple(self.define(*pair) for pair in zip(starts, types, strict=True))
        return Operation(spec, operands, results, attrs, tuple(regions), loc)

    def spec(self) -> Spec:
        """The row of the op that is named here."""
        name = self.take("word", "the name of an op")
        if name not in TABLE:
            self.at -= 1
            near = difflib.get_close_matches(name[:40], TABLE, n=1)
            self.fail(f"there is no op `{name[:40]}`", f"write `{near[0]}`" if near else None)
        return TABLE[name]

    def operands(self) -> tuple[Value, ...]:
        """Values between commas, up to something else."""
        found: list[Value] = []
        while self.kinds[self.at] == "value" or found:
            name = self.take("value", "a value")
            if name not in self.env:
                self.at -= 1
                self.fail(f"`{name}` is not defined before this place")
            found.append(self.env[name])
            if not self.skip(","):
                break
        return tuple(found)

    def attrs(self, spec: Spec, types: list[Type]) -> dict[str, Attr]:
        """`name=value` pairs, the number of a `const`, and what the result's type implies."""
        attrs: dict[str, Attr] = {}
        implied = types[0] if len(types) == 1 else None
        for name, kind in spec.attrs.items():
            if implied is not None and type(implied) is kind:
                attrs[name] = implied
        if spec is CONST and isinstance(implied, Scalar) and self.words[self.at + 1] != "=":
            attrs["bits"] = self.number(implied)
        while self.kinds[self.at] == "word":
            name = self.words[self.at]
            self.at += 1
            self.mark("=")
            attrs[name] = self.attr()
        return attrs

    def number(self, kind: Scalar) -> int:
        """The bits of a constant."""
        word = self.words[self.at]
        if self.kinds[self.at] not in ("number", "word") or len(word) > _LONGEST:
            self.expected("a number")
        try:
            bits = parse_constant(kind, word)
        except ValueError as error:
            self.fail(str(error))
        self.at += 1
        return bits

    # -- values, attributes, types, locations

    def typed(self) -> Type:
        """`%name: type`, of which the type is given back."""
        self.take("value", "a value")
        self.mark(":")
        return self.type()

    def argument(self) -> Value:
        """`%name: type`, which defines the value."""
        start = self.at
        return self.define(start, self.typed())

    def define(self, start: int, kind: Type) -> Value:
        """A new value, named by the token at `start`."""
        name = self.words[start]
        if name in self.env:
            self.at = start
            self.fail(f"`{name}` is defined twice", hint="give one of the two another name")
        hint = "" if NUMBERED.fullmatch(name, 1) else name[1:]
        value = self.env[name] = Value(kind, hint)
        return value

    def attr(self, depth: int = 0) -> Attr:
        """The value of an attribute."""
        kind, word = self.kinds[self.at], self.words[self.at]
        if kind == "number":
            return self.integer()
        if kind == "string":
            return self.string()
        if self.see("[") and depth < MAX_TUPLES:
            self.at += 1
            return tuple(self.items("]", lambda: self.attr(depth + 1)))
        if word in SCALARS or (word in ("array", "ref") and self.words[self.at + 1] == "<"):
            return self.type()
        word = self.take("word", "an attribute")
        return word == "true" if word in ("true", "false") else word

    def type(self) -> Type:
        """A type."""
        word = self.take("word", "a type")
        if word in SCALARS:
            return SCALARS[word]
        if word not in ("array", "ref"):
            self.at -= 1
            self.expected("a type")
        self.mark("<")
        kind = self.array() if word == "array" else RefType(self.take("word", "a space"))
        self.mark(">")
        return kind

    def array(self) -> ArrayType:
        """What an array type says between its brackets."""
        element = self.type()
        if not isinstance(element, Scalar):
            self.at -= 1
            self.expected("a scalar type")
        dims = self.items("]", self.dimension) if self.skip("[") else None
        self.mark(",")
        space, align = self.take("word", "a space"), 0
        if self.skip(","):
            self.mark("align")
            align = self.integer()
        extents = tuple(extent for extent, _ in dims or () if extent is not None)
        if dims and 0 < len(extents) < len(dims):
            self.fail("the extents of an array are all numbers or all `?`")
        shape = extents if dims is None or extents else None
        strides = tuple(stride for _, stride in dims or ())
        return ArrayType(element, len(strides), space, shape, strides, align)

    def dimension(self) -> tuple[int | None, int | None]:
        """An extent and the stride that is known, each None where it is not."""
        extent = None if self.skip("?") else self.integer()
        return extent, self.integer() if self.skip(":") else None

    def loc(self) -> Loc | None:
        """A location, if one stands here."""
        word = self.words[self.at]
        if self.kinds[self.at] != "loc":
            return None
        if word not in self.locs:
            self.locs[word] = self.place(word)
        self.at += 1
        return self.locs[word]

    def place(self, word: str) -> Loc:
        """The location that a token spells."""
        match = _LOC.fullmatch(word)
        if match is None or max(map(len, filter(None, match.groups()))) > 18:
            self.expected("a location")
        numbers = [int(group) if group else None for group in match.groups()]
        file, line, col, end_line, end_col, caller = numbers
        if (file or 0) >= len(self.files) or (caller is not None and caller >= len(self.callers)):
            self.fail("this location names a `file` or `caller` that the text does not list")
        outer = None if caller is None else self.callers[caller]
        assert line is not None
        assert col is not None
        assert end_col is not None
        end_line = line if end_line is None else end_line
        return Loc(self.files[file or 0], line, col, end_line, end_col, outer)
