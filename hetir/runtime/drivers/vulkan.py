"""Vulkan devices that compute, through the loader and cffi; nothing is needed to import this.

A kernel's push constants are those of `hetir.backends.spirv.vulkan`. Memory is what the host
sees, too, so that copies are the host's; all queues are one of the device's, in order.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
import threading
import time
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from hetir.artifact import Artifact
from hetir.limits import limits_of
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
from hetir.runtime.drivers.spirv import Listing, listing, without
from hetir.runtime.drivers.trial import loops_end_early, passes
from hetir.runtime.drivers.vulkan_api import LIBRARY, NOT_READY, TIMEOUT, WANTED, Api, api
from hetir.runtime.hostmemory import host_bytes

TARGET = "spirv:vulkan"
_VERSION = 1 << 22 | 3 << 12
_COMPUTE, _COMPUTE_STAGE = 2, 0x20
_TOP, _BOTTOM, _COMPUTE_PIPE, _HOST_PIPE = 1, 0x2000, 0x800, 0x4000
_SHADER_READ, _SHADER_WRITE, _HOST_READ, _HOST_WRITE = 0x20, 0x40, 0x2000, 0x4000
_BUFFER_USAGE = 0x20 | 0x20000  # storage, with an address
_DEVICE_ADDRESS = 2
_DEVICE_LOCAL, _HOST_VISIBLE, _HOST_COHERENT = 1, 2, 4
_ALIGNMENT = 64
_GRACE_SECONDS = 2.0
_SLICE_NS = 100_000_000
_MOST_DISPATCHES = 65536
_LANE_BYTES = 8
_TIMES = struct.Struct("<QQ")
_PUSHED = struct.Struct("<9q")
_TYPES = ("unknown", "integrated", "discrete", "virtual", "CPU")

_NEEDED = ("shaderInt64", "bufferDeviceAddress", "vulkanMemoryModel")
_FEATURES: Mapping[str, str] = MappingProxyType(
    {
        "Float64": "shaderFloat64",
        "Int8": "shaderInt8",
        "Int16": "shaderInt16",
        "StorageBuffer8BitAccess": "storageBuffer8BitAccess",
        "StorageBuffer16BitAccess": "storageBuffer16BitAccess",
        "Int64Atomics": "shaderBufferInt64Atomics",
        "VulkanMemoryModelDeviceScope": "vulkanMemoryModelDeviceScope",
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


class _Slot:
    """What one launch in flight takes: commands, a fence, times, and room for the block."""

    __slots__ = ("block", "commands", "fence", "pool", "times")

    def __init__(self, driver: VulkanDriver) -> None:
        a, device = driver.api, driver.device
        self.pool = a.create(
            "vkCreateCommandPool", "VkCommandPool", device, a.make("PoolInfo", family=driver.family)
        )
        out = a.ffi.new("VkCommandBuffer[1]")
        a.call(
            "vkAllocateCommandBuffers", device, a.make("CommandsInfo", pool=self.pool, count=1), out
        )
        self.commands = out[0]
        self.fence = a.create("vkCreateFence", "VkFence", device, a.make("FenceInfo"))
        query = a.make("QueryInfo", type=2, count=2)
        self.times = a.create("vkCreateQueryPool", "VkQueryPool", device, query)
        self.block: Memory | None = None


class VulkanEvent(Event):
    """A submission; its slot goes back to the driver when it has ended."""

    __slots__ = ("__weakref__", "_driver", "_error", "_lock", "_slot", "_times", "keep")

    def __init__(
        self,
        driver: VulkanDriver,
        slot: _Slot | None,
        keep: Any = None,
        error: Exception | None = None,
    ) -> None:
        self._driver, self._slot, self.keep, self._error = driver, slot, keep, error
        self._lock = threading.Lock()
        self._times: tuple[int, int] = (0, 0)
        if slot is not None:
            # the slot must come back even if nobody waits for the event
            weakref.finalize(self, driver.reclaim, slot)

    def done(self) -> bool:
        """Whether it has ended."""
        with self._lock:
            if self._slot is None:
                return True
            status = self._driver.status(self._slot)
            if status == NOT_READY:
                return False
            self._times = self._driver.read_times(self._slot)
            self._slot = self.keep = None
            return True

    def wait(self, timeout: float | None = None) -> bool:
        """In slices, so that Ctrl-C gets through. Raises DriverError."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.done():
            slot = self._slot
            left = _SLICE_NS
            if deadline is not None:
                left = min(left, max(0, int((deadline - time.monotonic()) * 1e9)))
            if slot is not None and self._driver.await_slot(slot, left) == TIMEOUT and not left:
                return False
        if self._error is not None:
            raise self._error
        return True

    def times(self) -> tuple[int, int] | None:
        """On the device's clock."""
        return self._times if self.done() else None

    def abandon(self) -> bool:
        """Vulkan cancels nothing: wait a moment."""
        try:
            return self.wait(_GRACE_SECONDS)
        except DriverError:
            return True


