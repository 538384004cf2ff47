"""What goes around a loop and out of it: the fixpoint of the carried variables' shapes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hetir.frontend import shapes
from hetir.frontend.frame import Exit, Frame, LoopScope
from hetir.frontend.meeting import conflict
from hetir.frontend.shapes import Conflict, Missing, Shape, Tuples
from hetir.frontend.tracer import Block, Tracer
from hetir.frontend.values import DEFAULT, Poison, Unset, WeakNumber
from hetir.ir import ops
from hetir.ir.core import Value
from hetir.ir.types import Scalar
from hetir.source import Loc

UNSET = Unset()


@dataclass(slots=True)
class Carried:
    """The variables that go around a loop, and what is assumed of them."""

    names: tuple[str, ...]
    entry: list[Any]
    places: list[Loc | None]
    shapes: list[Shape]
    conflicts: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True)
class Pass:
    """One reading of a loop's body."""

    block: Block
    scope: LoopScope
    met: list[bool]
    env: dict[str, Any]
    where: dict[str, Loc]
    runs: bool = True


def carried_by(frame: Frame, node: ast.For | ast.While) -> Carried:
    """The variables that a loop assigns and that are read at its head or after it."""
    flow = frame.source.flow
    names = tuple(sorted(flow.assigned[node] & flow.head[node]))
    entry = [frame.env.get(name, UNSET) for name in names]
    start = [shapes.loosen(shapes.shape_of(value)) for value in entry]
    assumed = list(start)
    # what an earlier reading found for the same entry: this one only confirms it
    for at, (before, found) in enumerate(zip(*frame.loop_shapes.get(node, ([], [])), strict=True)):
        if before == start[at] and not isinstance(found, Conflict):
            assumed[at] = found
    frame.loop_shapes[node] = (start, assumed)
    return Carried(names, entry, [frame.where.get(name) for name in names], assumed)


def phi(shape: Shape, values: Iterator[Value], met: list[bool], at: int) -> Any:
    """A carried variable inside the loop; a weak one notes whether it met a type."""
    if isinstance(shape, Tuples):
        return shapes.make_tuple(shape.cls, [phi(s, values, met, at) for s in shape.items])
    if not isinstance(shape, shapes.Weak):
        return shapes.rebuild(shape, values)
    own, default = next(values), DEFAULT[shape.kind]

    def build(tracer: Tracer, kind: Scalar) -> Value:
        if kind == default:
            return own
        met[at] = True
        return tracer.value(ops.CAST, own, to=kind)

    return WeakNumber(shape.kind, build, leaf=True, portable=False)


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
    values = tuple(frame.env.get(name, UNSET) for name in names)
    places = tuple(frame.where.get(name) for name in names)
    own = [shapes.shape_of(value) for value in values]
    if assumed is None:
        emitted = tuple(map(shapes.settle, own))
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


def is_settled(frame: Frame, carried: Carried, found: Pass) -> bool:
    """Whether the pass assumed enough; else `carried` holds what the next one assumes."""
    settled = True
    exits = found.scope.continued + (
        found.scope.broken if found.scope.break_names is found.scope.names else []
    )
    for at in range(len(carried.names)):
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
    carried.conflicts[name] = conflict(frame.tracer, name, kinds, values, places)
    return Conflict(*kinds)


def break_shapes(scope: LoopScope) -> tuple[Shape, ...]:
    """What the loop's results are, from all its breaks."""
    if not scope.broken:
        return ()
    columns = zip(*(leaving.values for leaving in scope.broken), strict=True)
    found: list[Shape] = []
    for column in columns:
        joined, *rest = map(shapes.shape_of, column)
        for shape in rest:
            joined = shapes.join(joined, shape)
        found.append(shapes.settle(joined) if shapes.movable(joined) else Conflict(joined, joined))
    return tuple(found)


def note_break_conflict(frame: Frame, scope: LoopScope, name: str, at: int) -> Poison:
    """The variable that two breaks leave with unlike values."""
    exits = scope.broken
    kinds = [shapes.shape_of(e.values[at]) for e in exits]
    other = next(
        (i for i in range(1, len(exits)) if isinstance(shapes.join(kinds[0], kinds[i]), Conflict)),
        len(exits) - 1,
    )
    two = (exits[0], exits[other])
    return conflict(
        frame.tracer,
        name,
        [kinds[0], kinds[other]],
        [leaving.values[at] for leaving in two],
        [leaving.places[at] for leaving in two],
    )
