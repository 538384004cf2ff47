"""Refuses barriers and subgroup operations that not all work-items would reach together."""

from __future__ import annotations

from hetir.diagnostics import CompileError, Label
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, walk
from hetir.passes.regions import LOOPS
from hetir.passes.uniformity import Uniformity, uniformity

_SUBGROUP_OPS = (ops.SHUFFLE, ops.BALLOT, ops.VOTE, ops.SUBGROUP_REDUCE, ops.SUBGROUP_SCAN)
_WORDS = {"subgroup": "subgroup", "workgroup": "workgroup", "device": "grid"}


class DivergentBarrierError(CompileError):
    """A barrier or subgroup operation stands where only some work-items may arrive.

    All work-items of the workgroup (of the subgroup for subgroup operations, of the grid for
    grid barriers) must reach it or none. Fix: move it out of the branch or loop whose
    condition differs between work-items, return later, or state with `hl.assume_uniform`
    that the condition does not differ.
    """

    code = "HET301"


def check_barriers(kernel: Kernel) -> None:
    """Raise DivergentBarrierError for the first op that waits in divergent control flow."""
    known: dict[str, Uniformity] = {}
    for op in walk(kernel.body):
        scope = _scope(op)
        if scope is None:
            continue
        if scope not in known:
            known[scope] = uniformity(kernel, scope=scope)
        if known[scope].divergent(op):
            raise _error(op, scope, known[scope])


def _scope(op: Operation) -> str | None:
    """The work-items that must reach the op together."""
    if op.spec is ops.BARRIER:
        return str(op.attrs["scope"])
    return "subgroup" if op.spec in _SUBGROUP_OPS else None


def _error(op: Operation, scope: str, found: Uniformity) -> DivergentBarrierError:
    what = "barrier" if op.spec is ops.BARRIER else f"`{op.name}`"
    where = _WORDS[scope]
    split = found.reason(op)
    assert split is not None
    labels = [Label(op.loc, "some work-items may not arrive here")] if op.loc else []
    kind = "loop" if split.spec in LOOPS else "condition"
    if split.loc:
        labels.append(Label(split.loc, f"this {kind} may differ between work-items"))
    tested = split.operands[:3] if split.spec is ops.FOR else split.operands[:1]
    origin = next((o for v in tested if (o := found.origin(v))), None)
    if origin is not None and origin.loc and origin.loc != split.loc:
        labels.append(Label(origin.loc, f"because of this `{origin.name}`"))
    return DivergentBarrierError(
        f"{what} in control flow that is not the same for the whole {where}",
        *labels,
        hint="move it out, or wrap the condition in `hl.assume_uniform(...)` if it never differs",
    )
