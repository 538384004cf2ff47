"""The places of a kernel that write records: lines of `print`, failed checks, bad indices."""

from __future__ import annotations

from hetir.artifact import Site
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Value, walk

REPORTS = (ops.PRINT, ops.ASSERT, ops.OUT_OF_BOUNDS)
_KINDS = {"out_of_bounds": "bounds"}
_TEXTS = {"print": "format", "assert": "message", "out_of_bounds": "array"}


def sites_of(kernel: Kernel) -> tuple[Site, ...]:
    """The places that write records, in program order; a record's site id is an index here."""
    return tuple(_site(op) for op in reporting(kernel))


def reporting(kernel: Kernel) -> tuple[Operation, ...]:
    """The ops that write records, in the order of their site ids."""
    return tuple(op for op in walk(kernel.body) if op.spec in REPORTS)


def shown(op: Operation) -> tuple[Value, ...]:
    """The operands that a record holds."""
    return op.operands[1:] if op.spec is ops.ASSERT else op.operands


def _site(op: Operation) -> Site:
    return Site(
        kind=_KINDS.get(op.name, op.name),
        format=str(op.attrs[_TEXTS[op.name]]),
        dtypes=tuple(str(v.type) for v in shown(op)),
        loc=op.loc,
    )
