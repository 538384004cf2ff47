"""Places safe points: where a launch can be stopped, and what is live there.

A safe point stands after a workgroup barrier in uniform control flow, and at the boundaries of
strip-mined uniform loops. Its operands are the scalars that code after it still needs; what can be
computed anew from parameters, ids and loop indices is not among them. Arrays are never operands:
private and shared ones are saved by content, views are made again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from hetir.diagnostics import CompileError, Label
from hetir.ir import ops
from hetir.ir.canonical import PURE, canonical_text
from hetir.ir.core import Kernel, Operation, Region, Value, walk
from hetir.ir.types import I64, ArrayType, Scalar
from hetir.passes.lower_exits import trip_count
from hetir.passes.progress import waits_on
from hetir.passes.regions import (
    LOOPS,
    count,
    definitions,
    end,
    exits_of,
    make_const,
    number,
    returns,
    simple,
)
from hetir.passes.uniformity import Uniformity, uniformity

MOST = 64
"""Safe points a kernel gets at most: leaving one out is always right, only later to stop."""


class NotCheckpointableError(CompileError):
    """The kernel cannot be stopped and resumed.

    Cause: workgroups that wait for each other, or an array chosen by control flow that is in use
    where the launch would stop. Fix: as the hint says.
    """

    code = "HET330"


@dataclass(frozen=True, slots=True)
class Slot:
    """A value or an array that is saved; `place` numbers the elements of its type.

    `kind` is `uniform` (one a workgroup), `varying` (one a work-item), `private` (an array a
    work-item) or `shared` (an array a workgroup). `count` is its elements a work-item or
    workgroup.
    """

    value: Value
    element: Scalar
    kind: str
    place: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class SafePoint:
    """One safe point: its number in program order (from 1), its id and what is saved there."""

    number: int
    id: str
    op: Operation
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class Plan:
    """All safe points of a kernel that has its `safe_point` ops, and the layout of saved state."""

    kernel: Kernel
    points: tuple[SafePoint, ...]
    slots: Mapping[Value, Slot]

    @cached_property
    def by_op(self) -> Mapping[Operation, SafePoint]:
        """The safe point of each `safe_point` op."""
        return {point.op: point for point in self.points}

    def elements(self, kind: Scalar, *, shared: bool) -> int:
        """Saved elements of one type: of all shared arrays, or a work-item of all else."""
        return sum(
            slot.count
            for slot in self.slots.values()
            if slot.element == kind and (slot.kind == "shared") == shared
        )

    @property
    def types(self) -> tuple[Scalar, ...]:
        """The types of what is saved, in the order of their first slots."""
        return tuple(dict.fromkeys(slot.element for slot in self.slots.values()))


def place(kernel: Kernel) -> Kernel:
    """The kernel with a `safe_point` after each workgroup barrier, operands what is live there.

    Takes canonical hetIR without calls. Ids are hashes of the kernel and of the position.

    Raises:
        NotCheckpointableError: the kernel cannot be stopped.
    """
    _refuse(kernel)
    text = canonical_text(kernel)
    flow = uniformity(kernel)
    wanted = [op for op in walk(kernel.body) if _stops(op) and not flow.divergent(op)]
    wanted += _long_loops(kernel, flow)
    marked = _Marker(frozenset(wanted[:MOST]), text).region(kernel.body, ())
    for op in walk(marked):
        if op.regions and any(o.spec is ops.SAFE_POINT for r in op.regions for o in walk(r)):
            for value in (*op.results, *(a for r in op.regions for a in r.args)):
                if not isinstance(value.type, Scalar):
                    raise _chosen(value, op)
    return _Operands(replace(kernel, body=marked)).kernel()


def plan(kernel: Kernel) -> Plan:
    """The safe points of a kernel in which they have been placed."""
    varying = uniformity(kernel).values
    around = Scopes(kernel)
    slots: dict[Value, Slot] = {}
    sizes: dict[tuple[Scalar, bool], int] = {}
    points: list[SafePoint] = []
    for op in walk(kernel.body):
        if op.spec is not ops.SAFE_POINT:
            continue
        held = (*op.operands, *around.arrays(op))
        for value in held:
            if value not in slots:
                slots[value] = _slot(value, value in varying, sizes)
        found = tuple(slots[v] for v in held)
        points.append(SafePoint(len(points) + 1, str(op.attrs["id"]), op, found))
    return Plan(kernel, tuple(points), slots)


def _slot(value: Value, varying: bool, sizes: dict[tuple[Scalar, bool], int]) -> Slot:
    if isinstance(value.type, Scalar):
        element, count, kind = value.type, 1, "varying" if varying else "uniform"
    else:
        assert isinstance(value.type, ArrayType)
        element, count, kind = value.type.element, elements(value.type), value.type.space
    key = (element, kind == "shared")
    start = sizes.get(key, 0)
    sizes[key] = start + count
    return Slot(value, element, kind, start, count)


def elements(kind: ArrayType) -> int:
    """Elements of a static array."""
    count = 1
    for extent in kind.shape or ():
        count *= extent
    return count


def _stops(op: Operation) -> bool:
    return op.spec is ops.BARRIER and op.attrs["scope"] == "workgroup"


def _refuse(kernel: Kernel) -> None:
    made = definitions(kernel.body)
    for op in walk(kernel.body):
        if op.spec is ops.BARRIER and op.attrs["scope"] == "device":
            labels = (Label(op.loc, "all workgroups wait for each other here"),) if op.loc else ()
            raise NotCheckpointableError(
                "a kernel with grid barriers cannot be stopped",
                *labels,
                hint="split it into two launches at the barrier",
            )
        read = waits_on(op, made) if op.spec in LOOPS else None
        if read is not None and _is_global(read.operands[0]):
            labels = (Label(read.loc, "this may wait for another workgroup"),) if read.loc else ()
            raise NotCheckpointableError(
                "a loop that waits for another workgroup cannot be stopped",
                *labels,
                hint="signal by launches in order instead of by flags",
            )


def _is_global(array: Value) -> bool:
    return not isinstance(array.type, Scalar) and array.type.space == "global"


# ---- where they stand ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Marker:
    """Appends an empty `safe_point` to each wanted barrier; its id is a hash of its position."""

    wanted: frozenset[Operation]
    text: str

    def region(self, region: Region, path: tuple[int, ...]) -> Region:
        body: list[Operation] = []
        for index, op in enumerate(region.body):
            inner = tuple(self.region(r, (*path, index, side)) for side, r in enumerate(op.regions))
            changed = any(a is not b for a, b in zip(inner, op.regions, strict=True))
            if op in self.wanted and op.spec is ops.FOR:
                body += strip_mined(op, self.point(op, (*path, index)))
                continue
            body.append(replace(op, regions=inner) if changed else op)
            if op in self.wanted:
                body.append(self.point(op, (*path, index)))
        same = len(body) == len(region.body) and all(
            a is b for a, b in zip(body, region.body, strict=True)
        )
        return region if same else Region(region.args, tuple(body))

    def point(self, op: Operation, path: tuple[int, ...]) -> Operation:
        digest = hashlib.sha256(f"{path}\n{self.text}".encode("utf-8", "surrogatepass"))
        return Operation(ops.SAFE_POINT, attrs={"id": digest.hexdigest()[:16]}, loc=op.loc)


# ---- loops without barriers ----------------------------------------------------------------

LONG = 1 << 14
"""Ops, by the estimate, between two safe points of a loop without barriers."""
_UNKNOWN_TRIPS = 64


def _long_loops(kernel: Kernel, flow: Uniformity) -> list[Operation]:
    """The outermost uniform `for` loops that may run long, hold no barrier and are never left."""
    found: list[Operation] = []

    def visit(region: Region) -> None:
        for op in region.body:
            if op.spec is ops.FOR and _strips(op, flow) and _work(op, made) > LONG:
                found.append(op)
            else:
                for inner in op.regions:
                    visit(inner)

    made = definitions(kernel.body)
    visit(kernel.body)
    return found


def _strips(loop: Operation, flow: Uniformity) -> bool:
    if flow.divergent(loop) or any(map(flow.varying, loop.operands[:3])):
        return False
    if any(not isinstance(v.type, Scalar) for v in loop.results) or returns(loop):
        return False
    if any(op.spec is ops.BARRIER for op in walk(loop.regions[0])):
        return False
    return all(last.spec is not ops.BREAK for last in exits_of(loop.regions[0]))


def _work(op: Operation, made: Mapping[Value, Operation]) -> int:
    """Ops that a work-item runs in an op, loops of unknown length taken as long ones."""
    inside = sum(_work(o, made) for r in op.regions for o in r.body)
    if op.spec is ops.FOR:
        bounds = [number(made.get(v)) for v in op.operands[:3]]
        start, stop, step = (0 if n is None else n for n in bounds)
        known = None not in bounds and step != 0
        return 1 + inside * (len(range(start, stop, step)) if known else LONG)
    return 1 + inside * (_UNKNOWN_TRIPS if op.spec is ops.LOOP else 1)


def strip_mined(loop: Operation, point: Operation) -> list[Operation]:
    """The loop as a loop over strips of iterations, each after `point`."""
    start, stop, step, *initial = loop.operands
    (body,) = loop.regions
    out: list[Operation] = []
    each = max(1, LONG // (4 * max(1, count(body))))
    wide = trip_count(start, stop, step, out, loop.loc)
    out += [make_const(I64, 0, loop.loc), make_const(I64, 1, loop.loc)]
    zero, one = out[-2].result, out[-1].result
    out += [make_const(I64, each, loop.loc), simple(ops.CAST, wide, loc=loop.loc, to=I64)]
    length, trips = out[-2].result, out[-1].result
    outer, carried = Value(I64), tuple(Value(v.type, v.name) for v in body.args[1:])
    inner = Value(I64)
    ends = simple(ops.ADD, outer, length, loc=loop.loc)
    limit = simple(ops.MIN, ends.result, trips, loc=loop.loc)
    scaled = simple(ops.MUL, inner, step, loc=loop.loc)
    index = Operation(ops.ADD, (start, scaled.result), (body.args[0],), loc=loop.loc)
    results = tuple(Value(v.type, v.name) for v in loop.results)
    strip = Operation(
        ops.FOR, (outer, limit.result, one, *carried), results,
        regions=(Region((inner, *body.args[1:]), (scaled, index, *body.body)),), loc=loop.loc,
    )  # fmt: skip
    around = Region(
        (outer, *carried),
        (point, ends, limit, strip, end(ops.YIELD, *results, loc=loop.loc)),
    )
    operands = (zero, trips, length, *initial)
    return [*out, replace(loop, operands=operands, regions=(around,))]


# ---- what is live there --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Level:
    """One region around a safe point: the op that holds it and the position inside."""

    holder: Operation | None
    region: Region
    index: int


class Scopes:
    """What is defined before, and used after, each safe point of a kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.paths: dict[Operation, tuple[Level, ...]] = {}
        self._visit(None, kernel.body, ())
        self.made = {v: op for op in walk(kernel.body) for v in op.results}
        self.again = frozenset(recomputable(kernel))

    def _visit(self, holder: Operation | None, region: Region, path: tuple[Level, ...]) -> None:
        for index, op in enumerate(region.body):
            here = (*path, Level(holder, region, index))
            if op.spec is ops.SAFE_POINT:
                self.paths[op] = here
            for inner in op.regions:
                self._visit(op, inner, here)

    def live(self, point: Operation) -> list[Value]:
        """Values defined before and used after, in order of definition; arrays included."""
        found: dict[Value, None] = {}
        path = self.paths[point]
        for depth, level in enumerate(path):
            defined = [*level.region.args] if depth else []
            defined += (v for op in level.region.body[: level.index] for v in op.results)
            used = self._used_after(path[depth:])
            found.update(dict.fromkeys(v for v in defined if v in used))
            if level.holder is not None and level.holder.spec is ops.FOR:
                found[level.region.args[0]] = None
        return list(found)

    def _used_after(self, path: Sequence[Level]) -> set[Value]:
        """Uses after a point by code that sees what the outermost level of `path` defines."""
        used: set[Value] = set()
        for depth, level in enumerate(path):
            _uses(level.region.body[level.index + 1 :], used)
            holder = level.holder
            if depth and holder is not None and holder.spec in LOOPS:
                _uses(level.region.body, used)
                if holder.spec is ops.FOR:
                    used.update(holder.operands[1:3])
        return used

    def scalars(self, point: Operation) -> tuple[Value, ...]:
        """What must be saved of values: those that cannot be computed anew."""
        found: dict[Value, None] = {}
        for value in self.live(point):
            self._need(value, found)
        return tuple(found)

    def _need(self, value: Value, found: dict[Value, None]) -> None:
        if value in self.again and not self._is_index(value):
            return
        if isinstance(value.type, Scalar):
            found[value] = None
            return
        op = self.made.get(value)
        if op is not None and op.spec is ops.ALLOC:
            return
        if op is None or op.spec not in (ops.VIEW, ops.SELECT):
            raise _chosen(value, op)
        for operand in op.operands:
            self._need(operand, found)

    def _is_index(self, value: Value) -> bool:
        return value not in self.made and all(value is not p.value for p in self.kernel.params)

    def arrays(self, point: Operation) -> tuple[Value, ...]:
        """The shared and private arrays whose contents must be saved."""
        found: dict[Value, None] = {}
        for value in self.live(point):
            for root in self._roots(value):
                found[root] = None
        return tuple(found)

    def _roots(self, value: Value) -> Iterable[Value]:
        if isinstance(value.type, Scalar):
            return
        op = self.made.get(value)
        if op is None:
            return
        if op.spec is ops.ALLOC:
            yield value
        elif op.spec is ops.VIEW:
            yield from self._roots(op.operands[0])


