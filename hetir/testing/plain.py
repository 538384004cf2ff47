"""Typed numbers, vectors and arrays in plain Python, computed by the op table.

Python itself works out expressions; what types they have is said here again, apart from the
frontend.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from hetir.ir import ops
from hetir.ir.build import bits_of
from hetir.ir.literals import shown
from hetir.ir.types import BF16, BOOL, F16, F32, I64, SCALARS, Scalar


class Number:
    """A typed kernel value of one work-item."""

    __slots__ = ("kind", "lane")

    def __init__(self, kind: Scalar, lane: Any) -> None:
        self.kind = kind
        self.lane = np.asarray(lane).reshape(1)

    def __bool__(self) -> bool:
        return bool(self.lane[0])

    def __index__(self) -> int:
        return int(self.lane[0])

    def __str__(self) -> str:
        value = self.lane[0]
        plain = value.item() if self.kind.is_int or self.kind == BOOL else float(value)
        return shown(self.kind, plain)

    def __format__(self, spec: str) -> str:
        return str(self)

    def to(self, kind: Scalar) -> Number:
        """The value as another type."""
        return apply(ops.CAST, self, to=kind)


def apply(spec: ops.Spec, *operands: Any, to: Scalar | None = None) -> Number:
    """One op of the table; Python numbers take the type of the typed operands."""
    # `not x` and `x and y` of Python are plain bools
    typed = next((v.kind for v in operands[::-1] if isinstance(v, Number)), BOOL)
    lanes = [v if isinstance(v, Number) else number(typed, v) for v in operands]
    kind = to or (SCALARS["bool"] if spec.results == ("bool",) else typed)
    attrs = {"to": to} if "to" in spec.attrs else {}
    assert spec.evaluate is not None
    return Number(kind, spec.evaluate(attrs, kind.numpy, *(v.lane for v in lanes)))


def number(kind: Scalar, value: Any) -> Number:
    """A Python number, or a value of another type, as a type."""
    if isinstance(value, Number):
        return apply(ops.CAST, value, to=kind)
    bits = bits_of(kind, value)
    one = np.array(bool(bits)) if kind == BOOL else np.array(bits, f"u{kind.bytes}")
    return Number(kind, one if kind == BOOL else one.view(kind.numpy))


def common(one: Scalar, two: Scalar) -> Scalar | None:
    """The type of an operation on two types, or None where a cast is asked for."""
    if one == two or two == BOOL:
        return one
    if one == BOOL or two.is_float > one.is_float:
        return two
    if one.is_float > two.is_float:
        return one
    if {one, two} == {F16, BF16}:
        return F32
    if one.is_float or one.signed == two.signed:
        return max(one, two, key=lambda t: t.bits)
    signed, unsigned = (one, two) if one.signed else (two, one)
    if signed.bits > unsigned.bits:
        return signed
    return SCALARS.get(f"i{2 * unsigned.bits}")


def together(values: Sequence[Any]) -> list[Any]:
    """Numbers of unlike types in their common one; Python numbers as they are."""
    kinds = [v.kind for v in values if isinstance(v, Number)]
    if not kinds or len(set(kinds)) == 1:
        return list(values)
    kind = kinds[0]
    for other in kinds[1:]:
        found = common(kind, other)
        assert found is not None, f"{kind} meets {other}"
        kind = found
    return [v.to(kind) if isinstance(v, Number) else v for v in values]


def _binary(name: str, *, swapped: bool = False) -> Callable[[Number, Any], Number]:
    def run(one: Number, two: Any) -> Number:
        pair = [two, one] if swapped else [one, two]
        if name in ("shl", "shr"):
            pair[1] = number(pair[0].kind, pair[1]) if isinstance(pair[0], Number) else pair[1]
        else:
            pair = together(pair)
        if name == "div" and not any(isinstance(v, Number) and v.kind.is_float for v in pair):
            pair = [number(F32, v) for v in pair]
        return apply(ops.TABLE[name], *pair)

    return run


for _method, _name in {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floordiv",
    "mod": "mod", "and": "and", "or": "or", "xor": "xor", "lshift": "shl", "rshift": "shr",
}.items():  # fmt: skip
    setattr(Number, f"__{_method}__", _binary(_name))
    setattr(Number, f"__r{_method}__", _binary(_name, swapped=True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Number, f"__{_name}__", _binary(_name))


def _unary(name: str) -> Callable[[Number], Number]:
    def run(one: Number) -> Number:
        return apply(ops.TABLE[name], one)

    return run


for _method, _name in {"neg": "neg", "invert": "not", "abs": "abs"}.items():
    setattr(Number, f"__{_method}__", _unary(_name))


class Vector:
    """A vector of one work-item: what is done to it is done to each element."""

    __slots__ = ("items",)

    def __init__(self, items: Sequence[Number]) -> None:
        self.items = tuple(items)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Number]:
        return iter(self.items)

    def __getitem__(self, index: int | slice[Any, Any, Any]) -> Number | Vector:
        picked = self.items[index]
        return picked if isinstance(picked, Number) else Vector(picked)

    def __getattr__(self, name: str) -> Any:
        picked = [self.items["xyzw".index(letter)] for letter in name]
        return picked[0] if len(picked) == 1 else Vector(picked)


def each(run: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers, which of vectors is done to each element."""

    def spread(*values: Any) -> Any:
        vectors = [v for v in values if isinstance(v, Vector)]
        if not vectors:
            return run(*values)
        rows = (v if isinstance(v, Vector) else itertools.repeat(v) for v in values)
        return Vector([run(*row) for row in zip(*rows, strict=False)])

    return spread


for _name in ("add", "sub", "mul", "floordiv", "mod", "lt", "gt", "eq"):
    setattr(Vector, f"__{_name}__", each(getattr(Number, f"__{_name}__")))
Vector.__neg__ = each(Number.__neg__)  # pyright: ignore


class Array:
    """An array argument."""

    def __init__(self, kind: Scalar, data: Any) -> None:
        self.kind = kind
        self.data = data
        self.shape = [number(I64, n) for n in data.shape]

    def place(self, index: Any) -> tuple[int, ...]:
        """The indices, in bounds."""
        several = index if len(self.data.shape) > 1 else (index,)
        place = tuple(int(i) for i in several)
        if any(not 0 <= i < n for i, n in zip(place, self.data.shape, strict=True)):
            raise IndexError(f"{place} lies outside {self.data.shape}")
        return place

    def __getitem__(self, index: Any) -> Number | Array:
        several = cast("tuple[Any, ...]", index if isinstance(index, tuple) else (index,))
        if any(isinstance(i, slice) for i in several):
            picks = [_slice(i) for i in several]
            return Array(self.kind, self.data[tuple(picks)])
        return Number(self.kind, self.data[self.place(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.data[self.place(index)] = number(self.kind, value).lane[0]


def _slice(given: Any) -> Any:
    """A slice, or an index, with Python's own integers."""
    if not isinstance(given, slice):
        return int(given)
    part = cast("Any", given)
    return slice(*(None if b is None else int(b) for b in (part.start, part.stop, part.step)))
