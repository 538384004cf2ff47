"""What a generated kernel has in scope: choices, typed values, arrays and who may use them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import NO_ATTRS, Attr, Operation, Value
from hetir.ir.types import (
    BF16,
    BOOL,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    SCALARS,
    U8,
    U16,
    U32,
    U64,
    ArrayType,
    Scalar,
)

T = TypeVar("T")
Choose = Callable[[int], int]
"""Gives an integer from 0 up to, but not including, its argument; 0 is the simplest."""

# the simplest first
TYPES = (I32, F32, I64, BOOL, F64, U8, U32, I8, I16, U16, U64, F16, BF16)
STORAGE = (*TYPES, F8E4M3, F8E5M2)
WIDTH = 3  # columns of an output row


@dataclass(frozen=True, slots=True)
class Shape:
    """How large generated kernels are and what they may hold.

    Args:
        statements: about how many there are at the top level.
        depth: how deep control flow nests.
        shared: shared memory and barriers.
        atomics: atomic accesses and fences.
        subgroups: subgroup operations, at a pinned width.
        records: `print` and `assert`.
        overlaps: arguments that lie in each other's memory.
        types: of values; those of indices, conditions and digests (i64, bool, u64) are always
            there.
    """

    statements: int = 6
    depth: int = 3
    shared: bool = True
    atomics: bool = True
    subgroups: bool = True
    records: bool = True
    overlaps: bool = True
    types: tuple[Scalar, ...] = STORAGE


@dataclass(frozen=True, slots=True)
class Var:
    """A value in scope, and whether all work-items of a workgroup have the same."""

    value: Value
    uniform: bool


@dataclass(frozen=True, slots=True)
class Array:
    """An array in scope, and what a work-item may do with it.

    `role` is "read" (by anybody, anywhere), "private" (of the work-item), "shared" (read, and
    written between barriers), "own" (the work-item's row, by index `row`) or "sum" (updated by
    everybody with one kind of atomic, read by nobody).
    """

    value: Value
    role: str
    uniform: bool = True
    kind: str = ""

    @property
    def type(self) -> ArrayType:
        """Its type."""
        assert isinstance(self.value.type, ArrayType)
        return self.value.type


@dataclass(frozen=True, slots=True)
class Loop:
    """The loop around a statement: what `continue` carries and `break` gives."""

    carried: tuple[Scalar, ...]
    results: tuple[Scalar, ...]
    counter: Value | None
    flow_uniform: bool


class _Body(Builder):
    """A builder that notes which values are used."""

    def __init__(self, used: set[Value]) -> None:
        super().__init__()
        self.used = used

    def emit(self, spec: ops.Spec, *operands: Value, **fields: object) -> Operation:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.used.update(operands)
        return super().emit(spec, *operands, **fields)  # pyright: ignore[reportArgumentType]


class Scope:
    """Choices, and values by type."""

    def __init__(self, choose: Choose, shape: Shape) -> None:
        self.choose = choose
        self.shape = shape
        self.types = tuple(t for t in TYPES if t in shape.types)
        self.storage = tuple(t for t in STORAGE if t in shape.types)
        self.used: set[Value] = set()
        self.b = _Body(self.used)
        self.vars: list[Var] = []
        self.arrays: list[Array] = []
        self.loop: Loop | None = None
        self.flow_uniform = True
        self.nesting: int = 0
        self.barriers = False  # whether there is shared memory
        self.meets = False  # whether work-items wait for each other at all
        self.row: Value  # the work-item's row of the outputs
        self.place: Value  # and its linear local id
        self.digest: Value  # an array: what all else that a work-item computed goes into
        self.group_items = 1
        self.width = 32
        self.messages: int = 0

    # -- choices

    def pick(self, options: Sequence[T]) -> T:
        """One of several, the first the simplest."""
        return options[self.choose(len(options))]

    def chance(self, one_in: int) -> bool:
        """True seldom; the simplest choice is False."""
        return self.choose(one_in) == one_in - 1

    def some(self, mean: int, most: int) -> range:
        """A count, about `mean`: one choice for each, so that each can be left out."""
        count = 0
        while count < most and self.choose(mean + 1):
            count += 1
        return range(count)

    # -- ops

    def op(self, spec: ops.Spec, *operands: Value, **attrs: Attr) -> Value:
        """An op with one result."""
        return self.b.emit(spec, *operands, attrs=attrs or NO_ATTRS).result

    def act(self, spec: ops.Spec, *operands: Value, **attrs: Attr) -> None:
        """An op without results."""
        self.b.emit(spec, *operands, attrs=attrs or NO_ATTRS)

    def add(self, value: Value, *, uniform: bool) -> Var:
        """Bring a value into scope."""
        var = Var(value, uniform)
        self.vars.append(var)
        return var

    def body(self) -> Builder:
        """A builder for a nested region."""
        return _Body(self.used)

    # -- values

    def number(self, value: int) -> Value:
        """An i64."""
        return self.b.const(I64, value)

    def value(self, kind: Scalar, *, uniform: bool = False) -> Var:
        """A value of a type: one in scope, a constant, or a cast of one in scope."""
        fit = [v for v in self.vars if v.value.type == kind and (v.uniform or not uniform)]
        which = self.choose(4)
        if fit and which < 3:
            return fit[-1 - self.choose(len(fit))]
        others = [v for v in self.vars if v.uniform or not uniform]
        if not others or which == 3 or kind.kind == "f8":
            return Var(self.constant(kind), True)
        other = others[-1 - self.choose(len(others))]
        return Var(self.op(ops.CAST, other.value, to=kind), other.uniform)

    def constant(self, kind: Scalar) -> Value:
        """Small ones, and bit patterns at the edges of the type."""
        ones = (1 << kind.bits) - 1
        if kind.kind in ("float", "f8"):
            small = self.pick((0.0, 1.0, -1.0, 0.5, 3.0, -2.5, 100.0, -0.0))
            if not self.chance(4):
                return self.b.const(kind, small)
            bits = self.choose(1 << min(16, kind.bits)) << max(0, kind.bits - 16)
        elif self.chance(3):
            bits = self.pick((ones, ones >> 1, (ones >> 1) + 1, kind.bits & ones, kind.bits - 1))
        else:
            bits = self.choose(9) & ones
        return self.op(ops.CONST, type=kind, bits=bits & ones)

    def bits(self, value: Value) -> Value:
        """The bits of a value as a u64."""
        kind = value.type
        assert isinstance(kind, Scalar)
        if kind.kind in ("float", "f8"):
            value = self.op(ops.BITCAST, value, to=SCALARS[f"u{kind.bits}"])
        return value if value.type == U64 else self.op(ops.CAST, value, to=U64)

    def condition(self, *, uniform: bool = False) -> Var:
        """A bool, seldom a constant."""
        if self.choose(3) == 0:
            return self.value(BOOL, uniform=uniform)
        kind = self.pick([t for t in self.types if t != BOOL] or [I64])
        one, two = self.value(kind, uniform=uniform), self.value(kind, uniform=uniform)
        spec = self.pick((ops.LT, ops.GE, ops.EQ, ops.NE))
        return Var(self.op(spec, one.value, two.value), one.uniform and two.uniform)

    def kinds(self) -> tuple[Scalar, ...]:
        """The types of what a region hands on."""
        return tuple(self.pick(self.storage) for _ in self.some(1, 3))

    def such(self, *roles: str) -> list[Array]:
        """The arrays in scope of some roles."""
        return [a for a in self.arrays if a.role in roles]

    def index(self, array: Value, axis: int) -> Var:
        """An index in bounds, from any i64."""
        var = self.value(I64)
        extent = self.op(ops.DIM, array, axis=axis)
        return Var(self.op(ops.MOD, var.value, extent), var.uniform)
