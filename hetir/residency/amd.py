"""Residency on an AMD compute unit, or from gfx10 on the workgroup processor of two."""

from __future__ import annotations

from hetir.limits import AmdUnit, Limits
from hetir.residency.model import (
    BARRIERS,
    REGISTERS,
    SCALAR_REGISTERS,
    SHARED_MEMORY,
    SUBGROUPS,
    Request,
    Residency,
    ceil_div,
    round_up,
)


def residency(limits: Limits, unit: AmdUnit, request: Request) -> Residency:
    """Workgroups that each resource admits; registers are those of one work-item."""
    subgroups = ceil_div(request.workgroup_size, request.subgroup_size)
    most = unit.subgroups_per_simd * unit.simds
    fits = request.workgroup_size <= limits.max_workgroup_size
    used = _vector_registers(unit, request)
    column = limits.subgroup_sizes.index(request.subgroup_size)
    vector = round_up(used, unit.vector_granule[column])
    shared = round_up(request.shared_bytes, unit.shared_granule)
    return Residency(
        bounds={
            SUBGROUPS: most // subgroups if fits else 0,
            REGISTERS: _by_vector(unit, request, column, used, vector, subgroups),
            SCALAR_REGISTERS: _by_scalar(unit, request.scalar_registers, subgroups),
            SHARED_MEMORY: _by_shared(limits, unit, shared),
            # a workgroup of one subgroup has nobody to wait for and takes no barrier
            BARRIERS: None if subgroups == 1 else unit.barriers,
        },
        subgroups_per_group=subgroups,
        max_subgroups=most,
        allocated_registers=vector * request.subgroup_size * subgroups,
        allocated_shared_bytes=shared,
    )


def _vector_registers(unit: AmdUnit, request: Request) -> int:
    """What a work-item uses; in a unified file accumulation registers come on top."""
    if not (unit.unified_accumulation and request.accumulation_registers):
        return request.registers
    # the accumulation part starts at a multiple of four
    return round_up(request.registers, 4) + request.accumulation_registers


def _by_vector(
    unit: AmdUnit, request: Request, column: int, used: int, allocated: int, subgroups: int
) -> int | None:
    too_many = request.accumulation_registers > unit.accumulation_registers
    if too_many or used > unit.max_vector_registers:
        return 0
    if not allocated:
        return None
    return unit.vector_registers[column] // allocated * unit.simds // subgroups


def _by_scalar(unit: AmdUnit, registers: int, subgroups: int) -> int | None:
    # up to six more hold vcc, flat_scratch and xnack_mask, and count where a kernel uses them
    if registers > unit.max_scalar_registers + 6:
        return 0
    if not unit.scalar_registers or not registers:
        return None
    per_simd = unit.scalar_registers // round_up(registers, unit.scalar_granule)
    return per_simd * unit.simds // subgroups


def _by_shared(limits: Limits, unit: AmdUnit, allocated: int) -> int | None:
    if allocated > limits.shared_bytes_optin:
        return 0
    return unit.unit_shared_bytes // allocated if allocated else None
