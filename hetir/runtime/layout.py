"""Where the elements of a strided array lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def address_of(array: Any) -> int:
    """Where the first element of a NumPy array lies."""
    return array.__array_interface__["data"][0]


def bounds(
    address: int, shape: Sequence[int], strides: Sequence[int], item_bytes: int
) -> tuple[int, int]:
    """The first byte of an array and the byte past its last; equal when it is empty."""
    if 0 in shape:
        return address, address
    reach = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    low = sum(step for step in reach if step < 0)
    high = sum(step for step in reach if step > 0)
    return address + low, address + high + item_bytes


def overlaps_itself(shape: Sequence[int], strides: Sequence[int], item_bytes: int) -> bool:
    """Whether two indices may name one byte; some exotic layouts that do not are told to."""
    if 0 in shape:
        return False
    covered = item_bytes
    axes = [(abs(s), n) for n, s in zip(shape, strides, strict=True) if n > 1]
    for stride, extent in sorted(axes):
        if stride < covered:
            return True
        covered += stride * (extent - 1)
    return False


def contiguous_strides(shape: Sequence[int], item_bytes: int) -> tuple[int, ...]:
    """The strides of a C-contiguous array, in bytes."""
    strides: list[int] = []
    step = item_bytes
    for extent in reversed(shape):
        strides.append(step)
        step *= max(1, extent)
    return tuple(reversed(strides))
