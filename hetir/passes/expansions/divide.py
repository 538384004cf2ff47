"""Division and square root of floats by integers, for targets whose own are not correctly rounded.

Both find their result digit by digit, one bit a step, with the remainder exact: what is left of it
says which way to round (M. D. Ercegovac and T. Lang, Digital Arithmetic, 2004, chapters 5 and 6).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hetir.ir import ops
from hetir.ir.core import Operation, Region, Value
from hetir.ir.types import F32, F64, I32, I64, U32, U64, Scalar
from hetir.passes.expansions.table import Writer, expansion, scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A float format in an unsigned integer: fraction bits, and exponents as a mask."""

    uint: Scalar
    int: Scalar
    fraction: int
    exponents: int

    @property
    def sign(self) -> int:
        """The sign bit."""
        return (self.exponents + 1) << self.fraction

    @property
    def infinity(self) -> int:
        """The bits of infinity."""
        return self.exponents << self.fraction

    @property
    def nan(self) -> int:
        """The bits of a quiet NaN."""
        return self.infinity | 1 << (self.fraction - 1)


FORMATS = {
    F32: Format(uint=U32, int=I32, fraction=23, exponents=0xFF),
    F64: Format(uint=U64, int=I64, fraction=52, exponents=0x7FF),
}


@expansion("div", "f32", "f64")
def _div(w: Writer, op: Operation) -> Value:
    kind = scalar(op.result)
    form = FORMATS[kind]
    a, b = (w.bits(v, form.uint) for v in op.operands)
    return w.bits(quotient(w, form, a, b), kind)


@expansion("sqrt", "f32", "f64")
def _sqrt(w: Writer, op: Operation) -> Value:
    kind = scalar(op.result)
    form = FORMATS[kind]
    return w.bits(root(w, form, w.bits(op.operands[0], form.uint)), kind)


def quotient(w: Writer, form: Format, a: Value, b: Value) -> Value:
    """The bits of a / b, rounded once to nearest even."""
    word, f = form.uint, form.fraction
    sign = w("and", w("xor", a, b), w.raw(word, form.sign))
    a, b = (w("and", v, w.raw(word, form.sign - 1)) for v in (a, b))
    (significand, above), (divisor, below) = (_taken_apart(w, form, v) for v in (a, b))

    def step(w: Writer, carried: tuple[Value, ...]) -> tuple[Value, ...]:
        digits, rest = carried
        fits = w("ge", rest, divisor)
        left = w("select", fits, w("sub", rest, divisor), rest)
        one = w.raw(word, 1)
        return w("or", w("shl", digits, one), w.cast(fits, word)), w("shl", left, one)

    # a bit before the point, the fraction, and two more; a first bit of 0 costs one of them
    digits, rest = _repeat(w, f + 3, (w.raw(word, 0), significand), step)
    short = w("lt", digits, w.raw(word, 1 << (f + 2)))
    digits = w("shl", digits, w.cast(short, word))
    exponent = w("add", w("sub", above, below), w.const(form.int, form.exponents >> 1))
    exponent = w("sub", exponent, w.cast(short, form.int))
    digits = w("or", w("shl", digits, w.raw(word, 1)), _any(w, rest))
    found = _rounded(w, form, digits, exponent, 3)

    nought, limit = w.raw(word, 0), w.raw(word, form.infinity)
    top, bottom = w("eq", a, limit), w("eq", b, limit)
    zero, none = w("eq", a, nought), w("eq", b, nought)
    found = w("select", w("or", top, none), limit, found)
    found = w("select", w("or", zero, bottom), nought, found)
    wrong = w("or", w("and", top, bottom), w("and", zero, none))
    for v in (a, b):
        wrong = w("or", wrong, w("gt", v, limit))
    return w("select", wrong, w.raw(word, form.nan), w("or", found, sign))


