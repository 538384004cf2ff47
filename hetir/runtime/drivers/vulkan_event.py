"""Work on a Vulkan device: what a submission takes, its event, and queues of such events."""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from hetir.runtime.driver import DriverError, Event, Memory
from hetir.runtime.drivers.vulkan_api import NOT_READY, TIMEOUT

if TYPE_CHECKING:
    from hetir.runtime.drivers.vulkan import VulkanDriver

SLICE_NS = 100_000_000
"""How long one wait lasts, so that Ctrl-C gets through."""
_GRACE_SECONDS = 2.0


class Slot:
    """What one launch in flight takes: commands, a fence, times, and room for the block."""

    __slots__ = ("block", "commands", "fence", "pool", "times")

    def __init__(self, driver: VulkanDriver) -> None:
        a, device = driver.api, driver.device
        self.pool = a.create(
            "vkCreateCommandPool", "VkCommandPool", device, a.make("PoolInfo", family=driver.family)
        )
        out = a.ffi.new("VkCommandBuffer[1]")
        a.call(
            "vkAllocateCommandBuffers", device, a.make("CommandsInfo", pool=self.pool, count=1), out
        )
        self.commands = out[0]
        self.fence = a.create("vkCreateFence", "VkFence", device, a.make("FenceInfo"))
        query = a.make("QueryInfo", type=2, count=2)
        self.times = a.create("vkCreateQueryPool", "VkQueryPool", device, query)
        self.block: Memory | None = None


class VulkanEvent(Event):
    """A submission; its slot goes back to the driver when it has ended."""

    __slots__ = ("__weakref__", "_driver", "_error", "_lock", "_slot", "_times", "keep")

    def __init__(
        self,
        driver: VulkanDriver,
        slot: Slot | None,
        keep: Any = None,
        error: Exception | None = None,
    ) -> None:
        self._driver, self._slot, self.keep, self._error = driver, slot, keep, error
        self._lock = threading.Lock()
        self._times: tuple[int, int] = (0, 0)
        if slot is not None:
            # the slot must come back even if nobody waits for the event
            weakref.finalize(self, driver.reclaim, slot)

    def done(self) -> bool:
        """Whether it has ended."""
        with self._lock:
            if self._slot is None:
                return True
            status = self._driver.status(self._slot)
            if status == NOT_READY:
                return False
            self._times = self._driver.read_times(self._slot)
            self._slot = self.keep = None
            return True

    def wait(self, timeout: float | None = None) -> bool:
        """In slices, so that Ctrl-C gets through. Raises DriverError."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.done():
            slot = self._slot
            left = SLICE_NS
            if deadline is not None:
                left = min(left, max(0, int((deadline - time.monotonic()) * 1e9)))
            if slot is not None and self._driver.await_slot(slot, left) == TIMEOUT and not left:
                return False
        if self._error is not None:
            raise self._error
        return True

    def times(self) -> tuple[int, int] | None:
        """On the device's clock."""
        return self._times if self.done() else None

    def abandon(self) -> bool:
        """Vulkan cancels nothing: wait a moment."""
        try:
            return self.wait(_GRACE_SECONDS)
        except DriverError:
            return True


class VulkanQueue:
    """The work of one queue of hetir's; the last event stands for all."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last: VulkanEvent | None = None
