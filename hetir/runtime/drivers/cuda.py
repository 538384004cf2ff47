"""NVIDIA GPUs through libcuda: primary contexts, streams, events, cubins or PTX."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hetir.artifact import Artifact
from hetir.limits import limits_of, targets
from hetir.runtime.driver import (
    Dims,
    Driver,
    DriverAbsentError,
    DriverError,
    Event,
    HostBytes,
    Memory,
    Portrait,
    Task,
    wait_quietly,
)
from hetir.runtime.drivers import cuda_graph
from hetir.runtime.drivers.grids import dynamic_shared_bytes, launch_parameter, pieces
from hetir.runtime.drivers.libcuda import NOT_READY, Current, Library, open_library
from hetir.runtime.drivers.polled import BUSY_SECONDS, PolledEvent

# CUdevice_attribute, CUfunction_attribute, CUjit_option, CUstream_flags of cuda.h
_MULTIPROCESSORS, _MAJOR, _MINOR, _SHARED_OPTIN = 16, 75, 76, 97
_MAX_DYNAMIC_SHARED, _ERROR_LOG, _ERROR_LOG_BYTES, _NON_BLOCKING = 8, 5, 6, 1
_LOG_BYTES = 16384
_STAGE_BYTES, _STAGES = 1 << 20, 4


class CudaEvent(PolledEvent):
    """The end of work on a stream, between two of CUDA's events."""

    __slots__ = ()

    def __del__(self) -> None:
        self.driver.recycle(self.begin, self.end)

    def done(self) -> bool:
        """Whether it has ended; an error of the device ends it, too."""
        if self.error is not None:
            return True
        code = self.driver.query(self.end)
        if code not in (0, NOT_READY):
            self.error = self.driver.library.error("cuEventQuery", code)
        return code != NOT_READY


@dataclass(slots=True, eq=False)
class CudaProgram:
    """A module, its entry, and the dynamic shared memory that its launches need.

    `arrivals` is the word in which the grid barriers of a cooperative kernel count, for each
    stream.
    """

    module: Any
    function: Any
    has_block: bool
    shared_bytes: int
    cooperative: bool
    optin: bool = False
    arrivals: dict[int, int] = field(default_factory=dict[int, int])


@dataclass(slots=True)
class _Stage:
    """A page-locked buffer and the event after which it may be written again."""

    host: Any
    event: Any


