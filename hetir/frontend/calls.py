"""Calls: conversions, builtins, functions of `hl`, plain Python and helpers."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import types
from typing import Any

import numpy as np

from hetir.frontend import helpers
from hetir.frontend.builtin_functions import BUILTINS
from hetir.frontend.bundles import converted, make_vector
from hetir.frontend.elementwise import elementwise
from hetir.frontend.errors import CallError
from hetir.frontend.forms import FragmentType, VectorType
from hetir.frontend.frame import Frame, handles
from hetir.frontend.iteration import static_items
from hetir.frontend.native import native
from hetir.frontend.operators import compute
from hetir.frontend.primitive import Elementary, Func
from hetir.frontend.tracer import Tracer
from hetir.frontend.values import Bundle, FormatText, Method, Typed, describe, is_plain, quoted
from hetir.ir.core import Value
from hetir.ir.types import F32, SCALARS, Scalar

# methods that change a plain object: what runs while compiling must leave no trace
_MUTATORS = frozenset(
    {
        "__delitem__",
        "__setattr__",
        "__setitem__",
        "add",
        "append",
        "clear",
        "discard",
        "extend",
        "fill",
        "insert",
        "pop",
        "popitem",
        "put",
        "remove",
        "resize",
        "reverse",
        "setdefault",
        "setfield",
        "sort",
        "update",
    }
)


@handles(ast.Call)
def call(frame: Frame, node: ast.Call) -> Any:
    """`callee(...)`."""
    callee = frame.evaluate(node.func)
    arguments: list[Any] = []
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            arguments += static_items(frame, frame.evaluate(argument.value), argument)
        else:
            arguments.append(frame.evaluate(argument))
    named = {_keyword(frame, k): frame.evaluate(k.value) for k in node.keywords}
    return apply(frame, node, callee, arguments, named)


def _keyword(frame: Frame, node: ast.keyword) -> str:
    if node.arg is None:
        frame.fail(
            CallError, "`**` in a call has no meaning in a kernel", node.value,
            hint="write the arguments one by one",
        )  # fmt: skip
    return node.arg


def apply(
    frame: Frame, node: ast.Call, callee: Any, arguments: list[Any], named: dict[str, Any]
) -> Any:
    """Call what `callee` is."""
    tracer = frame.at(node)
    if isinstance(callee, (Scalar, VectorType, FragmentType)):
        return _make(tracer, callee, arguments, named)
    if isinstance(callee, Method):
        (kind,) = _only(tracer, callee.name, arguments, named)
        return convert(tracer, kind, callee.owner)
    if (emit := getattr(callee, "__hetir_primitive__", None)) is not None:
        check_arguments(tracer, emit, arguments, named)
        return emit(*arguments, **named)
    if isinstance(callee, Elementary):
        return _elementary(frame, node, callee, arguments, named)
    if isinstance(getattr(callee, "__self__", None), tuple) and callee.__name__ == "_replace":
        return compute(tracer, callee, *arguments, **named)
    if isinstance(callee, (types.FunctionType, types.MethodType, Func)):
        return helpers.call_helper(frame, node, callee, arguments, named)
    try:
        builtin = BUILTINS.get(callee)
    except TypeError:  # no hash
        builtin = None
    if builtin is not None:
        return builtin(frame, node, arguments, named)
    return _plain_call(tracer, callee, arguments, named)


def _only(tracer: Tracer, name: str, arguments: list[Any], named: dict[str, Any]) -> list[Any]:
    if len(arguments) != 1 or named:
        tracer.fail(CallError, f"`{name}` takes one argument, got {len(arguments) + len(named)}")
    return arguments


def _make(
    tracer: Tracer,
    kind: Scalar | VectorType | FragmentType,
    arguments: list[Any],
    named: dict[str, Any],
) -> Typed | Bundle:
    """A scalar converted, a vector of values, or a fragment filled with one."""
    if isinstance(kind, VectorType) and not named:
        return make_vector(tracer, kind, arguments)
    (value,) = _only(tracer, str(kind), arguments, named)
    if not isinstance(kind, FragmentType):
        return convert(tracer, kind, value)
    item = tracer.convert(value, kind.element, explicit=True)
    return Bundle(kind, (item,) * kind.share(tracer.options.width))


def convert(tracer: Tracer, kind: Any, value: Any) -> Typed | Bundle:
    """`value` as the scalar type `kind`; of a vector each element."""
    if isinstance(value, Bundle) and isinstance(kind, (Scalar, VectorType, FragmentType)):
        return converted(tracer, kind, value)
    if not isinstance(kind, Scalar):
        tracer.fail(
            CallError, f"a type is needed, got {describe(kind)}", hint="write `hl.f32` or another"
        )
    return Typed(tracer.convert(value, kind, explicit=True))


def _elementary(
    frame: Frame,
    node: ast.Call,
    callee: Elementary,
    arguments: list[Any],
    named: dict[str, Any],
) -> Any:
    """Call a mathematical function at `f32` or `f64`."""
    tracer = frame.tracer
    check_arguments(tracer, callee.function, arguments, named)
    values = [*arguments, *named.values()]
    name = callee.function.__name__

    def emit(at: Tracer, kind: Scalar, operands: list[Value]) -> Value:
        wide = F32 if kind.bits < F32.bits else kind
        typed = [Typed(at.convert(Typed(operand), wide)) for operand in operands]
        given = dict(zip(named, typed[len(arguments) :], strict=True))
        loc = at.loc
        result = helpers.call_helper(frame, node, callee, typed[: len(arguments)], given)
        at.loc = loc
        value = native(at, name, [t.ir for t in typed], at.convert(result, wide))
        return at.convert(Typed(value), kind)

    return elementwise(tracer, name, values, emit, "float")


@functools.cache
def _signature(function: Any) -> inspect.Signature:
    return inspect.signature(function)


def check_arguments(
    tracer: Tracer, function: Any, arguments: list[Any], named: dict[str, Any]
) -> None:
    """Raise the error for arguments that do not fit a function's parameters."""
    code = function.__code__
    if not named and len(arguments) == code.co_argcount:
        return
    try:
        _signature(function).bind(*arguments, **named)
    except TypeError as error:
        tracer.fail(
            CallError,
            f"`{function.__name__}`: {quoted(error)}",
            hint=f"its parameters are `{', '.join(_signature(function).parameters)}`",
        )


