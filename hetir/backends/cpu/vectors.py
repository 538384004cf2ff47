"""Values of a lane vector, and masks over its lanes.

A vector of `width` lanes runs consecutive work-items. What is the same in all lanes stays a
scalar. An i64 that grows by a fixed step from lane to lane is kept as its first lane and the
step, so that addresses stay scalar.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetir.backends.llvm.code import scalar_type
from hetir.ir.core import Value
from hetir.ir.types import Type

if TYPE_CHECKING:
    from hetir.backends.cpu.emit import Emitter

NONE = "zeroinitializer"


@dataclass(frozen=True, slots=True)
class Rep:
    """How a value is held.

    `kind` is `same` (one scalar), `line` (i64: `name` in lane 0, `step` more in each next
    lane), `pattern` (i64: `name`, and one of `offsets` more in each lane), `lanes` (an LLVM
    vector) or `private` (the address of the lanes' own arrays, interleaved: element e of lane l
    lies at (e * width + l) elements).
    """

    kind: str
    name: str
    step: int = 0
    offsets: tuple[int, ...] = ()


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
    """Holds what the lanes know under `mask` (None: all lanes are on)."""

    def __init__(self, host: Emitter, width: int) -> None:
        self.host = host
        self.code = host.code
        self.width = width
        self.reps: dict[Value, Rep] = {}
        self.mask: str | None = None
        self.linear = "0"
        self.local: tuple[Rep, ...] = ()
        self.spans: dict[str, Span] = {}
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

    def splat(self, scalar: str, name: str) -> str:
        """One scalar in every lane."""
        if not name.startswith("%"):
            return f"splat ({scalar} {name})"
        code, vector = self.code, self.of(scalar)
        one = code.add(f"insertelement {vector} poison, {scalar} {name}, i64 0")
        zeros = f"<{self.width} x i32> zeroinitializer"
        return code.add(f"shufflevector {vector} {one}, {vector} poison, {zeros}")

    def row(self, scalar: str, step: int) -> str:
        """The constant 0, step, 2 * step, ..."""
        return f"<{', '.join(f'{scalar} {lane * step}' for lane in range(self.width))}>"

    def vector(self, value: Value) -> str:
        """A value as an LLVM vector."""
        return self.spread(self.rep(value), value.type)

    def spread(self, rep: Rep, kind: Type) -> str:
        """Any way of holding as an LLVM vector."""
        scalar = scalar_type(kind)
        if rep.kind == "lanes":
            return rep.name
        first = self.splat(scalar, rep.name)
        if rep.kind == "same":
            return first
        if rep.kind == "pattern":
            each = ", ".join(f"{scalar} {signed(offset)}" for offset in rep.offsets)
            return self.code.add(f"add {self.of(scalar)} {first}, <{each}>")
        return self.code.add(f"add {self.of(scalar)} {first}, {self.row(scalar, rep.step)}")

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
        return self.code.add(f"zext i{self.width} {lane} to i64")

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
