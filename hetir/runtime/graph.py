"""Graphs: launches recorded once, instantiated, and replayed with other arguments.

A graph is a flat list of launches. On a device whose driver has graphs (CUDA) a plan is one
object of the driver; elsewhere it is the list with its arguments packed. Every replay looks at
where the arrays lie now: a moved one is bound again, a freed one is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from hetir.runtime.arrays import Array, Buffer
from hetir.runtime.driver import Dims, Records, Task
from hetir.runtime.errors import ArgumentError
from hetir.runtime.hazards import IN_FLIGHT, Footprint
from hetir.runtime.launch import Launch

if TYPE_CHECKING:
    from hetir.runtime.device import Device, Queue
    from hetir.runtime.program import Program


class Ready(NamedTuple):
    """A launch with its code chosen and its arguments packed."""

    program: Program
    values: tuple[Any, ...]
    block: bytes
    records: Records | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """One recorded launch; `ready` chooses code for values and packs them."""

    kernel: str
    names: tuple[str, ...]
    values: tuple[Any, ...]
    grid: Dims
    workgroup: Dims
    ready: Callable[[tuple[Any, ...]], Ready]

    def __repr__(self) -> str:
        return f"<{self.kernel}[{self.grid}, {self.workgroup}]>"


class _Capture(threading.local):
    graph: Graph | None = None


_CAPTURE = _Capture()


def capturing() -> Graph | None:
    """The graph that this thread records into."""
    return _CAPTURE.graph


class Graph:
    """Launches in the order in which they were made inside `with graph:`.

    Inside, this thread's launches are recorded and not started; what they give is their node.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def __enter__(self) -> Self:
        if _CAPTURE.graph is not None:
            raise ArgumentError("this thread records a graph already", hint="end that one first")
        _CAPTURE.graph = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _CAPTURE.graph = None

    def instantiate(self) -> Plan:
        """The graph with its code chosen and its arguments packed, to be replayed."""
        return Plan(self.nodes)


