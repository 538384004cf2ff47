"""The errors of a kernel or launch that asks for more than its target has."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hetir.diagnostics import CompileError, Label
from hetir.limits.model import AscendUnit, Limits, NvidiaUnit

_MAX_ITEMS = 2**63 - 1


class SharedMemoryError(CompileError):
    """A workgroup asks for more shared memory than the target has.

    Cause: `hl.shared` arrays of too many bytes together, alignment included. Fix: smaller tiles.
    """

    code = "HET401"


class PrivateMemoryError(CompileError):
    """A work-item asks for more private memory than the target has.

    Cause: `hl.private` arrays of too many bytes together. Fix: smaller ones, or an array argument
    with an axis over the work-items.
    """

    code = "HET411"


class UnifiedBufferError(CompileError):
    """A workgroup's data and tiles do not fit the Unified Buffer of an Ascend core.

    Cause: shared arrays, varying values and transfer buffers together. Fix: smaller tiles.
    """

    code = "HET402"


class GridError(CompileError):
    """A grid has an extent that no launch can have.

    Cause: a negative extent, more than three, more than 2^63 - 1 work-items, or an extent past
    the hardware's where the launch cannot be folded. Fix: more work for each work-item.
    """

    code = "HET403"


class WorkgroupSizeError(CompileError):
    """A workgroup has more work-items than the target allows, or an extent past its limit.

    Cause: the size, or one dimension of it. Fix: a smaller workgroup and a larger grid.
    """

    code = "HET404"


class AlignmentError(CompileError):
    """An address, size or view is not aligned as the target requires.

    Cause: an offset that is no multiple of what the target moves. Fix: pad to it.
    """

    code = "HET405"


class RegisterError(CompileError):
    """A workgroup of this size cannot have that many registers a work-item.

    Cause: the unit's registers are fewer than both together. Fix: smaller workgroups.
    """

    code = "HET406"


class SubgroupSizeError(CompileError):
    """A pinned subgroup width that the target neither has nor can emulate.

    Cause: a width that is no power of two up to 128. Fix: pin one that is.
    """

    code = "HET407"


class ClusterSizeError(CompileError):
    """A cluster of workgroups that the target does not form.

    Cause: a target before sm_90, or too many workgroups. Fix: a smaller cluster, or none.
    """

    code = "HET408"


def check_launch_shape(
    limits: Limits,
    grid: Sequence[int],
    workgroup: Sequence[int],
    *labels: Label,
    folded: bool = True,
) -> None:
    """Refuse a grid or workgroup that `limits` does not allow; see the two checks."""
    check_workgroup(limits, workgroup, *labels)
    check_grid(limits, grid, workgroup, *labels, folded=folded)


def check_workgroup(limits: Limits, workgroup: Sequence[int], *labels: Label) -> None:
    """Raise WorkgroupSizeError unless the extents and their product are within the limits."""
    shape = _shape(workgroup)
    if not 1 <= len(workgroup) <= 3 or min(workgroup) < 1:
        raise WorkgroupSizeError(
            f"a workgroup has 1 to 3 extents of at least 1, got `{shape}`",
            *labels,
            hint="write for example `workgroup=(16, 16)`",
        )
    for axis, (asked, most) in enumerate(zip(workgroup, limits.max_workgroup_dims, strict=False)):
        # an extent past the product's own limit is better told as that
        if asked > most and most < limits.max_workgroup_size:
            raise WorkgroupSizeError(
                f"workgroup `{shape}` has {asked} work-items in dimension {axis}, "
                f"`{limits.target}` has at most {most}",
                *labels,
                hint=f"move work-items to dimension 0, which takes {limits.max_workgroup_dims[0]}",
            )
    size = prod(workgroup)
    if size > limits.max_workgroup_size:
        raise WorkgroupSizeError(
            f"workgroup `{shape}` has {size} work-items, "
            f"`{limits.target}` has at most {limits.max_workgroup_size}",
            *labels,
            hint=f"use a workgroup of {_smaller(workgroup, limits)} and a larger grid",
        )


def check_grid(
    limits: Limits,
    grid: Sequence[int],
    workgroup: Sequence[int] = (1,),
    *labels: Label,
    folded: bool = True,
) -> None:
    """Raise GridError for extents that are negative, too many or too large.

    An extent past the hardware's own is folded into one that fits; a launch that cannot be
    folded (cooperative, or of a foreign kernel) says `folded=False` and is held to it.
    """
    shape = _shape(grid)
    if not 1 <= len(grid) <= 3 or min(grid) < 0:
        raise GridError(
            f"a grid has 1 to 3 extents of at least 0, got `{shape}`",
            *labels,
            hint="write for example `grid=(hetir.cdiv(n, 256),)`",
        )
    items = prod(grid) * prod(workgroup)
    if items > _MAX_ITEMS:
        raise GridError(
            f"grid `{shape}` of workgroups `{_shape(workgroup)}` has {items} work-items, "
            f"a launch has at most {_MAX_ITEMS}",
            *labels,
            hint="split the launch, or let each work-item do more",
        )
    if folded:
        return
    for axis, (asked, most) in enumerate(zip(grid, limits.max_grid_dims, strict=False)):
        if asked > most:
            raise GridError(
                f"grid `{shape}` has {asked} workgroups in dimension {axis}, "
                f"`{limits.target}` launches at most {most} there without folding",
                *labels,
                hint="let each workgroup loop over several tiles",
            )


def check_shared(limits: Limits, asked_bytes: int, *labels: Label) -> None:
    """Raise SharedMemoryError (UnifiedBufferError on Ascend) past `shared_bytes_optin`.

    `asked_bytes` is the whole of a workgroup, static and dynamic, padding for alignment included.
    """
    available = limits.shared_bytes_optin
    if asked_bytes <= available:
        return
    error = UnifiedBufferError if isinstance(limits.unit, AscendUnit) else SharedMemoryError
    raise error(
        f"a workgroup asks for {asked_bytes} bytes of {limits.shared_name}, "
        f"`{limits.target}` has {available}",
        *labels,
        hint=f"use {_bytes(asked_bytes - available)} less: a tile of {available // 4} `f32` "
        f"or {available // 2} `f16` elements fits",
    )


def check_private(limits: Limits, asked_bytes: int, *labels: Label) -> None:
    """Raise PrivateMemoryError where a work-item's arrays take more than `private_bytes`."""
    if asked_bytes > limits.private_bytes:
        raise PrivateMemoryError(
            f"a work-item asks for {asked_bytes} bytes of private memory, "
            f"`{limits.target}` has at most {limits.private_bytes}",
            *labels,
            hint="use smaller arrays, or an array argument with one row a work-item",
        )


