"""Loops: `for` over ranges and constants, `while`, `break`, `continue`.

The carried variables' types are a fixpoint: a pass reads the body with assumed shapes and
collects what flows back; when that is more than was assumed the pass is thrown away.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from hetir.frontend import operators, shapes
from hetir.frontend.carrying import (
    UNSET,
    Carried,
    Pass,
    break_shapes,
    carried_by,
    go_on,
    is_settled,
    leave_loop,
    note_break_conflict,
    phi,
)
from hetir.frontend.errors import UnsupportedSyntaxError
from hetir.frontend.expressions import bind
from hetir.frontend.frame import Frame, LoopScope, handles
from hetir.frontend.iteration import static_items
from hetir.frontend.leaving import seal_unreachable
from hetir.frontend.meeting import structured
from hetir.frontend.shapes import Conflict, Missing, Scalars, Shape
from hetir.frontend.unrolling import leave_unrolled, unroll
from hetir.frontend.values import RangeValue, Typed, Unset, is_plain
from hetir.ir import ops
from hetir.ir.core import Value
from hetir.ir.types import I64

# ---- statements ------------------------------------------------------------------------------


@handles(ast.For)
def for_statement(frame: Frame, node: ast.For) -> None:
    """A loop over a range, or the steps of a constant collection one after the other."""
    _no_else(frame, node)
    iterable = frame.evaluate(node.iter)
    if not isinstance(iterable, RangeValue):
        unroll(frame, node, static_items(frame, iterable, node.iter))
        return
    if not isinstance(node.target, ast.Name):
        frame.fail(UnsupportedSyntaxError, "a range gives one number", node.target)
    tracer = frame.at(node.iter)
    bounds = tuple(
        tracer.index(bound, "a bound of `range`")
        for bound in (iterable.start, iterable.stop, iterable.step)
    )
    if tracer.options.debug and not is_plain(iterable.step):
        nonzero = tracer.value(ops.NE, bounds[2], tracer.const(I64, 0))
        tracer.emit(ops.ASSERT, nonzero, attrs={"message": "the step of `range` is 0"})
    name = node.target.id
    carried = carried_by(frame, node)
    if name in carried.names and isinstance(frame.env.get(name, UNSET), Unset):
        # after a loop that ran no step the variable is its start
        at = carried.names.index(name)
        carried.entry[at], carried.shapes[at] = Typed(bounds[0]), Scalars(I64)
    while True:
        index = Value(I64, name)
        found = _read_body(frame, node, carried, index, None)
        if is_settled(frame, carried, found):
            break
    _finish_for(frame, node, carried, found, index, bounds)


@handles(ast.While)
def while_statement(frame: Frame, node: ast.While) -> None:
    """A loop until the condition fails or a `break`."""
    _no_else(frame, node)
    carried = carried_by(frame, node)
    flow = frame.source.flow
    after = tuple(sorted(flow.assigned[node] & flow.after[node]))
    assumed: tuple[Shape, ...] | None = None
    while True:
        found = _read_body(frame, node, carried, None, (after, assumed))
        if not found.runs:
            return
        if not is_settled(frame, carried, found):
            continue
        results = break_shapes(found.scope)
        if all(emitted.emitted == results for emitted in found.scope.broken):
            break
        assumed = results
    _finish_while(frame, node, carried, found, results)


def _no_else(frame: Frame, node: ast.For | ast.While) -> None:
    if node.orelse:
        frame.fail(
            UnsupportedSyntaxError,
            "`else` of a loop has no meaning in a kernel",
            node.orelse[0],
            hint="set a flag before `break` and test it after the loop",
        )


@handles(ast.Break)
def break_statement(frame: Frame, node: ast.Break) -> None:
    """Leave the innermost loop."""
    frame.at(node)
    scope = frame.loops[-1]
    if scope.unrolled:
        leave_unrolled(frame, scope, "break")
    if scope.flag is not None:
        frame.env[scope.flag] = True
    leave_loop(frame, scope)


@handles(ast.Continue)
def continue_statement(frame: Frame, node: ast.Continue) -> None:
    """Go on with the innermost loop's next step."""
    frame.at(node)
    scope = frame.loops[-1]
    if scope.unrolled:
        leave_unrolled(frame, scope, "continue")
    if scope.flag is not None:
        leave_loop(frame, scope)
    else:
        go_on(frame, scope, ops.CONTINUE)


# ---- one pass ----------------------------------------------------------------------------------


