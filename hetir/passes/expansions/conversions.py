"""Conversions from and to f16, bf16 and the f8 formats by integer sequences, rounded once."""

from __future__ import annotations

from dataclasses import dataclass

from hetir.ir.core import Operation, Value
from hetir.ir.types import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    SCALARS,
    U8,
    U16,
    U32,
    Scalar,
)
from hetir.passes.expansions.table import EXPANSIONS, Writer, scalar

_INF32 = 0x7F800000


@dataclass(frozen=True, slots=True)
class _Narrow:
    """A narrow format: exponent bias, fraction bits, NaN; `largest` when it saturates."""

    uint: Scalar
    bias: int
    fraction: int
    nan: int
    largest: float | None = None

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.uint.bits - 1)


_FORMATS = {
    F16: _Narrow(U16, 15, 10, 0x7E00),
    F8E4M3: _Narrow(U8, 7, 3, 0x7F, 448.0),
    F8E5M2: _Narrow(U8, 15, 2, 0x7E, 57344.0),
}


# ---- to f32, exactly ---------------------------------------------------------------------


def _widen(w: Writer, op: Operation) -> Value:
    """Shift the fields into place and scale by a power of two, which normalises subnormals."""
    (x,) = op.operands
    form = _FORMATS[scalar(x)]
    code = w.cast(w.bits(x, form.uint), U32)
    magnitude = w("and", code, w.const(U32, form.sign - 1))
    small = w.bits(w("shl", magnitude, w.const(U32, 23 - form.fraction)), F32)
    scaled = w.bits(w("mul", small, w.const(F32, 2.0 ** (127 - form.bias))), U32)
    special = w("ge", magnitude, w.const(U32, form.nan if scalar(x) == F8E4M3 else _top(form)))
    filled = w("or", scaled, w.const(U32, 0x7FC00000 if scalar(x) == F8E4M3 else _INF32))
    bits = w("select", special, filled, scaled)
    sign = w("shl", w("and", code, w.const(U32, form.sign)), w.const(U32, 32 - form.uint.bits))
    return w.bits(w("or", bits, sign), F32)


def _top(form: _Narrow) -> int:
    """The least code of infinity and NaN."""
    return (form.sign - 1) >> form.fraction << form.fraction


def _widen_bf16(w: Writer, op: Operation) -> Value:
    code = w.cast(w.bits(op.operands[0], U16), U32)
    return w.bits(w("shl", code, w.const(U32, 16)), F32)


# ---- from f32, rounded to nearest even ---------------------------------------------------


def _narrow(w: Writer, op: Operation) -> Value:
    (x,) = op.operands
    to = op.result.type
    assert isinstance(to, Scalar)
    form = _FORMATS[to]
    bits = w.bits(x, U32)
    magnitude = w("and", bits, w.const(U32, 0x7FFFFFFF))
    nan = w("gt", magnitude, w.const(U32, _INF32))
    if form.largest is not None:
        largest = w.bits(w.const(F32, form.largest), U32)
        magnitude = w("min", magnitude, largest)
    code = _round(w, magnitude, form)
    if form.largest is None:
        over = w("ge", magnitude, w.const(U32, (127 + form.bias + 1) << 23))
        code = w("select", over, w.const(U32, _top(form)), code)
    code = w("select", nan, w.const(U32, form.nan), code)
    sign = w("and", w("shr", bits, w.const(U32, 32 - form.uint.bits)), w.const(U32, form.sign))
    return w.bits(w.cast(w("or", code, sign), form.uint), to)


def _round(w: Writer, magnitude: Value, form: _Narrow) -> Value:
    """The code of a magnitude below the overflow threshold."""
    drop = 23 - form.fraction
    last = w("and", w("shr", magnitude, w.const(U32, drop)), w.const(U32, 1))
    half = w.const(U32, (1 << (drop - 1)) - 1)
    rounded = w("shr", w("add", w("add", magnitude, half), last), w.const(U32, drop))
    normal = w("sub", rounded, w.const(U32, (127 - form.bias) << form.fraction))
    # adding 2^23 quanta of the subnormals makes f32's own addition round to a quantum
    magic = (127 + 1 - form.bias - form.fraction + 23) << 23
    shifted = w("add", w.bits(magnitude, F32), w.raw(F32, magic))
    subnormal = w("sub", w.bits(shifted, U32), w.const(U32, magic))
    small = w("lt", magnitude, w.const(U32, (127 + 1 - form.bias) << 23))
    return w("select", small, subnormal, normal)


