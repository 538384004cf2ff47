"""Floating-point instructions: arithmetic, approximations, minimum and maximum, signs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hetir.emulator.ptx.batch import Batch
from hetir.emulator.ptx.build import Build, Reader, Step, Writer, instruction
from hetir.emulator.ptx.ieee import Op, arithmetic, finished, flush
from hetir.emulator.ptx.integers import (
    absolute,
    add_sub,
    as_array,
    extreme,
    multiply,
    multiply_add,
    negate,
    quotient,
)
from hetir.emulator.ptx.integers import binary as integer_binary
from hetir.emulator.ptx.rounding import FORMATS, round_to
from hetir.emulator.ptx.types import TYPES, UNSIGNED, Lanes, PtxType, as_type

_MODES = ("rn", "rz", "rm", "rp")


def element(kind: PtxType) -> PtxType:
    """The scalar type of a packed type; a scalar type is its own."""
    return TYPES[kind.lane] if kind.lane else kind


def read_elements(b: Build, at: int, kind: PtxType) -> Reader:
    """A reader of scalars; of a packed type, all its parts in one array."""
    read = b.read(at, kind)
    if not kind.lane:
        return lambda r: as_array(read(r))
    dtype = element(kind).dtype

    def parts(r: Batch) -> Lanes:
        value = as_array(read(r))
        whole = value if value.ndim else np.full(r.count, value)
        return whole.view(dtype)

    return parts


def write_elements(b: Build, at: int, kind: PtxType) -> Writer:
    """A writer of scalars, or of all parts of a packed type."""
    write = b.write(at, kind)
    if not kind.lane:
        return write
    return lambda r, value: write(r, np.ascontiguousarray(value).view(kind.dtype))


_ARITHMETIC = {
    "add": ("f32 f64 f16 f16x2 bf16 bf16x2 f32x2", 2),
    "sub": ("f32 f64 f16 f16x2 bf16 bf16x2 f32x2", 2),
    "mul": ("f32 f64 f16 f16x2 bf16 bf16x2 f32x2", 2),
    "div": ("f32 f64", 2),
    "fma": ("f32 f64 f16 f16x2 bf16 bf16x2 f32x2", 3),
    "mad": ("f32 f64", 3),
    "sqrt": ("f32 f64", 1),
}


def _rounded(b: Build) -> Step:
    opcode = b.ins.opcode
    names, operands = _ARITHMETIC[opcode]
    wanted = opcode in {"fma", "mad", "div", "sqrt"}
    mode = b.need(*_MODES) if wanted else b.choose(*_MODES)
    ftz, sat, relu = b.flag("ftz"), b.flag("sat"), opcode == "fma" and b.flag("relu")
    kind = b.type(names)
    scalar = element(kind)
    _check_modifiers(b, scalar.name, mode, ftz, sat, relu)
    op = arithmetic(scalar.name, "fma" if opcode == "mad" else opcode, mode or "rn")
    if kind.name == "f32" and opcode in {"add", "sub", "fma"} and not ftz:
        mixed = b.choose("f16", "bf16")
        if mixed:
            return _mixed(b, TYPES[mixed], kind, finished(op, "f32", ftz=False, sat=sat))
    return lanewise(b, kind, finished(op, scalar.name, ftz=ftz, sat=sat, relu=relu), operands)


def _mixed(b: Build, narrow: PtxType, kind: PtxType, op: Op) -> Step:
    """All but the last operand are halves, widened exactly."""
    b.count(4 if b.ins.opcode == "fma" else 3)
    last = len(b.ins.operands) - 1
    write, wide = b.write(0, kind), b.read(last, kind)
    halves = [b.read(i, narrow) for i in range(1, last)]

    def step(r: Batch) -> None:
        widened = [as_array(read(r)).astype(np.float32) for read in halves]
        write(r, op(*widened, as_array(wide(r))))

    return step


def _check_modifiers(b: Build, name: str, mode: str, ftz: bool, sat: bool, relu: bool) -> None:
    narrow = name in {"f16", "bf16"}
    if (ftz or sat) and name in {"f64", "bf16"}:
        raise b.unknown("ftz" if ftz else "sat")
    if narrow and mode not in {"", "rn"}:
        raise b.unknown(mode)
    if relu and (sat or not narrow):
        raise b.unknown("relu")


def lanewise(b: Build, kind: PtxType, op: Op, operands: int) -> Step:
    """d = op(a, ...) on scalars, or on each part of a packed type."""
    b.count(operands + 1)
    write = write_elements(b, 0, kind)
    reads = [read_elements(b, i + 1, kind) for i in range(operands)]
    if operands == 1:
        one = reads[0]
        return lambda r: write(r, op(one(r)))
    if operands == 2:
        first, second = reads
        return lambda r: write(r, op(first(r), second(r)))
    return lambda r: write(r, op(*(read(r) for read in reads)))


def is_float(b: Build) -> bool:
    """Whether the instruction's first type is a floating-point type."""
    for name in b.left:
        if name in TYPES:
            return TYPES[name].kind == "f"
    return False


