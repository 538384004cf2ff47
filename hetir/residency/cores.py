"""Residency where a core runs one workgroup at a time: Ascend and CPU."""

from __future__ import annotations

from hetir.limits import AscendUnit, CpuUnit, Limits, max_registers
from hetir.residency.model import (
    REGISTERS,
    SHARED_MEMORY,
    SUBGROUPS,
    WORKGROUPS,
    Request,
    Residency,
    ceil_div,
    round_up,
)


def residency(limits: Limits, unit: AscendUnit | CpuUnit, request: Request) -> Residency:
    """One workgroup if it fits.

    In SIMT mode the fraction counts subgroups of the core's most; otherwise a core that has a
    workgroup is full, and only the tail of the grid costs.
    """
    subgroups = ceil_div(request.workgroup_size, request.subgroup_size)
    shared = round_up(request.shared_bytes, limits.shared_alignment)
    registers = max_registers(limits, request.workgroup_size)
    simt = isinstance(unit, AscendUnit) and unit.mode == "simt"
    fits = request.workgroup_size <= limits.max_workgroup_size
    return Residency(
        bounds={
            SUBGROUPS: int(fits),
            WORKGROUPS: 1,
            REGISTERS: None if registers is None else int(request.registers <= registers),
            SHARED_MEMORY: int(shared <= limits.shared_bytes_optin) if shared else None,
        },
        subgroups_per_group=subgroups,
        max_subgroups=limits.max_workgroup_size // request.subgroup_size if simt else subgroups,
        allocated_registers=(registers or request.registers) * request.workgroup_size,
        allocated_shared_bytes=shared,
    )
