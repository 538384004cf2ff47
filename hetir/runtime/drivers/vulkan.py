"""Vulkan devices that compute, through the loader and cffi; nothing is needed to import this.

A kernel's push constants are those of `hetir.backends.spirv.vulkan`. Memory is what the host
sees, too, so that copies are the host's; on a device whose own memory the host does not see,
they go through a buffer that it does. All queues are one of the device's, in order.
"""

from __future__ import annotations

import itertools
import struct
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from hetir.artifact import Artifact, Variant
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
from hetir.runtime.drivers.spirv import Listing, listing, without
from hetir.runtime.drivers.trial import Options, compares, keeps_zeros, loops_end_early, passes
from hetir.runtime.drivers.vulkan_api import LIBRARY, TIMEOUT, Api, api
from hetir.runtime.drivers.vulkan_device import (
    VERSION,
    Physical,
    opened,
    physical_devices,
    portrait,
)
from hetir.runtime.drivers.vulkan_event import SLICE_NS, Slot, VulkanEvent, VulkanQueue
from hetir.runtime.hostmemory import host_bytes

TARGET = "spirv:vulkan"
_ENVIRONMENT = "vulkan1.3"
_COMPUTE_STAGE = 0x20
_TOP, _BOTTOM, _HOST, _COMMANDS = 1, 0x2000, 0x4000, 0x10000
_HOST_ACCESS, _ANY_ACCESS = 0x2000 | 0x4000, 0x8000 | 0x10000
_BUFFER_USAGE = 0x1 | 0x2 | 0x20 | 0x20000  # copied from and to, storage, with an address
_DEVICE_ADDRESS = 2
_FULL_SUBGROUPS = 2
_PROCESSOR = 4
_ALIGNMENT = 64
_MOST_DISPATCHES = 65536
_LANE_BYTES = 8
_TIMES = struct.Struct("<QQ")
_PUSHED = struct.Struct("<9q")
_STAGED_BYTES = 1 << 24
_FEATURES: Mapping[str, str] = MappingProxyType(
    {
        "Float64": "shaderFloat64",
        "Int8": "shaderInt8",
        "Int16": "shaderInt16",
        "StorageBuffer8BitAccess": "storageBuffer8BitAccess",
        "StorageBuffer16BitAccess": "storageBuffer16BitAccess",
        "Int64Atomics": "shaderBufferInt64Atomics",
        "VulkanMemoryModelDeviceScope": "vulkanMemoryModelDeviceScope",
        "GroupNonUniformShuffle": "subgroupSizeControl",
        "AtomicFloat32AddEXT": "shaderBufferFloat32AtomicAdd",
        "AtomicFloat64AddEXT": "shaderBufferFloat64AtomicAdd",
    }
)
# an execution mode, its capability, and what the device says of it for a width
_MODES: Mapping[str, str] = MappingProxyType(
    {
        "DenormPreserve": "denormPreserve",
        "SignedZeroInfNanPreserve": "signedZero",
        "RoundingModeRTE": "roundEven",
    }
)


class _Token(NamedTuple):
    """A buffer, its memory, where the host sees its first byte or 0, and that byte's place."""

    buffer: Any
    memory: Any
    host: int
    shift: int


class _Module(NamedTuple):
    """A shader module, and whether it needs subgroups of the artifact's width."""

    handle: Any
    pins: bool


class VulkanProgram:
    """The shader modules of an artifact's forms, by variant, None for the plain one.

    A pipeline for each workgroup's size that it was launched with.
    """

    __slots__ = ("artifact", "modules", "pipelines")

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.modules: dict[Variant | None, _Module] = {}
        self.pipelines: dict[Dims, Any] = {}


