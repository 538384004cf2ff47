"""Ascend NPUs through libascendcl: streams, events, Ascend C that CANN compiles at run time."""

from __future__ import annotations

import math
import struct
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hetir.artifact import Artifact
from hetir.limits import limits_of
from hetir.runtime.driver import (
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
from hetir.runtime.drivers.ascend_shim import launch_words
from hetir.runtime.drivers.libascendcl import SIMT_LAUNCH, Current, Library, open_library
from hetir.runtime.drivers.polled import BUSY_SECONDS, PolledEvent

# by the start of aclrtGetSocName
_CHIPS = {
    "Ascend950": ("ascend:950",),
    "Ascend910_93": ("ascend:910c", "ascend:910b"),
    "Ascend910B": ("ascend:910b", "ascend:910c"),
    "Ascend310P": ("ascend:310p",),
}
_OPTIONS = {
    "ascend:910b": ["--npu-arch=dav-2201"],
    "ascend:910c": ["--npu-arch=dav-2201"],
    "ascend:310p": ["--npu-arch=dav-2002"],
    "ascend:950": ["--npu-arch=dav-3510", "--enable-simt"],
}
_SIMT, _MOST_BLOCKS = "ascend:950", 65535  # blocks of SIMT code in one launch
# aclrtMemcpyKind, aclrtMemMallocPolicy, aclrtDevAttr, aclrtMemAttr, event flags of acl_rt.h
_TO_DEVICE, _TO_HOST, _WITHIN = 1, 2, 3
_HUGE_FIRST, _WHOLE_CORES, _VECTOR_CORES, _DDR, _HBM = 0, 101, 201, 0, 1
_EVENT_FLAGS = 0x1 | 0x2 | 0x8  # for streams to wait for, to be asked, with a time
_COMPLETE = 1  # aclrtEventRecordedStatus
_MAGIC_OPTION, _MAGIC_AICORE = 2, 0x43554245
_ELF = b"\x7fELF"
_STAGE_BYTES, _SMALLEST_STAGE, _MOST_STAGES = 1 << 16, 1024, 256


class AclEvent(PolledEvent):
    """The end of work on a stream, between two of ACL's events.

    A fault of a kernel shows on its stream: the first wait there that finds it has it.
    """

    __slots__ = ("after", "ended", "stream")

    def __init__(
        self, driver: AclDriver, stream: Any, begin: Any, end: Any, after: Sequence[Event] = ()
    ) -> None:
        super().__init__(driver, begin, end)
        self.stream = stream
        self.after = tuple(after)  # a stream waits for them: they must not be destroyed
        self.ended = False

    def __del__(self) -> None:
        self.driver.discard(self.begin, self.end)

    def done(self) -> bool:
        """Whether it has ended; an error of the device ends it, too."""
        if not self.ended:
            try:
                self.ended = self.driver.come(self.end)
                if self.ended and self.begin is not self.end:  # not a mark: faults are launches'
                    self.driver.ask(self.stream)
            except DriverError as error:
                self.ended = True
                self.error = self.error or error
            if self.ended:
                self.after = ()
        return self.ended


@dataclass(slots=True, eq=False)
class AclProgram:
    """A binary, its function, and where in the argument block the addresses of arrays lie."""

    binary: Any
    function: Any
    arrays: tuple[int, ...]
    simt: bool


@dataclass(slots=True)
class _Stage:
    """Page-locked bytes, as many of the NPU, and the event after which both are free."""

    host: Any
    device: Any
    event: AclEvent | None = None


class AclDriver(Driver):
    """One NPU."""

    def __init__(self, library: Library, ordinal: int) -> None:
        self.library = library
        self._ffi = library.ffi
        library.call("aclrtSetDevice", ordinal)
        self._context = library.make("aclrtGetCurrentContext")
        self.portrait = self._portrait(ordinal)
        assert self.portrait.units is not None
        self._cores = self.portrait.units
        self._lock = threading.Lock()
        self._stages: dict[int, deque[_Stage]] = {}  # by their bytes, the oldest first
        self._discarded: list[Any] = []
        with self._current():
            self.epoch = library.make("aclrtCreateEventWithFlag", _EVENT_FLAGS)
            stream = library.make("aclrtCreateStream")
            library.call("aclrtRecordEvent", self.epoch, stream)
            library.call("aclrtSynchronizeStream", stream)
            library.call("aclrtDestroyStream", stream)

    def _current(self) -> Current:
        return Current(self.library, self._context)

    def _portrait(self, ordinal: int) -> Portrait:
        chip = self.library.text(self.library.raw.aclrtGetSocName())
        found = next((_CHIPS[start] for start in _CHIPS if chip.startswith(start)), None)
        if found is None:
            raise DriverAbsentError(
                f"hetir launches nothing on the chip `{chip}`",
                "use a 910B, 910C, 310P or 950",
            )
        if _SIMT in found and not hasattr(self.library.raw, SIMT_LAUNCH):
            raise DriverAbsentError(
                f"{self.library.path} has no `{SIMT_LAUNCH}`, which launches on the chip `{chip}`",
                "install CANN 9.2 or newer; `hetir build` writes a project for this one",
            )
        whole = found[0] == "ascend:310p"
        cores = _WHOLE_CORES if whole else _VECTOR_CORES
        total = self._ffi.new("size_t[2]")
        memory = _DDR if whole else _HBM
        known = not self.library.raw.aclrtGetMemInfo(memory, total, total + 1)
        return Portrait(
            name=f"ascend:{ordinal}",
            driver="ascend",
            title=chip,
            vendor="huawei",
            targets=found,
            host_memory=False,
            memory_bytes=total[1] if known else None,
            units=self.library.get("aclrtGetDeviceInfo", "int64_t", ordinal, cores),
            limits=limits_of(found[0]),
        )

    def can_run(self, target: str) -> bool:
        """Source for this chip, or for the other one of its architecture."""
        return target in self.portrait.targets

    # ---- memory ---------------------------------------------------------------------

    def _pointer(self, address: int) -> Any:
        return self._ffi.cast("void *", address)

    def allocate(self, size: int) -> Memory:
        """Memory of the NPU, aligned to 64 bytes at least. Raises MemoryError."""
        with self._current():
            made = self.library.make("aclrtMalloc", max(1, size), _HUGE_FIRST)
        return Memory(int(self._ffi.cast("uintptr_t", made)), size)

    def free(self, memory: Memory) -> None:
        """Give it back."""
        with self._current():
            self.library.call("aclrtFree", self._pointer(memory.address))

    def write(self, queue: Any, memory: Memory, offset: int, source: HostBytes) -> None:
        """Copy in: small pieces through page-locked memory without waiting, large ones directly."""
        if not source.size:
            return
        to, data = self._pointer(memory.address + offset), self._ffi.from_buffer(source)
        size = source.nbytes
        if size > _STAGE_BYTES:
            with self._current():
                self.library.call("aclrtSynchronizeStream", queue)
                self.library.call("aclrtMemcpy", to, size, data, size, _TO_DEVICE)
            return
        with self._current(), self._lock:
            stage = self._stage(size)
            self._ffi.memmove(stage.host, data, size)
            self._copy(queue, to, stage.host, size, _TO_DEVICE)
            stage.event = self._event(queue)

    def _copy(self, queue: Any, to: Any, of: Any, size: int, kind: int) -> None:
        self.library.call("aclrtMemcpyAsync", to, size, of, size, kind, queue)

    def _stage(self, size: int) -> _Stage:
        """The oldest of its size that is free, or a new one; with many in flight it is waited for.

        The caller gives it the event after which it is free again.
        """
        room = max(_SMALLEST_STAGE, 1 << (size - 1).bit_length())
        stages = self._stages.setdefault(room, deque())
        oldest = stages[0] if stages else None
        if oldest is not None and not self._is_free(oldest):
            while len(stages) >= _MOST_STAGES and not self._is_free(oldest):
                time.sleep(BUSY_SECONDS)
            oldest = None if len(stages) < _MOST_STAGES else oldest
        if oldest is None:
            host = self.library.make("aclrtMallocHost", room)
            oldest = _Stage(host, self.library.make("aclrtMalloc", room, _HUGE_FIRST))
        else:
            stages.popleft()
        stages.append(oldest)
        return oldest

    def _is_free(self, stage: _Stage) -> bool:
        return stage.event is None or self.come(stage.event.end)

    def read(self, queue: Any, memory: Memory, offset: int, into: HostBytes) -> None:
        """Copy out, after what is queued."""
        if not into.size:
            return
        data = self._ffi.from_buffer(into, require_writable=True)
        of, size = self._pointer(memory.address + offset), into.nbytes
        with self._current():
            self.library.call("aclrtSynchronizeStream", queue)
            self.library.call("aclrtMemcpy", data, size, of, size, _TO_HOST)

    def copy(self, queue: Any, to: tuple[Memory, int], of: tuple[Memory, int], size: int) -> Event:
        """Copy within the NPU."""
        there, here = (self._pointer(memory.address + offset) for memory, offset in (to, of))
        with self._current():
            begin = self._record(queue)
            self._copy(queue, there, here, size, _WITHIN)
            return AclEvent(self, queue, begin, self._record(queue))

    # ---- streams and events ---------------------------------------------------------

    def make_queue(self) -> Any:
        """A stream."""
        with self._current():
            return self.library.make("aclrtCreateStream")

    def free_queue(self, queue: Any) -> None:
        """Destroy it, after what is on it."""
        with self._current():
            self.library.raw.aclrtSynchronizeStream(queue)  # a fault was its launch's
            self.library.call("aclrtDestroyStream", queue)

    def mark(self, queue: Any, after: Sequence[Event] = ()) -> Event:
        """An event."""
        with self._current():
            self._wait_for(queue, after)
            end = self._record(queue)
            return AclEvent(self, queue, end, end, after)

    def come(self, event: Any) -> bool:
        """Whether a recorded event has come. Raises DriverError."""
        with self._current():
            return self.library.get("aclrtQueryEventStatus", "int", event) == _COMPLETE

    def ask(self, stream: Any) -> None:
        """Raise DriverError for a fault that a stream has to tell."""
        with self._current():
            self.library.get("aclrtStreamQuery", "int", stream)

    def elapsed(self, start: Any, end: Any) -> int:
        """Nanoseconds between two events that have come."""
        with self._current():
            out = self._ffi.new("float *")
            self.library.call("aclrtEventElapsedTime", out, start, end)
            return int(1e6 * out[0])

    def discard(self, *events: Any) -> None:
        """Destroy events once they have come; called by the garbage collector, without a lock."""
        self._discarded.extend(dict.fromkeys(events))

    def _record(self, queue: Any) -> Any:
        for _ in range(len(self._discarded)):
            try:
                event = self._discarded.pop(0)
            except IndexError:
                break  # another thread took it
            if self.come(event):
                self.library.call("aclrtDestroyEvent", event)
            else:
                self._discarded.append(event)
        event = self.library.make("aclrtCreateEventWithFlag", _EVENT_FLAGS)
        self.library.call("aclrtRecordEvent", event, queue)
        return event

    def _event(self, queue: Any) -> AclEvent:
        end = self._record(queue)
        return AclEvent(self, queue, end, end)

    def _wait_for(self, queue: Any, after: Sequence[Event]) -> None:
        """Make a stream wait for events of this NPU; others are waited for here."""
        for event in after:
            if isinstance(event, AclEvent) and event.driver is self:
                self.library.call("aclrtStreamWaitEvent", queue, event.end)
            else:
                wait_quietly(event)

    # ---- code -----------------------------------------------------------------------

    def load(self, artifact: Artifact) -> AclProgram:
        """Have CANN compile the source for this chip, and load it.

        An object of the artifact is for a linker and stays unused; anything else is no code.
        """
        if artifact.binary is not None and not artifact.binary.startswith(_ELF):
            raise DriverError("load", 1, "code that is no object file")
        arrays = tuple(s.offset for s in artifact.layout.slots if s.ndim is not None)
        with self._current():
            code = self.library.compile(artifact.text, _OPTIONS[artifact.target])
            binary = self._binary(code)
            function = self._ffi.new("void **")
            name = artifact.entry.encode()
            failed = self.library.raw.aclrtBinaryGetFunction(binary, name, function)
            if failed:
                self.library.call("aclrtBinaryUnLoad", binary)
                more = f"there is no entry `{artifact.entry}`"
                raise self.library.error("aclrtBinaryGetFunction", failed, more)
        return AclProgram(binary, function[0], arrays, artifact.target == _SIMT)

    def _binary(self, code: bytes) -> Any:
        option = self._ffi.new("LoadOption *", {"kind": _MAGIC_OPTION})
        option.value.magic = _MAGIC_AICORE
        options = self._ffi.new("LoadOptions *", {"options": option, "count": 1})
        data = self._ffi.from_buffer(code)
        return self.library.get("aclrtBinaryLoadFromData", "void *", data, len(code), options)

    def unload(self, program: AclProgram) -> None:
        """Unload the binary."""
        with self._current():
            self.library.call("aclrtBinaryUnLoad", program.binary)

    def launch(self, queue: Any, task: Task, after: Sequence[Event] = ()) -> Event:
        """Copy the launch block in and launch as many blocks as there are cores, or workgroups.

        Of SIMT code a block is a workgroup, up to 65535 of them: it walks those beyond.

        What the library refuses belongs to the event: the launches before and after it run.
        """
        words = launch_words(task.grid, task.workgroup, task.block, task.records)
        with self._current():
            self._wait_for(queue, after)
        with self._current(), self._lock:
            stage = self._stage(len(words))
            self._ffi.memmove(stage.host, words, len(words))
            begin = self._record(queue)
            error: Exception | None = None
            try:
                self._copy(queue, stage.device, stage.host, len(words), _TO_DEVICE)
                self._launch(queue, task, stage.device)
            except DriverError as refused:
                error = refused
            made = AclEvent(self, queue, begin, self._record(queue), after)
            made.error = error
            # not `made` itself, which holds what it waits for
            stage.event = AclEvent(self, queue, *[self._record(queue)] * 2)
            return made

    def _launch(self, queue: Any, task: Task, launch: Any) -> None:
        program: AclProgram = task.program
        addresses = [struct.unpack_from("<Q", task.block, at)[0] for at in program.arrays]
        addresses.append(int(self._ffi.cast("uintptr_t", launch)))
        values = [self._ffi.new("uint64_t *", address) for address in addresses]
        if program.simt:
            self._launch_simt(queue, task, values)
            return
        arguments = self.library.get("aclrtKernelArgsInit", "void *", program.function)
        for value in values:
            self.library.get("aclrtKernelArgsAppend", "void *", arguments, value, 8)
        self.library.call("aclrtKernelArgsFinalize", arguments)
        blocks = min(math.prod(task.grid), self._cores)
        nothing = self._ffi.NULL
        self.library.call(
            "aclrtLaunchKernelWithConfig",
            *(program.function, blocks, queue, nothing, arguments, nothing),
        )

    def _launch_simt(self, queue: Any, task: Task, values: Sequence[Any]) -> None:
        make, nothing = self._ffi.new, self._ffi.NULL
        grid = make("Dim3 *", (min(math.prod(task.grid), _MOST_BLOCKS), 1, 1))
        block = make("Dim3 *", task.workgroup)
        self.library.call(
            SIMT_LAUNCH,
            *(task.program.function, grid[0], block[0], 0, queue, nothing),
            make("void *[]", values),
        )

    def close(self) -> None:
        """Nothing: the system takes all back."""


def probe() -> tuple[AclDriver, ...]:
    """The NPUs. Raises DriverAbsentError where libascendcl or a device is missing."""
    library = open_library()
    return tuple(AclDriver(library, ordinal) for ordinal in range(library.start()))
