"""The one interface that every driver implements, and what passes through it.

A driver is one device. The runtime calls it from any thread, and promises: memory is freed
once, after its last use ended; events and programs go back only to the driver that made them;
shapes were checked against the portrait's limits and are never zero. The driver promises:
work on one queue takes effect in order; an error belongs to the event of the call that failed
and the device stays usable. `tests/conformance` states all of it as tests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hetir.artifact import Artifact
from hetir.limits import Limits

# arrays and not memoryviews: CPython 3.11 crashes on a memoryview in a reference cycle, such as
# that of an exception and its traceback
HostBytes = np.ndarray[Any, np.dtype[np.uint8]]
Dims = tuple[int, int, int]
Shape = tuple[int, int, int, int, int, int]  # the grid's extents, then the workgroup's
PORTRAIT_SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Portrait:
    """What a device is and can do.

    `host_memory` says that kernels read and write host addresses, so that host arrays need
    no copy. `units` counts cores or multiprocessors; None stands for unknown. `progress` is
    `items` if every work-item of the workgroups that run gets its turn, whatever the others do,
    and all workgroups of a cooperative kernel run; empty if nothing is promised.
    """

    name: str
    driver: str
    title: str
    vendor: str
    targets: tuple[str, ...]
    host_memory: bool
    memory_bytes: int | None
    units: int | None
    limits: Limits
    emulated: bool = False
    progress: str = ""

    def to_json(self) -> dict[str, Any]:
        """The portrait as JSON values, by schema PORTRAIT_SCHEMA."""
        limits = {
            "max_workgroup_size": self.limits.max_workgroup_size,
            "max_workgroup_dims": list(self.limits.max_workgroup_dims),
            "shared_bytes": self.limits.shared_bytes_optin,
            "subgroup_sizes": list(self.limits.subgroup_sizes),
        }
        plain = ("name", "driver", "title", "vendor", "host_memory", "memory_bytes", "units")
        return {
            "schema": PORTRAIT_SCHEMA,
            **{key: getattr(self, key) for key in plain},
            "emulated": self.emulated,
            "targets": list(self.targets),
            "features": sorted(self.limits.features),
            "limits": limits,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """A driver that is not here: why, and what would bring it."""

    driver: str
    reason: str
    remedy: str

    def to_json(self) -> dict[str, str]:
        """The three fields."""
        return asdict(self)


class DriverAbsentError(Exception):
    """Raised by a driver's probe, with the reason and the remedy."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


class DriverError(Exception):
    """A call of the vendor's library failed; `code` is its number, `name` the vendor's name."""

    def __init__(self, call: str, code: int, name: str) -> None:
        super().__init__(f"`{call}` failed with {name} ({code})")
        self.call, self.code, self.name = call, code, name


@dataclass(slots=True, eq=False)
class Memory:
    """An allocation: its address in the device's view, its size, and what the driver needs."""

    address: int
    size: int
    token: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """A request for print and assert output: room in bytes, and who reads what was written."""

    size: int
    finish: Callable[[bytes], None]


class Event(ABC):
    """The end of one piece of work on a queue."""

    __slots__ = ()

    @abstractmethod
    def done(self) -> bool:
        """Whether the work has ended, well or not. Never blocks or raises."""

    @abstractmethod
    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds; False when it has not ended by then.

        Raises what the work failed with, each time it is called.
        """

    @abstractmethod
    def times(self) -> tuple[int, int] | None:
        """Nanoseconds at which the work began and ended, on the device's clock; None before."""

    @abstractmethod
    def abandon(self) -> bool:
        """Give the work up: ask it to stop, and wait a moment for it to.

        True when it has ended and its queue can go on; False when it still hangs, so that its
        queue and memory must not be used again.
        """