def check_alignment(limits: Limits, what: str, offset_bytes: int, *labels: Label) -> None:
    """Raise AlignmentError unless the offset is a multiple of the target's `shared_alignment`."""
    required = limits.shared_alignment
    if offset_bytes % required == 0:
        return
    padded = -(-offset_bytes // required) * required
    raise AlignmentError(
        f"{what} is at {offset_bytes} bytes, `{limits.target}` requires a multiple of {required}",
        *labels,
        hint=f"pad it to {padded} bytes",
    )


def max_registers(limits: Limits, workgroup_size: int) -> int | None:
    """The most registers a work-item may use in a workgroup of that size; None where unlimited."""
    match limits.unit:
        case NvidiaUnit() as unit:
            subgroups = -(-workgroup_size // limits.subgroup_size)
            rounded = -(-subgroups // unit.partitions) * unit.partitions
            granules = unit.registers_per_workgroup // rounded // unit.register_granule
            # 255 is the last register that an instruction can name
            return min(255, granules * unit.register_granule // limits.subgroup_size)
        case AscendUnit(register_steps=steps) if steps:
            return next((registers for size, registers in steps if workgroup_size <= size), 0)
        case _:
            return None


def check_registers(limits: Limits, registers: int, workgroup_size: int, *labels: Label) -> None:
    """Raise RegisterError when no workgroup of that size can be resident."""
    available = max_registers(limits, workgroup_size)
    if available is None or registers <= available:
        return
    sizes = range(limits.subgroup_size, workgroup_size, limits.subgroup_size)
    fits = [size for size in sizes if registers <= (max_registers(limits, size) or 0)]
    hint = f"use a workgroup of at most {fits[-1]} work-items" if fits else "use fewer registers"
    raise RegisterError(
        f"a work-item uses {registers} registers, `{limits.target}` has {available} "
        f"for each of {workgroup_size} work-items",
        *labels,
        hint=hint,
    )


def check_subgroup(limits: Limits, width: int, *labels: Label) -> None:
    """Raise SubgroupSizeError unless `width` is a power of two from 1 to 128.

    Widths that the hardware lacks are emulated, so they are no error.
    """
    if width in (1, 2, 4, 8, 16, 32, 64, 128):
        return
    native = ", ".join(str(size) for size in limits.subgroup_sizes)
    raise SubgroupSizeError(
        f"a subgroup of {width} work-items is neither there nor emulated",
        *labels,
        hint=f"use a power of two up to 128; `{limits.target}` has {native}",
    )


def check_cluster(limits: Limits, size: int, *labels: Label) -> None:
    """Raise ClusterSizeError when workgroups do not form clusters of `size`."""
    most = limits.unit.max_cluster_size_optin if isinstance(limits.unit, NvidiaUnit) else 1
    if 1 <= size <= most:
        return
    hint = "launch without a cluster" if most == 1 else f"use a cluster of 1 to {most} workgroups"
    raise ClusterSizeError(
        f"a cluster of {size} workgroups is asked for, `{limits.target}` forms at most {most}",
        *labels,
        hint=hint,
    )


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def _shape(extents: Sequence[int]) -> str:
    return ",".join(str(extent) for extent in extents)


def _smaller(workgroup: Sequence[int], limits: Limits) -> str:
    """The workgroup with its largest extents halved until it fits."""
    shape = list(workgroup)
    while prod(shape) > limits.max_workgroup_size:
        largest = shape.index(max(shape))
        shape[largest] = shape[largest] // 2
    return f"`{_shape(shape)}`"
