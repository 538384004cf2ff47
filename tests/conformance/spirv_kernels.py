"""The conformance kernels as SPIR-V modules, written in hetIR."""

from hetir.backends.spirv import FLAVOURS, compile_kernel
from hetir.backends.spirv.emit import Emitter
from hetir.backends.spirv.targets import resolve
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Param, Region, Value
from hetir.ir.types import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I64,
    U8,
    U16,
    U32,
    U64,
    array,
    static_array,
)
from hetir.passes.expand_arrays import expand_arrays
from hetir.passes.layout import layout_of
from hetir.passes.legalize import legalize

# rounds of `spin`; lavapipe of Mesa 22.3 ends loops silently after 65,535
SPINS = {"spirv:opencl": 320_000, "spirv:vulkan": 60_000}


def kernel_of(name, types, build):
    values = [Value(t) for t in types]
    builder = Builder()
    build(builder, *values)
    builder.emit(ops.RETURN)
    params = tuple(Param(v, (i,)) for i, v in enumerate(values))
    return Kernel(name=name, params=params, body=builder.region())


def when(b, cond, build):
    inner, other = Builder(), Builder()
    build(inner)
    inner.emit(ops.YIELD)
    other.emit(ops.YIELD)
    b.emit(ops.IF, cond, types=(), regions=(inner.region(), other.region()))


def repeat(b, count, build):
    index, inner = Value(I64), Builder()
    build(inner, index)
    inner.emit(ops.YIELD)
    bounds = b.const(I64, 0), count, b.const(I64, 1)
    b.emit(ops.FOR, *bounds, types=(), regions=(Region((index,), tuple(inner.body)),))


def saxpy(b, a, x, y):
    item = b.value(ops.GLOBAL_ID, axis=0)

    def add(i):
        product = i.value(ops.MUL, a, i.value(ops.LOAD, x, item))
        i.emit(ops.STORE, y, item, i.value(ops.ADD, i.value(ops.LOAD, y, item), product))

    when(b, b.value(ops.LT, item, b.value(ops.DIM, y, axis=0)), add)


def dump(b, out, *values):
    *scalars, x = values
    offsets = (24, 25, 26, 28, 32, 40, 48, 50)
    for offset, value in zip(offsets, scalars, strict=True):
        put(b, out, b.const(I64, offset), value)
    sizes = [b.value(op, x, axis=a) for op in (ops.DIM, ops.STRIDE) for a in (0, 1)]
    for index, value in enumerate(sizes):
        put(b, out, b.const(I64, 64 + 8 * index), value)
    end = b.value(ops.SUB, b.value(ops.DIM, out, axis=0), b.const(I64, 48))
    shape = [b.value(op, axis=a) for op in (ops.NUM_GROUPS, ops.GROUP_SIZE) for a in (0, 1, 2)]
    for index, value in enumerate(shape):
        put(b, out, b.value(ops.ADD, end, b.const(I64, 8 * index)), value)


def put(b, out, offset, value):
    """The bytes of a value."""
    size = value.type.bytes
    word = {1: U8, 2: U16, 4: U32, 8: U64}[size]
    raw = ops.CAST if value.type == BOOL else ops.BITCAST
    wide = b.value(ops.CAST, b.value(raw, value, to=word), to=U64)
    for byte in range(size):
        moved = b.value(ops.SHR, wide, b.const(U64, 8 * byte))
        at = b.value(ops.ADD, offset, b.const(I64, byte))
        b.emit(ops.STORE, out, at, b.value(ops.CAST, moved, to=U8))


def scale2d(b, x):
    def row(inner, i):
        def element(last, j):
            value = last.value(ops.LOAD, x, i, j)
            last.emit(ops.STORE, x, i, j, last.value(ops.ADD, value, value))

        repeat(inner, inner.value(ops.DIM, x, axis=1), element)

    repeat(b, b.value(ops.DIM, x, axis=0), row)


def spin(b, rounds):
    """A fraction of a second of work, divisions that need one another; nothing can stop it."""
    word = b.value(ops.ALLOC, type=static_array(U64, (1,), "shared"))
    index, state, inner = Value(I64), Value(U64), Builder()
    value, big = state, inner.const(U64, 0xFEDCBA9876543211)
    for _ in range(64):
        value = inner.value(ops.REM, big, inner.value(ops.OR, value, inner.const(U64, 1)))
        value = inner.value(ops.ADD, value, inner.const(U64, 0x123456789))
    inner.emit(ops.YIELD, value)
    bounds = b.const(I64, 0), b.const(I64, rounds), b.const(I64, 1), b.const(U64, 7)
    region = Region((index, state), tuple(inner.body))
    loop = b.emit(ops.FOR, *bounds, types=(U64,), regions=(region,))
    b.emit(ops.STORE, word, b.const(I64, 0), loop.result)


KERNELS = {
    "saxpy": ([F32, array(F32, 1), array(F32, 1)], saxpy),
    "dump": ([array(U8, 1), BOOL, I8, U16, F32, F64, I64, F16, BF16, array(F32, 2)], dump),
    "scale2d": ([array(F32, 2)], scale2d),
    "fails": ([], lambda _: None),
}


class _Visible(Emitter):
    """A kernel whose stores go to the device's hidden word, so that no compiler drops them."""

    def emit(self, op):
        if op.spec is not ops.STORE:
            super().emit(op)
            return
        code, flavour = self.code, self.flavour
        place = flavour.place("global", flavour.hidden, code.number(64, 0), U64)
        code.put("OpStore", place.pointer, self.operand(op.operands[2]), *place.access)


class _RecordWriter(Emitter):
    """A kernel that writes one word behind the header of the records."""

    def region(self, body):
        code, flavour = self.code, self.flavour
        for offset, word in ((8, 8), (16, 0x1122334455667788)):
            place = flavour.place("global", flavour.records, code.number(64, offset), U64)
            code.put("OpStore", place.pointer, code.number(64, word), *place.access)
        super().region(body)


def emitted(kernel, target, emitter):
    """A kernel's module by another emitter."""
    lowered = legalize(expand_arrays(kernel), resolve(target))
    layout = layout_of(lowered)
    flavour = FLAVOURS[target](lowered, layout, None)
    return emitter(lowered, resolve(target), flavour, layout).module()


def module(name, target):
    """A kernel's module; `fails` is one that takes workgroups of one work-item only."""
    if name == "writes_record":
        return emitted(kernel_of(name, [], lambda _: None), target, _RecordWriter)
    if name == "spin":
        kernel = kernel_of(name, [], lambda b: spin(b, SPINS[target]))
        return emitted(kernel, target, _Visible)
    types, build = KERNELS[name]
    workgroup = (1, 1, 1) if name == "fails" else None
    return compile_kernel(kernel_of(name, types, build), target=target, workgroup=workgroup).binary
