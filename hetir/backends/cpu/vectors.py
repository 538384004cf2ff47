"""Values of a lane vector, and masks over its lanes.

A vector of `width` lanes runs consecutive work-items, which may be several whole rows of a
workgroup. What is the same in all lanes stays a scalar. An i64 that grows by a fixed step from lane
to lane is kept as its first lane and the step, so that addresses stay scalar.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetir.backends.llvm.code import scalar_type
from hetir.ir.core import Value
from hetir.ir.types import BOOL, Type

if TYPE_CHECKING:
    from hetir.backends.cpu.emit import Emitter

NONE = "zeroinitializer"
_WORDS = (8, 16, 32, 64)  # bits


@dataclass(frozen=True, slots=True)
class Rep:
    """How a value is held.

    `kind` is `same` (one scalar), `line` (i64: `name` in lane 0, `step` more in each next
    lane), `pattern` (i64: `name`, and one of `offsets` more in each lane), `lanes` (an LLVM
    vector), `rows` (`names[r]` in the first lane of the vector's row r, `step` more, which only
    an i64 has, in each next lane of the row) or `private` (the address of the lanes' own arrays,
    interleaved: element e of lane l lies at (e * width + l) elements).
    """

    kind: str
    name: str
    step: int = 0
    offsets: tuple[int, ...] = ()
    names: tuple[str, ...] = ()


def signed(number: int) -> int:
    """An i64 by its bits, which is how LLVM's text may have it, as the number that it is."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


@dataclass(frozen=True, slots=True)
class Span:
    """A mask of neighbouring lanes, from `low` to before `high`, which may lie outside.

    Scalars tell whether all or any lanes are on, so that the mask itself is seldom made.
    """

    low: str
    high: str


