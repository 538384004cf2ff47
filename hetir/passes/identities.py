"""Algebraic identities that hold for every input, bit for bit (all NaNs count as one)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Value
from hetir.ir.ops import Spec
from hetir.ir.types import BOOL, I64, ArrayType, Scalar
from hetir.passes.forward import Forward

_INVERSE = {ops.EQ: ops.NE, ops.NE: ops.EQ}
_INTEGER_INVERSE = {
    **_INVERSE, ops.LT: ops.GE, ops.GE: ops.LT, ops.LE: ops.GT, ops.GT: ops.LE,
}  # fmt: skip
_REFLEXIVE = {ops.EQ: 1, ops.LE: 1, ops.GE: 1, ops.NE: 0, ops.LT: 0, ops.GT: 0}


def identities(kernel: Kernel) -> Kernel:
    """The kernel with identities applied and constants moved to the right.

    Floats are never reassociated, and a rule must hold for -0, infinities and NaN too:
    `x + 0.0` stays, as it turns -0 into +0.
    """
    return _Identities().kernel(kernel)


class _Identities(Forward):
    def visit(self, op: Operation) -> Sequence[Value] | None:
        rule = _RULES.get(op.spec)
        if rule is None:
            return None
        value = rule(self, op)
        if value is None and op.spec.commutative and self.misplaced(op):
            value = self.emit(op.spec, *op.operands[::-1], loc=op.loc, to=op.result.type)
        return None if value is None else (value,)

    def misplaced(self, op: Operation) -> bool:
        """Whether a constant stands on the left of a value that is none."""
        left, right = (self.known(v) is not None for v in op.operands)
        return left and not right

    def again(self, op: Operation, *operands: Value) -> Value:
        """The same op on other operands."""
        return self.emit(op.spec, *operands, loc=op.loc, to=op.result.type)

    def zero(self, op: Operation, value: float | bool = 0) -> Value:
        """A constant of the result's type."""
        kind = op.result.type
        assert isinstance(kind, Scalar)
        return self.const(kind, value, op.loc)


Rule = Callable[[_Identities, Operation], Value | None]


def _integer(op: Operation) -> bool:
    kind = op.operands[0].type
    return isinstance(kind, Scalar) and kind.is_int


def _is(number: float | bool | None, wanted: float) -> bool:
    """Whether a constant is this number, the sign of zero included."""
    return (
        number is not None
        and number == wanted
        and math.copysign(1, number) == math.copysign(1, wanted)
    )


def _ones(number: float | bool | None, kind: object) -> bool:
    """Whether a constant has every bit set."""
    if number is None or not isinstance(kind, Scalar):
        return False
    return int(number) & ((1 << kind.bits) - 1) == (1 << kind.bits) - 1


def _add(r: _Identities, op: Operation) -> Value | None:
    a, b = op.operands
    known = r.known(b)
    if not _integer(op):
        return a if _is(known, -0.0) and isinstance(known, float) else None
    if known == 0:
        return a
    for one, two in ((a, b), (b, a)):
        minus = r.made_by(one, ops.SUB)
        if minus and minus.operands[1] is two:
            return minus.operands[0]
    return _together(r, op, known)


def _together(r: _Identities, op: Operation, known: float | None) -> Value | None:
    """(x + 2) + 3 is x + 5, and the like for other associative integer ops."""
    inner = r.made_by(op.operands[0], op.spec)
    if known is None or inner is None or r.known(inner.operands[1]) is None:
        return None
    constant = r.again(op, inner.operands[1], op.operands[1])
    return r.again(op, inner.operands[0], constant)


def _sub(r: _Identities, op: Operation) -> Value | None:
    a, b = op.operands
    known = r.known(b)
    if not _integer(op):
        return a if _is(known, 0.0) else None
    if a is b:
        return r.zero(op)
    plus = r.made_by(a, ops.ADD)
    if plus and b in plus.operands:
        return plus.operands[1 - plus.operands.index(b)]
    if known is None:
        return None
    return a if known == 0 else r.emit(ops.ADD, a, r.zero(op, -known), loc=op.loc)


