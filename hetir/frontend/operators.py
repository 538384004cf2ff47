"""Python's operators on kernel values, by the promotion rules of the language."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from hetir.frontend.bundles import any_bundle, each
from hetir.frontend.errors import OperandError, PlainPythonError
from hetir.frontend.native import native_quotient
from hetir.frontend.tracer import Tracer
from hetir.frontend.values import (
    RANK,
    ArrayHandle,
    Bundle,
    Typed,
    WeakNumber,
    describe,
    is_plain,
    is_tuple,
    number_kind,
)
from hetir.ir import ops
from hetir.ir.core import Value
from hetir.ir.ops import Spec
from hetir.ir.types import BOOL, F32, I32, I64, Scalar

_PYTHON: Any = operator


def _contained(a: Any, b: Any) -> bool:
    return a in b


def _not_contained(a: Any, b: Any) -> bool:
    return a not in b


PLAIN: Mapping[type[ast.AST], Callable[..., object]] = MappingProxyType(
    {
        ast.Add: _PYTHON.add,
        ast.Sub: _PYTHON.sub,
        ast.Mult: _PYTHON.mul,
        ast.Div: _PYTHON.truediv,
        ast.FloorDiv: _PYTHON.floordiv,
        ast.Mod: _PYTHON.mod,
        ast.Pow: _PYTHON.pow,
        ast.MatMult: _PYTHON.matmul,
        ast.LShift: _PYTHON.lshift,
        ast.RShift: _PYTHON.rshift,
        ast.BitAnd: _PYTHON.and_,
        ast.BitOr: _PYTHON.or_,
        ast.BitXor: _PYTHON.xor,
        ast.Invert: _PYTHON.invert,
        ast.Not: _PYTHON.not_,
        ast.UAdd: _PYTHON.pos,
        ast.USub: _PYTHON.neg,
        ast.Eq: _PYTHON.eq,
        ast.NotEq: _PYTHON.ne,
        ast.Lt: _PYTHON.lt,
        ast.LtE: _PYTHON.le,
        ast.Gt: _PYTHON.gt,
        ast.GtE: _PYTHON.ge,
        ast.Is: _PYTHON.is_,
        ast.IsNot: _PYTHON.is_not,
        ast.In: _contained,
        ast.NotIn: _not_contained,
    }
)
SYMBOL: Mapping[type[ast.AST], str] = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//"},
    **{ast.Mod: "%", ast.Pow: "**", ast.MatMult: "@", ast.LShift: "<<", ast.RShift: ">>"},
    **{ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.Invert: "~", ast.Not: "not"},
    **{ast.UAdd: "+", ast.USub: "-", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<"},
    **{ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is", ast.IsNot: "is not"},
    **{ast.In: "in", ast.NotIn: "not in"},
}
_ARITHMETIC: Mapping[type[ast.AST], Spec] = MappingProxyType(
    {
        ast.Add: ops.ADD,
        ast.Sub: ops.SUB,
        ast.Mult: ops.MUL,
        ast.Div: ops.DIV,
        ast.FloorDiv: ops.FLOORDIV,
        ast.Mod: ops.MOD,
    }
)
_BITS: Mapping[type[ast.AST], Spec] = MappingProxyType(
    {ast.BitAnd: ops.AND, ast.BitOr: ops.OR, ast.BitXor: ops.XOR}
)
_SHIFTS: Mapping[type[ast.AST], Spec] = MappingProxyType({ast.LShift: ops.SHL, ast.RShift: ops.SHR})
_COMPARE: Mapping[type[ast.AST], Spec] = MappingProxyType(
    {
        ast.Eq: ops.EQ,
        ast.NotEq: ops.NE,
        ast.Lt: ops.LT,
        ast.LtE: ops.LE,
        ast.Gt: ops.GT,
        ast.GtE: ops.GE,
    }
)
# a power beyond this is no chain of multiplications that anyone wants
_LARGEST_POWER = 64


def compute(tracer: Tracer, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Let Python compute with plain values; what it raises becomes an error at this place."""
    try:
        return function(*arguments, **named)
    except Exception as error:  # noqa: BLE001 - whatever the user's objects raise
        text = str(error) or type(error).__name__
        tracer.fail(PlainPythonError, f"Python could not compute this: {text}")


