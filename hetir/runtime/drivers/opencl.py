"""OpenCL devices that take SPIR-V, through pyopencl (extra `opencl`).

A kernel's arguments are those of `hetir.backends.spirv.opencl`: for each array its buffer,
the block with byte offsets in the place of addresses, the records, the device's hidden word,
and local memory where the kernel has one argument more.
"""

from __future__ import annotations

import atexit
import itertools
import os
import struct
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hetir.artifact import BLOCK_BY_VALUE_BYTES, Artifact, Variant
from hetir.runtime.driver import (
    Dims,
    Driver,
    DriverAbsentError,
    DriverError,
    Event,
    HostBytes,
    Memory,
    Task,
    wait_quietly,
)
from hetir.runtime.drivers.opencl_device import TARGET, lacks, offers, portrait
from hetir.runtime.drivers.spirv import listing, switched_on
from hetir.runtime.drivers.trial import Options, fuses, parts, passes

_COMPLETE = 0
_GRACE_SECONDS = 2.0
_JOIN_SECONDS = 2e-3
_LANE_BYTES = 8
_HIDDEN_BYTES = 64
_EXACT_DIVISION = 128
_POCL = "Portable Computing Language"
_NO_MEMORY = ("MEM_OBJECT_ALLOCATION_FAILURE", "OUT_OF_HOST_MEMORY", "INVALID_BUFFER_SIZE")
# made up, as OpenCL tells no addresses of buffers; far from what is one on the host
_ADDRESSES = itertools.count(1 << 56, 1 << 41)


@cache
def _cl() -> Any:
    """The library. Raises DriverAbsentError."""
    try:
        import pyopencl  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise DriverAbsentError(
            f"pyopencl cannot be imported ({error})", "pip install 'hetir[opencl]'"
        ) from None
    return pyopencl


def _error(failure: Any) -> DriverError:
    """A pyopencl error as the runtime's."""
    name = _cl().status_code.to_string(failure.code, "code %d")
    return DriverError(failure.routine or "OpenCL", failure.code, name)


class OpenClEvent(Event):
    """An event of the vendor's, or the error that kept the work from starting."""

    __slots__ = ("_error", "handle", "keep")

    def __init__(self, handle: Any, keep: Any = None, error: DriverError | None = None) -> None:
        self.handle, self.keep, self._error = handle, keep, error

    @property
    def status(self) -> int:
        """Negative for an error, 0 for the end."""
        return -1 if self._error else self.handle.command_execution_status

    def done(self) -> bool:
        """Whether it has ended."""
        return self.status <= _COMPLETE

    def wait(self, timeout: float | None = None) -> bool:
        """Look again and again, seldom as time goes by. Raises DriverError.

        CPU runtimes keep one core for a thread that waits in their own call: one does, once it
        takes long, and this one stays free for Ctrl-C.
        """
        begun, joined = time.perf_counter(), False
        while not self.done():
            passed = time.perf_counter() - begun
            if timeout is not None and passed >= timeout:
                return False
            if passed > _JOIN_SECONDS and not joined:
                joined = True
                threading.Thread(target=self._join, daemon=True).start()
            time.sleep(min(0.002, 1e-5 + passed / 8))
        self.keep = None
        if self._error:
            raise self._error
        if self.status < _COMPLETE:
            name = _cl().status_code.to_string(self.status, "code %d")
            raise DriverError("clEnqueueNDRangeKernel", self.status, name)
        return True

    def _join(self) -> None:
        """Wait in the library's call; what it fails with, `wait` says."""
        with suppress(Exception):
            self.handle.wait()

    def times(self) -> tuple[int, int] | None:
        """On the device's clock."""
        if self._error:
            return (0, 0)
        if not self.done():
            return None
        return self.handle.profile.start, self.handle.profile.end

    def abandon(self) -> bool:
        """OpenCL cancels nothing: wait a moment."""
        try:
            return self.wait(_GRACE_SECONDS)
        except DriverError:
            return True


class OpenClQueue:
    """An in-order queue; the last event stands for all."""

    __slots__ = ("__weakref__", "handle", "last")

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.last: OpenClEvent | None = None


_QUEUES: weakref.WeakSet[OpenClQueue] = weakref.WeakSet()


@atexit.register
def _settle() -> None:
    """Let work end before the process does: runtimes were seen to crash where it had not."""
    for queue in list(_QUEUES):
        if queue.last is not None:
            queue.last.abandon()


class _Form:
    """A kernel. Its arguments are state of OpenCL's object, so that launches take turns."""

    __slots__ = ("extra", "kernel", "lock")

    def __init__(self, artifact: Artifact, kernel: Any) -> None:
        self.kernel = kernel
        self.lock = threading.Lock()
        arrays = sum(slot.ndim is not None for slot in artifact.layout.slots)
        own = arrays + bool(artifact.layout.size) + 2
        self.extra = kernel.num_args - own


