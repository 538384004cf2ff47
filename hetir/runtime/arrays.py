"""Arrays in a device's memory."""

from __future__ import annotations

import operator
import struct
from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hetir.runtime.driver import Memory
from hetir.runtime.dtypes import CODES, NAMES, NUMPY
from hetir.runtime.errors import ArgumentError
from hetir.runtime.hostmemory import host_bytes
from hetir.runtime.layout import bounds, contiguous_strides

if TYPE_CHECKING:
    from hetir.runtime.device import Device

HostArray = np.ndarray[Any, Any]
Index = int | slice | EllipsisType | None


class Buffer:
    """An allocation, given back when the last array and the last launch that use it are gone."""

    __slots__ = ("device", "memory")

    def __init__(self, device: Device, size: int) -> None:
        self.device = device
        self.memory: Memory = device.allocate(size)

    def __del__(self) -> None:
        memory = getattr(self, "memory", None)  # absent when the allocation failed
        if memory is not None:
            self.device.driver.free(memory)


class Flags(NamedTuple):
    """What an array is; the name is NumPy's."""

    c_contiguous: bool


class Array:
    """A strided array in a device's memory; `strides` and `offset` are in bytes."""

    __slots__ = ("address", "buffer", "device", "dtype", "flags", "offset", "packed", "shape",
                 "strides")  # fmt: skip

    def __init__(
        self,
        buffer: Buffer,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        strides: tuple[int, ...],
        offset: int = 0,
    ) -> None:
        self.buffer, self.shape, self.dtype = buffer, shape, dtype
        self.strides, self.offset = strides, offset
        self.address = buffer.memory.address + offset
        self.flags = Flags(strides == contiguous_strides(shape, dtype.itemsize))
        self.device: Device = buffer.device
        self.packed = self._pack()

    def _pack(self) -> bytes:
        """What native/python/launch.c reads: code, dimensions, host memory, the slot's words."""
        ndim, code = len(self.shape), CODES[NAMES[self.dtype]]
        host = self.device.portrait.host_memory
        words = (self.address, *self.shape, *self.strides)
        return struct.pack(f"<BB?5xQ{2 * ndim}q", code, ndim, host, *words)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=object)) if self.shape else 1

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        kind = NAMES.get(self.dtype, str(self.dtype))
        return f"<hetir array {kind}{list(self.shape)} on {self.device.name}>"

    def numpy(self) -> HostArray:
        """The elements as a NumPy array: shared where the host sees the memory, else a copy."""
        low, high = bounds(self.offset, self.shape, self.strides, self.dtype.itemsize)
        if self.device.portrait.host_memory:
            self.device.drain()
            memory = _keeping(self.buffer, low, high - low)
        else:
            memory = np.empty(high - low, np.uint8)
            self.device.read(self.buffer.memory, low, memory)
        return np.ndarray(self.shape, self.dtype, memory, self.offset - low, self.strides)

    def to(self, device: str | Device) -> Array:
        """This array on another device; itself when it lies there already."""
        target = self.device.peer(device)
        return self if target is self.device else target.array(self.numpy())

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Array:
        """A view by integers, slices, `...` and None; no elements are read."""
        parts = index if isinstance(index, tuple) else (index,)
        for part in parts:
            known: Any = part
            if not (known is None or known is ... or isinstance(known, int | np.integer | slice)):
                raise ArgumentError(
                    f"an array takes integers and slices as indices, got `{type(part).__name__}`",
                    hint="select on the host: `x.numpy()[...]`",
                )
        # NumPy's rules on an array of the same strides; `...` keeps it from reading an element
        probe = np.lib.stride_tricks.as_strided(np.empty(1, np.uint8), self.shape, self.strides)
        whole = (*parts, ...) if ... not in parts else parts
        view = probe[whole]
        moved = view.__array_interface__["data"][0] - probe.__array_interface__["data"][0]
        return Array(self.buffer, view.shape, self.dtype, view.strides, self.offset + moved)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> HostArray:
        """For `numpy.asarray`."""
        host = self.numpy()
        wanted = host.dtype if dtype is None else np.dtype(dtype)
        return host.astype(wanted) if copy or wanted != host.dtype else host

    def __dlpack__(self, **options: Any) -> Any:
        """A DLPack capsule over the same memory; for devices whose memory the host sees."""
        self._require_host()
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's (type, number) of the device."""
        self._require_host()
        return (1, 0)

    def _require_host(self) -> None:
        if not self.device.portrait.host_memory:
            raise BufferError(f"the memory of `{self.device.name}` has no DLPack type; use numpy()")


class _Owner:
    """Shows NumPy a range of a buffer, and keeps the buffer while an array uses it."""

    def __init__(self, buffer: Buffer, low: int, size: int) -> None:
        self.buffer = buffer
        address = buffer.memory.address + low
        self.__array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


def _keeping(buffer: Buffer, low: int, size: int) -> HostArray:
    if size == 0:
        return host_bytes(0, 0)
    return np.asarray(_Owner(buffer, low, size))


def element_type(dtype: Any) -> np.dtype[Any]:
    """The NumPy type that a hetIR name, a hetIR type or a NumPy type stands for."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None)
    found = NUMPY.get(name or "")
    if found is None:
        try:
            found = np.dtype(dtype)
        except TypeError:
            raise ArgumentError(f"there is no type `{dtype}`", hint="write `f32`") from None
        if found not in NAMES:
            raise ArgumentError(f"arrays of `{found}` have no type in a kernel")
    return found


def extents(shape: int | Sequence[int]) -> tuple[int, ...]:
    """A shape as a tuple of Python integers."""
    try:
        sizes = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
        result = tuple(operator.index(size) for size in sizes)
    except TypeError:
        raise ArgumentError(f"a shape is integers, got `{shape}`", hint="write (4, 8)") from None
    if any(size < 0 for size in result):
        raise ArgumentError(f"a shape has no negative extents, got {result}")
    return result
