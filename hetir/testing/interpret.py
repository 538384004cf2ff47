"""A plain interpreter of hetIR, one work-item at a time: a second opinion for the tests.

It shares the op table's numerics with the evaluator and nothing else. Work-items are
generators that stop where they meet (`hetir.testing.lockstep`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hetir.ir import ops
from hetir.ir.core import Function, Kernel, Operation, Region, Value
from hetir.ir.literals import shown
from hetir.ir.types import ArrayType, Scalar
from hetir.testing.cases import Said
from hetir.testing.lockstep import COMBINE, EXCHANGES, Meeting, run_group

Lanes = Any
Env = dict[Value, Lanes]
Step = Generator[Meeting, Lanes, tuple[Operation, list[Lanes]]]
Watch = Callable[[Operation, "Item", list[Lanes], list[Lanes]], None]


def interpret(
    kernel: Kernel,
    arguments: Sequence[Any],
    grid: tuple[int, int, int],
    workgroup: tuple[int, int, int],
    watch: Watch | None = None,
    functions: Sequence[Function] = (),
) -> Said:
    """Run every workgroup in order; arrays are written in place. `functions` may be called.

    `watch` sees each executed op: the op, the work-item, the operands and the results
    (none when control left the op).
    """
    bound = [
        a if isinstance(p.value.type, ArrayType) else np.asarray(a).reshape(1)
        for p, a in zip(kernel.params, arguments, strict=True)
    ]
    said = Said()
    for z, y, x in itertools.product(*(range(n) for n in reversed(grid))):
        group = (x, y, z)
        shared: dict[Operation, Any] = {}
        called = {f.name: f for f in functions}
        items: list[Item] = []
        for w, v, u in itertools.product(*(range(n) for n in reversed(workgroup))):
            env = {p.value: a for p, a in zip(kernel.params, bound, strict=True)}
            place, width = (u, v, w), kernel.options.width
            items.append(
                Item(place, group, grid, workgroup, width, shared, env, watch, called, said)
            )
        run_group([item.region(kernel.body) for item in items], kernel.options.width)
    return said.in_order()


@dataclass(slots=True)
class Item:
    """A work-item; `path` holds the iteration numbers of the loops that it is in."""

    local: tuple[int, int, int]
    group: tuple[int, int, int]
    grid: tuple[int, int, int]
    size: tuple[int, int, int]
    width: int
    shared: dict[Operation, Any]
    env: Env
    watch: Watch | None
    functions: dict[str, Function]
    said: Said
    path: list[int] = field(default_factory=list[int])

    def region(self, region: Region) -> Step:
        """Run to the terminator; the terminator and its operands."""
        for op in region.body:
            operands = [self.env[v] for v in op.operands]
            if op.spec.terminator:
                return op, operands
            if op.spec.regions:
                left = yield from self.structured(op, operands)
                results = [] if left else [self.env[v] for v in op.results]
                if left and self.watch:
                    self.watch(op, self, operands, results)
                if left:
                    return left
            elif op.spec is ops.CALL:
                results = yield from self.call(op, operands)
                self.env.update(zip(op.results, results, strict=True))
            elif op.spec is ops.BARRIER or op.name in EXCHANGES:
                answer = yield Meeting(op.name, (op, *self.path), op.attrs, operands)
                results = [answer] if op.results else []
                self.env.update(zip(op.results, results, strict=True))
            else:
                results = self.plain(op, operands)
                self.env.update(zip(op.results, results, strict=True))
            if self.watch:
                self.watch(op, self, operands, results)
        raise AssertionError("a region without a terminator")

    def structured(
        self, op: Operation, operands: list[Lanes]
    ) -> Generator[Meeting, Lanes, tuple[Operation, list[Lanes]] | None]:
        """Run an `if` or a loop; the exit that leaves it for good, or None."""
        if op.spec is ops.IF:
            last, values = yield from self.region(op.regions[0 if operands[0][0] else 1])
            if last.spec is not ops.YIELD:
                return last, values
            self.env.update(zip(op.results, values, strict=True))
            return None
        (body,) = op.regions
        indices, carried = self.iterations(op, operands)
        self.path.append(0)
        for index in indices:
            first = [] if index is None else [np.array([index], np.int64)]
            self.env.update(zip(body.args, [*first, *carried], strict=True))
            last, carried = yield from self.region(body)
            if last.spec is ops.RETURN:
                self.path.pop()
                return last, carried
            if last.spec is ops.BREAK:
                break
            self.path[-1] += 1
        self.path.pop()
        self.env.update(zip(op.results, carried, strict=True))
        return None

    def call(self, op: Operation, operands: list[Lanes]) -> Generator[Meeting, Lanes, list[Lanes]]:
        """Run a function; its results."""
        function = self.functions[str(op.attrs["callee"])]
        self.env.update(zip(function.params, operands, strict=True))
        _, results = yield from self.region(function.body)
        return results

    def iterations(self, op: Operation, operands: list[Lanes]) -> tuple[Any, list[Lanes]]:
        """A loop's indices (None for each turn of a `loop`) and its initial values."""
        if op.spec is ops.LOOP:
            return itertools.repeat(None), operands
        start, stop, step = (int(v[0]) for v in operands[:3])
        return (range(start, stop, step) if step else ()), operands[3:]

    def plain(self, op: Operation, operands: list[Lanes]) -> list[Lanes]:
        """The results of an op without regions."""
        if op.spec.evaluate is not None:
            kind = op.result.type
            if not isinstance(kind, Scalar):  # a select of arrays
                return [operands[1] if operands[0][0] else operands[2]]
            return [np.reshape(op.spec.evaluate(op.attrs, kind.numpy, *operands), (1,))]
        if op.results and not op.operands and op.spec is not ops.ALLOC:
            return [np.array([self.index(op)], np.int64)]
        return _MEMORY[op.name](self, op, operands)

    @property
    def linear(self) -> int:
        """The linear local id."""
        return self.local[0] + self.size[0] * (self.local[1] + self.size[1] * self.local[2])

    def who(self) -> tuple[int, int]:
        """The linear ids of workgroup and work-item, as records name them."""
        x, y, z = self.group
        return x + self.grid[0] * (y + self.grid[1] * z), self.linear

    def index(self, op: Operation) -> int:
        """The id or size that an op without operands reads."""
        axis = int(op.attrs.get("axis", 0))  # pyright: ignore[reportArgumentType]
        linear = self.linear
        return {
            "local_id": self.local[axis],
            "group_id": self.group[axis],
            "group_size": self.size[axis],
            "num_groups": self.grid[axis],
            "global_id": self.group[axis] * self.size[axis] + self.local[axis],
            "lane_id": linear % self.width,
            "subgroup_id": linear // self.width,
            "subgroup_size": self.width,
        }[op.name]


