"""The compilation cache: one checksummed file an entry, published by one rename.

An entry is `MAGIC, u32 key length, u64 data length, SHA-256 of key and data, key, data`.
What cannot be read, written or trusted costs a compilation, never the run.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import struct
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path

_HEAD = struct.Struct("<8sIQ32s")
_MAGIC = b"HETCACH1"
_SUFFIX = ".entry"
_LOCK_SECONDS = 300.0
_STALE_SECONDS = 3600.0
SIZE_LIMIT = 1 << 30
# pruning looks at the whole folder, so only now and then
_STORES_BETWEEN_PRUNES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file of the cache; `used` is the time of its last use, in seconds since 1970."""

    key: str
    path: Path
    size: int
    used: float


@dataclass(slots=True, kw_only=True)
class Counters:
    """What a process asked of the cache."""

    hits: int = 0
    misses: int = 0
    made: int = 0
    stored: int = 0
    damaged: int = 0
    failures: int = 0


class Cache:
    """A folder of entries. `refusal` says why it is not used, and is empty when it is."""

    def __init__(self, folder: Path, size_limit: int = SIZE_LIMIT) -> None:
        self.folder = folder
        self.size_limit = size_limit
        self.counters = Counters()
        self.refusal = ""
        self._checked = False
        self._guard = threading.Lock()
        self._making: dict[str, threading.Lock] = {}

    def load(self, key: str) -> bytes | None:
        """The data stored under `key`, or None. A damaged entry is removed."""
        if not self._usable(create=False):
            self.counters.misses += 1
            return None
        path = self._path(key)
        try:
            data = _parse(path.read_bytes(), key)
        except OSError:
            self.counters.misses += 1
            return None
        except ValueError:
            self.counters.misses += 1
            self.counters.damaged += 1
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        self.counters.hits += 1
        with contextlib.suppress(OSError):
            os.utime(path)
        return data

    def store(self, key: str, data: bytes) -> bool:
        """Publish an entry; False when the folder or the disk does not let it."""
        if not self._usable(create=True):
            return False
        name = key.encode()
        digest = hashlib.sha256(name + data).digest()
        head = _HEAD.pack(_MAGIC, len(name), len(data), digest)
        temporary = self._path(key).with_suffix(f".{os.getpid()}-{threading.get_ident()}.part")
        try:
            with temporary.open("wb") as file:
                file.write(head + name + data)
            temporary.replace(self._path(key))
        except OSError:
            self.counters.failures += 1
            with contextlib.suppress(OSError):
                temporary.unlink()
            return False
        self.counters.stored += 1
        if self.counters.stored % _STORES_BETWEEN_PRUNES == 0:
            self.prune()
        return True

    def make(self, key: str, make: Callable[[], bytes]) -> bytes:
        """The entry under `key`, made and stored by one of all who ask at the same time."""
        found = self.load(key)
        if found is not None:
            return found
        with self._one_of_this_process(key), self._one_of_all_processes(key):
            found = self.load(key)
            if found is None:
                found = make()
                self.counters.made += 1
                self.store(key, found)
            return found

    def entries(self) -> list[Entry]:
        """What is stored, the least recently used first."""
        found: list[Entry] = []
        if not self._usable(create=False):
            return found
        for path in self._files(_SUFFIX):
            with contextlib.suppress(OSError, ValueError):
                state = path.stat()
                key = _key_of(path)
                found.append(Entry(key=key, path=path, size=state.st_size, used=state.st_mtime))
        return sorted(found, key=lambda entry: entry.used)

    def prune(self, size_limit: int | None = None) -> int:
        """Remove the least recently used entries past the limit; gives how many."""
        limit = self.size_limit if size_limit is None else size_limit
        entries = self.entries()
        total, removed = sum(entry.size for entry in entries), 0
        for entry in entries:
            if total <= limit:
                break
            with contextlib.suppress(OSError):
                entry.path.unlink()
                removed += 1
            total -= entry.size
        self._remove_leftovers(_STALE_SECONDS)
        return removed

    def clear(self) -> int:
        """Remove every entry; gives how many."""
        removed = 0
        if self._usable(create=False):
            for path in self._files(_SUFFIX):
                with contextlib.suppress(OSError):
                    path.unlink()
                    removed += 1
            self._remove_leftovers(_STALE_SECONDS)
        return removed

    def _remove_leftovers(self, age_seconds: float) -> None:
        """Files of writers that were killed, and locks that nobody has touched for long."""
        for path in (*self._files(".part"), *self._files(".lock")):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > age_seconds:
                    path.unlink()

    def _files(self, suffix: str) -> list[Path]:
        try:
            return [path for path in self.folder.iterdir() if path.suffix == suffix]
        except OSError:
            return []

    def _path(self, key: str) -> Path:
        return self.folder / (hashlib.sha256(key.encode()).hexdigest()[:40] + _SUFFIX)

    def _usable(self, *, create: bool) -> bool:
        """Whether the folder is there and ours; looked at until it is found to be."""
        if self._checked:
            return not self.refusal
        try:
            if create:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.refusal = why_not(self.folder)
        except OSError as error:
            self.refusal = "" if isinstance(error, FileNotFoundError) and not create else str(error)
            self._checked = bool(self.refusal)
            return False
        self._checked = True
        return not self.refusal

    @contextlib.contextmanager
    def _one_of_this_process(self, key: str) -> Generator[None]:
        with self._guard:
            lock = self._making.setdefault(key, threading.Lock())
        with lock:
            yield
        with self._guard:
            self._making.pop(key, None)

    @contextlib.contextmanager
    def _one_of_all_processes(self, key: str) -> Generator[None]:
        """Holds the entry's lock file; without one where the folder gives none."""
        from filelock import FileLock, Timeout

        lock = FileLock(self._path(key).with_suffix(".lock"), timeout=_LOCK_SECONDS)
        held = False
        if self._usable(create=True):
            try:
                lock.acquire()
                held = True
            except (OSError, Timeout, NotImplementedError):
                self.counters.failures += 1
        try:
            yield
        finally:
            if held:
                lock.release()