class VulkanQueue:
    """The work of one queue of hetir's; the last event stands for all."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last: VulkanEvent | None = None


class VulkanProgram:
    """A shader module, and a pipeline for each workgroup's size that it was launched with."""

    __slots__ = ("artifact", "module", "pipelines")

    def __init__(self, artifact: Artifact, module: Any) -> None:
        self.artifact, self.module = artifact, module
        self.pipelines: dict[Dims, Any] = {}


class _Physical(NamedTuple):
    """A device before it is opened; `said` owns the memory of its properties."""

    handle: Any
    said: Any
    features: Mapping[str, bool]
    floats: Mapping[str, bool]
    family: int
    memory_type: int
    memory_bytes: int


class VulkanDriver(Driver):
    """One device."""

    def __init__(self, a: Api, physical: _Physical, number: int) -> None:
        self.api, self._physical, self.family = a, physical, physical.family
        self.device = _open(a, physical)
        out = a.ffi.new("VkQueue *")
        a.lib.vkGetDeviceQueue(self.device, self.family, 0, out)
        self._queue = out[0]
        self._lock = threading.RLock()
        self._free: list[_Slot] = []
        self._tried: dict[str, bool] = {}
        self._tried_loops = False
        self._period = physical.said.properties.limits.timestampPeriod
        ranges = a.make("PushRange", stages=_COMPUTE_STAGE, size=_PUSHED.size)
        layout = a.make("LayoutInfo", rangeCount=1, ranges=ranges)
        self._layout = a.create("vkCreatePipelineLayout", "VkPipelineLayout", self.device, layout)
        self.portrait = _portrait(a, physical, f"vulkan:{number}")
        self._counts: Dims = self.portrait.limits.max_grid_dims
        self._word = self.allocate(_ALIGNMENT)
        host_bytes(self._word.token[2], _ALIGNMENT)[:] = 0

    def can_run(self, target: str) -> bool:
        """Modules for Vulkan."""
        return target == TARGET

    # ---- memory --------------------------------------------------------------------------

    def allocate(self, size: int) -> Memory:
        """A buffer with memory of its own, mapped for good."""
        a, null = self.api, self.api.ffi.NULL
        room = max(1, size) + _ALIGNMENT
        if room > self._physical.memory_bytes:
            raise MemoryError
        info = a.make("BufferInfo", size=room, usage=_BUFFER_USAGE)
        buffer = a.create("vkCreateBuffer", "VkBuffer", self.device, info)
        needs = a.ffi.new("Requirements *")
        a.lib.vkGetBufferMemoryRequirements(self.device, buffer, needs)
        flags = a.make("AllocateFlags", flags=_DEVICE_ADDRESS)
        wanted = a.make(
            "AllocateInfo", pNext=flags, size=needs.size, type=self._physical.memory_type
        )
        try:
            memory = a.create("vkAllocateMemory", "VkDeviceMemory", self.device, wanted)
        except MemoryError:
            a.lib.vkDestroyBuffer(self.device, buffer, null)
            raise
        a.call("vkBindBufferMemory", self.device, buffer, memory, 0)
        out = a.ffi.new("void **")
        a.call("vkMapMemory", self.device, memory, 0, needs.size, 0, out)
        start = a.lib.vkGetBufferDeviceAddress(self.device, a.make("AddressInfo", buffer=buffer))
        shift = -start % _ALIGNMENT
        host = int(a.ffi.cast("uintptr_t", out[0])) + shift
        return Memory(start + shift, size, (buffer, memory, host))

    def free(self, memory: Memory) -> None:
        """Give buffer and memory back."""
        buffer, held, _ = memory.token
        self.api.lib.vkDestroyBuffer(self.device, buffer, self.api.ffi.NULL)
        self.api.lib.vkFreeMemory(self.device, held, self.api.ffi.NULL)

    def write(self, queue: VulkanQueue, memory: Memory, offset: int, source: HostBytes) -> None:
        """Copy in, when the queue is idle."""
        self._drain(queue)
        host_bytes(memory.token[2] + offset, source.size)[:] = source

    def read(self, queue: VulkanQueue, memory: Memory, offset: int, into: HostBytes) -> None:
        """Copy out, when the queue is idle."""
        self._drain(queue)
        into[:] = host_bytes(memory.token[2] + offset, into.size)

    def copy(
        self, queue: VulkanQueue, to: tuple[Memory, int], of: tuple[Memory, int], size: int
    ) -> Event:
        """Copy by the host, when the queue is idle."""
        self._drain(queue)
        ctypes.memmove(to[0].token[2] + to[1], of[0].token[2] + of[1], size)
        return self.mark(queue)

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
        found = listing(artifact.binary, "vulkan1.3")
        if artifact.entry not in found.entries:
            raise DriverError(
                "vkCreateComputePipelines", 0, f"the module has no entry point {artifact.entry}"
            )
        self._check(found)
        if found.loops:
            self.warn_of_loops()
        return self._build(artifact)

    def warn_of_loops(self) -> None:
        """Warn, once, where the device ends long loops by itself (lavapipe of Mesa 22.3 does)."""
        with self._lock:
            if self._tried_loops:
                return
            self._tried_loops = True
            early = loops_end_early(self, self._build, TARGET)
        if early:
            warnings.warn(
                f"`{self.portrait.name}` ({self.portrait.title}) ends loops after 65,535 rounds "
                "of a work-item without saying so: results of longer ones are wrong",
                RuntimeWarning,
                stacklevel=2,
            )

    def _check(self, found: Listing) -> None:
        for capability, feature in _FEATURES.items():
            if capability in found.capabilities and not self._physical.features[feature]:
                raise DriverError(
                    "vkCreateShaderModule", -8, f"the device lacks {feature}, for {capability}"
                )
        types = ("f32", "f64") if "Float64" in found.capabilities else ("f32",)
        if not all(map(self._faithful, types)):
            raise DriverError(
                "vkCreateShaderModule",
                -8,
                "the device is not reproducible: it does not compute as IEEE says "
                "(subnormal numbers, division, square roots or sums)",
            )

    def _faithful(self, dtype: str) -> bool:
        """Try the device's arithmetic, once a type."""
        with self._lock:
            if dtype not in self._tried:
                self._tried[dtype] = passes(self, self._build, TARGET, dtype)
        return self._tried[dtype]

    def _build(self, artifact: Artifact) -> VulkanProgram:
        """A module without the modes that the device does not have."""
        a = self.api
        assert artifact.binary is not None
        absent = {
            (mode, bits)
            for mode, said in _MODES.items()
            for bits in (32, 64)
            if not self._physical.floats[f"{said}{bits}"]
        }
        code = without(artifact.binary, absent)
        words = a.ffi.from_buffer("uint32_t[]", code)
        info = a.make("ShaderInfo", codeSize=len(code), code=words)
        made = a.create("vkCreateShaderModule", "VkShaderModule", self.device, info)
        return VulkanProgram(artifact, made)

    def unload(self, program: VulkanProgram) -> None:
        """Destroy the pipelines, when what runs has ended."""
        a = self.api
        with self._lock:
            a.lib.vkDeviceWaitIdle(self.device)
            for pipeline in program.pipelines.values():
                a.lib.vkDestroyPipeline(self.device, pipeline, a.ffi.NULL)
            program.pipelines.clear()
            a.lib.vkDestroyShaderModule(self.device, program.module, a.ffi.NULL)

    def _pipeline(self, program: VulkanProgram, workgroup: Dims) -> Any:
        found = program.pipelines.get(workgroup)
        if found is None:
            found = program.pipelines[workgroup] = self._make_pipeline(program, workgroup)
        return found

    def _make_pipeline(self, program: VulkanProgram, workgroup: Dims) -> Any:
        a = self.api
        entries = a.ffi.new("SpecializationEntry[3]", [(i, 4 * i, 4) for i in range(3)])
        sizes = a.ffi.new("uint32_t[3]", workgroup)
        special = a.make("Specialization", count=3, entries=entries, size=12, data=sizes)
        entry = a.ffi.new("char[]", program.artifact.entry.encode())
        stage = a.make(
            "StageInfo",
            stage=_COMPUTE_STAGE,
            module=program.module,
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

    def _submit(self, queue: VulkanQueue, record: _Dispatches | None, keep: Any) -> VulkanEvent:
        a = self.api
        with self._lock:
            slot = self._free.pop() if self._free else _Slot(self)
            a.call("vkResetCommandPool", self.device, slot.pool, 0)
            a.call("vkBeginCommandBuffer", slot.commands, a.make("BeginInfo", flags=1))
            self._barrier(slot, _HOST_PIPE | _COMPUTE_PIPE, _COMPUTE_PIPE)
            a.lib.vkCmdResetQueryPool(slot.commands, slot.times, 0, 2)
            a.lib.vkCmdWriteTimestamp(slot.commands, _TOP, slot.times, 0)
            if record is not None:
                record(slot)
            a.lib.vkCmdWriteTimestamp(slot.commands, _BOTTOM, slot.times, 1)
            self._barrier(slot, _COMPUTE_PIPE, _HOST_PIPE)
            a.call("vkEndCommandBuffer", slot.commands)
            fences = a.ffi.new("VkFence[1]", [slot.fence])
            a.call("vkResetFences", self.device, 1, fences)
            commands = a.ffi.new("VkCommandBuffer[1]", [slot.commands])
            info = a.make("SubmitInfo", commandCount=1, commands=commands)
            a.call("vkQueueSubmit", self._queue, 1, info, slot.fence)
            queue.last = VulkanEvent(self, slot, keep)
            return queue.last

    def _barrier(self, slot: _Slot, before: int, after: int) -> None:
        """All that was written before can be read after."""
        a, null = self.api, self.api.ffi.NULL
        every = _SHADER_READ | _SHADER_WRITE | _HOST_READ | _HOST_WRITE
        allowed = {
            _HOST_PIPE | _COMPUTE_PIPE: every,
            _COMPUTE_PIPE: _SHADER_READ | _SHADER_WRITE,
            _HOST_PIPE: _HOST_READ | _HOST_WRITE,
        }
        barrier = a.make("Barrier", **{"from": allowed[before], "to": allowed[after]})
        a.lib.vkCmdPipelineBarrier(slot.commands, before, after, 0, 1, barrier, 0, null, 0, null)

    def put_block(self, slot: _Slot, block: bytes) -> int:
        """Copy a block to where a slot's launch finds it; its address."""
        if slot.block is None or slot.block.size < len(block):
            if slot.block is not None:
                self.free(slot.block)
            slot.block = self.allocate(max(1024, len(block)))
        host_bytes(slot.block.token[2], len(block))[:] = memoryview(block)
        return slot.block.address

    def push(self, slot: _Slot, pipeline: Any, values: Sequence[int], counts: Dims) -> None:
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

    def status(self, slot: _Slot) -> int:
        """Of a slot's fence."""
        return self.api.call("vkGetFenceStatus", self.device, slot.fence)

    def await_slot(self, slot: _Slot, nanoseconds: int) -> int:
        """Wait for a slot's fence."""
        fences = self.api.ffi.new("VkFence[1]", [slot.fence])
        return self.api.call("vkWaitForFences", self.device, 1, fences, 1, nanoseconds)

    def read_times(self, slot: _Slot) -> tuple[int, int]:
        """When a slot's work began and ended."""
        out = self.api.ffi.new("uint64_t[2]")
        code = self.api.call("vkGetQueryPoolResults", self.device, slot.times, 0, 2, 16, out, 8, 1)
        return (0, 0) if code else (int(out[0] * self._period), int(out[1] * self._period))

    def reclaim(self, slot: _Slot) -> None:
        """Take a slot back whose event is gone, once its work has ended."""
        while self.await_slot(slot, _SLICE_NS) == TIMEOUT:
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

    def __call__(self, slot: _Slot) -> None:
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
    application = a.make("ApplicationInfo", apiVersion=_VERSION)
    try:
        info = a.make("InstanceInfo", application=application)
        instance = a.create("vkCreateInstance", "VkInstance", info)
    except (DriverError, MemoryError) as error:
        raise DriverAbsentError(
            f"{LIBRARY} is here but makes no instance: {error}", "install or repair its drivers"
        ) from None
    found = [p for h in _handles(a, instance) if (p := _look(a, h)) is not None]
    if not found:
        raise DriverAbsentError(
            "no device has Vulkan 1.3 with 64-bit integers, buffer addresses and the memory model",
            "install a newer driver: apt install mesa-vulkan-drivers",
        )
    return [VulkanDriver(a, physical, number) for number, physical in enumerate(found)]


def _handles(a: Api, instance: Any) -> list[Any]:
    count = a.ffi.new("uint32_t *")
    a.call("vkEnumeratePhysicalDevices", instance, count, a.ffi.NULL)
    out = a.ffi.new("VkPhysicalDevice[]", max(1, count[0]))
    a.call("vkEnumeratePhysicalDevices", instance, count, out)
    return list(out)[: count[0]]


def _look(a: Api, handle: Any) -> _Physical | None:
    floats = a.make("FloatControls")
    properties = a.make("Properties2", pNext=floats)
    a.lib.vkGetPhysicalDeviceProperties2(handle, properties)
    if properties.properties.apiVersion < _VERSION:
        return None
    v12 = a.make("Features12")
    v11 = a.make("Features11", pNext=v12)
    core = a.make("Features2", pNext=v11)
    a.lib.vkGetPhysicalDeviceFeatures2(handle, core)
    holders = {"core": core.core, "v11": v11, "v12": v12}
    has = {n: bool(getattr(holders[h], n)) for h, names in WANTED.items() for n in names}
    family, memory = _family(a, handle), _memory(a, handle)
    if not all(has[name] for name in _NEEDED) or family is None or memory is None:
        return None
    known = {n: bool(getattr(floats, n)) for n, _ in a.ffi.typeof("FloatControls").fields[2:]}
    return _Physical(handle, properties, has, known, family, *memory)


def _family(a: Api, handle: Any) -> int | None:
    """The first family of queues that computes."""
    count = a.ffi.new("uint32_t *", 16)
    out = a.ffi.new("QueueFamily[16]")
    a.lib.vkGetPhysicalDeviceQueueFamilyProperties(handle, count, out)
    return next((i for i in range(count[0]) if out[i].queueFlags & _COMPUTE), None)


def _memory(a: Api, handle: Any) -> tuple[int, int] | None:
    """The type of memory that the host sees without flushing, the device's own if possible."""
    out = a.ffi.new("MemoryProperties *")
    a.lib.vkGetPhysicalDeviceMemoryProperties(handle, out)
    seen = _HOST_VISIBLE | _HOST_COHERENT
    for wanted in (seen | _DEVICE_LOCAL, seen):
        for index in range(out.memoryTypeCount):
            kind = out.memoryTypes[index]
            if kind.propertyFlags & wanted == wanted:
                return index, out.memoryHeaps[kind.heapIndex].size
    return None


def _open(a: Api, physical: _Physical) -> Any:
    """The device with every feature that kernels may use and it has."""
    parts = {name: {n: physical.features[n] for n in names} for name, names in WANTED.items()}
    v12 = a.make("Features12", **parts["v12"])
    v11 = a.make("Features11", pNext=v12, **parts["v11"])
    core = a.make("Features2", pNext=v11, core=parts["core"])
    priority = a.ffi.new("float[1]", [1.0])
    queue = a.make("QueueInfo", family=physical.family, count=1, priorities=priority)
    info = a.make("DeviceInfo", pNext=core, queueCount=1, queues=queue)
    return a.create("vkCreateDevice", "VkDevice", physical.handle, info)


def _portrait(a: Api, physical: _Physical, name: str) -> Portrait:
    properties, base = physical.said.properties, limits_of(TARGET)
    own = properties.limits
    title = a.ffi.string(properties.deviceName).decode(errors="replace")
    features = set(base.features)
    for feature, needs in {
        "f64": "shaderFloat64",
        "atomic_i64": "shaderBufferInt64Atomics",
    }.items():
        if not physical.features[needs]:
            features.discard(feature)
    x, y, z = own.maxComputeWorkGroupSize
    gx, gy, gz = own.maxComputeWorkGroupCount
    limits = replace(
        base,
        title=title,
        max_workgroup_size=own.maxComputeWorkGroupInvocations,
        max_workgroup_dims=(x, y, z),
        max_grid_dims=(gx, gy, gz),
        shared_bytes=own.maxComputeSharedMemorySize,
        shared_bytes_optin=own.maxComputeSharedMemorySize,
        features=frozenset(features),
    )
    return Portrait(
        name=name,
        driver="vulkan",
        title=f"{title} ({_TYPES[min(properties.deviceType, len(_TYPES) - 1)]})",
        vendor=f"{properties.vendorID:#06x}",
        targets=(TARGET,),
        host_memory=False,
        memory_bytes=physical.memory_bytes,
        units=None,
        limits=limits,
    )