def _chosen(value: Value, op: Operation | None) -> NotCheckpointableError:
    labels = (Label(op.loc, "chosen here"),) if op is not None and op.loc else ()
    name = f"`{value.name}`" if value.name else "an array"
    return NotCheckpointableError(
        f"{name} is chosen by control flow and in use where the launch would stop",
        *labels,
        hint="choose an index or a slice by arithmetic instead of choosing between arrays",
    )


def _uses(body: Sequence[Operation], used: set[Value]) -> None:
    for op in body:
        used.update(op.operands)
        for inner in op.regions:
            _uses(inner.body, used)


def recomputable(kernel: Kernel) -> set[Value]:
    """Values that follow from parameters, ids and loop indices alone, by pure ops."""
    found = {p.value for p in kernel.params}

    def visit(region: Region) -> None:
        for op in region.body:
            if op.name in PURE and found.issuperset(op.operands):
                found.update(op.results)
            for inner in op.regions:
                if op.spec is ops.FOR:
                    found.add(inner.args[0])
                visit(inner)

    visit(kernel.body)
    return found


class _Operands:
    """Gives each `safe_point` its operands; results re-enter under the old names."""

    def __init__(self, kernel: Kernel) -> None:
        self.scopes = Scopes(kernel)

    def kernel(self) -> Kernel:
        kernel = self.scopes.kernel
        return replace(kernel, body=self.region(kernel.body))

    def region(self, region: Region) -> Region:
        return Region(region.args, tuple(map(self.operation, region.body)))

    def operation(self, op: Operation) -> Operation:
        if op.spec is ops.SAFE_POINT:
            held = self.scopes.scalars(op)
            return replace(op, operands=held, results=tuple(Value(v.type, v.name) for v in held))
        if not op.regions:
            return op
        return replace(op, regions=tuple(map(self.region, op.regions)))
