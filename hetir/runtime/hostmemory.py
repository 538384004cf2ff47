"""Memory operations of the drivers whose kernels work on host memory."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from hetir.runtime.driver import Event, HostBytes, Memory

_ALIGNMENT = 64


class HostMemory(ABC):
    """Allocations are NumPy's; copies wait for the queue and then happen at once."""

    survives_fork = True

    @abstractmethod
    def drain(self, queue: Any) -> None:
        """Wait until the queue is empty, whatever its work ended with."""

    @abstractmethod
    def mark(self, queue: Any, after: Sequence[Event] = ()) -> Event:
        """As Driver.mark."""

    def allocate(self, size: int) -> Memory:
        """At least `size` bytes, aligned to 64."""
        try:
            block = np.empty(size + _ALIGNMENT, np.uint8)
        except ValueError:  # past what an address can be
            raise MemoryError from None
        start = block.__array_interface__["data"][0]
        return Memory(start + -start % _ALIGNMENT, size, block)

    def free(self, memory: Memory) -> None:
        """Drop the array."""
        memory.token = None

    def write(self, queue: Any, memory: Memory, offset: int, source: HostBytes) -> None:
        """Copy in."""
        self.drain(queue)
        host_bytes(memory.address + offset, source.size)[:] = source

    def read(self, queue: Any, memory: Memory, offset: int, into: HostBytes) -> None:
        """Copy out."""
        self.drain(queue)
        into[:] = host_bytes(memory.address + offset, into.size)

    def copy(self, queue: Any, to: tuple[Memory, int], of: tuple[Memory, int], size: int) -> Event:
        """Copy within host memory."""
        self.drain(queue)
        ctypes.memmove(to[0].address + to[1], of[0].address + of[1], size)
        return self.mark(queue)


def host_bytes(address: int, size: int) -> HostBytes:
    """The bytes at a host address as an array that owns nothing."""
    if size == 0:
        return np.empty(0, np.uint8)
    memory: Any = (ctypes.c_uint8 * size).from_address(address)
    return np.frombuffer(memory, np.uint8)
