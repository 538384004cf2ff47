"""Stopping a running launch, saving it, and resuming it on any device: docs/checkpoint.md."""

from hetir.checkpoint.commit import latest
from hetir.checkpoint.errors import (
    CheckpointError,
    CheckpointTimeout,
    CheckpointVersionError,
    CorruptCheckpoint,
)
from hetir.checkpoint.launch import CheckpointLaunch, StopAt, load, resume, safe_points, start

__all__ = [
    "CheckpointError",
    "CheckpointLaunch",
    "CheckpointTimeout",
    "CheckpointVersionError",
    "CorruptCheckpoint",
    "StopAt",
    "latest",
    "load",
    "resume",
    "safe_points",
    "start",
]
