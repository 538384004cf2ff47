"""Arguments from elsewhere (torch, DLPack, buffers) as NumPy arrays over the same memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hetir.runtime import interchange
from hetir.runtime.arrays import Array, Buffer
from hetir.runtime.driver import Memory
from hetir.runtime.dtypes import NUMPY
from hetir.runtime.errors import ArgumentError, DeviceError
from hetir.runtime.layout import bounds

if TYPE_CHECKING:
    from hetir.runtime.device import Device

_ARRAY: type[Any] = np.ndarray
_UNCHANGED: tuple[type[Any], ...] = (np.ndarray, Array, int, float, np.generic)
# torch types that NumPy has no name for: seen as integers of their size on the way
_TORCH_BITS = {
    "torch.bfloat16": ("int16", "bf16"),
    "torch.float8_e4m3fn": ("int8", "f8e4m3"),
    "torch.float8_e5m2": ("int8", "f8e5m2"),
}


def as_operand(value: Any) -> Any:
    """What a launch takes for `value`: a NumPy array, an Array, or the value itself.

    torch CPU tensors, DLPack exporters and objects with a buffer become arrays that share
    their memory, also inside NamedTuples. Scalars are unchanged. Raises ArgumentError for
    memory that the host cannot see and for tensors that record gradients.
    """
    if isinstance(value, _UNCHANGED):
        return _of_subclass(value) if isinstance(value, _ARRAY) else value
    if isinstance(value, tuple):
        return _of_tuple(value)
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _of_tensor(torch, value)
    if hasattr(value, "__dlpack__"):
        return from_dlpack(value)
    if hasattr(value, "__cuda_array_interface__"):
        return _of_cuda(value)
    if hasattr(value, "__array_interface__") or hasattr(value, "__array__"):
        return np.asarray(value)
    try:
        return np.asarray(memoryview(value))  # refuses what has no buffer
    except TypeError:
        return value


def _of_subclass(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array itself: a subclass's own behaviour is not the kernel's."""
    if type(value) is _ARRAY:
        return value
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(
            "a masked array cannot be passed: the kernel would not see its mask",
            hint="pass `x.filled(value)`, or `x.data` and `x.mask` as two arrays",
        )
    return value.view(_ARRAY)


def _of_tuple(value: Any) -> Any:
    items = [as_operand(item) for item in value]
    if all(new is old for new, old in zip(items, value, strict=True)):
        return value
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def _of_tensor(torch: Any, tensor: Any) -> np.ndarray[Any, Any] | Array:
    if tensor.device.type not in ("cpu", "cuda"):
        raise ArgumentError(f"the tensor lies on `{tensor.device}`", hint="write `x.cpu()`")
    if tensor.requires_grad:
        raise ArgumentError("the tensor records gradients", hint="write `x.detach()`")
    if tensor.layout != torch.strided:
        raise ArgumentError(
            f"the tensor's layout is `{tensor.layout}`", hint="write `x.to_dense()`"
        )
    if tensor.is_conj() or tensor.is_neg():
        raise ArgumentError("the tensor is a lazy view", hint="write `x.resolve_conj()`")
    if tensor.device.type == "cuda":
        return from_dlpack(tensor)
    bits, name = _TORCH_BITS.get(str(tensor.dtype), (None, ""))
    if bits is None:
        return _shown(tensor)
    return tensor.view(getattr(torch, bits)).numpy().view(NUMPY[name])


def _shown(tensor: Any) -> np.ndarray[Any, Any]:
    try:
        return tensor.numpy()
    except TypeError:  # such as of a quantised tensor
        raise ArgumentError(
            f"a tensor of `{tensor.dtype}` has no type in a kernel",
            hint="write `x.to(torch.float32)`",
        ) from None


def from_dlpack(value: Any) -> np.ndarray[Any, Any] | Array:
    """The memory of a DLPack exporter: a NumPy array for the host's, an Array for a device's.

    Raises ArgumentError for memory of a device that is not here.
    """
    try:
        if interchange.is_on_host(value):
            return interchange.host_array(value)
        return _on_device(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArgumentError(f"the array cannot be used without a copy: {error}",
                            hint="pass a NumPy array") from error  # fmt: skip


def _on_device(value: Any) -> Array:
    kind, number = map(int, value.__dlpack_device__())
    if kind != interchange.CUDA:
        raise BufferError(f"DLPack's device {kind} has no driver")
    device = _cuda(number)
    # the producer makes our stream wait for its work
    capsule = interchange.capsule_of(value, device.driver.stream(device.default_queue.handle))
    owner, address, dtype, shape, strides, _, writeable = interchange.of_capsule(capsule)
    return _over(device, owner, address, dtype, shape, strides, writeable=writeable)


def _cuda(number: int) -> Device:
    try:
        return _DEVICES.find(f"cuda:{number}")
    except DeviceError as error:
        raise ArgumentError(
            f"the array lies on a CUDA device, and {error.message}",
            hint="copy it to the host first",
        ) from error


def _of_cuda(value: Any) -> Array:
    device = _cuda(0)
    try:
        found = interchange.cuda_interface_of(value)
    except (KeyError, TypeError, ValueError) as error:
        raise ArgumentError(f"the array's __cuda_array_interface__ is malformed: {error}",
                            hint="pass it by DLPack") from error  # fmt: skip
    address, dtype, shape, strides, writeable, stream = found
    if stream is not None:
        device.driver.finish_stream(stream)
    return _over(device, value, address, dtype, shape, strides, writeable=writeable)


def _over(
    device: Device,
    owner: object,
    address: int,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    *,
    writeable: bool,
) -> Array:
    """An array over memory of a device that `owner` keeps."""
    low, high = bounds(address, shape, strides, dtype.itemsize)
    buffer = Buffer(device, high - low, Memory(low, high - low), owner)
    return Array(buffer, shape, dtype, strides, address - low, writeable=writeable)


class _Devices:
    """Where devices are looked up; the registry says so, which imports this module."""

    find: Callable[[str], Device]


_DEVICES = _Devices()


def look_up_with(find: Callable[[str], Device]) -> None:
    """Say how a device is found by name."""
    _DEVICES.find = find
