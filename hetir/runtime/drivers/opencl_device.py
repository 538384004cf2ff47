"""What an OpenCL device says of itself: a portrait, and what pyopencl has no names for."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from hetir.limits import limits_of
from hetir.runtime.driver import Portrait

TARGET = "spirv:opencl"
_EXTENSIONS: Mapping[str, str] = MappingProxyType(
    {
        "Float64": "cl_khr_fp64",
        "Int64Atomics": "cl_khr_int64_base_atomics",
    }
)
_SPIRV_CAPABILITIES = 0x12BB
_SUBGROUP_SIZES_INTEL = 0x4108
_FLOAT_ATOMICS: Mapping[str, int] = MappingProxyType(
    {"atomic_f32_add": 0x4231, "atomic_f64_add": 0x4232}
)
_ADDS_ANYWHERE = 1 << 1 | 1 << 17  # in global and in local memory
_GET_DEVICE_INFO = 3  # its place in the table that every device handle begins with
_INFO = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_uint,
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_size_t),
)


def extensions(device: Any) -> frozenset[str]:
    """The names of its extensions."""
    return frozenset(device.extensions.split())


def lacks(device: Any, capabilities: Mapping[int, str]) -> str:
    """What keeps a module with some capabilities (number to name) from it, or nothing."""
    known = extensions(device)
    for capability, extension in _EXTENSIONS.items():
        if capability in capabilities.values() and extension not in known:
            return f"the device lacks {extension}, for {capability}"
    said = _words(device, _SPIRV_CAPABILITIES, "I") if "cl_khr_spirv_queries" in known else ()
    missing = [name for number, name in capabilities.items() if said and number not in said]
    return f"the device takes no SPIR-V with {', '.join(missing)}" if missing else ""


def offers(device: Any, option: str, width: int) -> bool:
    """What it says of an option of `hetir.artifact.Variant` and a subgroup width."""
    known = extensions(device)
    if option in _FLOAT_ATOMICS:
        found = (
            _words(device, _FLOAT_ATOMICS[option], "Q") if "cl_ext_float_atomics" in known else ()
        )
        return bool(found) and found[0] & _ADDS_ANYWHERE == _ADDS_ANYWHERE
    if "cl_khr_subgroup_shuffle" not in known or "SPIR-V_1.3" not in device.il_version:
        return False
    pins = "cl_intel_required_subgroup_size" in known
    sizes = _words(device, _SUBGROUP_SIZES_INTEL, "N") if pins else ()
    return not sizes or width in sizes


def _words(device: Any, code: int, form: str) -> tuple[int, ...]:
    """An answer as integers of a `struct` form; nothing when there is none.

    Asked through the table of functions that the loader's interface puts first in a handle,
    as pyopencl asks only for what it has a name for.
    """
    handle = device.int_ptr
    table = ctypes.cast(handle, ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p)))[0]
    address = table[_GET_DEVICE_INFO]
    if not address:
        return ()
    ask, size = _INFO(address), ctypes.c_size_t()
    if ask(handle, code, 0, None, ctypes.byref(size)) or not size.value:
        return ()
    answer = ctypes.create_string_buffer(size.value)
    if ask(handle, code, size.value, answer, None):
        return ()
    count = size.value // struct.calcsize(form)
    return struct.unpack_from(f"@{count}{form}", answer.raw)


def portrait(device: Any, name: str) -> Portrait:
    """The device as the runtime sees it."""
    base = limits_of(TARGET)
    known, features = extensions(device), set(base.features)
    if "cl_khr_fp64" not in known:
        features.discard("f64")
    if "cl_khr_int64_base_atomics" not in known:
        features.discard("atomic_i64")
    if not offers(device, "atomic_f32_add", 0):
        features.discard("atomic_f32_add")
    dims = tuple(device.max_work_item_sizes)
    limits = replace(
        base,
        title=device.name.strip(),
        max_workgroup_size=device.max_work_group_size,
        max_workgroup_dims=(dims[0], dims[1], dims[2]),
        shared_bytes=device.local_mem_size,
        shared_bytes_optin=device.local_mem_size,
        features=frozenset(features),
    )
    return Portrait(
        name=name,
        driver="opencl",
        title=f"{device.name.strip()} ({device.platform.name.strip()})",
        vendor=device.vendor.strip(),
        targets=(TARGET,),
        host_memory=False,
        memory_bytes=device.global_mem_size,
        units=device.max_compute_units,
        limits=limits,
    )
