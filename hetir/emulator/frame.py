"""Which lanes are running, and what they know: frames over a batch of workgroups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hetir.emulator.faults import Triple, WorkItem
from hetir.emulator.values import Held, Lanes, compose, pick, take
from hetir.ir.core import Value


@dataclass(eq=False)
class Batch:
    """Workgroups that run side by side; lanes are numbered group by group."""

    groups: Lanes
    grid: Triple
    size: Triple
    width: int
    first_item: int
    rng: np.random.Generator

    @cached_property
    def items(self) -> int:
        """Work-items a workgroup."""
        return math.prod(self.size)

    @cached_property
    def count(self) -> int:
        """Lanes in all."""
        return len(self.groups) * self.items

    @cached_property
    def local(self) -> Lanes:
        """Each lane's linear local id."""
        return np.tile(np.arange(self.items), len(self.groups))

    @cached_property
    def slot(self) -> Lanes:
        """Each lane's workgroup, numbered within the batch."""
        return np.repeat(np.arange(len(self.groups)), self.items)

    @cached_property
    def local_ids(self) -> tuple[Lanes, ...]:
        """Each lane's local id, by axis."""
        return tuple(
            np.array(0) if n == 1 else axis
            for n, axis in zip(self.size, _axes(self.local, self.size), strict=True)
        )

    @cached_property
    def group_ids(self) -> tuple[Lanes, ...]:
        """Each lane's group id, by axis; uniform in a batch of one workgroup."""
        axes = _axes(self.groups, self.grid)
        if len(self.groups) == 1:
            return tuple(np.array(a[0]) for a in axes)
        return tuple(
            np.array(0) if n == 1 else np.repeat(axis, self.items)
            for n, axis in zip(self.grid, axes, strict=True)
        )

    @cached_property
    def global_ids(self) -> tuple[Lanes, ...]:
        """Each lane's global id, by axis."""
        parts = zip(self.group_ids, self.size, self.local_ids, strict=True)
        return tuple(np.asarray(g * np.int64(s) + i) for g, s, i in parts)

    def describe(self, lane: int) -> WorkItem:
        """The work-item of a lane, for people."""
        group, local = int(self.groups[lane // self.items]), lane % self.items
        return WorkItem(
            group=_coords(group, self.grid), local=_coords(local, self.size), size=self.size
        )


def _axes(linear: Lanes, extents: Sequence[int]) -> tuple[Lanes, ...]:
    x, y, _ = extents
    return linear % x, linear // x % y, linear // (x * y)


def _coords(linear: int, extents: Sequence[int]) -> Triple:
    x, y, _ = extents
    return linear % x, linear // x % y, linear // (x * y)


@dataclass(slots=True, eq=False)
class Frame:
    """The lanes that run together and the values they hold.

    `select` numbers them among the parent's lanes (None: all of those).
    """

    batch: Batch
    count: int
    parent: Frame | None = None
    select: Lanes | None = None
    values: dict[Value, Held] = field(default_factory=dict[Value, Held])
    _ids: Lanes | None = None

    def child(self, select: Lanes | None = None) -> Frame:
        """A frame of some of the lanes, which sees the values of this one."""
        return Frame(self.batch, self.count if select is None else len(select), self, select)

    def get(self, value: Value) -> Held:
        """What the lanes hold in a value defined here or around here."""
        held = self.values.get(value)
        if held is None:
            assert self.parent is not None, f"{value!r} is used before it is defined"
            held = self.values[value] = take(self.parent.get(value), self.select)
        return held

    def scalar(self, value: Value) -> Lanes:
        """`get` of a scalar."""
        held = self.get(value)
        assert isinstance(held, np.ndarray)
        return held

    @property
    def ids(self) -> Lanes | None:
        """The lanes' numbers in the batch; None is every lane."""
        if self._ids is None and self.parent is not None:
            self._ids = compose(self.parent.ids, self.select)
        return self._ids

    @property
    def lanes(self) -> Lanes:
        """The lanes' numbers in the batch."""
        ids = self.ids
        return np.arange(self.batch.count) if ids is None else ids

    def own(self, lanes: Lanes) -> Lanes:
        """The lanes' part of something known for the whole batch."""
        return pick(lanes, self.ids)
