"""What it costs to bring bytes to a device and back, measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetir.runtime.arrays import Buffer

if TYPE_CHECKING:
    from hetir.runtime.device import Device

_BYTES, _FEW = 8 << 20, 64
_ROUNDS, _SHORT_ROUNDS = 4, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Bytes a second each way, and the seconds that a few bytes take there and back."""

    upload_bytes_per_second: float
    download_bytes_per_second: float
    latency_seconds: float


def measure(device: Device) -> Link:
    """Copy 8 MiB to a device and back a few times; the best of them."""
    made, buffer = device.queue(), Buffer(device, _BYTES)
    queue, memory, driver = made.handle, buffer.memory, device.driver
    data = np.ones(_BYTES, np.uint8)

    def there(size: int) -> None:
        driver.write(queue, memory, 0, data[:size])
        driver.mark(queue).wait()

    def back(size: int) -> None:
        driver.read(queue, memory, 0, data[:size])

    up = _best(lambda: there(_BYTES), _ROUNDS)
    down = _best(lambda: back(_BYTES), _ROUNDS)
    short = _best(lambda: (there(_FEW), back(_FEW)), _SHORT_ROUNDS)
    return Link(
        upload_bytes_per_second=_BYTES / up,
        download_bytes_per_second=_BYTES / down,
        latency_seconds=short,
    )


def _best(run: Callable[[], object], rounds: int) -> float:
    times: list[float] = []
    for _ in range(rounds):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return max(min(times), 1e-9)
