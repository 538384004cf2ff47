"""Random well-typed kernels without races, built from a stream of choices.

Work-item i writes row i of the output arrays and nothing else; shared memory is written at
the item's own place between two barriers in uniform flow; everything read is in bounds and
initialised. So every kernel has one meaning, whatever the order of work-items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Options, Param, Region, Value, walk
from hetir.ir.types import (
    BF16,
    BOOL,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    SCALARS,
    U8,
    U16,
    U32,
    U64,
    ArrayType,
    Scalar,
    static_array,
)
from hetir.testing.cases import Case, Input

T = TypeVar("T")
Choose = Callable[[int], int]
"""Gives an integer from 0 up to, but not including, its argument; 0 is the simplest."""

# the simplest first
TYPES = (I32, F32, I64, BOOL, F64, U8, U32, I8, I16, U16, U64, F16, BF16)
STORAGE = (*TYPES, F8E4M3, F8E5M2)
_SPECIAL = (ops.SELECT, ops.NATIVE)  # `native` only stands in kernels with math=native
PURE = tuple(
    s for s in ops.TABLE.values() if s.pure and s.evaluate and s.operands and s not in _SPECIAL
)
WIDTH = 3  # columns of an output row


@dataclass(frozen=True, slots=True)
class Shape:
    """How large generated kernels are and what they may hold."""

    statements: int = 6
    depth: int = 3
    shared: bool = True
    atomics: bool = True


@dataclass(frozen=True, slots=True)
class _Var:
    value: Value
    uniform: bool


@dataclass(frozen=True, slots=True)
class _Loop:
    """The loop around a statement: what `continue` carries and `break` gives."""

    carried: tuple[Scalar, ...]
    results: tuple[Scalar, ...]
    counter: Value | None
    flow_uniform: bool


def generate(choose: Choose, shape: Shape = Shape()) -> Case:
    """A kernel with its launch and its arguments."""
    return _Generator(choose, shape).case()


class _Generator:
    def __init__(self, choose: Choose, shape: Shape) -> None:
        self.choose = choose
        self.shape = shape
        self.b = Builder()
        self.vars: list[_Var] = []
        self.readable: list[Value] = []  # arrays that any index may be read from
        self.private: list[Value] = []
        self.shared: list[Value] = []
        self.outputs: list[Value] = []
        self.sums: list[Value] = []
        self.loop: _Loop | None = None
        self.flow_uniform = True
        self.barriers = False
        self.depth = 0
        self.params: list[Param] = []
        self.inputs: list[Input] = []

    # -- choices

    def pick(self, options: Sequence[T]) -> T:
        return options[self.choose(len(options))]

    def chance(self, one_in: int) -> bool:
        """True seldom; the simplest choice is False."""
        return self.choose(one_in) == one_in - 1

    # -- the kernel

    def case(self) -> Case:
        """Everything."""
        x, y, z = (1 + self.choose(n) for n in (33, 3, 2))
        self.workgroup = (x, y, z)
        self.grid = (1 + self.choose(3), 1 + self.choose(2), 1)
        self.items = x * y * z * self.grid[0] * self.grid[1]
        self.barriers = self.shape.shared and self.chance(3)
        self.declare()
        self.linear_ids()
        self.allocate()
        self.statements(2 + self.choose(self.shape.statements))
        for array in self.outputs:
            self.store_row(array)
        self.mix(0)
        self.b.emit(ops.RETURN)
        kernel = Kernel(
            name="generated",
            params=tuple(self.params),
            body=self.b.region(),
            options=Options(subgroup_size=self.pick((None, None, 8, 16, 4))),
        )
        return Case(self.grid, self.workgroup, tuple(self.inputs), self.choose(1 << 16), kernel)

    def declare(self) -> None:
        for _ in range(1 + self.choose(3)):
            kind = self.pick(STORAGE)
            ndim = 1 + self.choose(2)
            extents = tuple(1 + self.choose(9) for _ in range(ndim))
            layout = self.pick(("C", "reversed", "step", "F", "broadcast"))
            self.readable.append(self.array(kind, extents, layout, writes=False))
        for _ in range(1 + self.choose(2)):
            layout = self.pick(("C", "reversed", "step", "F"))
            kind = self.pick(STORAGE)
            self.outputs.append(self.array(kind, (self.items, WIDTH), layout, writes=True))
        if self.shape.atomics and self.chance(4):
            kind = self.pick([t for t in TYPES if t.is_int and t.bits >= 32])
            self.sums.append(self.array(kind, (4,), "C", writes=True))
        self.digest = self.array(U64, (self.items,), "C", writes=True)
        for _ in range(self.choose(3)):
            self.parameter(self.pick(TYPES))

    def array(self, kind: Scalar, extents: tuple[int, ...], layout: str, *, writes: bool) -> Value:
        strides = (None,) * (len(extents) - 1) + (1,) if layout == "C" and self.chance(2) else None
        value = Value(ArrayType(kind, len(extents), "global", None, strides), "x")
        self.params.append(Param(value, (len(self.params),)))
        self.inputs.append(Input(kind, extents, layout, writes))
        return value

    def parameter(self, kind: Scalar) -> None:
        value = Value(kind, "s")
        self.params.append(Param(value, (len(self.params),)))
        self.inputs.append(Input(kind, None, "C", writes=False))
        self.vars.append(_Var(value, uniform=True))

    def linear_ids(self) -> None:
        """The item's row of the outputs and its place in the workgroup."""
        b = self.b
        x, y, z = (b.value(ops.LOCAL_ID, axis=a) for a in range(3))
        nx, ny = (b.value(ops.GROUP_SIZE, axis=a) for a in range(2))
        gx, gy = (b.value(ops.GROUP_ID, axis=a) for a in range(2))
        rows = b.value(ops.ADD, b.value(ops.MUL, z, ny), y)
        self.place = b.value(ops.ADD, b.value(ops.MUL, rows, nx), x)
        group = b.value(ops.ADD, b.value(ops.MUL, gy, b.value(ops.NUM_GROUPS, axis=0)), gx)
        nz = b.value(ops.GROUP_SIZE, axis=2)
        size = b.value(ops.MUL, b.value(ops.MUL, nx, ny), nz)
        self.row = b.value(ops.ADD, b.value(ops.MUL, group, size), self.place)
        self.vars += [_Var(x, False), _Var(self.row, False), _Var(gx, True), _Var(nx, True)]

    def allocate(self) -> None:
        if self.barriers:
            size = self.workgroup[0] * self.workgroup[1] * self.workgroup[2]
            kind = static_array(self.pick(TYPES), (size,), "shared")
            self.shared.append(self.b.emit(ops.ALLOC, attrs={"type": kind}).result)
            self.exchange()
        for _ in range(self.choose(2)):
            kind = static_array(self.pick(STORAGE), (1 + self.choose(4),), "private")
            assert kind.shape
            array = self.b.emit(ops.ALLOC, attrs={"type": kind}).result
            for index in range(kind.shape[0]):
                self.b.emit(ops.STORE, array, self.number(index), self.value(kind.element).value)
            self.private.append(array)

    # -- values

    def number(self, value: int) -> Value:
        return self.b.const(I64, value)

    def value(self, kind: Scalar, *, uniform: bool = False) -> _Var:
        """A value of a type: one in scope, a constant, or a cast of one in scope."""
        fit = [v for v in self.vars if v.value.type == kind and (v.uniform or not uniform)]
        which = self.choose(4)
        if fit and which < 3:
            return fit[-1 - self.choose(len(fit))]
        others = [v for v in self.vars if v.uniform or not uniform]
        if not others or which == 3 or kind.kind == "f8":
            return _Var(self.constant(kind), True)
        other = others[-1 - self.choose(len(others))]
        return _Var(self.b.value(ops.CAST, other.value, to=kind), other.uniform)

    def constant(self, kind: Scalar) -> Value:
        ones = (1 << kind.bits) - 1
        if kind.kind in ("float", "f8"):
            small = self.pick((0.0, 1.0, -1.0, 0.5, 3.0, -2.5, 100.0, -0.0))
            if not self.chance(4):
                return self.b.const(kind, small)
            bits = self.choose(1 << min(16, kind.bits)) << max(0, kind.bits - 16)
        elif self.chance(3):
            bits = self.pick((ones, ones >> 1, (ones >> 1) + 1, kind.bits & ones, kind.bits - 1))
        else:
            bits = self.choose(9) & ones
        return self.b.value(ops.CONST, type=kind, bits=bits & ones)

    def index(self, array: Value, axis: int) -> _Var:
        """An index in bounds, from any i64."""
        var = self.value(I64)
        extent = self.b.value(ops.DIM, array, axis=axis)
        return _Var(self.b.value(ops.MOD, var.value, extent), var.uniform)

    def add(self, value: Value, *, uniform: bool) -> None:
        self.vars.append(_Var(value, uniform))

    # -- statements

    def statements(self, count: int) -> None:
        for _ in range(count):
            self.statement()

    def scoped(self, count: int) -> None:
        """Statements of a nested region; perhaps what they computed goes into the digest."""
        start = len(self.vars)
        self.statements(count)
        if self.choose(2):
            self.mix(start)

    def mix(self, start: int) -> None:
        """Add the values that nothing has used, of those from `start` on, to the item's digest.

        So that a wrong bit anywhere shows in the output.
        """
        region = Region((), tuple(self.b.body))
        used = {v for op in walk(region) for v in op.operands}
        values = [v.value for v in self.vars[start:] if v.value not in used]
        if not values:
            return
        total = self.b.value(ops.LOAD, self.digest, self.row)
        factor = self.b.const(U64, 0x9E3779B97F4A7C15)
        for value in values:
            scaled = self.b.value(ops.MUL, total, factor)
            total = self.b.value(ops.ADD, scaled, self.bits(value))
        self.b.emit(ops.STORE, self.digest, self.row, total)

    def bits(self, value: Value) -> Value:
        """The bits of a value as a u64."""
        kind = value.type
        assert isinstance(kind, Scalar)
        if kind.kind in ("float", "f8"):
            value = self.b.value(ops.BITCAST, value, to=SCALARS[f"u{kind.bits}"])
        return value if value.type == U64 else self.b.value(ops.CAST, value, to=U64)

    def statement(self) -> None:
        plain = (self.compute, self.load, self.compute, self.select, self.store, self.compute)
        rest: list[Callable[[], None]] = [self.view]
        if self.private:
            rest += [self.private_load, self.private_store]
        if self.sums:
            rest.append(self.atomic)
        if self.barriers and self.flow_uniform:
            rest.append(self.exchange)
        if self.depth < self.shape.depth:
            rest += [self.branch, self.counted, self.branch, self.endless]
        self.pick((*plain, *rest))()

    def compute(self) -> None:
        """Any pure op of the table."""
        spec = self.pick(PURE)
        bound: dict[str, Scalar] = {}
        operands: list[_Var] = []
        for slot in spec.operands:
            if slot in ops.CLASSES and slot not in bound:
                allowed = ops.CLASSES[slot][1]
                bound[slot] = self.pick([t for t in STORAGE if allowed(t)])
            operands.append(self.value(bound.get(slot) or SCALARS[slot]))
        values = [v.value for v in operands]
        if "to" in spec.attrs:
            result = self.b.value(spec, *values, to=self.target(spec, bound))
        else:
            result = self.b.value(spec, *values)
        self.add(result, uniform=all(v.uniform for v in operands))

    def target(self, spec: ops.Spec, bound: dict[str, Scalar]) -> Scalar:
        source = next(iter(bound.values()))
        same = [t for t in STORAGE if spec is not ops.BITCAST or t.bits == source.bits]
        return self.pick(same)

    def select(self) -> None:
        cond = self.value(BOOL)
        if self.chance(5):
            first = self.pick(self.readable)
            self.readable.append(self.b.value(ops.SELECT, cond.value, first, self.like(first)))
            return
        kind = self.pick(STORAGE)
        one, two = self.value(kind), self.value(kind)
        result = self.b.value(ops.SELECT, cond.value, one.value, two.value)
        self.add(result, uniform=cond.uniform and one.uniform and two.uniform)

    def like(self, array: Value) -> Value:
        return self.pick([a for a in self.readable if a.type == array.type])

    def view(self) -> None:
        """A part of a readable array that is not empty."""
        source = self.pick(self.readable)
        assert isinstance(source.type, ArrayType)
        steps: list[int] = []
        operands: list[Value] = []
        for axis in range(source.type.ndim):
            step = self.pick((1, -1, 2, 0)) if source.type.ndim > 1 else self.pick((1, -1, 2))
            start = self.index(source, axis).value
            steps.append(step)
            operands.append(start)
            if step:
                operands.append(self.room(source, axis, start, step))
        if all(s == 0 for s in steps):
            return
        result = self.b.value(ops.VIEW, source, *operands, steps=tuple(steps))
        self.readable.append(result)
        self.load(result)

    def room(self, source: Value, axis: int, start: Value, step: int) -> Value:
        """How many elements lie from `start` to the end in steps."""
        one = self.number(1)
        if step < 0:
            return self.b.value(ops.ADD, start, one)
        left = self.b.value(ops.SUB, self.b.value(ops.DIM, source, axis=axis), start)
        if step == 1:
            return left
        return self.b.value(ops.DIV, self.b.value(ops.ADD, left, one), self.number(2))

    def load(self, array: Value | None = None) -> None:
        arrays = [*self.readable, *self.shared]
        array = array or arrays[-1 - self.choose(len(arrays))]
        assert isinstance(array.type, ArrayType)
        indices = [self.index(array, a) for a in range(array.type.ndim)]
        result = self.b.value(ops.LOAD, array, *(v.value for v in indices))
        self.add(result, uniform=False)

    def store(self) -> None:
        array = self.pick(self.outputs)
        assert isinstance(array.type, ArrayType)
        column = self.number(self.choose(WIDTH))
        if self.chance(3):
            column = self.index(array, 1).value
        self.b.emit(ops.STORE, array, self.row, column, self.value(array.type.element).value)

    def store_row(self, array: Value) -> None:
        """The newest values of the type that the array holds."""
        assert isinstance(array.type, ArrayType)
        kind = array.type.element
        fit = [v.value for v in self.vars if v.value.type == kind]
        other = [v.value for v in self.vars if v.value.type != kind]
        casts = [] if fit else [self.b.value(ops.CAST, v, to=kind) for v in other[-WIDTH:]]
        for column, value in zip(range(WIDTH), [*casts, *fit][::-1], strict=False):
            self.b.emit(ops.STORE, array, self.row, self.number(column), value)

    def private_load(self) -> None:
        array = self.pick(self.private)
        self.add(self.b.value(ops.LOAD, array, self.place_in(array)), uniform=False)

    def private_store(self) -> None:
        array = self.pick(self.private)
        assert isinstance(array.type, ArrayType)
        value = self.value(array.type.element).value
        self.b.emit(ops.STORE, array, self.place_in(array), value)

    def place_in(self, array: Value) -> Value:
        assert isinstance(array.type, ArrayType)
        assert array.type.shape
        if self.chance(3):
            return self.index(array, 0).value
        return self.number(self.choose(array.type.shape[0]))

    def exchange(self) -> None:
        """Each item writes its own place, between two barriers."""
        array = self.shared[0]
        assert isinstance(array.type, ArrayType)
        value = self.value(array.type.element).value
        self.b.emit(ops.BARRIER, attrs={"scope": "workgroup"})
        self.b.emit(ops.STORE, array, self.place, value)
        self.b.emit(ops.BARRIER, attrs={"scope": "workgroup"})

    def atomic(self) -> None:
        """One kind of update for each array, so that the order does not matter."""
        array = self.sums[0]
        assert isinstance(array.type, ArrayType)
        kind = ("add", "max", "xor", "and", "min", "or")[self.inputs[0].extents[0] % 6]  # pyright: ignore[reportOptionalSubscript]
        attrs = {"kind": kind, "order": "relaxed", "scope": "device"}
        value = self.value(array.type.element).value
        self.b.emit(ops.ATOMIC_RMW, array, self.index(array, 0).value, value, attrs=attrs)

    # -- structure

    def nested(self, args: Sequence[Value], fill: Callable[[], None]) -> Region:
        """A region whose body `fill` writes, terminator included."""
        scope = (self.b, len(self.vars), len(self.readable), self.flow_uniform, self.loop)
        self.b = Builder()
        self.depth += 1
        fill()
        region = self.b.region(*args)
        self.depth -= 1
        self.b, variables, arrays, self.flow_uniform, self.loop = scope
        del self.vars[variables:], self.readable[arrays:]
        return region

    def types(self) -> tuple[Scalar, ...]:
        return tuple(self.pick(TYPES) for _ in range(self.choose(3)))

    def branch(self) -> None:
        cond = self.condition(uniform=self.barriers and self.choose(3) == 0)
        types = self.types()
        uniform: list[bool] = []
        left: list[bool] = []

        def arm(*, may_leave: bool) -> None:
            self.flow_uniform = self.flow_uniform and cond.uniform
            self.scoped(self.choose(3) + (0 if types else 1))
            leaves = may_leave and self.leave()
            left.append(leaves)
            if not leaves:
                values = [self.value(t) for t in types]
                uniform.append(all(v.uniform for v in values))
                self.b.emit(ops.YIELD, *(v.value for v in values))

        regions = (
            self.nested((), lambda: arm(may_leave=True)),
            self.nested((), lambda: arm(may_leave=not left[0])),
        )
        op = self.b.emit(ops.IF, cond.value, types=types, regions=regions)
        for value in op.results:
            self.add(value, uniform=cond.uniform and all(uniform) and not any(left))

    def condition(self, *, uniform: bool) -> _Var:
        """A bool, seldom a constant."""
        if self.choose(3) == 0:
            return self.value(BOOL, uniform=uniform)
        kind = self.pick([t for t in TYPES if t != BOOL])
        one, two = self.value(kind, uniform=uniform), self.value(kind, uniform=uniform)
        spec = self.pick((ops.LT, ops.GE, ops.EQ, ops.NE))
        return _Var(self.b.value(spec, one.value, two.value), one.uniform and two.uniform)

    def leave(self) -> bool:
        """Perhaps end the region by leaving the loop or the kernel."""
        options: list[Callable[[], None]] = []
        if self.choose(3) == 0:
            return False
        if self.loop and (self.flow_uniform or not self.loop.flow_uniform or not self.barriers):
            options += [self.break_, self.continue_, self.break_]
        if (self.flow_uniform or not self.barriers) and self.chance(4):
            options.append(lambda: self.b.emit(ops.RETURN) and None)
        if not options:
            return False
        if self.barriers and self.flow_uniform and self.choose(2):
            self.exchange()
        self.pick(options)()
        return True

    def break_(self) -> None:
        assert self.loop
        self.b.emit(ops.BREAK, *(self.value(t).value for t in self.loop.results))

    def continue_(self) -> None:
        self.next(ops.CONTINUE)

    def next(self, spec: ops.Spec) -> None:
        assert self.loop
        first = () if self.loop.counter is None else (self.counted_on(self.loop.counter),)
        self.b.emit(spec, *first, *(self.value(t).value for t in self.loop.carried))

    def counted_on(self, counter: Value) -> Value:
        return self.b.value(ops.ADD, counter, self.number(1))

    def bound(self, low: int, count: int, *, uniform: bool) -> _Var:
        """A small i64: a constant, or a run-time value brought into range."""
        if self.choose(2) == 0:
            return _Var(self.number(low + self.choose(count)), True)
        var = self.value(I64, uniform=uniform)
        small = self.b.value(ops.MOD, var.value, self.number(count))
        return _Var(self.b.value(ops.ADD, small, self.number(low)), var.uniform)

    def counted(self) -> None:
        wanted = self.barriers and self.choose(2) == 0
        start = self.bound(-1, 4, uniform=wanted)
        stop = self.bound(-1, 6, uniform=wanted)
        step = self.bound(-2, 5, uniform=wanted) if self.chance(3) else _Var(self.number(1), True)
        uniform = start.uniform and stop.uniform and step.uniform
        types = self.types()
        initial = [self.value(t).value for t in types]
        index = Value(I64, "i")
        args = tuple(Value(t) for t in types)

        def body() -> None:
            self.flow_uniform = self.flow_uniform and uniform
            self.loop = _Loop(types, types, None, self.flow_uniform)
            self.add(index, uniform=uniform)
            self.vars += [_Var(a, False) for a in args]
            self.scoped(1 + self.choose(3))
            self.next(ops.CONTINUE if self.chance(6) else ops.YIELD)

        region = self.nested((index, *args), body)
        bounds = (start.value, stop.value, step.value)
        op = self.b.emit(ops.FOR, *bounds, *initial, types=types, regions=(region,))
        self.vars += [_Var(v, False) for v in op.results]

    def endless(self) -> None:
        """A `loop` that counts, so that it ends."""
        types, results = self.types(), self.types()
        limit = self.bound(0, 4, uniform=self.barriers and self.choose(2) == 0)
        counter = Value(I64, "n")
        args = tuple(Value(t) for t in types)
        initial = (self.number(0), *(self.value(t).value for t in types))

        def body() -> None:
            self.flow_uniform = self.flow_uniform and limit.uniform
            self.loop = _Loop(types, results, counter, self.flow_uniform)
            self.add(counter, uniform=limit.uniform)
            self.vars += [_Var(a, False) for a in args]
            done = self.b.value(ops.GE, counter, limit.value)
            leave = self.nested((), self.break_)
            stay = self.nested((), lambda: self.b.emit(ops.YIELD) and None)
            self.b.emit(ops.IF, done, types=(), regions=(leave, stay))
            self.scoped(1 + self.choose(3))
            self.next(ops.YIELD)

        region = self.nested((counter, *args), body)
        op = self.b.emit(ops.LOOP, *initial, types=results, regions=(region,))
        self.vars += [_Var(v, False) for v in op.results]
