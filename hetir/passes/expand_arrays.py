"""Array expansion: array values become a reference, a byte offset, extents and strides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Attr, Kernel, Operation, Region, Value, walk
from hetir.ir.types import BOOL, I64, ArrayType, RefType, Scalar

_ACCESSES = (
    *(ops.LOAD, ops.STORE, ops.ATOMIC_LOAD, ops.ATOMIC_STORE, ops.ATOMIC_RMW, ops.ATOMIC_CAS),
)


def expand_arrays(kernel: Kernel) -> Kernel:
    """Rewrite a kernel so that arrays are only parameters and allocs (see docs/ir.md).

    With `options.debug` every access is guarded: out of bounds it is skipped (a load gives
    0) and reported; so is a loop whose step is 0, which runs nothing.
    """
    return _Expander(kernel).run()


@dataclass(frozen=True, slots=True)
class _Array:
    """What an array value became; strides in bytes."""

    base: Value
    offset: Value | None
    extents: tuple[Value, ...]
    strides: tuple[Value, ...]

    def parts(self, builder: Builder) -> tuple[Value, ...]:
        """The values that stand for the array where it is a block argument or result."""
        offset = self.offset or builder.const(I64, 0)
        return (self.base, offset, *self.extents, *self.strides)


class _Expander:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.checks = kernel.options.debug
        self.env: dict[Value, Value] = {}
        self.arrays: dict[Value, _Array] = {}
        self.names = {p.value: p.value.name for p in kernel.params}

    def run(self) -> Kernel:
        """The expanded kernel: parameters' extents first, then the body."""
        top = Builder(self.kernel.loc)
        for param in self.kernel.params:
            if isinstance(param.value.type, ArrayType):
                self.arrays[param.value] = _parameter(top, param.value, param.value.type)
        body = self.region(self.kernel.body)
        used = {v for op in walk(body) for v in op.operands}
        kept = [op for op in top.body if not used.isdisjoint(op.results)]
        return replace(self.kernel, body=Region((), (*kept, *body.body)))

    def region(self, region: Region) -> Region:
        """A region with its array arguments taken apart."""
        args = tuple(v for a in region.args for v in self.split(a))
        builder = Builder()
        for op in region.body:
            builder.loc = op.loc
            self.visit(op, builder)
        return Region(args, tuple(builder.body))

    def split(self, value: Value) -> tuple[Value, ...]:
        """New values for an array that is a block argument or result."""
        kind = value.type
        if not isinstance(kind, ArrayType):
            return (value,)
        base = Value(RefType(kind.space), value.name)
        numbers = tuple(Value(I64) for _ in range(1 + 2 * kind.ndim))
        extents, strides = numbers[1 : 1 + kind.ndim], numbers[1 + kind.ndim :]
        self.arrays[value] = _Array(base, numbers[0], extents, strides)
        return (base, *numbers)

    def operands(self, values: Iterable[Value], builder: Builder) -> tuple[Value, ...]:
        """Operands with arrays taken apart."""
        found: list[Value] = []
        for value in values:
            array = self.arrays.get(value)
            found += array.parts(builder) if array else (self.env.get(value, value),)
        return tuple(found)

    def visit(self, op: Operation, builder: Builder) -> None:
        """Append what an op becomes."""
        head = op.operands[0] if op.operands else None
        if op.spec in _ACCESSES and head in self.arrays:
            self.access(op, builder)
        elif op.spec is ops.VIEW:
            self.arrays[op.result] = self.view(op, builder)
        elif op.spec is ops.ALLOC:
            builder.body.append(op)
            self.names[op.result] = op.result.name
            self.arrays[op.result] = _static(builder, op.result)
        elif op.spec in (ops.DIM, ops.STRIDE):
            array, axis = self.arrays[op.operands[0]], op.attrs["axis"]
            assert isinstance(axis, int)
            found = array.extents if op.spec is ops.DIM else array.strides
            self.env[op.result] = found[axis]
        elif op.spec is ops.BASE:
            self.env[op.result] = self.arrays[op.operands[0]].base
        elif op.spec is ops.SELECT and isinstance(op.result.type, ArrayType):
            self.choose(op, builder)
        else:
            self.rebuild(op, builder)

    def rebuild(self, op: Operation, builder: Builder) -> None:
        """Keep an op; its arrays among operands, results and arguments are taken apart."""
        if self.checks and op.spec is ops.FOR:
            step = self.env.get(op.operands[2], op.operands[2])
            moves = builder.value(ops.NE, step, builder.const(I64, 0))
            builder.emit(ops.ASSERT, moves, attrs={"message": "the step of `range` is 0"})
        operands = self.operands(op.operands, builder)
        regions = tuple(map(self.region, op.regions))
        results = tuple(v for r in op.results for v in self.split(r))
        changed = replace(op, operands=operands, regions=regions, results=results)
        builder.body.append(changed)

    def choose(self, op: Operation, builder: Builder) -> None:
        """A `select` of arrays: one of each part."""
        cond = self.env.get(op.operands[0], op.operands[0])
        pairs = zip(*(self.arrays[v].parts(builder) for v in op.operands[1:]), strict=True)
        parts = [builder.value(ops.SELECT, cond, a, b) for a, b in pairs]
        count = (len(parts) - 2) // 2
        extents, strides = tuple(parts[2 : 2 + count]), tuple(parts[2 + count :])
        self.arrays[op.result] = _Array(parts[0], parts[1], extents, strides)

    def view(self, op: Operation, builder: Builder) -> _Array:
        """A sub-array: the offset moves, strides are multiplied."""
        array, steps = self.arrays[op.operands[0]], op.attrs["steps"]
        assert isinstance(steps, tuple)
        rest = iter(self.env.get(v, v) for v in op.operands[1:])
        offset = array.offset
        extents: list[Value] = []
        strides: list[Value] = []
        for step, stride in zip(steps, array.strides, strict=True):
            assert isinstance(step, int)
            moved = builder.value(ops.MUL, next(rest), stride)
            offset = builder.value(ops.ADD, offset, moved) if offset else moved
            if step:
                extents.append(next(rest))
                scaled = builder.value(ops.MUL, stride, builder.const(I64, step))
                strides.append(stride if step == 1 else scaled)
        return _Array(array.base, offset, tuple(extents), tuple(strides))

    def access(self, op: Operation, builder: Builder) -> None:
        """A load, store or atomic by reference and byte offset."""
        array, kind = self.arrays[op.operands[0]], op.operands[0].type
        assert isinstance(kind, ArrayType)
        count = kind.ndim
        rest = [self.env.get(v, v) for v in op.operands[1:]]
        indices, values = rest[:count], rest[count:]
        attrs: dict[str, Attr] = {**op.attrs, "element": kind.element}
        if not self.checks or not count:
            operands = (array.base, _offset(builder, array, indices), *values)
            builder.body.append(replace(op, operands=operands, attrs=attrs))
            return
        inside = _inside(builder, array, indices)
        then, other = Builder(op.loc), Builder(op.loc)
        operands = (array.base, _offset(then, array, indices), *values)
        done = then.emit(op.spec, *operands, attrs=attrs)
        then.emit(ops.YIELD, *done.results)
        pairs = [v for pair in zip(indices, array.extents, strict=True) for v in pair]
        shown: dict[str, Attr] = {"array": self.names.get(op.operands[0]) or "array"}
        other.emit(ops.OUT_OF_BOUNDS, *pairs, attrs=shown)
        zeros = [other.const(r.type, 0) for r in op.results if isinstance(r.type, Scalar)]
        other.emit(ops.YIELD, *zeros)
        regions = (then.region(), other.region())
        builder.body.append(Operation(ops.IF, (inside,), op.results, {}, regions, op.loc))


