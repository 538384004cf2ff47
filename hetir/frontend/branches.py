"""`if`, conditional expressions and short-circuit logic: what is decided now, and regions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hetir.diagnostics import Label
from hetir.frontend import operators, shapes
from hetir.frontend.errors import JoinError, OperandError
from hetir.frontend.frame import Frame, handles
from hetir.frontend.leaving import seal_unreachable
from hetir.frontend.shapes import Conflict, Missing, Shape, Weak
from hetir.frontend.tracer import Block, Tracer
from hetir.frontend.values import RANK, Poison, Unset, WeakNumber, describe, is_plain
from hetir.ir import ops
from hetir.ir.core import Operation, Region, Value
from hetir.ir.types import Scalar
from hetir.source import Loc


@dataclass(slots=True)
class Arm:
    """One side of a branch after it was read."""

    block: Block
    env: dict[str, Any]
    where: dict[str, Loc]


@handles(ast.If)
def if_statement(frame: Frame, node: ast.If) -> None:
    """Read one side when the condition is plain, else both into regions."""
    condition = frame.evaluate(node.test)
    tracer = frame.at(node.test)
    if is_plain(condition):
        chosen = operators.compute(tracer, bool, condition)
        frame.execute(node.body if chosen else node.orelse)
        return
    test = operators.truth(tracer, condition)
    arms = (_arm(frame, node.body), _arm(frame, node.orelse))
    frame.at(node.test)
    open_arms = [arm for arm in arms if not arm.block.ended]
    if not open_arms:
        _both_left(frame, test, arms)
        return
    flow = frame.source.flow
    names = sorted(flow.assigned[node] & flow.after[node])
    _meet(frame, test, arms, open_arms, names)


def _arm(frame: Frame, body: list[ast.stmt]) -> Arm:
    env, where = frame.env, frame.where
    frame.env, frame.where = dict(env), dict(where)
    block = frame.enter()
    frame.execute(body)
    frame.leave()
    arm = Arm(block, frame.env, frame.where)
    frame.env, frame.where = env, where
    return arm


def _both_left(frame: Frame, test: Value, arms: tuple[Arm, Arm]) -> None:
    """Two exits of one kind become one after the `if`; others leave unreachable code."""
    tracer = frame.tracer
    exits = [arm.block.body[-1] for arm in arms]
    types = [[v.type for v in op.operands] for op in exits]
    alike = exits[0].spec is exits[1].spec and types[0] == types[1]
    if not alike or any(arm.block.sealed for arm in arms):
        structured(tracer, ops.IF, (test,), _regions(arms))
        seal_unreachable(frame, {op.spec for op in exits})
        return
    for arm, op in zip(arms, exits, strict=True):
        arm.block.body[-1] = Operation(ops.YIELD, op.operands, loc=op.loc)
    results = tuple(Value(v.type, v.name) for v in exits[0].operands)
    structured(tracer, ops.IF, (test,), _regions(arms), results)
    tracer.block.body.append(Operation(exits[0].spec, results, loc=exits[0].loc))


def _regions(arms: tuple[Arm, Arm]) -> tuple[Region, ...]:
    return tuple(arm.block.region() for arm in arms)


def structured(
    tracer: Tracer,
    spec: ops.Spec,
    operands: tuple[Value, ...],
    regions: tuple[Region, ...],
    results: tuple[Value, ...] = (),
) -> None:
    """Append an op with regions, its results made by the caller (each with a name)."""
    op = Operation(spec, operands, results, regions=regions, loc=tracer.loc)
    tracer.block.body.append(op)


class Meeting:
    """An `if` in the block: a number without type becomes a result when it meets a type."""

    def __init__(self, tracer: Tracer, test: Value, blocks: list[Block]) -> None:
        self.block, self.blocks, self.callers = tracer.block, blocks, tracer.callers
        self.position = len(tracer.block.body)
        structured(tracer, ops.IF, (test,), tuple(block.region() for block in blocks))

    def result(self, values: list[Any], kind: Scalar, name: str) -> Value:
        """The `if` gets one more result: what each side that goes on has, as `kind`."""
        op = self.block.body[self.position]
        going_on = [block for block in self.blocks if block.body[-1].spec is ops.YIELD]
        for block, value in zip(going_on, values, strict=True):
            end = block.body.pop()
            # a block of its own: what the enclosing ones know may be computed after the `if`
            side = Tracer()
            side.loc, side.block.body, side.callers = end.loc, block.body, self.callers
            operands = (*end.operands, side.convert(value, kind))
            block.body.append(replace(end, operands=operands))
        result = Value(kind, name)
        regions = tuple(block.region() for block in self.blocks)
        self.block.body[self.position] = replace(op, results=(*op.results, result), regions=regions)
        return result

    def number(self, values: list[Any], kind: str, name: str) -> WeakNumber:
        """The value after the `if` of numbers without types."""
        made: dict[Scalar, Value] = {}

        def build(_: Tracer, scalar: Scalar) -> Value:
            if scalar not in made:
                made[scalar] = self.result(values, scalar, name)
            return made[scalar]

        return WeakNumber(kind, build, portable=False)


def _meet(
    frame: Frame, test: Value, arms: tuple[Arm, Arm], open_arms: list[Arm], names: list[str]
) -> None:
    """Give each variable its value after the branch and end the regions."""
    tracer = frame.tracer
    plan: list[tuple[str, Shape]] = []
    for name in names:
        values = [arm.env.get(name, _UNSET) for arm in open_arms]
        meet = _easy(values, frame.env.get(name, _UNSET), whole=len(open_arms) == 2)
        if meet is not None:
            frame.env[name] = meet
        else:
            plan.append((name, _joined(frame, name, open_arms, values)))
        _remember_place(frame, name, open_arms)
    for arm in open_arms:
        tracer.block = arm.block
        tracer.emit(ops.YIELD, *_flat(tracer, arm, plan))
        frame.leave()
    typed = [(name, shape) for name, shape in plan if not isinstance(shape, Weak)]
    results = [Value(kind, name) for name, shape in typed for kind in shapes.types(shape)]
    meeting = Meeting(tracer, test, [arm.block for arm in arms])
    op = meeting.block.body[meeting.position]
    meeting.block.body[meeting.position] = replace(op, results=tuple(results))
    flat = iter(results)
    for name, shape in plan:
        if isinstance(shape, Weak):
            values = [arm.env.get(name, _UNSET) for arm in open_arms]
            frame.env[name] = meeting.number(values, shape.kind, name)
        elif not isinstance(shape, (Conflict, Missing)):
            frame.env[name] = shapes.rebuild(shape, flat)


def _flat(tracer: Tracer, arm: Arm, plan: list[tuple[str, Shape]]) -> list[Value]:
    """One side's values of what the branch gives."""
    found: list[Value] = []
    for name, shape in plan:
        if not isinstance(shape, Weak):
            found += shapes.flatten(tracer, arm.env.get(name, _UNSET), shape)
    return found


