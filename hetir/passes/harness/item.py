"""One work-item of a litmus test: the kernel's ops as events, branches as jumps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from hetir.ir.core import Kernel, Operation, Region, Value
from hetir.ir.types import ArrayType, Scalar
from hetir.memory import program as mp
from hetir.memory.program import Binary, Const, Expr, Order, Reg, Scope
from hetir.passes.harness.places import Array, Held, Places, c_strides, refused
from hetir.passes.harness.values import (
    BINARY,
    added,
    computed,
    facts,
    failure,
    times,
    update,
    words_of,
)
from hetir.source import Loc

Triple = tuple[int, int, int]
Flow = tuple[str, tuple[Held, ...]]
"""How control leaves a region, and with which values."""

GONE: Flow = ("gone", ())
MOST_ELEMENTS, MOST_EVENTS = 64, 400


@dataclass(slots=True)
class _Loop:
    """Where `break` and `continue` go and which registers carry what; `used` by a jump."""

    op: Operation
    leave: str
    again: str
    results: list[str]
    carried: list[str]
    left: bool = False
    repeated: bool = False


class Item:
    """Reads the kernel for one work-item, given by its number in the launch."""

    def __init__(
        self,
        kernel: Kernel,
        places: Places,
        known: Mapping[Value, Held],
        grid: Triple,
        size: Triple,
        number: int,
    ) -> None:
        self.kernel, self.places, self.number = kernel, places, number
        self.grid, self.size = grid, size
        self.group, self.local = divmod(number, math.prod(size))
        self.env: dict[Value, Held] = dict(known)
        self.code: list[mp.Instruction] = []
        self.loops: list[_Loop] = []
        self.assertions: list[tuple[str, Loc | None]] = []
        self._names = count()
        self.ended = False

    def thread(self) -> mp.Thread:
        """The events, and the place among the scopes."""
        width = self.kernel.options.width
        self._region(self.kernel.body)
        if self.ended:
            self.code.append(mp.Label(name="end"))
        place = {
            Scope.SUBGROUP: self.local // width,
            Scope.WORKGROUP: self.group,
            Scope.DEVICE: 0,
        }
        return mp.Thread(name=f"P{self.number}", place=place, body=tuple(self.code))

    def _fresh(self, hint: str) -> str:
        return f"{hint}{next(self._names)}"

    def _add(self, item: mp.Instruction, op: Operation) -> None:
        self.code.append(item)
        if len(self.code) > MOST_EVENTS:
            raise refused(op, f"a work-item takes more than {MOST_EVENTS} steps")

    def _expr(self, value: Value) -> Expr:
        held = self.env[value]
        assert not isinstance(held, Array)
        return held

    def _region(self, region: Region) -> Flow:
        for op in region.body:
            if op.spec.terminator:
                return op.name, tuple(self.env[v] for v in op.operands)
            if op.spec.regions:
                kind, values = _STRUCTURES[op.name](self, op)
                if kind != "yield":
                    return kind, values
                self.env.update(zip(op.results, values, strict=True))
            elif op.name in _OPS:
                _OPS[op.name](self, op)
            elif op.spec.evaluate is not None:
                self._pure(op)
            else:
                raise refused(op, f"it has a `{op.name}`")
        raise AssertionError("a region ends in a terminator")

    # ---- values ----------------------------------------------------------------------------

    def _pure(self, op: Operation) -> None:
        if op.name == "select":
            self.env[op.result] = self._select(op)
            return
        operands = [self._expr(v) for v in op.operands]
        if all(isinstance(o, Const) for o in operands):
            self.env[op.result] = computed(op, operands)
            return
        kind = op.result.type
        if isinstance(kind, Scalar) and kind.is_float and op.name != "cast":
            raise refused(op, "it computes floats from what it reads")
        match op.name:
            case "not" if isinstance(kind, Scalar) and kind.kind == "bool":
                self.env[op.result] = Binary("==", operands[0], Const(0))
            case "neg":
                self.env[op.result] = Binary("-", Const(0), operands[0])
            case "cast":
                self.env[op.result] = (
                    Binary("!=", operands[0], Const(0))
                    if isinstance(kind, Scalar) and kind.kind == "bool"
                    else operands[0]
                )
            case "assume_uniform":
                self.env[op.result] = operands[0]
            case _ if op.name in BINARY:
                self.env[op.result] = Binary(BINARY[op.name], *operands)
            case _:
                raise refused(op, f"it computes `{op.name}` of what it reads")

    def _select(self, op: Operation) -> Held:
        condition = self._expr(op.operands[0])
        if isinstance(condition, Const):
            return self.env[op.operands[1 if condition.value else 2]]
        yes, no = (self._expr(v) for v in op.operands[1:])
        name, skip = self._fresh("s"), self._fresh("L")
        self._add(mp.Assign(register=name, value=no), op)
        self._add(mp.Jump(target=skip, condition=Binary("==", condition, Const(0))), op)
        self._add(mp.Assign(register=name, value=yes), op)
        self._add(mp.Label(name=skip), op)
        return Reg(name)

    def position(self, op: Operation) -> None:
        """An id or a size."""
        axis = op.attrs.get("axis", 0)
        assert isinstance(axis, int)
        group, local = axis_of(self.group, self.grid, axis), axis_of(self.local, self.size, axis)
        width = self.kernel.options.width
        value = {
            "local_id": local,
            "group_id": group,
            "group_size": self.size[axis],
            "num_groups": self.grid[axis],
            "global_id": group * self.size[axis] + local,
            "lane_id": self.local % width,
            "subgroup_id": self.local // width,
            "subgroup_size": width,
        }[op.name]
        self.env[op.result] = Const(value)

    def extent(self, op: Operation) -> None:
        """The extent of an axis."""
        array, axis = self.env[op.operands[0]], op.attrs["axis"]
        assert isinstance(array, Array)
        assert isinstance(axis, int)
        self.env[op.result] = Const(array.shape[axis])

    # ---- memory ----------------------------------------------------------------------------

    def allocate(self, op: Operation) -> None:
        """A shared array of the workgroup, or one of the work-item's own."""
        kind = op.attrs["type"]
        assert isinstance(kind, ArrayType)
        shape = kind.shape or ()
        owner = f"g{self.group}" if kind.space == "shared" else f"t{self.number}"
        name = f"{op.result.name or kind.space}.{owner}"
        self.env[op.result] = Array(name, math.prod(shape), Const(0), shape, c_strides(shape))

    def part(self, op: Operation) -> None:
        """A sub-array."""
        source, steps = self.env[op.operands[0]], op.attrs["steps"]
        assert isinstance(source, Array)
        assert isinstance(steps, tuple)
        rest = iter(self._expr(v) for v in op.operands[1:])
        offset, shape, strides = source.offset, list[int](), list[int]()
        for stride, step in zip(source.strides, steps, strict=True):
            assert isinstance(step, int)
            offset = added(offset, times(next(rest), stride))
            if step:
                extent = next(rest)
                if not isinstance(extent, Const):
                    raise refused(op, "the size of a sub-array depends on what it reads")
                shape.append(extent.value)
                strides.append(stride * step)
        self.env[op.result] = Array(source.name, source.total, offset, tuple(shape), tuple(strides))

    def _address(self, op: Operation) -> tuple[mp.Address, list[Value]]:
        """Where an access goes, and the operands after the indices."""
        array, kind = self.env[op.operands[0]], op.operands[0].type
        assert isinstance(array, Array)
        assert isinstance(kind, ArrayType)
        space = mp.Space.SHARED if kind.space == "shared" else mp.Space.GLOBAL
        where, rest = array.offset, op.operands[1 + len(array.shape) :]
        for value, stride in zip(op.operands[1:], array.strides, strict=False):
            where = added(where, times(self._expr(value), stride))
        if isinstance(where, Const):
            if not 0 <= where.value < array.total:
                raise refused(op, f"element {where.value} of `{array.name}` is out of bounds")
            return mp.Address(base=self.places.touch(array, where.value, space)), list(rest)
        if array.total > MOST_ELEMENTS:
            raise refused(op, f"any of {array.total} elements of `{array.name}` may be meant")
        for index in range(array.total):
            self.places.touch(array, index, space)
        return mp.Address(base=array.name, index=where), list(rest)

    def access(self, op: Operation) -> None:
        """A load, store or atomic."""
        address, rest = self._address(op)
        given = facts(op, address)
        values = [self._expr(v) for v in rest]
        register = self._fresh("r") if op.results else None
        match op.name:
            case "load" | "atomic.load":
                assert register is not None
                item: mp.Instruction = mp.Load(register=register, address=address, **given)
            case "store" | "atomic.store":
                item = mp.Store(address=address, value=values[0], **given)
            case "atomic.rmw":
                item = update(op, register, address, values[0], given)
            case _:
                order = given["order"]
                item = mp.Cas(
                    register=register, address=address, expected=values[0], desired=values[1],
                    failure_order=failure(order), **given,
                )  # fmt: skip
        self._add(item, op)
        if register is not None:
            self.env[op.result] = Reg(register)

    def fence(self, op: Operation) -> None:
        """A fence."""
        self._add(mp.Fence(**facts(op, None)), op)

    def barrier(self, op: Operation) -> None:
        """The arrival at a barrier."""
        scope = Scope(str(op.attrs["scope"]))
        name = self.places.barriers.setdefault(op, f"barrier{len(self.places.barriers)}")
        text = words_of(op, None)
        self._add(
            mp.Barrier(
                name=name, execution=scope, order=Order.ACQ_REL, scope=scope, text=text,
                origin=op.loc,
            ),
            op,
        )  # fmt: skip

    def check(self, op: Operation) -> None:
        """A register that is 1 if the assertion failed, whenever it was reached."""
        name = self._fresh("failed")
        failed = Binary("==", self._expr(op.operands[0]), Const(0))
        self._add(mp.Assign(register=name, value=failed), op)
        self.assertions.append((name, op.loc))

    def skip(self, op: Operation) -> None:
        """Print writes no memory that a kernel reads."""

    # ---- structure -------------------------------------------------------------------------

    def branch(self, op: Operation) -> Flow:
        """An `if`: one side if the condition is known, else a jump over each side."""
        condition = self._expr(op.operands[0])
        if isinstance(condition, Const):
            return self._region(op.regions[0 if condition.value else 1])
        other, end = self._fresh("L"), self._fresh("L")
        results = [self._fresh("v") for _ in op.results]
        self._add(mp.Jump(target=other, condition=Binary("==", condition, Const(0))), op)
        meets = self._side(op, op.regions[0], results, end)
        self._add(mp.Label(name=other), op)
        meets |= self._side(op, op.regions[1], results, end)
        self._add(mp.Label(name=end), op)
        return ("yield", tuple(Reg(name) for name in results)) if meets else GONE

    def _side(self, op: Operation, region: Region, results: list[str], end: str) -> bool:
        """One side of a branch; whether it goes on after the `if`."""
        kind, values = self._region(region)
        if kind == "yield":
            self._assign(op, results, values)
            self._add(mp.Jump(target=end), op)
            return True
        self._leave(op, kind, values)
        return False

    def _leave(self, op: Operation, kind: str, values: Sequence[Held]) -> None:
        """Jump out of a branch to where its terminator goes."""
        if kind == "return":
            self.ended = True
            self._add(mp.Jump(target="end"), op)
        elif kind == "break":
            self.loops[-1].left = True
            self._assign(op, self.loops[-1].results, values)
            self._add(mp.Jump(target=self.loops[-1].leave), op)
        elif kind in ("continue", "yield"):
            self.loops[-1].repeated = True
            self._assign(op, self.loops[-1].carried, values)
            self._add(mp.Jump(target=self.loops[-1].again), op)

    def _assign(self, op: Operation, names: Sequence[str], values: Sequence[Held]) -> None:
        """Set registers all at once."""
        kept: list[Expr] = []
        for value in values:
            if isinstance(value, Array):
                raise refused(op, "an array depends on what it reads")
            kept.append(value)
        if len(kept) > 1:
            held = [self._fresh("t") for _ in kept]
            for name, value in zip(held, kept, strict=True):
                self._add(mp.Assign(register=name, value=value), op)
            kept = [Reg(name) for name in held]
        for name, value in zip(names, kept, strict=True):
            self._add(mp.Assign(register=name, value=value), op)

    def counted(self, op: Operation) -> Flow:
        """A `for` of known bounds, turn by turn."""
        bounds = [self._expr(v) for v in op.operands[:3]]
        numbers = [b.value for b in bounds if isinstance(b, Const)]
        if len(numbers) < 3:
            raise refused(op, "a loop runs as often as what it reads says")
        values = tuple(self.env[v] for v in op.operands[3:])
        results = [self._fresh("v") for _ in op.results]
        leave, left = self._fresh("L"), False
        kind = "yield"
        for index in range(*numbers) if numbers[2] else ():
            carried = [self._fresh("c") for _ in values]
            loop = _Loop(op, leave, self._fresh("L"), results, carried)
            kind, values = self._turn(loop, (Const(index), *values))
            left |= loop.left
            if loop.repeated:
                if kind in ("yield", "continue"):
                    self._assign(op, carried, values)
                elif kind != "gone":
                    self._leave_at_once(loop, kind, values)
                    left |= loop.left
                self._add(mp.Label(name=loop.again), op)
                kind, values = "yield", tuple(Reg(name) for name in carried)
            if kind not in ("yield", "continue"):
                break
        if kind == "return" and not left:
            return kind, values
        if left:
            if kind == "return":
                self._leave(op, kind, values)
            elif kind != "gone":
                self._assign(op, results, values)
            self._add(mp.Label(name=leave), op)
            return "yield", tuple(Reg(name) for name in results)
        return ("yield", values) if kind != "gone" else GONE

    def _leave_at_once(self, loop: _Loop, kind: str, values: Sequence[Held]) -> None:
        self.loops.append(loop)
        self._leave(loop.op, kind, values)
        self.loops.pop()

    def _turn(self, loop: _Loop, values: Sequence[Held]) -> Flow:
        self.env.update(zip(loop.op.regions[0].args, values, strict=True))
        self.loops.append(loop)
        flow = self._region(loop.op.regions[0])
        self.loops.pop()
        return flow

    def repeated(self, op: Operation) -> Flow:
        """A jump backwards, which the checker unrolls."""
        carried = [self._fresh("c") for _ in op.operands]
        results = [self._fresh("v") for _ in op.results]
        loop = _Loop(op, self._fresh("L"), self._fresh("L"), results, carried)
        self._assign(op, carried, [self.env[v] for v in op.operands])
        self._add(mp.Label(name=loop.again), op)
        kind, values = self._turn(loop, [Reg(name) for name in carried])
        self._leave_at_once(loop, kind, values)
        self._add(mp.Label(name=loop.leave), op)
        return ("yield", tuple(Reg(name) for name in results)) if loop.left else GONE


def axis_of(linear: int, extents: Triple, axis: int) -> int:
    """One axis of a linear id."""
    x, y, _ = extents
    return (linear % x, linear // x % y, linear // (x * y))[axis]


_STRUCTURES: Mapping[str, Callable[[Item, Operation], Flow]] = {
    "if": Item.branch,
    "for": Item.counted,
    "loop": Item.repeated,
}
_IDS = ("local_id", "group_id", "group_size", "num_groups", "global_id")
_LANES = ("lane_id", "subgroup_id", "subgroup_size")
_ACCESSES = ("load", "store", "atomic.load", "atomic.store", "atomic.rmw", "atomic.cas")
_OPS: Mapping[str, Callable[[Item, Operation], None]] = {
    **dict.fromkeys((*_IDS, *_LANES), Item.position),
    **dict.fromkeys(_ACCESSES, Item.access),
    "dim": Item.extent,
    "alloc": Item.allocate,
    "view": Item.part,
    "fence": Item.fence,
    "barrier": Item.barrier,
    "assert": Item.check,
    "print": Item.skip,
}
