"""The CPU as a device: object code on the C runtime's pool, on host memory, without copies."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hetir.artifact import Artifact
from hetir.limits import CpuUnit, limits_of
from hetir.runtime.driver import Driver, DriverError, Event, Portrait, Shape, Task, wait_quietly
from hetir.runtime.hostmemory import HostMemory
from hetir.runtime.native import native
from hetir.runtime.pack import launcher

_DONE, _LOST = 1, 4
_STATUS = {
    2: "cancelled",
    3: "no memory for the shared and private memory of its workgroups",
    _LOST: "lost: the process was forked while it ran",
    5: "given up",
}
# how often a waiting main thread looks for signals
_SLICE_NS = 100_000_000
_GRACE_SECONDS = 0.5


class CpuEvent(Event):
    """A job of the C runtime; `helps` says that whoever waits for it runs it, too.

    `interrupt` is what the first wait raises.
    """

    __slots__ = ("_free", "_helps", "_interrupt", "_lib", "job")

    def __init__(
        self, lib: Any, job: Any, helps: int = 0, interrupt: BaseException | None = None
    ) -> None:
        self.job, self._lib, self._free, self._helps = job, lib, lib.hetir_job_free, helps
        self._interrupt = interrupt

    def __del__(self) -> None:
        self._free(self.job)

    def done(self) -> bool:
        """Whether it has ended."""
        return self._lib.hetir_job_status(self.job) != 0

    def wait(self, timeout: float | None = None) -> bool:
        """Wait. Raises DriverError."""
        status = self.finish() if timeout is None else self._wait(timeout)
        if status > _DONE:
            raise DriverError("hetir_wait", status, _STATUS[status])
        return status == _DONE

    def finish(self) -> int:
        """Wait for the end, in slices so that Ctrl-C gets through; gives the status."""
        if self._interrupt is not None:  # it was pressed while this thread ran workgroups
            interrupt, self._interrupt = self._interrupt, None
            raise interrupt
        status = 0
        while status == 0:
            status = self._lib.hetir_wait(self.job, _SLICE_NS, self._helps)
        return status

    def _wait(self, timeout: float) -> int:
        """Never runs workgroups: this thread must come back in time."""
        deadline = time.monotonic() + timeout
        while True:
            left = int(max(0.0, deadline - time.monotonic()) * 1e9)
            status = self._lib.hetir_wait(self.job, min(left, _SLICE_NS), 0)
            if status or left == 0:
                return status

    def times(self) -> tuple[int, int] | None:
        """On the monotonic clock."""
        out = native().ffi.new("int64_t[2]")
        self._lib.hetir_job_times(self.job, out)
        return (out[0], out[1]) if out[1] else None

    def abandon(self) -> bool:
        """Cancel it, and leave it to itself when that does not help."""
        self._lib.hetir_cancel(self.job)
        if self._lib.hetir_wait(self.job, int(_GRACE_SECONDS * 1e9), 0):
            return True
        self._lib.hetir_abandon(self.job)
        return not self._lib.hetir_job_busy(self.job)


class CpuProgram(NamedTuple):
    """Loaded object code, as cffi and as C know it."""

    handle: Any
    address: int


class CpuQueue:
    """Jobs that run one after the other; the last one stands for all."""

    __slots__ = ("last", "lock")

    def __init__(self) -> None:
        self.last: CpuEvent | None = None
        self.lock = threading.Lock()


class CpuDriver(HostMemory, Driver):
    """The cores of this machine."""

    def __init__(self) -> None:
        self._lib, self._ffi = native()
        self._run = launcher().run
        self._run_address = int(self._ffi.cast("uintptr_t", self._lib.hetir_run))
        self.portrait = _portrait(self._lib.hetir_threads())

    def can_run(self, target: str) -> bool:
        """The host itself, or an x86-64 level that it has."""
        return target == "cpu" or target in _levels()

    def make_queue(self) -> CpuQueue:
        """An empty queue."""
        return CpuQueue()

    def free_queue(self, queue: CpuQueue) -> None:
        """Forget the last job."""
        queue.last = None

    def mark(self, queue: CpuQueue, after: Sequence[Event] = ()) -> Event:
        """A job that does nothing."""
        return self._submit(queue, self._ffi.NULL, b"", self._ffi.NULL, self._ffi.NULL, after)

    def drain(self, queue: CpuQueue) -> None:
        """Wait for the last job."""
        last = queue.last
        if last is not None:
            last.finish()

    def load(self, artifact: Artifact) -> CpuProgram:
        """Map the object code. Raises DriverError."""
        if artifact.binary is None:
            raise DriverError("hetir_program_load", 0, "the artifact holds no object code")
        message = self._ffi.new("char[256]")
        program = self._lib.hetir_program_load(
            self._ffi.from_buffer(artifact.binary),
            len(artifact.binary),
            artifact.entry.encode(),
            artifact.resources.shared_bytes,
            artifact.resources.item_bytes,
            message,
            len(message),
        )
        if not program:
            text = self._ffi.string(message).decode(errors="replace")
            raise DriverError("hetir_program_load", 1, text)
        return CpuProgram(program, int(self._ffi.cast("uintptr_t", program)))

    def unload(self, program: CpuProgram) -> None:
        """Drop it; jobs in flight keep it."""
        self._lib.hetir_program_free(program.handle)

    def launch(self, queue: CpuQueue, task: Task, after: Sequence[Event] = ()) -> Event:
        """Submit a job to the pool."""
        shape = self._ffi.new("int64_t[6]", (*task.grid, *task.workgroup))
        records = self._records(task)
        return self._submit(queue, task.program.handle, task.block, shape, records, after)

    def run(self, queue: CpuQueue, program: Any, shape: Shape, block: bytes) -> Event | None:
        """Run on this thread and the pool."""
        last = queue.last
        if last is not None and not last.done():
            return super().run(queue, program, shape, block)
        left = self._run(self._run_address, program.address, block, shape, _SLICE_NS)
        if left == _DONE:
            return None
        if isinstance(left, int):
            raise DriverError("hetir_run", left, _STATUS[left])
        job = self._ffi.cast("hetir_job *", left[1])
        return CpuEvent(self._lib, job, helps=1, interrupt=left[2])

    def close(self) -> None:
        """The pool's threads end with the process."""

    def _records(self, task: Task) -> Any:
        if task.records is None:
            return self._ffi.NULL
        return self._ffi.cast("uint8_t *", task.records.address)

    def _submit(
        self,
        queue: CpuQueue,
        program: Any,
        block: bytes,
        shape: Any,
        records: Any,
        after: Sequence[Event],
    ) -> CpuEvent:
        with queue.lock:
            before = [event.job for event in after if isinstance(event, CpuEvent)]
            for event in after:
                if not isinstance(event, CpuEvent):
                    wait_quietly(event)
            if queue.last is not None:
                before.append(queue.last.job)
            job = self._lib.hetir_submit(
                program, block, len(block), shape, records, before, len(before)
            )
            if not job:
                raise DriverError("hetir_submit", 3, "no memory for the launch")
            queue.last = CpuEvent(self._lib, job)
            return queue.last


def _portrait(threads: int) -> Portrait:
    limits = limits_of("cpu")
    unit = limits.unit
    title = unit.parts[0].name if isinstance(unit, CpuUnit) else "CPU"
    return Portrait(
        name="cpu",
        driver="cpu",
        title=f"{title}, {threads} threads",
        vendor="host",
        targets=("cpu",),
        host_memory=True,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        units=threads,
        limits=limits,
    )


# x86-64 psABI, "Micro-Architecture Levels"
_LEVELS = {
    "cpu:x86-64": "sse2",
    "cpu:x86-64-v2": "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3",
    "cpu:x86-64-v3": "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave",
    "cpu:x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
}


@cache
def _levels() -> frozenset[str]:
    """The targets of the x86-64 levels that this machine has."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return frozenset()
    line = next((line for line in text.splitlines() if line.startswith("flags")), "")
    flags = set(line.split())
    found: set[str] = set()
    for level, needed in _LEVELS.items():
        if not flags.issuperset(needed.split()):
            break
        found.add(level)
    return frozenset(found)