def _mul(r: _Identities, op: Operation) -> Value | None:
    a, b = op.operands
    known = r.known(b)
    if known == 1:
        return a
    if not _integer(op):
        return None
    if known == 0:
        return b
    return r.emit(ops.NEG, a, loc=op.loc) if known == -1 else _together(r, op, known)


def _divide(r: _Identities, op: Operation) -> Value | None:
    known = r.known(op.operands[1])
    if op.spec is ops.DIV and known == 1:
        return op.operands[0]
    return op.operands[0] if _integer(op) and known == 1 else None


def _remain(r: _Identities, op: Operation) -> Value | None:
    return r.zero(op) if _integer(op) and r.known(op.operands[1]) in (1, -1) else None


def _and(r: _Identities, op: Operation) -> Value | None:
    a, b = op.operands
    known = r.known(b)
    if a is b or _ones(known, op.result.type):
        return a
    return b if known is not None and not known else _together(r, op, known)


def _or(r: _Identities, op: Operation) -> Value | None:
    a, b = op.operands
    known = r.known(b)
    if a is b or (known is not None and not known):
        return a
    return b if _ones(known, op.result.type) else _together(r, op, known)


def _xor(r: _Identities, op: Operation) -> Value | None:
    a, b = op.operands
    known = r.known(b)
    if a is b:
        return r.zero(op)
    if known is not None and not known:
        return a
    if _ones(known, op.result.type):
        return r.emit(ops.NOT, a, loc=op.loc)
    return _together(r, op, known)


def _not(r: _Identities, op: Operation) -> Value | None:
    source = r.defs.get(op.operands[0])
    if source is None:
        return None
    if source.spec is ops.NOT:
        return source.operands[0]
    inverse = (_INTEGER_INVERSE if source.operands and _integer(source) else _INVERSE).get(
        source.spec
    )
    return inverse and r.emit(inverse, *source.operands, loc=op.loc)


def _shift(r: _Identities, op: Operation) -> Value | None:
    kind = op.result.type
    assert isinstance(kind, Scalar)
    known = r.known(op.operands[1])
    return op.operands[0] if known is not None and int(known) % kind.bits == 0 else None


def _extreme(_: _Identities, op: Operation) -> Value | None:
    return op.operands[0] if op.operands[0] is op.operands[1] else None


def _compare(r: _Identities, op: Operation) -> Value | None:
    a, b = op.operands
    known, kind = r.known(b), a.type
    if a is b and isinstance(kind, Scalar) and not kind.is_float:
        return r.zero(op, _REFLEXIVE[op.spec])
    if kind == BOOL and known is not None and op.spec in (ops.EQ, ops.NE):
        return a if bool(known) == (op.spec is ops.EQ) else r.emit(ops.NOT, a, loc=op.loc)
    return None


def _select(r: _Identities, op: Operation) -> Value | None:
    cond, a, b = op.operands
    if a is b:
        return a
    if inverted := r.made_by(cond, ops.NOT):
        return r.again(op, inverted.operands[0], b, a)
    if op.result.type != BOOL:
        return None
    known = r.known(a), r.known(b)
    if known == (True, False):
        return cond
    return r.emit(ops.NOT, cond, loc=op.loc) if known == (False, True) else None


def _cast(r: _Identities, op: Operation) -> Value | None:
    (a,), to = op.operands, op.result.type
    if a.type == to:
        return a
    inner = r.made_by(a, ops.CAST)
    if inner is None:
        return None
    source, middle = inner.operands[0].type, a.type
    assert isinstance(source, Scalar)
    assert isinstance(middle, Scalar)
    assert isinstance(to, Scalar)
    wraps = source.is_int and middle.is_int and to.is_int and to.bits <= middle.bits
    # from a float, values outside the range saturate; from an integer they wrap
    alike = not (source.is_int and middle.is_float and to.is_int) or _keeps(source, to)
    if wraps or (alike and _keeps(source, middle)):
        return r.emit(ops.CAST, inner.operands[0], loc=op.loc, to=to)
    return None


_SIGNIFICANT = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}


