"""Publishing a checkpoint file whole or not at all, and finding the last whole one."""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock

from hetir.checkpoint import file
from hetir.checkpoint.errors import CheckpointError, CorruptCheckpoint

LATEST = "LATEST"
PREVIOUS = ".previous"

_reached: Callable[[str], None] = lambda _: None  # noqa: E731 - tests stop at named points


def publish(path: Path, write: Callable[[BinaryIO], int]) -> int:
    """Commit a file: written aside, synced, renamed; the one before it is kept.

    After a crash at any point the old file or the new one is there, whole. Gives the size.

    Raises:
        CheckpointError: the folder cannot be written, or there is no space; the file that was
            there is untouched.
    """
    if not path.parent.is_dir():
        raise CheckpointError(
            f"cannot write {path}: there is no folder {path.parent}", hint="make the folder first"
        )
    if path.exists() and not path.is_file():
        raise CheckpointError(
            f"cannot write {path}: it is a folder or a device, which a file would replace",
            hint="name a file",
        )
    lock = path.parent / f".{path.name}.lock"
    try:
        lock.touch()  # a lock that cannot be made would be waited for
        with FileLock(lock):
            return _publish(path, write)
    except OSError as error:
        raise CheckpointError(
            f"cannot write {path}: {error.strerror or error}",
            hint="free space or choose another folder; the launch goes on",
        ) from error


def _publish(path: Path, write: Callable[[BinaryIO], int]) -> int:
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        size = _synced(aside, write)
        if path.exists():
            keep = aside.with_suffix(".keep")
            os.link(path, keep)
            _reached("linked")
            keep.replace(path.with_name(path.name + PREVIOUS))
            _reached("kept")
        aside.replace(path)
        _reached("renamed")
    finally:
        aside.unlink(missing_ok=True)
    _sync_folder(path.parent)
    _reached("synced")
    _point(path)
    return size


def _synced(aside: Path, write: Callable[[BinaryIO], int]) -> int:
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        _reached("opened")
        size = write(out)
        out.flush()
        _reached("written")
        os.fsync(out.fileno())
        _reached("flushed")
    return size


def _point(path: Path) -> None:
    """Let LATEST name the file."""
    aside = path.with_name(f".{LATEST}.{secrets.token_hex(8)}.part")
    _synced(aside, lambda out: out.write(path.name.encode()))
    aside.replace(path.with_name(LATEST))
    _reached("pointed")
    _sync_folder(path.parent)
    _reached("done")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def latest(folder: str | Path) -> Path:
    """The last whole checkpoint of a folder; a damaged one falls back to the one before it.

    Raises:
        CheckpointError: the folder has no whole checkpoint.
    """
    place = Path(folder)
    try:
        name = (place / LATEST).read_text()
    except (OSError, UnicodeDecodeError):
        name = ""
    if not name or Path(name).name != name:
        raise CheckpointError(f"{place} has no checkpoint", hint="name the file itself")
    for path in (place / name, place / (name + PREVIOUS)):
        try:
            file.read(path)
        except (CorruptCheckpoint, OSError) as error:
            warnings.warn(f"{path.name} is passed over: {error}", stacklevel=2)
            continue
        return path
    raise CheckpointError(f"{place} has no whole checkpoint", hint="both generations are damaged")
