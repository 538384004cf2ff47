"""Python's builtin functions on kernel values."""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from hetir.frontend import operators
from hetir.frontend.bundles import need_vector
from hetir.frontend.elementwise import elementwise, need_scalar
from hetir.frontend.errors import CallError, OperandError, RangeError
from hetir.frontend.extents import extent
from hetir.frontend.frame import Frame
from hetir.frontend.iteration import static_items
from hetir.frontend.operators import compute
from hetir.frontend.tracer import Tracer
from hetir.frontend.values import (
    ArrayHandle,
    Bundle,
    Extents,
    RangeValue,
    Typed,
    WeakNumber,
    describe,
    is_plain,
    number_kind,
)
from hetir.ir import ops
from hetir.ir.core import Value
from hetir.ir.ops import Spec
from hetir.ir.types import BOOL, F32, I64, Scalar

Builtin = Callable[[Frame, ast.Call, list[Any], dict[str, Any]], Any]


def _builtin(function: Callable[..., Any], least: int, most: int | None) -> Any:
    """Run `plain` on plain arguments; check their count and emit for the kernel's."""

    def wrap(emit: Callable[..., Any]) -> Builtin:
        @functools.wraps(emit)
        def run(frame: Frame, node: ast.Call, arguments: list[Any], named: dict[str, Any]) -> Any:
            tracer = frame.tracer
            if all(map(is_plain, (*arguments, *named.values()))):
                return compute(tracer, function, *arguments, **named)
            count, name = len(arguments), function.__name__
            if named or count < least or (most is not None and count > most):
                tracer.fail(CallError, f"`{name}` in a kernel does not take these arguments")
            return emit(frame, node, *arguments)

        return run

    return wrap


def _range(frame: Frame, node: ast.Call, arguments: list[Any], named: dict[str, Any]) -> Any:
    """`range(...)`: a loop's bounds, whether plain or not."""
    tracer = frame.tracer
    if named or not 1 <= len(arguments) <= 3:
        tracer.fail(CallError, "`range` takes one to three integers")
    start, stop, step = {
        1: (0, *arguments[:1], 1),
        2: (*arguments[:2], 1),
        3: tuple(arguments),
    }[len(arguments)]
    for bound, argument in zip(arguments, node.args, strict=False):
        _integer_bound(frame, bound, argument)
    if is_plain(step) and step == 0:
        tracer.fail(RangeError, "the step of `range` is 0", hint="give a step other than 0")
    return RangeValue(start, stop, step, frame.source.loc(node))


def _integer_bound(frame: Frame, bound: Any, node: ast.expr) -> None:
    kind = number_kind(bound)
    if isinstance(bound, WeakNumber):
        kind = bound.kind
    elif isinstance(bound, Typed):
        kind = "int" if bound.type.is_int else None
    if kind != "int":
        frame.fail(
            RangeError,
            f"`range` takes integers, got {describe(bound)}",
            node,
            hint="convert with `int(...)`, or divide with `//`",
        )


@_builtin(int, 1, 1)
def _int(frame: Frame, node: ast.Call, value: Any) -> Any:
    """Integers keep their type, the rest is `i64`."""
    need_scalar(frame.tracer, "int", value)
    if isinstance(value, WeakNumber) and value.kind == "int":
        return value
    kind = frame.tracer.type_of(value)
    return Typed(frame.tracer.convert(value, kind if kind.is_int else I64))


@_builtin(float, 1, 1)
def _float(frame: Frame, node: ast.Call, value: Any) -> Any:
    """Floats keep their type, the rest is `f32`."""
    need_scalar(frame.tracer, "float", value)
    if isinstance(value, WeakNumber):
        return value if value.kind == "float" else as_float(value)
    return Typed(frame.tracer.convert(value, value.type if value.type.is_float else F32))


def as_float(value: WeakNumber) -> WeakNumber:
    """A weak integer as a weak float."""
    return WeakNumber("float", lambda at, kind: at.convert(value, kind), portable=value.portable)


@_builtin(bool, 1, 1)
def _bool(frame: Frame, node: ast.Call, value: Any) -> Any:
    """Whether a scalar is not 0."""
    need_scalar(frame.tracer, "bool", value)
    return Typed(frame.tracer.convert(value, BOOL))


@_builtin(abs, 1, 1)
def _abs(frame: Frame, node: ast.Call, value: Any) -> Any:
    """The magnitude."""
    return absolute(frame.tracer, value)


def absolute(tracer: Tracer, value: Any) -> Any:
    """`abs(value)`."""
    if is_plain(value):
        return compute(tracer, abs, value)
    return elementwise(tracer, "abs", [value], lambda at, _, v: at.value(ops.ABS, *v))


def extreme(tracer: Tracer, spec: Spec, plain: Callable[..., Any], values: list[Any]) -> Any:
    """The least or greatest of scalars of any types."""
    if all(map(is_plain, values)):
        return compute(tracer, plain, *values)

    def fold(at: Tracer, _: Scalar, operands: list[Value]) -> Value:
        return functools.reduce(lambda a, b: at.value(spec, a, b), operands)

    return elementwise(tracer, plain.__name__, values, fold)


