"""Where paths meet: the value of a variable after a branch, or why it has none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hetir.diagnostics import Label
from hetir.frontend import shapes
from hetir.frontend.errors import JoinError
from hetir.frontend.shapes import Shape
from hetir.frontend.tracer import Block, Tracer
from hetir.frontend.values import RANK, Poison, WeakNumber
from hetir.ir import ops
from hetir.ir.core import Operation, Region, Value
from hetir.ir.types import Scalar
from hetir.source import Loc


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


def deferred_select(test: Value, left: Any, right: Any, kinds: list[str]) -> WeakNumber:
    """A choice between two numbers without types: they take the type that it meets."""
    kind = max(kinds, key=RANK.__getitem__)

    def build(at: Tracer, scalar: Any) -> Value:
        return at.value(ops.SELECT, test, at.convert(left, scalar), at.convert(right, scalar))

    return WeakNumber(kind, build, portable=False)


def conflict(
    tracer: Tracer,
    name: str,
    kinds: list[Shape],
    values: list[Any],
    places: list[Loc | None],
) -> Poison:
    """The variable with values that do not join; its error names both assignments."""
    for value in values:
        if isinstance(value, Poison):
            return value
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
        if any(isinstance(kind, shapes.Bundles) for kind in kinds):
            hint = "make both vectors of one length, such as `f4(value)`"
    return Poison(JoinError(message, *labels, hint=hint))