def _narrow_bf16(w: Writer, op: Operation) -> Value:
    """Cut f32 in half; a NaN's bits are the canonical ones, which survive the carry."""
    bits = w.bits(op.operands[0], U32)
    last = w("and", w("shr", bits, w.const(U32, 16)), w.const(U32, 1))
    rounded = w("add", w("add", bits, w.const(U32, 0x7FFF)), last)
    return w.bits(w.cast(w("shr", rounded, w.const(U32, 16)), U16), BF16)


# ---- the rest, by way of f32 -------------------------------------------------------------


def f64_to_f32_odd(w: Writer, x: Value) -> Value:
    """Rounded to odd: towards zero, then the last bit set unless exact."""
    near = w.cast(x, F32)
    back = w.cast(near, F64)
    away = w("gt", w("abs", back), w("abs", x))
    cut = w("sub", w.bits(near, U32), w.cast(away, U32))
    return w.bits(w("or", cut, w.cast(w("ne", back, x), U32)), F32)


def _int_to_f32_odd(w: Writer, x: Value) -> Value:
    """The top 24 bits of the magnitude, what follows jammed into the last, then scaled."""
    kind = scalar(x)
    wide = SCALARS[f"u{kind.bits}"]
    size = w.bits(w("abs", x), wide) if kind.signed else x
    zero, one = w.const(wide, 0), w.const(wide, 1)
    excess = w("sub", w.const(wide, kind.bits - 24), w("clz", size))
    long = w("and", w("ne", size, zero), w("ge", size, w.const(wide, 1 << 24)))
    drop = w("select", long, excess, zero)
    lost = w("and", size, w("sub", w("shl", one, drop), one))
    top = w("or", w("shr", size, drop), w.cast(w("ne", lost, zero), wide))
    exponent = w("shl", w("add", w.cast(drop, U32), w.const(U32, 127)), w.const(U32, 23))
    value = w("mul", w.cast(top, F32), w.bits(exponent, F32))
    if not kind.signed:
        return value
    return w("select", w("lt", x, w.like(x, 0)), w("neg", value), value)


def _int_to_f32_clamped(w: Writer, x: Value) -> Value:
    """Beyond 2^17 every narrow format but bf16 overflows: clamp where f32 is exact."""
    limit = 1 << 17
    clamped = w("min", x, w.like(x, limit))
    if scalar(x).signed:
        clamped = w("max", clamped, w.like(x, -limit))
    return w.cast(clamped, F32)


def _to_narrow(w: Writer, op: Operation) -> Value:
    """From any type but f32: a value of f32 that the last rounding cannot tell from it."""
    (x,) = op.operands
    kind, to = scalar(x), op.result.type
    assert isinstance(to, Scalar)
    if kind == F64:
        middle = f64_to_f32_odd(w, x)
    elif kind.is_int and kind.bits > 16:
        middle = _int_to_f32_odd(w, x) if to == BF16 else _int_to_f32_clamped(w, x)
    else:
        middle = w.cast(x, F32)
    return w.cast(middle, to)


def _from_narrow(w: Writer, op: Operation) -> Value:
    to = op.result.type
    assert isinstance(to, Scalar)
    return w.cast(w.cast(op.operands[0], F32), to)


def _enter() -> None:
    narrow = (F16, BF16, F8E4M3, F8E5M2)
    for a in SCALARS.values():
        for b in narrow:
            if a != b and a != F32:
                EXPANSIONS["cast", a.name, b.name] = _to_narrow
    for a in narrow:
        for b in SCALARS.values():
            if a != b and b not in narrow and b != F32:
                EXPANSIONS["cast", a.name, b.name] = _from_narrow
        EXPANSIONS["cast", a.name, "f32"] = _widen_bf16 if a == BF16 else _widen
        EXPANSIONS["cast", "f32", a.name] = _narrow_bf16 if a == BF16 else _narrow


_enter()
