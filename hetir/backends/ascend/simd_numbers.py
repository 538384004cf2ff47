"""What is known of C++ text for an i64: what it is a multiple of, and between what it lies."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, field
from functools import lru_cache

from hetir.backends.ascend.simd_reps import Num, grouped

Range = tuple[int, int]


@dataclass(slots=True)
class Numbers:
    """Facts about names: numbers that divide them, and their least and largest values."""

    multiples: dict[str, int] = field(default_factory=dict[str, int])
    ranges: dict[str, Range] = field(default_factory=dict[str, Range])

    def note(self, name: str, text: Num) -> None:
        """A constant is what its text is."""
        self.multiples[name] = self.multiple(text)
        known = self.range_of(text)
        if known is not None:
            self.ranges[name] = known

    def counts(self, name: str, start: Num, stop: Num, step: Num) -> None:
        """A loop's index goes up from `start` and stays below `stop`."""
        self.multiples[name] = math.gcd(self.multiple(start), self.multiple(step))
        first, last = self.range_of(start), self.range_of(stop)
        if first is None or last is None:
            return
        least, most = first[0], max(first[0], last[1] - 1)
        if first[0] == first[1] and isinstance(step, int):
            most = least + (most - least) // step * step
        self.ranges[name] = (least, most)

    def multiple(self, text: Num) -> int:
        """A number that divides it; 0 of 0."""
        tree = _parsed(str(text))
        return 1 if tree is None else self._multiple(tree)

    def range_of(self, text: Num) -> Range | None:
        """Its least and largest value."""
        tree = _parsed(str(text))
        return None if tree is None else self._range(tree)

    def _multiple(self, tree: ast.expr) -> int:
        match tree:
            case ast.Constant(value=int(number)):
                return abs(number)
            case ast.Name(id=name):
                return self.multiples.get(name, 1)
            case ast.BinOp(left, ast.Add() | ast.Sub(), right):
                return math.gcd(self._multiple(left), self._multiple(right))
            case ast.BinOp(left, ast.Mult(), right):
                return self._multiple(left) * self._multiple(right)
            case _:
                return 1

    def _range(self, tree: ast.expr) -> Range | None:
        match tree:
            case ast.Constant(value=int(number)):
                return number, number
            case ast.Name(id=name):
                return self.ranges.get(name)
            case ast.BinOp(left, op, right):
                a, b = self._range(left), self._range(right)
                return None if a is None or b is None else _combined(op, a, b)
            case _:
                return None


def _combined(op: ast.operator, a: Range, b: Range) -> Range | None:
    match op:
        case ast.Add():
            return a[0] + b[0], a[1] + b[1]
        case ast.Sub():
            return a[0] - b[1], a[1] - b[0]
        case ast.Mult():
            ends = [x * y for x in a for y in b]
            return min(ends), max(ends)
        case _:
            return None


@lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.expr | None:
    """Sums and products are written in Python as in C++; casts and calls are not looked into."""
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return None


def divided(text: str, size: int) -> str:
    """A multiple of `size` divided by it."""
    if size == 1:
        return text
    tree = _parsed(text)
    quotient = None if tree is None else _quotient(tree, size)
    return f"{grouped(text)} / {size}" if quotient is None else quotient


def _quotient(tree: ast.expr, size: int) -> str | None:
    match tree:
        case ast.Constant(value=int(number)) if number % size == 0:
            return str(number // size)
        case ast.BinOp(left, ast.Add() | ast.Sub() as op, right):
            a, b = _quotient(left, size), _quotient(right, size)
            if a is None or b is None:
                return None
            if isinstance(op, ast.Add):
                return f"{a} + {b}"
            return f"{a} - {b if b.isidentifier() or b.isdigit() else f'({b})'}"
        case ast.BinOp(ast.Constant(value=int(number)), ast.Mult(), other):
            return _product(number, other, size)
        case ast.BinOp(other, ast.Mult(), ast.Constant(value=int(number))):
            return _product(number, other, size)
        case _:
            return None


_LOOSE = (
    *(ast.Compare, ast.BoolOp, ast.IfExp),
    *(ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift),
)


def _product(number: int, other: ast.expr, size: int) -> str | None:
    # others would lose parentheses: a cast of C++ reads as two comparisons, and g++ wants more
    # of them around bitwise operators than Python
    if number % size or any(isinstance(part, _LOOSE) for part in ast.walk(other)):
        return None
    text = ast.unparse(other)
    return text if number == size else f"{number // size} * {grouped(text)}"
