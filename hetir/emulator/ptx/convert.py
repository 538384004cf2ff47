"""`cvt`: between integers and floating point of every width, `cvta`, and moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from hetir.emulator.ptx.batch import Batch
from hetir.emulator.ptx.build import Build, Reader, Step, instruction
from hetir.emulator.ptx.ieee import canonical, clamp01, flush
from hetir.emulator.ptx.integers import as_array
from hetir.emulator.ptx.rounding import FORMATS, TO_INTEGER, round_to, split_integer, to_odd
from hetir.emulator.ptx.spaces import WINDOW_BITS, WINDOWS, window
from hetir.emulator.ptx.syntax import Vector
from hetir.emulator.ptx.types import B32, PRED, TYPES, UNSIGNED, Lanes, PtxType

_WHOLE = ("rni", "rzi", "rmi", "rpi")
_MODES = ("rn", "rz", "rm", "rp", "rna")
_EIGHTHS: dict[str, np.dtype[Any]] = {
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
_SCALARS = "u8 u16 u32 u64 s8 s16 s32 s64 f16 bf16 f32 f64 tf32"


@instruction("cvt")
def _cvt(b: Build) -> Step:
    if b.flag("pack"):
        return _pack(b)
    whole, mode = b.choose(*_WHOLE), b.choose(*_MODES)
    ftz, sat = b.flag("ftz"), b.flag("sat")
    relu, finite = b.flag("relu"), b.flag("satfinite")
    target = b.type()
    if target.lane in _EIGHTHS:
        return _to_eighths(b, target, mode, relu, finite)
    source = b.type()
    if source.lane in _EIGHTHS:
        return _from_eighths(b, target, source, mode, relu)
    if target.lane:
        return _pair(b, target, source, mode, relu, finite)
    b.count(2)
    _check(b, target, source, whole, mode)
    _check_flags(b, target, source, ftz, sat)
    if (relu or finite) and (source.name != "f32" or target.name not in {"f16", "bf16", "tf32"}):
        raise b.unknown("relu" if relu else "satfinite")
    narrow = _converter(b, target, source, whole, mode, (ftz, sat, relu, finite))
    read = b.read(1, source, wide=True)
    write = b.write(0, target, wide=True)
    return lambda r: write(r, narrow(as_array(read(r))))


def _check(b: Build, target: PtxType, source: PtxType, whole: str, mode: str) -> None:
    """Whether a rounding modifier is there where the conversion is inexact, and only there."""
    for kind in (target, source):
        if kind.name not in _SCALARS.split():
            raise b.unknown(kind.name)
    to_float, from_float = target.kind == "f", source.kind == "f"
    if not to_float:
        if mode:
            raise b.unknown(mode)
        if from_float != bool(whole):
            raise b.unknown(whole) if whole else b.wrong("a rounding modifier is missing")
        return
    if whole and target.name != source.name:
        raise b.unknown(whole)
    inexact = not from_float or not _holds(target.name, source.name)
    if inexact and not mode:
        raise b.wrong("a rounding modifier is missing")
    if mode and not inexact and not (source.name == "bf16" and target.bits > 16):
        # a rounding of what is exact already: PTX allows it from bf16 only
        raise b.unknown(mode)


def _check_flags(b: Build, target: PtxType, source: PtxType, ftz: bool, sat: bool) -> None:
    names = {target.name, source.name}
    if "bf16" in names and (8 in (target.bits, source.bits) or sat):
        raise b.wrong(f"there is no such conversion .{target.name}.{source.name}")
    if ftz and ("f32" not in names or (source.kind != "f" and target.kind != "f")):
        raise b.unknown("ftz")
    if sat and target.kind != "f" and source.kind != "f":
        have, want = np.iinfo(source.dtype), np.iinfo(target.dtype)
        if want.min <= have.min and have.max <= want.max:
            raise b.unknown("sat")


def _holds(wide: str, narrow: str) -> bool:
    """Whether every value of one format is one of another."""
    w, n = FORMATS[wide], FORMATS[narrow]
    return w.precision >= n.precision and w.emin <= n.emin and w.largest >= n.largest


def _converter(
    b: Build, target: PtxType, source: PtxType, whole: str, mode: str,
    flags: tuple[bool, bool, bool, bool],
) -> Callable[[Lanes], Lanes]:  # fmt: skip
    ftz, sat, relu, finite = flags
    if target.kind != "f":
        if source.kind != "f":
            return _integer(target, source, sat)
        name = source.name if ftz else ""
        return lambda a: _to_integer(flush(a, name) if name else a, target, source, whole)
    if source.kind != "f":
        return lambda a: _from_integer(a, target, mode, sat)

    def convert(a: Lanes) -> Lanes:
        value = flush(a, source.name) if ftz and source.name == "f32" else a
        if whole:
            out = TO_INTEGER[whole[:2]](value)
        else:
            out = to_float(value, target, mode or "rn", finite)
        if ftz and target.name == "f32":
            out = flush(out, "f32")
        if sat:
            out = clamp01(out)
        if relu:
            out = np.where((out > 0) | (out != out), out, out.dtype.type(0))
        # a conversion that does not round (a copy of the same type) keeps a NaN's bits
        same = target.name == source.name and not (whole or sat or ftz)
        return a.copy() if same else canonical(out, "f32" if target.name == "tf32" else target.name)

    return convert


def to_float(a: Lanes, target: PtxType, mode: str, saturate: bool = False) -> Lanes:
    """Floating point to a narrower or wider format, rounded once."""
    if target.name == "f64":
        return a.astype(np.float64)
    if target.name in {"f32", "f16"} and mode == "rn" and not saturate:
        return a.astype(target.dtype)
    return round_to(a.astype(np.float64), target.name, mode, saturate).astype(target.dtype)


def _integer(target: PtxType, source: PtxType, sat: bool) -> Callable[[Lanes], Lanes]:
    if not sat:
        return lambda a: a.astype(target.dtype)
    have, want = np.iinfo(source.dtype), np.iinfo(target.dtype)
    low = source.dtype.type(max(have.min, want.min))
    high = source.dtype.type(min(have.max, want.max))
    return lambda a: np.clip(a, low, high).astype(target.dtype)


def _to_integer(a: Lanes, target: PtxType, source: PtxType, whole: str) -> Lanes:
    """Clamped to the target's range; NaN is 0, or the top bit where a 64-bit type is involved."""
    value = TO_INTEGER[whole[:2]](a.astype(np.float64))
    info = np.iinfo(target.dtype)
    low, high = float(info.min), float(info.max)
    inside = (value >= low) & (value < high)
    exact = np.where(inside, value, 0.0).astype(target.dtype)
    out = np.where(value >= high, target.dtype.type(info.max), exact)
    out = np.where(value < low, target.dtype.type(info.min), out)
    wide = source.bits == 64 or target.bits == 64
    nan = np.array(1 << (target.bits - 1) if wide else 0, UNSIGNED[target.bits])
    return np.where(a != a, nan.view(target.dtype), out)


