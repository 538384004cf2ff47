"""Arrays in a device's memory."""

from __future__ import annotations

import operator
import struct
from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hetir.runtime import interchange
from hetir.runtime.driver import Memory
from hetir.runtime.dtypes import CODES, NAMES, NUMPY
from hetir.runtime.errors import ArgumentError
from hetir.runtime.hazards import HOST, IN_FLIGHT, Footprint
from hetir.runtime.hostmemory import host_bytes
from hetir.runtime.layout import bounds, contiguous_strides

if TYPE_CHECKING:
    from hetir.runtime.device import Device

HostArray = np.ndarray[Any, Any]
Index = int | slice | EllipsisType | None


class Buffer:
    """An allocation, given back when the last array and the last launch that use it are gone.

    With an `owner` the memory is somebody else's, and it is the owner that is let go.
    """

    __slots__ = ("device", "memory", "owner")

    def __init__(
        self, device: Device, size: int, memory: Memory | None = None, owner: object = None
    ) -> None:
        self.device = device
        self.owner = owner
        self.memory: Memory = device.allocate(size) if memory is None else memory

    def __del__(self) -> None:
        memory = getattr(self, "memory", None)  # absent when the allocation failed
        if memory is not None and self.owner is None and not self.device.lost:
            self.device.driver.free(memory)


class Storage:
    """What an array and its views share: the buffer that holds them now, or None once freed."""

    __slots__ = ("buffer",)

    def __init__(self, buffer: Buffer) -> None:
        self.buffer: Buffer | None = buffer


class Flags(NamedTuple):
    """What an array is; the names are NumPy's."""

    c_contiguous: bool
    writeable: bool


