"""The checks of `checks=True`: races, uninitialised reads, overflow, false promises."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hetir.diagnostics import Label
from hetir.emulator import overflow
from hetir.emulator.clocks import SCOPES, Clocks, Released
from hetir.emulator.faults import (
    DataRaceError,
    IndexOverflowError,
    NotUniformError,
    UninitialisedError,
    WorkItem,
    place_of,
)
from hetir.emulator.frame import Batch, Frame
from hetir.emulator.memory import Buffer
from hetir.emulator.shadow import Accesses, Conflict, Shadow
from hetir.emulator.values import Lanes, View, spread
from hetir.ir import numerics
from hetir.ir.core import Operation, walk

if TYPE_CHECKING:
    from hetir.emulator.access import Place
    from hetir.emulator.run_state import Run


@dataclass(slots=True, eq=False)
class Storage:
    """Memory that no other storage overlaps: one alloc, or arguments that share bytes."""

    address: int
    size: int
    granule: int
    shadow: Shadow | None = None
    released: dict[int, Released] = field(default_factory=dict[int, Released])


class Checker:
    """Watches one run; the machine calls it before each access takes effect."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.storages: dict[Buffer, Storage] = _share_storage(run.buffers)
        self.lasting = dict(self.storages)
        self.written: dict[Buffer, Lanes] = {}
        self.indices = overflow.index_ops(run.kernel.body)
        self.sites: dict[Operation, int] = {}
        self.ops: list[Operation] = []
        self.fences = any(op.name == "fence" for op in walk(run.kernel.body))
        self.batches: list[Batch] = []
        self.clocks: Clocks | None = None

    def start(self, batch: Batch) -> None:
        """A new batch: its work-items have done nothing yet."""
        self.batches.append(replace(batch))  # a copy without what the batch has computed
        self.clocks = Clocks(batch)
        self.storages = dict(self.lasting)
        self.written.clear()

    # ---- values ----------------------------------------------------------------------------

    def pure(self, op: Operation, frame: Frame, lanes: list[Any], value: Lanes) -> None:
        """Overflow of an op that an index is made of."""
        if op not in self.indices:
            return
        wrapped = overflow.wrapped(op.name, lanes, value)
        if not wrapped.any():
            return
        bad = np.flatnonzero(spread(wrapped, frame.count))
        shown = ", ".join(str(spread(lane, frame.count)[bad[0]]) for lane in lanes)
        self.run.fault(
            IndexOverflowError, op, frame, bad,
            f"`{op.name}` of an index overflows 64 bits, with operands {shown}",
            hint="compute the index from smaller parts",
        )  # fmt: skip

    def uniform(self, op: Operation, frame: Frame, value: Lanes) -> None:
        """The promise of `assume_uniform`: one value for the frame's part of each workgroup."""
        if value.ndim == 0:
            return
        slot = frame.own(frame.batch.slot)
        first = np.searchsorted(slot, slot)
        raw = np.ascontiguousarray(value).view(numerics.bits_dtype(value.dtype))
        bad = np.flatnonzero(raw != raw[first])
        if len(bad):
            one, other = value[first[bad[0]]], value[bad[0]]
            self.run.fault(
                NotUniformError, op, frame, bad,
                f"`assume_uniform` of a value that differs in the workgroup: {one} and {other}",
                hint="remove `assume_uniform`, or make the value the same for all work-items",
            )  # fmt: skip

    # ---- synchronisation -------------------------------------------------------------------

    def barrier(self, op: Operation, frame: Frame) -> None:
        """A barrier that every lane of its scope reached."""
        assert self.clocks is not None
        self.clocks.barrier(frame.lanes, SCOPES[str(op.attrs["scope"])])

    def fence(self, op: Operation, frame: Frame) -> None:
        """A fence."""
        assert self.clocks is not None
        scope = SCOPES[str(op.attrs["scope"])]
        self.clocks.fence(frame.lanes, str(op.attrs["order"]), scope)

    # ---- memory ----------------------------------------------------------------------------

    def access(
        self,
        op: Operation,
        frame: Frame,
        place: Place,
        dtype: np.dtype[Any],
        kind: str,
        scope: int = 0,
    ) -> None:
        """A plain or atomic access by the lanes of `place`."""
        buffer = place.buffer
        if buffer.space != "global" and buffer.space != "constant":
            self._initialised(op, frame, place, dtype, kind)
        if buffer.space == "private":
            return
        assert self.clocks is not None
        storage = self._storage(buffer)
        if storage.shadow is None:
            storage.shadow = Shadow(-(-storage.size // storage.granule))
        inner = self._inner(frame, place)
        lanes, granules = self._granules(storage, buffer, place, frame.lanes[inner], dtype)
        new = Accesses(lanes, granules, kind, scope, self._site(op))
        for conflict in storage.shadow.access(new, self.clocks):
            repeat = len(granules) // place.count
            self._race(op, frame, place, conflict, inner[conflict.at // repeat], kind)

    def atomic(
        self, op: Operation, frame: Frame, place: Place, order: Lanes, wrote: Lanes | None
    ) -> None:
        """What an atomic access synchronises with; `wrote` says which lanes wrote."""
        scope, strength = SCOPES[str(op.attrs["scope"])], str(op.attrs["order"])
        storage = self._storage(place.buffer)
        stores = op.name == "atomic.store"
        if strength == "relaxed" and not self.fences and not (stores and storage.released):
            return
        assert self.clocks is not None
        lanes = frame.lanes[self._inner(frame, place)]
        offsets = spread(place.offsets, place.count)
        for at in order.tolist():
            where = int(offsets[at]) + place.buffer.address
            writes = op.name != "atomic.load" and (wrote is None or bool(wrote[at]))
            after = self.clocks.atomic(
                int(lanes[at]), storage.released.get(where), scope, strength,
                reads=not stores, writes=writes,
            )  # fmt: skip
            if after is not None:
                storage.released[where] = after
            else:
                storage.released.pop(where, None)

    def _inner(self, frame: Frame, place: Place) -> Lanes:
        """The frame's lanes that access the place."""
        return np.arange(frame.count) if place.select is None else place.select

    def _site(self, op: Operation) -> int:
        if op not in self.sites:
            self.sites[op] = len(self.ops)
            self.ops.append(op)
        return self.sites[op]

    def _storage(self, buffer: Buffer) -> Storage:
        storage = self.storages.get(buffer)
        if storage is None:
            storage = Storage(0, len(buffer.data), buffer.itemsize)
            self.storages[buffer] = storage
        return storage

    def _granules(
        self, storage: Storage, buffer: Buffer, place: Place, lanes: Lanes, dtype: np.dtype[Any]
    ) -> tuple[Lanes, Lanes]:
        """The granules that each lane touches, and the lane of each."""
        offsets = spread(place.offsets, place.count) + (buffer.address - storage.address)
        granules = offsets // storage.granule
        each = max(1, dtype.itemsize // storage.granule)
        if each == 1:
            return lanes, granules
        return np.repeat(lanes, each), (granules[:, None] + np.arange(each)).ravel()

    def _initialised(
        self, op: Operation, frame: Frame, place: Place, dtype: np.dtype[Any], kind: str
    ) -> None:
        buffer = place.buffer
        written = self.written.get(buffer)
        if written is None:
            written = np.zeros(len(buffer.data) // buffer.itemsize, bool)
            self.written[buffer] = written
        at = spread(place.offsets, place.count) // buffer.itemsize
        reads = kind == "read" or (kind.startswith("atomic") and op.name != "atomic.store")
        if reads and not written[at].all():
            bad = self._inner(frame, place)[np.flatnonzero(~written[at])]
            index, shape = self._where(op, frame, int(bad[0]))
            self.run.fault(
                UninitialisedError, op, frame, bad,
                f"`{buffer.name}` is read at {_shown(index)} before it is written",
                array=buffer.name, index=index, shape=shape,
                hint=f"write `{buffer.name}` first, and put a barrier between if it is shared",
            )  # fmt: skip
        if "write" in kind:
            written[at] = True

    # ---- reports ---------------------------------------------------------------------------

    def _race(
        self, op: Operation, frame: Frame, place: Place, conflict: Conflict, bad: Lanes, kind: str
    ) -> None:
        other = self.ops[conflict.site]
        faults = self.run.faults
        places = place_of(op), place_of(other)
        if not faults.new(DataRaceError, places, len(bad)):
            return
        index, shape = self._where(op, frame, int(bad[0]))
        name, item = place.buffer.name, frame.batch.describe(int(frame.lanes[bad[0]]))
        there = self._item(conflict.item)
        faults.describe(
            DataRaceError, places,
            f"data race on `{name}` at {_shown(index)}: this {kind} and {access_words(other)} by "
            "another work-item are not ordered",
            count=len(bad), item=item, loc=op.loc, array=name, index=index, shape=shape,
            other=Label(other.loc, f"{access_words(other)} by {there}") if other.loc else None,
            hint=race_advice(item, there, place.buffer),
        )  # fmt: skip

    def _where(
        self, op: Operation, frame: Frame, lane: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        view = frame.get(op.operands[0])
        assert isinstance(view, View)
        indices = [frame.scalar(v) for v in op.operands[1 : 1 + len(view.axes)]]
        index = tuple(int(spread(i, frame.count)[lane]) for i in indices)
        return index, tuple(int(spread(a.extent, frame.count)[lane]) for a in view.axes)

    def _item(self, item: int) -> WorkItem:
        batch = next(b for b in reversed(self.batches) if b.first_item <= item)
        return batch.describe(item - batch.first_item)


def _shown(index: tuple[int, ...]) -> str:
    return str(index[0]) if len(index) == 1 else str(index)


def access_words(op: Operation) -> str:
    """An access in words, with its article."""
    words = {"load": "a read", "store": "a write", "atomic.load": "an atomic read"}
    return words.get(op.name, "an atomic write")


def race_advice(one: WorkItem, other: WorkItem, buffer: Buffer) -> str:
    """What orders two accesses, or makes it needless."""
    if one.group == other.group:
        return "put `hl.barrier()` between the two, or use atomics"
    return f"let each workgroup write its own part of `{buffer.name}`, or use device-scope atomics"


def _share_storage(buffers: list[Buffer]) -> dict[Buffer, Storage]:
    """One storage for arguments that overlap; bytes unless they divide into like elements."""
    found: dict[Buffer, Storage] = {}
    together: list[Buffer] = []
    end = -1
    for buffer in [*sorted(buffers, key=lambda b: b.address), None]:
        if together and (buffer is None or buffer.address >= end):
            first = together[0].address
            storage = Storage(first, end - first, _granule(together))
            found.update(dict.fromkeys(together, storage))
            together, end = [], -1
        if buffer is not None and len(buffer.data):
            together.append(buffer)
            end = max(end, buffer.address + len(buffer.data))
    return found


def _granule(buffers: list[Buffer]) -> int:
    size, first = buffers[0].itemsize, buffers[0].address
    regular = all(
        b.itemsize == size
        and (b.address - first) % size == 0
        and (b.origin % size == 0)
        and all(n == 1 or s % size == 0 for n, s in zip(b.shape, b.strides, strict=True))
        for b in buffers
    )
    return size if regular else 1