def root(w: Writer, form: Format, x: Value) -> Value:
    """The bits of the square root of x, rounded once to nearest even."""
    word, f = form.uint, form.fraction
    significand, biased = _taken_apart(w, form, w("and", x, w.raw(word, form.sign - 1)))
    exponent = w("sub", biased, w.const(form.int, form.exponents >> 1))
    odd = w.cast(w("and", exponent, w.const(form.int, 1)), word)
    # from 1 to below 4, its two bits before the point at the top of the word
    radicand = w("shl", w("shl", significand, odd), w.raw(word, word.bits - f - 2))

    def step(w: Writer, carried: tuple[Value, ...]) -> tuple[Value, ...]:
        digits, rest, radicand = carried
        two = w.raw(word, 2)
        pair = w("shr", radicand, w.raw(word, word.bits - 2))
        rest = w("or", w("shl", rest, two), pair)
        trial = w("or", w("shl", digits, two), w.raw(word, 1))
        fits = w("ge", rest, trial)
        left = w("select", fits, w("sub", rest, trial), rest)
        digits = w("or", w("shl", digits, w.raw(word, 1)), w.cast(fits, word))
        return digits, left, w("shl", radicand, two)

    nought = w.raw(word, 0)
    digits, rest, _ = _repeat(w, f + 2, (nought, nought, radicand), step)
    digits = w("or", w("shl", digits, w.raw(word, 1)), _any(w, rest))
    half = w("shr", exponent, w.const(form.int, 1))
    found = _rounded(w, form, digits, w("add", half, w.const(form.int, form.exponents >> 1)), 2)

    empty = w("eq", w("and", x, w.raw(word, form.sign - 1)), nought)
    found = w("select", w("or", empty, w("eq", x, w.raw(word, form.infinity))), x, found)
    # everything above +infinity but -0: NaN, and what is below 0
    wrong = w("gt", x, w.raw(word, form.infinity))
    wrong = w("and", wrong, w("not", empty))
    return w("select", wrong, w.raw(word, form.nan), found)


def _taken_apart(w: Writer, form: Format, bits: Value) -> tuple[Value, Value]:
    """The significand with its hidden bit, and the exponent as it would be stored."""
    word, f = form.uint, form.fraction
    raw = w.cast(w("shr", bits, w.raw(word, f)), form.int)
    normal = w("ne", raw, w.const(form.int, 0))
    hidden = w("shl", w.cast(normal, word), w.raw(word, f))
    whole = w("or", w("and", bits, w.raw(word, (1 << f) - 1)), hidden)
    shift = w("sub", w("clz", whole), w.raw(word, word.bits - 1 - f))
    exponent = w("max", raw, w.const(form.int, 1))
    return w("shl", whole, shift), w("sub", exponent, w.cast(shift, form.int))


def _rounded(w: Writer, form: Format, digits: Value, exponent: Value, extra: int) -> Value:
    """The bits of a number from 1 to below 2, times 2**exponent (as stored).

    It has `extra` bits more than a significand, the lowest of them for whatever is below.
    """
    word = form.uint
    one, none = w.const(form.int, 1), w.const(form.int, 0)
    most = form.fraction + 2
    below = w("min", w("max", w("sub", one, exponent), none), w.const(form.int, most))
    drop = w.cast(w("add", below, w.const(form.int, extra)), word)
    kept = w("shr", digits, drop)
    half = w("shl", w.raw(word, 1), w("sub", drop, w.raw(word, 1)))
    rest = w("and", digits, w("sub", w("shl", half, w.raw(word, 1)), w.raw(word, 1)))
    # past the middle, or at it beside an odd number
    up = w("gt", w("add", rest, w("and", kept, w.raw(word, 1))), half)
    field = w.cast(w("sub", w("max", exponent, one), one), word)
    # the hidden bit, where there is one, adds the last 1 of the exponent
    bits = w("add", w("shl", field, w.raw(word, form.fraction)), kept)
    bits = w("add", bits, w.cast(up, word))
    over = w("ge", exponent, w.const(form.int, form.exponents))
    return w("select", over, w.raw(word, form.infinity), bits)


def _any(w: Writer, value: Value) -> Value:
    """1 if the value is not 0."""
    return w.cast(w("ne", value, w.raw(scalar(value), 0)), scalar(value))


def _repeat(
    w: Writer,
    count: int,
    carried: tuple[Value, ...],
    step: Callable[[Writer, tuple[Value, ...]], tuple[Value, ...]],
) -> tuple[Value, ...]:
    """`step` so many times over the carried values."""
    inner = w.inner()
    args = tuple(Value(v.type) for v in carried)
    inner.builder.emit(ops.YIELD, *step(inner, args))
    region = Region((Value(I64), *args), tuple(inner.builder.body))
    bounds = (w.const(I64, 0), w.const(I64, count), w.const(I64, 1))
    types = [v.type for v in carried]
    return w.builder.emit(ops.FOR, *bounds, *carried, types=types, regions=(region,)).results
