"""Refuses barriers and subgroup operations that not all work-items would reach together."""

from __future__ import annotations

from hetir.diagnostics import CompileError, Label
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Value, walk
from hetir.passes.regions import LOOPS, definitions
from hetir.passes.uniformity import Uniformity, uniformity

_SUBGROUP_OPS = (ops.SHUFFLE, ops.BALLOT, ops.VOTE, ops.SUBGROUP_REDUCE, ops.SUBGROUP_SCAN)
_WORDS = {"subgroup": "subgroup", "workgroup": "workgroup", "device": "grid"}


class DivergentBarrierError(CompileError):
    """A barrier or subgroup operation stands where only some work-items may arrive.

    Cause: all work-items of the workgroup (of the subgroup for subgroup operations, of the grid
    for grid barriers) must reach it or none. Fix: move it out of the branch or loop whose
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
            raise _error(op, scope, known[scope], definitions(kernel.body))


def _scope(op: Operation) -> str | None:
    """The work-items that must reach the op together."""
    if op.spec is ops.BARRIER:
        return str(op.attrs["scope"])
    return "subgroup" if op.spec in _SUBGROUP_OPS else None


def _error(
    op: Operation, scope: str, found: Uniformity, defs: dict[Value, Operation]
) -> DivergentBarrierError:
    what = "barrier" if op.spec is ops.BARRIER else f"`{op.name}`"
    split = found.reason(op)
    assert split is not None
    labels = [Label(op.loc, "some work-items may not arrive here")] if op.loc else []
    tested = split.operands[: {ops.IF: 1, ops.FOR: 3}.get(split.spec, 0)]
    culprit = next((v for v in tested if found.varying(v)), None)
    made = defs.get(culprit) if culprit is not None else None
    kind = "loop" if split.spec in LOOPS else "condition"
    place = made.loc if made and made.loc and kind == "condition" else split.loc
    if place:
        labels.append(Label(place, f"this {kind} may differ between work-items"))
    origin = found.origin(culprit) if culprit is not None else None
    if origin is not None and origin.loc and origin.loc != place:
        labels.append(Label(origin.loc, f"because of this `{origin.name}`"))
    return DivergentBarrierError(
        f"{what} in control flow that is not the same for the whole {_WORDS[scope]}",
        *labels,
        hint="move it out, or wrap the condition in `hl.assume_uniform(...)` if it never differs",
    )