def _from_integer(a: Lanes, target: PtxType, mode: str, sat: bool) -> Lanes:
    if target.name in {"f32", "f64"} and mode == "rn":
        out = a.astype(target.dtype)
    elif target.name == "f64":
        out = _integer_to_double(a, mode)
    else:
        wide = to_odd(*split_integer(a)) if a.dtype.itemsize == 8 else a.astype(np.float64)
        out = round_to(wide, target.name, mode).astype(target.dtype)
    return clamp01(out) if sat else out


def _integer_to_double(a: Lanes, mode: str) -> Lanes:
    """The nearest value, moved by one unit where it lies on the wrong side."""
    if a.dtype.itemsize < 8:
        return a.astype(np.float64)
    near, error = split_integer(a)
    below = np.where(error < 0, np.nextafter(near, -np.inf), near)
    above = np.where(error > 0, np.nextafter(near, np.inf), near)
    return {"rm": below, "rp": above, "rz": np.where(a < 0, above, below)}[mode]


def _pair(
    b: Build, target: PtxType, source: PtxType, mode: str, relu: bool, finite: bool
) -> Step:  # fmt: skip
    """Two f32 to one packed register: the first operand is the upper half."""
    if source.name != "f32" or target.lane not in {"f16", "bf16"} or mode not in {"rn", "rz"}:
        raise b.wrong(f"there is no conversion .{target.name}.{source.name} of this rounding")
    b.count(3)
    upper, lower = b.read(1, source), b.read(2, source)
    write = b.write(0, target)
    half = TYPES[target.lane]

    def step(r: Batch) -> None:
        out = np.empty((r.count, 2), np.uint16)
        for at, read in ((1, upper), (0, lower)):
            value = to_float(as_array(read(r)), half, mode, finite)
            if relu:
                value = np.where((value > 0) | (value != value), value, half.dtype.type(0))
            out[:, at] = canonical(value, half.name).view(np.uint16)
        write(r, out.view(np.uint32).reshape(-1))

    return step


def _to_eighths(b: Build, target: PtxType, mode: str, relu: bool, finite: bool) -> Step:
    """Two values to two bytes of f8, always rounded to nearest and saturated."""
    if mode != "rn" or not finite:
        raise b.wrong("`.rn.satfinite` is needed")
    source = b.type("f32 f16x2")
    write = b.write(0, target)
    b.count(3 if source.name == "f32" else 2)
    reads = [b.read(i, source) for i in range(1, len(b.ins.operands))]

    def step(r: Batch) -> None:
        out = np.empty((r.count, 2), np.uint8)
        for at, value in enumerate(_halves(r, reads)):
            wide = value.astype(np.float64)
            if relu:
                wide = np.where((wide > 0) | (wide != wide), wide, 0.0)
            byte = round_to(wide, target.lane, "rn", saturate=True)
            byte = np.where(np.isinf(wide), np.copysign(FORMATS[target.lane].largest, wide), byte)
            bits = byte.astype(np.float32).astype(_EIGHTHS[target.lane]).view(np.uint8)
            out[:, at] = np.where(wide != wide, np.uint8(0x7F), bits)
        write(r, out.view(np.uint16).reshape(-1))

    return step


