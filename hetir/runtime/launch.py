"""A launch: waiting for it, its error, its results."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hetir.diagnostics import HetirError, Label
from hetir.runtime.driver import DriverError, Event
from hetir.runtime.errors import LaunchFailedError, LaunchTimeoutError
from hetir.runtime.hazards import IN_FLIGHT
from hetir.source import Loc

if TYPE_CHECKING:
    from hetir.runtime.device import Queue


class Launch:
    """One launch in flight or ended. Its arguments stay alive until it has ended.

    `event` is its end on the device, with `times()`; `error` what it failed with, once that is
    known. `copies_back` says that host arrays get their results when it is settled.
    """

    def __init__(
        self,
        kernel: str,
        queue: Queue,
        event: Event,
        arguments: Mapping[str, Any],
        *,
        keep: Sequence[Any] = (),
        after: Sequence[Callable[[], None]] = (),
        loc: Loc | None = None,
        copies_back: bool = False,
    ) -> None:
        self.kernel = kernel
        self.queue = queue
        self.event = event
        self.error: Exception | None = None
        self.arguments = arguments
        self.copies_back = copies_back
        self._loc = loc
        self._keep: Sequence[Any] = keep
        self._after: Sequence[Callable[[], None]] = after
        self._lock = threading.Lock()
        self._settled = self._raised = False

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

    @property
    def unseen(self) -> bool:
        """Whether it failed and no wait has raised that."""
        return self.error is not None and not self._raised

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it has ended; host arrays then hold the results.

        Args:
            timeout: seconds to wait at most. When they pass the launch is given up.

        Raises:
            LaunchFailedError: the launch failed. An error is raised once, by the first wait for
                the launch, its queue or its device; `error` keeps it.
            LaunchTimeoutError: it did not end in time.
        """
        self.settle(timeout)
        if self.unseen:
            self._raised = True
            self.queue.let_go(self)
            assert self.error is not None
            try:
                raise self.error
            finally:  # the error must not keep itself alive through this frame
                del self

    def settle(self, timeout: float | None = None) -> None:
        """Wait until it has ended and bring results back; an error is left to the next wait."""
        if self._settled:
            return
        error: Exception | None = None
        try:
            self.queue.device.check()
            ended = self.event.wait(timeout)
        except DriverError as failure:
            ended, error = True, self.failed(failure)
        except Exception as failure:  # noqa: BLE001 - kept, and raised by the wait
            ended, error = True, failure
        except KeyboardInterrupt:
            # what still runs would hold up all later launches of the queue
            self._end(self._give_up(0.0))
            raise
        with self._lock:
            if not self._settled:
                if not ended:
                    error = self._give_up(timeout or 0.0)
                self._end(error or self._finish() if ended else error)
        del error

    def failed(self, failure: DriverError) -> LaunchFailedError:
        """The error of this launch for an error of its driver."""
        labels = (Label(self._loc, ""),) if self._loc else ()
        error = LaunchFailedError(f"kernel `{self.kernel}` failed: {failure}", *labels)
        error.__cause__ = failure
        return error

    def _end(self, error: Exception | None) -> None:
        self.error = error
        if error is not None:
            self.queue.device.note(error)
        self._settled = True
        self._keep = self._after = ()
        IN_FLIGHT.remove(self)
        self.queue.let_go(self)

    def _finish(self) -> Exception | None:
        """Bring results back and hand records on; gives the first error."""
        failed: Exception | None = None
        for action in self._after:
            try:
                action()
            except DriverError as error:
                failed = failed or self.failed(error)
            except HetirError as error:  # a failed assertion does not keep results away
                failed = failed or error
            except Exception as error:  # noqa: BLE001 - kept, and raised by the wait
                return error
        return failed

    def _give_up(self, seconds: float) -> Exception:
        stopped = self.event.abandon()
        if not stopped:
            leak((self._keep, self.event))
            self.queue.abandon()
        labels = (Label(self._loc, ""),) if self._loc else ()
        return LaunchTimeoutError(
            f"kernel `{self.kernel}` did not end in {seconds:g} s on `{self.queue.device.name}`",
            *labels,
            hint="look for a loop that never ends, or wait longer",
        )


def leak(value: Any) -> None:
    """Keep an object for ever: code that hangs may still use its memory."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
