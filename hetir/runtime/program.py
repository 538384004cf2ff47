"""A compiled kernel on a device: checks a launch, packs its arguments and starts it."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hetir.artifact import Artifact, Slot
from hetir.diagnostics import Label
from hetir.limits import WorkgroupSizeError, check_launch_shape
from hetir.runtime.arrays import Array, Buffer
from hetir.runtime.driver import DriverError, Event, Memory, Records, Shape, Task
from hetir.runtime.errors import ArgumentError, LaunchFailedError
from hetir.runtime.hazards import HOST, IN_FLIGHT, Footprint
from hetir.runtime.launch import Launch
from hetir.runtime.layout import bounds
from hetir.runtime.pack import Operand, Packer
from hetir.runtime.staging import Staged

if TYPE_CHECKING:
    from hetir.runtime.device import Device, Queue

Extents = int | Sequence[int]

# shapes of launches that were checked; a program that makes more starts over
_REMEMBERED = 4096
_HEADER = struct.Struct("<QQ")


class Program:
    """One artifact loaded on one device."""

    def __init__(
        self, device: Device, artifact: Artifact, handle: Any, names: Sequence[str]
    ) -> None:
        self.device, self.artifact, self.names = device, artifact, tuple(names)
        self.handle = handle
        self._driver = device.driver
        self._packer = Packer(artifact.layout, device, self.names)
        self._host = device.portrait.host_memory
        self._shapes: dict[tuple[Any, Any], Shape] = {}

    def __del__(self) -> None:
        if hasattr(self, "_driver") and not self.device.lost:
            self._driver.unload(self.handle)

    def run(
        self,
        values: Sequence[Any],
        grid: Extents,
        workgroup: Extents,
        records: Records | None = None,
        block: bytes | None = None,
    ) -> None:
        """Launch on the device's own queue and wait. Raises what the launch failed with.

        `block` is what the values were packed to, where that is done.
        """
        if records is not None or not self._host:
            launch = self.launch(
                values, grid=grid, workgroup=workgroup, records=records, block=block
            )
            launch.wait()
            return
        shape = self._shape(grid, workgroup)
        if block is None:
            block = self._packer.block(values)
        if 0 in shape:
            return
        if IN_FLIGHT:
            IN_FLIGHT.settle(self.footprints(values))
        queue = self.device.default_queue
        try:
            event = self._driver.run(queue.handle, self.handle, shape, block)
        except DriverError as failure:
            raise self._failed(failure) from failure
        if event is not None:
            loc = self.artifact.loc
            launch = Launch(self.artifact.kernel, queue, event, {}, keep=values, loc=loc)
            queue.track(launch)
            launch.wait()

    def launch(
        self,
        values: Sequence[Any],
        *,
        grid: Extents,
        workgroup: Extents,
        queue: Queue | None = None,
        after: Sequence[Launch | Event] = (),
        records: Records | None = None,
        block: bytes | None = None,
    ) -> Launch:
        """Start a launch, after what is on the queue and after `after`."""
        shape = self._shape(grid, workgroup)
        queue = queue or self.device.default_queue
        if queue.device is not self.device:
            raise ArgumentError(f"the queue belongs to `{queue.device.name}`")
        queue.check()
        if block is None:
            block = self._packer.block(values)
        footprints = self.footprints(values)
        before = [*self._before(after), *self._needed(queue, footprints)]
        staged = None if self._host else Staged(self.device, queue, self._packer, values, block)
        room = Room(self.device, queue, records) if records is not None else None
        task = Task(
            program=self.handle,
            grid=shape[:3],
            workgroup=shape[3:],
            block=staged.block if staged else block,
            memories=staged.memories if staged else (),
            records=room.memory if room else None,
        )
        event = self._start(queue, task, before)
        finishing: list[Callable[[], None]] = []
        finishing += [staged.bring_back] if staged and staged.written else []
        finishing += [room.finish] if room else []
        launch = Launch(
            self.artifact.kernel,
            queue,
            event,
            dict(zip(self.names, values, strict=False)),
            keep=(self, values, _buffers(self._packer.operands(values)), staged, room),
            after=finishing,
            loc=self.artifact.loc,
            copies_back=staged is not None and bool(staged.written),
        )
        if staged is not None:  # what was copied in is not read any more
            footprints = [f for f in footprints if f.writes or f.space != HOST]
        IN_FLIGHT.add(launch, footprints)
        queue.track(launch)
        return launch

    def footprints(self, values: Sequence[Any]) -> list[Footprint]:
        """What a launch touches, by the declared reads and writes of its slots."""
        found: list[Footprint] = []
        for slot, operand in self._packer.operands(values):
            if not (slot.reads or slot.writes):
                continue
            if isinstance(operand, Array):
                found.append(operand.footprint(writes=slot.writes))
                continue
            address = operand.__array_interface__["data"][0]
            low, high = bounds(address, operand.shape, operand.strides, operand.itemsize)
            found.append(Footprint(HOST, low, high, slot.writes))
        return found

    def pack(self, values: Sequence[Any]) -> bytes:
        """The block of a launch with these values, for `block=`. Raises ArgumentError."""
        return self._packer.block(values)

    def _needed(self, queue: Queue, footprints: Sequence[Footprint]) -> list[Event]:
        """The events of this device that a launch must follow; for others this waits here."""
        if not IN_FLIGHT:
            return []
        last: dict[int, Event] = {}  # of each queue: the launches before it end earlier
        for other, on_host in IN_FLIGHT.touching(footprints):
            if other.queue.device is not self.device or (on_host and other.copies_back):
                other.settle()
            elif other.queue is not queue:
                last[id(other.queue)] = other.event
        return list(last.values())

    def _start(self, queue: Queue, task: Task, before: Sequence[Event]) -> Event:
        try:
            if 0 in task.grid:
                return self._driver.mark(queue.handle, before)
            return self._driver.launch(queue.handle, task, before)
        except DriverError as failure:
            raise self._failed(failure) from failure

    def _failed(self, failure: DriverError) -> LaunchFailedError:
        labels = (Label(self.artifact.loc, ""),) if self.artifact.loc else ()
        return LaunchFailedError(f"kernel `{self.artifact.kernel}` failed: {failure}", *labels)

    def _before(self, after: Sequence[Launch | Event]) -> list[Event]:
        """The events to hand to the driver; those of other devices are waited for here."""
        events: list[Event] = []
        for item in after:
            event = item.event if isinstance(item, Launch) else item
            if isinstance(item, Launch) and (
                item.queue.device is not self.device or item.copies_back
            ):
                item.settle()  # brings host arrays up to date, too
            else:
                events.append(event)
        return events

    def _shape(self, grid: Extents, workgroup: Extents) -> Shape:
        try:
            return self._shapes[grid, workgroup]
        except (KeyError, TypeError):  # new, or a list
            return self._new_shape(grid, workgroup)

    def _new_shape(self, grid: Extents, workgroup: Extents) -> Shape:
        groups, items = _integers(grid, "grid"), _integers(workgroup, "workgroup")
        check_launch_shape(self.device.portrait.limits, groups, items)
        x, y, z = (*groups, 1, 1)[:3]
        i, j, k = (*items, 1, 1)[:3]
        fixed = self.artifact.workgroup
        if fixed is not None and fixed != (i, j, k):
            raise WorkgroupSizeError(
                f"`{self.artifact.kernel}` was compiled for workgroups of {fixed}, got {(i, j, k)}",
                hint=f"launch with workgroup={fixed}",
            )
        if len(self._shapes) >= _REMEMBERED:
            self._shapes.clear()
        if isinstance(grid, int | tuple) and isinstance(workgroup, int | tuple):
            self._shapes[grid, workgroup] = (x, y, z, i, j, k)
        return (x, y, z, i, j, k)


def _buffers(operands: Sequence[tuple[Slot, Operand]]) -> list[Buffer]:
    """The allocations that a launch keeps, even of arrays that are freed meanwhile."""
    return [operand.buffer for _, operand in operands if isinstance(operand, Array)]


class Room:
    """The hidden buffer of print and assert, on the device."""

    def __init__(self, device: Device, queue: Queue, records: Records) -> None:
        self._device, self._queue, self._records = device, queue, records
        self._buffer = Buffer(device, records.size)
        self.memory: Memory = self._buffer.memory
        header = _HEADER.pack(records.size - _HEADER.size, 0)
        device.driver.write(queue.handle, self.memory, 0, np.frombuffer(header, np.uint8))

    def finish(self) -> None:
        """Hand what was written to who asked for it, the header included."""
        start = self._read(_HEADER.size)
        capacity, used = _HEADER.unpack(start.tobytes())
        self._records.finish(self._read(_HEADER.size + min(capacity, used)).tobytes())

    def _read(self, size: int) -> np.ndarray[Any, Any]:
        data = np.empty(size, np.uint8)
        self._device.driver.read(self._queue.handle, self.memory, 0, data)
        return data


def _integers(extents: Extents, what: str) -> tuple[int, ...]:
    given = (extents,) if isinstance(extents, int) or hasattr(extents, "__index__") else extents
    try:
        return tuple(operator.index(extent) for extent in given)  # pyright: ignore[reportArgumentType]
    except TypeError:
        raise ArgumentError(
            f"the {what} must be one to three integers, got `{extents}`",
            hint=f"write for example `{what}=(16, 16)`",
        ) from None
