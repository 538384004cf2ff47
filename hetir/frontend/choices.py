"""Conditional expressions, `and`, `or` and chained comparisons: values of one of two sides."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from hetir.frontend import operators, shapes
from hetir.frontend.errors import OperandError
from hetir.frontend.frame import Frame, handles
from hetir.frontend.meeting import Meeting, deferred_select, structured
from hetir.frontend.shapes import Conflict, Missing, Shape
from hetir.frontend.tracer import Block, Tracer
from hetir.frontend.values import RANK, Bundle, Typed, describe, is_plain
from hetir.ir import ops
from hetir.ir.core import Value
from hetir.ir.types import Scalar


@handles(ast.IfExp)
def conditional(frame: Frame, node: ast.IfExp) -> Any:
    """`a if c else b`."""
    condition = frame.evaluate(node.test)
    tracer = frame.at(node.test)
    if is_plain(condition):
        chosen = operators.compute(tracer, bool, condition)
        return frame.evaluate(node.body if chosen else node.orelse)
    test = operators.truth(tracer, condition)
    return choose(
        frame, test, node, lambda: frame.evaluate(node.body), lambda: frame.evaluate(node.orelse)
    )


def choose(
    frame: Frame, test: Value, node: ast.expr, yes: Callable[[], Any], no: Callable[[], Any]
) -> Any:
    """The value of one of two expressions, of which only one is computed."""
    sides: list[tuple[Block, Any]] = []
    for side in (yes, no):
        block = frame.enter()
        value = side()
        frame.leave()
        sides.append((block, value))
    tracer = frame.at(node)
    values = [value for _, value in sides]
    blocks = [block for block, _ in sides]
    kinds = [shapes.weak_kind(shapes.shape_of(value)) for value in values]
    if kinds[0] and kinds[1]:
        return _choose_numbers(frame, test, blocks, values, [k for k in kinds if k])
    shape = _expression_shape(tracer, values)
    results = tuple(Value(kind) for kind in shapes.types(shape))
    for block, value in sides:
        tracer.block = block
        tracer.emit(ops.YIELD, *shapes.flatten(tracer, value, shape))
        frame.leave()
    if (flat := _select(tracer, test, blocks, results)) is None:
        structured(tracer, ops.IF, (test,), tuple(block.region() for block in blocks), results)
        flat = list(results)
    return shapes.rebuild(shape, iter(flat))


def _choose_numbers(
    frame: Frame, test: Value, blocks: list[Block], values: list[Any], kinds: list[str]
) -> Any:
    """A choice between two numbers without types, which waits for the type it meets."""
    tracer = frame.tracer
    if all(map(is_plain, values)) and shapes.same(values[0], values[1]):
        return values[0]
    if _cheap(blocks):
        for block in blocks:
            tracer.block.body.extend(block.body)
        return deferred_select(test, values[0], values[1], kinds)
    for block in blocks:
        tracer.block = block
        tracer.emit(ops.YIELD)
        frame.leave()
    kind = max(kinds, key=RANK.__getitem__)
    return Meeting(tracer, test, blocks).number(values, kind, "")


def _expression_shape(tracer: Tracer, values: list[Any]) -> Shape:
    """The common shape; unlike a variable, an expression promotes across categories."""
    kinds = [shapes.shape_of(value) for value in values]
    scalars = all(shapes.weak_kind(k) or isinstance(k, shapes.Scalars) for k in kinds)
    if scalars and kinds[0] != kinds[1]:
        return shapes.Scalars(tracer.common(values))
    if (bundles := _bundles(tracer, kinds, values)) is not None:
        return bundles
    shape = shapes.settle(shapes.join(*kinds))
    movable = shapes.movable(shape) or values[0] is values[1]
    if isinstance(shape, (Conflict, Missing)) or not movable:
        tracer.fail(
            OperandError,
            f"one side is {describe(values[0])}, the other {describe(values[1])}",
            hint="make both sides one type",
        )
    return shape


def _bundles(tracer: Tracer, kinds: list[Shape], values: list[Any]) -> Shape | None:
    """The common shape of two vectors of one form, or of one and a number of no type."""
    found = [kind for kind in kinds if isinstance(kind, shapes.Bundles)]
    rest = [kind for kind in kinds if not isinstance(kind, shapes.Bundles)]
    if not found or not all(map(shapes.weak_kind, rest)):
        return None
    if not all(shapes.alike(kind.type, found[0].type) for kind in found):
        return None
    common = tracer.common(Typed(v.items[0]) if isinstance(v, Bundle) else v for v in values)
    return shapes.Bundles(found[0].type.of(common), found[0].count)


# more pure ops than this are not worth computing on both sides
_SELECT_LIMIT = 8


def _select(
    tracer: Tracer, test: Value, blocks: list[Block], results: tuple[Value, ...]
) -> list[Value] | None:
    """Two cheap sides without effects, computed both and selected."""
    yielded = [block.body[-1].operands for block in blocks]
    if any(not isinstance(v.type, Scalar) for v in results) or not _cheap(blocks):
        return None
    for block in blocks:
        tracer.block.body.extend(block.body[:-1])
    return [_pick(tracer, test, a, b) for a, b in zip(*yielded, strict=True)]


def _cheap(blocks: list[Block]) -> bool:
    """Whether both sides are a few ops without effects."""
    bodies = [[op for op in block.body if not op.spec.terminator] for block in blocks]
    few = all(len(body) <= _SELECT_LIMIT for body in bodies)
    return few and all(op.spec.pure for body in bodies for op in body)


def _pick(tracer: Tracer, test: Value, a: Value, b: Value) -> Value:
    """`select`, or the logical op that it is when one side is the condition itself."""
    if a is b:
        return a
    if b is test:
        return tracer.value(ops.AND, test, a)
    if a is test:
        return tracer.value(ops.OR, test, b)
    return tracer.value(ops.SELECT, test, a, b)


@handles(ast.BoolOp)
def logic(frame: Frame, node: ast.BoolOp) -> Any:
    """`a and b or c`: the right operand is computed only where it is needed."""
    conjunction = isinstance(node.op, ast.And)
    return _logic(frame, node, conjunction, [lambda v=v: frame.evaluate(v) for v in node.values])


def _logic(frame: Frame, node: ast.expr, conjunction: bool, parts: list[Callable[[], Any]]) -> Any:
    left = parts[0]()
    if len(parts) == 1:
        return left
    rest = parts[1:]
    tracer = frame.at(node)
    if is_plain(left):
        decided = operators.compute(tracer, bool, left) != conjunction
        return left if decided else _logic(frame, node, conjunction, rest)
    test = operators.truth(tracer, left)

    def right() -> Any:
        return _logic(frame, node, conjunction, rest)

    def keep() -> Any:
        return left

    return choose(frame, test, node, *((right, keep) if conjunction else (keep, right)))


@handles(ast.Compare)
def comparison(frame: Frame, node: ast.Compare) -> Any:
    """`a < b <= c`: each operand is computed once, and only while the chain holds."""
    left = frame.evaluate(node.left)
    return _chain(frame, node, left, list(zip(node.ops, node.comparators, strict=True)))


def _chain(
    frame: Frame, node: ast.Compare, left: Any, links: list[tuple[ast.cmpop, ast.expr]]
) -> Any:
    rest, link = links[1:], links[0]
    right = frame.evaluate(link[1])
    result = operators.compare(frame.at(node), type(link[0]), left, right)
    if not rest:
        return result
    return _logic(frame, node, True, [lambda: result, lambda: _chain(frame, node, right, rest)])
