"""Runs a kernel's source as plain Python, one work-item at a time: a second opinion on tracing.

Python itself does the control flow; numbers are typed and computed by the op table. Both
sides of an operation must have one type, and work-items cannot wait for each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from hetir.ir import ops
from hetir.ir.build import bits_of
from hetir.ir.types import BOOL, I64, SCALARS, Scalar


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


def _binary(name: str, *, swapped: bool = False) -> Callable[[Number, Any], Number]:
    def run(one: Number, two: Any) -> Number:
        return apply(ops.TABLE[name], *((two, one) if swapped else (one, two)))

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


def _each(run: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers, which of vectors is done to each element."""

    def spread(*values: Any) -> Any:
        vectors = [v for v in values if isinstance(v, Vector)]
        if not vectors:
            return run(*values)
        rows = (v if isinstance(v, Vector) else itertools.repeat(v) for v in values)
        return Vector([run(*row) for row in zip(*rows, strict=False)])

    return spread


for _name in ("add", "sub", "mul", "floordiv", "mod", "lt", "gt", "eq"):
    setattr(Vector, f"__{_name}__", _each(getattr(Number, f"__{_name}__")))
Vector.__neg__ = _each(Number.__neg__)  # pyright: ignore


class _Array:
    """An array argument."""

    def __init__(self, kind: Scalar, data: Any) -> None:
        self.kind = kind
        self.data = data
        self.shape = [number(I64, n) for n in data.shape]

    def place(self, index: Any) -> tuple[int, ...]:
        several = index if len(self.data.shape) > 1 else (index,)
        place = tuple(int(i) for i in several)
        if any(not 0 <= i < n for i, n in zip(place, self.data.shape, strict=True)):
            raise IndexError(f"{place} lies outside {self.data.shape}")
        return place

    def __getitem__(self, index: Any) -> Number:
        return Number(self.kind, self.data[self.place(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.data[self.place(index)] = number(self.kind, value).lane[0]


def run_plain(
    source: str,
    name: str,
    kinds: Sequence[Scalar],
    arguments: Sequence[Any],
    grid: tuple[int, int, int],
    workgroup: tuple[int, int, int],
) -> None:
    """Run the function `name` of the source for every work-item; arrays are written in place."""
    item = SimpleNamespace()
    namespace: dict[str, Any] = {"hl": language(item), "range": _range}
    exec(compile(source, "<plain>", "exec"), namespace)  # our own generated text
    bound = [
        Number(k, a) if np.ndim(a) == 0 else _Array(k, a)
        for k, a in zip(kinds, arguments, strict=True)
    ]
    for group in itertools.product(*(range(n) for n in grid)):
        for local in itertools.product(*(range(n) for n in workgroup)):
            item.group_id, item.local_id = group, local
            item.group_size, item.num_groups = workgroup, grid
            namespace[name](*bound)


def _range(*bounds: Any) -> Iterator[Number]:
    """Python's range; a step of 0 runs nothing."""
    numbers = [int(b) for b in bounds]
    if len(numbers) == 3 and numbers[2] == 0:
        return
    for index in range(*numbers):
        yield number(I64, index)


class _Type:
    """`hl.i32(x)`."""

    def __init__(self, kind: Scalar) -> None:
        self.kind = kind

    def __call__(self, value: Any) -> Number:
        return number(self.kind, value)

    def vector(self, length: int) -> Callable[..., Vector]:
        """`hl.vector(hl.i32, length)`."""

        def make(*values: Any) -> Vector:
            flat = [n for v in values for n in (v if isinstance(v, Vector) else (v,))]
            return Vector([number(self.kind, n) for n in flat * (length // len(flat))])

        return make


def _where(condition: Any, a: Any, b: Any) -> Any:
    return a if condition else b


def _dot(a: Vector, b: Vector) -> Number:
    total, *rest = [apply(ops.MUL, *pair) for pair in zip(a, b, strict=True)]
    for product in rest:
        total = apply(ops.ADD, total, product)
    return total


def _insert(v: Vector, index: Any, value: Any) -> Vector:
    items = list(v)
    items[int(index)] = number(items[0].kind, value)
    return Vector(items)


def _load_vector(x: _Array, index: Any, length: int) -> Vector:
    *outer, last = map(int, index)
    return Vector([x[(*outer, last + i)] for i in range(length)])


def _store_vector(x: _Array, index: Any, value: Vector) -> None:
    *outer, last = map(int, index)
    for i, item in enumerate(value):
        x[(*outer, last + i)] = item


def _function(spec: ops.Spec) -> Callable[..., Number]:
    def run(*values: Any) -> Number:
        return apply(spec, *values)

    return run


def _id(item: Any, name: str) -> Callable[[int], Number]:
    def run(axis: int) -> Number:
        if name == "global_id":
            start = item.group_id[axis] * item.group_size[axis]
            return number(I64, start + item.local_id[axis])
        return number(I64, getattr(item, name)[axis])

    return run


def _cast(value: Any, kind: _Type) -> Number:
    return number(kind.kind, value)


def language(item: Any) -> SimpleNamespace:
    """What `hl` is while the source runs: types, ids and the pure functions."""
    simple = ("fma", "sqrt", "floor", "ceil", "trunc", "rint", "popcount", "clz", "mul_hi", "div")
    names = (*simple, "rem", "abs", "min", "max", "min_number", "max_number")
    ids = ("local_id", "group_id", "group_size", "num_groups", "global_id")
    members: dict[str, Any] = {n: _each(_function(ops.TABLE[n])) for n in names}
    members |= {("bool_" if t == BOOL else n): _Type(t) for n, t in SCALARS.items()}
    members |= {n: _id(item, n) for n in ids}
    return SimpleNamespace(
        **members,
        minimum_number=members["min_number"],
        maximum_number=members["max_number"],
        where=_each(_where),
        vector=_Type.vector,
        dot=_dot,
        insert=_insert,
        load_vector=_load_vector,
        store_vector=_store_vector,
        static_range=range,
        cast=_cast,
    )