def binary(tracer: Tracer, kind: type[ast.operator], left: Any, right: Any) -> Any:
    """`left <kind> right`."""
    if is_plain(left) and is_plain(right):
        return compute(tracer, PLAIN[kind], left, right)
    if is_tuple(left) or is_tuple(right):
        return _tuples(tracer, kind, left, right)
    if any_bundle((left, right)):
        return each(tracer, SYMBOL[kind], (left, right), lambda v: binary(tracer, kind, *v))
    _need_scalars(tracer, SYMBOL[kind], left, right)
    if not isinstance(left, Typed) and not isinstance(right, Typed):
        return _weak_binary(tracer, kind, left, right)
    return Typed(_typed_binary(tracer, kind, left, right))


def _tuples(tracer: Tracer, kind: type[ast.operator], left: Any, right: Any) -> Any:
    """Tuples concatenate and repeat; their arithmetic is refused."""
    joins = kind is ast.Add and is_tuple(left) and is_tuple(right)
    repeats = kind is ast.Mult and (type(left) is int or type(right) is int)
    if joins or repeats:
        return compute(tracer, PLAIN[kind], left, right)
    return tracer.fail(
        OperandError,
        f"`{SYMBOL[kind]}` is not defined for {describe(left)} and {describe(right)}",
        hint="compute with the elements one by one",
    )


def _need_scalars(tracer: Tracer, symbol: str, *values: object) -> None:
    for value in values:
        if isinstance(value, (Typed, WeakNumber)) or number_kind(value) is not None:
            continue
        hint = None
        if isinstance(value, ArrayHandle):
            hint = "index the array: a kernel computes one element at a time"
        tracer.fail(OperandError, f"`{symbol}` is not defined for {describe(value)}", hint=hint)


def _typed_binary(tracer: Tracer, kind: type[ast.operator], left: Any, right: Any) -> Value:
    if kind in _SHIFTS:
        return _shift(tracer, kind, left, right)
    if kind is ast.Pow:
        return _power(tracer, left, right)
    common = tracer.common((left, right))
    if kind in _BITS:
        if common.is_float:
            _no_floats(tracer, SYMBOL[kind], left, right)
        return _emit(tracer, _BITS[kind], common, left, right)
    if kind not in _ARITHMETIC:
        tracer.fail(
            OperandError,
            f"`{SYMBOL[kind]}` is not defined in a kernel",
            hint="write the sums as loops",
        )
    return _emit(tracer, _ARITHMETIC[kind], _arithmetic_type(kind, common), left, right)


def _arithmetic_type(kind: type[ast.operator], common: Scalar) -> Scalar:
    """`/` of integers is `f32`; arithmetic on bools counts them."""
    if kind is ast.Div and not common.is_float:
        return F32
    return I64 if common == BOOL else common


def _emit(tracer: Tracer, spec: Spec, kind: Scalar, left: object, right: object) -> Value:
    operands = tracer.convert(left, kind), tracer.convert(right, kind)
    value = tracer.value(spec, *operands)
    return native_quotient(tracer, left, right, operands, value) if spec is ops.DIV else value


def _no_floats(tracer: Tracer, symbol: str, *values: object) -> None:
    worst = next(v for v in values if tracer.type_of(v).is_float)
    tracer.fail(
        OperandError,
        f"`{symbol}` needs integers, got {describe(worst)}",
        hint="convert with `int(...)`, or read the bits with `hl.bitcast`",
    )


def _shift(tracer: Tracer, kind: type[ast.operator], left: Any, right: Any) -> Value:
    """The left operand's type; the count modulo the width, of whatever type it is."""
    own = left.type if isinstance(left, Typed) else tracer.common((left, right))
    for value in (left, right):
        if tracer.type_of(value).is_float:
            _no_floats(tracer, SYMBOL[kind], value)
    own = I64 if own == BOOL else own
    # the low bits of a count are its residue modulo the width, so that wrapping is harmless
    count = int(right) % own.bits if number_kind(right) else right
    return tracer.value(_SHIFTS[kind], tracer.convert(left, own), tracer.convert(count, own))


def _power(tracer: Tracer, left: Any, right: Any) -> Value:
    """A small integer power as multiplications, squaring from the lowest bit."""
    if number_kind(right) != "int" or not 0 <= right <= _LARGEST_POWER:
        tracer.fail(
            OperandError,
            f"`**` in a kernel takes a constant power from 0 to {_LARGEST_POWER}",
            hint="write `hl.pow(x, y)`",
        )
    kind = tracer.common((left,))
    kind = I64 if kind == BOOL else kind
    base, result = tracer.convert(left, kind), None
    for bit in range(int(right).bit_length()):
        base = tracer.value(ops.MUL, base, base) if bit else base
        if int(right) >> bit & 1:
            result = base if result is None else tracer.value(ops.MUL, result, base)
    return tracer.const(kind, 1) if result is None else result


