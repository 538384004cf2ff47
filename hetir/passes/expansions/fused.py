"""fma of f64 by integers of 128 bits, for targets whose own is not fused."""

from __future__ import annotations

from typing import NamedTuple

from hetir.ir.core import Operation, Value
from hetir.ir.types import F64, I64, U64
from hetir.passes.expansions.table import Writer, expansion

_FRACTION = 52
_INFINITY = 0x7FF << _FRACTION
_MAGNITUDE = (1 << 63) - 1


class _Wide(NamedTuple):
    """An unsigned integer of 128 bits."""

    high: Value
    low: Value


class _Number(NamedTuple):
    """A finite number, not zero: significand (bit 52 is set) * 2^exponent; `sign` is bit 63."""

    sign: Value
    significand: Value
    exponent: Value


@expansion("fma", "f64")
def _fma(w: Writer, op: Operation) -> Value:
    """The exact product plus the addend, rounded once.

    Where an operand is zero, infinite or NaN nothing is lost on the way, but that a product of
    finite numbers must neither overflow beside an infinite addend nor lose its sign beside 0.
    """
    a, b, c = op.operands
    zero, infinity = w.const(F64, 0), w.const(F64, float("inf"))
    product = w("mul", a, b)
    finite = w("and", *(w("lt", w("abs", v), infinity) for v in (a, b)))
    some = w("and", finite, w("and", w("ne", a, zero), w("ne", b, zero)))
    ends = w("lt", w("abs", c), infinity)
    plain = w("select", w("and", some, w("eq", c, zero)), product, w("add", product, c))
    plain = w("select", w("and", finite, w("not", ends)), c, plain)
    regular = w("and", w("and", some, ends), w("ne", c, zero))
    return w("select", regular, w.bits(_exact(w, a, b, c), F64), plain)


def _exact(w: Writer, a: Value, b: Value, c: Value) -> Value:
    """The bits of a * b + c for finite operands that are not zero."""
    x, y, z = (_taken_apart(w, v) for v in (a, b, c))
    # both have their top bit at 124 or 125, so that their sum fits
    low, high = w("mul", x.significand, y.significand), w("mul_hi", x.significand, y.significand)
    product = _left(w, _Wide(high, low), w.const(U64, 20))
    addend = _Wide(w("shl", z.significand, w.const(U64, 8)), w.const(U64, 0))
    scale = w("sub", w("add", x.exponent, y.exponent), w.const(I64, 20))
    own = w("sub", z.exponent, w.const(I64, 72))
    above = w("sub", scale, own)
    none = w.const(I64, 0)
    product = _right(w, product, w("max", w("neg", above), none))
    addend = _right(w, addend, w("max", above, none))
    sign = w("xor", x.sign, y.sign)
    total, flipped = _combined(w, product, addend, w("ne", sign, z.sign))
    sign = w("xor", sign, w("select", flipped, w.raw(U64, 1 << 63), w.const(U64, 0)))
    return _rounded(w, total, w("max", scale, own), sign)


def _taken_apart(w: Writer, value: Value) -> _Number:
    bits = w.bits(value, U64)
    magnitude = w("and", bits, w.raw(U64, _MAGNITUDE))
    raw = w.cast(w("shr", magnitude, w.const(U64, _FRACTION)), I64)
    fraction = w("and", magnitude, w.const(U64, (1 << _FRACTION) - 1))
    normal = w("ne", raw, w.const(I64, 0))
    hidden = w("shl", w.cast(normal, U64), w.const(U64, _FRACTION))
    whole = w("or", fraction, hidden)
    shift = w("sub", w("clz", whole), w.const(U64, 63 - _FRACTION))
    exponent = w("sub", w("max", raw, w.const(I64, 1)), w.const(I64, 1023 + _FRACTION))
    exponent = w("sub", exponent, w.cast(shift, I64))
    return _Number(w("xor", bits, magnitude), w("shl", whole, shift), exponent)