class Plan:
    """An instantiated graph. Not for several threads at once."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = list(nodes)
        self._values = [node.values for node in nodes]
        self._ready: list[Ready] = []
        self._bound: list[list[Buffer]] = []
        self._native: Native | None = None
        for index in range(len(nodes)):
            self._pack(index)
        self._make_native()

    def __len__(self) -> int:
        return len(self._nodes)

    def update(self, index: int, **arguments: Any) -> None:
        """Give a node, counted from 0, other arguments by name; code is chosen anew for them.

        Raises:
            ArgumentError: there is no such node or parameter, or an argument does not fit.
            CompileError: the kernel is wrong for the new types.
        """
        if not -len(self._nodes) <= index < len(self._nodes):
            raise ArgumentError(f"the graph has {len(self._nodes)} launches, there is no {index}")
        node = self._nodes[index]
        unknown = [name for name in arguments if name not in node.names]
        if unknown:
            raise ArgumentError(
                f"`{node.kernel}` has no parameter `{unknown[0]}`",
                hint=f"its parameters are {', '.join(node.names)}",
            )
        before = self._values[index]
        pairs = zip(node.names, before, strict=True)
        self._values[index] = tuple(arguments.get(name, value) for name, value in pairs)
        try:
            self._pack(index)
        except Exception:
            self._values[index] = before
            raise
        self._rebuild(index)

    def replay(self, queue: Queue | None = None) -> Replay:
        """Start all launches, in order and after what is in their way.

        Args:
            queue: where they run; each device's own if left out.

        Raises:
            ArgumentError: an array was freed.
        """
        self._rebind()
        if self._native is not None and (queue is None or queue.device is self._native.device):
            return Replay([self._native.start(queue or self._native.device.default_queue)])
        launches: list[Launch] = []
        for node, ready in zip(self._nodes, self._ready, strict=True):
            own = queue if queue and queue.device is ready.program.device else None
            launch = ready.program.launch(
                ready.values,
                grid=node.grid,
                workgroup=node.workgroup,
                queue=own,
                records=ready.records,
                block=ready.block,
            )
            launches.append(launch)
        return Replay(launches)

    def run(self) -> None:
        """Replay and wait: without a queue between, on devices that work in host memory."""
        if self._native is not None:
            self.replay().wait()
            return
        self._rebind()
        for node, ready in zip(self._nodes, self._ready, strict=True):
            ready.program.run(ready.values, node.grid, node.workgroup, ready.records, ready.block)

    def _pack(self, index: int) -> None:
        made = self._nodes[index].ready(self._values[index])
        bound = [a.buffer for a in _arrays(made.values)]
        if index < len(self._ready):
            self._ready[index], self._bound[index] = made, bound
        else:
            self._ready.append(made)
            self._bound.append(bound)

    def _rebind(self) -> None:
        """Pack again what holds an array that moved; a freed one raises."""
        if not any(self._bound):
            return
        for index, (ready, bound) in enumerate(zip(self._ready, self._bound, strict=True)):
            try:
                now = [array.buffer for array in _arrays(ready.values)]
            except ArgumentError as error:
                node = self._nodes[index]
                raise ArgumentError(
                    f"launch {index} of the graph, of `{node.kernel}`: {error.message}",
                    hint="give it another array: `plan.update(...)`",
                ) from error
            if any(one is not other for one, other in zip(now, bound, strict=True)):
                self._pack(index)
                self._rebuild(index)

    def _make_native(self) -> None:
        """Hand the list to the driver, where one device has it all in its own memory."""
        devices = {id(ready.program.device): ready.program.device for ready in self._ready}
        if len(devices) != 1 or any(map(_needs_host, self._ready)):
            self._native = None
            return
        (device,) = devices.values()
        tasks = [self._task(index) for index in range(len(self._nodes))]
        footprints = [ready.program.footprints(ready.values) for ready in self._ready]
        handle = device.driver.make_graph(tasks, _edges(footprints))
        keep = (list(self._ready), list(self._bound))
        self._native = handle and Native(device, handle, footprints, keep)

    def _rebuild(self, index: int) -> None:
        native = self._native
        if native is None or _needs_host(self._ready[index]):
            self._make_native()
            return
        footprints = self._ready[index].program.footprints(self._ready[index].values)
        kept = native.footprints[index] == footprints
        if not (
            kept and native.device.driver.update_graph(native.handle, index, self._task(index))
        ):
            self._make_native()
            return
        native.keep = (list(self._ready), list(self._bound))

    def _task(self, index: int) -> Task:
        ready, node = self._ready[index], self._nodes[index]
        return Task(
            program=ready.program.handle,
            grid=node.grid,
            workgroup=node.workgroup,
            block=ready.block,
            memories=tuple(buffer.memory for buffer in self._bound[index]),
        )


class Native:
    """A graph of the driver's, with what it must keep."""

    def __init__(
        self, device: Device, handle: Any, footprints: list[list[Footprint]], keep: Any
    ) -> None:
        self.device, self.handle = device, handle
        self.footprints, self.keep = footprints, keep

    def __del__(self) -> None:
        if not self.device.lost:
            self.device.driver.free_graph(self.handle)

    def start(self, queue: Queue) -> Launch:
        """One launch that stands for all."""
        queue.check()
        everything = [f for footprints in self.footprints for f in footprints]
        touching = [other for other, _ in IN_FLIGHT.touching(everything)]
        last = {id(other.queue): other.event for other in touching if other.queue is not queue}
        event = self.device.driver.run_graph(queue.handle, self.handle, list(last.values()))
        launch = Launch("a graph", queue, event, {}, keep=(self, self.keep))
        IN_FLIGHT.add(launch, everything)
        queue.track(launch)
        return launch


class Replay:
    """The launches of one replay."""

    def __init__(self, launches: list[Launch]) -> None:
        self.launches = launches

    @property
    def done(self) -> bool:
        """Whether all have ended."""
        return all(launch.done for launch in self.launches)

    def wait(self, timeout: float | None = None) -> None:
        """Wait for all; raises the first error, once, as `Launch.wait` does."""
        for launch in self.launches:
            launch.wait(timeout)


def _arrays(values: Sequence[Any]) -> list[Array]:
    """The device arrays among values, also in tuples."""
    found: list[Array] = []
    for value in values:
        if isinstance(value, Array):
            found.append(value)
        elif isinstance(value, tuple):
            found += _arrays(value)  # pyright: ignore[reportUnknownArgumentType]
    return found


def _needs_host(ready: Ready) -> bool:
    """Whether a launch copies host arrays, or hands on what the kernel prints."""
    return ready.records is not None or any(map(_is_host_array, ready.values))


def _is_host_array(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_is_host_array, value))  # pyright: ignore[reportUnknownArgumentType]
    return isinstance(value, np.ndarray)


def _edges(footprints: Sequence[Sequence[Footprint]]) -> list[list[int]]:
    """For each launch, the earlier ones that it must follow."""
    return [
        [i for i in range(j) if any(a.meets(b) for a in footprints[i] for b in footprints[j])]
        for j in range(len(footprints))
    ]
