"""The Ascend C shim as devices: a launch is a process of its own that shares their memory."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hetir.artifact import Artifact, Layout
from hetir.limits import AscendUnit, limits_of
from hetir.runtime.driver import Dims, Driver, DriverError, Event, Memory, Portrait, Task
from hetir.runtime.drivers.emulator import EmulatorEvent, EmulatorQueue, ThreadDriver
from hetir.runtime.dtypes import NUMPY
from hetir.runtime.hostmemory import host_bytes
from hetir.runtime.layout import bounds

_BASE, _PAGE = 0x2000_0000_0000, mmap.PAGESIZE
_MAP_FIXED_NOREPLACE = 0x100000
_ELF = b"\x7fELF"
_MOST_BLOCKS = 65535  # of SIMT code in one launch


class Stretch(NamedTuple):
    """Device memory that a kernel may touch: `item` is its elements' size in bytes."""

    address: int
    size: int
    item: int
    writes: bool
    name: str


Execute = Callable[
    [
        Sequence[tuple[int, int, int, str]],
        Sequence[Stretch],
        Sequence[int],
        tuple[Dims, Dims],
        Callable[[], bool],
    ],
    None,
]
"""Runs a grid: address, size, offset in a file and the file of what is mapped; what the kernel may
touch; its parameters; grid and workgroup; when to stop. Raises what the launch should raise."""

Prepare = Callable[[str, str, str], Execute]
"""Compiles source for one of its kernels and a target. Raises DriverError."""


@dataclass(slots=True)
class Loaded:
    """An artifact and its executable form."""

    artifact: Artifact
    execute: Execute


class Block(NamedTuple):
    """What an allocation is to the arena: pages of a file that has no name."""

    file: int
    pages: int


