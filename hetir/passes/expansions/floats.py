"""f32 and f64 ops in terms of others: exact remainders, flooring, rounding."""

from __future__ import annotations

from dataclasses import dataclass

from hetir.ir import ops
from hetir.ir.core import Operation, Region, Value
from hetir.ir.types import F32, F64, I32, I64, U32, U64, Scalar
from hetir.passes.expansions.table import Writer, expansion, scalar

FLOATS = ("f32", "f64")


@expansion("native", *ops.NATIVE_KINDS)
def native(_: Writer, op: Operation) -> Value:
    """The reproducible value."""
    return op.operands[-1]


@dataclass(frozen=True, slots=True)
class _Format:
    """A float format: its integer twins, fraction bits and exponent mask."""

    uint: Scalar
    int: Scalar
    fraction: int
    exponents: int

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.uint.bits - 1)


FORMATS = {F32: _Format(U32, I32, 23, 0xFF), F64: _Format(U64, I64, 52, 0x7FF)}


def copysign(w: Writer, magnitude: Value, sign: Value) -> Value:
    """`magnitude` with the sign of `sign`; neither is a NaN that matters."""
    form = FORMATS[scalar(magnitude)]
    top = w.raw(form.uint, form.sign)
    low = w.bits(w("abs", magnitude), form.uint)
    return w.bits(w("or", low, w("and", w.bits(sign, form.uint), top)), scalar(magnitude))


# ---- rounding to integral values ---------------------------------------------------------


def _whole(w: Writer, x: Value, rounded: Value) -> Value:
    """`rounded`, but `x` itself where it has no fraction (infinities and NaN too)."""
    limit = w.like(x, 2.0 ** FORMATS[scalar(x)].fraction)
    small = w("lt", w("abs", x), limit)
    return w("select", small, copysign(w, rounded, x), x)


@expansion("trunc", *FLOATS)
def _trunc(w: Writer, op: Operation) -> Value:
    (x,) = op.operands
    form = FORMATS[scalar(x)]
    return _whole(w, x, w.cast(w.cast(x, form.int), scalar(x)))


@expansion("rint", *FLOATS)
def _rint(w: Writer, op: Operation) -> Value:
    (x,) = op.operands
    big = w.like(x, 2.0 ** FORMATS[scalar(x)].fraction)
    return _whole(w, x, w("sub", w("add", w("abs", x), big), big))


@expansion("floor", *FLOATS)
def _floor(w: Writer, op: Operation) -> Value:
    (x,) = op.operands
    cut = w("trunc", x)
    return w("select", w("gt", cut, x), w("sub", cut, w.like(x, 1)), cut)


@expansion("ceil", *FLOATS)
def _ceil(w: Writer, op: Operation) -> Value:
    (x,) = op.operands
    cut = w("trunc", x)
    up = copysign(w, w("add", cut, w.like(x, 1)), x)
    return w("select", w("lt", cut, x), up, cut)


# ---- remainders --------------------------------------------------------------------------


@expansion("rem", *FLOATS)
def _rem(w: Writer, op: Operation) -> Value:
    """C's fmod: long division of the significands, as many bits a step as u64 holds."""
    x, y = op.operands
    kind = scalar(x)
    form = FORMATS[kind]
    magnitude = w.raw(form.uint, form.sign - 1)
    a, b = (w("and", w.bits(v, form.uint), magnitude) for v in (x, y))
    infinity = w.raw(form.uint, form.exponents << form.fraction)
    zero = w.raw(form.uint, 0)
    # x infinite or NaN, y zero or NaN: no remainder; y infinite: x
    bad = w("or", w("ge", a, infinity), w("or", w("gt", b, infinity), w("eq", b, zero)))
    nan = w.raw(kind, (form.exponents << 1 | 1) << (form.fraction - 1))
    some = w("and", w("ge", a, b), w("not", w("or", bad, w("eq", b, infinity))))
    then, other = w.inner(), w.inner()
    then.builder.emit(ops.YIELD, _divide(then, kind, a, b))
    other.builder.emit(ops.YIELD, a)
    branch = w.builder.emit(
        ops.IF, some, types=(form.uint,), regions=(then.builder.region(), other.builder.region())
    )
    signed = w("or", branch.result, w("and", w.bits(x, form.uint), w.raw(form.uint, form.sign)))
    return w("select", bad, nan, w.bits(signed, kind))