def _parameter(builder: Builder, value: Value, kind: ArrayType) -> _Array:
    """A parameter's base, extents and strides; strides that the type knows are constants."""
    known = kind.strides or (None,) * kind.ndim
    base = builder.value(ops.BASE, value)
    extents = tuple(builder.value(ops.DIM, value, axis=a) for a in range(kind.ndim))
    strides = tuple(
        builder.value(ops.STRIDE, value, axis=a)
        if s is None
        else builder.const(I64, s * kind.element.bytes)
        for a, s in enumerate(known)
    )
    return _Array(base, None, extents, strides)


def _static(builder: Builder, value: Value) -> _Array:
    """A shared or private array: everything but the base is constant."""
    kind = value.type
    assert isinstance(kind, ArrayType)
    shape = kind.shape or ()
    steps = [kind.element.bytes]
    for extent in reversed(shape[1:]):
        steps.append(steps[-1] * extent)
    extents = tuple(builder.const(I64, n) for n in shape)
    strides = tuple(builder.const(I64, s) for s in reversed(steps[: len(shape)]))
    return _Array(builder.value(ops.BASE, value), None, extents, strides)


def _offset(builder: Builder, array: _Array, indices: Sequence[Value]) -> Value:
    offset = array.offset
    for index, stride in zip(indices, array.strides, strict=True):
        part = builder.value(ops.MUL, index, stride)
        offset = builder.value(ops.ADD, offset, part) if offset else part
    return offset or builder.const(I64, 0)


def _inside(builder: Builder, array: _Array, indices: Sequence[Value]) -> Value:
    zero, inside = builder.const(I64, 0), builder.const(BOOL, True)
    for index, extent in zip(indices, array.extents, strict=True):
        low = builder.value(ops.GE, index, zero)
        high = builder.value(ops.LT, index, extent)
        inside = builder.value(ops.AND, inside, builder.value(ops.AND, low, high))
    return inside
