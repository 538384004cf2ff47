"""The question and the answer of the occupancy model, and what the vendors' models share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hetir.diagnostics import CompileError
from hetir.limits import Limits

# Names of the limiters, in the order in which one of several is named.
SUBGROUPS = "subgroups"
WORKGROUPS = "workgroups"
REGISTERS = "registers"
SCALAR_REGISTERS = "scalar_registers"
SHARED_MEMORY = "shared_memory"
BARRIERS = "barriers"
VIRTUAL_RESOURCES = "virtual_resources"


class OccupancyInputError(CompileError):
    """A figure given to the occupancy model is impossible, or the target has no model.

    Cause: a negative figure, a percentage past 100, a width that the device lacks, or a target
    such as `spirv:vulkan` that is many devices. Fix: name a device of `hetir targets`.
    """

    code = "HET409"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What one workgroup of a kernel uses; sizes in bytes, registers per work-item.

    `shared_bytes` is static plus dynamic. `carveout` is NVIDIA's preference in percent of the
    unit's shared memory (None: the driver's default). `scalar_registers` and
    `accumulation_registers` are AMD's; on Intel `registers` are GRF registers a hardware thread.
    """

    workgroup_size: int
    registers: int
    shared_bytes: int
    barriers: int = 1
    carveout: int | None = None
    subgroup_size: int = 32
    scalar_registers: int = 0
    accumulation_registers: int = 0
    virtual_resources: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Residency:
    """A vendor's answer: how many workgroups each resource admits on one unit (None: any)."""

    bounds: Mapping[str, int | None]
    subgroups_per_group: int
    max_subgroups: int
    allocated_registers: int
    allocated_shared_bytes: int

    @property
    def groups(self) -> int:
        """Workgroups that are resident together: the least of the bounds."""
        return min([bound for bound in self.bounds.values() if bound is not None])

    @property
    def subgroups(self) -> int:
        """Subgroups that are resident together."""
        return self.groups * self.subgroups_per_group

    @property
    def fraction(self) -> float:
        """Resident subgroups over the most that the unit holds."""
        return self.subgroups / self.max_subgroups


def ceil_div(a: int, b: int) -> int:
    """`a / b` rounded up."""
    return -(-a // b)


def round_up(a: int, granule: int) -> int:
    """The least multiple of `granule` that is at least `a`."""
    return -(-a // granule) * granule


def subgroup_size_of(limits: Limits, asked: int | None) -> int:
    """The subgroup width to model, the target's own choice where none is asked."""
    if asked is None:
        return limits.subgroup_size
    if asked not in limits.subgroup_sizes:
        native = ", ".join(str(size) for size in limits.subgroup_sizes)
        raise OccupancyInputError(
            f"`{limits.target}` has no subgroup of {asked} work-items", hint=f"use {native}"
        )
    return asked
