"""Questions about regions that many passes ask: exits, constants, where values come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hetir.ir import ops
from hetir.ir.build import constant
from hetir.ir.core import Operation, Param, Region, Value
from hetir.ir.rewrite import Env
from hetir.ir.types import BOOL, ArrayType, Scalar, Type
from hetir.source import Loc

LOOPS = (ops.FOR, ops.LOOP)


def values_of(params: Sequence[Param | Value]) -> tuple[Value, ...]:
    """The values of a kernel's or a function's parameters."""
    return tuple(p.value if isinstance(p, Param) else p for p in params)


def falls(region: Region) -> bool:
    """Whether control can reach the end of an `if`'s region."""
    return region.terminator.spec is ops.YIELD


def exits(op: Operation) -> bool:
    """Whether control may leave the regions around this `if` from inside it."""
    if op.spec is not ops.IF:
        return False
    return any(not falls(r) or any(exits(o) for o in r.body) for r in op.regions)


def returns(op: Operation) -> bool:
    """Whether a `return` stands anywhere inside the op."""
    return any(r.terminator.spec is ops.RETURN or any(map(returns, r.body)) for r in op.regions)


def exits_of(region: Region) -> Iterator[Operation]:
    """The terminators that end one pass through a loop's body, returns apart.

    They are the body's own terminator and the `break`s and `continue`s in nested ifs.
    """
    for op in region.body:
        if op.spec is ops.IF:
            for arm in op.regions:
                yield from (e for e in exits_of(arm) if e.spec is not ops.YIELD)
        elif op.spec.terminator and op.spec is not ops.RETURN:
            yield op


def number(op: Operation | None) -> int | None:
    """The Python integer of a `const` of integer type, else None."""
    if op is None or op.spec is not ops.CONST:
        return None
    kind = op.attrs["type"]
    assert isinstance(kind, Scalar)
    return int(constant(op) or 0) if kind.is_int else None


def definitions(region: Region) -> dict[Value, Operation]:
    """The op that results in, or holds the region of, each value defined inside."""
    found: dict[Value, Operation] = {}
    _define(region, found)
    return found


def _define(region: Region, found: dict[Value, Operation]) -> None:
    for op in region.body:
        for value in op.results:
            found[value] = op
        for inner in op.regions:
            for value in inner.args:
                found[value] = op
            _define(inner, found)


def replace_operands(op: Operation, env: Env) -> Operation:
    """The op with every operand, those in inner regions too, replaced as `env` says."""
    operands = tuple(env.get(v, v) for v in op.operands)
    regions = tuple(
        Region(r.args, tuple(replace_operands(o, env) for o in r.body)) for r in op.regions
    )
    return replace(op, operands=operands, regions=regions)


def count(region: Region) -> int:
    """How many ops a region holds, those of inner regions included."""
    return sum(1 + sum(map(count, op.regions)) for op in region.body)


@dataclass(frozen=True, slots=True)
class Source:
    """Where an array comes from: an `alloc`, a kernel parameter, or unknown (None)."""

    space: str
    root: Value | None

    def overlaps(self, other: Source) -> bool:
        """Whether the two may share bytes: allocs are apart, global arrays may overlap."""
        if self.space != other.space:
            return False
        return self.space == "global" or self.root is other.root


def source_of(array: Value, defs: dict[Value, Operation]) -> Source:
    """The source of an array or reference; views and bases are looked through."""
    space = array.type.space if not isinstance(array.type, Scalar) else "global"
    while (op := defs.get(array)) is not None and op.spec in (ops.VIEW, ops.BASE):
        array = op.operands[0]
    return Source("global" if space == "constant" else space, array)


def make_const(kind: Scalar, bits: int, loc: Loc | None) -> Operation:
    """A new `const` op."""
    return Operation(ops.CONST, (), (Value(kind),), {"type": kind, "bits": bits}, (), loc)


def simple(spec: ops.Spec, *operands: Value, loc: Loc | None, to: Type | None = None) -> Operation:
    """A new op of one result: of type `to`, of the operands' type, or bool if it compares."""
    compares = spec in (ops.EQ, ops.NE, ops.LT, ops.LE, ops.GT, ops.GE)
    kind = to or (BOOL if compares else operands[-1].type)
    attrs = {"to": to} if spec in (ops.CAST, ops.BITCAST) and to is not None else {}
    return Operation(spec, operands, (Value(kind),), attrs, (), loc)


def make_if(
    cond: Value, types: Sequence[Type], then: Region, other: Region, loc: Loc | None
) -> Operation:
    """A new `if`."""
    results = tuple(Value(t) for t in types)
    return Operation(ops.IF, (cond,), results, regions=(then, other), loc=loc)


def end(spec: ops.Spec, *operands: Value, loc: Loc | None) -> Operation:
    """A new terminator."""
    return Operation(spec, operands, loc=loc)


def is_private(array: Value) -> bool:
    """Whether a value is a private array."""
    return isinstance(array.type, ArrayType) and array.type.space == "private"