class OpenClProgram:
    """An artifact and its forms that were built; by its variant, None for the plain one."""

    __slots__ = ("artifact", "forms", "keep_order", "lock")

    def __init__(self, artifact: Artifact, *, keep_order: bool) -> None:
        self.artifact, self.keep_order = artifact, keep_order
        self.lock = threading.Lock()
        self.forms: dict[Variant | None, _Form] = {}


class Tried(NamedTuple):
    """What a trial of a device's arithmetic found: whether it is IEEE's, and what that takes."""

    faithful: bool
    keep_order: bool


class OpenClDriver(Driver):
    """One device."""

    def __init__(self, device: Any, number: int) -> None:
        cl = _cl()
        self._device = device
        self._context = cl.Context([device])
        self._hidden: Any = None
        self._lock = threading.Lock()
        self._trials = threading.Lock()
        self._tried: dict[str, Tried] = {}
        self._tried_fma: dict[str, bool] = {}
        self._tried_branches: bool | None = None
        processor = bool(device.type & _cl().device_type.CPU)
        offered = partial(offers, device)
        self.options = Options(self, self._alone, TARGET, offered, processor=processor)
        self.portrait = portrait(device, f"opencl:{number}")

    def can_run(self, target: str) -> bool:
        """Modules for OpenCL."""
        return target == TARGET

    # ---- memory --------------------------------------------------------------------------

    def allocate(self, size: int) -> Memory:
        """A buffer."""
        cl = _cl()
        if size > self._device.max_mem_alloc_size:
            raise MemoryError
        try:
            buffer = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, max(1, size))
        except cl.Error as failure:
            if any(name in str(failure) for name in _NO_MEMORY):
                raise MemoryError from None
            raise _error(failure) from failure
        return Memory(next(_ADDRESSES), size, buffer)

    def free(self, memory: Memory) -> None:
        """OpenCL keeps a buffer until the commands that use it have ended."""
        memory.token.release()

    def write(self, queue: OpenClQueue, memory: Memory, offset: int, source: HostBytes) -> None:
        """At once when the queue is idle, else later from a copy."""
        if not source.size:
            return
        idle = queue.last is None or queue.last.done()
        data = source if idle else source.copy()
        made = self._copied(queue, memory.token, data, dst_offset=offset, is_blocking=idle)
        if not idle:
            queue.last = OpenClEvent(made, data)

    def read(self, queue: OpenClQueue, memory: Memory, offset: int, into: HostBytes) -> None:
        """After what is queued."""
        if into.size:
            self._copied(queue, into, memory.token, src_offset=offset, is_blocking=True)

    def copy(
        self, queue: OpenClQueue, to: tuple[Memory, int], of: tuple[Memory, int], size: int
    ) -> Event:
        """Between buffers."""
        if not size:
            return self.mark(queue)
        offsets = {"dst_offset": to[1], "src_offset": of[1]}
        made = self._copied(queue, to[0].token, of[0].token, byte_count=size, **offsets)
        queue.last = OpenClEvent(made)
        return queue.last

    def _copied(self, queue: OpenClQueue, to: Any, of: Any, **options: Any) -> Any:
        cl = _cl()
        try:
            made = cl.enqueue_copy(queue.handle, to, of, **options)
            queue.handle.flush()
        except cl.Error as failure:
            raise _error(failure) from failure
        return made

    # ---- queues --------------------------------------------------------------------------

    def make_queue(self) -> OpenClQueue:
        """An in-order queue that keeps times."""
        cl = _cl()
        properties = cl.command_queue_properties.PROFILING_ENABLE
        queue = OpenClQueue(cl.CommandQueue(self._context, self._device, properties))
        _QUEUES.add(queue)
        return queue

    def free_queue(self, queue: OpenClQueue) -> None:
        """Its work still runs."""
        queue.handle.flush()
        queue.last = None

    def mark(self, queue: OpenClQueue, after: Sequence[Event] = ()) -> Event:
        """A marker."""
        cl = _cl()
        waits = _waits(after)
        made = cl.enqueue_marker(queue.handle, wait_for=waits or None)
        queue.handle.flush()
        queue.last = OpenClEvent(made)
        return queue.last

    # ---- code ----------------------------------------------------------------------------

    def load(self, artifact: Artifact) -> OpenClProgram:
        """Build a module. Raises DriverError with what the device lacks, or its log."""
        if artifact.binary is None:
            raise DriverError("clCreateProgramWithIL", 0, "the artifact holds no module")
        found = listing(artifact.binary)
        if artifact.entry not in found.entries:
            raise DriverError(
                "clCreateKernel", -46, f"the module has no entry point {artifact.entry}"
            )
        reason = lacks(self._device, found.capabilities)
        if reason:
            raise DriverError("clBuildProgram", -11, reason)
        types = ("f32", "f64") if "Float64" in found.capabilities.values() else ("f32",)
        tried = [self._try(dtype) for dtype in types]
        if not all(t.faithful for t in tried):
            raise _unreproducible("its division, square roots or sums are not IEEE's")
        if found.fuses and not all(map(self._fuses, types)):
            raise _unreproducible("its fma is not IEEE's")
        if found.branches and not self._parts():
            raise _unreproducible("work-items cannot part after a barrier that stands in a branch")
        need, have = artifact.resources.shared_bytes, self._device.local_mem_size
        if need > have:
            raise DriverError(
                "clCreateKernel", -5, f"{need} bytes of shared memory, where the device has {have}"
            )
        program = OpenClProgram(artifact, keep_order=any(t.keep_order for t in tried))
        width = min(artifact.subgroup_size, self.portrait.limits.max_workgroup_size)
        self._form(program, artifact.workgroup or (width, 1, 1))
        return program

    def _form(self, program: OpenClProgram, workgroup: Dims) -> _Form:
        """The best form for workgroups of a size, built when it is first needed."""
        artifact = program.artifact
        variant = self.options.form(artifact, workgroup) if artifact.variants else None
        with program.lock:
            if variant is not None:
                with suppress(DriverError):  # then the plain form must do
                    return self._built(program, variant)
            return self._built(program, None)

    def _built(self, program: OpenClProgram, variant: Variant | None) -> _Form:
        found = program.forms.get(variant)
        if found is None:
            code = variant.binary if variant else program.artifact.binary
            assert code is not None
            found = self._build(program.artifact, code, keep_order=program.keep_order)
            program.forms[variant] = found
        return found

    def _alone(self, artifact: Artifact, *, keep_order: bool = False) -> OpenClProgram:
        """A program of one form, for trials."""
        assert artifact.binary is not None
        program = OpenClProgram(artifact, keep_order=keep_order)
        listing(artifact.binary)
        program.forms[None] = self._build(artifact, artifact.binary, keep_order=keep_order)
        return program

    def _build(self, artifact: Artifact, code: bytes, *, keep_order: bool) -> _Form:
        cl = _cl()
        exact = self._device.single_fp_config & _EXACT_DIVISION
        options = ["-cl-fp32-correctly-rounded-divide-sqrt"] if exact else []
        program = cl.Program(self._context, switched_on(code) if keep_order else code)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a log that is not empty
                program.build(options, [self._device])
            return _Form(artifact, cl.Kernel(program, artifact.entry))
        except cl.Error as failure:
            log = program.get_build_info(self._device, cl.program_build_info.LOG)
            name = cl.status_code.to_string(failure.code, "code %d")
            raise DriverError("clBuildProgram", failure.code, f"{name}: {log.strip()}") from failure

    def _parts(self) -> bool:
        """Try branches after barriers in branches, once; PoCL 6.0 was seen to crash over them."""
        with self._trials:
            if self._tried_branches is None:
                sound: bool = self._device.platform.name != _POCL
                self._tried_branches = sound and parts(self, self._alone, TARGET)
        return self._tried_branches

    def _fuses(self, dtype: str) -> bool:
        """Try the device's `fma`, once a type."""
        with self._trials:
            if dtype not in self._tried_fma:
                self._tried_fma[dtype] = fuses(self, self._alone, TARGET, dtype)
        return self._tried_fma[dtype]

    def _try(self, dtype: str) -> Tried:
        """Try the device's arithmetic, once a type; if sums are out of order, with stores."""
        with self._trials:
            if dtype not in self._tried:
                self._tried[dtype] = Tried(faithful=False, keep_order=False)
                for keep_order in (False, True):
                    load = partial(self._alone, keep_order=keep_order)
                    if passes(self, load, TARGET, dtype):
                        self._tried[dtype] = Tried(faithful=True, keep_order=keep_order)
                        break
        return self._tried[dtype]

    def unload(self, program: OpenClProgram) -> None:
        """OpenCL keeps a kernel until the commands that use it have ended."""

    # ---- launches ------------------------------------------------------------------------

    def launch(self, queue: OpenClQueue, task: Task, after: Sequence[Event] = ()) -> Event:
        """Queue a launch; what cannot be queued is an event that has failed."""
        cl = _cl()
        program: OpenClProgram = task.program
        total = [g * w for g, w in zip(task.grid, task.workgroup, strict=True)]
        waits = _waits(after)
        try:
            form = self._form(program, task.workgroup)
            arguments = self._arguments(program, form, task)
            with form.lock:
                form.kernel.set_args(*arguments)
                made = cl.enqueue_nd_range_kernel(
                    queue.handle, form.kernel, total, task.workgroup, wait_for=waits or None
                )
            queue.handle.flush()
        except cl.Error as failure:
            return OpenClEvent(None, error=_error(failure))
        except DriverError as failure:
            return OpenClEvent(None, error=failure)
        queue.last = OpenClEvent(made, (program, arguments))
        return queue.last

    def _arguments(self, program: OpenClProgram, form: _Form, task: Task) -> list[Any]:
        cl = _cl()
        layout = program.artifact.layout
        block, arguments = bytearray(task.block), list[Any]()
        arrays = [slot for slot in layout.slots if slot.ndim is not None]
        for slot, memory in zip(arrays, task.memories, strict=True):
            (address,) = struct.unpack_from("<q", block, slot.offset)
            struct.pack_into("<q", block, slot.offset, address - memory.address)
            arguments.append(memory.token)
        if layout.size > BLOCK_BY_VALUE_BYTES:
            flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
            arguments.append(cl.Buffer(self._context, flags, hostbuf=bytes(block)))
        elif layout.size:
            arguments.append(bytes(block))
        arguments.append(task.records.token if task.records else None)
        arguments.append(self._word())
        if form.extra > 0:
            size = _LANE_BYTES * task.workgroup[0] * task.workgroup[1] * task.workgroup[2]
            arguments.append(cl.LocalMemory(size))
        return arguments

    def _word(self) -> Any:
        """The hidden word that seq_cst operations update."""
        with self._lock:
            if self._hidden is None:
                cl = _cl()
                flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
                blank = np.zeros(_HIDDEN_BYTES, np.uint8)
                self._hidden = cl.Buffer(self._context, flags, hostbuf=blank)
        return self._hidden

    def close(self) -> None:
        """OpenCL gives everything back with the process."""


