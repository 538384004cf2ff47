"""Which launches in flight touch which memory, so that others wait for them where they must."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hetir.runtime.device import Device
    from hetir.runtime.launch import Launch

# launches that nobody waits for are looked at now and then
_BETWEEN_SWEEPS = 32

HOST = 0
"""The space of host addresses; other spaces are the `id` of a device."""


class Footprint(NamedTuple):
    """A range of addresses that a launch reads, writes or both."""

    space: int
    low: int
    high: int
    writes: bool

    def meets(self, other: Footprint) -> bool:
        """Whether the two share bytes that one of them writes."""
        return (
            (self.writes or other.writes)
            and self.space == other.space
            and self.low < other.high
            and other.low < self.high
        )


class InFlight:
    """The launches that have not been settled. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._launches: dict[int, tuple[Launch, Sequence[Footprint]]] = {}

    def __bool__(self) -> bool:
        return bool(self._launches)

    def add(self, launch: Launch, footprints: Sequence[Footprint]) -> None:
        """Note what a launch touches until it is settled."""
        with self._lock:
            self._launches[id(launch)] = launch, footprints
            ended = self._ended() if len(self._launches) % _BETWEEN_SWEEPS == 0 else []
        for other in ended:
            other.settle()

    def _ended(self) -> list[Launch]:
        """Launches that have ended and that nobody has waited for."""
        return [launch for launch, _ in self._launches.values() if launch.done]

    def of(self, device: Device) -> list[Launch]:
        """The launches of one device."""
        with self._lock:
            known = [launch for launch, _ in self._launches.values()]
        return [launch for launch in known if launch.queue.device is device]

    def remove(self, launch: Launch) -> None:
        """Forget a launch that was settled."""
        with self._lock:
            self._launches.pop(id(launch), None)

    def touching(self, footprints: Iterable[Footprint]) -> list[tuple[Launch, bool]]:
        """The launches that must end before something else touches this memory, in order.

        Each with whether it is host memory that the two share.
        """
        wanted = tuple(footprints)
        with self._lock:
            known = list(self._launches.values())
        found: list[tuple[Launch, bool]] = []
        for launch, used in known:
            spaces = {one.space for one in wanted for other in used if one.meets(other)}
            if spaces:
                found.append((launch, HOST in spaces))
        return found

    def settle(self, footprints: Iterable[Footprint]) -> None:
        """Wait until this memory can be touched by the host; errors stay with their launches."""
        for launch, _ in self.touching(footprints):
            launch.settle()

    def renew(self) -> None:
        """In a forked child: what ran belongs to the parent."""
        self._lock = threading.Lock()
        self._launches = {}


IN_FLIGHT = InFlight()
os.register_at_fork(after_in_child=IN_FLIGHT.renew)
