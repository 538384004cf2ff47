"""Helper functions: read once for each kind of arguments, and called."""

from __future__ import annotations

import ast
import functools
import inspect
import types
from dataclasses import dataclass, field
from typing import Any

from hetir.diagnostics import Label
from hetir.frontend import shapes
from hetir.frontend.errors import CallError, RecursionRefusedError, ReturnError
from hetir.frontend.frame import Frame, ReturnScope, open_frame
from hetir.frontend.leaving import leave_function
from hetir.frontend.primitive import Func
from hetir.frontend.shapes import Arrays, Bundles, Conflict, Plain, Scalars, Shape, Tuples, Weak
from hetir.frontend.tracer import Block, Tracer
from hetir.frontend.values import (
    ArrayHandle,
    Bundle,
    FormatText,
    Method,
    RangeValue,
    Typed,
    WeakNumber,
    describe,
    is_tuple,
    quoted,
)
from hetir.ir import ops
from hetir.ir.core import Function, Value, walk
from hetir.ir.types import Scalar, Type
from hetir.source import Loc

_DEEPEST = 64


@dataclass(slots=True)
class Helper:
    """One reading of a helper: its function, and where the operands of a call come from."""

    function: Function
    result: Shape
    # for each parameter: the position of the argument's leaf, and the type to convert it to
    operands: tuple[tuple[int, Scalar | None], ...]

    @property
    def empty(self) -> bool:
        """Whether calling it does nothing but give constants."""
        return len(self.function.body.body) == 1 and not self.function.results


@dataclass(slots=True)
class _Parameters:
    """The function's parameters: of each leaf of the arguments, typed or one a type used."""

    found: list[tuple[int, Scalar | None, Value]] = field(
        default_factory=list[tuple[int, Scalar | None, Value]]
    )
    leaves: int = 0


def call_helper(
    frame: Frame, node: ast.Call, callee: Any, arguments: list[Any], named: dict[str, Any]
) -> Any:
    """Call a Python function."""
    if isinstance(callee, Func):
        callee = callee.function
    if isinstance(callee, types.MethodType):
        callee, arguments = callee.__func__, [callee.__self__, *arguments]
    if not isinstance(callee, types.FunctionType):
        frame.fail(CallError, f"{describe(callee)} cannot be called", node)
    bound = _bind(frame, node, callee, arguments, named)
    values = [shapes.lasting(frame.tracer, value) for value in bound.values()]
    leaves: list[Any] = []
    kinds = tuple(_argument(frame, node, value, leaves) for value in values)
    helper = _helper(frame, node, callee, tuple(bound), kinds)
    if helper.empty:
        return shapes.rebuild(helper.result, iter(()))
    return _emit_call(frame, node, helper, leaves)


def _emit_call(frame: Frame, node: ast.Call, helper: Helper, leaves: list[Any]) -> Any:
    tracer = frame.at(node)
    operands = [
        leaves[at].ir if kind is None else tracer.convert(leaves[at], kind)
        for at, kind in helper.operands
    ]
    call = tracer.emit(
        ops.CALL,
        *operands,
        attrs={"callee": helper.function.name},
        types=helper.function.results,
    )
    return shapes.rebuild(helper.result, iter(call.results))


@functools.cache
def _signature(function: Any) -> inspect.Signature:
    return inspect.signature(function)


def _bind(
    frame: Frame,
    node: ast.Call,
    callee: types.FunctionType,
    arguments: list[Any],
    named: dict[str, Any],
) -> dict[str, Any]:
    signature = _signature(callee)
    try:
        bound = signature.bind(*arguments, **named)
    except TypeError as error:
        frame.fail(
            CallError,
            f"`{callee.__name__}`: {quoted(error)}",
            node,
            hint=f"its parameters are `{callee.__name__}({', '.join(signature.parameters)})`",
        )
    bound.apply_defaults()
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            frame.fail(
                CallError,
                f"`**{parameter.name}` of `{callee.__name__}` has no meaning in a kernel",
                node,
                hint="write the parameters one by one",
            )
    return dict(bound.arguments)


def _argument(frame: Frame, node: ast.Call, value: Any, leaves: list[Any]) -> Shape:
    """The shape of an argument, which is what a helper is read for; `leaves` gains its values."""
    if isinstance(value, (FormatText, Method, RangeValue)):
        frame.fail(CallError, f"{describe(value)} cannot be passed to a function", node)
    if is_tuple(value):
        return Tuples(type(value), tuple(_argument(frame, node, item, leaves) for item in value))
    shape = shapes.shape_of(value)
    if isinstance(value, Bundle):
        leaves += map(Typed, value.items)
    elif not isinstance(shape, Plain):
        leaves.append(value)
    return shape


def _helper(
    frame: Frame,
    node: ast.Call,
    callee: types.FunctionType,
    names: tuple[str, ...],
    kinds: tuple[Shape, ...],
) -> Helper:
    """The reading of a helper for these kinds of arguments, made at the first call."""
    session, key = frame.session, (callee, _Key(kinds))
    if (found := session.helpers.get(key)) is not None:
        return found
    if key in session.active or len(session.active) >= _DEEPEST:
        frame.fail(
            RecursionRefusedError,
            f"`{callee.__name__}` calls itself",
            node,
            hint="write a loop",
        )
    frame.captures.code(callee)
    session.active.append(key)
    tracer, loc = frame.tracer, frame.source.loc(node)
    saved = tracer.block, tracer.loc
    tracer.callers.append(loc)
    helper = _read(frame, callee, names, kinds)
    tracer.callers.pop()
    tracer.block, tracer.loc = saved
    session.active.pop()
    session.helpers[key] = helper
    if not helper.empty:
        tracer.functions[helper.function.name] = helper.function
    return helper


