"""Functions of one or more scalars that are ops of hetIR, or a few of them.

Scalars of unlike types promote as operators do; a Python number takes the others' type.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable

from hetir.frontend.builtin_functions import absolute, extreme
from hetir.frontend.bundles import any_bundle, each
from hetir.frontend.calls import convert
from hetir.frontend.elementwise import computed_in, elementwise
from hetir.frontend.errors import CallError, OperandError
from hetir.frontend.meeting import deferred_select
from hetir.frontend.native import native
from hetir.frontend.primitive import current, primitive
from hetir.frontend.tracer import Tracer
from hetir.frontend.values import ArrayHandle, KernelValue, Typed, WeakNumber, describe, number_kind
from hetir.ir import ops
from hetir.ir.core import Value
from hetir.ir.ops import Spec
from hetir.ir.types import BOOL, I32, Scalar

__all__ = [
    "abs",
    "bitcast",
    "cast",
    "ceil",
    "clamp",
    "clz",
    "ctz",
    "div",
    "floor",
    "fma",
    "isfinite",
    "isinf",
    "isnan",
    "max",
    "maximum",
    "maximum_number",
    "min",
    "minimum",
    "minimum_number",
    "mul_hi",
    "popcount",
    "rem",
    "rint",
    "sign",
    "sqrt",
    "trunc",
    "where",
]


def _emit(name: str, spec: Spec, *values: KernelValue, accepts: str = "number") -> KernelValue:
    return elementwise(
        current(), name, list(values), lambda at, _, operands: at.value(spec, *operands), accepts
    )


@primitive
def where(condition: KernelValue, a: KernelValue, b: KernelValue) -> KernelValue:
    """`a` where `condition` is true, else `b`; both are computed.

    `a` and `b` are scalars or vectors, or arrays of one type.
    """
    tracer = current()
    if any_bundle((condition, a, b)):
        return each(tracer, "where", (condition, a, b), lambda v: _choose(*v))
    return _choose(condition, a, b)


def _choose(condition: KernelValue, a: KernelValue, b: KernelValue) -> KernelValue:
    tracer = current()
    test = tracer.convert(condition, BOOL)
    if isinstance(a, ArrayHandle) or isinstance(b, ArrayHandle):
        return _where_array(test, a, b)
    weak = [v.kind if isinstance(v, WeakNumber) else number_kind(v) for v in (a, b)]
    if None not in weak:
        return deferred_select(test, a, b, [kind or "int" for kind in weak])
    kind = tracer.common((a, b))
    return tracer.typed(ops.SELECT, test, tracer.convert(a, kind), tracer.convert(b, kind))


def _where_array(test: Value, a: KernelValue, b: KernelValue) -> KernelValue:
    tracer = current()
    alike = isinstance(a, ArrayHandle) and isinstance(b, ArrayHandle) and a.type == b.type
    if not alike or a.type.space not in ("global", "constant"):
        tracer.fail(
            OperandError,
            f"`where` cannot choose between {describe(a)} and {describe(b)}",
            hint="choose between elements: `hl.where(c, a[i], b[i])`",
        )
    return ArrayHandle(tracer.value(ops.SELECT, test, a.ir, b.ir))


@primitive
def min(*values: KernelValue) -> KernelValue:
    """The least of two or more scalars: NaN propagates and -0 is below +0 (IEEE 754-2019)."""
    return extreme(current(), ops.MIN, builtins.min, list(values))


@primitive
def max(*values: KernelValue) -> KernelValue:
    """The greatest of two or more scalars: NaN propagates and -0 is below +0 (IEEE 754-2019)."""
    return extreme(current(), ops.MAX, builtins.max, list(values))


@primitive
def minimum(a: KernelValue, b: KernelValue) -> KernelValue:
    """`hl.min` of two."""
    return extreme(current(), ops.MIN, builtins.min, [a, b])


@primitive
def maximum(a: KernelValue, b: KernelValue) -> KernelValue:
    """`hl.max` of two."""
    return extreme(current(), ops.MAX, builtins.max, [a, b])


@primitive
def minimum_number(a: KernelValue, b: KernelValue) -> KernelValue:
    """The lesser of two floats; a NaN is ignored beside a number (IEEE 754-2019)."""
    return _emit("minimum_number", ops.MIN_NUMBER, a, b, accepts="float")


@primitive
def maximum_number(a: KernelValue, b: KernelValue) -> KernelValue:
    """The greater of two floats; a NaN is ignored beside a number (IEEE 754-2019)."""
    return _emit("maximum_number", ops.MAX_NUMBER, a, b, accepts="float")


@primitive
def clamp(x: KernelValue, low: KernelValue, high: KernelValue) -> KernelValue:
    """`min(max(x, low), high)`: NaN propagates, and `high` wins where it is below `low`."""
    return elementwise(
        current(),
        "clamp",
        [x, low, high],
        lambda at, _, v: at.value(ops.MIN, at.value(ops.MAX, v[0], v[1]), v[2]),
    )


@primitive
def fma(a: KernelValue, b: KernelValue, c: KernelValue) -> KernelValue:
    """`a * b + c` of floats with one rounding."""
    return _emit("fma", ops.FMA, a, b, c, accepts="float")


@primitive
def abs(x: KernelValue) -> KernelValue:
    """The magnitude; the least signed integer stays itself, a NaN loses its sign."""
    return absolute(current(), x)


@primitive
def sqrt(x: KernelValue) -> KernelValue:
    """The square root, correctly rounded; NaN below 0."""

    def emit(at: Tracer, _: Scalar, operands: list[Value]) -> Value:
        return native(at, "sqrt", operands, at.value(ops.SQRT, *operands))

    return elementwise(current(), "sqrt", [x], emit, "float")


@primitive
def floor(x: KernelValue) -> KernelValue:
    """The largest integral float not above `x`."""
    return _emit("floor", ops.FLOOR, x, accepts="float")


@primitive
def ceil(x: KernelValue) -> KernelValue:
    """The smallest integral float not below `x`."""
    return _emit("ceil", ops.CEIL, x, accepts="float")


@primitive
def trunc(x: KernelValue) -> KernelValue:
    """The integral float next to `x` towards zero."""
    return _emit("trunc", ops.TRUNC, x, accepts="float")


@primitive
def rint(x: KernelValue) -> KernelValue:
    """The nearest integral float, ties to even."""
    return _emit("rint", ops.RINT, x, accepts="float")


@primitive
def isnan(x: KernelValue) -> KernelValue:
    """Whether a float is NaN, as a `bool_`."""
    return _classify("isnan", x, lambda at, _, value: at.typed(ops.NE, value, value))


@primitive
def isinf(x: KernelValue) -> KernelValue:
    """Whether a float is an infinity, as a `bool_`."""
    return _classify("isinf", x, lambda at, kind, value: _beside_infinity(ops.EQ, at, kind, value))


@primitive
def isfinite(x: KernelValue) -> KernelValue:
    """Whether a float is neither NaN nor an infinity, as a `bool_`."""
    return _classify(
        "isfinite", x, lambda at, kind, value: _beside_infinity(ops.LT, at, kind, value)
    )


def _classify(
    name: str, x: KernelValue, test: Callable[[Tracer, Scalar, Value], Typed]
) -> KernelValue:
    tracer = current()
    if any_bundle((x,)):
        return each(tracer, name, (x,), lambda v: _classify(name, v[0], test))
    kind = computed_in(tracer, name, [x], "float")
    return test(tracer, kind, tracer.convert(x, kind))


def _beside_infinity(spec: Spec, at: Tracer, kind: Scalar, value: Value) -> Typed:
    return at.typed(spec, at.value(ops.ABS, value), at.const(kind, math.inf))


@primitive
def cast(x: KernelValue, dtype: KernelValue) -> KernelValue:
    """`x` as `dtype`.

    Integers wrap; floats to integers truncate and saturate, NaN gives 0; to floats rounds to
    nearest even; to `f8` saturates; to `bool_` asks whether it is not 0.
    """
    return convert(current(), dtype, x)


@primitive
def bitcast(x: KernelValue, dtype: KernelValue) -> KernelValue:
    """The bits of `x` as a type of the same width; a NaN gives its canonical bits."""
    tracer = current()
    if any_bundle((x,)):
        return each(tracer, "bitcast", (x,), lambda v: _bits(v[0], dtype))
    return _bits(x, dtype)


def _bits(x: KernelValue, dtype: KernelValue) -> KernelValue:
    tracer = current()
    source = tracer.default(x)
    if not isinstance(dtype, Scalar):
        tracer.fail(CallError, f"a type is needed, got {describe(dtype)}")
    if not isinstance(source.type, Scalar) or source.type.bits != dtype.bits:
        tracer.fail(
            OperandError,
            f"`bitcast` needs types of one width, got `{source.type}` and `{dtype}`",
            hint="convert first: `x.to(...)`",
        )
    return tracer.typed(ops.BITCAST, source, to=dtype)


@primitive
def popcount(x: KernelValue) -> KernelValue:
    """The number of one bits of an integer, in its type."""
    return _emit("popcount", ops.POPCOUNT, x, accepts="integer")


@primitive
def clz(x: KernelValue) -> KernelValue:
    """The number of leading zero bits of an integer, in its type; its width for 0."""
    return _emit("clz", ops.CLZ, x, accepts="integer")


@primitive
def ctz(x: KernelValue) -> KernelValue:
    """The number of trailing zero bits of an integer, in its type; its width for 0."""
    return _emit("ctz", ops.CTZ, x, accepts="integer")


@primitive
def mul_hi(a: KernelValue, b: KernelValue) -> KernelValue:
    """The high half of the double-width product of two integers."""
    return _emit("mul_hi", ops.MUL_HI, a, b, accepts="integer")


@primitive
def div(a: KernelValue, b: KernelValue) -> KernelValue:
    """The quotient as in C: integers truncate, `x / 0` is 0; floats as `/`."""
    return _emit("div", ops.DIV, a, b)


@primitive
def rem(a: KernelValue, b: KernelValue) -> KernelValue:
    """The remainder as in C, with the sign of `a`: integers give 0 for 0, floats are exact."""
    return _emit("rem", ops.REM, a, b)


@primitive
def sign(x: KernelValue) -> KernelValue:
    """-1, 0 or 1 as the sign of `x`, in its type; 0 for NaN."""
    return elementwise(current(), "sign", [x], _sign)


def _sign(at: Tracer, kind: Scalar, values: list[Value]) -> Value:
    zero = at.const(kind, 0)
    above = at.value(ops.CAST, at.value(ops.GT, values[0], zero), to=I32)
    below = at.value(ops.CAST, at.value(ops.LT, values[0], zero), to=I32)
    return at.value(ops.CAST, at.value(ops.SUB, above, below), to=kind)


def typed(value: KernelValue) -> Typed:
    """A scalar with the type that it has when it meets no other."""
    return Typed(current().default(value))