@dataclass(slots=True)
class Arena:
    """Memory of such a file, mapped at addresses that the child uses too.

    A forked process takes a file of its own for what it allocates, at addresses that are still
    free; what it inherited is its parent's.
    """

    process: int = 0
    file: int = -1
    used: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    spare: dict[int, list[Memory]] = field(default_factory=dict[int, list[Memory]])

    def take(self, size: int) -> Memory:
        """`size` bytes on pages of their own, an unmapped page after them. Raises MemoryError."""
        pages = max(1, -(-size // _PAGE))
        with self.lock:
            if self.process != os.getpid():
                self.process, self.spare = os.getpid(), {}
                self.file = os.memfd_create("hetir-ascend-shim")
            found = self.spare.get(pages)
            if found:
                memory = found.pop()
                return Memory(memory.address, size, memory.token)
            offset = self.used
            try:
                os.ftruncate(self.file, offset + pages * _PAGE)
            except OSError:  # past what a file can be
                raise MemoryError from None
            _map(_BASE + offset, pages * _PAGE, self.file, offset)
            self.used += (pages + 1) * _PAGE
            return Memory(_BASE + offset, size, Block(self.file, pages))

    def give_back(self, memory: Memory) -> None:
        """Keep the pages for the next allocation of their number.

        Without the lock: the garbage collector calls this, perhaps on the thread that holds it.
        """
        if memory.token.file == self.file:
            self.spare.setdefault(memory.token.pages, []).append(memory)

    def map_of(self, memory: Memory) -> tuple[int, int, int, str]:
        """An allocation's address, size and offset, and its file while this process lives."""
        file = f"/proc/{os.getpid()}/fd/{memory.token.file}"
        return memory.address, max(memory.size, 1), memory.address - _BASE, file


def _map(address: int, size: int, file: int, offset: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int),
        *(ctypes.c_int, ctypes.c_int, ctypes.c_long),
    ]
    flags = mmap.MAP_SHARED | _MAP_FIXED_NOREPLACE
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    if library.mmap(address, size, protection, flags, file, offset) != address:
        raise MemoryError


_ARENA = Arena()  # addresses are the process's: one for all devices


class AscendShimDriver(ThreadDriver):
    """One chip of the shim; kernels reach only the arrays that their launch names."""

    def __init__(self, name: str, targets: tuple[str, ...], prepare: Prepare) -> None:
        self._prepare = prepare
        limits = limits_of(targets[0])
        unit = limits.unit
        assert isinstance(unit, AscendUnit)
        self._simt = unit.mode == "simt"
        self.portrait = Portrait(
            name=name,
            driver="ascend-shim",
            title=f"hetir's model of the {limits.title}",
            vendor="hetir",
            targets=targets,
            host_memory=False,
            memory_bytes=None,
            units=unit.parts[0].units,
            limits=limits,
            emulated=True,
        )

    def can_run(self, target: str) -> bool:
        """Source for this chip."""
        return target in self.portrait.targets

    def allocate(self, size: int) -> Memory:
        """Pages of their own. Raises MemoryError."""
        return _ARENA.take(size)

    def free(self, memory: Memory) -> None:
        """For the next allocation of its size."""
        _ARENA.give_back(memory)

    def load(self, artifact: Artifact) -> Loaded:
        """Compile the source. Raises DriverError with what the compiler said.

        An object that Huawei's compiler made of it stays unused; anything else is no code.
        """
        if artifact.binary is not None and not artifact.binary.startswith(_ELF):
            raise DriverError("load", 1, "code that is no object file")
        return Loaded(artifact, self._prepare(artifact.text, artifact.entry, artifact.target))

    def unload(self, program: Loaded) -> None:
        """Compiled code is in the disk cache."""

    def launch(self, queue: EmulatorQueue, task: Task, after: Sequence[Event] = ()) -> Event:
        """Queue a run."""
        loaded: Loaded = task.program
        layout = loaded.artifact.layout
        records = task.records
        words = launch_words(task.grid, task.workgroup, task.block, records)
        stretches, arrays = _stretches(layout, task.block)
        if records:
            stretches.append(_whole(records, "the records", writes=True))
        named = {m.address: m for m in (*task.memories, *([records] if records else []))}
        shape = task.grid, task.workgroup
        if self._simt:
            shape = (min(math.prod(task.grid), _MOST_BLOCKS), 1, 1), task.workgroup

        def work(stop: Callable[[], bool]) -> None:
            block = _ARENA.take(len(words))
            try:
                host_bytes(block.address, len(words))[:] = memoryview(words)
                loaded.execute(
                    [_ARENA.map_of(memory) for memory in (*named.values(), block)],
                    [*stretches, _whole(block, "the launch block", writes=False)],
                    [*arrays, block.address],
                    shape,
                    stop,
                )
            finally:
                _ARENA.give_back(block)

        return queue.submit(EmulatorEvent(work, after))


def launch_words(grid: Dims, workgroup: Dims, block: bytes, records: Memory | None) -> bytes:
    """What the last parameter of a kernel points to.

    Grid and workgroup (int64), the argument block, the address of the records (0 for none).
    """
    tail = struct.pack("<q", records.address if records else 0)
    return struct.pack("<6q", *grid, *workgroup) + block + tail


def _whole(memory: Memory, name: str, *, writes: bool) -> Stretch:
    return Stretch(address=memory.address, size=memory.size, item=8, writes=writes, name=name)


def _stretches(layout: Layout, block: bytes) -> tuple[list[Stretch], list[int]]:
    """What the arrays of a block cover, arrays that share bytes together; and their addresses."""
    found: list[Stretch] = []
    arrays: list[int] = []
    for slot in layout.slots:
        if slot.ndim is None:
            continue
        # the declaration of writes is a promise to the queues, not to the memory
        words = struct.unpack_from(f"<{1 + 2 * slot.ndim}q", block, slot.offset)
        item = NUMPY[slot.dtype].itemsize
        low, high = bounds(words[0], words[1 : 1 + slot.ndim], words[1 + slot.ndim :], item)
        name = f"array {len(arrays)}"
        arrays.append(words[0])
        found.append(Stretch(address=low, size=high - low, item=item, writes=True, name=name))
    return _joined(sorted(found, key=lambda each: each.address)), arrays


def _joined(found: list[Stretch]) -> list[Stretch]:
    joined: list[Stretch] = []
    for each in found:
        last = joined[-1] if joined else None
        if last is None or each.address >= last.address + last.size:
            joined += [each] if each.size else []
            continue
        end = max(last.address + last.size, each.address + each.size)
        joined[-1] = Stretch(
            address=last.address,
            size=end - last.address,
            item=min(last.item, each.item),
            writes=last.writes or each.writes,
            name=f"{last.name} and {each.name}" if each.size else last.name,
        )
    return joined


def devices(prepare: Prepare) -> list[Driver]:
    """The shim's chips: `ascend-shim` is a 910B, the others carry their name."""
    chips: dict[str, tuple[str, ...]] = {
        "ascend-shim": ("ascend:910b", "ascend:910c"),
        "ascend-shim:310p": ("ascend:310p",),
        "ascend-shim:950": ("ascend:950",),
    }
    return [AscendShimDriver(name, targets, prepare) for name, targets in chips.items()]