class Vectors:
    """Holds what the lanes know under `mask` (None: all lanes are on).

    The lanes are `rows` whole rows of work-items, or some of one row, of `columns` lanes each.
    """

    def __init__(self, host: Emitter, width: int, rows: int = 1) -> None:
        self.host = host
        self.code = host.code
        self.width = width
        self.rows = rows
        self.columns = width // rows
        self.reps: dict[Value, Rep] = {}
        self.mask: str | None = None
        self.linear = "0"
        self.local: tuple[Rep, ...] = ()
        self.spans: dict[str, Span] = {}
        self.by_row: dict[str, tuple[str, ...]] = {}  # masks that take a scalar a row
        self.factors: dict[str, tuple[str, str]] = {}  # masks that are `scalar and mask`
        self.sums: dict[str, tuple[str, int]] = {}  # names that are another one and a constant
        self.multiples: set[str] = set()  # names of numbers that are multiples of the width

    # ---- values ------------------------------------------------------------------------

    def rep(self, value: Value) -> Rep:
        """How a value is held; what the level knows is the same in all lanes."""
        found = self.reps.get(value)
        return Rep("same", self.host.outer[value]) if found is None else found

    def of(self, scalar: str) -> str:
        """The vector type of an LLVM type."""
        return f"<{self.width} x {scalar}>"

    @contextmanager
    def wide(self) -> Generator[None]:
        """Rules emit vectors inside."""
        self.code.lanes = self.width
        yield
        self.code.lanes = 0

    def splat(self, scalar: str, name: str, lanes: int = 0) -> str:
        """One scalar in every one of `lanes`, the vector's unless given."""
        if not name.startswith("%"):
            return f"splat ({scalar} {name})"
        lanes = lanes or self.width
        code, vector = self.code, f"<{lanes} x {scalar}>"
        one = code.add(f"insertelement {vector} poison, {scalar} {name}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        return code.add(f"shufflevector {vector} {one}, {vector} poison, {zeros}")

    def row(self, scalar: str, step: int, lanes: int = 0) -> str:
        """The constant 0, step, 2 * step, ..."""
        numbers = (f"{scalar} {lane * step}" for lane in range(lanes or self.width))
        return f"<{', '.join(numbers)}>"

    def join(self, pieces: Sequence[str], scalar: str) -> str:
        """Vectors of equal lengths, one after the other; their number is a power of two."""
        part = self.width // len(pieces)
        while len(pieces) > 1:
            vector, order = f"<{part} x {scalar}>", ", ".join(f"i32 {n}" for n in range(2 * part))
            pairs = list(zip(pieces[::2], pieces[1::2], strict=True))
            made = {
                (a, b): f"shufflevector {vector} {a}, {vector} {b}, <{2 * part} x i32> <{order}>"
                for a, b in pairs
            }
            names = {pair: self.code.add(text) for pair, text in made.items()}
            pieces = [names[pair] for pair in pairs]
            part *= 2
        return pieces[0]

    def part(self, name: str, scalar: str, index: int, lanes: int) -> str:
        """The `index`-th run of `lanes` lanes of a vector."""
        order = ", ".join(f"i32 {n}" for n in range(index * lanes, (index + 1) * lanes))
        vector = f"{self.of(scalar)} {name}, {self.of(scalar)} poison"
        return self.code.add(f"shufflevector {vector}, <{lanes} x i32> <{order}>")

    def vector(self, value: Value) -> str:
        """A value as an LLVM vector."""
        return self.spread(self.rep(value), value.type)

    def spread(self, rep: Rep, kind: Type) -> str:
        """Any way of holding as an LLVM vector."""
        scalar = scalar_type(kind)
        if rep.kind == "lanes":
            return rep.name
        if rep.kind == "rows":
            if kind == BOOL and self.columns in _WORDS:
                return self._row_masks(rep.names)
            made = {name: self._spread_row(name, rep.step, scalar) for name in rep.names}
            return self.join([made[name] for name in rep.names], scalar)
        first = self.splat(scalar, rep.name)
        if rep.kind == "same":
            return first
        if rep.kind == "pattern":
            each = ", ".join(f"{scalar} {signed(offset)}" for offset in rep.offsets)
            return self.code.add(f"add {self.of(scalar)} {first}, <{each}>")
        return self.code.add(f"add {self.of(scalar)} {first}, {self.row(scalar, rep.step)}")

    def _row_masks(self, names: Sequence[str]) -> str:
        """The mask of rows that take a flag each, by words: bits take LLVM hundreds of ops."""
        code, word = self.code, f"i{self.columns}"
        vector, words = f"<{self.rows} x {word}>", "poison"
        for row, name in enumerate(names):
            one = code.add(f"sext i1 {name} to {word}")
            words = code.add(f"insertelement {vector} {words}, {word} {one}, i64 {row}")
        mask = code.add(f"bitcast {vector} {words} to {self.of('i1')}")
        self.by_row[mask] = tuple(names)
        return mask

    def _spread_row(self, name: str, step: int, scalar: str) -> str:
        """One row of a value that is held by rows."""
        vector, first = f"<{self.columns} x {scalar}>", self.splat(scalar, name, self.columns)
        if step:
            first = self.code.add(f"add {vector} {first}, {self.row(scalar, step, self.columns)}")
        return first

    def scalar(self, rep: Rep, kind: Type) -> str:
        """The value of the first lane that is on, for values that are alike in all of them."""
        if rep.kind == "same":
            return rep.name
        vector = self.spread(rep, kind)
        lane = self.first_lane()
        return self.code.add(f"extractelement {self.of(scalar_type(kind))} {vector}, i64 {lane}")

    def bits(self, mask: str | None) -> str:
        """The mask as an integer, one bit a lane."""
        if mask is None:
            return "-1"
        return self.code.add(f"bitcast {self.of('i1')} {mask} to i{self.width}")

    def first_lane(self) -> str:
        """The first lane that is on."""
        if self.mask is None:
            return "0"
        count = f"i{self.width}"
        bits = self.bits(self.mask)
        name = self.code.intrinsic("cttz", count, (count, bits), ("i1", "false"))
        return self.as_index(name)

    def as_index(self, lane: str) -> str:
        """A lane number of the mask's integer type as i64."""
        if self.width == 64:
            return lane
        if self.width > 64:
            return self.code.add(f"trunc i{self.width} {lane} to i64")
        return self.code.add(f"zext i{self.width} {lane} to i64")

    def multiple(self, name: str) -> bool:
        """Whether a number is known to be a multiple of the width."""
        return name in self.multiples or (name.isdecimal() and int(name) % self.width == 0)

    # ---- masks -------------------------------------------------------------------------

    def both(self, a: str | None, b: str) -> str:
        """The lanes of two masks."""
        if a is None:
            return b
        if NONE in (a, b):
            return NONE
        name = self.code.add(f"and {self.of('i1')} {a}, {b}")
        if a in self.spans and b in self.spans:
            self.spans[name] = self._overlap(self.spans[a], self.spans[b])
        return name

    def _overlap(self, a: Span, b: Span) -> Span:
        """The lanes of two spans."""
        code, pairs = self.code, (("smax", a.low, b.low), ("smin", a.high, b.high))
        low, high = (
            x if x == y else code.intrinsic(name, "i64", ("i64", x), ("i64", y))
            for name, x, y in pairs
        )
        return Span(low, high)

    def either(self, a: str | None, b: str | None) -> str | None:
        """The lanes of one mask or the other."""
        if a is None or b is None:
            return None
        if NONE in (a, b):
            return a if b == NONE else b
        return self.code.add(f"or {self.of('i1')} {a}, {b}")

    def other(self, mask: str) -> str:
        """The lanes that a mask leaves out."""
        name = self.code.add(f"xor {self.of('i1')} {mask}, splat (i1 true)")
        span, whole = self.spans.get(mask), str(self.width)
        if span is not None and span.high == whole:
            self.spans[name] = Span("0", span.low)
        elif span is not None and span.low == "0":
            self.spans[name] = Span(span.high, whole)
        return name

    def flags(self, mask: str | None) -> str:
        """The mask as an operand."""
        return "splat (i1 true)" if mask is None else mask