def _waits(after: Sequence[Event]) -> list[Any]:
    """The vendor's events to wait for; others are waited for here, failed ones left out."""
    found: list[Any] = []
    for event in after:
        if not isinstance(event, OpenClEvent):
            wait_quietly(event)
        elif not event.done():
            found.append(event.handle)
    return found


def _unreproducible(reason: str) -> DriverError:
    return DriverError("clBuildProgram", -11, f"the device is not reproducible: {reason}")


# ---- what is here ------------------------------------------------------------------------


def probe() -> list[Driver]:
    """Every device that takes SPIR-V. Raises DriverAbsentError."""
    cl = _cl()
    platforms: list[Any] = []
    with _loader(), suppress(cl.Error):
        platforms = cl.get_platforms()
    found = [d for p in platforms for d in _devices(p) if _takes_spirv(d)]
    if not found:
        seen = ", ".join(p.name for p in platforms) or "none"
        raise DriverAbsentError(
            f"no OpenCL device takes SPIR-V (platforms: {seen})",
            "install one that does: Intel's, PoCL 6 or newer, rusticl; "
            "by pip: intel-opencl-rt intel-cmplr-lib-rt",
        )
    return [OpenClDriver(device, number) for number, device in enumerate(found)]


def _devices(platform: Any) -> list[Any]:
    try:
        return platform.get_devices()
    except _cl().Error:  # a platform without devices, or a broken one
        return []


def _takes_spirv(device: Any) -> bool:
    try:
        return "SPIR-V" in device.il_version
    except (_cl().Error, AttributeError):
        return False


@contextmanager
def _loader() -> Generator[None]:
    """Let the loader find runtimes that pip installed, beside those of the system."""
    library = _installed()
    if library is None or "OCL_ICD_VENDORS" in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        for entry in sorted(Path("/etc/OpenCL/vendors").glob("*.icd")):
            Path(folder, entry.name).write_bytes(entry.read_bytes())
        Path(folder, "hetir-pip.icd").write_text(f"{library}\n", encoding="utf-8")
        os.environ["OCL_ICD_VENDORS"] = folder
        try:
            yield
        finally:
            del os.environ["OCL_ICD_VENDORS"]


def _installed() -> Path | None:
    """Intel's runtime from its wheel, whose own .icd file names another machine's folder."""
    try:
        files = metadata.files("intel-opencl-rt") or []
    except metadata.PackageNotFoundError:
        return None
    found = (Path(str(f.locate())).resolve() for f in files if f.name == "libintelocl.so")
    return next(filter(Path.exists, found), None)
