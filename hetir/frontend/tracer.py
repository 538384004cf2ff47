"""Emission: the block being filled, conversions, and errors with the chain of callers."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from hetir.diagnostics import CompileError, Label
from hetir.frontend.errors import NumberRangeError, OperandError
from hetir.frontend.promotion import promote, rank
from hetir.frontend.values import DEFAULT, RANK, Bundle, Typed, WeakNumber, describe, number_kind
from hetir.ir import ops
from hetir.ir.build import Builder, bits_of
from hetir.ir.core import NO_ATTRS, Attr, Function, Operation, Options, Region, Value
from hetir.ir.ops import Spec
from hetir.ir.types import BOOL, I64, Scalar, Type
from hetir.source import Loc

LIBRARY = str(Path(__file__).parent.parent / "lang")


class Block(Builder):
    """A builder that remembers constants and conversions, its own and its parents'."""

    def __init__(self, parent: Block | None = None) -> None:
        super().__init__()
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.known: dict[object, Value] = {}
        self.sealed = False  # it ends in a terminator that no execution reaches

    def find(self, key: object) -> Value | None:
        """A value computed earlier that this place can see."""
        block: Block | None = self
        while block is not None:
            if (value := block.known.get(key)) is not None:
                return value
            block = block.parent
        return None

    @property
    def ended(self) -> bool:
        """Whether the last op is a terminator."""
        return bool(self.body) and self.body[-1].spec.terminator