@instruction("add", "sub")
def _add(b: Build) -> Step:
    if is_float(b):
        return _rounded(b)
    return add_sub(b, np.add if b.ins.opcode == "add" else np.subtract)


@instruction("mul")
def _mul(b: Build) -> Step:
    return _rounded(b) if is_float(b) else multiply(b)


@instruction("mad")
def _mad(b: Build) -> Step:
    return _rounded(b) if is_float(b) else multiply_add(b)


@instruction("fma")
def _fma(b: Build) -> Step:
    return _rounded(b)


@instruction("div")
def _div(b: Build) -> Step:
    if not is_float(b):
        kind = b.type("u16 u32 u64 s16 s32 s64")
        return integer_binary(b, kind, quotient(kind))
    about = b.choose("approx", "full")
    if not about:
        return _rounded(b)
    ftz = b.flag("ftz")
    op: Op = _approximate_quotient if about == "approx" else np.divide
    return lanewise(b, b.type("f32"), finished(op, "f32", ftz=ftz, sat=False), 2)


def _approximate_quotient(a: Lanes, b: Lanes) -> Lanes:
    """`div.approx`: for a divisor beyond 2^126 the quotient is 0, or NaN from an infinity."""
    q = np.divide(a, b)
    beyond = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b)
    zero = np.copysign(np.float32(0), q)
    return np.where(beyond, np.where(np.isinf(a), np.float32(np.nan), zero), q)


@instruction("sqrt")
def _sqrt(b: Build) -> Step:
    if not b.flag("approx"):
        return _rounded(b)
    ftz = b.flag("ftz")
    return lanewise(b, b.type("f32"), finished(np.sqrt, "f32", ftz=ftz, sat=False), 1)


@instruction("rcp")
def _rcp(b: Build) -> Step:
    if b.flag("approx"):
        ftz = b.flag("ftz")
        kind = b.type("f64 f32" if ftz else "f32")
        if kind.name == "f64":
            return lanewise(b, kind, _short_inverse, 1)
        return lanewise(b, kind, finished(_inverse, "f32", ftz=ftz, sat=False), 1)
    mode = b.need(*_MODES)
    ftz = b.flag("ftz")
    kind = b.type("f32" if ftz else "f32 f64")
    divide = arithmetic(kind.name, "div", mode)

    def inverse(a: Lanes) -> Lanes:
        return divide(np.ones_like(a), a)

    return lanewise(b, kind, finished(inverse, kind.name, ftz=ftz, sat=False), 1)


def _inverse(a: Lanes) -> Lanes:
    return a.dtype.type(1) / a


def _short(a: Lanes) -> Lanes:
    """The upper 32 bits of binary64, subnormals flushed: all that `.approx.ftz.f64` looks at."""
    bits = a.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)
    return np.where(a != a, a, flush(bits.view(np.float64), "f64"))


def _short_inverse(a: Lanes) -> Lanes:
    return _short(1.0 / _short(a))


def _short_inverse_root(a: Lanes) -> Lanes:
    return _short(1.0 / np.sqrt(_short(a)))


@instruction("rsqrt")
def _rsqrt(b: Build) -> Step:
    b.need("approx")
    ftz = b.flag("ftz")
    kind = b.type("f32 f64")
    if kind.name == "f64":
        return lanewise(b, kind, _short_inverse_root if ftz else _inverse_root, 1)
    return lanewise(b, kind, finished(_inverse_root, "f32", ftz=ftz, sat=False), 1)


def _inverse_root(a: Lanes) -> Lanes:
    return (1.0 / np.sqrt(a.astype(np.float64))).astype(a.dtype)


_APPROXIMATE: dict[str, tuple[str, Op]] = {
    "sin": ("f32", np.sin),
    "cos": ("f32", np.cos),
    "lg2": ("f32", np.log2),
    "ex2": ("f32 f16 f16x2 bf16 bf16x2", np.exp2),
    "tanh": ("f32 f16 f16x2 bf16 bf16x2", np.tanh),
}
"""Computed in binary64 and rounded: inside every bound that PTX states, not the device's bits."""


