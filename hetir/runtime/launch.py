"""A launch: waiting for it, its error, its results."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hetir.diagnostics import HetirError
from hetir.runtime.driver import DriverError, Event
from hetir.runtime.errors import LaunchFailedError, LaunchTimeoutError

if TYPE_CHECKING:
    from hetir.runtime.device import Queue


class Launch:
    """One launch in flight or ended. Its arguments stay alive until it has ended."""

    def __init__(
        self,
        kernel: str,
        queue: Queue,
        event: Event,
        arguments: Mapping[str, Any],
        *,
        keep: Sequence[Any] = (),
        after: Sequence[Callable[[], None]] = (),
    ) -> None:
        self.kernel = kernel
        self.queue = queue
        self.event = event
        self.error: Exception | None = None
        self.arguments = arguments
        self._keep: Sequence[Any] = keep
        self._after: Sequence[Callable[[], None]] = after
        self._settled = False

    def __repr__(self) -> str:
        state = "done" if self.done else "running"
        return f"<hetir launch of {self.kernel} on {self.queue.device.name}, {state}>"

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not; results are there after `wait`."""
        return self.event.done()

    @property
    def seconds(self) -> float | None:
        """How long the device worked on it, or None before it has ended."""
        times = self.event.times()
        return None if times is None else (times[1] - times[0]) / 1e9

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it has ended; host arrays then hold the results.

        Args:
            timeout: seconds to wait at most. When they pass the launch is given up.

        Raises:
            LaunchFailedError: the launch failed. An error is raised once, by the first wait;
                `error` keeps it.
            LaunchTimeoutError: it did not end in time.
        """
        if self._settled:
            return
        self._settled, error = True, None
        try:
            if self.event.wait(timeout):
                self._finish()
            else:
                error = self._give_up(timeout or 0.0)
        except DriverError as failure:
            error = LaunchFailedError(f"kernel `{self.kernel}` failed: {failure}")
            error.__cause__ = failure
        except Exception as failure:  # noqa: BLE001 - kept, and raised below
            error = failure
        except KeyboardInterrupt:
            # what still runs would hold up all later launches of the queue
            self.error = self._give_up(0.0)
            raise
        self._keep = self._after = ()
        if error is not None:
            self.error = error
            try:
                raise error
            finally:  # the error must not keep itself alive through this frame
                del error, self

    def _finish(self) -> None:
        """Bring results back and hand records on."""
        failed: HetirError | None = None
        for action in self._after:
            try:
                action()
            except HetirError as error:  # a failed assertion does not keep results away
                failed = failed or error
        if failed is not None:
            raise failed

    def _give_up(self, seconds: float) -> Exception:
        stopped = self.event.abandon()
        if not stopped:
            leak((self._keep, self.event))
            self.queue.abandon()
        return LaunchTimeoutError(
            f"kernel `{self.kernel}` did not end in {seconds:g} s on `{self.queue.device.name}`",
            hint="look for a loop that never ends, or wait longer",
        )


def leak(value: Any) -> None:
    """Keep an object for ever: code that hangs may still use its memory."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
