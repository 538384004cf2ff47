"""What is known of a variable's value where paths meet, and how two of them join."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hetir.frontend.extents import extents
from hetir.frontend.promotion import promote, rank
from hetir.frontend.tracer import Tracer
from hetir.frontend.values import (
    DEFAULT,
    RANK,
    ArrayHandle,
    Extents,
    Poison,
    Typed,
    Unset,
    WeakNumber,
    is_tuple,
    number_kind,
    shown_array,
)
from hetir.ir.core import Value
from hetir.ir.types import ArrayType, Scalar, Type


@dataclass(frozen=True, slots=True, eq=False)
class Plain:
    """One Python object on every path."""

    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and same(self.value, other.value)

    def __hash__(self) -> int:
        return hash(type(self.value))


@dataclass(frozen=True, slots=True)
class Weak:
    """A number of no type: constants that differ, or run-time Python numbers."""

    kind: str


@dataclass(frozen=True, slots=True)
class Scalars:
    """A scalar of one type."""

    type: Scalar


@dataclass(frozen=True, slots=True)
class Arrays:
    """An array of one type."""

    type: ArrayType


@dataclass(frozen=True, slots=True)
class Tuples:
    """A tuple (or NamedTuple) of one length."""

    cls: type
    items: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """No value on some path."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Values of unlike kinds; reading the variable is an error."""

    left: Shape
    right: Shape


Shape = Plain | Weak | Scalars | Arrays | Tuples | Missing | Conflict


def same(a: object, b: object) -> bool:
    """Whether two plain values are one constant: -0.0 and 0.0, 1 and True are not."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, (float, int, str, bytes, Scalar)):
        return repr(a) == repr(b)
    return False


def shape_of(value: object) -> Shape:
    """The shape of one value."""
    match value:
        case Typed():
            return Scalars(value.type)
        case WeakNumber():
            return Weak(value.kind)
        case ArrayHandle():
            return Arrays(value.type)
        case _ if is_tuple(value):
            return Tuples(type(value), tuple(map(shape_of, value)))
        case Unset():
            return Missing()
        case Poison():
            return Conflict(Plain(value), Plain(value))
        case _:
            return Plain(value)


def weak_kind(shape: Shape) -> str | None:
    """The kind of a number without a type, or None."""
    if isinstance(shape, Weak):
        return shape.kind
    return number_kind(shape.value) if isinstance(shape, Plain) else None


def loosen(shape: Shape) -> Shape:
    """A constant number as a number that may change."""
    if isinstance(shape, Tuples):
        return Tuples(shape.cls, tuple(map(loosen, shape.items)))
    kind = weak_kind(shape)
    return shape if kind is None else Weak(kind)


def settle(shape: Shape) -> Shape:
    """A number that met no type takes its default one."""
    if isinstance(shape, Tuples):
        return Tuples(shape.cls, tuple(map(settle, shape.items)))
    return Scalars(DEFAULT[shape.kind]) if isinstance(shape, Weak) else shape


def join(a: Shape, b: Shape) -> Shape:
    """The least shape of both."""
    if a == b:
        return a
    if isinstance(a, Conflict) or isinstance(b, Conflict):
        return a if isinstance(a, Conflict) else b
    if isinstance(a, Missing) or isinstance(b, Missing):
        return Missing()
    if isinstance(a, Tuples) and isinstance(b, Tuples):
        return _join_tuples(a, b)
    kinds = weak_kind(a), weak_kind(b)
    if kinds[0] and kinds[1]:
        return Weak(max(kinds[0], kinds[1], key=RANK.__getitem__))
    for kind, other in ((kinds[0], b), (kinds[1], a)):
        if kind and isinstance(other, Scalars):
            fits = other.type.kind != "f8" and RANK[kind] <= rank(other.type)
            return other if fits else Conflict(a, b)
    if isinstance(a, Scalars) and isinstance(b, Scalars):
        return _join_scalars(a, b)
    return Conflict(a, b)


def _join_scalars(a: Scalars, b: Scalars) -> Shape:
    storage = "f8" in (a.type.kind, b.type.kind)
    joined = None if storage or rank(a.type) != rank(b.type) else promote(a.type, b.type)
    return Conflict(a, b) if joined is None else Scalars(joined)


def _join_tuples(a: Tuples, b: Tuples) -> Shape:
    if a.cls is not b.cls or len(a.items) != len(b.items):
        return Conflict(a, b)
    items = tuple(join(x, y) for x, y in zip(a.items, b.items, strict=True))
    broken = next((item for item in items if isinstance(item, Conflict)), None)
    return broken or Tuples(a.cls, items)


def movable(shape: Shape) -> bool:
    """Whether different values of the shape can be one value of the IR."""
    if isinstance(shape, Arrays):
        return shape.type.space in ("global", "constant")
    return all(map(movable, shape.items)) if isinstance(shape, Tuples) else True


def types(shape: Shape) -> Iterator[Type]:
    """The types of the IR values that hold a value of the shape."""
    match shape:
        case Scalars() | Arrays():
            yield shape.type
        case Weak():
            yield DEFAULT[shape.kind]
        case Tuples():
            for item in shape.items:
                yield from types(item)
        case _:
            return


def flatten(tracer: Tracer, value: Any, shape: Shape) -> list[Value]:
    """`value`, converted to `shape`, as IR values."""
    match shape:
        case Scalars():
            return [tracer.convert(value, shape.type)]
        case Weak():
            return [tracer.convert(value, DEFAULT[shape.kind])]
        case Arrays():
            return [value.ir]
        case Tuples():
            pairs = zip(value, shape.items, strict=True)
            return [ir for item, inner in pairs for ir in flatten(tracer, item, inner)]
        case _:
            return []


def rebuild(shape: Shape, values: Iterator[Value]) -> Any:
    """The value of a settled shape from its IR values."""
    match shape:
        case Scalars():
            return Typed(next(values))
        case Arrays():
            return ArrayHandle(next(values))
        case Tuples():
            return make_tuple(shape.cls, [rebuild(item, values) for item in shape.items])
        case Plain():
            return shape.value
        case Missing():
            return Unset()
        case Weak() | Conflict():
            raise AssertionError(f"no value of {shape}")


_TUPLE: Any = tuple


def make_tuple(cls: Any, items: list[Any]) -> Any:
    """A tuple or NamedTuple of `items`."""
    return _TUPLE.__new__(cls, items)


def portable_number(value: object) -> bool:
    """Whether `value` is a number that any region can build."""
    if isinstance(value, WeakNumber):
        return value.portable
    return number_kind(value) is not None


def words(shape: Shape) -> str:
    """How an error message names a shape."""
    match shape:
        case Plain():
            kind = number_kind(shape.value)
            return f"the number `{shape.value}`" if kind else f"`{shape.value}`"
        case Weak():
            return f"a Python {shape.kind}"
        case Scalars():
            return f"`{shape.type}`"
        case Arrays():
            return f"the array `{shown_array(shape.type)}`"
        case Tuples():
            return f"a tuple of {len(shape.items)}"
        case Missing():
            return "no value"
        case Conflict():
            return f"{words(shape.left)} or {words(shape.right)}"


def lasting(tracer: Tracer, value: Any) -> Any:
    """`value` in a form that a variable can hold: extents become a tuple."""
    if isinstance(value, Extents):
        return extents(tracer, value)
    return value
