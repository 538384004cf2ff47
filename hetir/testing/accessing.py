"""Statements of generated kernels that touch memory, so that no two work-items race.

Arrays are read by everybody, belong to one work-item, or are written between two barriers; what
several work-items update with atomics, one kind of update for an array, nobody reads.
"""

from __future__ import annotations

from dataclasses import replace

from hetir.ir import ops
from hetir.ir.core import Operation, Value
from hetir.ir.types import BOOL, I64, U64, Scalar, static_array
from hetir.testing.computing import Computing
from hetir.testing.scope import WIDTH, Array

SUM_KINDS = ("add", "max", "xor", "and", "min", "or")
_BITWISE = ("and", "or", "xor")


class Accessing(Computing):
    """Statements with memory."""

    # -- allocations

    def shared(self) -> None:
        """Shared arrays, with something in them."""
        for _ in range(1 + self.choose(2)):
            kind = static_array(self.pick(self.storage), (self.group_items,), "shared")
            array = Array(self.op(ops.ALLOC, type=kind), "shared", uniform=False)
            self.arrays.append(array)
            self.exchange(array)

    def private(self) -> None:
        """A private array of one or two axes."""
        rows, columns = 1 + self.choose(4), self.choose(3)
        shape = (rows, columns) if columns else (rows,)
        kind = static_array(self.pick(self.storage), shape, "private")
        array = self.op(ops.ALLOC, type=kind)
        for row in range(rows):
            for column in range(max(1, columns)):
                at = [self.number(row), *([self.number(column)] if columns else [])]
                self.act(ops.STORE, array, *at, self.value(kind.element).value)
        self.arrays.append(Array(array, "mine", uniform=False))

    # -- plain accesses

    def load(self, array: Array | None = None) -> None:
        """Read an element that nobody writes now."""
        if array is None:
            arrays = self.such("read", "shared")
            array = arrays[-1 - self.choose(len(arrays))]
        indices = [self.index(array.value, a) for a in range(array.type.ndim)]
        result = self.op(ops.LOAD, array.value, *(v.value for v in indices))
        uniform = array.uniform and all(v.uniform for v in indices)
        self.add(result, uniform=uniform)

    def owned(self) -> tuple[Array, tuple[Value, ...]]:
        """An array and indices that are the work-item's own."""
        array = self.pick(self.such("own", "mine"))
        if array.role == "mine":
            return array, tuple(self.near(array, a) for a in range(array.type.ndim))
        return array, (self.row, self.near(array, 1))

    def near(self, array: Array, axis: int) -> Value:
        """An index in bounds: a constant where the extent is known."""
        extent = WIDTH if array.role == "own" else 0
        if array.type.shape:
            extent = array.type.shape[axis]
        if self.chance(3) or not extent:
            return self.index(array.value, axis).value
        return self.number(self.choose(extent))

    def own_load(self) -> None:
        """Read what belongs to the work-item."""
        array, at = self.owned()
        self.add(self.op(ops.LOAD, array.value, *at), uniform=False)

    def own_store(self) -> None:
        """Write what belongs to the work-item."""
        array, at = self.owned()
        self.act(ops.STORE, array.value, *at, self.value(array.type.element).value)

    def store_row(self, array: Array) -> None:
        """The newest values of the type that the array holds."""
        kind = array.type.element
        fit = [v.value for v in self.vars if v.value.type == kind]
        other = [v.value for v in self.vars if v.value.type != kind]
        casts = [] if fit else [self.op(ops.CAST, v, to=kind) for v in other[-WIDTH:]]
        for column, value in zip(range(WIDTH), [*casts, *fit][::-1], strict=False):
            self.act(ops.STORE, array.value, self.row, self.number(column), value)

    def mix(self, start: int) -> None:
        """Add the values that nothing has used, of those from `start` on, to the item's digest.

        So that a wrong bit anywhere shows in the output.
        """
        values = [v.value for v in self.vars[start:] if v.value not in self.used]
        if not values:
            return
        total = self.op(ops.LOAD, self.digest, self.row)
        factor = self.b.const(U64, 0x9E3779B97F4A7C15)
        for value in values:
            scaled = self.op(ops.MUL, total, factor)
            total = self.op(ops.ADD, scaled, self.bits(value))
        self.act(ops.STORE, self.digest, self.row, total)

    # -- arrays as values

    def choice(self) -> None:
        """A select of arrays."""
        arrays = [a for a in self.such("read") if a.type.space == "global"]
        if not arrays:
            return
        first = self.pick(arrays)
        other = self.pick([a for a in arrays if a.type == first.type])
        cond = self.condition()
        result = self.op(ops.SELECT, cond.value, first.value, other.value)
        uniform = cond.uniform and first.uniform and other.uniform
        self.arrays.append(replace(first, value=result, uniform=uniform))

    def measure(self) -> None:
        """An extent or stride."""
        arrays = [a for a in self.such("read", "own") if a.type.ndim and a.type.space == "global"]
        if not arrays:
            return
        array = self.pick(arrays)
        spec = self.pick((ops.DIM, ops.STRIDE))
        result = self.op(spec, array.value, axis=self.choose(array.type.ndim))
        self.add(result, uniform=array.uniform)

    def view(self) -> None:
        """A part that is not empty of an array; of the work-item's own row, if it is of such."""
        source = self.pick(self.such("read", "mine", "shared", "own"))
        steps: list[int] = []
        operands: list[Value] = []
        uniform = source.uniform
        for axis in range(source.type.ndim):
            own = source.role == "own" and axis == 0
            step = 0 if own else self.pick((1, -1, 2, 0, -2))
            steps.append(step)
            start = self.index(source.value, axis) if not own else None
            uniform = uniform and start is not None and start.uniform
            operands.append(start.value if start else self.row)
            if step:
                operands.append(self.room(source.value, axis, operands[-1], step))
        result = self.op(ops.VIEW, source.value, *operands, steps=tuple(steps))
        role = {"own": "mine", "shared": "read"}.get(source.role, source.role)
        array = Array(result, role, uniform)
        self.arrays.append(array)
        if role == "read":
            self.load(array)

    def room(self, source: Value, axis: int, start: Value, step: int) -> Value:
        """How many elements lie from `start` to the end in steps."""
        one = self.number(1)
        left = start if step < 0 else self.op(ops.SUB, self.op(ops.DIM, source, axis=axis), one)
        if step > 0:
            left = self.op(ops.SUB, left, start)
        if abs(step) > 1:
            left = self.op(ops.DIV, left, self.number(abs(step)))
        return self.op(ops.ADD, left, one)

    # -- atomics

    def atomic(self) -> None:
        """An atomic, or a fence."""
        makes = [self.own_atomic, self.own_atomic, self.fence]
        if self.such("sum"):
            makes = [self.add_up, self.add_up, *makes]
        self.pick(makes)()

    def order(self, spec: ops.Spec, *scopes: str) -> dict[str, str]:
        """An order, and one of the scopes."""
        orders = spec.attrs["order"]
        assert isinstance(orders, tuple)
        return {"order": self.pick(orders), "scope": self.pick(scopes)}

    def fence(self) -> None:
        """A fence, which orders nothing that matters here."""
        self.act(ops.FENCE, **self.order(ops.FENCE, *ops.SCOPES))

    def add_up(self) -> None:
        """One kind of update for each array, so that the order does not matter."""
        array = self.pick(self.such("sum"))
        kind, element = array.kind, array.type.element
        if kind == "add":
            kind = self.pick(("add", "sub"))
        if element.is_float and array.kind == "add":  # small integers add exactly
            small = self.op(ops.MOD, self.value(I64).value, self.number(16))
            value = self.op(ops.CAST, small, to=element)
        else:
            value = self.value(element).value
        attrs = self.order(ops.ATOMIC_RMW, "device", "system")
        self.rmw(array.value, self.index(array.value, 0).value, value, kind=kind, **attrs)

    def rmw(self, *operands: Value, **attrs: str) -> Operation:
        """A read-modify-write."""
        return self.b.emit(ops.ATOMIC_RMW, *operands, attrs=attrs)

    def own_atomic(self) -> None:
        """Any atomic, where no other work-item looks; its result is known."""
        arrays = [a for a in self.such("own") if _counts(a.type.element)]
        if not arrays:
            return
        array = self.pick(arrays)
        element = array.type.element
        at = (array.value, self.row, self.near(array, 1))
        value = self.value(element).value
        spec = self.pick((ops.ATOMIC_RMW, ops.ATOMIC_CAS, ops.ATOMIC_LOAD, ops.ATOMIC_STORE))
        attrs = self.order(spec, *ops.SCOPES[::-1])
        if spec is ops.ATOMIC_RMW:
            kinds = [k for k in ops.RMW_KINDS if element.is_int or k not in _BITWISE]
            result = self.rmw(*at, value, kind=self.pick(kinds), **attrs).result
        elif spec is ops.ATOMIC_CAS:
            expected = self.op(ops.LOAD, *at) if self.choose(2) else self.value(element).value
            result = self.op(spec, *at, expected, value, **attrs)
        elif spec is ops.ATOMIC_LOAD:
            result = self.op(spec, *at, **attrs)
        else:
            self.act(spec, *at, value, **attrs)
            return
        self.add(result, uniform=False)

    # -- barriers, in uniform flow only

    def barrier(self, scope: str = "workgroup") -> None:
        """Wait."""
        self.act(ops.BARRIER, scope=scope)

    def exchange(self, array: Array | None = None) -> None:
        """Each item writes its own place, between two barriers."""
        array = array or self.pick(self.such("shared"))
        value = self.value(array.type.element).value
        self.barrier()
        self.act(ops.STORE, array.value, self.place, value)
        self.barrier()

    def collect(self) -> None:
        """All items update any places of a shared array, in one way, between two barriers."""
        arrays = [a for a in self.such("shared") if a.type.element.is_int]
        if not arrays:
            return
        array = self.pick(arrays)
        index = self.index(array.value, 0).value
        value = self.value(array.type.element).value
        attrs = self.order(ops.ATOMIC_RMW, "workgroup", "device", "system")
        self.barrier()
        self.rmw(array.value, index, value, kind=self.pick(SUM_KINDS), **attrs)
        self.barrier()

    def neighbours(self) -> None:
        """Each item writes its place and reads another one of its subgroup."""
        array = self.pick(self.such("shared"))
        value = self.value(array.type.element).value
        lane = self.op(ops.LANE_ID)
        first = self.op(ops.SUB, self.place, lane)
        left = self.op(ops.SUB, self.op(ops.DIM, array.value, axis=0), first)
        here = self.op(ops.MIN, left, self.op(ops.SUBGROUP_SIZE))
        other = self.op(ops.ADD, first, self.op(ops.MOD, self.value(I64).value, here))
        self.barrier()
        self.act(ops.STORE, array.value, self.place, value)
        self.barrier("subgroup")
        self.add(self.op(ops.LOAD, array.value, other), uniform=False)
        self.barrier()


def _counts(element: Scalar) -> bool:
    """Whether atomics are defined for a type."""
    return element != BOOL and element.kind != "f8"