class VulkanDriver(Driver):
    """One device."""

    def __init__(self, a: Api, physical: Physical, number: int) -> None:
        self.api, self._physical, self.family = a, physical, physical.family
        self.device = opened(a, physical)
        out = a.ffi.new("VkQueue *")
        a.lib.vkGetDeviceQueue(self.device, self.family, 0, out)
        self._queue = out[0]
        self._lock = threading.RLock()
        self._free: list[Slot] = []
        self._tried: dict[str, bool] = {}
        self._tried_loops = self._hides = False
        self._period = physical.said.properties.limits.timestampPeriod
        ranges = a.make("PushRange", stages=_COMPUTE_STAGE, size=_PUSHED.size)
        layout = a.make("LayoutInfo", rangeCount=1, ranges=ranges)
        self._layout = a.create("vkCreatePipelineLayout", "VkPipelineLayout", self.device, layout)
        self.portrait = portrait(a, physical, f"vulkan:{number}")
        self._counts: Dims = self.portrait.limits.max_grid_dims
        processor = physical.said.properties.deviceType == _PROCESSOR
        self.options = Options(self, self._alone, TARGET, physical.offers, processor=processor)
        self._word = self.allocate(_ALIGNMENT)
        self.write(self.make_queue(), self._word, 0, np.zeros(_ALIGNMENT, np.uint8))

    def can_run(self, target: str) -> bool:
        """Modules for Vulkan."""
        return target == TARGET

    # ---- memory --------------------------------------------------------------------------

    def allocate(self, size: int) -> Memory:
        """A buffer with memory of its own, mapped for good where the host sees it."""
        physical = self._physical
        return self._allocated(size, physical.local_type, mapped=not physical.staged)

    def _visible(self, size: int) -> Memory:
        """A buffer that the host sees."""
        return self._allocated(size, self._physical.visible_type, mapped=True)

    def _allocated(self, size: int, kind: int, *, mapped: bool) -> Memory:
        a, null = self.api, self.api.ffi.NULL
        room = max(1, size) + _ALIGNMENT
        if room > self._physical.memory_bytes:
            raise MemoryError
        info = a.make("BufferInfo", size=room, usage=_BUFFER_USAGE)
        buffer = a.create("vkCreateBuffer", "VkBuffer", self.device, info)
        needs = a.ffi.new("Requirements *")
        a.lib.vkGetBufferMemoryRequirements(self.device, buffer, needs)
        flags = a.make("AllocateFlags", flags=_DEVICE_ADDRESS)
        wanted = a.make("AllocateInfo", pNext=flags, size=needs.size, type=kind)
        try:
            memory = a.create("vkAllocateMemory", "VkDeviceMemory", self.device, wanted)
        except MemoryError:
            a.lib.vkDestroyBuffer(self.device, buffer, null)
            raise
        a.call("vkBindBufferMemory", self.device, buffer, memory, 0)
        start = a.lib.vkGetBufferDeviceAddress(self.device, a.make("AddressInfo", buffer=buffer))
        shift = -start % _ALIGNMENT
        host = 0
        if mapped:
            out = a.ffi.new("void **")
            a.call("vkMapMemory", self.device, memory, 0, needs.size, 0, out)
            host = int(a.ffi.cast("uintptr_t", out[0])) + shift
        return Memory(start + shift, size, _Token(buffer, memory, host, shift))

    def free(self, memory: Memory) -> None:
        """Give buffer and memory back."""
        token: _Token = memory.token
        self.api.lib.vkDestroyBuffer(self.device, token.buffer, self.api.ffi.NULL)
        self.api.lib.vkFreeMemory(self.device, token.memory, self.api.ffi.NULL)

    def write(self, queue: VulkanQueue, memory: Memory, offset: int, source: HostBytes) -> None:
        """Copy in, when the queue is idle."""
        self._drain(queue)
        if memory.token.host:
            host_bytes(memory.token.host + offset, source.size)[:] = source
            return
        with self._staging(source.size) as room:
            seen = host_bytes(room.token.host, room.size)
            for start in range(0, source.size, room.size):
                part = source[start : start + room.size]
                seen[: part.size] = part
                self._move(queue, (memory, offset + start), (room, 0), part.size).wait()

    def read(self, queue: VulkanQueue, memory: Memory, offset: int, into: HostBytes) -> None:
        """Copy out, when the queue is idle."""
        self._drain(queue)
        if memory.token.host:
            into[:] = host_bytes(memory.token.host + offset, into.size)
            return
        with self._staging(into.size) as room:
            seen = host_bytes(room.token.host, room.size)
            for start in range(0, into.size, room.size):
                part = into[start : start + room.size]
                self._move(queue, (room, 0), (memory, offset + start), part.size).wait()
                part[:] = seen[: part.size]

    def copy(
        self, queue: VulkanQueue, to: tuple[Memory, int], of: tuple[Memory, int], size: int
    ) -> Event:
        """Copy by the device."""
        return self._move(queue, to, of, size) if size else self.mark(queue)

    @contextmanager
    def _staging(self, size: int) -> Generator[Memory]:
        """Room that the host sees, for a part of a copy at a time."""
        room = self._visible(min(max(1, size), _STAGED_BYTES))
        try:
            yield room
        finally:
            self.free(room)

    def _move(
        self, queue: VulkanQueue, to: tuple[Memory, int], of: tuple[Memory, int], size: int
    ) -> VulkanEvent:
        a = self.api
        (target, start), (source, first) = to, of
        places = first + source.token.shift, start + target.token.shift, size
        region = a.ffi.new("CopyRegion[1]", [places])

        def record(slot: Slot) -> None:
            buffers = source.token.buffer, target.token.buffer
            a.lib.vkCmdCopyBuffer(slot.commands, *buffers, 1, region)

        return self._submit(queue, record, (target, source))

    def _drain(self, queue: VulkanQueue) -> None:
        if queue.last is not None:
            wait_quietly(queue.last)

    # ---- queues --------------------------------------------------------------------------

    def make_queue(self) -> VulkanQueue:
        """An order of its own within the device's queue."""
        return VulkanQueue()

    def free_queue(self, queue: VulkanQueue) -> None:
        """Its work still runs."""
        queue.last = None

    def mark(self, queue: VulkanQueue, after: Sequence[Event] = ()) -> Event:
        """A submission that does nothing."""
        _wait_for_others(after)
        return self._submit(queue, None, None)

    # ---- code ----------------------------------------------------------------------------

    def load(self, artifact: Artifact) -> VulkanProgram:
        """Make a shader module. Raises DriverError with what the device lacks."""
        if artifact.binary is None:
            raise DriverError("vkCreateShaderModule", 0, "the artifact holds no module")
        found = listing(artifact.binary, _ENVIRONMENT)
        if artifact.entry not in found.entries:
            raise DriverError(
                "vkCreateComputePipelines", 0, f"the module has no entry point {artifact.entry}"
            )
        self._check(found)
        if found.loops:
            self.warn_of_loops()
        return self._alone(artifact)

    def warn_of_loops(self) -> None:
        """Warn, once, where the device ends long loops by itself (lavapipe of Mesa 22.3 does)."""
        with self._lock:
            if self._tried_loops:
                return
            self._tried_loops = True
            early = loops_end_early(self, self._alone, TARGET)
        if early:
            warnings.warn(
                f"`{self.portrait.name}` ({self.portrait.title}) ends loops after 65,535 rounds "
                "of a work-item without saying so: results of longer ones are wrong",
                RuntimeWarning,
                stacklevel=2,
            )

    def _check(self, found: Listing) -> None:
        needed = found.capabilities.values()
        for capability, feature in _FEATURES.items():
            if capability in needed and not self._physical.features[feature]:
                raise DriverError(
                    "vkCreateShaderModule", -8, f"the device lacks {feature}, for {capability}"
                )
        types = ("f32", "f64") if "Float64" in needed else ("f32",)
        if not (self._compares() and all(map(self._faithful, types))):
            raise DriverError(
                "vkCreateShaderModule",
                -8,
                "the device is not reproducible: it does not compute as IEEE says "
                "(subnormal numbers, division, square roots or sums), or compares wrongly",
            )

    def _compares(self) -> bool:
        """Try comparisons and zeros, once; if they come out wrong, with what it takes hidden."""
        with self._lock:
            if "i32" not in self._tried:
                for self._hides in (False, True):
                    tries = (trial(self, self._alone, TARGET) for trial in (compares, keeps_zeros))
                    self._tried["i32"] = all(tries)
                    if self._tried["i32"]:
                        break
        return self._tried["i32"]

    def _faithful(self, dtype: str) -> bool:
        """Try the device's arithmetic, once a type."""
        with self._lock:
            if dtype not in self._tried:
                self._tried[dtype] = passes(self, self._alone, TARGET, dtype)
        return self._tried[dtype]

    def _alone(self, artifact: Artifact) -> VulkanProgram:
        """A program with its plain form."""
        assert artifact.binary is not None
        program = VulkanProgram(artifact)
        program.modules[None] = self._build(artifact.binary)
        return program

    def _build(self, binary: bytes) -> _Module:
        """A module without the modes that the device does not have."""
        a, found = self.api, listing(binary, _ENVIRONMENT)
        absent = {
            (mode, bits)
            for mode, said in _MODES.items()
            for bits in (32, 64)
            if not self._physical.floats[f"{said}{bits}"]
        }
        code = without(binary, absent)
        words = a.ffi.from_buffer("uint32_t[]", code)
        info = a.make("ShaderInfo", codeSize=len(code), code=words)
        made = a.create("vkCreateShaderModule", "VkShaderModule", self.device, info)
        return _Module(made, "GroupNonUniformShuffle" in found.capabilities.values())

    def unload(self, program: VulkanProgram) -> None:
        """Destroy the pipelines, when what runs has ended."""
        a = self.api
        with self._lock:
            a.lib.vkDeviceWaitIdle(self.device)
            for pipeline in program.pipelines.values():
                a.lib.vkDestroyPipeline(self.device, pipeline, a.ffi.NULL)
            program.pipelines.clear()
            for module, _ in program.modules.values():
                a.lib.vkDestroyShaderModule(self.device, module, a.ffi.NULL)
            program.modules.clear()

    def _pipeline(self, program: VulkanProgram, workgroup: Dims) -> Any:
        found = program.pipelines.get(workgroup)
        if found is None:
            found = program.pipelines[workgroup] = self._best_pipeline(program, workgroup)
        return found

    def _best_pipeline(self, program: VulkanProgram, workgroup: Dims) -> Any:
        """Of the best form for workgroups of a size."""
        artifact = program.artifact
        variant = self.options.form(artifact, workgroup) if artifact.variants else None
        if variant is not None:
            with suppress(DriverError):  # then the plain form must do
                if variant not in program.modules:
                    program.modules[variant] = self._build(variant.binary)
                return self._make_pipeline(program, variant, workgroup)
        return self._make_pipeline(program, None, workgroup)

    def _make_pipeline(
        self, program: VulkanProgram, variant: Variant | None, workgroup: Dims
    ) -> Any:
        a, artifact = self.api, program.artifact
        module, pins = program.modules[variant]
        entries = a.ffi.new("SpecializationEntry[4]", [(i, 4 * i, 4) for i in range(4)])
        constants = a.ffi.new("uint32_t[4]", (*workgroup, self._hides))
        special = a.make("Specialization", count=4, entries=entries, size=16, data=constants)
        entry, width = a.ffi.new("char[]", artifact.entry.encode()), artifact.subgroup_size
        required = a.make("RequiredSubgroup", size=width)
        stage = a.make(
            "StageInfo",
            pNext=required if pins else a.ffi.NULL,
            flags=_FULL_SUBGROUPS if pins and workgroup[0] % width == 0 else 0,
            stage=_COMPUTE_STAGE,
            module=module,
            entry=entry,
            specialization=special,
        )
        info = a.make("PipelineInfo", stage=stage[0], layout=self._layout, baseIndex=-1)
        out = a.ffi.new("VkPipeline *")
        null = a.ffi.NULL
        a.call("vkCreateComputePipelines", self.device, null, 1, info, null, out)
        return out[0]

    # ---- launches ------------------------------------------------------------------------

    def launch(self, queue: VulkanQueue, task: Task, after: Sequence[Event] = ()) -> Event:
        """Submit a grid; what cannot be submitted is an event that has failed."""
        _wait_for_others(after)
        try:
            self._fits(task)
            with self._lock:
                pipeline = self._pipeline(task.program, task.workgroup)
            return self._submit(queue, _Dispatches(self, task, pipeline), task)
        except (DriverError, MemoryError) as failure:
            return VulkanEvent(self, None, error=failure)

    def _fits(self, task: Task) -> None:
        program: VulkanProgram = task.program
        items = task.workgroup[0] * task.workgroup[1] * task.workgroup[2]
        shared = program.artifact.resources.shared_bytes
        if program.artifact.resources.lanes:
            shared += _LANE_BYTES * items
        most = self.portrait.limits.shared_bytes_optin
        if shared > most:
            raise DriverError(
                "vkCreateComputePipelines", 0, f"{shared} bytes of shared memory of {most}"
            )

    def _submit(
        self, queue: VulkanQueue, record: Callable[[Slot], None] | None, keep: Any
    ) -> VulkanEvent:
        a = self.api
        with self._lock:
            slot = self._free.pop() if self._free else Slot(self)
            a.call("vkResetCommandPool", self.device, slot.pool, 0)
            a.call("vkBeginCommandBuffer", slot.commands, a.make("BeginInfo", flags=1))
            self._barrier(slot, _HOST | _COMMANDS, _COMMANDS)
            a.lib.vkCmdResetQueryPool(slot.commands, slot.times, 0, 2)
            a.lib.vkCmdWriteTimestamp(slot.commands, _TOP, slot.times, 0)
            if record is not None:
                record(slot)
            a.lib.vkCmdWriteTimestamp(slot.commands, _BOTTOM, slot.times, 1)
            self._barrier(slot, _COMMANDS, _HOST)
            a.call("vkEndCommandBuffer", slot.commands)
            fences = a.ffi.new("VkFence[1]", [slot.fence])
            a.call("vkResetFences", self.device, 1, fences)
            commands = a.ffi.new("VkCommandBuffer[1]", [slot.commands])
            info = a.make("SubmitInfo", commandCount=1, commands=commands)
            a.call("vkQueueSubmit", self._queue, 1, info, slot.fence)
            queue.last = VulkanEvent(self, slot, keep)
            return queue.last

    def _barrier(self, slot: Slot, before: int, after: int) -> None:
        """All that was written before can be read after."""
        a, null = self.api, self.api.ffi.NULL
        allowed = {
            _HOST | _COMMANDS: _HOST_ACCESS | _ANY_ACCESS,
            _COMMANDS: _ANY_ACCESS,
            _HOST: _HOST_ACCESS,
        }
        barrier = a.make("Barrier", **{"from": allowed[before], "to": allowed[after]})
        a.lib.vkCmdPipelineBarrier(slot.commands, before, after, 0, 1, barrier, 0, null, 0, null)

    def put_block(self, slot: Slot, block: bytes) -> int:
        """Copy a block to where a slot's launch finds it; its address."""
        if slot.block is None or slot.block.size < len(block):
            if slot.block is not None:
                self.free(slot.block)
            slot.block = self._visible(max(1024, len(block)))
        host_bytes(slot.block.token.host, len(block))[:] = memoryview(block)
        return slot.block.address

    def push(self, slot: Slot, pipeline: Any, values: Sequence[int], counts: Dims) -> None:
        """Record one dispatch."""
        a = self.api
        data = a.ffi.new("char[]", _PUSHED.pack(*values))
        stage = _COMPUTE_STAGE
        a.lib.vkCmdBindPipeline(slot.commands, 1, pipeline)
        a.lib.vkCmdPushConstants(slot.commands, self._layout, stage, 0, _PUSHED.size, data)
        a.lib.vkCmdDispatch(slot.commands, *counts)

    def parts(self, grid: Dims) -> Iterator[tuple[Dims, Dims]]:
        """A grid as pieces that one dispatch takes: where each starts, and its extents."""
        axes = [
            [(start, min(most, extent - start)) for start in range(0, extent, most)]
            for extent, most in zip(grid, self._counts, strict=True)
        ]
        if len(axes[0]) * len(axes[1]) * len(axes[2]) > _MOST_DISPATCHES:
            raise DriverError("vkCmdDispatch", 0, f"the grid {grid} is too many dispatches")
        for x, y, z in itertools.product(*axes):
            yield (x[0], y[0], z[0]), (x[1], y[1], z[1])

    @property
    def hidden(self) -> int:
        """The address of the hidden word that seq_cst operations update."""
        return self._word.address

    # ---- slots ---------------------------------------------------------------------------

    def status(self, slot: Slot) -> int:
        """Of a slot's fence."""
        return self.api.call("vkGetFenceStatus", self.device, slot.fence)

    def await_slot(self, slot: Slot, nanoseconds: int) -> int:
        """Wait for a slot's fence."""
        fences = self.api.ffi.new("VkFence[1]", [slot.fence])
        return self.api.call("vkWaitForFences", self.device, 1, fences, 1, nanoseconds)

    def read_times(self, slot: Slot) -> tuple[int, int]:
        """When a slot's work began and ended."""
        out = self.api.ffi.new("uint64_t[2]")
        code = self.api.call("vkGetQueryPoolResults", self.device, slot.times, 0, 2, 16, out, 8, 1)
        return (0, 0) if code else (int(out[0] * self._period), int(out[1] * self._period))

    def reclaim(self, slot: Slot) -> None:
        """Take a slot back whose event is gone, once its work has ended."""
        while self.await_slot(slot, SLICE_NS) == TIMEOUT:
            pass
        with self._lock:
            self._free.append(slot)

    def close(self) -> None:
        """Vulkan gives everything back with the process."""