def _keeps(source: Scalar, middle: Scalar) -> bool:
    """Whether every value of `source` is a value of `middle`."""
    if source.kind == "bool":
        return middle.is_int or middle.is_float
    if source.is_int and middle.is_int:
        wider = middle.bits > source.bits and (middle.signed or not source.signed)
        return wider or source == middle
    if source.is_int:
        # f16 has too small a range for 16 bits, and its 11 digits exclude them
        return source.bits - source.signed <= _SIGNIFICANT.get(middle.name, 0)
    widens = {("f16", "f32"), ("bf16", "f32"), ("f16", "f64"), ("bf16", "f64"), ("f32", "f64")}
    return (source.name, middle.name) in widens


def _bitcast(r: _Identities, op: Operation) -> Value | None:
    (a,), to = op.operands, op.result.type
    if a.type == to:
        return a
    inner = r.made_by(a, ops.BITCAST)
    # through a float, NaNs would turn canonical
    if inner is None or not isinstance(a.type, Scalar) or not a.type.is_int:
        return None
    source = inner.operands[0]
    integers = isinstance(source.type, Scalar) and source.type.is_int
    return r.emit(ops.BITCAST, source, loc=op.loc, to=to) if integers else None


def _neg(r: _Identities, op: Operation) -> Value | None:
    inner = r.made_by(op.operands[0], ops.NEG)
    return inner.operands[0] if inner else None


def _abs(r: _Identities, op: Operation) -> Value | None:
    kind = op.operands[0].type
    unsigned = isinstance(kind, Scalar) and kind.is_int and not kind.signed
    # of an unsigned integer it is the integer, also where that was negated
    if unsigned or r.made_by(op.operands[0], ops.ABS):
        return op.operands[0]
    inner = r.made_by(op.operands[0], ops.NEG)
    return r.again(op, inner.operands[0]) if inner else None


def _assume_uniform(r: _Identities, op: Operation) -> Value | None:
    return op.operands[0] if r.known(op.operands[0]) is not None else None


def _dim(r: _Identities, op: Operation) -> Value | None:
    kind, axis = op.operands[0].type, op.attrs["axis"]
    assert isinstance(kind, ArrayType)
    assert isinstance(axis, int)
    if kind.shape is not None:
        return r.const(I64, kind.shape[axis], op.loc)
    view = r.made_by(op.operands[0], ops.VIEW)
    return _view_axis(view, axis)[2] if view else None


def _stride(r: _Identities, op: Operation) -> Value | None:
    kind, axis = op.operands[0].type, op.attrs["axis"]
    assert isinstance(kind, ArrayType)
    assert isinstance(axis, int)
    if kind.shape is not None:
        return r.const(I64, math.prod(kind.shape[axis + 1 :]) * kind.element.bytes, op.loc)
    known = kind.strides[axis] if kind.strides else None
    return None if known is None else r.const(I64, known * kind.element.bytes, op.loc)


def _view_axis(view: Operation, axis: int) -> tuple[int, Value, Value]:
    """Step, start and count of the axis of the source that an axis of a view walks along."""
    steps = view.attrs["steps"]
    assert isinstance(steps, tuple)
    at = 1
    for step in steps:
        assert isinstance(step, int)
        if step and axis == 0:
            return step, view.operands[at], view.operands[at + 1]
        axis -= bool(step)
        at += 2 if step else 1
    raise AssertionError("a view without this axis")


_RULES: Mapping[Spec, Rule] = {
    ops.ADD: _add, ops.SUB: _sub, ops.MUL: _mul, ops.DIV: _divide, ops.FLOORDIV: _divide,
    ops.REM: _remain, ops.MOD: _remain, ops.AND: _and, ops.OR: _or, ops.XOR: _xor,
    ops.NOT: _not, ops.SHL: _shift, ops.SHR: _shift, ops.MIN: _extreme, ops.MAX: _extreme,
    ops.MIN_NUMBER: _extreme, ops.MAX_NUMBER: _extreme, ops.SELECT: _select, ops.CAST: _cast,
    ops.BITCAST: _bitcast, ops.NEG: _neg, ops.ABS: _abs, ops.DIM: _dim, ops.STRIDE: _stride,
    ops.ASSUME_UNIFORM: _assume_uniform,
    **dict.fromkeys(_REFLEXIVE, _compare),
}  # fmt: skip