def _remember_place(frame: Frame, name: str, open_arms: list[Arm]) -> None:
    before = frame.where.get(name)
    for arm in open_arms:
        if (loc := arm.where.get(name)) is not None and loc is not before:
            frame.where[name] = loc


def _easy(values: list[Any], before: Any, *, whole: bool) -> Any:
    """The value after the branch where no result is needed for it, else None."""
    first = values[0]
    if all(value is first for value in values) and (whole or first is before):
        # the one object of both sides, unless it was made inside of one of them
        if first is before or is_plain(first):
            return first
    if not whole and (is_plain(first) or shapes.portable_number(first)):
        return first
    alike = whole and all(map(is_plain, values)) and shapes.same(values[0], values[1])
    return first if alike else None


def deferred_select(test: Value, left: Any, right: Any, kinds: list[str]) -> WeakNumber:
    """A choice between two numbers without types: they take the type that it meets."""
    kind = max(kinds, key=RANK.__getitem__)

    def build(at: Tracer, scalar: Any) -> Value:
        return at.value(ops.SELECT, test, at.convert(left, scalar), at.convert(right, scalar))

    return WeakNumber(kind, build, portable=False)


def _joined(frame: Frame, name: str, arms: list[Arm], values: list[Any]) -> Shape:
    """The settled shape of a variable, or a conflict that is reported where it is read."""
    kinds = [shapes.shape_of(value) for value in values]
    shape = kinds[0] if len(kinds) == 1 else shapes.join(*kinds)
    if not isinstance(shape, Weak):
        shape = shapes.settle(shape)
    different = len(values) == 2 and values[0] is not values[1]
    if not isinstance(shape, Conflict) and different and not shapes.movable(shape):
        shape = Conflict(kinds[0], kinds[1])
    if isinstance(shape, Missing):
        frame.env[name] = Unset(next((a.where[name] for a in arms if name in a.where), None))
    if isinstance(shape, Conflict):
        places = [arm.where.get(name) for arm in arms]
        frame.env[name] = conflict(frame, name, kinds, values, places)
    return shape


def conflict(
    frame: Frame,
    name: str,
    kinds: list[Shape],
    values: list[Any],
    places: list[Loc | None],
) -> Poison:
    """The variable with values that do not join; its error names both assignments."""
    for value in values:
        if isinstance(value, Poison):
            return value
    tracer = frame.tracer
    sides = list(zip(kinds, places, strict=True))
    labels = [
        Label(tracer.called(loc), f"`{name}` is {shapes.words(kind)} here")
        for kind, loc in sides
        if loc is not None
    ]
    arrays = [kind for kind in kinds if isinstance(kind, shapes.Arrays)]
    if len(arrays) == len(kinds):
        message = f"`{name}` is one of two arrays that cannot be chosen between at run time"
        hint = "write the accesses on both paths"
        if any(kind.type.space in ("shared", "private") for kind in arrays):
            hint = "use one array with one axis more: `hl.shared((2, n), dtype)`"
    else:
        shown = " or ".join(shapes.words(kind) for kind in kinds)
        message = f"`{name}` is {shown}, depending on the path"
        hint = "convert one of the two with `.to(...)`"
    return Poison(JoinError(message, *labels, hint=hint))


_UNSET = Unset()


# ---- expressions -----------------------------------------------------------------------------


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
    shape = shapes.settle(shapes.join(*kinds))
    movable = shapes.movable(shape) or values[0] is values[1]
    if isinstance(shape, (Conflict, Missing)) or not movable:
        tracer.fail(
            OperandError,
            f"one side is {describe(values[0])}, the other {describe(values[1])}",
            hint="make both sides one type",
        )
    return shape


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


def _chain(frame: Frame, node: ast.Compare, left: Any, links: list[Any]) -> Any:
    (op, comparator), *rest = links
    right = frame.evaluate(comparator)
    result = operators.compare(frame.at(node), type(op), left, right)
    if not rest:
        return result
    return _logic(frame, node, True, [lambda: result, lambda: _chain(frame, node, right, rest)])
