"""f16 and bf16 arithmetic by way of f32, rounded once; fma by way of f64, rounded to odd.

f32 has more than twice their bits and two, so that rounding + - * / sqrt twice gives what
rounding once does (Figueroa, "When is double rounding innocuous?", 1995); comparisons,
minima, integral values and remainders are exact.
"""

from __future__ import annotations

from hetir.ir.core import Operation, Value
from hetir.ir.types import BOOL, F32, F64, I64, Scalar
from hetir.passes.expansions.table import Writer, expansion, scalar

NARROW = ("f16", "bf16")
_OPS = (
    *("add", "sub", "mul", "div", "rem", "floordiv", "mod", "sqrt"),
    *("min", "max", "min_number", "max_number", "floor", "ceil", "trunc", "rint"),
    *("eq", "ne", "lt", "le", "gt", "ge"),
)


def _through_f32(w: Writer, op: Operation) -> Value:
    wide = w(op.name, *(w.cast(v, F32) for v in op.operands))
    to = op.result.type
    assert isinstance(to, Scalar)
    return wide if to == BOOL else w.cast(wide, to)


for _name in _OPS:
    expansion(_name, *NARROW)(_through_f32)


@expansion("fma", *NARROW, "f32")
def _fma(w: Writer, op: Operation) -> Value:
    """The product is exact in f64; the sum is rounded to odd there, then once."""
    a, b, c = (w.cast(v, F64) for v in op.operands)
    product = w("mul", a, b)
    return w.cast(add_odd(w, product, c), scalar(op.operands[0]))


def add_odd(w: Writer, a: Value, b: Value) -> Value:
    """The sum in f64, rounded to odd: Knuth's exact error says which neighbour is odd."""
    total = w("add", a, b)
    part = w("sub", total, a)
    error = w("add", w("sub", a, w("sub", total, part)), w("sub", b, part))
    zero, one = w.const(F64, 0), w.const(I64, 1)
    bits = w.bits(total, I64)
    inexact = w("or", w("lt", error, zero), w("gt", error, zero))
    finite = w("lt", w("abs", total), w.const(F64, float("inf")))
    even = w("eq", w("and", bits, one), w.const(I64, 0))
    away = w("eq", w("lt", total, zero), w("lt", error, zero))
    step = w("select", away, one, w.const(I64, -1))
    fix = w("and", w("and", inexact, finite), even)
    return w.bits(w("select", fix, w("add", bits, step), bits), F64)
