"""Integer arithmetic: wrapping, wide and high products, division, carries, saturation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hetir.emulator.ptx.batch import Batch
from hetir.emulator.ptx.build import Build, Step, instruction
from hetir.emulator.ptx.types import S32, SIGNED, TYPES, UNSIGNED, Lanes, PtxType, as_type

Binary = Callable[[Lanes, Lanes], Lanes]


def as_array(value: Lanes) -> Lanes:
    """A lane vector or a scalar as an array; NumPy scalars would warn when they wrap."""
    return np.asarray(value)


def unary(b: Build, kind: PtxType, op: Callable[[Lanes], Lanes]) -> Step:
    """d = op(a)."""
    b.count(2)
    write, read = b.write(0, kind), b.read(1, kind)

    def step(r: Batch) -> None:
        write(r, op(as_array(read(r))))

    return step


def binary(b: Build, kind: PtxType, op: Binary, result: PtxType | None = None) -> Step:
    """d = op(a, b)."""
    b.count(3)
    write, first, second = b.write(0, result or kind), b.read(1, kind), b.read(2, kind)

    def step(r: Batch) -> None:
        write(r, op(as_array(first(r)), as_array(second(r))))

    return step


def unsigned(kind: PtxType) -> np.dtype[Any]:
    """The unsigned NumPy type of a type's width."""
    return UNSIGNED[kind.bits]


def wrapping(kind: PtxType, op: Binary) -> Binary:
    """An operation modulo 2^bits."""
    dtype = unsigned(kind)
    return lambda a, b: op(as_type(a, dtype), as_type(b, dtype))


def add_sub(b: Build, op: Binary) -> Step:
    """`add` and `sub` on integers: `.sat` (s32), `.cc`."""
    carry, saturate = b.flag("cc"), b.flag("sat")
    packed = "u16x2 s16x2 " if b.ins.opcode == "add" else ""
    wide = "u32 u64 s32 s64"
    kind = b.type("s32" if saturate else wide if carry else f"{packed}u16 s16 {wide}")
    if carry:
        return _carried(b, kind, op, takes=False, gives=True)
    if saturate:
        limits = np.iinfo(np.int32)

        def clamped(x: Lanes, y: Lanes) -> Lanes:
            wide = op(x.astype(np.int64), y.astype(np.int64))
            return np.clip(wide, limits.min, limits.max).astype(np.int32)

        return binary(b, kind, clamped)
    if kind.lane:
        return binary(b, kind, _halfwise(op))
    return binary(b, kind, wrapping(kind, op))


def _halfwise(op: Binary, dtype: str = "u2") -> Binary:
    def halves(a: Lanes, b: Lanes) -> Lanes:
        x, y = (np.ascontiguousarray(v) for v in np.broadcast_arrays(a, b))
        flat = op(np.atleast_1d(x).view(dtype), np.atleast_1d(y).view(dtype)).view("u4")
        return flat if x.ndim else flat[0]

    return halves


@instruction("addc", "subc")
def _with_carry(b: Build) -> Step:
    gives = b.flag("cc")
    kind = b.type("u32 s32 u64 s64")
    op = np.add if b.ins.opcode == "addc" else np.subtract
    return _carried(b, kind, op, takes=True, gives=gives)


def _carried(b: Build, kind: PtxType, op: Binary, *, takes: bool, gives: bool) -> Step:
    b.count(3)
    write, first, second = b.write(0, kind), b.read(1, kind), b.read(2, kind)
    dtype, adds = unsigned(kind), op is np.add

    def step(r: Batch) -> None:
        x = as_type(as_array(first(r)), dtype)
        y = as_type(as_array(second(r)), dtype)
        extra = r.pick(r.carry).astype(dtype) if takes else dtype.type(0)
        part = op(x, y)
        total = op(part, extra)
        if gives:
            out = (part < x) | (total < part) if adds else (x < y) | (part < extra)
            r.carry[r.active] = out
        write(r, total)

    return step


def multiply(b: Build) -> Step:
    """`mul` on integers: `.lo`, `.hi`, `.wide`."""
    part = b.need("lo", "hi", "wide")
    kind = b.type("u16 u32 u64 s16 s32 s64")
    if part == "wide":
        result = _wider(b, kind)
        return binary(b, kind, _wide_product(result), result)
    return binary(b, kind, _product(kind, part))


