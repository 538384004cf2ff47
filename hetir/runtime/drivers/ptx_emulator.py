"""The PTX emulator as a device: PTX text over memory of its own, on a thread a queue."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from hetir.artifact import Artifact
from hetir.limits import limits_of, targets
from hetir.runtime.driver import Dims, Event, HostBytes, Memory, Portrait, Task
from hetir.runtime.drivers.emulator import EmulatorEvent, EmulatorQueue, ThreadDriver
from hetir.runtime.drivers.grids import dynamic_shared_bytes, launch_parameter, pieces
from hetir.runtime.hostmemory import host_bytes

_TARGET = "ptx:sm_90"


class Execute(Protocol):
    """Runs a grid of one entry on the memories; raises what the launch should raise."""

    def __call__(
        self,
        grid: Dims,
        workgroup: Dims,
        params: bytes,
        memories: Sequence[HostBytes],
        shared_bytes: int,
        cooperative: bool,
    ) -> None:
        """`params` is the parameter block; each memory is registered at its host address.

        All workgroups of a cooperative launch run at once.
        """
        ...


Prepare = Callable[[str, str], Execute]
"""Reads PTX text for one of its entries."""


@dataclass(slots=True)
class Loaded:
    """An artifact and its executable form; the lock is held while it runs."""

    artifact: Artifact
    execute: Execute
    lock: threading.Lock = field(default_factory=threading.Lock)


class PtxEmulatorDriver(ThreadDriver):
    """The PTX emulator; kernels reach only the memory that their launch names."""

    def __init__(self, prepare: Prepare) -> None:
        self._prepare = prepare
        limits = limits_of(_TARGET)
        self._most = limits.max_grid_dims
        ptx = sorted(name for name in targets() if name.startswith("ptx:") and name != _TARGET)
        self.portrait = Portrait(
            name="ptx-emulator",
            driver="ptx-emulator",
            title="the PTX emulator",
            vendor="hetir",
            targets=(_TARGET, *ptx),
            host_memory=False,
            memory_bytes=None,
            units=1,
            limits=limits,
            emulated=True,
            progress="items",
        )

    def can_run(self, target: str) -> bool:
        """PTX of every capability."""
        return target in self.portrait.targets

    def load(self, artifact: Artifact) -> Loaded:
        """Read the text. Raises what the emulator says of text that it does not know."""
        return Loaded(artifact, self._prepare(artifact.text, artifact.entry))

    def unload(self, program: Loaded) -> None:
        """Nothing is held."""

    def launch(self, queue: EmulatorQueue, task: Task, after: Sequence[Event] = ()) -> Event:
        """Queue a run of the emulator."""
        loaded: Loaded = task.program
        records = task.records.address if task.records else 0
        memories = [*task.memories, *([task.records] if task.records else [])]
        named = [_bytes(memory) for memory in {m.address: m for m in memories}.values()]
        shared = dynamic_shared_bytes(loaded.artifact)
        arrivals = np.zeros(64, np.uint8) if loaded.artifact.cooperative else None
        word = 0 if arrivals is None else arrivals.ctypes.data
        if arrivals is not None:
            named.append(arrivals)

        def work(stop: Callable[[], bool]) -> None:
            with loaded.lock:
                for first, extents in pieces(task.grid, self._most):
                    if stop():
                        return
                    launch = launch_parameter(task.grid, first, task.workgroup, records, word)
                    params = task.block + launch
                    together = arrivals is not None
                    loaded.execute(extents, task.workgroup, params, named, shared, together)

        return queue.submit(EmulatorEvent(work, after))


def _bytes(memory: Memory) -> HostBytes:
    """An allocation up to the end of its last word: atomics on bytes work on the word."""
    size = -(-memory.size // 4) * 4
    return host_bytes(memory.address, size) if size else np.empty(0, np.uint8)
