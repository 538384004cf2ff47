"""Happens-before: what each work-item knows of the others, by barriers and atomics.

An access has its work-item and that item's clock. Barriers order by one number a group: all
of a group's accesses with a smaller clock are known to the whole group. What atomics and
fences carry from item to item is kept in sparse maps, only where there is any.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hetir.emulator.frame import Batch
from hetir.emulator.values import Lanes

SUBGROUP, WORKGROUP, DEVICE = 1, 2, 3
SCOPES = {"subgroup": SUBGROUP, "workgroup": WORKGROUP, "device": DEVICE, "system": DEVICE}


@dataclass(slots=True, eq=False)
class Knowledge:
    """Accesses that happened before: an item's up to a clock, a group's below a clock."""

    items: dict[int, int] = field(default_factory=dict[int, int])
    groups: dict[int, int] = field(default_factory=dict[int, int])

    def learn(self, other: Knowledge | None) -> None:
        """Know what the other knows too."""
        if other is None or other is self:
            return
        for mine, theirs in ((self.items, other.items), (self.groups, other.groups)):
            for key, clock in theirs.items():
                if mine.get(key, -1) < clock:
                    mine[key] = clock

    def has(self, item: int, group: int, clock: int) -> bool:
        """Whether an access is known."""
        return self.items.get(item, -1) >= clock or self.groups.get(group, 0) > clock


@dataclass(slots=True, eq=False)
class Released:
    """What a location offers to those who acquire from it, by who may see it."""

    everyone: Knowledge | None = None
    groups: dict[int, Knowledge] = field(default_factory=dict[int, Knowledge])
    subgroups: dict[int, Knowledge] = field(default_factory=dict[int, Knowledge])

    def offer(self, what: Knowledge, scope: int, group: int, subgroup: int) -> None:
        """A release at a scope by an item of the group and subgroup."""
        if scope >= DEVICE:
            if self.everyone is None:
                self.everyone = Knowledge()
            self.everyone.learn(what)
        if scope >= WORKGROUP:
            self.groups.setdefault(group, Knowledge()).learn(what)
        self.subgroups.setdefault(subgroup, Knowledge()).learn(what)

    def seen(self, scope: int, group: int, subgroup: int) -> list[Knowledge]:
        """What an acquire at a scope by an item of the group and subgroup gains."""
        found = [self.subgroups.get(subgroup)]
        if scope >= WORKGROUP:
            found.append(self.groups.get(group))
        if scope >= DEVICE:
            found.append(self.everyone)
        return [f for f in found if f is not None]


class Clocks:
    """The clocks of a batch's work-items, numbered over the whole run by `first_item`."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.per_group = -(-batch.items // batch.width)
        self.items = np.arange(batch.first_item, batch.first_item + batch.count)
        self.first_group = batch.first_item // batch.items
        self.subgroup = batch.slot * self.per_group + batch.local // batch.width
        self.clock = np.ones(batch.count, np.int64)
        self.group_base = np.zeros(len(batch.groups), np.int64)
        self.subgroup_base = np.zeros(len(batch.groups) * self.per_group, np.int64)
        self.batch_base = 0
        self.known: dict[int, Knowledge] = {}
        self.group_known: dict[int, Knowledge] = {}
        self.offers: dict[int, tuple[int, Knowledge]] = {}
        self.pending: dict[int, dict[int, Knowledge]] = {}

    def ordered(self, lanes: Lanes, item: Lanes, clock: Lanes) -> Lanes:
        """Whether each lane knows an access of `item` at `clock`."""
        batch = self.batch
        group = item // batch.items - self.first_group
        here = (group >= 0) & (group < len(batch.groups))
        lane = np.where(here, item - batch.first_item, 0)
        slot = batch.slot[lanes]
        result = item == self.items[lanes]
        result |= here & (group == slot) & (clock < self.group_base[slot])
        mine = self.subgroup[lanes]
        result |= here & (self.subgroup[lane] == mine) & (clock < self.subgroup_base[mine])
        result |= here & (clock < self.batch_base)
        if self.known or self.group_known:
            for at in np.flatnonzero(~result):
                result[at] = self._knows(int(lanes[at]), int(item[at]), int(clock[at]))
        return result

    def _knows(self, lane: int, item: int, clock: int) -> bool:
        group = item // self.batch.items
        sources = self.known.get(lane), self.group_known.get(int(self.batch.slot[lane]))
        return any(s is not None and s.has(item, group, clock) for s in sources)

    def inclusive(self, lanes: Lanes, item: Lanes, scope: Lanes) -> Lanes:
        """Whether the (smaller) scope holds both the lane and the item."""
        batch = self.batch
        same_group = item // batch.items == self.items[lanes] // batch.items
        mine = batch.local[lanes] // batch.width
        same_subgroup = same_group & (item % batch.items // batch.width == mine)
        return (scope >= DEVICE) | (same_group & (scope == WORKGROUP)) | same_subgroup

    # ---- synchronisation -----------------------------------------------------------------

    def barrier(self, lanes: Lanes, scope: int) -> None:
        """The lanes, whole groups of the scope, meet."""
        if scope == SUBGROUP:
            self._meet(lanes, self.subgroup, self.subgroup_base)
            here = set(lanes.tolist())
            for lane in [k for k in self.known if k in here]:
                self._share(lane)
            return
        self._meet(lanes, self.batch.slot, self.group_base)
        slots = set(self.batch.slot[lanes].tolist())
        for lane in [k for k in self.known if int(self.batch.slot[k]) in slots]:
            slot = int(self.batch.slot[lane])
            self.group_known.setdefault(slot, Knowledge()).learn(self.known.pop(lane))
        if scope == DEVICE:
            self.clock[:] = self.batch_base = int(self.clock.max()) + 1
            everything = Knowledge()
            for known in self.group_known.values():
                everything.learn(known)
            if self.group_known:
                self.group_known = dict.fromkeys(range(len(self.batch.groups)), everything)

    def _meet(self, lanes: Lanes, part: Lanes, base: Lanes) -> None:
        mine = part[lanes]
        latest = np.zeros(len(base), np.int64)
        np.maximum.at(latest, mine, self.clock[lanes] + 1)
        base[np.unique(mine)] = latest[np.unique(mine)]
        self.clock[lanes] = latest[mine]

    def _share(self, lane: int) -> None:
        """Give one lane's knowledge to its subgroup."""
        for other in np.flatnonzero(self.subgroup == self.subgroup[lane]).tolist():
            self.known.setdefault(other, Knowledge()).learn(self.known[lane])

    def release(self, lane: int) -> Knowledge:
        """Everything the lane knows and did; what it does next is later."""
        batch, slot = self.batch, int(self.batch.slot[lane])
        what = Knowledge()
        what.learn(self.group_known.get(slot))
        what.learn(self.known.get(lane))
        group = self.first_group + slot
        what.groups[group] = max(what.groups.get(group, 0), int(self.group_base[slot]))
        if self.batch_base:
            for at in range(len(batch.groups)):
                key = self.first_group + at
                what.groups[key] = max(what.groups.get(key, 0), self.batch_base)
        mine = int(self.subgroup[lane])
        if self.subgroup_base[mine] > self.group_base[slot]:
            for other in self.items[self.subgroup == mine].tolist():
                before = int(self.subgroup_base[mine]) - 1
                what.items[other] = max(what.items.get(other, -1), before)
        what.items[int(self.items[lane])] = int(self.clock[lane])
        self.clock[lane] += 1
        return what

    def fence(self, lanes: Lanes, order: str, scope: int) -> None:
        """A fence of each lane."""
        for lane in lanes.tolist():
            if order != "release":
                gained = self.pending.get(lane, {}).get(scope)
                if gained is not None:
                    self.known.setdefault(lane, Knowledge()).learn(gained)
            if order != "acquire":
                self.offers[lane] = scope, self.release(lane)

    def atomic(
        self,
        lane: int,
        place: Released | None,
        scope: int,
        order: str,
        *,
        reads: bool,
        writes: bool,
    ) -> Released | None:
        """One lane's atomic access; what the location offers afterwards.

        A store starts anew; a read-modify-write goes on with what was released before it.
        """
        group, subgroup = int(self.batch.slot[lane]) + self.first_group, self._subgroup_key(lane)
        if reads and place is not None:
            if order in ("acquire", "acq_rel", "seq_cst"):
                for what in place.seen(scope, group, subgroup):
                    self.known.setdefault(lane, Knowledge()).learn(what)
            levels = self.pending.setdefault(lane, {})
            for level in (SUBGROUP, WORKGROUP, DEVICE):
                for what in place.seen(min(level, scope), group, subgroup):
                    levels.setdefault(level, Knowledge()).learn(what)
        if not writes:
            return place
        if not reads:
            place = None
        offers: list[tuple[int, Knowledge]] = []
        if order in ("release", "acq_rel", "seq_cst"):
            offers.append((scope, self.release(lane)))
        if lane in self.offers:
            fenced, what = self.offers[lane]
            offers.append((min(scope, fenced), what))
        for at, what in offers:
            place = place or Released()
            place.offer(what, at, group, subgroup)
        return place

    def _subgroup_key(self, lane: int) -> int:
        return self.first_group * self.per_group + int(self.subgroup[lane])
