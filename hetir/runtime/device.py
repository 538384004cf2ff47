"""Devices and their queues, whatever driver is behind them."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hetir.artifact import Artifact
from hetir.runtime.arrays import Array, Buffer, HostArray, element_type, extents
from hetir.runtime.driver import Driver, DriverError, Event, Memory, Portrait, wait_quietly
from hetir.runtime.errors import (
    ArgumentError,
    DeviceError,
    LaunchTimeoutError,
    OutOfMemoryError,
)
from hetir.runtime.launch import Launch, leak
from hetir.runtime.layout import contiguous_strides
from hetir.runtime.link import Link, measure
from hetir.runtime.operands import as_operand
from hetir.runtime.program import Program

# failed launches whose errors a queue keeps for a wait
_REMEMBERED = 64


class Queue:
    """Launches that run one after the other, in the order in which they were made."""

    def __init__(self, device: Device, borrowed: Any = None) -> None:
        device.check()
        self.device = device
        self.handle = device.driver.make_queue() if borrowed is None else borrowed
        self._owned = borrowed is None
        self.abandoned = False
        self._running: deque[Launch] = deque()
        self._failed: deque[Launch] = deque(maxlen=_REMEMBERED)

    def __del__(self) -> None:
        owned = hasattr(self, "handle") and self._owned and not self.abandoned
        if owned and not self.device.lost:
            self.device.driver.free_queue(self.handle)

    def mark(self) -> Event:
        """An event that ends after everything launched so far."""
        self.check()
        return self.device.driver.mark(self.handle)

    def wait(self, timeout: float | None = None) -> None:
        """Wait for every launch of this queue; raises the first error that nobody has seen."""
        for launch in [*self._failed, *self._running]:
            launch.wait(timeout)
        self.mark().wait(timeout)

    def track(self, launch: Launch) -> None:
        """Keep a launch alive while it runs, and a failed one until its error was seen."""
        running = self._running
        with suppress(IndexError):  # none is left
            while (ended := running[0]).done:
                ended.settle()
                with suppress(ValueError):  # it went already, maybe in another thread
                    running.remove(ended)
                    if ended.unseen:
                        self._failed.append(ended)
        running.append(launch)

    def let_go(self, launch: Launch) -> None:
        """Forget a launch that was settled, unless its error is still to be seen."""
        if not launch.unseen:
            for kept in (self._running, self._failed):
                with suppress(ValueError):
                    kept.remove(launch)

    def running(self) -> list[Launch]:
        """The launches that have not ended."""
        return [launch for launch in list(self._running) if not launch.done]

    def check(self) -> None:
        """Raise DeviceError when the queue was given up, or its device lost in a fork."""
        self.device.check()
        if self.abandoned:
            raise DeviceError(
                "a launch hangs in this queue", hint="make another one: `device.queue()`"
            )

    def abandon(self) -> None:
        """Give the queue up, with what hangs in it; the device's own one is replaced."""
        self.abandoned = True
        leak(self)
        self.device.replace(self)


@dataclass(slots=True)
class Health:
    """What went wrong on a device in this process: launches that failed, and that hung."""

    failed: int = 0
    given_up: int = 0


