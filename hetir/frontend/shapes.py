"""What is known of a variable's value where paths meet, and how two of them join."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hetir.frontend.extents import extents
from hetir.frontend.forms import Form, FragmentType, VectorType
from hetir.frontend.promotion import promote, rank
from hetir.frontend.tracer import Tracer
from hetir.frontend.values import (
    DEFAULT,
    RANK,
    ArrayHandle,
    Bundle,
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
class Bundles:
    """A vector, or a lane's part of a fragment, of so many scalars."""

    type: Form
    count: int


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


Shape = Plain | Weak | Scalars | Bundles | Arrays | Tuples | Missing | Conflict


def same(a: object, b: object) -> bool:
    """Whether two plain values are one constant: -0.0 and 0.0, 1 and True are not."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, (float, int, str, bytes, Scalar, VectorType, FragmentType)):
        return repr(a) == repr(b)
    return False


def shape_of(value: object) -> Shape:
    """The shape of one value."""
    match value:
        case Typed():
            return Scalars(value.type)
        case WeakNumber():
            return Weak(value.kind)
        case Bundle():
            return Bundles(value.type, len(value.items))
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
    return _join_typed(a, b) or Conflict(a, b)


def _join_typed(a: Shape, b: Shape) -> Shape | None:
    """What a type has in common with a number of none, or with another type."""
    for kind, other in ((weak_kind(a), b), (weak_kind(b), a)):
        if kind and isinstance(other, (Scalars, Bundles)):
            own = element(other)
            return other if own.kind != "f8" and RANK[kind] <= rank(own) else None
    if isinstance(a, Scalars) and isinstance(b, Scalars):
        joined = _join_types(a.type, b.type)
        return None if joined is None else Scalars(joined)
    if isinstance(a, Bundles) and isinstance(b, Bundles) and alike(a.type, b.type):
        joined = _join_types(element(a), element(b))
        return None if joined is None else Bundles(a.type.of(joined), a.count)
    return None


def element(shape: Scalars | Bundles) -> Scalar:
    """The scalar type that a shape computes in."""
    return shape.type if isinstance(shape, Scalars) else shape.type.element


def alike(a: Form, b: Form) -> bool:
    """Whether two forms differ by their element types at most."""
    return a.of(b.element) == b


def _join_types(a: Scalar, b: Scalar) -> Scalar | None:
    """The common type within one category."""
    storage = "f8" in (a.kind, b.kind)
    return None if storage or rank(a) != rank(b) else promote(a, b)


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
        case Bundles():
            yield from (shape.type.element,) * shape.count
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
        case Bundles():
            # a number of no type is repeated
            items = map(Typed, value.items) if isinstance(value, Bundle) else (value,) * shape.count
            return [tracer.convert(item, shape.type.element) for item in items]
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
        case Bundles():
            return Bundle(shape.type, tuple(next(values) for _ in range(shape.count)))
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
        case Bundles():
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
