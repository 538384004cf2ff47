"""The residency of a request on a target: which vendor's count applies."""

from __future__ import annotations

from typing import assert_never

from hetir.limits import AmdUnit, AscendUnit, CpuUnit, IntelUnit, Limits, NvidiaUnit
from hetir.residency import amd, cores, intel, nvidia
from hetir.residency.model import OccupancyInputError, Request, Residency


def residency_of(limits: Limits, request: Request) -> Residency:
    """The vendor's own count for one unit."""
    match limits.unit:
        case NvidiaUnit() as unit:
            return nvidia.residency(limits, unit, request)
        case AmdUnit() as unit:
            return amd.residency(limits, unit, request)
        case IntelUnit() as unit:
            return intel.residency(limits, unit, request)
        case AscendUnit() | CpuUnit() as unit:
            return cores.residency(limits, unit, request)
        case None:
            raise OccupancyInputError(
                f"`{limits.target}` runs on many devices and has no occupancy of its own",
                hint="name a device, for example `amd:gfx1100` or `intel:xe-hpc`",
            )
        case _:
            assert_never(limits.unit)
