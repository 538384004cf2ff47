"""Data races: the last accesses to each element, and whether a new one is ordered after them.

For each element seven accesses are kept: the last plain write, and of the reads and of the
atomic writes since then the last one, another of the same workgroup, and one of another
workgroup. A race with an access that is kept is found; one that only an access no longer
kept took part in is found by another seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetir.emulator.clocks import DEVICE, WORKGROUP, Clocks
from hetir.emulator.values import Lanes

WRITE, READS, ATOMICS = 0, 1, 4
# what a new access of each kind conflicts with
_AGAINST = {
    "read": (0, 4, 5, 6),
    "write": (0, 1, 2, 3, 4, 5, 6),
    "atomic read": (0, 4, 5, 6),
    "atomic write": (0, 1, 2, 3, 4, 5, 6),
}


@dataclass(frozen=True, slots=True)
class Accesses:
    """One op's accesses: lanes of the batch in order, the granule of each, and the rest."""

    lanes: Lanes
    granules: Lanes
    kind: str
    scope: int
    site: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two unordered accesses: which of the new ones (its position), and the older one."""

    at: Lanes
    item: int
    site: int
    slot: int


class _Kept:
    """One access of each granule: the work-item (-1 for none), its clock, and where."""

    def __init__(self, size: int) -> None:
        self.item = np.full(size, -1, np.int64)
        self.clock = np.zeros(size, np.int32)
        self.site = np.zeros(size, np.int32)
        self.scope = np.zeros(size, np.int8)


class Shadow:
    """The kept accesses of one storage of `size` granules, each kind made when needed."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.kept: dict[int, _Kept] = {}

    def access(self, new: Accesses, clocks: Clocks) -> list[Conflict]:
        """Record an op's accesses; the conflicts with older ones and among themselves."""
        slots = [slot for slot in _AGAINST[new.kind] if slot in self.kept]
        found = [c for slot in slots if (c := self._against(slot, new, clocks))]
        order = _sorted(new.granules)
        among = _among(new, clocks, order)
        if among is not None:
            found.append(among)
        self._record(new, clocks, order)
        return found

    def _against(self, slot: int, new: Accesses, clocks: Clocks) -> Conflict | None:
        old = self.kept[slot]
        item = old.item[new.granules]
        at = np.flatnonzero((item >= 0) & (item != clocks.items[new.lanes]))
        if not len(at):
            return None
        granules, lanes, item = new.granules[at], new.lanes[at], item[at]
        safe = clocks.ordered(lanes, item, old.clock[granules])
        if new.scope:
            scope = old.scope[granules]
            narrow = np.minimum(scope, new.scope)
            safe |= (scope > 0) & clocks.inclusive(lanes, item, narrow)
        bad = np.flatnonzero(~safe)
        if not len(bad):
            return None
        first = bad[0]
        return Conflict(at[bad], int(item[first]), int(old.site[granules[first]]), slot)

    def _record(self, new: Accesses, clocks: Clocks, order: Lanes | None) -> None:
        if new.kind == "write":
            for slot, old in self.kept.items():
                if slot != WRITE:
                    old.item[new.granules] = -1
            self._put(WRITE, new, clocks, np.arange(len(new.lanes)), new.granules)
            return
        base = ATOMICS if new.kind == "atomic write" else READS
        last, other, far = _summary(new, clocks, order)
        granules = new.granules[last]
        if base in self.kept:
            self._age(base, clocks, new.lanes[last], granules)
        self._put(base, new, clocks, last, granules)
        for slot, at in ((base + 1, other), (base + 2, far)):
            some = np.flatnonzero(at >= 0)
            self._put(slot, new, clocks, at[some], granules[some])

    def _age(self, base: int, clocks: Clocks, lanes: Lanes, granules: Lanes) -> None:
        """Make room for a newer last access: what was last becomes another, or far."""
        items = clocks.batch.items
        old, new = self.kept[base].item[granules], clocks.items[lanes]
        there = old >= 0
        near = there & (old // items == new // items)
        self._move(base, base + 1, granules[near & (old != new)])
        away = granules[there & ~near]
        self._move(base, base + 2, away)
        if base + 1 in self.kept:
            self.kept[base + 1].item[away] = -1

    def _slot(self, slot: int) -> _Kept:
        if slot not in self.kept:
            self.kept[slot] = _Kept(self.size)
        return self.kept[slot]

    def _move(self, source: int, target: int, granules: Lanes) -> None:
        if not len(granules):
            return
        old, new = self.kept[source], self._slot(target)
        for name in ("item", "clock", "site", "scope"):
            getattr(new, name)[granules] = getattr(old, name)[granules]

    def _put(self, slot: int, new: Accesses, clocks: Clocks, at: Lanes, granules: Lanes) -> None:
        if not len(granules):
            return
        lanes, kept = new.lanes[at], self._slot(slot)
        kept.item[granules] = clocks.items[lanes]
        kept.clock[granules] = clocks.clock[lanes]
        kept.site[granules] = new.site
        kept.scope[granules] = new.scope


def _sorted(granules: Lanes) -> Lanes | None:
    """A stable order by granule, or None when no two are equal and they ascend."""
    if len(granules) < 2 or (granules[1:] > granules[:-1]).all():
        return None
    return np.argsort(granules, kind="stable")


def _among(new: Accesses, clocks: Clocks, order: Lanes | None) -> Conflict | None:
    """Conflicts between lanes of the one op: plain writes, and atomics of too small a scope."""
    if order is None or new.kind in ("read", "atomic read") or new.scope >= DEVICE:
        return None
    granules, lanes = new.granules[order], new.lanes[order]
    twice = granules[1:] == granules[:-1]
    if new.scope:
        batch = clocks.batch
        part = batch.slot if new.scope == WORKGROUP else clocks.subgroup
        twice &= part[lanes[1:]] != part[lanes[:-1]]
    else:
        twice &= lanes[1:] != lanes[:-1]
    bad = np.flatnonzero(twice)
    if not len(bad):
        return None
    other = int(clocks.items[lanes[bad[0]]])
    return Conflict(order[bad + 1], other, new.site, ATOMICS if new.scope else WRITE)


def _summary(new: Accesses, clocks: Clocks, order: Lanes | None) -> tuple[Lanes, Lanes, Lanes]:
    """For each granule the positions of its last access, another, and one of another group.

    -1 where there is none. Lanes stand in the order of groups.
    """
    if order is None:
        last = np.arange(len(new.granules))
        none = np.full(len(last), -1)
        return last, none, none
    granules = new.granules[order]
    starts = np.flatnonzero(np.r_[True, granules[1:] != granules[:-1]])
    ends = np.r_[starts[1:], len(granules)] - 1
    group = clocks.batch.slot[new.lanes[order]]
    before = np.maximum(ends - 1, 0)
    near = (ends > starts) & (group[before] == group[ends])
    far = group[starts] != group[ends]
    return (
        order[ends],
        np.where(near, order[before], -1),
        np.where(far, order[starts], -1),
    )
