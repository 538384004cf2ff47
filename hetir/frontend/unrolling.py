"""Loops over constants, read once for each item.

An exit that is decided while compiling just stops reading. One that depends on the kernel
needs a region to leave: then every step, and the loop as a whole, is a `loop` that runs once.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, NoReturn

from hetir.frontend import shapes
from hetir.frontend.carrying import break_shapes, leave_loop, note_break_conflict
from hetir.frontend.expressions import bind
from hetir.frontend.frame import Frame, LoopScope
from hetir.frontend.leaving import seal_unreachable
from hetir.frontend.meeting import structured
from hetir.frontend.shapes import Conflict, Missing
from hetir.frontend.values import Typed, Unset
from hetir.ir import ops
from hetir.ir.core import Value


class _LeftError(Exception):
    """A `break` or `continue` of an unrolled loop that is decided while compiling."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class _NeedsRegionsError(Exception):
    """A `break` or `continue` of an unrolled loop that depends on the kernel."""


def unroll(frame: Frame, node: ast.For, items: list[Any]) -> None:
    """Read the body once for each item."""
    block, depth = frame.tracer.block, len(frame.loops)
    length, known = len(block.body), dict(block.known)
    env, where = dict(frame.env), dict(frame.where)
    try:
        _unroll_flat(frame, node, items)
    except _NeedsRegionsError:
        frame.tracer.block = block
        del frame.loops[depth:], block.body[length:]
        block.known, frame.env, frame.where = known, env, where
        _unroll_in_regions(frame, node, items)


def _unroll_flat(frame: Frame, node: ast.For, items: list[Any]) -> None:
    frame.loops.append(LoopScope((), (), (), (), None, unrolled=frame.tracer.block))
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


def leave_unrolled(frame: Frame, scope: LoopScope, kind: str) -> NoReturn:
    """Go to the next item, or past the last one."""
    if frame.tracer.block is not scope.unrolled:
        raise _NeedsRegionsError
    raise _LeftError(kind)


def _unroll_in_regions(frame: Frame, node: ast.For, items: list[Any]) -> None:
    flow = frame.source.flow
    flag = f"{len(frame.loops)} left"
    after = tuple(sorted(flow.assigned[node] & flow.after[node]))
    onward = (*sorted(flow.assigned[node] & flow.head[node]), flag)

    def step(item: Any) -> None:
        frame.env[flag] = False
        bind(frame, node.target, item)
        frame.execute(node.body)

    def steps(whole: LoopScope) -> None:
        for item in items:
            _once(frame, node, onward, lambda _, item=item: step(item), flag)
            if not frame.tracer.block.ended:
                _break_if(frame, whole, frame.env[flag])
            if frame.tracer.block.ended:
                return

    _once(frame, node, after, steps, None)


def _break_if(frame: Frame, whole: LoopScope, left: Any) -> None:
    """Leave the loop as a whole where a step said so."""
    tracer = frame.tracer
    if left is False:
        return
    if left is True:
        leave_loop(frame, whole)
        return
    assert isinstance(left, Typed)
    leave = frame.enter()
    leave_loop(frame, whole)
    frame.leave()
    stay = frame.enter()
    tracer.emit(ops.YIELD)
    frame.leave()
    structured(tracer, ops.IF, (left.ir,), (leave.region(), stay.region()))


def _once(
    frame: Frame,
    node: ast.For,
    names: tuple[str, ...],
    read: Callable[[LoopScope], None],
    flag: str | None,
) -> None:
    """Emit a `loop` that runs once, filled by `read`; its exits bring `names` along."""
    assumed = None
    while True:
        env, where = frame.env, frame.where
        frame.env, frame.where = dict(env), dict(where)
        scope = LoopScope((), (), (), names, assumed, flag=flag)
        block = frame.enter()
        frame.loops.append(scope)
        read(scope)
        frame.at(node)
        if not block.ended:
            leave_loop(frame, scope)
        frame.loops.pop()
        frame.leave()
        inner, (frame.env, frame.where) = frame.where, (env, where)
        results = break_shapes(scope)
        if all(leaving.emitted == results for leaving in scope.broken):
            break
        assumed = results
    _finish(frame, scope, block, results, inner)


def _finish(frame: Frame, scope: LoopScope, block: Any, results: Any, where: Any) -> None:
    named = list(zip(scope.break_names, results, strict=False))
    outs = tuple(
        Value(kind, name if name.isidentifier() else "")
        for name, shape in named
        for kind in shapes.types(shape)
    )
    structured(frame.tracer, ops.LOOP, (), (block.region(),), outs)
    if not scope.broken:
        seal_unreachable(frame)
        return
    values = iter(outs)
    for at, (name, shape) in enumerate(named):
        if isinstance(shape, Conflict):
            frame.env[name] = note_break_conflict(frame, scope, name, at)
        elif isinstance(shape, Missing):
            frame.env[name] = Unset(where.get(name))
        else:
            frame.env[name] = shapes.rebuild(shape, values)
        if name in where:
            frame.where[name] = where[name]