def _divide(w: Writer, kind: Scalar, a: Value, b: Value) -> Value:
    """The bits of |x| mod |y| for finite bits a >= b > 0."""
    form = FORMATS[kind]
    (fraction_a, exponent_a), (fraction_b, exponent_b) = (_parts(w, form, v) for v in (a, b))
    step = 64 - form.fraction - 1
    zero, width = w.const(I32, 0), w.const(I32, step)
    rest, left = Value(U64), Value(I32)
    body = w.inner()
    count = body("min", left, width)
    moved = body("rem", body("shl", rest, body.cast(count, U64)), fraction_b)
    after = body("sub", left, count)
    stop, more = body.inner(), body.inner()
    stop.builder.emit(ops.BREAK, moved)
    more.builder.emit(ops.YIELD)
    done = body("le", after, zero)
    body.builder.emit(
        ops.IF, done, types=(), regions=(stop.builder.region(), more.builder.region())
    )
    body.builder.emit(ops.YIELD, moved, after)
    loop = w.builder.emit(
        ops.LOOP,
        fraction_a,
        w("sub", exponent_a, exponent_b),
        types=(U64,),
        regions=(Region((rest, left), tuple(body.builder.body)),),
    )
    return w.cast(_assemble(w, form, loop.result, exponent_b), form.uint)


def _parts(w: Writer, form: _Format, bits: Value) -> tuple[Value, Value]:
    """The significand as u64 and the exponent, 1 for subnormals as for the least normals."""
    wide = w.cast(bits, U64)
    raw = w.cast(w("shr", wide, w.const(U64, form.fraction)), I32)
    low = w("and", wide, w.const(U64, (1 << form.fraction) - 1))
    normal = w("ne", raw, w.const(I32, 0))
    hidden = w("shl", w.cast(normal, U64), w.const(U64, form.fraction))
    return w("or", low, hidden), w("max", raw, w.const(I32, 1))


def _assemble(w: Writer, form: _Format, significand: Value, exponent: Value) -> Value:
    """The bits of significand * 2^exponent, normalised as far as the exponent allows."""
    lead = w("sub", w.cast(w("clz", significand), I32), w.const(I32, 63 - form.fraction))
    room = w("sub", exponent, w.const(I32, 1))
    shift = w("min", lead, room)
    moved = w("shl", significand, w.cast(shift, U64))
    biased = w.cast(w("sub", exponent, shift), U64)
    # the hidden bit, where there is one, adds the last 1 of the exponent
    field = w("shl", w("sub", biased, w.const(U64, 1)), w.const(U64, form.fraction))
    zero = w("eq", significand, w.const(U64, 0))
    return w("select", zero, w.const(U64, 0), w("add", field, moved))


def _floor_parts(w: Writer, a: Value, b: Value) -> tuple[Value, Value]:
    """CPython's float_divmod, step by step; a zero divisor gives the quotient a / b."""
    zero, one = w.like(a, 0), w.like(a, 1)
    ratio, left = w("div", a, b), w("rem", a, b)
    quotient = w("div", w("sub", a, left), b)
    unlike = w("ne", w("lt", left, zero), w("lt", b, zero))
    wrong = w("and", w("ne", left, zero), unlike)
    kept = w("select", w("eq", left, zero), copysign(w, left, b), left)
    remainder = w("select", wrong, w("add", left, b), kept)
    quotient = w("select", wrong, w("sub", quotient, one), quotient)
    low = w("floor", quotient)
    above = w("gt", w("sub", quotient, low), w.like(a, 0.5))
    nearest = w("select", above, w("add", low, one), low)
    nought = w("eq", quotient, zero)
    floored = w("select", nought, copysign(w, zero, ratio), nearest)
    return w("select", w("eq", b, zero), ratio, floored), remainder


@expansion("floordiv", *FLOATS)
def _floordiv(w: Writer, op: Operation) -> Value:
    return _floor_parts(w, *op.operands)[0]


@expansion("mod", *FLOATS)
def _mod(w: Writer, op: Operation) -> Value:
    return _floor_parts(w, *op.operands)[1]
