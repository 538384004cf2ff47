"""The bytes that a launch can reach: arguments as they lie, and allocations."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hetir.emulator.values import ALWAYS, ZERO, Axis, Lanes, View
from hetir.ir.types import ArrayType

POISON = 0xCD


@dataclass(slots=True, eq=False)
class Buffer:
    """One run of bytes: an argument's extent in memory, or all copies of an alloc.

    `origin` is the first element's byte; `address` the first byte's address, by which
    arguments that overlap are known. `part_bytes` is the size of one copy of an alloc.
    """

    name: str
    space: str
    data: Lanes
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    origin: int = 0
    part_bytes: int = 0
    address: int = 0
    _typed: dict[tuple[np.dtype[Any], int], Lanes] = field(
        default_factory=dict[tuple[np.dtype[Any], int], Lanes]
    )

    def typed(self, dtype: np.dtype[Any], phase: int) -> Lanes:
        """The bytes from `phase` on, as elements."""
        view = self._typed.get((dtype, phase))
        if view is None:
            count = max(0, len(self.data) - phase) // dtype.itemsize
            view = self.data[phase : phase + count * dtype.itemsize].view(dtype)
            self._typed[dtype, phase] = view
        return view

    def load(self, dtype: np.dtype[Any], offsets: Lanes) -> Lanes:
        """The elements at byte offsets, all in bounds."""
        phase = _phase(offsets, dtype.itemsize)
        if phase is not None:
            return np.asarray(self.typed(dtype, phase)[_elements(offsets, phase, dtype)])
        raw = self.data[offsets[:, None] + np.arange(dtype.itemsize)]
        return np.ascontiguousarray(raw).view(dtype)[:, 0]

    def store(self, dtype: np.dtype[Any], offsets: Lanes, values: Lanes) -> None:
        """Write elements at byte offsets, all in bounds; of equal offsets the last wins."""
        phase = _phase(offsets, dtype.itemsize)
        if phase is not None:
            if values.ndim > offsets.ndim:
                values = values[-1]
            self.typed(dtype, phase)[_elements(offsets, phase, dtype)] = values
            return
        whole = np.ascontiguousarray(np.broadcast_to(values, offsets.shape), dtype)
        raw = whole.view(np.uint8).reshape(-1, dtype.itemsize)
        self.data[offsets[:, None] + np.arange(dtype.itemsize)] = raw


def _phase(offsets: Lanes, size: int) -> int | None:
    """The common remainder of all offsets, or None."""
    if not offsets.size:
        return 0
    phase = int(offsets.flat[0]) % size
    if offsets.ndim == 0 or size == 1 or not ((offsets - phase) & (size - 1)).any():
        return phase
    return None


def _elements(offsets: Lanes, phase: int, dtype: np.dtype[Any]) -> Lanes:
    return (offsets - phase if phase else offsets) >> (dtype.itemsize.bit_length() - 1)


def argument_buffer(name: str, space: str, array: np.ndarray[Any, Any]) -> Buffer:
    """The memory that an array of any strides covers, without a copy."""
    low, high = _bounds(array)
    address = array.__array_interface__["data"][0]
    raw = np.asarray(_Raw(array, address + low, high - low))
    return Buffer(
        name, space, raw, array.shape, array.strides, array.itemsize, -low, 0, address + low
    )


class _Raw:
    """Makes NumPy see an array's memory as bytes; it keeps the array alive."""

    def __init__(self, array: np.ndarray[Any, Any], address: int, size: int) -> None:
        self.array = array
        self.__array_interface__ = {
            "data": (address, not array.flags.writeable),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }


def _bounds(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """The first byte and the byte past the last one, relative to the first element."""
    if array.size == 0:
        return 0, 0
    spans = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    return sum(s for s in spans if s < 0), sum(s for s in spans if s > 0) + array.itemsize


def alloc_buffer(name: str, kind: ArrayType, copies: int) -> Buffer:
    """`copies` poisoned arrays, one after the other, each from a multiple of 16 bytes."""
    shape = kind.shape or ()
    part = -(-math.prod(shape) * kind.element.bytes // 16) * 16
    data = np.full(part * copies, POISON, np.uint8)
    strides = c_strides(shape, kind.element.bytes)
    return Buffer(name, kind.space, data, shape, strides, kind.element.bytes, 0, part)


def c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides in bytes of a C-contiguous array."""
    return tuple(itemsize * math.prod(shape[at + 1 :]) for at in range(len(shape)))


def root_view(number: int, buffer: Buffer, offset: Lanes) -> View:
    """The whole array of a buffer; `offset` is the byte of its first element."""
    axes = tuple(
        Axis(np.array(n), np.array(s), ZERO, np.array(n))
        for n, s in zip(buffer.shape, buffer.strides, strict=True)
    )
    return View(np.array(number), offset, axes, ALWAYS)


def reference(buffers: list[Buffer], view: View) -> View:
    """The op `base`: bytes counted from the first element, in the array's own part."""
    buffer = buffers[int(view.buffer)]
    if buffer.part_bytes or buffer.space in ("shared", "private"):
        used = math.prod(buffer.shape) * buffer.itemsize
        low, high = ZERO, np.array(used)
    else:
        low, high = np.array(-buffer.origin), np.array(len(buffer.data) - buffer.origin)
    return View(view.buffer, view.offset, (Axis(high, np.array(1), low, high),), ALWAYS)
