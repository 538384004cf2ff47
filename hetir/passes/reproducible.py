"""Whether a kernel gives the same bits on every device, and if not, why."""

from __future__ import annotations

from dataclasses import dataclass

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Value, walk
from hetir.ir.types import Scalar
from hetir.source import Loc


@dataclass(frozen=True, slots=True)
class Reproducibility:
    """`reason` and `loc` name the first operation whose result depends on order or device."""

    holds: bool
    reason: str = ""
    loc: Loc | None = None


def reproducible(kernel: Kernel) -> Reproducibility:
    """Find what depends on the order of work-items or on the device (SEMANTICS).

    Float atomics, atomics whose old value is used, atomic loads, an unpinned subgroup
    width, and `math="native"` do; integer atomics whose old value is unused do not.
    """
    if kernel.options.math != "reproducible":
        return Reproducibility(False, 'math="native" uses the device\'s own functions', kernel.loc)
    used = {v for op in walk(kernel.body) for v in op.operands}
    for op in walk(kernel.body):
        if reason := _reason(op, used, pinned=kernel.options.subgroup_size is not None):
            return Reproducibility(False, reason, op.loc)
    return Reproducibility(True)


def _reason(op: Operation, used: set[Value], *, pinned: bool) -> str:
    """Why the op's effect depends on order, or an empty string."""
    if op.spec is ops.SUBGROUP_SIZE and not pinned:
        return "the subgroup size is not pinned"
    if op.spec in (ops.ATOMIC_LOAD, ops.ATOMIC_CAS):
        return f"the value of `{op.name}` depends on the order of work-items"
    if op.spec is not ops.ATOMIC_RMW:
        return ""
    kind, element = op.attrs["kind"], op.result.type
    if op.result in used:
        return f"the old value of atomic {kind} depends on the order of work-items"
    if kind == "exchange":
        return "the last atomic exchange wins, whichever it is"
    if isinstance(element, Scalar) and element.is_float and kind in ("add", "sub"):
        return f"the rounding of atomic {kind} on `{element}` depends on the order of work-items"
    return ""