@instruction("sin", "cos", "lg2", "ex2", "tanh")
def _transcendental(b: Build) -> Step:
    names, op = _APPROXIMATE[b.ins.opcode]
    b.need("approx")
    ftz = b.ins.opcode != "tanh" and b.flag("ftz")
    kind = b.type(names)
    scalar = element(kind)
    if b.ins.opcode == "ex2" and scalar.bits == 16 and ftz != (scalar.name == "bf16"):
        raise b.wrong(".ftz goes with .bf16, and only there" if ftz else ".ftz is missing")

    def wide(a: Lanes) -> Lanes:
        value = op(a.astype(np.float64))
        return round_to(value, scalar.name).astype(scalar.dtype)

    return lanewise(b, kind, finished(wide, scalar.name, ftz=ftz, sat=False), 1)


@instruction("min", "max")
def _extreme(b: Build) -> Step:
    least = b.ins.opcode == "min"
    if not is_float(b):
        return extreme(b, np.minimum if least else np.maximum)
    ftz, propagates = b.flag("ftz"), b.flag("NaN")
    xor_signs = b.flag("xorsign")
    if xor_signs and not b.flag("abs"):
        raise b.wrong(".xorsign goes with .abs")
    names = "f32 f16 f16x2 bf16 bf16x2" if propagates or xor_signs else (
        "f32 f64 f16 f16x2 bf16 bf16x2"
    )  # fmt: skip
    kind = b.type(names)
    scalar = element(kind)
    if ftz and scalar.name not in {"f32", "f16"}:
        raise b.unknown("ftz")
    count = b.count(3, 4) if scalar.name == "f32" else b.count(3)

    def pick(*operands: Lanes) -> Lanes:
        value = _chosen(operands[0], operands[1], least, propagates, xor_signs)
        if len(operands) == 3:
            value = _chosen(value, operands[2], least, propagates, xor_signs)
        return value

    return lanewise(b, kind, finished(pick, scalar.name, ftz=ftz, sat=False), count - 1)


def _chosen(a: Lanes, b: Lanes, least: bool, propagates: bool, xor_signs: bool) -> Lanes:
    """The smaller or larger, -0 below +0; one NaN gives the other value, or NaN."""
    flip = np.signbit(a) != np.signbit(b)
    if xor_signs:
        a, b = np.abs(a), np.abs(b)
    first = (a < b) | ((a == b) & np.signbit(a)) if least else (a > b) | ((a == b) & ~np.signbit(a))
    either = np.where(first, a, b)
    a_nan, b_nan = a != a, b != b
    if propagates:
        out = np.where(a_nan | b_nan, a.dtype.type(np.nan), either)
    else:
        out = np.where(a_nan, b, np.where(b_nan, a, either))
    if not xor_signs:
        return out
    return np.where(flip & (out == out), -out, out)


@instruction("abs", "neg")
def _sign(b: Build) -> Step:
    clears = b.ins.opcode == "abs"
    if not is_float(b):
        return absolute(b) if clears else negate(b)
    ftz = b.flag("ftz")
    kind = b.type("f32 f16 f16x2" if ftz else "f32 f64 f16 f16x2 bf16 bf16x2 f32x2")
    scalar = element(kind)
    bit = UNSIGNED[scalar.bits].type(1 << (scalar.bits - 1))

    def change(a: Lanes) -> Lanes:
        bits = as_type(flush(a, scalar.name) if ftz else a, UNSIGNED[scalar.bits])
        return (bits & ~bit if clears else bits ^ bit).view(scalar.dtype)

    return lanewise(b, kind, change, 1)


@instruction("copysign")
def _copysign(b: Build) -> Step:
    kind = b.type("f32 f64")
    bits = UNSIGNED[kind.bits]
    top = bits.type(1 << (kind.bits - 1))

    def copy(a: Lanes, magnitude: Lanes) -> Lanes:
        return (a.view(bits) & top) | (magnitude.view(bits) & ~top)

    return lanewise(b, kind, copy, 2)


_TESTS: dict[str, Callable[[Lanes, Any], Lanes]] = {
    "finite": lambda a, least: np.isfinite(a),
    "infinite": lambda a, least: np.isinf(a),
    "number": lambda a, least: a == a,
    "notanumber": lambda a, least: a != a,
    "normal": lambda a, least: np.isfinite(a) & (np.abs(a) >= least),
    "subnormal": lambda a, least: (a != 0) & (np.abs(a) < least),
}


@instruction("testp")
def _test(b: Build) -> Step:
    test = _TESTS[b.need(*_TESTS)]
    kind = b.type("f32 f64")
    b.count(2)
    write, read = b.write(0, TYPES["pred"]), b.read(1, kind)
    least = kind.dtype.type(2.0 ** FORMATS[kind.name].emin)
    return lambda r: write(r, test(as_array(read(r)), least))