class Tracer:
    """What is being built: the current block, the current place, and the functions so far."""

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        self.block = Block()
        self.loc: Loc | None = None
        self.callers: list[Loc] = []
        self.hint = ""  # the variable that is being assigned, for the names of arrays
        self.functions: dict[str, Function] = {}

    # ---- ops -----------------------------------------------------------------------------

    def emit(
        self,
        spec: Spec,
        *operands: Value,
        attrs: Mapping[str, Attr] = NO_ATTRS,
        types: Sequence[Type] | None = None,
        regions: tuple[Region, ...] = (),
        name: str = "",
    ) -> Operation:
        """Append one op at the current place."""
        return self.block.emit(
            spec, *operands, attrs=attrs, types=types, regions=regions, loc=self.loc, name=name
        )

    def value(self, spec: Spec, *operands: Value, **attrs: Attr) -> Value:
        """Append one op with one result."""
        return self.emit(spec, *operands, attrs=attrs or NO_ATTRS).result

    def typed(self, spec: Spec, *operands: Value, **attrs: Attr) -> Typed:
        """Append one op whose result is a scalar of the kernel."""
        return Typed(self.emit(spec, *operands, attrs=attrs or NO_ATTRS).result)

    def once(self, spec: Spec, *operands: Value, **attrs: Attr) -> Value:
        """A pure op that is emitted once a block and its inner blocks."""
        key = (spec, operands, tuple(sorted(attrs.items())))
        if (found := self.block.find(key)) is None:
            found = self.block.known[key] = self.value(spec, *operands, **attrs)
        return found

    # ---- conversions ---------------------------------------------------------------------

    def const(self, kind: Scalar, value: float) -> Value:
        """A constant of a type, already in range."""
        return self.constant_bits(kind, bits_of(kind, value))

    def constant_bits(self, kind: Scalar, bits: int) -> Value:
        """A constant of a type by its bits."""
        key = (kind, bits)
        if (found := self.block.find(key)) is None:
            found = self.block.known[key] = self.value(ops.CONST, type=kind, bits=bits)
        return found

    def convert(self, value: Any, kind: Scalar, *, explicit: bool = False) -> Value:
        """`value` as `kind`; an implicit conversion refuses a number out of range."""
        if isinstance(value, Typed):
            return value.ir if value.type == kind else self.value(ops.CAST, value.ir, to=kind)
        if isinstance(value, WeakNumber):
            return self.materialise(value, kind)
        if number_kind(value) is None:
            self._not_a_scalar(value, f"no number of `{kind}`")
        number = _python_number(value)
        assert isinstance(number, (bool, int, float))
        if kind.is_int:
            return self.const(kind, self._integer(number, kind, explicit=explicit))
        try:
            return self.const(kind, float(number) if kind.kind != "bool" else number != 0)
        except OverflowError:
            self.fail(NumberRangeError, f"`{_shown(number)}` does not fit `{kind}`")

    def _integer(self, number: float, kind: Scalar, *, explicit: bool) -> int:
        low = -(1 << (kind.bits - 1)) if kind.signed else 0
        high = (1 << (kind.bits - int(kind.signed))) - 1
        if isinstance(number, float):
            # as `cast` does: NaN gives 0, the rest truncates and saturates
            if math.isnan(number):
                return 0
            return max(low, min(high, int(max(-1e30, min(1e30, number)))))
        if not explicit and not low <= number <= high:
            self.fail(
                NumberRangeError,
                f"`{_shown(int(number))}` does not fit `{kind}`",
                label=f"`{kind}` holds {low} to {high}",
                hint="convert the other operand to a wider type, or write "
                f"`hl.{kind}({_shown(number)})` to wrap",
            )
        return int(number)

    def materialise(self, weak: WeakNumber, kind: Scalar) -> Value:
        """A weak run-time number as a type."""
        key = (weak, kind)
        if (found := self.block.find(key)) is not None:
            return found
        own = DEFAULT[weak.kind]
        # the host converts a leaf, but only upwards: it takes no float for an integer
        direct = weak.leaf and RANK[weak.kind] <= rank(kind)
        if direct or kind == own or (weak.kind == "float" and kind.is_float):
            built = weak.build(self, kind)
        else:
            built = self.value(ops.CAST, self.materialise(weak, own), to=kind)
        self.block.known[key] = built
        return built

    def default(self, value: object) -> Value:
        """A scalar as its own type, a weak one as `i64`, `f32` or `bool`."""
        return self.convert(value, self.type_of(value))

    def type_of(self, value: object) -> Scalar:
        """The type that a scalar has when it meets no other."""
        if isinstance(value, Typed):
            return value.type
        if isinstance(value, WeakNumber):
            return DEFAULT[value.kind]
        kind = number_kind(value)
        if kind is None:
            self._not_a_scalar(value)
        return DEFAULT[kind]

    def _not_a_scalar(self, value: object, what: str = "not a scalar") -> NoReturn:
        hint = "take one element: `v.x` or `v[i]`" if isinstance(value, Bundle) else None
        self.fail(OperandError, f"{describe(value)} is {what}", hint=hint)

    def common(self, values: Iterable[object]) -> Scalar:
        """The type in which an operation on `values` computes."""
        found: Scalar | None = None
        weak: str | None = None
        for value in values:
            if isinstance(value, Typed):
                found = self._promote(found, value.type)
            else:
                kind = value.kind if isinstance(value, WeakNumber) else number_kind(value)
                if kind is None:
                    self._not_a_scalar(value)
                weak = kind if weak is None or RANK[kind] > RANK[weak] else weak
        if weak is not None and (found is None or RANK[weak] > rank(found)):
            return DEFAULT[weak]
        assert found is not None
        return found

    def _promote(self, a: Scalar | None, b: Scalar) -> Scalar:
        if b.kind == "f8":
            self.fail(
                OperandError,
                f"`{b}` only stores: it has no arithmetic",
                hint="convert first: `value.to(hl.f32)`",
            )
        if a is None:
            return b
        joined = promote(a, b)
        if joined is None:
            self.fail(
                OperandError,
                f"`{a}` and `{b}` have no common type",
                hint="convert one of them: `value.to(hl.i64)` or `value.to(hl.u64)`",
            )
        return joined

    def truth(self, value: object) -> Value:
        """A scalar as a `bool`: whether it is not 0."""
        return self.convert(value, BOOL)

    def index(self, value: object, what: str) -> Value:
        """An integer as `i64`."""
        kind = number_kind(value)
        if isinstance(value, WeakNumber):
            kind = value.kind
        elif isinstance(value, Typed):
            kind = "int" if value.type.is_int else value.type.kind
        if kind != "int":
            self.fail(
                OperandError,
                f"{what} must be an integer, got {describe(value)}",
                hint="convert it with `int(...)`",
            )
        return self.convert(value, I64)

    # ---- errors --------------------------------------------------------------------------

    def fail(
        self,
        error: type[CompileError],
        message: str,
        *,
        loc: Loc | None = None,
        label: str = "",
        also: Sequence[Label] = (),
        hint: str | None = None,
    ) -> NoReturn:
        """Raise a user's error at `loc` or the current place, with the chain of callers."""
        raise self.error(error, message, loc=loc, label=label, also=also, hint=hint)

    def error(
        self,
        error: type[CompileError],
        message: str,
        *,
        loc: Loc | None = None,
        label: str = "",
        also: Sequence[Label] = (),
        hint: str | None = None,
    ) -> CompileError:
        """The error that `fail` raises."""
        place = loc or self.loc
        labels = (Label(self.called(place), label),) if place else ()
        return error(message, *labels, *also, hint=hint)

    def called(self, loc: Loc) -> Loc:
        """`loc` with the calls that led to it."""
        chain = [*self.callers, loc]
        # a mistake inside a function of hetir is the mistake of the user's call
        while len(chain) > 1 and chain[-1].file.startswith(LIBRARY):
            chain.pop()
        caller: Loc | None = None
        for call in chain[:-1]:
            caller = replace(call, caller=caller)
        return replace(chain[-1], caller=caller)


def _shown(number: float) -> str:
    """A number in a message; Python refuses to write integers of thousands of digits."""
    return f"{number:#x}"[:20] + "..." if abs(number) >= 1 << 256 else str(number)


def _python_number(value: Any) -> Any:
    return value.item() if isinstance(value, _NUMPY_SCALAR) else value


_NUMPY_SCALAR: Any = np.generic


_ACTIVE: ContextVar[Tracer | None] = ContextVar("hetir_tracer", default=None)


def active() -> Tracer | None:
    """The tracer of the kernel that is being read, if one is."""
    return _ACTIVE.get()


@contextmanager
def activate(tracer: Tracer) -> Generator[None]:
    """Make `tracer` the one that the functions of `hl` emit into."""
    token = _ACTIVE.set(tracer)
    try:
        yield
    finally:
        _ACTIVE.reset(token)
