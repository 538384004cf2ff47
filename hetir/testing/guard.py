"""Arguments in memory of their own, in which a stray write shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetir.runtime.hostmemory import host_bytes
from hetir.runtime.layout import address_of, bounds, overlaps_itself

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
ZONE = 256
"""Bytes of red zone before and after the arrays; addresses stay what they were modulo this."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Host bytes that arrays cover, those that overlap together, and their copy."""

    low: int
    high: int
    memory: Bytes
    first: int

    @property
    def inside(self) -> slice:
        """Where the copy lies in the memory."""
        return slice(self.first, self.first + self.high - self.low)


class Guarded:
    """Copies of arguments that overlap where the arguments do, between red zones.

    `arguments` are the copies, strides and alignment as they were; scalars and empty arrays are
    handed on. Bytes between the elements of a strided array count as red zone, too.
    """

    def __init__(self, arguments: Sequence[Any], writes: Sequence[bool] | None = None) -> None:
        """`writes` says which arrays may change: those that are writable, if left out."""
        arrays = [a for a in arguments if _has_bytes(a)]
        self._spans = [_copied(low, high) for low, high in _ranges(arrays)]
        self.arguments: list[Any] = [self._moved(a) if _has_bytes(a) else a for a in arguments]
        self._before = [span.memory.copy() for span in self._spans]
        may = writes if writes is not None else [bool(np.size(a)) for a in arguments]
        self._written = [
            a
            for a, w in zip(self.arguments, may, strict=True)
            if w and _has_bytes(a) and a.flags.writeable
        ]

    @property
    def memories(self) -> list[Bytes]:
        """The memory that the copies lie in."""
        return [span.memory for span in self._spans]

    @property
    def places(self) -> list[tuple[int, int] | None]:
        """Of each copy the number of its memory and its offset there; None for the others."""
        return [self._place(a) if _has_bytes(a) else None for a in self.arguments]

    def hand_back(self, arguments: Sequence[Any]) -> None:
        """Copy the contents of those that may change to arrays of the same shapes."""
        for ours, theirs in zip(self.arguments, arguments, strict=True):
            if _has_bytes(ours) and theirs.flags.writeable:
                theirs[...] = ours

    def stray(self) -> list[str]:
        """Where bytes changed that belong to no element of an array that may change."""
        found: list[str] = []
        for span, before in zip(self._spans, self._before, strict=True):
            wrong = span.memory != before
            for array in self._written:
                start = address_of(array) - address_of(span.memory)
                if 0 <= start < len(wrong):
                    _bytes_of(array, wrong, start)[...] = False
            places = np.flatnonzero(wrong)
            if len(places):
                at = int(places[0])
                found.append(
                    f"{len(places)} bytes outside the arrays were written, the first at "
                    f"{at - span.first} of {span.high - span.low}: "
                    f"{before[at]:#04x} became {span.memory[at]:#04x}"
                )
        return found

    def _place(self, array: Any) -> tuple[int, int]:
        at = address_of(array)
        starts = [at - address_of(span.memory) for span in self._spans]
        number = next(
            n for n, start in enumerate(starts) if 0 <= start < len(self._spans[n].memory)
        )
        return number, starts[number]

    def _moved(self, array: Any) -> Any:
        low, high = _bounds(array)
        span = next(s for s in self._spans if s.low <= low and high <= s.high)
        start = span.first + address_of(array) - span.low
        moved = np.ndarray(array.shape, array.dtype, span.memory, start, array.strides)
        moved.flags.writeable = array.flags.writeable
        return moved


def _has_bytes(argument: Any) -> bool:
    return isinstance(argument, np.ndarray) and bool(argument.size)


def _bounds(array: Any) -> tuple[int, int]:
    return bounds(address_of(array), array.shape, array.strides, array.itemsize)


def _ranges(arrays: Sequence[Any]) -> list[tuple[int, int]]:
    """The ranges that arrays cover, those that overlap made one."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(map(_bounds, arrays)):
        if found and low < found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


def _copied(low: int, high: int) -> _Span:
    size = high - low
    room = np.resize(np.arange(1, 252, dtype=np.uint8), size + 4 * ZONE)
    first = ZONE + (low - address_of(room)) % ZONE
    span = _Span(low, high, room[: first + size + ZONE], first)
    span.memory[span.inside] = host_bytes(low, size)
    return span


def _bytes_of(array: Any, mask: Bytes, start: int) -> Any:
    """The places of an array's elements in a mask of bytes, an axis for an element's bytes."""
    shape, strides = (*array.shape, array.itemsize), (*array.strides, 1)
    assert not overlaps_itself(shape, strides, 1)
    return np.ndarray(shape, np.bool_, mask, start, strides)
