"""What can go wrong with devices, arguments and launches."""

from __future__ import annotations

from hetir.diagnostics import LaunchError


class DeviceError(LaunchError):
    """There is no device of that name here, or it cannot do what is asked.

    Cause: a misspelt name, or a driver that is not installed. Fix: see `hetir devices`.
    """

    code = "HET500"


class ArgumentError(LaunchError):
    """An argument is not what the kernel was compiled for.

    Cause: wrong element type, rank, alignment or device, an integer out of range, or an
    array that the kernel writes and that is read-only, broadcast or overlaps itself.
    Fix: pass a copy of the array, or convert it.
    """

    code = "HET501"


class LaunchFailedError(LaunchError):
    """A launch ended with an error of the device.

    Cause: as the message says. The device stays usable. Fix: as the hint says.
    """

    code = "HET502"


class LaunchTimeoutError(LaunchError, TimeoutError):
    """A launch did not end in time and was given up; its queue can no longer be used.

    Cause: a kernel that does not end, or a timeout that is too short.
    Fix: look for a loop that waits for another work-item.
    """

    code = "HET503"


class OutOfMemoryError(LaunchError, MemoryError):
    """A device has no memory for an array.

    Cause: more is asked for than is free. Fix: use smaller pieces, or free arrays.
    """

    code = "HET504"