def _weak_binary(tracer: Tracer, kind: type[ast.operator], left: Any, right: Any) -> Any:
    """Weak with weak stays weak: Python's result kind, built as the type it meets."""
    kinds = [v.kind if isinstance(v, WeakNumber) else number_kind(v) for v in (left, right)]
    widest = max(kinds, key=lambda k: RANK[k or "bool"]) or "bool"
    if kind in _BITS or kind in _SHIFTS:
        if widest == "float":
            _no_floats(tracer, SYMBOL[kind], left, right)
        result = widest if kind in _BITS else "int"
    elif kind is ast.Div or kind in _ARITHMETIC or kind is ast.Pow:
        result = "float" if kind is ast.Div or widest == "float" else "int"
    else:
        return Typed(_typed_binary(tracer, kind, left, right))

    def build(at: Tracer, scalar: Scalar) -> Value:
        a = Typed(at.convert(left, scalar))
        # a constant keeps its value: a shift count or power is no operand of the type
        b = right if kind in _SHIFTS or kind is ast.Pow else Typed(at.convert(right, scalar))
        return _typed_binary(at, kind, a, b)

    portable = all(v.portable for v in (left, right) if isinstance(v, WeakNumber))
    return WeakNumber(result, build, portable=portable)


def unary(tracer: Tracer, kind: type[ast.unaryop], value: Any) -> Any:
    """`-x`, `+x`, `~x`; `not x` is `negation`."""
    if is_plain(value):
        return compute(tracer, PLAIN[kind], value)
    if isinstance(value, Bundle):
        return each(tracer, SYMBOL[kind], (value,), lambda v: unary(tracer, kind, *v))
    _need_scalars(tracer, SYMBOL[kind], value)
    if isinstance(value, WeakNumber):
        result = "int" if value.kind == "bool" else value.kind
        if kind is ast.Invert and value.kind == "float":
            _no_floats(tracer, "~", value)
        return WeakNumber(
            result,
            lambda at, scalar: _typed_unary(at, kind, Typed(at.convert(value, scalar))),
            portable=value.portable,
        )
    return Typed(_typed_unary(tracer, kind, value))


def _typed_unary(tracer: Tracer, kind: type[ast.unaryop], value: Typed) -> Value:
    if kind is ast.Invert:
        if value.type.is_float:
            _no_floats(tracer, "~", value)
        return tracer.value(ops.NOT, value.ir)
    common = tracer.common((value,))
    operand = tracer.convert(value, I64 if common == BOOL else common)
    return operand if kind is ast.UAdd else tracer.value(ops.NEG, operand)


def negation(tracer: Tracer, value: Any) -> Any:
    """`not x`."""
    if is_plain(value):
        return compute(tracer, operator.not_, value)
    return tracer.typed(ops.NOT, truth(tracer, value))


def truth(tracer: Tracer, value: Any) -> Value:
    """The `bool` of a kernel value."""
    if isinstance(value, (Typed, WeakNumber)):
        return tracer.truth(value)
    hint = "compare its size: `x.size > 0`" if isinstance(value, ArrayHandle) else None
    if isinstance(value, Bundle):
        hint = "ask `any(v)` or `all(v)`; combine comparisons with `&`, `|` and `~`"
    return tracer.fail(OperandError, f"{describe(value)} is neither true nor false", hint=hint)


def compare(tracer: Tracer, kind: type[ast.cmpop], left: Any, right: Any) -> Any:
    """`left <kind> right`: a plain bool or a `bool` of the kernel."""
    if kind in (ast.Is, ast.IsNot) and (left is None or right is None):
        return (left is right) == (kind is ast.Is)
    if is_plain(left) and is_plain(right):
        return compute(tracer, PLAIN[kind], left, right)
    if kind not in _COMPARE:
        tracer.fail(
            OperandError,
            f"`{SYMBOL[kind]}` is not defined for values of the kernel",
            hint="compare with `==`" + (" and `or`" if kind in (ast.In, ast.NotIn) else ""),
        )
    if any_bundle((left, right)):
        return each(tracer, SYMBOL[kind], (left, right), lambda v: compare(tracer, kind, *v))
    _need_scalars(tracer, SYMBOL[kind], left, right)
    common = tracer.common((left, right))
    if common == BOOL and kind not in (ast.Eq, ast.NotEq):
        common = I32
    return Typed(_emit(tracer, _COMPARE[kind], common, left, right))
