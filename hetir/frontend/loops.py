"""Loops: `for` over ranges and constants, `while`, `break`, `continue`.

The carried variables' types are a fixpoint: a pass reads the body with assumed shapes and
collects what flows back; when that is more than was assumed the pass is thrown away.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from hetir.frontend import operators, shapes
from hetir.frontend.branches import conflict, structured
from hetir.frontend.errors import UnsupportedSyntaxError
from hetir.frontend.expressions import bind
from hetir.frontend.frame import Exit, Frame, LoopScope, handles
from hetir.frontend.iteration import static_items
from hetir.frontend.leaving import seal_unreachable
from hetir.frontend.shapes import Conflict, Missing, Scalars, Shape, Tuples
from hetir.frontend.tracer import Block, Tracer
from hetir.frontend.values import DEFAULT, RangeValue, Typed, Unset, WeakNumber, is_plain
from hetir.ir import ops
from hetir.ir.core import Value
from hetir.ir.types import I64, Scalar
from hetir.source import Loc

_UNSET = Unset()


@dataclass(slots=True)
class Carried:
    """The variables that go around a loop, and what is assumed of them."""

    names: tuple[str, ...]
    entry: list[Any]
    places: list[Loc | None]
    shapes: list[Shape]
    conflicts: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Pass:
    """One reading of a loop's body."""

    block: Block
    scope: LoopScope
    met: list[bool]
    env: dict[str, Any]
    where: dict[str, Loc]
    runs: bool = True


# ---- statements ------------------------------------------------------------------------------


@handles(ast.For)
def for_statement(frame: Frame, node: ast.For) -> None:
    """A loop over a range, or the steps of a constant collection one after the other."""
    _no_else(frame, node)
    iterable = frame.evaluate(node.iter)
    if not isinstance(iterable, RangeValue):
        _unroll(frame, node, static_items(frame, iterable, node.iter))
        return
    if not isinstance(node.target, ast.Name):
        frame.fail(UnsupportedSyntaxError, "a range gives one number", node.target)
    tracer = frame.at(node.iter)
    bounds = tuple(
        tracer.index(bound, "a bound of `range`")
        for bound in (iterable.start, iterable.stop, iterable.step)
    )
    name = node.target.id
    carried = _carried(frame, node)
    if name in carried.names and isinstance(frame.env.get(name, _UNSET), Unset):
        # after a loop that ran no step the variable is its start
        at = carried.names.index(name)
        carried.entry[at], carried.shapes[at] = Typed(bounds[0]), Scalars(I64)
    while True:
        index = Value(I64, name)
        found = _read_body(frame, node, carried, index, None)
        if _settled(frame, carried, found):
            break
    _finish_for(frame, node, carried, found, index, bounds)


@handles(ast.While)
def while_statement(frame: Frame, node: ast.While) -> None:
    """A loop until the condition fails or a `break`."""
    _no_else(frame, node)
    carried = _carried(frame, node)
    flow = frame.source.flow
    after = tuple(sorted(flow.assigned[node] & flow.after[node]))
    assumed: tuple[Shape, ...] | None = None
    while True:
        found = _read_body(frame, node, carried, None, (after, assumed))
        if not found.runs:
            return
        if not _settled(frame, carried, found):
            continue
        results = _break_shapes(found.scope)
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
        _leave_unrolled(frame, node, scope, "break")
    leave_loop(frame, scope)


@handles(ast.Continue)
def continue_statement(frame: Frame, node: ast.Continue) -> None:
    """Go on with the innermost loop's next step."""
    frame.at(node)
    scope = frame.loops[-1]
    if scope.unrolled:
        _leave_unrolled(frame, node, scope, "continue")
    go_on(frame, scope, ops.CONTINUE)


def leave_loop(frame: Frame, scope: LoopScope) -> None:
    """Emit `break` with the variables that are read after the loop."""
    assumed = scope.break_shapes
    found = _exit(frame, scope.break_names, assumed)
    scope.broken.append(found)
    _emit_exit(frame.tracer, ops.BREAK, found)


def go_on(frame: Frame, scope: LoopScope, spec: ops.Spec) -> None:
    """Emit `continue` or the body's `yield` with the carried variables."""
    found = _exit(frame, scope.names, scope.shapes)
    scope.continued.append(found)
    _emit_exit(frame.tracer, spec, found)


def _exit(frame: Frame, names: tuple[str, ...], assumed: tuple[Shape, ...] | None) -> Exit:
    values = tuple(frame.env.get(name, _UNSET) for name in names)
    places = tuple(frame.where.get(name) for name in names)
    own = [shapes.shape_of(value) for value in values]
    if assumed is None:
        emitted = tuple(map(shapes.settle, map(shapes.loosen, own)))
    else:
        # a shape that does not fit ends this pass: nothing is emitted for it
        fits = [shapes.join(a, b) == b for a, b in zip(own, assumed, strict=True)]
        emitted = tuple(b if ok else Missing() for b, ok in zip(assumed, fits, strict=True))
    return Exit(values, places, emitted)


def _emit_exit(tracer: Tracer, spec: ops.Spec, found: Exit) -> None:
    flat: list[Value] = []
    for value, shape in zip(found.values, found.emitted, strict=True):
        flat += shapes.flatten(tracer, value, shape)
    tracer.emit(spec, *flat)


# ---- one pass ----------------------------------------------------------------------------------


