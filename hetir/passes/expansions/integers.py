"""Integer ops in terms of others: Python's floor division and remainder."""

from __future__ import annotations

from hetir.ir.core import Operation, Value
from hetir.passes.expansions.table import Writer, expansion, scalar

SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTS = SIGNED + UNSIGNED


@expansion("floordiv", *INTS)
def _floordiv(w: Writer, op: Operation) -> Value:
    a, b = op.operands
    quotient = w("div", a, b)
    if not scalar(a).signed:
        return quotient
    return w("sub", quotient, w.cast(_off(w, a, b), scalar(a)))


@expansion("mod", *INTS)
def _mod(w: Writer, op: Operation) -> Value:
    a, b = op.operands
    remainder = w("rem", a, b)
    if not scalar(a).signed:
        return remainder
    zero = w.like(a, 0)
    return w("add", remainder, w("select", _off(w, a, b), b, zero))


@expansion("ctz", *INTS)
def _ctz(w: Writer, op: Operation) -> Value:
    (a,) = op.operands
    return w("popcount", w("and", w("not", a), w("sub", a, w.like(a, 1))))


def _off(w: Writer, a: Value, b: Value) -> Value:
    """Whether truncation went up: a remainder whose sign is not the divisor's."""
    zero, remainder = w.like(a, 0), w("rem", a, b)
    unlike = w("lt", w("xor", remainder, b), zero)
    return w("and", unlike, w("ne", remainder, zero))