def wait_quietly(event: Event) -> None:
    """Wait for an event; an error stays with the launch that failed."""
    try:
        event.wait()
    except Exception:  # noqa: BLE001 - whoever waits for that launch gets it
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One launch: the block with device addresses in place, and the memory that it names."""

    program: Any
    grid: Dims
    workgroup: Dims
    block: bytes
    memories: tuple[Memory, ...] = ()
    records: Memory | None = None


class Driver(ABC):
    """One device; `portrait` says what it is and never changes.

    `survives_fork` says that a forked child can go on with it; vendors' libraries cannot.
    """

    portrait: Portrait
    survives_fork: bool = False

    @abstractmethod
    def can_run(self, target: str) -> bool:
        """Whether an artifact compiled for `target` runs here."""

    @abstractmethod
    def allocate(self, size: int) -> Memory:
        """At least `size` bytes, aligned to 64. Raises MemoryError."""

    @abstractmethod
    def free(self, memory: Memory) -> None:
        """Give an allocation back.

        The garbage collector may call this at any moment, on any thread: it takes no lock that
        this driver holds while it calls Python.
        """

    @abstractmethod
    def write(self, queue: Any, memory: Memory, offset: int, source: HostBytes) -> None:
        """Copy bytes to the device, in order; `source` may change when this returns."""

    @abstractmethod
    def read(self, queue: Any, memory: Memory, offset: int, into: HostBytes) -> None:
        """Copy bytes from the device, after what is queued; they are there on return."""

    @abstractmethod
    def copy(self, queue: Any, to: tuple[Memory, int], of: tuple[Memory, int], size: int) -> Event:
        """Copy within the device, in order. The ranges do not overlap."""

    def copy_from(
        self, queue: Any, to: tuple[Memory, int], source: Driver, of: tuple[Memory, int], size: int
    ) -> Event | None:
        """Copy from another device without the host, in order; None where there is no way."""
        del queue, to, source, of, size
        return None

    @abstractmethod
    def make_queue(self) -> Any:
        """A new queue, independent of the others."""

    @abstractmethod
    def free_queue(self, queue: Any) -> None:
        """Give a queue back; what is on it still runs."""

    @abstractmethod
    def mark(self, queue: Any, after: Sequence[Event] = ()) -> Event:
        """An event that ends after everything queued so far, and after `after`."""

    @abstractmethod
    def load(self, artifact: Artifact) -> Any:
        """Load code. Raises DriverError with the vendor's text for code that does not load."""

    @abstractmethod
    def unload(self, program: Any) -> None:
        """Give loaded code back, after its last launch."""

    @abstractmethod
    def launch(self, queue: Any, task: Task, after: Sequence[Event] = ()) -> Event:
        """Run a grid, after what is queued and after `after`; returns at once."""

    def run(self, queue: Any, program: Any, shape: Shape, block: bytes) -> Event | None:
        """Run a grid and wait for it: the fast path. None when it ended well.

        A driver may return an event that has not ended instead; the caller waits for it.
        """
        task = Task(program=program, grid=shape[:3], workgroup=shape[3:], block=block)
        return self.launch(queue, task)

    def make_graph(self, tasks: Sequence[Task], after: Sequence[Sequence[int]]) -> Any:
        """Launches as one object, each after the earlier ones of `after`; None for a list."""
        del tasks, after

    def update_graph(self, graph: Any, index: int, task: Task) -> bool:
        """Give one launch another task; False when the graph must be made again."""
        del graph, index, task
        return False

    def run_graph(self, queue: Any, graph: Any, after: Sequence[Event] = ()) -> Event:
        """Run a graph that `make_graph` made, as a launch is run."""
        raise DriverError("run_graph", 0, f"{self.portrait.name} makes no graphs")

    def free_graph(self, graph: Any) -> None:
        """Give a graph back, after its last run."""
        del graph

    def stream(self, queue: Any) -> int | None:
        """What other libraries know a queue by, such as a CUDA stream's address; or None."""
        del queue
        return None

    def borrow(self, stream: int) -> Any:
        """A queue that is another library's stream; it is never freed."""
        raise DriverError(f"borrow({stream})", 0, "no streams of other libraries")

    def finish_stream(self, stream: int) -> None:
        """Wait for the work on another library's stream, by the same kind of name."""
        del stream

    @abstractmethod
    def close(self) -> None:
        """Stop what runs and give everything back; the process is about to end."""
