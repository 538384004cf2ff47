"""From arguments to the canonical block: checked against their slots and packed."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hetir.artifact import Layout, Slot
from hetir.runtime.arrays import Array
from hetir.runtime.dtypes import CODES, NAMES, NUMPY, packer_of
from hetir.runtime.errors import ArgumentError
from hetir.runtime.layout import overlaps_itself
from hetir.runtime.native import native

if TYPE_CHECKING:
    from hetir.runtime.device import Device

Take = Callable[[Sequence[Any], list[Any]], None]
Operand = np.ndarray[Any, Any] | Array
_NDARRAY: type[Any] = np.ndarray


class Packer:
    """Packs the arguments of one layout for `device`; `names` are the parameters', for messages."""

    def __init__(self, layout: Layout, device: Device, names: Sequence[str] = ()) -> None:
        self.layout = layout
        self.device = device
        self.names = names
        self._struct = struct.Struct(_format(layout))
        self._takes = [self._take(slot) for slot in layout.slots]
        ffi = native().ffi
        self._from_buffer, self._cast = ffi.from_buffer, ffi.cast

    def pack(self, values: Sequence[Any]) -> bytes:
        """The block, with host addresses. Raises ArgumentError."""
        fields: list[Any] = []
        for take in self._takes:
            take(values, fields)
        try:
            return self._struct.pack(*fields)
        except struct.error:
            raise self._out_of_range(values) from None

    def place(self, block: bytes, addresses: Sequence[int]) -> bytes:
        """The same block with other addresses for its arrays, in the order of the slots."""
        changed = bytearray(block)
        arrays = (slot for slot in self.layout.slots if slot.ndim is not None)
        for slot, address in zip(arrays, addresses, strict=True):
            struct.pack_into("<Q", changed, slot.offset, address)
        return bytes(changed)

    def operands(self, values: Sequence[Any]) -> list[tuple[Slot, Operand]]:
        """The array slots with what they take."""
        return [(s, _lookup(s)(values)) for s in self.layout.slots if s.ndim is not None]

    def name(self, slot: Slot) -> str:
        """What a message calls a slot's argument."""
        first, *fields = slot.source
        index = int(first)
        root = f"`{self.names[index]}`" if index < len(self.names) else f"argument {index}"
        return root if not fields else f"`{'.'.join([root.strip('`'), *map(str, fields)])}`"

    def _take(self, slot: Slot) -> Take:
        return self._take_scalar(slot) if slot.ndim is None else self._take_array(slot)

    def _take_scalar(self, slot: Slot) -> Take:
        lookup, convert = _lookup(slot), packer_of(slot.dtype)

        def take(values: Sequence[Any], fields: list[Any]) -> None:
            value = lookup(values)
            try:
                fields.append(convert(value))
            except (AttributeError, TypeError, ValueError, struct.error):
                raise ArgumentError(
                    f"{self.name(slot)} must be a number of type `{slot.dtype}`, got {_kind(value)}"
                ) from None

        return take

    def _take_array(self, slot: Slot) -> Take:
        lookup, dtype, writes = _lookup(slot), NUMPY[slot.dtype], slot.writes
        ndim, size = slot.ndim, dtype.itemsize

        def take(values: Sequence[Any], fields: list[Any]) -> None:
            array = lookup(values)
            if type(array) is Array:
                address = array.address
                if array.device is not self.device:
                    self._check_device(slot, array)
            elif isinstance(array, _NDARRAY):
                address = self._address(array)
                if writes and not array.flags.writeable:
                    raise self._unwritable(slot, "is read-only")
            else:
                raise self._mismatch(slot, array)
            if array.dtype != dtype or array.ndim != ndim:
                raise self._mismatch(slot, array)
            shape, strides = array.shape, array.strides
            if address % size or any(stride % size for stride in strides):
                raise ArgumentError(
                    f"{self.name(slot)} is not aligned to its elements of {size} bytes",
                    hint="pass a copy: `x.copy()`",
                )
            if writes and not array.flags.c_contiguous and overlaps_itself(shape, strides, size):
                raise self._unwritable(slot, "is a broadcast or overlaps itself")
            fields.append(address)
            fields += shape
            fields += strides

        return take

    def _address(self, array: np.ndarray[Any, Any]) -> int:
        if array.flags.c_contiguous:
            return int(self._cast("uintptr_t", self._from_buffer(array)))
        return array.__array_interface__["data"][0]

    def _check_device(self, slot: Slot, array: Array) -> None:
        """Devices that work on host memory take each other's arrays."""
        device = self.device
        if not (device.portrait.host_memory and array.device.portrait.host_memory):
            raise ArgumentError(
                f"{self.name(slot)} lies on `{array.device.name}`, "
                f"the launch is on `{device.name}`",
                hint=f'write `x.to("{device.name}")`',
            )

    def _mismatch(self, slot: Slot, value: Any) -> ArgumentError:
        return ArgumentError(
            f"{self.name(slot)} must be an array of `{slot.dtype}` with {slot.ndim} dimensions, "
            f"got {_kind(value)}"
        )

    def _unwritable(self, slot: Slot, why: str) -> ArgumentError:
        return ArgumentError(
            f"{self.name(slot)} is written by the kernel and {why}", hint="pass a copy: `x.copy()`"
        )

    def _out_of_range(self, values: Sequence[Any]) -> ArgumentError:
        """Which integer did not fit; found by packing each alone."""
        for slot in self.layout.slots:
            if slot.ndim is not None:
                continue
            value = _lookup(slot)(values)
            try:
                struct.pack("<" + CODES[slot.dtype], packer_of(slot.dtype)(value))
            except struct.error:
                return ArgumentError(
                    f"{self.name(slot)} is {value}, which is out of the range of `{slot.dtype}`"
                )
        return ArgumentError("an argument has an extent or stride that does not fit 64 bits")


def _format(layout: Layout) -> str:
    """The struct format of a block; padding goes where the offsets leave room."""
    parts, end = ["<"], 0
    for slot in sorted(layout.slots, key=lambda slot: slot.offset):
        words = "" if slot.ndim is None else f"{2 * slot.ndim}q" if slot.ndim else ""
        code = CODES[slot.dtype] if slot.ndim is None else f"Q{words}"
        parts.append(f"{slot.offset - end}x{code}")
        end = slot.offset + struct.calcsize("<" + code)
    return "".join([*parts, f"{layout.size - end}x"])


def _lookup(slot: Slot) -> Callable[[Sequence[Any]], Any]:
    first, *fields = slot.source
    index = int(first)
    if not fields:
        return lambda values: values[index]

    def lookup(values: Sequence[Any]) -> Any:
        value = values[index]
        for field in fields:
            value = getattr(value, field) if isinstance(field, str) else value[field]
        return value

    return lookup


def _kind(value: Any) -> str:
    if issubclass(type(value), (_NDARRAY, Array)):
        return f"an array of `{NAMES.get(value.dtype, value.dtype)}` with {value.ndim} dimensions"
    return f"`{type(value).__name__}`"
