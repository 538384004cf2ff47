"""Vulkan's devices before they are opened: what each has, and the choice of its memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from hetir.limits import limits_of
from hetir.runtime.driver import Portrait
from hetir.runtime.drivers.trial import SUBGROUPS
from hetir.runtime.drivers.vulkan_api import FLOAT_ATOMICS_EXTENSION, WANTED, Api

TARGET = "spirv:vulkan"
VERSION = 1 << 22 | 3 << 12
_COMPUTE, _COMPUTE_STAGE = 2, 0x20
_SHUFFLES = 0x10
_DEVICE_LOCAL, _HOST_VISIBLE, _HOST_COHERENT = 1, 2, 4
_TYPES = ("unknown", "integrated", "discrete", "virtual", "CPU")
_NEEDED = ("shaderInt64", "bufferDeviceAddress", "vulkanMemoryModel")
_OPTIONS = {
    "atomic_f32_add": "shaderBufferFloat32AtomicAdd",
    "atomic_f64_add": "shaderBufferFloat64AtomicAdd",
}


class Choice(NamedTuple):
    """Types of memory: the device's own and one that the host sees, and the former's bytes."""

    local_type: int
    visible_type: int
    memory_bytes: int


class Physical(NamedTuple):
    """A device before it is opened; `said` owns the memory of its properties.

    `staged` says that the host does not see the memory of `local_type`. `subgroup_sizes` are
    those that a pipeline may ask for.
    """

    handle: Any
    said: Any
    features: Mapping[str, bool]
    floats: Mapping[str, bool]
    extensions: frozenset[str]
    family: int
    local_type: int
    visible_type: int
    memory_bytes: int
    staged: bool
    subgroup_sizes: range

    def offers(self, option: str, width: int) -> bool:
        """What it says of an option of `hetir.artifact.Variant` and a subgroup width."""
        if option == SUBGROUPS:
            return width in self.subgroup_sizes
        return self.features[_OPTIONS[option]]


def physical_devices(a: Api, instance: Any) -> list[Physical]:
    """Every device that has what kernels need."""
    return [p for h in _handles(a, instance) if (p := _look(a, h)) is not None]


def _handles(a: Api, instance: Any) -> list[Any]:
    count = a.ffi.new("uint32_t *")
    a.call("vkEnumeratePhysicalDevices", instance, count, a.ffi.NULL)
    out = a.ffi.new("VkPhysicalDevice[]", max(1, count[0]))
    a.call("vkEnumeratePhysicalDevices", instance, count, out)
    return list(out)[: count[0]]


def _look(a: Api, handle: Any) -> Physical | None:
    sizes = a.make("SubgroupSizes")
    groups = a.make("Subgroups", pNext=sizes)
    floats = a.make("FloatControls", pNext=groups)
    properties = a.make("Properties2", pNext=floats)
    a.lib.vkGetPhysicalDeviceProperties2(handle, properties)
    if properties.properties.apiVersion < VERSION:
        return None
    extensions = _extensions(a, handle)
    has = _features(a, handle, extensions)
    family, memory = _family(a, handle), _memory(a, handle)
    if not all(has[name] for name in _NEEDED) or family is None or memory is None:
        return None
    known = {n: bool(getattr(floats, n)) for n, _ in a.ffi.typeof("FloatControls").fields[2:]}
    pins = has["subgroupSizeControl"] and has["shaderSubgroupExtendedTypes"]
    pins &= bool(sizes.stages & _COMPUTE_STAGE and groups.operations & _SHUFFLES)
    return Physical(
        handle=handle,
        said=properties,
        features=has,
        floats=known,
        extensions=extensions,
        family=family,
        **memory._asdict(),
        staged=memory.local_type != memory.visible_type,
        subgroup_sizes=range(sizes.least, sizes.most + 1) if pins else range(0),
    )


def _features(a: Api, handle: Any, extensions: frozenset[str]) -> dict[str, bool]:
    """Which of the features that kernels may use it has."""
    holders = _holders(a, extensions, {})
    a.lib.vkGetPhysicalDeviceFeatures2(handle, holders["core"])
    places = {**holders, "core": holders["core"].core}
    return {
        name: key in places and bool(getattr(places[key], name))
        for key, names in WANTED.items()
        for name in names
    }


def _holders(a: Api, extensions: frozenset[str], features: Mapping[str, bool]) -> dict[str, Any]:
    """The chain of structures that hold the features; the first is `core`."""
    parts = {k: {n: features.get(n, False) for n in names} for k, names in WANTED.items()}
    holders: dict[str, Any] = {}
    following: Any = a.ffi.NULL
    if FLOAT_ATOMICS_EXTENSION in extensions:
        following = holders["atomics"] = a.make("FeaturesAtomics", **parts["atomics"])
    named = {"subgroups": "FeaturesSubgroups", "v12": "Features12", "v11": "Features11"}
    for key, name in named.items():
        following = holders[key] = a.make(name, pNext=following, **parts[key])
    holders["core"] = a.make("Features2", pNext=following, core=parts["core"])
    return holders


def _extensions(a: Api, handle: Any) -> frozenset[str]:
    """The names of its extensions."""
    count, null = a.ffi.new("uint32_t *"), a.ffi.NULL
    a.call("vkEnumerateDeviceExtensionProperties", handle, null, count, null)
    out = a.ffi.new("Extension[]", max(1, count[0]))
    a.call("vkEnumerateDeviceExtensionProperties", handle, null, count, out)
    return frozenset(a.ffi.string(out[i].name).decode() for i in range(count[0]))


def _family(a: Api, handle: Any) -> int | None:
    """The first family of queues that computes."""
    count = a.ffi.new("uint32_t *", 16)
    out = a.ffi.new("QueueFamily[16]")
    a.lib.vkGetPhysicalDeviceQueueFamilyProperties(handle, count, out)
    return next((i for i in range(count[0]) if out[i].queueFlags & _COMPUTE), None)


def _memory(a: Api, handle: Any) -> Choice | None:
    """The device's own memory, where the host sees all of it; else that and one that it sees.

    What the host sees needs no flushing.
    """
    out = a.ffi.new("MemoryProperties *")
    a.lib.vkGetPhysicalDeviceMemoryProperties(handle, out)
    kinds = [out.memoryTypes[i] for i in range(out.memoryTypeCount)]
    return chosen([(kind.propertyFlags, out.memoryHeaps[kind.heapIndex].size) for kind in kinds])


def chosen(kinds: Sequence[tuple[int, int]]) -> Choice | None:
    """The choice among types of memory, each its flags and its heap's bytes."""
    seen = _HOST_VISIBLE | _HOST_COHERENT

    def largest(flags: int) -> int | None:
        fits = [i for i, (has, _) in enumerate(kinds) if has & flags == flags]
        return max(fits, key=lambda i: kinds[i][1], default=None)

    local, visible, both = largest(_DEVICE_LOCAL), largest(seen), largest(seen | _DEVICE_LOCAL)
    if visible is None:
        return None
    if local is None:
        return Choice(visible, visible, kinds[visible][1])
    if both is not None and 2 * kinds[both][1] >= kinds[local][1]:
        return Choice(both, both, kinds[both][1])
    return Choice(local, visible, kinds[local][1])


