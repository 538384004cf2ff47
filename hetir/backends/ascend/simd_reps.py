"""What a hetIR value is in a SIMD kernel: a scalar, a line over the lanes, a buffer, a mask."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hetir.backends.ascend.simd_program import Access, Buffer, Global

Num = int | str
"""An i64: a number, or C++ text."""

_ATOM = re.compile(r"-?[\w.]+(\(0x[0-9a-f]+u\))?")
_LOOSE = re.compile(r" (?:[<>]=?|[=!]=|&&?|\|\|?|\^|<<|>>|\?|:) ")
_INNER = re.compile(r"\([^()]*\)")
_CALL = re.compile(r"[\w.]+(?:<\w+>)?\((.*)\)")


def grouped(text: str) -> str:
    """An operand as it may stand beside an operator."""
    if _ATOM.fullmatch(text) and not text.startswith("-"):
        return text
    call = _CALL.fullmatch(text)
    return text if call and _balanced(call[1]) else f"({text})"


def bare(text: str) -> str:
    """Text without the parentheses around all of it."""
    whole = text.startswith("(") and text.endswith(")") and _balanced(text[1:-1])
    return text[1:-1] if whole else text


def _balanced(text: str) -> bool:
    depth = 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return False
    return depth == 0


def _term(text: Num) -> Num:
    """What may stand beside + or -: nothing in it binds looser."""
    if isinstance(text, int) or not _LOOSE.search(text):
        return text
    outside = text
    while outside != (outside := _INNER.sub("", outside)):
        pass
    return grouped(text) if _LOOSE.search(outside) else text


def plus(a: Num, b: Num) -> Num:
    """a + b."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if a == 0:
        return b
    if b == 0:
        return a
    if isinstance(b, int) and b < 0:
        return f"{_term(a)} - {-b}"
    return f"{_term(a)} + {_term(b)}"


def minus(a: Num, b: Num) -> Num:
    """a - b."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    if b == 0:
        return a
    if isinstance(b, int) and b < 0:
        return f"{_term(a)} + {-b}"
    return f"{_term(a)} - {grouped(str(b))}"


def times(a: Num, b: Num) -> Num:
    """a * b."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if 0 in (a, b):
        return 0
    if a == 1:
        return b
    if b == 1:
        return a
    return f"{grouped(str(a))} * {grouped(str(b))}"


@dataclass(frozen=True, slots=True)
class Uniform:
    """One value for all lanes: C++ text of the value's type."""

    text: str


@dataclass(frozen=True, slots=True)
class Affine:
    """An i64: `base` and for each axis of the workgroup a factor of the local id."""

    base: Num
    factors: tuple[Num, Num, Num]

    def at(self, coords: tuple[Num, Num, Num]) -> str:
        """The value of one lane, by its local ids."""
        total: Num = self.base
        for factor, coord in zip(self.factors, coords, strict=True):
            total = plus(total, times(factor, coord))
        return str(total)

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes along which it changes."""
        return tuple(a for a, f in enumerate(self.factors) if f != 0)


@dataclass(frozen=True, slots=True)
class Row:
    """A value that lanes which agree in y and z share, but for `step` times the first local id.

    Its text may name the other local ids; `reads` is what it reads of buffers.
    """

    text: str
    step: Num = 0
    reads: tuple[Access, ...] = ()

    def at(self, coords: tuple[Num, Num, Num]) -> str:
        """The value of one lane, where the other local ids have the names of lane loops."""
        along = times(self.step, coords[0])
        return self.text if along == 0 else str(plus(grouped(self.text), along))


@dataclass(frozen=True, slots=True)
class Tensor:
    """Lanes in a buffer, from element `start` on, as elements of the C++ type `kind`."""

    buffer: Buffer
    kind: str
    start: Num = 0

    def text(self, kind: str | None = None) -> str:
        """The tensor as C++, seen as elements of `kind`."""
        name = self.buffer.name if self.start == 0 else f"{self.buffer.name}[{self.start}]"
        wanted = kind or self.kind
        return name if wanted == self.buffer.kind else f"{name}.ReinterpretCast<{wanted}>()"


@dataclass(frozen=True, slots=True)
class Bits:
    """A bool in a buffer, one bit a lane."""

    buffer: Buffer


Bound = tuple[Num, Num]


@dataclass(frozen=True, slots=True)
class Box:
    """A bool that is true for the lanes whose local ids lie in a half-open range on each axis."""

    bounds: tuple[Bound | None, Bound | None, Bound | None]

    def prefix(self) -> Num | None:
        """The end of the range where it starts at 0 and only the first axis is bounded."""
        first, *others = self.bounds
        if first is None or any(others) or first[0] != 0:
            return None
        return first[1]

    @property
    def single(self) -> int | None:
        """The only axis that is bounded."""
        axes = [a for a, b in enumerate(self.bounds) if b is not None]
        return axes[0] if len(axes) == 1 else None


FULL = Box((None, None, None))


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address in global memory, one for all lanes; `place` is what hazards see."""

    text: str
    place: Global


@dataclass(frozen=True, slots=True)
class Array:
    """A shared array, or a private one whose elements are rows of lanes."""

    buffer: Buffer
    private: bool


Rep = Uniform | Affine | Row | Tensor | Bits | Box | Pointer | Array
Mask = Box | Bits