class Device:
    """A device: its portrait, its memory, its queues and the code loaded on it."""

    def __init__(self, driver: Driver, peer: Callable[[Any], Device]) -> None:
        self.driver = driver
        self.portrait: Portrait = driver.portrait
        self.name = self.portrait.name
        self.health = Health()
        self.lost = False
        self._link: Link | None = None
        self._peer = peer
        self._lock = threading.Lock()
        self._queues: weakref.WeakSet[Queue] = weakref.WeakSet()
        self._own: Queue | None = None
        _DEVICES.add(self)

    def __repr__(self) -> str:
        return f"<hetir device {self.name}: {self.portrait.title}>"

    def check(self) -> None:
        """Raise DeviceError in a process that was forked after the device was opened."""
        if self.lost:
            raise DeviceError(
                f"the process was forked after `{self.name}` was used, and its library does not "
                "live through a fork",
                hint='start processes with multiprocessing.get_context("spawn")',
            )

    def note(self, error: Exception) -> None:
        """Count a launch that failed, for `health`."""
        hung = isinstance(error, LaunchTimeoutError)
        self.health.given_up += hung
        self.health.failed += not hung

    def to_json(self) -> dict[str, Any]:
        """The portrait and the health as JSON values; docs/runtime.md has the schema."""
        link = None if self._link is None else asdict(self._link)
        return {**self.portrait.to_json(), "health": asdict(self.health), "link": link}

    def link(self) -> Link:
        """What copies to the device and back cost, measured at the first call."""
        if self._link is None:
            self._link = measure(self)
        return self._link

    @property
    def target(self) -> str:
        """What to compile for to run here."""
        return self.portrait.targets[0]

    def can_run(self, target: str) -> bool:
        """Whether code for `target` runs here."""
        return self.driver.can_run(target)

    def peer(self, device: str | Device) -> Device:
        """Another device by name."""
        return self._peer(device)

    @property
    def default_queue(self) -> Queue:
        """The queue of launches that name none."""
        if self._own is None:
            with self._lock:
                if self._own is None:
                    self._own = self._new_queue()
        return self._own

    def queue(self) -> Queue:
        """A new queue, independent of the others."""
        with self._lock:
            return self._new_queue()

    def _new_queue(self) -> Queue:
        queue = Queue(self)
        self._queues.add(queue)
        return queue

    def borrow(self, handle: int) -> Queue:
        """A queue around another library's: on CUDA the address of a stream, which stays its."""
        return Queue(self, self.driver.borrow(handle))

    def replace(self, queue: Queue) -> None:
        """Forget a queue that was given up."""
        with self._lock:
            if self._own is queue:
                self._own = None

    def wait(self) -> None:
        """Wait for everything launched here; raises the first error that nobody has seen."""
        for queue in self._live_queues():
            queue.wait()

    def drain(self) -> None:
        """Wait for everything launched here and leave errors to their launches."""
        for queue in self._live_queues():
            for launch in queue.running():
                wait_quietly(launch.event)

    def _live_queues(self) -> list[Queue]:
        with self._lock:
            return [queue for queue in self._queues if not queue.abandoned]

    def load(self, artifact: Artifact, names: Sequence[str] = ()) -> Program:
        """Load compiled code; `names` are its parameters', for messages and results."""
        if not self.can_run(artifact.target):
            raise DeviceError(
                f"`{self.name}` does not run code for `{artifact.target}`",
                hint=f"compile for `{self.target}`",
            )
        self.check()
        try:
            handle = self.driver.load(artifact)
        except DriverError as error:
            raise DeviceError(
                f"the code of kernel `{artifact.kernel}` does not load on `{self.name}`: {error}"
            ) from error
        return Program(self, artifact, handle, names)

    def allocate(self, size: int) -> Memory:
        """Memory of the device. Raises OutOfMemoryError."""
        self.check()
        try:
            return self.driver.allocate(size)
        except MemoryError:
            raise OutOfMemoryError(
                f"`{self.name}` has no memory for {size} bytes", hint="use smaller pieces"
            ) from None

    def read(self, memory: Memory, offset: int, into: HostArray) -> None:
        """Copy bytes to the host, after everything launched here."""
        self.check()
        self.drain()
        self.driver.read(self.default_queue.handle, memory, offset, into)

    def empty(self, shape: int | Sequence[int], dtype: Any = "f32") -> Array:
        """An array of undefined elements."""
        kind, sizes = element_type(dtype), extents(shape)
        strides = contiguous_strides(sizes, kind.itemsize)
        size = kind.itemsize
        for extent in sizes:
            size *= extent
        return Array(Buffer(self, size), sizes, kind, strides)

    def array(self, source: Any) -> Array:
        """A contiguous copy of an array on this device."""
        operand = as_operand(source)
        if isinstance(operand, Array) and operand.device is self and operand.flags.c_contiguous:
            return self._copied(operand)
        host = np.asarray(operand)
        if host.dtype.kind in "iufb" and not host.dtype.isnative:
            raise ArgumentError("the array is in foreign byte order", hint="convert it first")
        made = self.empty(host.shape, host.dtype)
        if host.size:
            data = np.ascontiguousarray(host).reshape(-1).view(np.uint8)
            self.write(made.buffer.memory, 0, data)
        return made

    def write(self, memory: Memory, offset: int, data: HostArray) -> None:
        """Copy bytes in; they are there on return, for launches on any queue."""
        queue = self.default_queue.handle
        self.driver.write(queue, memory, offset, data)
        if not self.portrait.host_memory:
            wait_quietly(self.driver.mark(queue))

    def _copied(self, source: Array) -> Array:
        """A copy that does not leave the device."""
        made = self.empty(source.shape, source.dtype)
        source.settle(writes=False)
        if source.size:
            to, of = (made.buffer.memory, 0), (source.buffer.memory, source.offset)
            self.driver.copy(self.default_queue.handle, to, of, source.nbytes).wait()
        return made

    def close(self) -> None:
        """Stop what runs; the process is about to end."""
        for queue in self._live_queues():
            for launch in queue.running():
                if not launch.event.abandon():
                    leak(launch)
        self.driver.close()


_DEVICES: weakref.WeakSet[Device] = weakref.WeakSet()


def _after_fork() -> None:
    """In the child: what vendors' libraries had open is the parent's."""
    for device in list(_DEVICES):
        device.lost = not device.driver.survives_fork


os.register_at_fork(after_in_child=_after_fork)