def _extreme_builtin(function: Callable[..., Any], spec: Spec) -> Builtin:
    @_builtin(function, 1, None)
    def run(frame: Frame, node: ast.Call, *values: Any) -> Any:
        items = list(values)
        if len(items) == 1:
            items = static_items(frame, items[0], node.args[0])
            frame.at(node)
        return extreme(frame.tracer, spec, function, items)

    return run


@_builtin(round, 1, 2)
def _round(frame: Frame, node: ast.Call, value: Any, digits: Any = None) -> Any:
    """The nearest integer, ties to even, as an `i64`."""
    tracer = frame.tracer
    need_scalar(tracer, "round", value)
    if digits is not None:
        tracer.fail(CallError, "`round` in a kernel takes no digits", hint="write `round(x)`")
    kind = tracer.type_of(value)
    if not kind.is_float:
        return _int(frame, node, [value], {})
    return tracer.typed(ops.CAST, tracer.value(ops.RINT, tracer.convert(value, kind)), to=I64)


@_builtin(len, 1, 1)
def _len(frame: Frame, node: ast.Call, value: Any) -> Any:
    """The first extent of an array, or the length of a tuple or vector."""
    if isinstance(value, ArrayHandle):
        return extent(frame.tracer, value, 0)
    if isinstance(value, Bundle):
        return len(need_vector(frame.tracer, value, "`len`").items)
    if isinstance(value, (tuple, Extents)):
        return len(value)  # pyright: ignore[reportUnknownArgumentType]
    return frame.tracer.fail(OperandError, f"{describe(value)} has no length")


@_builtin(sum, 1, 2)
def _sum(frame: Frame, node: ast.Call, values: Any, start: Any = 0) -> Any:
    """The sum of a tuple, from left to right."""
    for value in static_items(frame, values, node.args[0]):
        start = operators.binary(frame.at(node), ast.Add, start, value)
    return start


def _quantifier(function: Callable[..., Any], spec: Spec) -> Builtin:
    """`any` or `all` of a tuple or vector; every element is computed."""

    @_builtin(function, 1, 1)
    def run(frame: Frame, node: ast.Call, values: Any) -> Any:
        items = static_items(frame, values, node.args[0])
        tracer = frame.at(node)
        truths = [tracer.truth(item) for item in items]
        return Typed(functools.reduce(lambda a, b: tracer.value(spec, a, b), truths))

    return run


@_builtin(divmod, 2, 2)
def _divmod(frame: Frame, node: ast.Call, a: Any, b: Any) -> Any:
    """Quotient and remainder, both floored."""
    tracer = frame.tracer
    quotient = operators.binary(tracer, ast.FloorDiv, a, b)
    return quotient, operators.binary(tracer, ast.Mod, a, b)


@_builtin(pow, 2, 2)
def _pow(frame: Frame, node: ast.Call, a: Any, b: Any) -> Any:
    """`a ** b`."""
    return operators.binary(frame.tracer, ast.Pow, a, b)


def _collection(function: Callable[..., Any]) -> Builtin:
    """A function that only walks collections: its elements may be the kernel's."""

    def run(frame: Frame, node: ast.Call, arguments: list[Any], named: dict[str, Any]) -> Any:
        items = [
            static_items(frame, value, at) for value, at in zip(arguments, node.args, strict=False)
        ]
        return tuple(compute(frame.at(node), function, *items, **named))

    return run


def _refused(name: str, hint: str) -> Builtin:
    """A builtin that acts on the world or on Python itself."""

    def run(frame: Frame, node: ast.Call, arguments: list[Any], named: dict[str, Any]) -> Any:
        frame.fail(CallError, f"`{name}` has no meaning in a kernel", node, hint=hint)

    return run


_OUTSIDE = "call it outside of the kernel"
_REFUSED = {
    name: _refused(name, "write `hl.print(...)`" if name == "print" else _OUTSIDE)
    for name in (
        *("print", "input", "open", "eval", "exec", "compile", "breakpoint", "__import__"),
        *("globals", "locals", "vars", "dir", "setattr", "delattr", "exit", "quit"),
    )
}

BUILTINS: Mapping[Any, Builtin] = MappingProxyType(
    {
        **{getattr(builtins, n): run for n, run in _REFUSED.items() if hasattr(builtins, n)},
        range: _range,
        int: _int,
        float: _float,
        bool: _bool,
        abs: _abs,
        min: _extreme_builtin(builtins.min, ops.MIN),
        max: _extreme_builtin(builtins.max, ops.MAX),
        any: _quantifier(builtins.any, ops.OR),
        all: _quantifier(builtins.all, ops.AND),
        round: _round,
        len: _len,
        sum: _sum,
        divmod: _divmod,
        pow: _pow,
        tuple: _collection(tuple),
        list: _collection(tuple),
        zip: _collection(zip),
        enumerate: _collection(enumerate),
        reversed: _collection(reversed),
    }
)
