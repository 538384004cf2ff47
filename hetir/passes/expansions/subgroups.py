"""Subgroup reductions and scans as the op table's trees of shuffles."""

from __future__ import annotations

from hetir.ir.core import Operation, Value
from hetir.ir.ops import CLASSES, REDUCE_KINDS
from hetir.ir.types import BOOL, I64, SCALARS, U64
from hetir.passes.expansions.table import Writer, expansion, scalar
from hetir.passes.identity import identity_bits

_BITWISE = ("and", "or", "xor")


def _types(kind: str) -> tuple[str, ...]:
    allowed = CLASSES["B" if kind in _BITWISE else "N"][1]
    return tuple(name for name, t in SCALARS.items() if allowed(t))


_ALL = tuple(f"{kind} {name}" for kind in REDUCE_KINDS for name in _types(kind))


@expansion("subgroup_reduce", *_ALL)
def _reduce(w: Writer, op: Operation) -> Value:
    """Halve the lanes that matter until lane 0 has the tree's result, then give it to all."""
    value, where = op.operands
    kind = str(op.attrs["kind"])
    empty = w.raw(scalar(value), identity_bits(kind, scalar(value)))
    value = w("select", where, value, empty)
    lane, everyone = w("lane_id"), w.const(BOOL, True)
    distance = _columns(w) // 2
    while distance:
        far = w.const(I64, distance)
        other = w("shuffle", value, far, everyone, mode="down")
        kept = w("select", _exists(w, w("add", lane, far)), other, empty)
        value, distance = w(kind, value, kept), distance // 2
    return w("shuffle", value, w.const(I64, 0), everyone, mode="index")


@expansion("subgroup_scan", *_ALL)
def _scan(w: Writer, op: Operation) -> Value:
    value, where = op.operands
    kind = str(op.attrs["kind"])
    empty = w.raw(scalar(value), identity_bits(kind, scalar(value)))
    value = w("select", where, value, empty)
    lane, everyone, distance = w("lane_id"), w.const(BOOL, True), 1
    while distance < _columns(w):
        far = w.const(I64, distance)
        other = w("shuffle", value, far, everyone, mode="up")
        value = w("select", w("ge", lane, far), w(kind, other, value), value)
        distance *= 2
    if op.attrs["inclusive"]:
        return value
    other = w("shuffle", value, w.const(I64, 1), everyone, mode="up")
    return w("select", w("gt", lane, w.const(I64, 0)), other, empty)


@expansion("ballot", "")
def _ballot(w: Writer, op: Operation) -> Value:
    lane = w("lane_id")
    mine = w("shl", w.const(U64, 1), w.cast(lane, U64))
    shown = w("and", w("and", *op.operands), w("lt", lane, w.const(I64, 64)))
    bit = w("select", shown, mine, w.const(U64, 0))
    return w("subgroup_reduce", bit, w.const(BOOL, True), kind="or")


@expansion("vote", "")
def _vote(w: Writer, op: Operation) -> Value:
    kind = "and" if op.attrs["mode"] == "all" else "or"
    return w("subgroup_reduce", *op.operands, kind=kind)


def _columns(w: Writer) -> int:
    """The width, rounded up to a power of two."""
    return 1 << (w.width - 1).bit_length()


def _exists(w: Writer, lane: Value) -> Value:
    """Whether the subgroup has the lane: the last subgroup may be partial."""
    first = w("mul", w("subgroup_id"), w.const(I64, w.width))
    items = w("mul", w("mul", *(w("group_size", axis=a) for a in (0, 1))), w("group_size", axis=2))
    inside = w("lt", lane, w.const(I64, w.width))
    return w("and", inside, w("lt", w("add", first, lane), items))