def _plain_call(tracer: Tracer, callee: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
    """Let Python make a call in which nothing is the kernel's."""
    values = [*arguments, *named.values()]
    makes_tuple = _is_named_tuple(callee)
    if not callable(callee):
        tracer.fail(CallError, f"{describe(callee)} cannot be called")
    if hasattr(callee, "launch") and hasattr(callee, "__wrapped__"):
        tracer.fail(
            CallError,
            "a kernel cannot call a kernel",
            hint="mark the function that is called with `@hetir.func`",
        )
    name = getattr(callee, "__name__", type(callee).__name__)
    if name in _MUTATORS and getattr(callee, "__self__", None) is not None:
        tracer.fail(
            CallError,
            f"`{name}` changes a Python object, which a kernel cannot",
            hint="store into an array argument, or build a new tuple",
        )
    if not makes_tuple and not all(map(is_plain, values)):
        worst = next(value for value in values if not is_plain(value))
        tracer.fail(
            CallError,
            f"`{name}` cannot take {describe(worst)}",
            hint=_replacement(callee, name, worst),
        )
    return compute(tracer, callee, *arguments, **named)


def _is_named_tuple(callee: Any) -> bool:
    bases: tuple[type, ...] = getattr(callee, "__mro__", ())
    return tuple in bases and hasattr(callee, "_fields")


def _replacement(callee: Any, name: str, value: object) -> str | None:
    if isinstance(value, FormatText):
        return "pass f-strings to `hl.print` only"
    if name in ("str", "repr", "format"):
        return "print values with `hl.print`"
    if isinstance(callee, type) and issubclass(callee, np.generic):
        found = [k for k in SCALARS.values() if k.numpy.type is callee]
        return f"write `hl.{found[0]}(...)`" if found else None
    if hasattr(sys.modules.get("hetir.lang"), name):
        return f"write `hl.{name}(...)`"
    return "write the function in Python"
