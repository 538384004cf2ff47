"""Residency on a streaming multiprocessor, equal to NVIDIA's cuda_occupancy.h (7.0 and newer)."""

from __future__ import annotations

from hetir.limits import Limits, NvidiaUnit
from hetir.residency.model import (
    BARRIERS,
    REGISTERS,
    SHARED_MEMORY,
    SUBGROUPS,
    VIRTUAL_RESOURCES,
    WORKGROUPS,
    Request,
    Residency,
)


def residency(limits: Limits, unit: NvidiaUnit, request: Request) -> Residency:
    """Workgroups that each resource admits, shared memory with opt-in."""
    subgroups = -(-request.workgroup_size // 32)
    # a subgroup is handed its registers in granules
    per_subgroup = -(-request.registers * 32 // unit.register_granule) * unit.register_granule
    used = request.shared_bytes + unit.reserved_shared_bytes
    allocated = -(-used // unit.shared_granule) * unit.shared_granule
    max_subgroups = unit.work_items // 32
    fits = request.workgroup_size <= limits.max_workgroup_size
    barriers = request.barriers if unit.barriers else 0
    virtual = request.virtual_resources if unit.virtual_resources else 0
    return Residency(
        bounds={
            SUBGROUPS: max_subgroups // subgroups if fits else 0,
            WORKGROUPS: unit.workgroups,
            REGISTERS: _by_registers(unit, request.registers, per_subgroup, subgroups),
            SHARED_MEMORY: _by_shared(limits, unit, allocated, request.carveout),
            BARRIERS: unit.barriers // barriers if barriers else None,
            VIRTUAL_RESOURCES: unit.virtual_resources // virtual if virtual else None,
        },
        subgroups_per_group=subgroups,
        max_subgroups=max_subgroups,
        allocated_registers=per_subgroup * subgroups,
        allocated_shared_bytes=allocated,
    )


def carveouts(unit: NvidiaUnit) -> tuple[tuple[int, int], ...]:
    """The sizes in bytes that the unit's shared memory can have, each with the percentage for it.

    The driver rounds a percentage up to the next size, so it is the size's own rounded down.
    """
    sizes = (kib * 1024 for kib in unit.carveouts_kib)
    return tuple((size, 100 * size // unit.unit_shared_bytes) for size in sizes)


def _by_registers(
    unit: NvidiaUnit, registers: int, per_subgroup: int, subgroups: int
) -> int | None:
    partitions = unit.partitions
    # the launch check counts as if every partition held its share of a whole round
    assumed = per_subgroup * (-(-subgroups // partitions) * partitions)
    if assumed > unit.registers_per_workgroup or registers > unit.max_registers:
        return 0
    if not per_subgroup:
        return None
    return unit.registers // partitions // per_subgroup * partitions // subgroups


def _by_shared(
    limits: Limits, unit: NvidiaUnit, allocated: int, carveout: int | None
) -> int | None:
    if allocated > limits.shared_bytes_optin + unit.reserved_shared_bytes:
        return 0
    if not allocated:
        return None
    preferred = unit.unit_shared_bytes
    if carveout is not None:
        preferred = _step(unit, unit.unit_shared_bytes * carveout // 100)
    # one workgroup always runs: a preference too small for it gives way
    total = preferred if preferred >= allocated else _step(unit, allocated)
    return total // allocated


def _step(unit: NvidiaUnit, wanted: int) -> int:
    return next(kib * 1024 for kib in unit.carveouts_kib if wanted <= kib * 1024)
