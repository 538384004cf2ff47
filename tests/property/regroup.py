"""The same work-items in workgroups of another size."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Operation, Region, Value
from hetir.ir.rewrite import Env
from hetir.ir.types import I64
from hetir.passes.regions import replace_operands
from hetir.testing.cases import Case


def regrouped(case: Case, items: int) -> Case:
    """The case in one row of workgroups of `items`, ids computed as they were.

    For kernels whose work-items do not work together. Those past the last one return at once.
    """
    b = Builder()
    total = prod(case.grid) * prod(case.workgroup)
    size = b.const(I64, items)
    first = b.value(ops.MUL, b.value(ops.GROUP_ID, axis=0), size)
    rest = b.value(ops.ADD, first, b.value(ops.LOCAL_ID, axis=0))
    past = b.value(ops.GE, rest, b.const(I64, total))
    leave, stay = Builder(), Builder()
    leave.emit(ops.RETURN)
    stay.emit(ops.YIELD)
    b.emit(ops.IF, past, types=(), regions=(leave.region(), stay.region()))
    ids: dict[tuple[str, int], Value] = {}
    for name, extents in (("local_id", case.workgroup), ("group_id", case.grid)):
        for axis, extent in enumerate(extents):
            count = b.const(I64, extent)
            ids[name, axis] = b.value(ops.REM, rest, count)
            rest = b.value(ops.DIV, rest, count)
            ids["group_size" if name == "local_id" else "num_groups", axis] = count
    for axis in range(3):
        start = b.value(ops.MUL, ids["group_id", axis], ids["group_size", axis])
        ids["global_id", axis] = b.value(ops.ADD, start, ids["local_id", axis])
    env: Env = {}
    body = (*b.body, *_with(case.kernel.body, ids, env))
    kernel = replace(case.kernel, body=Region((), body))
    return replace(case, kernel=kernel, grid=(-(-total // items), 1, 1), workgroup=(items, 1, 1))


def _with(region: Region, ids: dict[tuple[str, int], Value], env: Env) -> list[Operation]:
    """The ops of a region without the ids, for which there are values."""
    kept: list[Operation] = []
    for op in region.body:
        value = ids.get((op.name, op.attrs["axis"])) if "axis" in op.attrs else None
        if value is not None:
            env[op.result] = value
            continue
        regions = tuple(Region(r.args, tuple(_with(r, ids, env))) for r in op.regions)
        kept.append(replace_operands(replace(op, regions=regions), env))
    return kept