class Array:
    """A strided array in a device's memory; `strides` and `offset` are in bytes.

    Made by `hetir.array`, `hetir.empty`, `hetir.zeros` and `hetir.from_dlpack`. A basic slice is
    a view over the same memory. It goes to other libraries without a copy by DLPack, and by the
    array interfaces of NumPy and CUDA.
    """

    __slots__ = ("_bound", "_packed", "_shown", "device", "dtype", "flags", "offset", "shape",
                 "storage", "strides")  # fmt: skip

    def __init__(
        self,
        storage: Storage | Buffer,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        strides: tuple[int, ...],
        offset: int = 0,
        *,
        writeable: bool = True,
    ) -> None:
        self.storage = Storage(storage) if isinstance(storage, Buffer) else storage
        self.shape, self.dtype, self.strides, self.offset = shape, dtype, strides, offset
        contiguous = strides == contiguous_strides(shape, dtype.itemsize)
        self.flags = Flags(contiguous, writeable)
        self.device: Device = self.buffer.device
        self._bound: Buffer | None = None
        self._packed = b""
        self._shown: Buffer | None = None

    @property
    def buffer(self) -> Buffer:
        """The allocation that it lies in. Raises ArgumentError once it is freed."""
        buffer = self.storage.buffer
        if buffer is None:
            raise ArgumentError("the array was freed", hint="make another one")
        return buffer

    @property
    def address(self) -> int:
        """Where its first element lies now, in the device's view."""
        return self.buffer.memory.address + self.offset

    @property
    def packed(self) -> bytes:
        """What native/python/launch.c reads: what it is, then the words of its slot."""
        buffer = self.buffer
        if self._bound is not buffer:
            ndim, code = len(self.shape), CODES[NAMES[self.dtype]]
            kind = (code, ndim, self.device.portrait.host_memory, self.flags.writeable)
            words = (buffer.memory.address + self.offset, *self.shape, *self.strides)
            self._packed = struct.pack(f"<BB??4xQ{2 * ndim}q", *kind, *words)
            self._bound = buffer
        return self._packed

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
        where = "freed" if self.storage.buffer is None else f"on {self.device.name}"
        return f"<hetir array {kind}{list(self.shape)} {where}>"

    def footprint(self, *, writes: bool) -> Footprint:
        """The bytes that a use of the whole array touches."""
        low, high = bounds(self.address, self.shape, self.strides, self.dtype.itemsize)
        space = HOST if self.device.portrait.host_memory else id(self.device)
        return Footprint(space, low, high, writes)

    def settle(self, *, writes: bool = True) -> None:
        """Wait for the launches that write it and, before it is written, for its readers."""
        if IN_FLIGHT:
            IN_FLIGHT.settle((self.footprint(writes=writes),))

    def numpy(self) -> HostArray:
        """The elements as a NumPy array: shared where the host sees the memory, else a copy.

        Waits for the launches that write them.
        """
        self.settle(writes=self.device.portrait.host_memory and self.flags.writeable)
        return self.host_view()

    def host_view(self) -> HostArray:
        """As `numpy`, without waiting where the memory is shared."""
        low, high = bounds(self.offset, self.shape, self.strides, self.dtype.itemsize)
        if self.device.portrait.host_memory:
            memory = _keeping(self.buffer, low, high - low, writeable=self.flags.writeable)
        else:
            memory = np.empty(high - low, np.uint8)
            device = self.device
            device.check()
            device.driver.read(device.default_queue.handle, self.buffer.memory, low, memory)
        return np.ndarray(self.shape, self.dtype, memory, self.offset - low, self.strides)

    def to(self, device: str | Device) -> Array:
        """This array on another device; itself when it lies there already."""
        target = self.device.peer(device)
        if target is self.device:
            return self
        alike = type(target.driver) is type(self.device.driver)
        whole = self.nbytes and self.flags.c_contiguous
        made = self._copied(target) if alike and whole else None
        return target.array(self.numpy()) if made is None else made

    def _copied(self, target: Device) -> Array | None:
        """A copy on a device that reads this one's memory itself, if it does."""
        self.settle(writes=False)
        made, source = target.empty(self.shape, self.dtype), self.device
        source.driver.mark(source.default_queue.handle).wait()
        queue, to = target.default_queue.handle, (made.buffer.memory, 0)
        of = self.buffer.memory, self.offset
        done = target.driver.copy_from(queue, to, source.driver, of, self.nbytes)
        if done is None:
            return None
        done.wait()
        return made

    def copy_from(self, source: Any) -> None:
        """Write all elements from an array of the same shape and type, after who uses them.

        Raises ArgumentError.
        """
        host = np.asarray(source)
        if host.shape != self.shape or host.dtype != self.dtype:
            raise ArgumentError(
                f"an array of {host.dtype}{list(host.shape)} does not fit {self!r}",
                hint="convert or reshape it",
            )
        if not self.flags.writeable or not self.flags.c_contiguous:
            raise ArgumentError(f"{self!r} is read-only or strided", hint="write to a copy of it")
        self.device.check()
        self.settle()
        if host.size:
            data = np.ascontiguousarray(host).reshape(-1).view(np.uint8)
            self.device.write(self.buffer.memory, self.offset, data)

    def free(self) -> None:
        """Give the memory back, when the last launch that uses it has ended; views go with it."""
        self.storage.buffer = None
        self._bound = None

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
        return Array(
            self.storage,
            view.shape,
            self.dtype,
            view.strides,
            self.offset + moved,
            writeable=self.flags.writeable,
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> HostArray:
        """For `numpy.asarray`."""
        host = self.numpy()
        wanted = host.dtype if dtype is None else np.dtype(dtype)
        return host.astype(wanted) if copy or wanted != host.dtype else host

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's protocol, for memory that the host sees."""
        shown = interchange.array_interface(self)
        self._shown = self.buffer  # whoever reads this keeps the array and not the buffer
        return shown

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The protocol of CUDA arrays, version 3; the memory is ready on every stream."""
        shown = interchange.cuda_array_interface(self)
        self._shown = self.buffer
        return shown

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule over the same memory, or over a copy where that is asked for.

        Args:
            stream: the consumer's stream: -1 when it wants no order, anything else waits for
                the launches that write the array.
            max_version: the newest version that the consumer reads; from (1, 0) on the capsule
                is a versioned one.
            dl_device: where it must lie: here, or on the host (1, 0), which takes a copy.
            copy: True for a copy, False for none.
        """
        return interchange.export(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's (type, number) of the device."""
        return interchange.dlpack_device(self.device)


class _Owner:
    """Shows NumPy a range of a buffer, and keeps the buffer while an array uses it."""

    def __init__(self, buffer: Buffer, low: int, size: int, *, writeable: bool) -> None:
        self.buffer = buffer
        address = buffer.memory.address + low
        self.__array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, not writeable),
            "version": 3,
        }


def _keeping(buffer: Buffer, low: int, size: int, *, writeable: bool) -> HostArray:
    if size == 0:
        return host_bytes(0, 0)
    return np.asarray(_Owner(buffer, low, size, writeable=writeable))


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
