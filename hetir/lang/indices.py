"""Which work-item this is: ids and sizes, all `i64`; axis 0 is x, the fastest."""

from __future__ import annotations

from hetir.frontend.errors import IndexingError, NotStaticError
from hetir.frontend.primitive import current, primitive
from hetir.frontend.values import KernelValue, Typed, describe, is_plain
from hetir.ir import ops
from hetir.ir.core import Value
from hetir.ir.ops import Spec


def _along(spec: Spec, axis: KernelValue) -> Value:
    tracer = current()
    if not is_plain(axis):
        tracer.fail(
            NotStaticError, f"the dimension must be a constant, got {describe(axis)}",
            hint="write 0, 1 or 2",
        )  # fmt: skip
    if type(axis) is not int or not 0 <= axis <= 2:
        tracer.fail(IndexingError, f"the dimension must be 0, 1 or 2, got {describe(axis)}")
    return tracer.once(spec, axis=axis)


@primitive
def global_id(axis: int = 0) -> KernelValue:
    """Index of the work-item in the whole grid along `axis`: 0 to `global_size(axis)` - 1."""
    return Typed(_along(ops.GLOBAL_ID, axis))


@primitive
def local_id(axis: int = 0) -> KernelValue:
    """Index of the work-item in its workgroup along `axis`."""
    return Typed(_along(ops.LOCAL_ID, axis))


@primitive
def group_id(axis: int = 0) -> KernelValue:
    """Index of the workgroup in the grid along `axis`; uniform."""
    return Typed(_along(ops.GROUP_ID, axis))


@primitive
def group_size(axis: int = 0) -> KernelValue:
    """Work-items of a workgroup along `axis`; uniform."""
    return Typed(_along(ops.GROUP_SIZE, axis))


@primitive
def num_groups(axis: int = 0) -> KernelValue:
    """Workgroups of the grid along `axis`; uniform."""
    return Typed(_along(ops.NUM_GROUPS, axis))


@primitive
def global_size(axis: int = 0) -> KernelValue:
    """Work-items of the grid along `axis`: `num_groups(axis) * group_size(axis)`; uniform."""
    groups, size = _along(ops.NUM_GROUPS, axis), _along(ops.GROUP_SIZE, axis)
    return Typed(current().once(ops.MUL, groups, size))


@primitive
def lane_id() -> KernelValue:
    """Index of the work-item in its subgroup."""
    return Typed(current().once(ops.LANE_ID))


@primitive
def subgroup_id() -> KernelValue:
    """Index of the subgroup in its workgroup."""
    return Typed(current().once(ops.SUBGROUP_ID))


@primitive
def subgroup_size() -> KernelValue:
    """Work-items of a subgroup: 32 unless the kernel pins another width."""
    return Typed(current().once(ops.SUBGROUP_SIZE))
