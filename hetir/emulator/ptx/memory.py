"""Device memory: NumPy arrays at addresses, and byte stores with typed views."""

from __future__ import annotations

import itertools
from bisect import bisect_right, insort
from typing import Any

import numpy as np

from hetir.emulator.ptx.faults import PtxLaunchError
from hetir.emulator.ptx.types import Lanes

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_FIRST_ADDRESS = 0x7F00_0000_0000
_GUARD_BYTES = 4096
_serials = itertools.count()


class Store:
    """Bytes at an address of a state space; `written` notes initialised bytes where asked."""

    __slots__ = (
        "_views", "base", "data", "name", "serial", "shadow", "space", "writable", "written",
    )  # fmt: skip

    def __init__(
        self, data: Bytes, *, name: str, space: str, base: int = 0, writable: bool = True
    ) -> None:
        self.data = data
        self.name = name
        self.space = space
        self.base = base
        self.writable = writable
        self.written: Lanes | None = None
        self.shadow: Any = None
        self.serial = next(_serials)
        self._views: dict[np.dtype[Any], Lanes] = {}

    @property
    def end(self) -> int:
        """The address after the last byte."""
        return self.base + self.data.size

    def typed(self, dtype: np.dtype[Any]) -> Lanes:
        """The bytes as elements; element i lies at byte `self.shift(dtype) + i * itemsize`."""
        view = self._views.get(dtype)
        if view is None:
            start = self.shift(dtype.itemsize)
            whole = (self.data.size - start) // dtype.itemsize * dtype.itemsize
            view = self.data[start : start + max(0, whole)].view(dtype)
            self._views[dtype] = view
        return view

    def shift(self, size: int) -> int:
        """The first byte whose address is a multiple of `size`."""
        return -self.base % size


class Memory:
    """The global memory of a launch: allocations that alias NumPy arrays.

    What a kernel writes is in the arrays when the launch returns.
    """

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._stores: dict[int, Store] = {}
        self._known: dict[int, tuple[Any, int]] = {}
        self._next = _FIRST_ADDRESS

    def add(
        self,
        array: np.ndarray[Any, Any],
        name: str = "",
        address: int | None = None,
        space: str = "global",
    ) -> int:
        """Register a C-contiguous array and return its device address (256-byte aligned).

        `address` places it elsewhere, as at `array.ctypes.data`. A read-only array may only be
        read by the kernel. An array that is registered already keeps its address.
        """
        known = self._known.get(id(array))
        if known is not None and address in {None, known[1]}:
            return known[1]
        if not array.flags.c_contiguous:
            raise PtxLaunchError(
                "the array is not contiguous", hint="pass `np.ascontiguousarray(array)`"
            )
        data = array.reshape(-1).view(np.uint8)
        base = self._place(data.size, address)
        store = Store(data, name=name, space=space, base=base, writable=array.flags.writeable)
        if data.size:
            insort(self._bases, base)
            self._stores[base] = store
        self._known[id(array)] = (array, base)
        return base

    def alloc(self, size: int, name: str = "") -> int:
        """Register new zeroed bytes and return their address."""
        return self.add(np.zeros(size, np.uint8), name)

    def bytes_at(self, address: int, size: int) -> Bytes:
        """A view of bytes inside one allocation."""
        store = self.find(address)
        if store is None or address + size > store.end:
            raise PtxLaunchError(f"no allocation holds {size} bytes at {address:#x}")
        start = address - store.base
        return store.data[start : start + size]

    def find(self, address: int) -> Store | None:
        """The allocation that holds an address."""
        at = bisect_right(self._bases, address)
        if at == 0:
            return None
        store = self._stores[self._bases[at - 1]]
        return store if address < store.end else None

    def nearest(self, address: int) -> Store | None:
        """The allocation that begins last at or before an address, else the first."""
        if not self._bases:
            return None
        return self._stores[self._bases[max(0, bisect_right(self._bases, address) - 1)]]

    def _place(self, size: int, address: int | None) -> int:
        if address is None:
            base = self._next
            self._next += -(-(size + _GUARD_BYTES) // 256) * 256
            return base
        at = bisect_right(self._bases, address)
        before = self._stores[self._bases[at - 1]].end if at else 0
        after = self._bases[at] if at < len(self._bases) else 1 << 47
        if before > address or address + size > after:
            raise PtxLaunchError(f"an allocation at {address:#x} overlaps another")
        return address
