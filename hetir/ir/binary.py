"""The compact binary form of hetIR; docs/ir-binary.md says what each byte means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import NoReturn, TypeVar

from hetir.diagnostics import CompileError
from hetir.ir.build import IllFormedError
from hetir.ir.core import (
    NO_ATTRS,
    Attr,
    Function,
    Kernel,
    Module,
    Operation,
    Options,
    Param,
    Region,
    Value,
)
from hetir.ir.fields import MAX_CALLERS, MAX_NESTING, MAX_TUPLES, is_file, type_fault
from hetir.ir.ops import TABLE
from hetir.ir.text import VERSION
from hetir.ir.types import SCALARS, ArrayType, RefType, Scalar, Type
from hetir.source import Loc

MAGIC = b"\x93HIR"
MAJOR, MINOR = 1, 0  # of the layout; VERSION says what the content means

_T = TypeVar("_T")
_FALSE, _TRUE, _INT, _STR, _TYPE, _TUPLE = range(6)
_SCALAR, _ARRAY, _REF = range(3)
_OPTIONS = tuple(field.name for field in fields(Options))
_DEFAULTS = Options()


class BinaryError(CompileError):
    """Bytes are not a module in hetIR's binary form.

    Cause: the file is damaged, cut short or of another kind. Fix: write it again.
    """

    code = "HET120"


class BinaryVersionError(BinaryError):
    """A module in binary form was written by a newer hetir than this one.

    Cause: hetIR grew since. Fix: read it with a hetir at least as new as the one that wrote it.
    """

    code = "HET121"


def encode(module: Module) -> bytes:
    """The bytes of a well-formed module, names and locations included; equal for equal modules."""
    writer = _Writer()
    writer.items(module.functions, writer.function)
    writer.items(module.kernels, writer.kernel)
    return writer.finish()


def decode(data: bytes) -> Module:
    """The module that bytes hold; it need not verify. Raises BinaryError, or of a newer version."""
    return _Reader(bytes(data)).module()


class _Table:
    """The distinct things of one kind, each written once and then referred to by its index."""

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.index: dict[object, int] = {}


class _Writer:
    def __init__(self) -> None:
        self.out = bytearray()
        self.strings, self.types, self.locs = _Table(), _Table(), _Table()
        self.numbers: dict[Value, int] = {}
        self.known: dict[int, int] = {}  # indices of locations, by identity
        self.string("")
        self.out.clear()

    def finish(self) -> bytes:
        """The whole file."""
        body, self.out = self.out, bytearray(MAGIC)
        for number in (MAJOR, MINOR, VERSION):
            self.uint(number)
        for table in (self.strings, self.types, self.locs):
            self.uint(len(table.index))
            self.out += table.bytes
        return bytes(self.out + body)

    # -- numbers, lists and tables

    def uint(self, number: int) -> None:
        """Seven bits a byte, the lowest first; the top bit says that more follow."""
        while number > 0x7F:
            self.out.append(number & 0x7F | 0x80)
            number >>= 7
        self.out.append(number)

    def sint(self, number: int) -> None:
        """A signed integer: twice its magnitude, less one if it is negative."""
        self.uint(number * 2 if number >= 0 else -number * 2 - 1)

    def items(self, items: tuple[_T, ...], write: Callable[[_T], object]) -> None:
        """A count and the items."""
        self.uint(len(items))
        for item in items:
            write(item)

    def entry(self, table: _Table, key: object, write: Callable[[], object]) -> int:
        """The index of `key` in a table, to which `write` adds it when it is new."""
        index = table.index.get(key)
        if index is None:
            saved, self.out = self.out, bytearray()
            write()
            table.bytes += self.out
            self.out = saved
            index = table.index[key] = len(table.index)
        return index

    def string(self, text: str) -> None:
        """A reference to a string."""
        self.uint(self.entry(self.strings, text, lambda: self.text(text)))

    def text(self, text: str) -> None:
        """A string itself."""
        data = text.encode("utf-8", "surrogatepass")
        self.uint(len(data))
        self.out += data

    def type(self, kind: Type) -> None:
        """A reference to a type."""
        self.uint(self.entry(self.types, kind, lambda: self.kind(kind)))

    def kind(self, kind: Type) -> None:
        """A type itself."""
        if isinstance(kind, Scalar):
            self.uint(_SCALAR)
            self.string(kind.name)
        elif isinstance(kind, RefType):
            self.uint(_REF)
            self.string(kind.space)
        else:
            self.uint(_ARRAY)
            self.string(kind.element.name)
            self.string(kind.space)
            self.uint(kind.ndim)
            self.uint(kind.align)
            self.uint((kind.shape is not None) | (kind.strides is not None) << 1)
            for extent in kind.shape or ():
                self.uint(extent)
            for stride in kind.strides or ():
                self.uint(0 if stride is None else stride + 1)

    def loc(self, loc: Loc | None) -> None:
        """0, or one more than a reference to a location."""
        if loc is None:
            self.uint(0)
            return
        index = self.known.get(id(loc))
        if index is None:
            index = self.known[id(loc)] = self.chain(loc)
        self.uint(index + 1)

    def chain(self, loc: Loc) -> int:
        """The index of a location, after its callers."""
        chain: list[Loc] = []
        step: Loc | None = loc
        while step is not None:
            chain.append(step)
            step = step.caller
        caller = 0
        for one in reversed(chain):
            place = (one.file, one.line, one.col, one.end_line, one.end_col, caller)
            caller = 1 + self.entry(self.locs, place, lambda: self.place(*place))  # noqa: B023
        return caller - 1

    def place(self, file: str, line: int, col: int, end_line: int, end_col: int, up: int) -> None:
        """A location itself."""
        self.string(file)
        self.uint(line)
        self.uint(col)
        self.sint(end_line - line)
        self.uint(end_col)
        self.uint(up)

    # -- kernels, functions, regions, operations

    def function(self, function: Function) -> None:
        """A function."""
        self.numbers = {}
        self.string(function.name)
        self.loc(function.loc)
        self.items(function.params, self.value)
        self.items(function.results, self.type)
        self.region(function.body)

    def kernel(self, kernel: Kernel) -> None:
        """A kernel; of its options only those that are not the default."""
        self.numbers = {}
        self.string(kernel.name)
        self.loc(kernel.loc)
        self.items(kernel.params, self.param)
        pairs = ((name, getattr(kernel.options, name)) for name in _OPTIONS)
        self.items(tuple(p for p in pairs if p[1] != getattr(_DEFAULTS, p[0])), self.pair)
        self.region(kernel.body)

    def param(self, param: Param) -> None:
        """A parameter with its source."""
        self.value(param.value)
        position, *path = param.source
        self.uint(int(position))
        self.items(tuple(map(str, path)), self.string)

    def value(self, value: Value) -> None:
        """A value where it is defined; values are numbered in the order of the bytes."""
        self.numbers[value] = len(self.numbers)
        self.type(value.type)
        self.string(value.name)

    def region(self, region: Region) -> None:
        """A region."""
        self.items(region.args, self.value)
        self.uint(len(region.body))
        for op in region.body:
            self.operation(op)

    def operation(self, op: Operation) -> None:
        """An operation."""
        self.string(op.name)
        self.loc(op.loc)
        self.uint(len(op.operands))
        for value in op.operands:
            if value not in self.numbers:
                raise IllFormedError(f"an operand of `{op.name}` is not defined before its use")
            self.uint(len(self.numbers) - 1 - self.numbers[value])
        self.items(op.results, self.value)
        self.items(tuple(sorted(op.attrs.items())), self.pair)
        self.uint(len(op.regions))
        for region in op.regions:
            self.region(region)

    def pair(self, pair: tuple[str, Attr]) -> None:
        """A name and an attribute."""
        self.string(pair[0])
        self.attr(pair[1])

    def attr(self, value: Attr) -> None:
        """The value of an attribute, after a byte that says its kind."""
        if isinstance(value, bool):
            self.uint(_TRUE if value else _FALSE)
        elif isinstance(value, int):
            self.uint(_INT)
            self.sint(value)
        elif isinstance(value, str):
            self.uint(_STR)
            self.string(value)
        elif isinstance(value, tuple):
            self.uint(_TUPLE)
            self.items(value, self.attr)
        else:
            self.uint(_TYPE)
            self.type(value)


class _Reader:
    """Reads bytes that may be anything: no size is believed before the bytes are there."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.strings: list[str] = []
        self.types: list[Type] = []
        self.locs: list[Loc] = []
        self.depths: list[int] = []  # callers of each location
        self.values: list[Value] = []

    def fail(self, message: str) -> NoReturn:
        """Raise the error at the current byte."""
        raise BinaryError(f"byte {self.at} of the binary hetIR: {message}")

    def module(self) -> Module:
        """Read all of the bytes."""
        minor = self.header()
        self.strings = self.items(self.text)
        self.types = self.items(self.kind)
        for _ in range(self.count()):
            self.place()
        functions = self.items(self.function)
        kernels = self.items(self.kernel)
        if self.at < len(self.data) and minor <= MINOR:
            self.fail("more bytes than the module has")
        return Module(kernels=tuple(kernels), functions=tuple(functions))

    def header(self) -> int:
        """Check the magic and the versions; the minor version of the layout."""
        if self.data[: len(MAGIC)] != MAGIC:
            self.fail("this is not hetIR")
        self.at = len(MAGIC)
        major, minor, version = self.uint(), self.uint(), self.uint()
        if major > MAJOR:
            raise BinaryVersionError(f"layout {major} is newer than {MAJOR}, the newest known here")
        if version > VERSION:
            raise BinaryVersionError(
                f"hetIR {version} is newer than {VERSION}, the newest known here"
            )
        if not major or not version:
            self.fail("versions count from 1")
        return minor

    # -- numbers, lists and tables

    def uint(self) -> int:
        """An unsigned integer, which has one spelling only."""
        number = shift = 0
        data, at = self.data, self.at
        while True:
            if at >= len(data):
                self.fail("the data ends in the middle")
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift > 63:
                self.fail("an integer has more than 10 bytes")
        if not byte and shift > 7:
            self.fail("an integer ends in a byte 0")
        self.at = at
        return number

    def sint(self) -> int:
        """A signed integer."""
        number = self.uint()
        return -(number + 1 >> 1) if number & 1 else number >> 1

    def count(self) -> int:
        """A number of things that take at least a byte each."""
        number = self.uint()
        if number > len(self.data) - self.at:
            self.fail(f"{number} items cannot be in the bytes that are left")
        return number

    def items(self, read: Callable[[], _T]) -> list[_T]:
        """A count and the items."""
        return [read() for _ in range(self.count())]

    def pick(self, table: list[_T]) -> _T:
        """The entry of a table that is referred to."""
        index = self.uint()
        if index >= len(table):
            self.fail(f"entry {index} of a table of {len(table)}")
        return table[index]

    def string(self) -> str:
        """A string by reference."""
        return self.pick(self.strings)

    def text(self) -> str:
        """A string itself."""
        size = self.count()
        data = self.data[self.at : self.at + size]
        try:
            text = data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            self.fail("a string is not UTF-8")
        self.at += size
        return text

    def kind(self) -> Type:
        """A type itself."""
        tag = self.uint()
        if tag == _SCALAR:
            return self.scalar()
        if tag == _REF:
            kind: Type = RefType(self.string())
        elif tag == _ARRAY:
            kind = self.array()
        else:
            self.fail(f"there is no kind {tag} of types")
        if problem := type_fault(kind):
            self.fail(problem)
        return kind

    def scalar(self) -> Scalar:
        """A scalar type by name."""
        name = self.string()
        if name not in SCALARS:
            self.fail(f"unknown scalar type `{name[:40]}`")
        return SCALARS[name]

    def array(self) -> ArrayType:
        """An array type."""
        element, space, ndim, align = self.scalar(), self.string(), self.count(), self.uint()
        flags = self.uint()
        shape = tuple([self.uint() for _ in range(ndim)]) if flags & 1 else None
        known = [self.uint() for _ in range(ndim)] if flags & 2 else None
        strides = None if known is None else tuple(s - 1 if s else None for s in known)
        return ArrayType(element, ndim, space, shape, strides, align)

    def place(self) -> None:
        """The next location; its caller must have come before."""
        file, line, col = self.string(), self.uint(), self.uint()
        end_line, end_col, up = line + self.sint(), self.uint(), self.uint()
        if up > len(self.locs):
            self.fail("a location comes before its caller")
        depth = self.depths[up - 1] + 1 if up else 0
        if not is_file(file) or end_line < 0 or depth >= MAX_CALLERS:
            self.fail("a location has no legal file, lines or callers")
        caller = self.locs[up - 1] if up else None
        self.locs.append(Loc(file, line, col, end_line, end_col, caller))
        self.depths.append(depth)

    def loc(self) -> Loc | None:
        """A location by reference, or None."""
        index = self.uint()
        if index > len(self.locs):
            self.fail(f"location {index} of {len(self.locs)}")
        return self.locs[index - 1] if index else None

    # -- kernels, functions, regions, operations

    def function(self) -> Function:
        """A function."""
        self.values = []
        name, loc = self.string(), self.loc()
        params = tuple(self.items(self.value))
        results = tuple(self.items(self.type))
        return Function(name=name, params=params, results=results, body=self.region(0), loc=loc)

    def kernel(self) -> Kernel:
        """A kernel."""
        self.values = []
        name, loc = self.string(), self.loc()
        params = tuple(self.items(self.param))
        values = self.pairs()
        if unknown := sorted(set(values) - set(_OPTIONS)):
            self.fail(f"unknown option `{unknown[0][:40]}`")
        options = Options(**values)  # pyright: ignore[reportArgumentType] - for the verifier
        return Kernel(name=name, params=params, body=self.region(0), options=options, loc=loc)

    def param(self) -> Param:
        """A parameter with its source."""
        value, position = self.value(), self.uint()
        return Param(value, (position, *self.items(self.string)))

    def type(self) -> Type:
        """A type by reference."""
        return self.pick(self.types)

    def value(self) -> Value:
        """The next value."""
        value = Value(self.type(), self.string())
        self.values.append(value)
        return value

    def region(self, depth: int) -> Region:
        """A region."""
        if depth > MAX_NESTING:
            self.fail(f"regions are nested deeper than {MAX_NESTING}")
        args = tuple(self.items(self.value))
        body: list[Operation] = []
        for _ in range(self.count()):
            body.append(self.operation(depth))  # noqa: PERF401 - fewer frames to recurse through
        return Region(args, tuple(body))

    def operation(self, depth: int) -> Operation:
        """An operation."""
        name, loc = self.string(), self.loc()
        spec = TABLE.get(name)
        if spec is None:
            self.fail(f"this hetir has no op `{name[:40]}`")
        operands = tuple(self.items(self.operand))
        results = tuple(self.items(self.value))
        attrs = self.pairs() or NO_ATTRS
        regions: list[Region] = []
        for _ in range(self.count()):
            regions.append(self.region(depth + 1))  # noqa: PERF401 - as above
        return Operation(spec, operands, results, attrs, tuple(regions), loc)

    def operand(self) -> Value:
        """A value by the number of values that were defined after it."""
        back = self.uint()
        if back >= len(self.values):
            self.fail("an operand comes before the first value")
        return self.values[-1 - back]

    def pairs(self) -> dict[str, Attr]:
        """Names and attributes; a name stands once."""
        pairs = [(self.string(), self.attr(0)) for _ in range(self.count())]
        if len(found := dict(pairs)) < len(pairs):
            self.fail("an attribute is given twice")
        return found

    def attr(self, depth: int) -> Attr:
        """The value of an attribute."""
        tag = self.uint()
        if tag in (_FALSE, _TRUE):
            return tag == _TRUE
        if tag == _INT:
            return self.sint()
        if tag == _STR:
            return self.string()
        if tag == _TYPE:
            return self.type()
        if tag != _TUPLE or depth >= MAX_TUPLES:
            self.fail(f"there is no kind {tag} of attributes here")
        return tuple([self.attr(depth + 1) for _ in range(self.count())])