def _parse(content: bytes, key: str) -> bytes:
    """The data of an entry's file; ValueError unless it is whole and of that key."""
    if len(content) < _HEAD.size:
        raise ValueError("cut short")
    magic, name_size, data_size, digest = _HEAD.unpack_from(content)
    name = key.encode()
    if magic != _MAGIC or name_size != len(name):
        raise ValueError("not an entry of this key")
    body = memoryview(content)[_HEAD.size :]
    if len(body) != name_size + data_size or bytes(body[:name_size]) != name:
        raise ValueError("not an entry of this key")
    if hashlib.sha256(body).digest() != digest:
        raise ValueError("damaged")
    return bytes(body[name_size:])


def _key_of(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            raise ValueError("cut short")
        magic, name_size, _, _ = _HEAD.unpack(head)
        if magic != _MAGIC or name_size > path.stat().st_size:
            raise ValueError("not an entry")
        return file.read(name_size).decode()


def why_not(folder: Path) -> str:
    """Why a folder cannot be trusted; empty when it can. Code is run from it."""
    state = folder.stat()
    if not stat.S_ISDIR(state.st_mode):
        return f"{folder} is not a folder"
    if state.st_uid != os.geteuid():
        return f"{folder} belongs to another user (number {state.st_uid})"
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write to {folder}; run `chmod 700` on it"
    return ""


@once
def cache() -> Cache:
    """The cache of this process: HETIR_CACHE_DIR, or the platform's folder. Writes nothing."""
    asked = os.environ.get("HETIR_CACHE_DIR")
    if asked:
        return Cache(Path(asked))
    from platformdirs import user_cache_path

    return Cache(user_cache_path("hetir") / "code")