def _wider(b: Build, kind: PtxType) -> PtxType:
    if kind.bits == 64:
        raise b.wrong(".wide has no 64-bit form")
    return TYPES[f"{kind.kind}{2 * kind.bits}"]


def _wide_product(result: PtxType) -> Binary:
    return lambda x, y: x.astype(result.dtype) * y.astype(result.dtype)


def _product(kind: PtxType, part: str) -> Binary:
    if part == "lo":
        return wrapping(kind, np.multiply)
    if kind.bits == 64:
        return _high64_signed if kind.kind == "s" else _high64
    wide = TYPES[f"{kind.kind}{2 * kind.bits}"].dtype
    shift = wide.type(kind.bits)
    return lambda x, y: ((x.astype(wide) * y.astype(wide)) >> shift).astype(kind.dtype)


def _high64(a: Lanes, b: Lanes) -> Lanes:
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    al, ah, bl, bh = a & low, a >> half, b & low, b >> half
    middle = ((al * bl) >> half) + ((ah * bl) & low) + ((al * bh) & low)
    return ah * bh + ((ah * bl) >> half) + ((al * bh) >> half) + (middle >> half)


def _high64_signed(a: Lanes, b: Lanes) -> Lanes:
    x, y = a.view(np.uint64), b.view(np.uint64)
    zero = np.uint64(0)
    return _high64(x, y) - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)


def multiply_add(b: Build) -> Step:
    """`mad` on integers: `.lo`, `.hi` (`.sat` for s32), `.wide`, `.cc`."""
    return _mad(b, takes=False)


@instruction("madc")
def _madc(b: Build) -> Step:
    return _mad(b, takes=True)


def _mad(b: Build, *, takes: bool) -> Step:
    part = b.need("lo", "hi") if takes else b.need("lo", "hi", "wide")
    gives = part != "wide" and b.flag("cc")
    saturate = part == "hi" and not takes and b.flag("sat")
    carries = "u32 s32 u64 s64" if takes or gives else "u16 u32 u64 s16 s32 s64"
    kind = b.type("s32" if saturate else carries)
    b.count(4)
    total = _wider(b, kind) if part == "wide" else kind
    write, third = b.write(0, total), b.read(3, total)
    first, second = b.read(1, kind), b.read(2, kind)
    product = _wide_product(total) if part == "wide" else _product(kind, part)
    dtype = unsigned(total)

    def step(r: Batch) -> None:
        x, y, z = (as_array(read(r)) for read in (first, second, third))
        p = product(x, y)
        if saturate:
            wide = p.astype(np.int64) + z.astype(np.int64)
            write(r, np.clip(wide, -(1 << 31), (1 << 31) - 1).astype(np.int32))
            return
        p, z = as_type(p, dtype), as_type(z, dtype)
        partial = p + z
        result = partial + r.pick(r.carry).astype(dtype) if takes else partial
        if gives:
            r.carry[r.active] = (partial < p) | (result < partial)
        write(r, result)

    return step


@instruction("mul24", "mad24")
def _mul24(b: Build) -> Step:
    part = b.need("lo", "hi")
    adds = b.ins.opcode == "mad24"
    saturate = adds and part == "hi" and b.flag("sat")
    kind = b.type("s32" if saturate else "u32 s32")
    b.count(4 if adds else 3)
    write, first, second = b.write(0, kind), b.read(1, kind), b.read(2, kind)
    third = b.read(3, kind) if adds else None
    drop = 0 if part == "lo" else 16
    wide = SIGNED[64] if kind.kind == "s" else UNSIGNED[64]
    up = np.array(40, wide)

    def step(r: Batch) -> None:
        x, y = ((as_array(v(r)).astype(wide) << up) >> up for v in (first, second))
        p = ((x * y) >> np.array(drop, wide)).astype(UNSIGNED[32])
        if saturate and third is not None:
            total = p.view(np.int32).astype(np.int64) + as_array(third(r)).astype(np.int64)
            p = np.clip(total, -(1 << 31), (1 << 31) - 1).astype(np.int32)
            write(r, p)
            return
        write(r, p if third is None else p + as_type(as_array(third(r)), UNSIGNED[32]))

    return step


