"""Float read-modify-writes as compare-and-swap loops on the integer of the same width.

The loop compares bits, so that a NaN in memory ends it as any other value does.
"""

from __future__ import annotations

from hetir.ir import ops
from hetir.ir.core import Attr, Operation, Region, Value
from hetir.ir.types import SCALARS
from hetir.passes.expansions.table import Writer, expansion, scalar

_FLOATS = ("f16", "bf16", "f32", "f64")
BEFORE = {"release": "release", "acq_rel": "release", "seq_cst": "seq_cst"}
AFTER = {"acquire": "acquire", "acq_rel": "acquire", "seq_cst": "seq_cst"}
"""The fences before and after a relaxed atomic that make it one of an order."""
_KINDS = ("add", "sub", "min", "max")


@expansion("atomic.rmw", *(f"{kind} {element}" for kind in _KINDS for element in _FLOATS))
def _read_modify_write(w: Writer, op: Operation) -> Value:
    *address, value = op.operands
    element = scalar(value)
    word = SCALARS[f"u{element.bits}"]
    where: dict[str, Attr] = {"element": word, "scope": op.attrs["scope"]}
    order = str(op.attrs["order"])
    before, after = (BEFORE.get(order), AFTER.get(order)) if w.apart else (None, None)
    _fence(w, op, before)
    first = w("atomic.load", *address, **where, order="relaxed")
    seen, body = Value(word), w.inner()
    old = body.bits(seen, element)
    new = body.bits(body(str(op.attrs["kind"]), old, value), word)
    found = body("atomic.cas", *address, seen, new, **where, order="relaxed" if w.apart else order)
    stop, more = body.inner(), body.inner()
    stop.builder.emit(ops.BREAK, found)
    more.builder.emit(ops.YIELD)
    body.builder.emit(
        ops.IF,
        body("eq", found, seen),
        types=(),
        regions=(stop.builder.region(), more.builder.region()),
    )
    body.builder.emit(ops.YIELD, found)
    region = Region((seen,), tuple(body.builder.body))
    loop = w.builder.emit(ops.LOOP, first, types=(word,), regions=(region,))
    _fence(w, op, after)
    return w.bits(loop.result, element)


def _fence(w: Writer, op: Operation, order: str | None) -> None:
    if order is not None:
        w.builder.emit(ops.FENCE, attrs={"order": order, "scope": op.attrs["scope"]})
