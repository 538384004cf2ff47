"""`if`: one side when the condition is plain, else regions that meet again or leave."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import Any

from hetir.frontend import operators, shapes
from hetir.frontend.frame import Frame, handles
from hetir.frontend.leaving import seal_unreachable
from hetir.frontend.meeting import Meeting, conflict, structured
from hetir.frontend.shapes import Conflict, Missing, Shape, Weak
from hetir.frontend.tracer import Block, Tracer
from hetir.frontend.values import Unset, is_plain
from hetir.ir import ops
from hetir.ir.core import Operation, Region, Value
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
    # the one object of both sides, unless it was made inside of one of them
    one = all(value is first for value in values) and (whole or first is before)
    if one and (first is before or is_plain(first)):
        return first
    if not whole and (is_plain(first) or shapes.portable_number(first)):
        return first
    alike = whole and all(map(is_plain, values)) and shapes.same(values[0], values[1])
    return first if alike else None


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
        frame.env[name] = conflict(frame.tracer, name, kinds, values, places)
    return shape


_UNSET = Unset()
