"""Copies of host arrays for devices that do not see the host's memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hetir.runtime.arrays import Array, Buffer, HostArray
from hetir.runtime.hostmemory import host_bytes
from hetir.runtime.layout import bounds
from hetir.runtime.pack import Packer

if TYPE_CHECKING:
    from hetir.runtime.device import Device, Queue

_ALIGNMENT = 16  # what specialisations rely on; allocations have more


class Span:
    """A range of host memory and its copy on the device; arrays that overlap share one.

    The copy begins at `start`, so that addresses keep their alignment.
    """

    __slots__ = ("buffer", "high", "low")

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high
        self.buffer: Buffer | None = None

    @property
    def start(self) -> int:
        """The host address of the copy's first byte, a multiple of 16."""
        return self.low & -_ALIGNMENT


class Staged:
    """The host arrays of one launch on a device, copied in; `bring_back` copies results out."""

    def __init__(
        self, device: Device, queue: Queue, packer: Packer, values: Sequence[Any], block: bytes
    ) -> None:
        self._device, self._queue = device, queue
        operands = packer.operands(values)
        host = [operand for _, operand in operands if isinstance(operand, np.ndarray)]
        self._spans = _spans(host)
        for span in self._spans:
            span.buffer = Buffer(device, span.high - span.start)
            source = host_bytes(span.low, span.high - span.low)
            device.driver.write(queue.handle, span.buffer.memory, span.low - span.start, source)
        self.written = [o for s, o in operands if s.writes and isinstance(o, np.ndarray) and o.size]
        self.block = packer.place(block, [self._address(operand) for _, operand in operands])
        self.memories = tuple(self._buffer(operand).memory for _, operand in operands)

    def bring_back(self) -> None:
        """Copy what the kernel wrote to the host arrays: their elements and nothing between."""
        for array in self.written:
            span = self._span(array)
            assert span.buffer is not None
            low, high = _bounds(array)
            staged = np.empty(high - low, np.uint8)
            target = host_bytes(low, high - low) if array.flags.c_contiguous else staged
            self._device.driver.read(
                self._queue.handle, span.buffer.memory, low - span.start, target
            )
            if target is staged:
                start = array.__array_interface__["data"][0] - low
                array[...] = np.ndarray(array.shape, array.dtype, staged, start, array.strides)

    def _address(self, operand: HostArray | Array) -> int:
        if isinstance(operand, Array):
            return operand.address
        memory = self._buffer(operand).memory
        return memory.address + operand.__array_interface__["data"][0] - self._span(operand).start

    def _buffer(self, operand: HostArray | Array) -> Buffer:
        if isinstance(operand, Array):
            return operand.buffer
        buffer = self._span(operand).buffer
        assert buffer is not None
        return buffer

    def _span(self, array: HostArray) -> Span:
        low, high = _bounds(array)
        return next(s for s in self._spans if s.low <= low and high <= s.high)


def _bounds(array: HostArray) -> tuple[int, int]:
    address = array.__array_interface__["data"][0]
    return bounds(address, array.shape, array.strides, array.itemsize)


def _spans(arrays: Sequence[HostArray]) -> list[Span]:
    """The ranges that the arrays cover, those that overlap made one."""
    spans: list[Span] = []
    for low, high in sorted(_bounds(array) for array in arrays):
        if spans and low < spans[-1].high:
            spans[-1].high = max(spans[-1].high, high)
        else:
            spans.append(Span(low, high))
    return spans


def snapshot(arrays: Sequence[HostArray]) -> list[HostArray]:
    """Writable copies that have the arrays' strides and overlap where the arrays do."""
    spans = _spans([array for array in arrays if array.size])
    data = [host_bytes(span.low, span.high - span.low).copy() for span in spans]

    def copied(array: HostArray) -> HostArray:
        if not array.size:
            return array.copy()
        low, high = _bounds(array)
        at = next(n for n, s in enumerate(spans) if s.low <= low and high <= s.high)
        start = array.__array_interface__["data"][0] - spans[at].low
        return np.ndarray(array.shape, array.dtype, data[at], start, array.strides)

    return [copied(array) for array in arrays]
