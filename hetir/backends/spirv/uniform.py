"""Refuses subgroup operations where only a part of the workgroup would arrive."""

from __future__ import annotations

from hetir.backends.spirv.options import EXCHANGES
from hetir.diagnostics import CompileError, Label
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, walk
from hetir.passes.uniformity import uniformity


class PartialWorkgroupError(CompileError):
    """A subgroup operation stands where whole subgroups arrive, but not the whole workgroup.

    Cause: SPIR-V devices have subgroups of their own width, so that hetir's go through shared
    memory, with barriers. Fix: move the operation out of the branch, and state who takes part
    with `where=`; or wrap a condition that never differs in `hl.assume_uniform`.
    """

    code = "HET383"


def check_exchanges(kernel: Kernel, target: str) -> None:
    """Raise PartialWorkgroupError for the first exchange in divergent control flow."""
    exchanges = [op for op in walk(kernel.body) if _exchanges(op)]
    if not exchanges:
        return
    found = uniformity(kernel)
    for op in exchanges:
        if not found.divergent(op):
            continue
        split = found.reason(op)
        labels = [Label(op.loc, "some subgroups may not arrive here")] if op.loc else []
        if split is not None and split.loc:
            labels.append(Label(split.loc, "this may differ between subgroups"))
        raise PartialWorkgroupError(
            f"`{op.name}` in control flow that is not the same for the whole workgroup, "
            f"which `{target}` cannot do",
            *labels,
            hint="move it out of the branch and use `where=`",
        )


def _exchanges(op: Operation) -> bool:
    return op.spec in EXCHANGES or (op.spec is ops.BARRIER and op.attrs["scope"] == "subgroup")
