"""Events that are asked whether they have come, as CUDA's and ACL's are."""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Any

from hetir.runtime.driver import Event

BUSY_SECONDS = 2e-4
"""How long a wait spins before it sleeps."""
_SLICE_SECONDS, _GRACE_SECONDS = 2e-3, 2.0


class PolledEvent(Event):
    """The end of work on a stream, between two of the library's events.

    The driver gives `epoch`, the event with which its time starts, and `elapsed(start, end)`,
    the nanoseconds between two events that have come.
    """

    __slots__ = ("begin", "driver", "end", "error")

    def __init__(self, driver: Any, begin: Any, end: Any) -> None:
        self.driver, self.begin, self.end = driver, begin, end
        self.error: Exception | None = None

    @abstractmethod
    def done(self) -> bool:
        """Whether it has ended; an error of the device ends it, too."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait, at first without sleeping, so that Ctrl-C gets through. Raises DriverError."""
        begun = time.monotonic()
        while not self.done():
            passed = time.monotonic() - begun
            if timeout is not None and passed >= timeout:
                return False
            if passed > BUSY_SECONDS:
                time.sleep(min(passed / 16, _SLICE_SECONDS))
        if self.error is not None:
            raise self.error
        return True

    def times(self) -> tuple[int, int] | None:
        """On a clock that starts with the driver."""
        if not self.done():
            return None
        ended = self.driver.elapsed(self.driver.epoch, self.end)
        if self.begin is self.end:
            return ended, ended
        return ended - self.driver.elapsed(self.begin, self.end), ended

    def abandon(self) -> bool:
        """Wait a moment: nothing stops a kernel that runs."""
        deadline = time.monotonic() + _GRACE_SECONDS
        while not self.done() and time.monotonic() < deadline:
            time.sleep(_SLICE_SECONDS)
        return self.done()