class _Dispatches:
    """Records a launch."""

    def __init__(self, driver: VulkanDriver, task: Task, pipeline: Any) -> None:
        self._driver, self._task, self._pipeline = driver, task, pipeline
        self._parts = list(driver.parts(task.grid))

    def __call__(self, slot: Slot) -> None:
        driver, task = self._driver, self._task
        block = driver.put_block(slot, task.block)
        records = task.records.address if task.records else 0
        for start, counts in self._parts:
            values = (block, records, driver.hidden, *start, *task.grid)
            driver.push(slot, self._pipeline, values, counts)


def _wait_for_others(after: Sequence[Event]) -> None:
    """The device's queue is in order; events of other drivers are waited for here."""
    for event in after:
        if not isinstance(event, VulkanEvent):
            wait_quietly(event)


# ---- what is here ------------------------------------------------------------------------


def probe() -> list[Driver]:
    """Every device of Vulkan 1.3 that has what kernels need. Raises DriverAbsentError."""
    a = api()
    application = a.make("ApplicationInfo", apiVersion=VERSION)
    try:
        info = a.make("InstanceInfo", application=application)
        instance = a.create("vkCreateInstance", "VkInstance", info)
    except (DriverError, MemoryError) as error:
        raise DriverAbsentError(
            f"{LIBRARY} is here but makes no instance: {error}", "install or repair its drivers"
        ) from None
    found = physical_devices(a, instance)
    if not found:
        raise DriverAbsentError(
            "no device has Vulkan 1.3 with 64-bit integers, buffer addresses and the memory model",
            "install a newer driver: apt install mesa-vulkan-drivers",
        )
    return [VulkanDriver(a, physical, number) for number, physical in enumerate(found)]
