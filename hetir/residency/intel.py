"""Residency on an Intel Xe-core, as Intel's GPU Occupancy Calculator counts it."""

from __future__ import annotations

from hetir.limits import IntelUnit, Limits
from hetir.residency.model import (
    BARRIERS,
    REGISTERS,
    SHARED_MEMORY,
    SUBGROUPS,
    WORKGROUPS,
    Request,
    Residency,
    ceil_div,
)


def residency(limits: Limits, unit: IntelUnit, request: Request) -> Residency:
    """Workgroups that each resource admits; a subgroup takes one hardware thread.

    More than `unit.registers` registers select the large mode, which halves the threads.
    """
    threads = ceil_div(request.workgroup_size, request.subgroup_size)
    most = unit.engines * unit.threads_per_engine
    fits = request.workgroup_size <= limits.max_workgroup_size
    shared = _shared_step(unit, request.shared_bytes)
    return Residency(
        bounds={
            SUBGROUPS: most // threads if fits else 0,
            WORKGROUPS: unit.workgroups,
            REGISTERS: _by_registers(unit, request.registers, most, threads),
            SHARED_MEMORY: _by_shared(limits, unit, shared),
            BARRIERS: unit.barriers if request.barriers else None,
        },
        subgroups_per_group=threads,
        max_subgroups=most,
        allocated_registers=_mode(unit, request.registers) * threads,
        allocated_shared_bytes=shared,
    )


def _mode(unit: IntelUnit, registers: int) -> int:
    return unit.registers if registers <= unit.registers else unit.large_registers


def _by_registers(unit: IntelUnit, registers: int, most: int, threads: int) -> int | None:
    if registers <= unit.registers:
        return None
    return most // 2 // threads if registers <= unit.large_registers else 0


def _shared_step(unit: IntelUnit, used: int) -> int:
    steps = (kib * 1024 for kib in unit.shared_steps_kib)
    return next((step for step in steps if used <= step), used)


def _by_shared(limits: Limits, unit: IntelUnit, allocated: int) -> int | None:
    if allocated > limits.shared_bytes_optin:
        return 0
    return unit.unit_shared_bytes // allocated if allocated else None
