"""What a SIMD kernel becomes before it is emitted: legal ops, known extents, plain exits."""

from __future__ import annotations

from collections.abc import Sequence

from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Operation, walk
from hetir.ir.rewrite import Env, map_kernel, rebuild
from hetir.ir.types import I64
from hetir.passes.cse import cse
from hetir.passes.dce import dce
from hetir.passes.expand_arrays import expand_arrays
from hetir.passes.fold import fold
from hetir.passes.legalize import legalize
from hetir.passes.licm import licm
from hetir.passes.lower_exits import lower_exits
from hetir.passes.simplify import simplify
from hetir.target import Target

Dims = tuple[int, int, int]

# barriers and exchanges tie the work-items of a workgroup together: they must be one pass
_TYING = (
    *(ops.BARRIER, ops.SHUFFLE, ops.BALLOT, ops.VOTE, ops.SUBGROUP_REDUCE, ops.SUBGROUP_SCAN),
    *(ops.LANE_ID, ops.SUBGROUP_ID),
)
# no `identities`: it would join the casts that `legalize` took apart
_AFTER = (fold, cse, licm, dce)


def ties(kernel: Kernel) -> bool:
    """Whether the work-items of a workgroup work together."""
    shared = any(
        op.spec is ops.ALLOC and getattr(op.attrs["type"], "space", "") == "shared"
        for op in walk(kernel.body)
    )
    return shared or any(op.spec in _TYING for op in walk(kernel.body))


def lowered(kernel: Kernel, target: Target, extents: Dims | None) -> Kernel:
    """The kernel in the form that the emitter takes; `extents` are the workgroup's, if known."""
    fixed = simplify(with_extents(kernel, extents)) if extents else kernel
    legal = legalize(simplify(expand_arrays(fixed)), target)
    plain = lower_exits(_tidy(legal))
    return _tidy(plain)


def _tidy(kernel: Kernel) -> Kernel:
    for one in (*_AFTER, *_AFTER):
        kernel = one(kernel)
    return kernel


def with_extents(kernel: Kernel, extents: Dims) -> Kernel:
    """The workgroup's extents, and the local ids that can only be 0, as numbers."""

    def visit(op: Operation, env: Env) -> list[Operation]:
        known = _known(op, extents)
        if known is None:
            return [rebuild(op, env, visit)]
        builder = Builder(op.loc)
        env[op.result] = builder.const(I64, known)
        return builder.body

    return map_kernel(kernel, visit)


def _known(op: Operation, extents: Sequence[int]) -> int | None:
    axis = op.attrs.get("axis")
    if op.spec is ops.GROUP_SIZE and isinstance(axis, int):
        return extents[axis]
    if op.spec is ops.LOCAL_ID and isinstance(axis, int) and extents[axis] == 1:
        return 0
    return None