def quotient(kind: PtxType) -> Binary:
    """Truncated division; by zero it gives all ones, a value that PTX leaves open."""
    dtype = unsigned(kind)

    def divide(a: Lanes, b: Lanes) -> Lanes:
        x, y = _magnitude(a, kind), _magnitude(b, kind)
        q = x // np.where(y == 0, dtype.type(1), y)
        if kind.kind == "s":
            q = np.where((a < 0) != (b < 0), dtype.type(0) - q, q)
        return np.where(b == 0, ~dtype.type(0), q)

    return divide


def remainder(kind: PtxType) -> Binary:
    """The remainder of truncated division; by zero it gives all ones, which PTX leaves open."""
    dtype = unsigned(kind)

    def rest(a: Lanes, b: Lanes) -> Lanes:
        x, y = _magnitude(a, kind), _magnitude(b, kind)
        m = x % np.where(y == 0, dtype.type(1), y)
        if kind.kind == "s":
            m = np.where(a < 0, dtype.type(0) - m, m)
        return np.where(b == 0, ~dtype.type(0), m)

    return rest


def _magnitude(a: Lanes, kind: PtxType) -> Lanes:
    dtype = unsigned(kind)
    bits = as_type(a, dtype)
    return np.where(a < 0, dtype.type(0) - bits, bits) if kind.kind == "s" else bits


@instruction("rem")
def _rem(b: Build) -> Step:
    kind = b.type("u16 u32 u64 s16 s32 s64")
    return binary(b, kind, remainder(kind))


@instruction("sad")
def _sad(b: Build) -> Step:
    kind = b.type("u16 u32 u64 s16 s32 s64")
    b.count(4)
    write = b.write(0, kind)
    reads = [b.read(i, kind) for i in (1, 2, 3)]
    dtype = unsigned(kind)

    def step(r: Batch) -> None:
        x, y, z = (as_array(read(r)) for read in reads)
        xu, yu = as_type(x, dtype), as_type(y, dtype)
        write(r, as_type(z, dtype) + np.where(x < y, yu - xu, xu - yu))

    return step


def absolute(b: Build) -> Step:
    """`abs` on integers; the most negative value stays."""
    kind = b.type("s16 s32 s64")
    return unary(b, kind, lambda a: np.where(a < 0, -a, a))


def negate(b: Build) -> Step:
    """`neg` on integers."""
    return unary(b, b.type("s16 s32 s64"), lambda a: -a)


def extreme(b: Build, op: Binary) -> Step:
    """`min` and `max` on integers, `.relu` for signed, packed halves too."""
    relu = b.flag("relu")
    signed = "s32 s16x2" if relu else "u16 u32 u64 u16x2 s16x2 s16 s32 s64"
    kind = b.type(signed)
    lane = {"u16x2": "u2", "s16x2": "i2"}.get(kind.name)

    def clipped(x: Lanes, y: Lanes) -> Lanes:
        value = op(x, y)
        return np.maximum(value, value.dtype.type(0)) if relu else value

    return binary(b, kind, _halfwise(clipped, lane) if lane else clipped)


@instruction("dp4a", "dp2a")
def _dot(b: Build) -> Step:
    four = b.ins.opcode == "dp4a"
    high = not four and b.need("lo", "hi") == "hi"
    first, second = b.type("u32 s32"), b.type("u32 s32")
    b.count(4)
    total = S32 if "s" in (first.kind, second.kind) else TYPES["u32"]
    write, x, y, z = b.write(0, total), b.read(1, first), b.read(2, second), b.read(3, total)

    def parts(value: Lanes, kind: PtxType, size: int) -> Lanes:
        letter = "i" if kind.kind == "s" else "u"
        return np.atleast_1d(value).view(f"{letter}{size}").reshape(-1, 4 // size).astype(np.int64)

    def step(r: Batch) -> None:
        left = parts(as_array(x(r)), first, 1 if four else 2)
        right = parts(as_array(y(r)), second, 1)
        if not four:
            right = right[:, 2:] if high else right[:, :2]
        products = (left * right).sum(axis=1)
        write(r, (products + as_array(z(r)).astype(np.int64)).astype(np.uint32))

    return step
