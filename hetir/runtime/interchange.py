"""Arrays to and from other libraries without a copy: DLPack 1.x and the array interfaces."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from hetir.runtime.dtypes import NAMES, NUMPY
from hetir.runtime.errors import ArgumentError
from hetir.runtime.layout import bounds, contiguous_strides
from hetir.runtime.native import extension

if TYPE_CHECKING:
    from hetir.runtime.arrays import Array
    from hetir.runtime.device import Device

VERSION = (1, 1)
"""Of DLPack, as native/python/dlpack.h declares it."""
# DLDeviceType, DLDataTypeCode and DLPACK_FLAG_BITMASK_* of dlpack.h
CPU, CUDA, _CUDA_HOST = 1, 2, 3
_ON_HOST = (CPU, _CUDA_HOST)
_READ_ONLY, _COPIED = 1, 2
_NO_ORDER = -1
TYPES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "bool": (6, 8),
        **{f"i{bits}": (0, bits) for bits in (8, 16, 32, 64)},
        **{f"u{bits}": (1, bits) for bits in (8, 16, 32, 64)},
        **{f"f{bits}": (2, bits) for bits in (16, 32, 64)},
        "bf16": (4, 16),
        "f8e4m3": (10, 8),
        "f8e5m2": (12, 8),
    }
)
_NAMES = {code: name for name, code in TYPES.items()}


def dlpack_device(device: Device) -> tuple[int, int]:
    """DLPack's (type, number) of a device. Raises BufferError for one that it has no type for."""
    portrait = device.portrait
    if portrait.host_memory:
        return (CPU, 0)
    if portrait.driver == "cuda":
        return (CUDA, int(portrait.name.partition(":")[2] or 0))
    raise BufferError(f"the memory of `{device.name}` has no DLPack type; use numpy()")


def export(
    array: Array,
    stream: int | None,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """The capsule of `Array.__dlpack__`."""
    here = dlpack_device(array.device)
    wanted = here if dl_device is None else tuple(map(int, dl_device))
    if wanted not in (here, (CPU, 0)) or (wanted != here and copy is False):
        raise BufferError(f"the array is on device {here} and not on {wanted}; copy it")
    if here[0] == CPU and stream not in (None, _NO_ORDER):
        raise BufferError("the host has no streams")
    if stream != _NO_ORDER:
        array.settle(writes=array.flags.writeable)
    if wanted != here:
        moved = array.device.peer("cpu").array(array.numpy())
        return _capsule(moved, (CPU, 0), max_version, _COPIED)
    if copy:
        return _capsule(array.device.array(array), here, max_version, _COPIED)
    return _capsule(array, here, max_version, 0)


def _capsule(
    array: Array, device: tuple[int, int], max_version: tuple[int, int] | None, flags: int
) -> Any:
    size = array.dtype.itemsize
    versioned = max_version is not None and max_version[0] >= VERSION[0]
    if not array.flags.writeable:
        if not versioned:
            raise BufferError("the array is read-only, which DLPack before 1.0 cannot say")
        flags |= _READ_ONLY
    code = TYPES[NAMES[array.dtype]]
    strides = tuple(stride // size for stride in array.strides)
    owner = (array, array.buffer)
    return extension().to_dlpack(
        owner, array.address, code, array.shape, strides, device, versioned, flags
    )


def capsule_of(value: Any, stream: int | None = None) -> Any:
    """The capsule of an exporter, by the newest protocol that it knows."""
    options: dict[str, Any] = {} if stream is None else {"stream": stream}
    try:
        return value.__dlpack__(max_version=VERSION, **options)
    except TypeError:  # an exporter of DLPack before 1.0
        return value.__dlpack__(**options)


def of_capsule(capsule: Any) -> tuple[Any, int, np.dtype[Any], Any, Any, tuple[int, int], bool]:
    """Owner, address, element type, shape, byte strides, device, and whether it is writeable."""
    owner, address, dtype, shape, strides, device, flags = extension().from_dlpack(capsule)
    code, bits, lanes = dtype
    name = _NAMES.get((code, bits))
    if name is None or lanes != 1:
        raise BufferError(f"DLPack's type {dtype} has no type in a kernel")
    kind = NUMPY[name]
    size = kind.itemsize
    steps: tuple[int, ...] = contiguous_strides(shape, 1) if strides is None else strides
    writeable = not flags & _READ_ONLY
    return owner, address, kind, shape, tuple(s * size for s in steps), device, writeable


class _Shown:
    """Bytes of somebody else's memory, shown to NumPy."""

    def __init__(self, owner: object, address: int, size: int, *, writeable: bool) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, not writeable),
            "version": 3,
        }


def host_array(value: Any) -> np.ndarray[Any, Any]:
    """A NumPy array over the host memory of a DLPack exporter. Raises BufferError."""
    owner, address, kind, shape, strides, device, writeable = of_capsule(capsule_of(value))
    if device[0] not in _ON_HOST:
        raise BufferError(f"the capsule is of device {device}")
    if 0 in shape:
        return np.empty(shape, kind)
    low, high = bounds(address, shape, strides, kind.itemsize)
    memory = np.asarray(_Shown(owner, low, high - low, writeable=writeable))
    return np.ndarray(shape, kind, memory, address - low, strides)


def is_on_host(value: Any) -> bool:
    """Whether a DLPack exporter's memory is the host's."""
    return int(value.__dlpack_device__()[0]) in _ON_HOST


def array_interface(array: Array) -> dict[str, Any]:
    """The value of `Array.__array_interface__`; AttributeError where the host sees no memory."""
    if not array.device.portrait.host_memory or array.dtype.kind == "V":
        raise AttributeError(f"{array!r} has no __array_interface__; use numpy()")
    array.settle(writes=array.flags.writeable)
    return _interface(array)


def cuda_array_interface(array: Array) -> dict[str, Any]:
    """The value of `Array.__cuda_array_interface__`; AttributeError off CUDA."""
    if array.device.portrait.driver != "cuda" or array.dtype.kind == "V":
        raise AttributeError(f"{array!r} has no __cuda_array_interface__")
    array.settle(writes=array.flags.writeable)
    return {**_interface(array), "stream": None}


def _interface(array: Array) -> dict[str, Any]:
    return {
        "shape": array.shape,
        "typestr": array.dtype.str,
        "data": (array.address if array.size else 0, not array.flags.writeable),
        "strides": None if array.flags.c_contiguous else array.strides,
        "version": 3,
    }


def cuda_interface_of(value: Any) -> tuple[int, np.dtype[Any], Any, Any, bool, int | None]:
    """Address, element type, shape, byte strides, writeable and stream of a CUDA array."""
    shown = value.__cuda_array_interface__
    kind = np.dtype(shown["typestr"])
    if kind not in NAMES or not kind.isnative or shown.get("mask") is not None:
        raise ArgumentError(f"arrays of `{kind}`, or with a mask, have no type in a kernel")
    shape = tuple(map(int, shown["shape"]))
    strides = shown.get("strides")
    if strides is None:
        strides = contiguous_strides(shape, kind.itemsize)
    address, read_only = shown["data"]
    return int(address), kind, shape, tuple(map(int, strides)), not read_only, shown.get("stream")