class _Key:
    """Shapes as a dictionary key, in which a constant is known by its value."""

    __slots__ = ("kinds",)

    def __init__(self, kinds: tuple[Shape, ...]) -> None:
        self.kinds = kinds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.kinds == other.kinds

    def __hash__(self) -> int:
        return hash(len(self.kinds))


def _read(
    frame: Frame, callee: types.FunctionType, names: tuple[str, ...], kinds: tuple[Shape, ...]
) -> Helper:
    """Read the body until the results of all returns agree."""
    tracer = frame.tracer
    returns = ReturnScope()
    while True:
        tracer.block = Block()
        inner = open_frame(tracer, callee, frame.captures, frame.session)
        inner.returns = returns
        inputs = _Parameters()
        for name, kind in zip(names, kinds, strict=True):
            inner.env[name] = _parameter(inputs, name, kind)
            inner.where[name] = inner.source.loc(inner.source.node)
        inner.execute(inner.source.node.body)
        tracer.loc = inner.source.loc(inner.source.node)
        if not tracer.block.ended:
            leave_function(inner, None)
        result = _result(tracer, callee, returns)
        alike = all(shape == result for shape in returns.emitted) and not returns.guessed
        if result == returns.shape or alike:
            break
        returns = ReturnScope(result)
    return _finish(tracer, callee, inputs, result, inner.source.loc(inner.source.node))


def _parameter(inputs: _Parameters, name: str, kind: Shape) -> Any:
    match kind:
        case Plain():
            return kind.value
        case Tuples():
            items = [_parameter(inputs, f"{name}_{i}", k) for i, k in enumerate(kind.items)]
            return shapes.make_tuple(kind.cls, items)
        case Bundles():
            kinds = list(shapes.types(kind))
            return shapes.rebuild(kind, iter([_leaf(inputs, name, own) for own in kinds]))
        case Scalars() | Arrays():
            value = _leaf(inputs, name, kind.type)
            return Typed(value) if isinstance(kind, Scalars) else ArrayHandle(value)
        case Weak():
            at, made = inputs.leaves, dict[Scalar, Value]()
            inputs.leaves += 1

            def build(_: Tracer, scalar: Scalar) -> Value:
                if (found := made.get(scalar)) is None:
                    found = made[scalar] = Value(scalar, name)
                    inputs.found.append((at, scalar, found))
                return found

            return WeakNumber(kind.kind, build, leaf=True)
        case _:
            raise AssertionError(f"an argument cannot be {kind}")


def _leaf(inputs: _Parameters, name: str, kind: Type) -> Value:
    """A parameter of the function for one leaf of the arguments."""
    value = Value(kind, name)
    inputs.found.append((inputs.leaves, None, value))
    inputs.leaves += 1
    return value


def _result(tracer: Tracer, callee: types.FunctionType, returns: ReturnScope) -> Shape:
    """The common shape of all returned values."""
    if not returns.values:
        return Plain(None)  # a loop that never ends
    first, place = returns.values[0]
    joined = shapes.shape_of(first)
    for value, loc in returns.values[1:]:
        own = shapes.shape_of(value)
        wider = shapes.join(joined, own)
        if isinstance(wider, Conflict):
            _disagree(tracer, callee, (joined, place), (own, loc))
        joined = wider
    if not shapes.movable(joined) and any(value is not first for value, _ in returns.values):
        tracer.fail(
            ReturnError,
            f"`{callee.__name__}` returns a shared or private array on several paths",
            loc=place,
            hint="return it once, at the end",
        )
    return shapes.settle(joined)


def _disagree(
    tracer: Tracer,
    callee: types.FunctionType,
    one: tuple[Shape, Loc],
    other: tuple[Shape, Loc],
) -> None:
    labels = [Label(tracer.called(loc), f"returns {shapes.words(s)}") for s, loc in (one, other)]
    raise ReturnError(
        f"`{callee.__name__}` returns {shapes.words(one[0])} or {shapes.words(other[0])},"
        " depending on the path",
        *labels,
        hint="return one kind of value on every path",
    )


def _finish(
    tracer: Tracer, callee: types.FunctionType, inputs: _Parameters, result: Shape, loc: Loc
) -> Helper:
    body = tracer.block.region()
    used = {v for op in walk(body) for v in op.operands}
    found = [item for item in inputs.found if item[1] is None or item[2] in used]
    found.sort(key=lambda item: item[0])
    function = Function(
        name=_unique(tracer, callee.__name__),
        params=tuple(value for _, _, value in found),
        results=tuple(shapes.types(result)),
        body=body,
        loc=loc,
    )
    return Helper(function, result, tuple((at, kind) for at, kind, _ in found))


def _unique(tracer: Tracer, name: str) -> str:
    if name not in tracer.functions:
        return name
    count = 1
    while f"{name}_{count}" in tracer.functions:
        count += 1
    return f"{name}_{count}"


@dataclass(slots=True)
class Session:
    """What one trace shares between its functions."""

    helpers: dict[Any, Helper] = field(default_factory=dict[Any, Helper])
    active: list[Any] = field(default_factory=list[Any])