class CudaDriver(Driver):
    """One GPU."""

    def __init__(self, library: Library, ordinal: int) -> None:
        self.library = library
        self._ffi = library.ffi
        device = library.get("cuDeviceGet", "int", ordinal)
        self._capability = tuple(self._attribute(a, device) for a in (_MAJOR, _MINOR))
        self.portrait = self._portrait(ordinal, device)
        context = library.get("cuDevicePrimaryCtxRetain", "void *", device)
        self._context = context
        self._lock = threading.Lock()
        self._events: list[Any] = []
        self._stages: list[_Stage] = []
        with self._current():
            self.epoch = library.get("cuEventCreate", "void *", 0)
            stream = library.get("cuStreamCreate", "void *", _NON_BLOCKING)
            library.call("cuEventRecord", self.epoch, stream)
            library.call("cuStreamSynchronize", stream)
            library.call("cuStreamDestroy_v2", stream)

    def _current(self) -> Current:
        return Current(self.library, self._context)

    def _attribute(self, attribute: int, device: int) -> int:
        return self.library.get("cuDeviceGetAttribute", "int", attribute, device)

    def _portrait(self, ordinal: int, device: int) -> Portrait:
        name = self._ffi.new("char[256]")
        self.library.call("cuDeviceGetName", name, 256, device)
        found = [t for t in targets() if t.startswith("ptx:") and self.can_run(t)]
        if not found:
            major, minor = self._capability
            raise DriverAbsentError(
                f"the capability {major}.{minor} of the GPU is older than hetir compiles for",
                "use a GPU of capability 7.5 or newer",
            )
        # the newest capability first; its plain code before what only this generation runs
        found.sort(key=lambda t: (-_number(t), t))
        limits = limits_of(found[0])
        shared = self._attribute(_SHARED_OPTIN, device)
        return Portrait(
            name=f"cuda:{ordinal}",
            driver="cuda",
            title=self._ffi.string(name).decode(errors="replace"),
            vendor="nvidia",
            targets=tuple(found),
            host_memory=False,
            memory_bytes=self.library.get("cuDeviceTotalMem_v2", "size_t", device),
            units=self._attribute(_MULTIPROCESSORS, device),
            limits=replace(limits, shared_bytes_optin=shared),
            progress="items",
        )

    def can_run(self, target: str) -> bool:
        """PTX of this capability or an older one; `a` runs on its own, `f` on its family."""
        match = re.fullmatch(r"ptx:sm_(\d+)([af]?)", target)
        if match is None:
            return False
        major, minor = self._capability
        number, own = int(match[1]), 10 * major + minor
        if match[2] == "a":
            return number == own
        return number <= own and (match[2] != "f" or number // 10 == major)

    def loads_binary(self, target: str) -> bool:
        """Whether machine code for `target` runs: the same generation, not a newer member."""
        return self.can_run(target) and _number(target) // 10 == self._capability[0]

    # ---- memory ---------------------------------------------------------------------

    def allocate(self, size: int) -> Memory:
        """Memory of the GPU, aligned to 256 bytes. Raises MemoryError."""
        with self._current():
            return Memory(self.library.get("cuMemAlloc_v2", "uint64_t", max(1, size)), size)

    def free(self, memory: Memory) -> None:
        """Give it back."""
        with self._current():
            self.library.call("cuMemFree_v2", memory.address)

    def write(self, queue: Any, memory: Memory, offset: int, source: HostBytes) -> None:
        """Copy in: small pieces through page-locked memory without waiting, large ones directly."""
        if not source.size:
            return
        address, data = memory.address + offset, self._ffi.from_buffer(source)
        with self._current():
            if source.nbytes <= _STAGE_BYTES:
                self._write_staged(queue, address, data, source.nbytes)
                return
            self.library.call("cuMemcpyHtoDAsync_v2", address, data, source.nbytes, queue)
            self.library.call("cuStreamSynchronize", queue)

    def _write_staged(self, queue: Any, address: int, data: Any, size: int) -> None:
        with self._lock:
            stage = self._stage()
            self._ffi.memmove(stage.host, data, size)
            self.library.call("cuMemcpyHtoDAsync_v2", address, stage.host, size, queue)
            self.library.call("cuEventRecord", stage.event, queue)

    def _stage(self) -> _Stage:
        """A buffer that is free; the oldest is waited for when all are in flight."""
        for stage in self._stages:
            if self.library.raw.cuEventQuery(stage.event) == 0:
                return stage
        if len(self._stages) < _STAGES:
            host = self.library.get("cuMemHostAlloc", "void *", _STAGE_BYTES, 0)
            made = _Stage(host, self.library.get("cuEventCreate", "void *", 0))
            self._stages.append(made)
            return made
        oldest = self._stages[0]
        while self.library.raw.cuEventQuery(oldest.event) == NOT_READY:
            time.sleep(BUSY_SECONDS)
        return oldest

    def read(self, queue: Any, memory: Memory, offset: int, into: HostBytes) -> None:
        """Copy out, after what is queued."""
        if not into.size:
            return
        data = self._ffi.from_buffer(into, require_writable=True)
        with self._current():
            address = memory.address + offset
            self.library.call("cuMemcpyDtoHAsync_v2", data, address, into.nbytes, queue)
            self.library.call("cuStreamSynchronize", queue)

    def copy(self, queue: Any, to: tuple[Memory, int], of: tuple[Memory, int], size: int) -> Event:
        """Copy within the GPU."""
        with self._current():
            begin = self._record(queue)
            places = to[0].address + to[1], of[0].address + of[1]
            self.library.call("cuMemcpyDtoDAsync_v2", *places, size, queue)
            return CudaEvent(self, begin, self._record(queue))

    def copy_from(
        self, queue: Any, to: tuple[Memory, int], source: Driver, of: tuple[Memory, int], size: int
    ) -> Event | None:
        """Copy from another GPU of this library, over whatever connects the two."""
        if not isinstance(source, CudaDriver) or source.library is not self.library:
            return None
        with self._current():
            begin = self._record(queue)
            there = to[0].address + to[1], self._context
            here = of[0].address + of[1], source.context
            self.library.call("cuMemcpyPeerAsync", *there, *here, size, queue)
            return CudaEvent(self, begin, self._record(queue))

    @property
    def context(self) -> Any:
        """The device's primary context."""
        return self._context

    # ---- streams and events ---------------------------------------------------------

    def make_queue(self) -> Any:
        """A stream that the legacy default stream does not order."""
        with self._current():
            return self.library.get("cuStreamCreate", "void *", _NON_BLOCKING)

    def free_queue(self, queue: Any) -> None:
        """Destroy it; what is on it still runs."""
        with self._current():
            self.library.call("cuStreamDestroy_v2", queue)

    def mark(self, queue: Any, after: Sequence[Event] = ()) -> Event:
        """An event."""
        with self._current():
            self._wait_for(queue, after)
            end = self._record(queue)
            return CudaEvent(self, end, end)

    def stream(self, queue: Any) -> int:
        """The stream's address."""
        return int(self._ffi.cast("uintptr_t", queue))

    def borrow(self, stream: int) -> Any:
        """The stream as a queue."""
        return self._ffi.cast("void *", stream)

    def finish_stream(self, stream: int) -> None:
        """Wait for a stream of another library; 1 and 2 are CUDA's default ones."""
        with self._current():
            self.library.call("cuStreamSynchronize", self._ffi.cast("void *", stream))

    def query(self, event: Any) -> int:
        """CUDA's code for an event: 0 when it has come, NOT_READY before."""
        with self._current():
            return self.library.raw.cuEventQuery(event)

    def elapsed(self, start: Any, end: Any) -> int:
        """Nanoseconds between two events that have come."""
        with self._current():
            return int(1e6 * self.library.get("cuEventElapsedTime", "float", start, end))

    def recycle(self, *events: Any) -> None:
        """Keep events for later work."""
        self._events.extend(dict.fromkeys(events))

    def _record(self, queue: Any) -> Any:
        try:
            event = self._events.pop()
        except IndexError:
            event = self.library.get("cuEventCreate", "void *", 0)
        self.library.call("cuEventRecord", event, queue)
        return event

    def _wait_for(self, queue: Any, after: Sequence[Event]) -> None:
        """Make a stream wait for events of this GPU; others are waited for here."""
        for event in after:
            if isinstance(event, CudaEvent) and event.driver is self:
                self.library.call("cuStreamWaitEvent", queue, event.end, 0)
            else:
                wait_quietly(event)

    # ---- code -----------------------------------------------------------------------

    def load(self, artifact: Artifact) -> CudaProgram:
        """Load the cubin where it fits this GPU, else have the driver compile the PTX."""
        binary = artifact.binary if self.loads_binary(artifact.target) else None
        with self._current():
            module = self._module(binary or artifact.text.encode() + b"\0")
            try:
                function = self.library.get(
                    "cuModuleGetFunction", "void *", module, artifact.entry.encode()
                )
            except DriverError as error:
                self.library.call("cuModuleUnload", module)
                more = f"there is no entry `{artifact.entry}`"
                raise self.library.error("cuModuleGetFunction", error.code, more) from None
        shared = dynamic_shared_bytes(artifact)
        has_block = artifact.layout.size > 0
        return CudaProgram(module, function, has_block, shared, artifact.cooperative)

    def _module(self, image: bytes) -> Any:
        log, out = self._ffi.new("char[]", _LOG_BYTES), self._ffi.new("void **")
        options = self._ffi.new("int[2]", (_ERROR_LOG, _ERROR_LOG_BYTES))
        size = self._ffi.cast("void *", _LOG_BYTES)
        values = self._ffi.new("void *[2]", (log, size))
        code = self.library.raw.cuModuleLoadDataEx(
            out, self._ffi.from_buffer(image), 2, options, values
        )
        if code:
            said = self._ffi.string(log).decode(errors="replace").strip()
            raise self.library.error("cuModuleLoadDataEx", code, said)
        return out[0]

    def unload(self, program: CudaProgram) -> None:
        """Unload the module."""
        with self._current():
            for word in program.arrivals.values():
                self.library.call("cuMemFree_v2", word)
            self.library.call("cuModuleUnload", program.module)

    def resident_groups(self, program: CudaProgram, workgroup_size: int) -> int:
        """How many workgroups a multiprocessor holds at once, as the driver counts."""
        with self._current():
            return self.library.get(
                "cuOccupancyMaxActiveBlocksPerMultiprocessor",
                "int",
                program.function,
                workgroup_size,
                program.shared_bytes,
            )

    def launch(self, queue: Any, task: Task, after: Sequence[Event] = ()) -> Event:
        """Launch a grid, in pieces where one launch does not take it.

        What the driver refuses belongs to the event: the launches before and after it run.
        """
        with self._current():
            self._wait_for(queue, after)
            begin = self._record(queue)
            error: Exception | None = None
            try:
                self._launch(queue, task)
            except DriverError as refused:
                error = refused
            made = CudaEvent(self, begin, self._record(queue))
            made.error = error
            return made

    def make_graph(self, tasks: Sequence[Task], after: Sequence[Sequence[int]]) -> Any:
        """A CUDA graph."""
        with self._current():
            return cuda_graph.make(self, tasks, after)

    def update_graph(self, graph: Any, index: int, task: Task) -> bool:
        """Set the parameters of a node; runs that were started keep theirs."""
        with self._current():
            return cuda_graph.update(self, graph, index, task)

    def run_graph(self, queue: Any, graph: Any, after: Sequence[Event] = ()) -> Event:
        """Launch a graph."""
        with self._current():
            self._wait_for(queue, after)
            begin = self._record(queue)
            self.library.call("cuGraphLaunch", graph.executable, queue)
            return CudaEvent(self, begin, self._record(queue))

    def free_graph(self, graph: Any) -> None:
        """Destroy it."""
        with self._current():
            cuda_graph.free(self, graph)

    def opt_in(self, program: CudaProgram) -> None:
        """Ask once for more shared memory than every kernel may have."""
        if program.shared_bytes and not program.optin:
            self.library.call(
                "cuFuncSetAttribute", program.function, _MAX_DYNAMIC_SHARED, program.shared_bytes
            )
            program.optin = True

    def _launch(self, queue: Any, task: Task) -> None:
        program: CudaProgram = task.program
        self.opt_in(program)
        records = task.records.address if task.records else 0
        block = [self._ffi.from_buffer(task.block)] if program.has_block else []
        most: Dims = self.portrait.limits.max_grid_dims
        if program.cooperative:
            # the whole grid at once, or CUDA's error that it is too large for that
            self._launch_together(queue, task, program, block, records)
            return
        for first, extents in pieces(task.grid, most):
            launch = self._ffi.from_buffer(
                launch_parameter(task.grid, first, task.workgroup, records)
            )
            params = self._ffi.new("void *[]", [*block, launch])
            shape = (*extents, *task.workgroup)
            where = (program.shared_bytes, queue, params, self._ffi.NULL)
            self.library.call("cuLaunchKernel", program.function, *shape, *where)

    def _launch_together(
        self, queue: Any, task: Task, program: CudaProgram, block: list[Any], records: int
    ) -> None:
        word = program.arrivals.get(stream := int(self._ffi.cast("uintptr_t", queue)))
        if word is None:
            word = self.library.get("cuMemAlloc_v2", "uint64_t", 8)
            program.arrivals[stream] = word
        self.library.call("cuMemsetD8Async", word, 0, 8, queue)
        given = launch_parameter(task.grid, (0, 0, 0), task.workgroup, records, word)
        params = self._ffi.new("void *[]", [*block, self._ffi.from_buffer(given)])
        shape = (*task.grid, *task.workgroup, program.shared_bytes)
        self.library.call("cuLaunchCooperativeKernel", program.function, *shape, queue, params)

    def close(self) -> None:
        """Nothing: the system takes all back, and a context that hangs cannot be released."""


def _number(target: str) -> int:
    return int("".join(filter(str.isdigit, target.partition("_")[2])))


def probe() -> tuple[CudaDriver, ...]:
    """The GPUs. Raises DriverAbsentError where libcuda or a device is missing."""
    library = open_library()
    return tuple(CudaDriver(library, ordinal) for ordinal in range(library.start()))