def _read_body(
    frame: Frame,
    node: ast.For | ast.While,
    carried: Carried,
    index: Value | None,
    after: tuple[tuple[str, ...], tuple[Shape, ...] | None] | None,
) -> Pass:
    """Read the loop's body once with the assumed shapes of what it carries."""
    env, where = frame.env, frame.where
    frame.env, frame.where = dict(env), dict(where)
    met = [False] * len(carried.names)
    arguments: list[Value] = []
    for at, (name, shape) in enumerate(zip(carried.names, carried.shapes, strict=True)):
        flat = [Value(kind, name) for kind in shapes.types(shape)]
        arguments += flat
        if isinstance(shape, Conflict):
            frame.env[name] = carried.conflicts[name]
        else:
            frame.env[name] = phi(shape, iter(flat), met, at)
    scope = LoopScope(
        carried.names,
        tuple(carried.shapes),
        tuple(arguments),
        *(after or (carried.names, tuple(carried.shapes))),
    )
    block = frame.enter()
    frame.loops.append(scope)
    if index is not None:
        assert isinstance(node, ast.For)
        bind(frame, node.target, Typed(index))
    runs = _run_body(frame, node, scope)
    frame.loops.pop()
    frame.tracer.block = block
    frame.leave()
    found = Pass(block, scope, met, frame.env, frame.where, runs)
    frame.env, frame.where = env, where
    return found


def _run_body(frame: Frame, node: ast.For | ast.While, scope: LoopScope) -> bool:
    """Read the condition and the body; False when a constant condition skips the loop."""
    if isinstance(node, ast.While) and not _test(frame, node, scope):
        return False
    frame.execute(node.body)
    frame.at(node)
    if not frame.tracer.block.ended:
        go_on(frame, scope, ops.YIELD)
    return True


def _test(frame: Frame, node: ast.While, scope: LoopScope) -> bool:
    """Emit the loop's exit where its condition fails."""
    condition = frame.evaluate(node.test)
    tracer = frame.at(node.test)
    if is_plain(condition):
        return operators.compute(tracer, bool, condition)
    test = operators.truth(tracer, condition)
    stay = frame.enter()
    tracer.emit(ops.YIELD)
    frame.leave()
    leave = frame.enter()
    leave_loop(frame, scope)
    frame.leave()
    structured(tracer, ops.IF, (test,), (stay.region(), leave.region()))
    return True


# ---- after the loop ----------------------------------------------------------------------------


def _initial(frame: Frame, carried: Carried) -> list[Value]:
    flat: list[Value] = []
    for value, shape in zip(carried.entry, carried.shapes, strict=True):
        flat += shapes.flatten(frame.tracer, value, shape)
    return flat


def _finish_for(
    frame: Frame,
    node: ast.For,
    carried: Carried,
    found: Pass,
    index: Value,
    bounds: tuple[Value, ...],
) -> None:
    frame.at(node.iter)
    operands = (*bounds, *_initial(frame, carried))
    kinds = [(n, shapes.settle(s)) for n, s in zip(carried.names, carried.shapes, strict=True)]
    results = tuple(Value(kind, name) for name, shape in kinds for kind in shapes.types(shape))
    body = found.block.region(index, *found.scope.arguments)
    structured(frame.tracer, ops.FOR, operands, (body,), results)
    values = iter(results)
    for name, shape in kinds:
        _after(frame, found, carried, name, shape, values)


def _after(
    frame: Frame, found: Pass, carried: Carried, name: str, shape: Shape, values: Iterator[Value]
) -> None:
    """A variable's value after the loop."""
    if isinstance(shape, Conflict):
        frame.env[name] = carried.conflicts[name]
    elif isinstance(shape, Missing):
        frame.env[name] = Unset(found.where.get(name))
    else:
        frame.env[name] = shapes.rebuild(shape, values)
    if name in found.where:
        frame.where[name] = found.where[name]


def _finish_while(
    frame: Frame, node: ast.While, carried: Carried, found: Pass, results: tuple[Shape, ...]
) -> None:
    frame.at(node.test)
    operands = tuple(_initial(frame, carried))
    after = found.scope.break_names if found.scope.broken else ()
    kinds = list(zip(after, results, strict=True))
    outs = tuple(Value(kind, name) for name, shape in kinds for kind in shapes.types(shape))
    body = found.block.region(*found.scope.arguments)
    structured(frame.tracer, ops.LOOP, operands, (body,), outs)
    if not found.scope.broken:
        seal_unreachable(frame)
        return
    values = iter(outs)
    for at, (name, shape) in enumerate(kinds):
        if isinstance(shape, Conflict) and name not in carried.conflicts:
            carried.conflicts[name] = note_break_conflict(frame, found.scope, name, at)
        _after(frame, found, carried, name, shape, values)
