"""`hetir.occupancy`: how many workgroups are resident on one unit, and what limits them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from hetir.limits import Limits, NvidiaUnit, check_cluster, limits_of
from hetir.residency import nvidia
from hetir.residency.advice import Suggestion, best_workgroup_size, suggestions
from hetir.residency.count import residency_of
from hetir.residency.model import (
    OccupancyInputError,
    Request,
    Residency,
    ceil_div,
    subgroup_size_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """How a grid fills the device: it runs in waves of `capacity` workgroups, the last one partly.

    `efficiency` is the share of the waves' places that hold a workgroup, 0 to 1.
    """

    groups: int
    units: int
    capacity: int
    waves: int
    last_wave_groups: int
    efficiency: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Clusters of `size` workgroups on the device; `idle_groups` places stay empty on `units`.

    An estimate: it takes the processing clusters of the device as equally large.
    """

    size: int
    portable: bool
    active_clusters: int
    idle_groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Carveout:
    """One split of NVIDIA's first-level memory: `percent` asks for it, `groups` run with it."""

    shared_bytes: int
    percent: int
    groups_per_unit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """What is resident on one unit (multiprocessor, compute unit, Xe-core, core).

    `fraction` is active subgroups over the most that the unit holds. `bounds` gives, for each
    limiter, how many workgroups it alone would admit (None: any number); `limiter` is the
    smallest, `limiters` all that are equally small. 0 groups means that it cannot launch.
    """

    limits: Limits
    request: Request
    residency: Residency
    groups_per_unit: int
    subgroups_per_unit: int
    fraction: float
    limiter: str
    limiters: tuple[str, ...]

    @property
    def bounds(self) -> Mapping[str, int | None]:
        """Workgroups that each limiter alone would admit."""
        return self.residency.bounds

    @property
    def max_subgroups_per_unit(self) -> int:
        """The most subgroups that a unit holds."""
        return self.residency.max_subgroups

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """Changes of one figure that raise the fraction, the largest gain first."""
        return suggestions(self.limits, self.request)

    @property
    def best_workgroup_size(self) -> int:
        """The size with the most work-items resident, the largest of equals; 0 if none fits."""
        return best_workgroup_size(self.limits, self.request)

    def tail(self, grid: int | Sequence[int], units: int | None = None) -> Tail:
        """How `grid` workgroups fill `units` (the first part of the target's family by default)."""
        groups = grid if isinstance(grid, int) else prod(grid)
        count = _units(self.limits, units)
        capacity = self.groups_per_unit * count
        if not capacity or not groups:
            last, waves, efficiency = 0, 0, 0.0
        else:
            waves = ceil_div(groups, capacity)
            last = groups - (waves - 1) * capacity
            efficiency = groups / (waves * capacity)
        return Tail(
            groups=groups,
            units=count,
            capacity=capacity,
            waves=waves,
            last_wave_groups=last,
            efficiency=efficiency,
        )

    def cluster(self, size: int, units_per_cluster_domain: int, domains: int) -> Cluster:
        """Clusters of `size` on a device of `domains` processing clusters of so many units each.

        All workgroups of a cluster run on one processing cluster. Raises ClusterSizeError.
        """
        check_cluster(self.limits, size)
        places = units_per_cluster_domain * self.groups_per_unit
        active = places // size * domains
        unit = self.limits.unit
        portable = size <= unit.max_cluster_size if isinstance(unit, NvidiaUnit) else size == 1
        return Cluster(
            size=size,
            portable=portable,
            active_clusters=active,
            idle_groups=places * domains - active * size,
        )

    def carveouts(self) -> tuple[Carveout, ...]:
        """Each split of the first-level memory and what it gives; empty where there is none."""
        unit = self.limits.unit
        if not isinstance(unit, NvidiaUnit):
            return ()
        found: list[Carveout] = []
        for step, percent in nvidia.carveouts(unit):
            given = residency_of(self.limits, replace(self.request, carveout=percent))
            found.append(Carveout(shared_bytes=step, percent=percent, groups_per_unit=given.groups))
        return tuple(found)


def occupancy(  # noqa: PLR0913 - a keyword for each figure that a vendor counts
    target: str | Limits,
    workgroup_size: int | Sequence[int] = 256,
    registers: int = 64,
    shared_bytes: int = 49152,
    *,
    barriers: int = 1,
    carveout: int | None = None,
    subgroup_size: int | None = None,
    scalar_registers: int = 0,
    accumulation_registers: int = 0,
    virtual_resources: int = 0,
) -> Occupancy:
    """How many workgroups of a kernel are resident on one unit of `target`.

    `target` is a name of `hetir targets` (`ptx:sm_90`, `amd:gfx942`, `intel:xe-hpc`,
    `ascend:950`) or its Limits. `shared_bytes` is static plus dynamic. Further figures: see
    Request. Raises OccupancyInputError for impossible figures and targets without a model.
    """
    limits = limits_of(target) if isinstance(target, str) else target
    size = workgroup_size if isinstance(workgroup_size, int) else prod(workgroup_size)
    request = Request(
        workgroup_size=size,
        registers=registers,
        shared_bytes=shared_bytes,
        barriers=barriers,
        carveout=carveout,
        subgroup_size=subgroup_size_of(limits, subgroup_size),
        scalar_registers=scalar_registers,
        accumulation_registers=accumulation_registers,
        virtual_resources=virtual_resources,
    )
    _check(request)
    found = residency_of(limits, request)
    groups = found.groups
    subgroups = groups * found.subgroups_per_group
    limiters = tuple(name for name, bound in found.bounds.items() if bound == groups)
    return Occupancy(
        limits=limits,
        request=request,
        residency=found,
        groups_per_unit=groups,
        subgroups_per_unit=subgroups,
        fraction=subgroups / found.max_subgroups,
        limiter=limiters[0],
        limiters=limiters,
    )


def _check(request: Request) -> None:
    carveout = request.carveout
    if request.workgroup_size < 1:
        raise OccupancyInputError(
            f"a workgroup of {request.workgroup_size} work-items is no workgroup",
            hint="give a size of at least 1",
        )
    if carveout is not None and not 0 <= carveout <= 100:
        raise OccupancyInputError(
            f"a carve-out of {carveout} percent is none", hint="give 0 to 100 percent"
        )
    figures = (
        ("registers", request.registers),
        ("shared_bytes", request.shared_bytes),
        ("barriers", request.barriers),
        ("scalar_registers", request.scalar_registers),
        ("accumulation_registers", request.accumulation_registers),
        ("virtual_resources", request.virtual_resources),
    )
    for name, value in figures:
        if value < 0:
            raise OccupancyInputError(f"`{name}` is {value}", hint="give 0 or more")


def _units(limits: Limits, asked: int | None) -> int:
    if asked is not None:
        return asked
    if limits.unit is None or not limits.unit.parts:
        raise OccupancyInputError(
            f"the number of units of `{limits.target}` is not known", hint="give `units=`"
        )
    return limits.unit.parts[0].units
