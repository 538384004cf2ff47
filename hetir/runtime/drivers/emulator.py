"""The reference evaluator as a device: hetIR text, run over host memory on a thread a queue."""

from __future__ import annotations

import os
import queue as queues
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from hetir.artifact import Artifact, Slot
from hetir.limits import limits_of
from hetir.runtime.driver import Dims, Driver, Event, Portrait, Task, wait_quietly
from hetir.runtime.dtypes import NUMPY
from hetir.runtime.hostmemory import HostMemory, host_bytes
from hetir.runtime.layout import bounds

_GRACE_SECONDS = 0.5


class Evaluate(Protocol):
    """Runs one launch of hetIR text; raises what the launch should raise."""

    def __call__(
        self,
        artifact: Artifact,
        values: Sequence[Any],
        grid: Dims,
        workgroup: Dims,
        records: np.ndarray[Any, Any] | None,
        stop: Callable[[], bool],
    ) -> None:
        """`values` are in the order of the layout's slots; arrays alias the caller's."""
        ...


class EmulatorEvent(Event):
    """A piece of work for a queue's thread."""

    __slots__ = ("_began", "_ended", "_error", "_finished", "after", "stopped", "work")

    def __init__(self, work: Callable[[Callable[[], bool]], None], after: Sequence[Event]) -> None:
        self.work, self.after = work, after
        self.stopped = threading.Event()
        self._finished = threading.Event()
        self._error: BaseException | None = None
        self._began = self._ended = 0

    def run(self) -> None:
        """On the queue's thread: wait for what comes before, then work. Never raises."""
        try:
            for event in self.after:
                wait_quietly(event)
            self._began = time.monotonic_ns()
            if not self.stopped.is_set():
                self.work(self.stopped.is_set)
        except BaseException as error:  # noqa: BLE001 - it is raised by the wait
            self._error = error
        self._ended = time.monotonic_ns()
        self._finished.set()

    def done(self) -> bool:
        """Whether it has ended."""
        return self._finished.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait; raise what the evaluator raised."""
        if not self._finished.wait(timeout):
            return False
        if self._error is not None:
            raise self._error
        return True

    def times(self) -> tuple[int, int] | None:
        """On the monotonic clock."""
        return (self._began, self._ended) if self.done() else None

    def abandon(self) -> bool:
        """Ask the evaluator to stop."""
        self.stopped.set()
        return self._finished.wait(_GRACE_SECONDS)


class EmulatorQueue:
    """Work in order, on one thread that ends with the queue or the process."""

    def __init__(self) -> None:
        self._work: queues.SimpleQueue[EmulatorEvent | None] = queues.SimpleQueue()
        self._lock = threading.Lock()
        self._process = 0
        self.last: EmulatorEvent | None = None

    def submit(self, event: EmulatorEvent) -> EmulatorEvent:
        """Add a piece of work."""
        with self._lock:
            if self._process != os.getpid():  # first use, or first use after a fork
                self._process, self._work = os.getpid(), queues.SimpleQueue()
                threading.Thread(target=_serve, args=(self._work,), daemon=True).start()
            self.last = event
            self._work.put(event)
        return event

    def end(self) -> None:
        """Let the thread end after what is queued."""
        self._work.put(None)


def _serve(work: queues.SimpleQueue[EmulatorEvent | None]) -> None:
    while (event := work.get()) is not None:
        event.run()


class ThreadDriver(HostMemory, Driver):
    """A device that is a Python function: each queue runs it on a thread of its own."""

    def make_queue(self) -> EmulatorQueue:
        """A queue; its thread starts with its first work."""
        return EmulatorQueue()

    def free_queue(self, queue: EmulatorQueue) -> None:
        """End the thread."""
        queue.end()

    def drain(self, queue: EmulatorQueue) -> None:
        """Wait for the last piece of work."""
        if queue.last is not None:
            wait_quietly(queue.last)

    def mark(self, queue: EmulatorQueue, after: Sequence[Event] = ()) -> Event:
        """Work that does nothing."""
        return queue.submit(EmulatorEvent(lambda _stop: None, after))

    def close(self) -> None:
        """The threads are daemons."""


class EmulatorDriver(ThreadDriver):
    """The evaluator."""

    def __init__(self, evaluate: Evaluate) -> None:
        self._evaluate = evaluate
        self.portrait = Portrait(
            name="emulator",
            driver="emulator",
            title="the reference evaluator",
            vendor="hetir",
            targets=("hetir",),
            host_memory=True,
            memory_bytes=None,
            units=1,
            limits=limits_of("hetir"),
            emulated=True,
        )

    def can_run(self, target: str) -> bool:
        """Portable hetIR only."""
        return target == "hetir"

    def load(self, artifact: Artifact) -> Artifact:
        """The text is the program."""
        return artifact

    def unload(self, program: Artifact) -> None:
        """Nothing is held."""

    def launch(self, queue: EmulatorQueue, task: Task, after: Sequence[Event] = ()) -> Event:
        """Queue a run of the evaluator."""
        artifact: Artifact = task.program
        values = [unpack(slot, task.block) for slot in artifact.layout.slots]
        memory = task.records
        records = host_bytes(memory.address, memory.size) if memory else None

        def work(stop: Callable[[], bool]) -> None:
            self._evaluate(artifact, values, task.grid, task.workgroup, records, stop)

        return queue.submit(EmulatorEvent(work, after))


def unpack(slot: Slot, block: bytes) -> Any:
    """One slot of a block of host addresses: a NumPy scalar, or an array over that memory."""
    dtype = NUMPY[slot.dtype]
    if slot.ndim is None:
        return np.frombuffer(block, dtype, 1, slot.offset)[0]
    words = np.frombuffer(block, np.int64, 1 + 2 * slot.ndim, slot.offset).tolist()
    shape, strides = words[1 : 1 + slot.ndim], words[1 + slot.ndim :]
    low, high = bounds(words[0], shape, strides, dtype.itemsize)
    memory = host_bytes(low, high - low)
    return np.ndarray(shape, dtype, memory, words[0] - low, strides)
