"""From arguments to the canonical block: checked against their slots and packed, in C."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hetir.artifact import Layout, Slot
from hetir.runtime.arrays import Array
from hetir.runtime.driver import Dims
from hetir.runtime.dtypes import CODES, NAMES, NUMPY, converter_of
from hetir.runtime.errors import ArgumentError
from hetir.runtime.native import extension

if TYPE_CHECKING:
    from hetir.runtime.device import Device

Operand = np.ndarray[Any, Any] | Array
WIDE, MEETS = 1, 2
"""Facts of a launch: something needs more than 32 bits; an array that is written meets another."""
_FIRST_ALIGNED, _MOST_FACTS = 2, 62
_ONE: Dims = (1, 1, 1)


def aligned_bit(slot: int) -> int:
    """The fact that the array of a slot is aligned to 16 bytes; 0 for slots too far back."""
    place = slot + _FIRST_ALIGNED
    return 1 << place if place < _MOST_FACTS else 0


@cache
def launcher() -> Any:
    """The C extension, told which types there are."""
    module = extension()
    numbers = {dtype.num: CODES[name] for name, dtype in NUMPY.items()}
    scalars: dict[type, int] = {dtype.type: CODES[name] for name, dtype in NUMPY.items()}
    for other in map(np.dtype, "ilqILQ"):  # C has two types of one size
        code = CODES[NAMES[other]]
        numbers[other.num] = scalars[other.type] = code
    sizes = tuple(dtype.itemsize for dtype in NUMPY.values())
    module.setup(numbers, sizes, scalars, Array)
    return module


class Packer:
    """Packs the arguments of one layout for `device`; `names` are the parameters', for messages.

    `pack(values, grid, workgroup)` takes tuples and gives the block, with host addresses, and
    the facts of the launch. Raises ArgumentError.
    """

    def __init__(self, layout: Layout, device: Device, names: Sequence[str] = ()) -> None:
        self.layout = layout
        self.device = device
        self.names = names
        slots = tuple(
            (
                slot.offset,
                -1 if slot.ndim is None else slot.ndim,
                CODES[slot.dtype],
                slot.writes,
                slot.source,
                converter_of(slot.dtype),
            )
            for slot in layout.slots
        )
        native: Any = launcher().Packer(layout.size, slots, device, self._refuse)
        self.pack: Callable[[Sequence[Any], Dims, Dims], tuple[bytes, int]] = native.pack

    def block(self, values: Sequence[Any]) -> bytes:
        """The block alone."""
        return self.pack(tuple(values), _ONE, _ONE)[0]

    def place(self, block: bytes, addresses: Sequence[int]) -> bytes:
        """The same block with other addresses for its arrays, in the order of the slots."""
        changed = bytearray(block)
        arrays = (slot for slot in self.layout.slots if slot.ndim is not None)
        for slot, address in zip(arrays, addresses, strict=True):
            struct.pack_into("<Q", changed, slot.offset, address)
        return bytes(changed)

    def operands(self, values: Sequence[Any]) -> list[tuple[Slot, Operand]]:
        """The array slots with what they take."""
        return [(s, value_of(s, values)) for s in self.layout.slots if s.ndim is not None]

    def name(self, slot: Slot) -> str:
        """What a message calls a slot's argument."""
        first, *fields = slot.source
        index = int(first)
        root = f"`{self.names[index]}`" if index < len(self.names) else f"argument {index}"
        return root if not fields else f"`{'.'.join([root.strip('`'), *map(str, fields)])}`"

    def _refuse(self, index: int, reason: int, value: Any) -> None:
        """Raise the error of an argument; `reason` is a number of native/python/launch.c."""
        slot = self.layout.slots[index]
        match reason:
            case 0:
                raise self._mismatch(slot, value)
            case 1:
                raise self._unwritable(slot, "is read-only")
            case 2:
                size = NUMPY[slot.dtype].itemsize
                raise ArgumentError(
                    f"{self.name(slot)} is not aligned to its elements of {size} bytes",
                    hint="pass a copy: `x.copy()`",
                )
            case 3:
                raise self._unwritable(slot, "is a broadcast or overlaps itself")
            case 4:
                self._check_device(slot, value)
            case 5:
                raise ArgumentError(
                    f"{self.name(slot)} must be a number of type `{slot.dtype}`, got {_kind(value)}"
                )
            case _:
                raise ArgumentError(
                    f"{self.name(slot)} is {value}, which is out of the range of `{slot.dtype}`"
                )

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


def value_of(slot: Slot, values: Sequence[Any]) -> Any:
    """The argument that a slot takes."""
    first, *fields = slot.source
    value = values[int(first)]
    for field in fields:
        value = getattr(value, field) if isinstance(field, str) else value[field]
    return value


def _kind(value: Any) -> str:
    if issubclass(type(value), (np.ndarray, Array)):
        array: Any = value
        return f"an array of `{NAMES.get(array.dtype, array.dtype)}` with {array.ndim} dimensions"
    return f"`{type(value).__name__}`"
