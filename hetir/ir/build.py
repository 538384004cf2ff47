"""Construction: a builder that infers result types from the op table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hetir.diagnostics import CompileError, Label
from hetir.ir import ops
from hetir.ir.core import NO_ATTRS, Attr, Operation, Region, Value
from hetir.ir.numerics import cast
from hetir.ir.ops import RuleError, Spec, infer
from hetir.ir.types import Scalar, Type
from hetir.source import Loc


class IllFormedError(CompileError):
    """An operation breaks its row of the op table.

    Cause: hetIR that was made or written by hand; a kernel in Python should never cause it.
    Fix: as docs/ops.md says of the op.
    """

    code = "HET101"


class Builder:
    """Appends operations to one region's body; nested regions take a builder of their own."""

    def __init__(self, loc: Loc | None = None) -> None:
        self.body: list[Operation] = []
        self.loc = loc

    def emit(
        self,
        spec: Spec,
        *operands: Value,
        attrs: Mapping[str, Attr] = NO_ATTRS,
        types: Sequence[Type] | None = None,
        regions: tuple[Region, ...] = (),
        loc: Loc | None = None,
        name: str = "",
    ) -> Operation:
        """Append one op. `types` gives the results of structured ops and calls."""
        loc = loc or self.loc
        try:
            inferred = infer(spec, [v.type for v in operands], attrs) if types is None else types
        except RuleError as error:
            labels = (Label(loc, ""),) if loc else ()
            raise IllFormedError(str(error), *labels) from None
        results = tuple(Value(t, name) for t in inferred)
        op = Operation(spec, operands, results, attrs, regions, loc)
        self.body.append(op)
        return op

    def value(self, spec: Spec, *operands: Value, loc: Loc | None = None, **attrs: Attr) -> Value:
        """Append one op with one result and give the result."""
        return self.emit(spec, *operands, attrs=attrs or NO_ATTRS, loc=loc).result

    def const(self, kind: Scalar, value: float | bool, loc: Loc | None = None) -> Value:
        """A constant from a Python number, rounded or wrapped as `cast` would."""
        return self.value(ops.CONST, type=kind, bits=bits_of(kind, value), loc=loc)

    def region(self, *args: Value) -> Region:
        """Close the body into a region."""
        return Region(args, tuple(self.body))


def bits_of(kind: Scalar, value: float | bool) -> int:
    """The bits of a Python number as `kind`: integers wrap, floats round once."""
    if kind.kind == "bool":
        return int(bool(value))
    if kind.is_int:
        return int(value) & ((1 << kind.bits) - 1)
    exact = isinstance(value, int) and -(1 << 63) <= value < 1 << 63
    one = cast({}, kind.numpy, np.array(value, np.int64 if exact else np.float64))
    return int(one.view(f"u{kind.bytes}"))


def value_of(kind: Scalar, bits: int) -> float | int | bool:
    """The Python number that `bits` mean as `kind`."""
    if kind.kind == "bool":
        return bool(bits)
    if kind.is_int:
        return bits - (1 << kind.bits) if kind.signed and bits >> (kind.bits - 1) else bits
    return float(np.array(bits, f"u{kind.bytes}").view(kind.numpy))


def constant(op: Operation) -> float | int | bool | None:
    """The Python number of a `const` op, or None for another op."""
    if op.spec is not ops.CONST:
        return None
    kind, bits = op.attrs["type"], op.attrs["bits"]
    assert isinstance(kind, Scalar)
    assert isinstance(bits, int)
    return value_of(kind, bits)