def _halves(r: Batch, reads: list[Reader]) -> tuple[Lanes, Lanes]:
    """The lower and the upper value."""
    if len(reads) == 2:
        return as_array(reads[1](r)), as_array(reads[0](r))
    value = as_array(reads[0](r))
    parts = (value if value.ndim else np.full(r.count, value)).view(np.float16).reshape(-1, 2)
    return parts[:, 0], parts[:, 1]


def _from_eighths(b: Build, target: PtxType, source: PtxType, mode: str, relu: bool) -> Step:
    if target.name != "f16x2" or mode != "rn":
        raise b.wrong("f8 converts to .f16x2 only, with .rn")
    b.count(2)
    write, read = b.write(0, target), b.read(1, source)

    def step(r: Batch) -> None:
        value = as_array(read(r))
        parts = (value if value.ndim else np.full(r.count, value)).view(_EIGHTHS[source.lane])
        out = parts.astype(np.float16)
        if relu:
            out = np.where((out > 0) | (out != out), out, np.float16(0))
        write(r, canonical(out, "f16").view(np.uint32))

    return step


def _pack(b: Build) -> Step:
    """`cvt.pack.sat`: two integers, saturated, into the low bits; the rest comes from c."""
    b.need("sat")
    name = b.need("u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2")
    source = b.type("s32")
    bits = int(name[1:])
    shifts = bits < 16 and b.flag("b32")
    b.count(4 if bits < 16 else 3)
    if bits < 16 and not shifts:
        raise b.wrong("`.b32` is missing")
    low, high = (0, (1 << bits) - 1) if name[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
    write, first, second = b.write(0, B32), b.read(1, source), b.read(2, source)
    rest = b.read(3, B32) if shifts else None
    mask = np.int64((1 << bits) - 1)

    def step(r: Batch) -> None:
        x, y = (np.clip(as_array(v(r)).astype(np.int64), low, high) & mask for v in (first, second))
        out = (x << np.int64(bits) | y).astype(np.uint32)
        if rest is not None:
            out = as_array(rest(r)) << np.uint32(2 * bits) | out
        write(r, out)

    return step


@instruction("mov")
def _mov(b: Build) -> Step:
    kind = b.type("pred b16 b32 b64 b128 u16 u32 u64 s16 s32 s64 f32 f64")
    b.count(2)
    if isinstance(b.operand(0), Vector):
        return _unpack(b, kind)
    if isinstance(b.operand(1), Vector):
        return _gather(b, kind)
    write, read = b.write(0, kind), b.read(1, kind)
    return lambda r: write(r, np.copy(read(r)))


def _part(b: Build, kind: PtxType, count: int) -> PtxType:
    part = TYPES.get(f"b{kind.bits // count}")
    if kind.kind != "b" or count not in {2, 4} or part is None:
        raise b.wrong(f"{count} parts of .{kind.name} are no registers")
    return part


def _unpack(b: Build, kind: PtxType) -> Step:
    items = b.vector(0)
    part = _part(b, kind, len(items))
    read = b.read(1, kind)
    writes = [b.write(item, part) for item in items]

    def step(r: Batch) -> None:
        value = as_array(read(r))
        whole = value if value.ndim else np.full(r.count, value)
        parts = np.ascontiguousarray(whole).view(part.dtype).reshape(-1, len(writes))
        # copied first: a destination may be the source
        for write, column in zip(writes, [c.copy() for c in parts.T], strict=True):
            write(r, column)

    return step


def _gather(b: Build, kind: PtxType) -> Step:
    items = b.vector(1)
    part = _part(b, kind, len(items))
    write = b.write(0, kind)
    reads = [b.read(item, part) for item in items]

    def step(r: Batch) -> None:
        out = np.empty((r.count, len(reads)), part.dtype)
        for at, read in enumerate(reads):
            out[:, at] = read(r)
        write(r, out.view(kind.dtype).reshape(-1))

    return step


@instruction("cvta")
def _cvta(b: Build) -> Step:
    back = b.flag("to")
    space = b.need("global", "shared", "local", "const", "param")
    b.flag("entry")
    kind = b.type("u64 u32")
    b.count(2)
    write, read = b.write(0, kind), b.read(1, kind)
    if kind.bits != 64:
        raise b.wrong("addresses have 64 bits")
    base = np.uint64(window(space))
    if back:
        return lambda r: write(r, as_array(read(r)) - base)
    return lambda r: write(r, as_array(read(r)) + base)


@instruction("isspacep")
def _is_space(b: Build) -> Step:
    space = b.need("global", "shared", "local", "const", "param")
    b.count(2)
    write, read = b.write(0, PRED), b.read(1, TYPES["u64"])
    number = np.uint64(WINDOWS.get(space, 0))

    def step(r: Batch) -> None:
        address = as_array(read(r))
        found = address >> np.uint64(WINDOW_BITS) == number
        if space in {"global", "const"} and np.any(found):
            stores = (r.launch.memory.find(int(a)) for a in np.broadcast_to(address, r.count))
            inside = [s is not None and s.space == space for s in stores]
            found = found & np.array(inside)
        write(r, found)

    return step
