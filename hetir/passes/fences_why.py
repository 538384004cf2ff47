"""What each order, fence and barrier of a kernel is for, in a sentence that names the lines."""

from __future__ import annotations

from collections.abc import Iterable

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, walk
from hetir.passes.fences import ACQUIRES, ATOMICS, RELEASES, Around, touches

SITES = (ops.FENCE, ops.BARRIER, *ATOMICS)


def sites(kernel: Kernel) -> tuple[Operation, ...]:
    """The ops that order memory, in program order."""
    found = (op for op in walk(kernel.body) if op.spec in SITES)
    return tuple(op for op in found if op.attrs.get("order") != "relaxed")


def reasons(kernel: Kernel) -> dict[Operation, str]:
    """Why each site stands where it does."""
    around = Around(kernel)
    return {op: _reason(op, around) for op in sites(kernel)}


def _reason(op: Operation, around: Around) -> str:
    before = [o for o in around.before(op) if touches(o)]
    after = [o for o in around.after(op) if touches(o)]
    scope = str(op.attrs["scope"])
    if op.spec is ops.BARRIER:
        return (
            f"the {scope} waits, so that accesses before it ({_lines(before)}) happen before "
            f"those after it ({_lines(after)})"
        )
    order, parts = str(op.attrs["order"]), list[str]()
    if order in RELEASES:
        written = [o for o in before if o.spec is not ops.LOAD and o is not op]
        parts.append(
            f"releases: who acquires from it within the {scope} sees what was written before "
            f"({_lines(written)})"
        )
    if order in ACQUIRES:
        parts.append(
            f"acquires: what its writer released within the {scope} is seen after it "
            f"({_lines(o for o in after if o is not op)})"
        )
    if order == "seq_cst":
        parts.append("stands in the one order of all seq_cst operations")
    return "; ".join(parts)


def _lines(found: Iterable[Operation]) -> str:
    """The lines of some accesses, and the arrays."""
    accesses = [op for op in found if op.loc is not None]
    lines = sorted({op.loc.line for op in accesses if op.loc})
    if not lines:
        return "none in this kernel"
    names = dict.fromkeys(f"`{n}`" for op in accesses if op.operands and (n := _name(op)))
    shown = ", ".join(map(str, lines))
    of = f", of {', '.join(names)}" if names else ""
    return f"line{'s' * (len(lines) > 1)} {shown}{of}"


def _name(op: Operation) -> str:
    return op.operands[0].name if op.spec in (ops.LOAD, ops.STORE, *ATOMICS) else ""
