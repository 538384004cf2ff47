"""The entry: a Python function and its arguments become a module of hetIR."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hetir.frontend import (
    attributes,
    branches,
    calls,
    choices,
    expressions,
    indexing,
    leaving,
    loops,
    statements,
)
from hetir.frontend.arguments import Argument, Static, Tuple, Weak
from hetir.frontend.captures import Capture, Captures
from hetir.frontend.errors import NestingError, SignatureError
from hetir.frontend.forms import VectorType
from hetir.frontend.frame import Frame, open_frame
from hetir.frontend.helpers import Session
from hetir.frontend.parameters import Parameter, parameters, settle_arguments
from hetir.frontend.primitive import Func
from hetir.frontend.shapes import make_tuple
from hetir.frontend.tracer import Tracer, activate
from hetir.frontend.values import ArrayHandle, Bundle, Typed, WeakNumber
from hetir.ir import ops
from hetir.ir.core import Function, Kernel, Module, Options, Param, Region, Value, walk
from hetir.ir.types import ArrayType, Scalar

# importing them fills the table of what reads which node
READERS = (
    attributes,
    branches,
    calls,
    choices,
    expressions,
    indexing,
    leaving,
    loops,
    statements,
)

Source = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Traced:
    """A module, and what the kernel read from outside of itself.

    The module stays right while no capture is `stale`.
    """

    module: Module
    captures: tuple[Capture, ...]

    @property
    def stale(self) -> bool:
        """Whether something that was captured has changed."""
        return any(capture.stale for capture in self.captures)


@dataclass(slots=True)
class _Inputs:
    """The kernel's parameters as they are found."""

    typed: list[tuple[Source, Value]] = field(default_factory=list[tuple[Source, Value]])
    weak: list[tuple[Source, Value]] = field(default_factory=list[tuple[Source, Value]])


def trace(
    function: Callable[..., object],
    arguments: tuple[Argument, ...],
    *,
    options: Options | None = None,
    name: str | None = None,
) -> Module:
    """Read `function` as a kernel for `arguments`, one for each parameter in order.

    Arrays and typed scalars become kernel parameters even where they are not used; a `Weak`
    one becomes a parameter for each type that it is used as, none where it is not.

    Raises CompileError subclasses that point at the Python line.
    """
    return record(function, arguments, options=options, name=name).module


def record(
    function: Callable[..., object],
    arguments: tuple[Argument, ...],
    *,
    options: Options | None = None,
    name: str | None = None,
) -> Traced:
    """`trace`, with the captured values."""
    target, arguments = _unwrap(function, arguments)
    tracer, captures = Tracer(options), Captures()
    frame = open_frame(tracer, target, captures, Session())
    described = parameters(target)
    settled = settle_arguments(target, described, arguments)
    inputs = _Inputs()
    for position, (parameter, argument) in enumerate(zip(described, settled, strict=True)):
        value = _input(inputs, parameter.name, (position,), argument)
        frame.env[parameter.name] = value
        frame.where[parameter.name] = frame.source.loc(frame.source.node)
    with activate(tracer):
        try:
            frame.execute(frame.source.node.body)
        except RecursionError as error:
            message = "this nests more deeply than Python's recursion limit allows"
            hint = "split the expression, or move a part into a helper function"
            raise tracer.error(NestingError, message, hint=hint) from error
        tracer.loc = frame.source.loc(frame.source.node)
        if not tracer.block.ended:
            tracer.emit(ops.RETURN)
    kernel = Kernel(
        name=name or target.__name__,
        params=_ordered(inputs, tracer),
        body=tracer.block.region(),
        options=tracer.options,
        loc=frame.source.loc(frame.source.node),
    )
    module = Module(kernels=(kernel,), functions=_called(kernel, tracer))
    return Traced(module, tuple(captures.found.values()))


def _unwrap(
    function: Callable[..., object], arguments: tuple[Argument, ...]
) -> tuple[types.FunctionType, tuple[Argument, ...]]:
    """The Python function below a bound method or a helper's mark."""
    if isinstance(function, Func):
        function = function.function
    if isinstance(function, types.MethodType):
        return _unwrap(function.__func__, (Static(function.__self__), *arguments))
    if not isinstance(function, types.FunctionType):
        raise SignatureError(
            f"a kernel is a Python function, got a `{type(function).__name__}`",
            hint="write it with `def`",
        )
    return function, arguments


def _input(inputs: _Inputs, name: str, source: Source, argument: Argument) -> Any:
    """The value that a parameter has inside the kernel."""
    match argument:
        case Static():
            return argument.value
        case Scalar():
            inputs.typed.append((source, Value(argument, name)))
            return Typed(inputs.typed[-1][1])
        case VectorType():
            items = [Value(argument.element, f"{name}_{at}") for at in range(argument.length)]
            inputs.typed += [((*source, str(at)), item) for at, item in enumerate(items)]
            return Bundle(argument, tuple(items))
        case ArrayType():
            inputs.typed.append((source, Value(argument, name)))
            return ArrayHandle(inputs.typed[-1][1])
        case Weak():
            return _weak_input(inputs, name, source, argument.kind)
        case Tuple():
            names = getattr(argument.cls, "_fields", map(str, range(len(argument.fields))))
            items = [
                _input(inputs, f"{name}_{field}", (*source, field), inner)
                for field, inner in zip(names, argument.fields, strict=True)
            ]
            return make_tuple(argument.cls, items)


def _weak_input(inputs: _Inputs, name: str, source: Source, kind: str) -> WeakNumber:
    """A Python number: one parameter for each type that it is used as."""
    made: dict[Scalar, Value] = {}

    def build(_: Tracer, scalar: Scalar) -> Value:
        if (found := made.get(scalar)) is None:
            found = made[scalar] = Value(scalar, name)
            inputs.weak.append((source, found))
        return found

    return WeakNumber(kind, build, leaf=True)


def _ordered(inputs: _Inputs, tracer: Tracer) -> tuple[Param, ...]:
    """All parameters by position; weak ones only where the finished body uses them."""
    used = {v for op in walk(tracer.block.region()) for v in op.operands}
    weak = [(source, value) for source, value in inputs.weak if value in used]
    found = [*inputs.typed, *weak]
    order = {source: at for at, source in enumerate(_sources(inputs))}
    found.sort(key=lambda item: order[item[0]])
    return tuple(Param(value, source) for source, value in found)


def _called(kernel: Kernel, tracer: Tracer) -> tuple[Function, ...]:
    """The functions that the finished body reaches, callees first."""
    found: dict[str, Function] = {}

    def visit(region: Region) -> None:
        for op in walk(region):
            if op.spec is ops.CALL and (name := str(op.attrs["callee"])) not in found:
                visit(tracer.functions[name].body)
                found[name] = tracer.functions[name]

    visit(kernel.body)
    return tuple(found.values())


def _sources(inputs: _Inputs) -> list[Source]:
    """The order of the Python parameters; fields of one tuple keep theirs."""
    both = dict.fromkeys(source for source, _ in (*inputs.typed, *inputs.weak))
    return sorted(both, key=lambda source: source[0])


__all__ = ["Argument", "Frame", "Parameter", "Traced", "record", "trace"]
