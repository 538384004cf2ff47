"""`math="native"`: a device's own function beside the reproducible value that it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp

from hetir.frontend.tracer import LIBRARY, Tracer
from hetir.frontend.values import number_kind
from hetir.ir import ops
from hetir.ir.core import Value
from hetir.ir.types import F32


def native(tracer: Tracer, kind: str, arguments: Sequence[Value], value: Value) -> Value:
    """`value`, or with `math="native"` an op that a device may compute in its own way.

    Only `f32` has such functions. What functions of `hl` use inside stays reproducible.
    """
    wanted = tracer.options.math == "native" and kind in ops.NATIVE_KINDS and value.type == F32
    if not wanted or (tracer.loc is not None and tracer.loc.file.startswith(LIBRARY)):
        return value
    return tracer.value(ops.NATIVE, *arguments, value, kind=kind)


def native_quotient(
    tracer: Tracer, left: object, right: object, operands: Sequence[Value], value: Value
) -> Value:
    """`native` of a quotient of what `left` and `right` are in Python."""
    if number_kind(right) is not None and abs(frexp(float(right))[0]) == 0.5:  # pyright: ignore[reportArgumentType]
        return value  # by a power of two: a multiplication, and exact
    if number_kind(left) is not None and left == 1:
        return native(tracer, "recip", operands[1:], value)
    return native(tracer, "divide", operands, value)