def _carried(frame: Frame, node: ast.For | ast.While) -> Carried:
    flow = frame.source.flow
    names = tuple(sorted(flow.assigned[node] & flow.head[node]))
    entry = [frame.env.get(name, _UNSET) for name in names]
    known = frame.loop_shapes.get(node)
    start = [shapes.loosen(shapes.shape_of(value)) for value in entry]
    if known is not None and known[0] == start and not _broken(known[1]):
        # the result of an earlier reading: this one only confirms it
        assumed = list(known[1])
    else:
        assumed = list(start)
    frame.loop_shapes[node] = (start, assumed)
    return Carried(names, entry, [frame.where.get(name) for name in names], assumed)


def _broken(found: list[Shape]) -> bool:
    return any(isinstance(shape, Conflict) for shape in found)


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
            frame.env[name] = _phi(shape, iter(flat), met, at)
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


def _phi(shape: Shape, values: Iterator[Value], met: list[bool], at: int) -> Any:
    """A carried variable inside the loop; a weak one notes whether it met a type."""
    if isinstance(shape, Tuples):
        return shapes.make_tuple(shape.cls, [_phi(s, values, met, at) for s in shape.items])
    if not isinstance(shape, shapes.Weak):
        return shapes.rebuild(shape, values)
    own, default = next(values), DEFAULT[shape.kind]

    def build(tracer: Tracer, kind: Scalar) -> Value:
        if kind == default:
            return own
        met[at] = True
        return tracer.value(ops.CAST, own, to=kind)

    return WeakNumber(shape.kind, build, leaf=True, portable=False)


def _settled(frame: Frame, carried: Carried, found: Pass) -> bool:
    """Whether the pass assumed enough; else `carried` holds what the next one assumes."""
    settled = True
    exits = found.scope.continued + (
        found.scope.broken if found.scope.break_names is found.scope.names else []
    )
    for at, name in enumerate(carried.names):
        assumed = carried.shapes[at]
        if isinstance(assumed, Conflict):
            continue
        joined = assumed
        for leaving in exits:
            own = shapes.shape_of(leaving.values[at])
            joined = shapes.join(joined, own)
            if isinstance(joined, Conflict) or _moved(joined, leaving.values[at], carried, at):
                joined = _conflicting(frame, carried, at, leaving, own)
                break
        if joined == assumed and found.met[at]:
            # it met a type without taking it: from now on it has its default one
            joined = shapes.settle(joined)
        settled = settled and joined == assumed
        carried.shapes[at] = joined
    return settled


def _moved(shape: Shape, value: Any, carried: Carried, at: int) -> bool:
    """Whether a shared or private array would have to be chosen at run time."""
    return not shapes.movable(shape) and value is not carried.entry[at]


def _conflicting(frame: Frame, carried: Carried, at: int, leaving: Exit, own: Shape) -> Conflict:
    name = carried.names[at]
    kinds = [shapes.shape_of(carried.entry[at]), own]
    values = [carried.entry[at], leaving.values[at]]
    places = [carried.places[at], leaving.places[at]]
    carried.conflicts[name] = conflict(frame, name, kinds, values, places)
    return Conflict(*kinds)


def _break_shapes(scope: LoopScope) -> tuple[Shape, ...]:
    """What the loop's results are, from all its breaks."""
    if not scope.broken:
        return ()
    columns = zip(*(leaving.values for leaving in scope.broken), strict=True)
    found: list[Shape] = []
    for column in columns:
        joined, *rest = (shapes.loosen(shapes.shape_of(value)) for value in column)
        for shape in rest:
            joined = shapes.join(joined, shape)
        found.append(shapes.settle(joined) if shapes.movable(joined) else Conflict(joined, joined))
    return tuple(found)


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
            _break_conflict(frame, carried, found, name, at)
        _after(frame, found, carried, name, shape, values)


def _break_conflict(frame: Frame, carried: Carried, found: Pass, name: str, at: int) -> None:
    """Two breaks that leave a variable with unlike values."""
    exits = found.scope.broken
    first = exits[0]
    kinds = [shapes.shape_of(e.values[at]) for e in exits]
    other = next(
        (i for i in range(1, len(exits)) if isinstance(shapes.join(kinds[0], kinds[i]), Conflict)),
        len(exits) - 1,
    )
    carried.conflicts[name] = conflict(
        frame,
        name,
        [kinds[0], kinds[other]],
        [first.values[at], exits[other].values[at]],
        [first.places[at], exits[other].places[at]],
    )


# ---- unrolled loops ------------------------------------------------------------------------------


class _LeftError(Exception):
    """A `break` or `continue` of an unrolled loop that is decided while compiling."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def _unroll(frame: Frame, node: ast.For, items: list[Any]) -> None:
    """Read the body once for each item."""
    scope = LoopScope((), (), (), (), None, unrolled=frame.tracer.block)
    frame.loops.append(scope)
    for item in items:
        bind(frame, node.target, item)
        try:
            frame.execute(node.body)
        except _LeftError as left:
            if left.kind == "break":
                break
        if frame.tracer.block.ended:
            break
    frame.loops.pop()


def _leave_unrolled(
    frame: Frame, node: ast.Break | ast.Continue, scope: LoopScope, kind: str
) -> NoReturn:
    if frame.tracer.block is not scope.unrolled:
        frame.fail(
            UnsupportedSyntaxError,
            f"`{kind}` of an unrolled loop cannot depend on a value of the kernel",
            node,
            hint="write `for i in range(n)`, or put the rest of the body under `if`",
        )
    raise _LeftError(kind)
