"""Readers of files under mutated inputs: each refuses them, in time and in little memory."""

from __future__ import annotations

import json
import random
import signal
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

SECONDS_EACH = 5.0
SPARE_BYTES = 1 << 20
"""Beside ten times the file: what Python itself takes for errors, caches and small objects."""
_EXTREMES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 63) - 1)


class Hung(BaseException):
    """A reader took longer than it may."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader of bytes, what it may raise, and whole files to begin with.

    `repair` gives a mutated file its checksums back, so that what lies behind them is reached.
    """

    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    files: tuple[bytes, ...]
    repair: Callable[[bytes], bytes] = bytes


def mutated(draw: random.Random, files: tuple[bytes, ...]) -> bytes:
    """One of the files with one to four changes."""
    data = bytearray(draw.choice(files))
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        at = draw.randrange(len(data)) if data else 0
        match draw.randrange(8):
            case 0:
                data[at : at + 1] = bytes([draw.randrange(256)])
            case 1:
                data[at : at + 1] = bytes([data[at] ^ 1 << draw.randrange(8)]) if data else b""
            case 2:
                del data[at:]
            case 3:
                del data[at : at + draw.randrange(1, 9)]
            case 4:
                data[at:at] = draw.randbytes(draw.randrange(1, 9))
            case 5:
                code = draw.choice("<BHIQ"[1:])
                value = draw.choice(_EXTREMES) % (1 << 8 * struct.calcsize(code))
                data[at : at + struct.calcsize(code)] = struct.pack(f"<{code}", value)
            case 6:
                low, size = draw.randrange(len(data) + 1), draw.randrange(1, 65)
                data[at:at] = data[low : low + size]
            case _:
                other = draw.choice(files)
                low = draw.randrange(len(other))
                data[at : at + 16] = other[low : low + 16]
    return bytes(data)


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise Hung(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def attack(reader: Reader, count: int, seed: int = 0) -> dict[str, int]:
    """Read so many mutated files; gives how many were read and refused, and the peak of memory.

    Raises what a reader raised that it may not, with the file in a note.
    """
    draw = random.Random(seed)
    found = {"read": 0, "refused": 0, "peak": 0}
    for file in reader.files:
        reader.read(file)
    tracemalloc.start()
    try:
        for number in range(count):
            data = mutated(draw, reader.files)
            if number % 2:
                data = reader.repair(data)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            try:
                with _limit(SECONDS_EACH):
                    reader.read(data)
                found["read"] += 1
            except reader.refusals:
                found["refused"] += 1
            except BaseException as error:
                error.add_note(f"file {number} of seed {seed}: {data!r}")
                raise
            peak = tracemalloc.get_traced_memory()[1] - before
            found["peak"] = max(found["peak"], peak)
            assert peak <= 10 * len(data) + SPARE_BYTES, f"{peak} bytes for {data!r}"
    finally:
        tracemalloc.stop()
    return found


def json_of(data: bytes) -> dict[str, object] | None:
    """The object that JSON text holds, or None."""
    try:
        made = json.loads(data)
    except ValueError:
        return None
    return made if isinstance(made, dict) else None
