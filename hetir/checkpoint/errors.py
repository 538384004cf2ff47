"""What can go wrong when a launch is stopped, saved and resumed."""

from __future__ import annotations

from pathlib import Path

from hetir.diagnostics import LaunchError


class CheckpointError(LaunchError):
    """A launch cannot be saved, or a file cannot be resumed here.

    Cause: as the message says. A launch that was running goes on. Fix: as the hint says.
    """

    code = "HET530"


class CheckpointTimeout(LaunchError, TimeoutError):  # noqa: N818 - the name of the contract
    """The workgroups did not stop in time; the launch is still running.

    Cause: a workgroup needs longer than the timeout from one safe point to the next.
    Fix: a longer timeout, or shorter workgroups.
    """

    code = "HET531"


class CorruptCheckpoint(LaunchError):  # noqa: N818 - the name of the contract
    """A checkpoint file is damaged.

    `file`, the byte `offset` of the damaged piece, `expected` and `got` are attributes.

    Cause: it was cut, changed, or never written whole.
    Fix: `hetir.checkpoint.latest(folder)` finds the last whole one.
    """

    code = "HET532"

    def __init__(self, file: Path, offset: int, expected: object, got: object) -> None:
        super().__init__(
            f"{file} is damaged at byte {offset}: expected {expected}, got {got}",
            hint="the file before it is kept beside it, with `.previous` at the end",
        )
        self.file, self.offset, self.expected, self.got = file, offset, expected, got


class CheckpointVersionError(CheckpointError):
    """A checkpoint file is of a newer format than this hetir reads.

    Cause: it was written by a later version. Fix: resume it with that version or a later one.
    """

    code = "HET533"