def opened(a: Api, physical: Physical) -> Any:
    """The device with every feature that kernels may use and it has."""
    holders = _holders(a, physical.extensions, physical.features)
    priority = a.ffi.new("float[1]", [1.0])
    queue = a.make("QueueInfo", family=physical.family, count=1, priorities=priority)
    wanted = {FLOAT_ATOMICS_EXTENSION} & physical.extensions
    names = [a.ffi.new("char[]", name.encode()) for name in sorted(wanted)]
    pointers = a.ffi.new("char *[]", names)  # structures keep nothing alive
    info = a.make(
        "DeviceInfo",
        pNext=holders["core"],
        queueCount=1,
        queues=queue,
        extensionCount=len(names),
        extensions=pointers,
    )
    return a.create("vkCreateDevice", "VkDevice", physical.handle, info)


def portrait(a: Api, physical: Physical, name: str) -> Portrait:
    """The device as the runtime sees it."""
    properties, base = physical.said.properties, limits_of(TARGET)
    own = properties.limits
    title = a.ffi.string(properties.deviceName).decode(errors="replace")
    features = set(base.features)
    for feature, needs in {
        "f64": "shaderFloat64",
        "atomic_i64": "shaderBufferInt64Atomics",
        "atomic_f32_add": "shaderBufferFloat32AtomicAdd",
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
