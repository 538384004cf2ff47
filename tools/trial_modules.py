"""Writes the modules by which drivers try a device at first use.

Run `python tools/trial_modules.py`; a test holds the committed files to what this writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hetir.backends.spirv import compile_kernel
from hetir.backends.spirv.options import FLOAT_ADDS, SUBGROUPS, WIDTHS
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Options, Param, Region, Value
from hetir.ir.types import BOOL, F32, F64, I32, I64, SCALARS, U32, U64, Scalar, array, static_array

FOLDER = Path(__file__).parents[1] / "hetir" / "runtime" / "drivers"


def _kernel(name: str, arrays: Sequence[Value], b: Builder, width: int | None = None) -> Kernel:
    b.emit(ops.RETURN)
    params = tuple(Param(v, (i,)) for i, v in enumerate(arrays))
    options = Options(subgroup_size=width)
    return Kernel(name=name, params=params, body=b.region(), options=options)


def _arrays(kind: Scalar, count: int) -> list[Value]:
    return [Value(array(kind, 1, strides=(1,))) for _ in range(count)]


def float_check(kind: Scalar) -> Kernel:
    """quotient = x / y, root = sqrt(x), total = the sum of x * y in order, for each item."""
    arrays = _arrays(kind, 5)
    x, y, quotient, root, total = arrays
    b = Builder()
    item = b.value(ops.GLOBAL_ID, axis=0)
    one, two = (b.value(ops.LOAD, v, item) for v in (x, y))
    b.emit(ops.STORE, quotient, item, b.value(ops.DIV, one, two))
    b.emit(ops.STORE, root, item, b.value(ops.SQRT, one))
    bounds = b.const(I64, 0), b.value(ops.DIM, x, axis=0), b.const(I64, 1)
    index, carried, body = Value(I64), Value(kind), Builder()
    product = body.value(ops.MUL, *(body.value(ops.LOAD, v, index) for v in (x, y)))
    body.emit(ops.YIELD, body.value(ops.ADD, carried, product))
    region = Region((index, carried), tuple(body.body))
    loop = b.emit(ops.FOR, *bounds, b.const(kind, 0), types=(kind,), regions=(region,))
    b.emit(ops.STORE, total, item, loop.result)
    return _kernel("float_check", arrays, b)


def fma_check(kind: Scalar) -> Kernel:
    """found = x * y + z, rounded once."""
    arrays = _arrays(kind, 4)
    b = Builder()
    item = b.value(ops.GLOBAL_ID, axis=0)
    terms = [b.value(ops.LOAD, v, item) for v in arrays[:3]]
    b.emit(ops.STORE, arrays[3], item, b.value(ops.FMA, *terms))
    return _kernel("fma_check", arrays, b)


def branch_check() -> Kernel:
    """found = 1 for even work-items: they part after a barrier that stands in a branch."""
    found, flag = Value(array(I32, 1, strides=(1,))), Value(array(I32, 1, strides=(1,)))
    b, arm, parted = Builder(), Builder(), Builder()
    item, zero = b.value(ops.LOCAL_ID, axis=0), b.const(I64, 0)
    uniform = b.value(ops.CAST, b.value(ops.LOAD, flag, zero), to=BOOL)
    tile = b.value(ops.ALLOC, type=static_array(I64, (64,), "shared"))
    arm.emit(ops.STORE, tile, item, item)
    arm.emit(ops.BARRIER, attrs={"scope": "workgroup"})
    even = arm.value(ops.EQ, arm.value(ops.AND, item, arm.const(I64, 1)), arm.const(I64, 0))
    arm.emit(ops.YIELD, even)
    other = Builder()
    other.emit(ops.YIELD, other.const(BOOL, False))
    arms = (arm.region(), other.region())
    some = b.emit(ops.IF, uniform, types=(BOOL,), regions=arms).result
    parted.emit(ops.STORE, found, item, parted.const(I32, 1))
    parted.emit(ops.YIELD)
    nothing = Builder()
    nothing.emit(ops.YIELD)
    b.emit(ops.IF, some, types=(), regions=(parted.region(), nothing.region()))
    return _kernel("branch_check", [found, flag], b)


def sign_check() -> Kernel:
    """Comparisons of 32-bit integers with constants, in 64 bits."""
    x, found = Value(array(I32, 1, strides=(1,))), Value(array(I32, 1, strides=(1,)))
    b = Builder()
    item = b.value(ops.GLOBAL_ID, axis=0)
    wide = b.value(ops.CAST, b.value(ops.LOAD, x, item), to=I64)
    total = b.const(I32, 0)
    for number, bound in enumerate((0, 5, -7, 300, 1 << 40)):
        for place, spec in enumerate((ops.LT, ops.GE)):
            sides = (wide, b.const(I64, bound))
            one = b.value(ops.CAST, b.value(spec, *sides), to=I32)
            two = b.value(ops.CAST, b.value(spec, *sides[::-1]), to=I32)
            bits = b.value(ops.OR, one, b.value(ops.SHL, two, b.const(I32, 1)))
            shift = b.const(I32, 4 * number + 2 * place)
            total = b.value(ops.OR, total, b.value(ops.SHL, bits, shift))
    b.emit(ops.STORE, found, item, total)
    return _kernel("sign_check", [x, found], b)


def zero_check() -> Kernel:
    """Seven results an item: sums, products and quotients with zeros, and x - x."""
    x, found = Value(array(F32, 1, strides=(1,))), Value(array(F32, 1, strides=(1,)))
    b = Builder()
    item = b.value(ops.GLOBAL_ID, axis=0)
    value, zero = b.value(ops.LOAD, x, item), b.const(F32, 0)
    results = [b.value(spec, zero, value) for spec in (ops.ADD, ops.SUB, ops.MUL)]
    results += [b.value(ops.DIV, value, zero), b.value(ops.DIV, zero, value)]
    results += [b.value(ops.SUB, value, value), b.value(ops.ADD, value, b.const(F32, -0.0))]
    start = b.value(ops.MUL, item, b.const(I64, len(results)))
    for place, result in enumerate(results):
        b.emit(ops.STORE, found, b.value(ops.ADD, start, b.const(I64, place)), result)
    return _kernel("zero_check", [x, found], b)


def add_check(kind: Scalar, *, shared: bool) -> Kernel:
    """old = y, y += x and tile = x + y by atomics on places of their own; total counts items."""
    arrays = _arrays(kind, 5)
    x, y, old, total, tiles = arrays
    b = Builder()
    item, zero = b.value(ops.GLOBAL_ID, axis=0), b.const(I64, 0)
    attrs: dict[str, Any] = {"kind": "add", "order": "relaxed", "scope": "device"}
    one, two = (b.value(ops.LOAD, v, item) for v in (x, y))
    b.emit(ops.STORE, old, item, b.value(ops.ATOMIC_RMW, y, item, one, **attrs))
    b.emit(ops.ATOMIC_RMW, total, zero, b.const(kind, 1), attrs=attrs)
    if shared:
        tile = b.value(ops.ALLOC, type=static_array(kind, (1,), "shared"))
        b.emit(ops.STORE, tile, zero, one)
        b.emit(ops.ATOMIC_RMW, tile, zero, two, attrs={**attrs, "scope": "workgroup"})
        b.emit(ops.STORE, tiles, item, b.value(ops.LOAD, tile, zero))
    return _kernel("add_check", arrays, b)


def lane_check(width: int) -> Kernel:
    """Six shuffles of a value of each work-item's own, one of its low word, three in a loop."""
    arrays = _arrays(U64, 1)
    b, everyone = Builder(), None
    x, y, z = (b.value(ops.LOCAL_ID, axis=a) for a in (0, 1, 2))
    sx, sy, sz = (b.value(ops.GROUP_SIZE, axis=a) for a in (0, 1, 2))
    rows = b.value(ops.ADD, b.value(ops.MUL, z, sy), y)
    item = b.value(ops.ADD, b.value(ops.MUL, rows, sx), x)
    lane, everyone = b.value(ops.LANE_ID), b.const(BOOL, True)
    value = b.value(ops.CAST, b.value(ops.MUL, item, b.const(I64, 0x10_0000_0007)), to=U64)
    moved = b.value(ops.ADD, b.value(ops.MUL, lane, b.const(I64, 5)), b.const(I64, 3))
    moved = b.value(ops.AND, moved, b.const(I64, width - 1))
    plain = (("xor", 1), ("xor", width // 2), ("up", 1), ("down", 3), ("index", 0))
    sources = [*((mode, b.const(I64, by)) for mode, by in plain), ("index", moved)]
    found = [b.value(ops.SHUFFLE, value, by, everyone, mode=mode) for mode, by in sources]
    low = b.value(ops.SHUFFLE, b.value(ops.CAST, value, to=U32), moved, everyone, mode="index")
    found.append(b.value(ops.CAST, low, to=U64))
    index, carried, body = Value(I64), Value(U64), Builder()
    other = body.value(ops.SHUFFLE, carried, body.const(I64, 1), body.const(BOOL, True), mode="xor")
    body.emit(ops.YIELD, body.value(ops.ADD, other, value))
    region = Region((index, carried), tuple(body.body))
    bounds = (b.const(I64, n) for n in (0, 3, 1))
    found.append(b.emit(ops.FOR, *bounds, value, types=(U64,), regions=(region,)).result)
    items = b.value(ops.MUL, b.value(ops.MUL, sx, sy), sz)
    group = b.value(ops.MUL, b.value(ops.GROUP_ID, axis=0), items)
    start = b.value(ops.MUL, b.value(ops.ADD, group, item), b.const(I64, len(found)))
    for place, result in enumerate(found):
        b.emit(ops.STORE, arrays[0], b.value(ops.ADD, start, b.const(I64, place)), result)
    return _kernel("lane_check", arrays, b, width)


def _form(kernel: Kernel, target: str, option: str) -> bytes:
    """The kernel's module for devices with an option."""
    variants = compile_kernel(kernel, target=target).variants
    (found,) = (v.binary for v in variants if v.needs == (option,))
    return found


def modules() -> Iterator[tuple[Path, bytes]]:
    """Each file and what belongs there."""
    signs = compile_kernel(sign_check(), target="spirv:vulkan").binary
    assert signs is not None
    yield FOLDER / "sign_check.vulkan.i32.spv", signs
    zeros = compile_kernel(zero_check(), target="spirv:vulkan").binary
    assert zeros is not None
    yield FOLDER / "zero_check.vulkan.f32.spv", zeros
    parted = compile_kernel(branch_check(), target="spirv:opencl").binary
    assert parted is not None
    yield FOLDER / "branch_check.opencl.i32.spv", parted
    for kind in (F32, F64):
        fused = compile_kernel(fma_check(kind), target="spirv:opencl").binary
        assert fused is not None
        yield FOLDER / f"fma_check.opencl.{kind}.spv", fused
    for flavour in ("opencl", "vulkan"):
        target = f"spirv:{flavour}"
        for kind in (F32, F64):
            binary = compile_kernel(float_check(kind), target=target).binary
            assert binary is not None
            yield FOLDER / f"float_check.{flavour}.{kind}.spv", binary
        for option, element in FLOAT_ADDS.items():
            kernel = add_check(SCALARS[element], shared=flavour == "opencl")
            yield FOLDER / f"add_check.{flavour}.{element}.spv", _form(kernel, target, option)
        for width in WIDTHS:
            code = _form(lane_check(width), target, SUBGROUPS)
            yield FOLDER / f"lane_check.{flavour}.{width}.spv", code


if __name__ == "__main__":
    for path, content in modules():
        path.write_bytes(content)