def _place(array: Any, indices: list[Lanes]) -> tuple[int, ...]:
    place = tuple(int(i[0]) for i in indices)
    if any(not 0 <= i < n for i, n in zip(place, array.shape, strict=True)):
        raise IndexError(f"{place} lies outside {array.shape}")
    return place


def _alloc(item: Item, op: Operation, _: list[Lanes]) -> list[Any]:
    kind = op.attrs["type"]
    assert isinstance(kind, ArrayType)
    assert kind.shape is not None
    new = np.zeros(kind.shape, kind.element.numpy)
    return [item.shared.setdefault(op, new) if kind.space == "shared" else new]


def _load(_: Item, op: Operation, operands: list[Lanes]) -> list[Any]:
    array, *indices = operands
    return [array[_place(array, indices)].reshape(1).copy()]


def _store(_: Item, op: Operation, operands: list[Lanes]) -> list[Any]:
    array, *indices, value = operands
    array[_place(array, indices)] = value[0]
    return []


def _rmw(_: Item, op: Operation, operands: list[Lanes]) -> list[Any]:
    array, *indices, value = operands
    place = _place(array, indices)
    old = array[place].reshape(1).copy()
    kind = str(op.attrs["kind"])
    spec = COMBINE.get(kind)
    new = spec.evaluate({}, array.dtype, old, value) if spec and spec.evaluate else value
    array[place] = np.reshape(new, (1,))[0]
    return [old]


def _cas(_: Item, op: Operation, operands: list[Lanes]) -> list[Any]:
    array, *indices, expected, desired = operands
    place = _place(array, indices)
    old = array[place].reshape(1).copy()
    if old.tobytes() == expected.tobytes():
        array[place] = desired[0]
    return [old]


def _view(_: Item, op: Operation, operands: list[Lanes]) -> list[Any]:
    array, *rest = operands
    steps = op.attrs["steps"]
    assert isinstance(steps, tuple)
    numbers = iter(int(v[0]) for v in rest)
    picks: list[Any] = []
    for step in steps:
        assert isinstance(step, int)
        start = next(numbers)
        if step == 0:
            picks.append(start)
            continue
        stop = start + step * next(numbers)
        picks.append(slice(start, None if stop < 0 else stop, step))
    return [array[(*picks, ...)]]  # without axes an array, too


def _print(item: Item, op: Operation, operands: list[Lanes]) -> list[Any]:
    values = zip(op.operands, operands, strict=True)
    words = [shown(v.type, _number(lane)) for v, lane in values if isinstance(v.type, Scalar)]
    item.said.print(*item.who(), str(op.attrs["format"]).format(*words))
    return []


def _number(lane: Lanes) -> float | int | bool:
    return lane[0].item() if lane.dtype.kind in "biu" else float(lane[0])


def _assert(item: Item, op: Operation, operands: list[Lanes]) -> list[Any]:
    if not operands[0][0]:
        item.said.fail(str(op.attrs["message"]))
    return []


def _nothing(_: Item, __: Operation, ___: list[Lanes]) -> list[Any]:
    return []


_MEMORY: dict[str, Callable[[Item, Operation, list[Lanes]], list[Any]]] = {
    "alloc": _alloc,
    "load": _load,
    "store": _store,
    "view": _view,
    "atomic.load": _load,
    "atomic.store": _store,
    "atomic.rmw": _rmw,
    "atomic.cas": _cas,
    "fence": _nothing,
    "print": _print,
    "assert": _assert,
    "dim": lambda _, op, v: [np.array([v[0].shape[op.attrs["axis"]]], np.int64)],
    "stride": lambda _, op, v: [np.array([v[0].strides[op.attrs["axis"]]], np.int64)],
    "safe_point": lambda _, __, v: list(v),
}