def _left(w: Writer, value: _Wide, count: Value) -> _Wide:
    """Shifted left by 0 to 127."""
    far = w("ge", count, w.const(U64, 64))
    # a shift by 64 - n for n = 0 would be one by 0: halve it first
    back = w("sub", w.const(U64, 63), w("and", count, w.const(U64, 63)))
    carried = w("shr", w("shr", value.low, w.const(U64, 1)), back)
    near = w("or", w("shl", value.high, count), carried)
    moved = w("shl", value.low, count)
    return _Wide(w("select", far, moved, near), w("select", far, w.const(U64, 0), moved))


def _right(w: Writer, value: _Wide, count: Value) -> _Wide:
    """Shifted right by any number; what falls off is jammed into the last bit."""
    by = w.cast(w("min", count, w.const(I64, 127)), U64)
    far = w("ge", by, w.const(U64, 64))
    back = w("sub", w.const(U64, 63), w("and", by, w.const(U64, 63)))
    carried = w("shl", w("shl", value.high, w.const(U64, 1)), back)
    low = w("or", w("shr", value.low, by), carried)
    moved = w("shr", value.high, by)
    zero = w.const(U64, 0)
    shifted = _Wide(w("select", far, zero, moved), w("select", far, moved, low))
    again = _left(w, shifted, by)
    lost = w("or", w("ne", again.high, value.high), w("ne", again.low, value.low))
    return _Wide(shifted.high, w("or", shifted.low, w.cast(lost, U64)))


def _combined(w: Writer, a: _Wide, b: _Wide, differ: Value) -> tuple[_Wide, Value]:
    """The sum, or the difference's magnitude and whether b was the larger."""
    low = w("add", a.low, b.low)
    carry = w.cast(w("lt", low, a.low), U64)
    added = _Wide(w("add", w("add", a.high, b.high), carry), low)
    less = w("or", w("lt", a.high, b.high), _both(w, a, b))
    big = _Wide(w("select", less, b.high, a.high), w("select", less, b.low, a.low))
    small = _Wide(w("select", less, a.high, b.high), w("select", less, a.low, b.low))
    borrow = w.cast(w("lt", big.low, small.low), U64)
    high = w("sub", w("sub", big.high, small.high), borrow)
    taken = _Wide(high, w("sub", big.low, small.low))
    total = _Wide(
        w("select", differ, taken.high, added.high), w("select", differ, taken.low, added.low)
    )
    return total, w("and", differ, less)


def _both(w: Writer, a: _Wide, b: _Wide) -> Value:
    """Whether the high halves are equal and a's low half is the lesser."""
    return w("and", w("eq", a.high, b.high), w("lt", a.low, b.low))


def _rounded(w: Writer, value: _Wide, scale: Value, sign: Value) -> Value:
    """The bits of value * 2^scale, to nearest even; an exact zero is +0."""
    zero, none = w.const(U64, 0), w.const(I64, 0)
    empty = w("eq", value.high, zero)
    lead = w("add", w("clz", w("select", empty, value.low, value.high)), _if(w, empty, 64))
    lead = w("min", lead, w.const(U64, 127))
    top = _left(w, value, lead)
    biased = w("sub", w("add", scale, w.const(I64, 127 + 1023)), w.cast(lead, I64))
    below = w("max", w("sub", w.const(I64, 1), biased), none)
    top = _right(w, top, below)
    kept = w("shr", top.high, w.const(U64, 11))
    rest = w("and", top.high, w.const(U64, 0x7FF))
    rest = w("or", rest, w.cast(w("ne", top.low, zero), U64))
    odd = w("and", kept, w.const(U64, 1))
    up = w("gt", w("add", rest, odd), w.const(U64, 0x400))
    kept = w("add", kept, w.cast(up, U64))
    field = w.cast(w("sub", w("max", biased, w.const(I64, 1)), w.const(I64, 1)), U64)
    bits = w("add", w("shl", field, w.const(U64, _FRACTION)), kept)
    infinity = w.raw(U64, _INFINITY)
    bits = w("select", w("ge", biased, w.const(I64, 2047)), infinity, bits)
    nothing = w("and", empty, w("eq", value.low, zero))
    return w("select", nothing, zero, w("or", bits, sign))


def _if(w: Writer, cond: Value, number: int) -> Value:
    return w("select", cond, w.const(U64, number), w.const(U64, 0))
