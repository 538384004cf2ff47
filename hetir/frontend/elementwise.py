"""Functions of scalars: the type they compute in, and numbers that wait for one."""

from __future__ import annotations

from collections.abc import Callable

from hetir.frontend.bundles import any_bundle, each
from hetir.frontend.errors import OperandError
from hetir.frontend.tracer import Tracer
from hetir.frontend.values import (
    RANK,
    ArrayHandle,
    Bundle,
    KernelValue,
    Typed,
    WeakNumber,
    describe,
    number_kind,
)
from hetir.ir.core import Value
from hetir.ir.types import BOOL, F32, I64, Scalar

Emit = Callable[[Tracer, Scalar, list[Value]], Value]


def need_scalar(tracer: Tracer, name: str, value: object) -> None:
    """Refuse what is no scalar."""
    if isinstance(value, (Typed, WeakNumber)) or number_kind(value) is not None:
        return
    hint = "index the array" if isinstance(value, ArrayHandle) else None
    if isinstance(value, Bundle):
        hint = "apply it to one element, `v[i]`, or convert with `v.to(...)`"
    tracer.fail(OperandError, f"`{name}` is not defined for {describe(value)}", hint=hint)


def elementwise(
    tracer: Tracer, name: str, values: list[KernelValue], emit: Emit, accepts: str = "number"
) -> KernelValue:
    """Convert `values` to their common type and emit, at once or when a type is met.

    `accepts` is `number` (bools count as integers), `float` (integers become `f32`) or
    `integer` (floats are refused). Of vectors it is done to each element.
    """
    if any_bundle(values):
        return each(tracer, name, values, lambda v: elementwise(tracer, name, v, emit, accepts))
    for value in values:
        need_scalar(tracer, name, value)
    if any(isinstance(value, Typed) for value in values):
        kind = computed_in(tracer, name, values, accepts)
        return Typed(emit(tracer, kind, [tracer.convert(value, kind) for value in values]))
    kinds = [v.kind if isinstance(v, WeakNumber) else number_kind(v) or "int" for v in values]
    weak = "float" if accepts == "float" else max((*kinds, "int"), key=RANK.__getitem__)
    if accepts == "integer" and weak == "float":
        computed_in(tracer, name, values, accepts)

    def build(at: Tracer, kind: Scalar) -> Value:
        return emit(at, kind, [at.convert(value, kind) for value in values])

    portable = all(v.portable for v in values if isinstance(v, WeakNumber))
    return WeakNumber(weak, build, portable=portable)


def computed_in(tracer: Tracer, name: str, values: list[KernelValue], accepts: str) -> Scalar:
    """The type that a function of `values` computes in."""
    kind = tracer.common(values)
    if accepts == "integer" and kind.is_float:
        worst = next(v for v in values if tracer.type_of(v).is_float)
        tracer.fail(
            OperandError,
            f"`{name}` needs integers, got {describe(worst)}",
            hint="convert with `int(...)`, or read the bits with `hl.bitcast`",
        )
    if accepts == "float" and not kind.is_float:
        return F32
    return I64 if kind == BOOL else kind
