"""`return`, and the ends of regions that no execution reaches."""

from __future__ import annotations

import ast
from collections.abc import Collection

from hetir.frontend import shapes
from hetir.frontend.errors import ReturnError
from hetir.frontend.frame import Frame, handles
from hetir.frontend.values import ArrayHandle, describe
from hetir.ir import ops
from hetir.ir.core import Value
from hetir.ir.types import Scalar, Type


@handles(ast.Return)
def return_statement(frame: Frame, node: ast.Return) -> None:
    """Leave the kernel, or the helper with its result."""
    value = None if node.value is None else frame.evaluate(node.value)
    tracer = frame.at(node)
    if frame.returns is None:
        if value is not None:
            tracer.fail(
                ReturnError,
                f"a kernel returns nothing, got {describe(value)}",
                hint="store the result into an array argument",
            )
        tracer.emit(ops.RETURN)
        return
    leave_function(frame, value)


def leave_function(frame: Frame, value: object) -> None:
    """Emit a helper's return, converted to the result that its other returns need."""
    returns, tracer = frame.returns, frame.tracer
    assert returns is not None
    assert tracer.loc is not None
    value = shapes.lasting(tracer, value)
    own = shapes.settle(shapes.shape_of(value))
    wanted = own if returns.shape is None else returns.shape
    fits = shapes.join(own, wanted) == wanted or shapes.weak_kind(shapes.shape_of(value))
    returns.values.append((value, tracer.loc))
    returns.emitted.append(wanted if fits else own)
    tracer.emit(ops.RETURN, *(shapes.flatten(tracer, value, wanted) if fits else ()))


def seal_unreachable(frame: Frame, exits: Collection[ops.Spec] = ()) -> None:
    """End a region after an op that never falls through, by repeating one of its exits.

    `continue` is repeated with the loop's own arguments, which are there; `return` with
    values that nobody sees.
    """
    tracer = frame.tracer
    tracer.block.sealed = True
    loops = [loop for loop in frame.loops if loop.unrolled is None]
    if loops and (ops.CONTINUE in exits or not exits):
        tracer.emit(ops.CONTINUE, *loops[-1].arguments)
        return
    shape = frame.returns.shape if frame.returns else None
    if frame.returns is not None:
        frame.returns.guessed = shape is None
    values = [] if shape is None else [_any_value(frame, kind) for kind in shapes.types(shape)]
    tracer.emit(ops.RETURN, *values)


def _any_value(frame: Frame, kind: Type) -> Value:
    """Some value of a type."""
    if isinstance(kind, Scalar):
        return frame.tracer.constant_bits(kind, 0)
    for value in frame.env.values():
        if isinstance(value, ArrayHandle) and value.type == kind:
            return value.ir
    return frame.tracer.fail(
        ReturnError,
        f"`{frame.function.__name__}` returns an array out of an endless loop",
        hint="leave the loop with `break` and return after it",
    )
