"""What would make more of a kernel resident, and which workgroup to launch without measuring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2, prod

from hetir.limits import Limits, NvidiaUnit
from hetir.residency import nvidia
from hetir.residency.count import residency_of
from hetir.residency.model import (
    BARRIERS,
    REGISTERS,
    SCALAR_REGISTERS,
    SHARED_MEMORY,
    Request,
    Residency,
    ceil_div,
    round_up,
    subgroup_size_of,
)

_SHARED_STEP_BYTES = 128
_USUAL_SIZE = 256
_NEARLY = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """Figures that make more subgroups resident, by parameter name, and what they give."""

    changes: Mapping[str, int]
    text: str
    groups_per_unit: int
    subgroups_per_unit: int
    fraction: float


def suggestions(limits: Limits, request: Request) -> tuple[Suggestion, ...]:
    """The least changes that raise the fraction, the largest gain first.

    Figures that limit equally must change together; otherwise each change is one figure.
    """
    now = residency_of(limits, request)
    if now.fraction >= 1:
        return ()
    best = best_workgroup_size(limits, request)
    tried = [
        _relieved(limits, request, now),
        *({"carveout": percent} for percent in _larger_carveouts(limits, request)),
        {"workgroup_size": best} if best else {},
    ]
    found: dict[str, Suggestion] = {}
    for changes in tried:
        given = residency_of(limits, replace(request, **changes))
        if given.subgroups > now.subgroups:
            # the first of several carve-outs is the least
            found.setdefault(next(iter(changes)), _suggestion(request, changes, given))
    return tuple(sorted(found.values(), key=lambda s: -s.fraction))


def best_workgroup_size(limits: Limits, request: Request) -> int:
    """The size with the most work-items resident on a unit, the largest of equals."""
    width = request.subgroup_size
    best, most = 0, 0
    for size in range(round_up(limits.max_workgroup_size, width), 0, -width):
        tried = min(size, limits.max_workgroup_size)
        resident = tried * residency_of(limits, replace(request, workgroup_size=tried)).groups
        if resident > most:
            best, most = tried, resident
    return best


def suggest_workgroup(
    limits: Limits,
    extents: Sequence[int] | int,
    *,
    registers: int = 32,
    shared_bytes: int = 0,
    units: int | None = None,
) -> tuple[int, ...]:
    """The workgroup to launch a kernel over `extents` work-items with, from the model alone.

    The sizes are powers of two times the subgroup; the winner keeps the most subgroups resident,
    lanes in use and units busy, and of nearly equal ones that next to 256. `units` is how many the
    device has, where the caller knows it. A target without a model gets 256 or its limit.
    """
    shape = (extents,) if isinstance(extents, int) else tuple(extents)
    width = subgroup_size_of(limits, None)
    top = min(limits.max_workgroup_size, 1024)
    sizes = [size for size in (width << shift for shift in range(11)) if size <= top]
    if limits.unit is None:
        return _spread(max(size for size in sizes if size <= _USUAL_SIZE), shape, width)
    count = units or (limits.unit.parts[0].units if limits.unit.parts else 1)
    base = Request(
        workgroup_size=1, registers=registers, shared_bytes=shared_bytes, subgroup_size=width
    )

    scores: dict[int, float] = {}
    for size in sizes:
        group = _spread(size, shape, width)
        resident = residency_of(limits, replace(base, workgroup_size=prod(group)))
        scores[size] = resident.fraction * _fit(resident, group, shape, count)
    # the model is no finer than this: of nearly equal sizes the usual one
    enough = max(scores.values()) * _NEARLY
    near = [size for size in sizes if scores[size] >= enough]
    return _spread(min(near, key=lambda n: abs(log2(n / _USUAL_SIZE))), shape, width)


def _fit(resident: Residency, group: Sequence[int], extents: Sequence[int], units: int) -> float:
    """The share of lanes, units and places of the last wave that are in use."""
    groups = prod(ceil_div(max(1, n), g) for n, g in zip(extents, group, strict=True))
    lanes = prod(max(1, n) for n in extents) / (groups * prod(group))
    capacity = resident.groups * units
    if not capacity:
        return 0.0
    waves = ceil_div(groups, capacity)
    return lanes * (groups / (waves * capacity) if waves > 1 else min(1.0, groups / units))


def _spread(size: int, extents: Sequence[int], width: int) -> tuple[int, ...]:
    """`size` work-items over the dimensions: a subgroup along the first, the rest after it."""
    if len(extents) == 1:
        return (size,)
    first = min(size, width, 1 << (max(1, extents[0]) - 1).bit_length())
    return (first, size // first, *(1 for _ in extents[2:]))


def _relieved(limits: Limits, request: Request, now: Residency) -> dict[str, int]:
    """The largest figures with which no limiter binds any more; empty when one cannot be moved."""
    changes: dict[str, int] = {}
    for limiter, bound in now.bounds.items():
        if bound != now.groups:
            continue
        field = _FIELDS.get(limiter)
        value = _largest(limits, request, limiter, field, now.groups) if field else None
        if field is None or value is None:
            return {}
        changes[field] = value
    return changes


def _largest(limits: Limits, request: Request, limiter: str, field: str, groups: int) -> int | None:
    """The largest value of `field` below the request's with which `limiter` admits more."""
    step = _SHARED_STEP_BYTES if field == "shared_bytes" else 1
    start = (getattr(request, field) - 1) // step * step
    for value in range(start, -1, -step):
        bound = residency_of(limits, replace(request, **{field: value})).bounds[limiter]
        if bound is None or bound > groups:
            return value
    return None


# the figure that a limiter is made of
_FIELDS = {
    REGISTERS: "registers",
    SCALAR_REGISTERS: "scalar_registers",
    SHARED_MEMORY: "shared_bytes",
    BARRIERS: "barriers",
}
_TEXTS = {
    "registers": "use at most {0} registers a work-item (now {1})",
    "scalar_registers": "use at most {0} scalar registers (now {1})",
    "shared_bytes": "use at most {0} bytes of shared memory a workgroup (now {1})",
    "barriers": "use at most {0} named barriers (now {1})",
    "carveout": "ask for a shared-memory carve-out of {0} percent (now {1})",
    "workgroup_size": "launch workgroups of {0} work-items (now {1})",
}


def _suggestion(request: Request, changes: Mapping[str, int], given: Residency) -> Suggestion:
    texts = [_TEXTS[name].format(value, getattr(request, name)) for name, value in changes.items()]
    return Suggestion(
        changes=changes,
        text=" and ".join(texts),
        groups_per_unit=given.groups,
        subgroups_per_unit=given.subgroups,
        fraction=given.fraction,
    )


def _larger_carveouts(limits: Limits, request: Request) -> tuple[int, ...]:
    unit = limits.unit
    if request.carveout is None or not isinstance(unit, NvidiaUnit):
        return ()
    asked = request.carveout
    return tuple(percent for _, percent in nvidia.carveouts(unit) if percent > asked)
