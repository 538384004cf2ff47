"""Grids of PTX kernels: the launch parameter, and grids too large for one launch in pieces."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import product

from hetir.artifact import Artifact
from hetir.runtime.driver import Dims

STATIC_SHARED_BYTES = 48 * 1024
_LAUNCH = struct.Struct("<9q2Q")


def pieces(grid: Dims, most: Dims) -> Iterator[tuple[Dims, Dims]]:
    """The first workgroup and the extents of each launch, x fastest, that together are `grid`."""
    starts = (range(0, n, limit) for n, limit in zip(reversed(grid), reversed(most), strict=True))
    for z, y, x in product(*starts):
        first = (x, y, z)
        sizes = tuple(min(n - f, m) for n, f, m in zip(grid, first, most, strict=True))
        yield first, (sizes[0], sizes[1], sizes[2])


def launch_parameter(
    grid: Dims, first: Dims, workgroup: Dims, records: int, arrivals: int = 0
) -> bytes:
    """The second parameter of an entry.

    The whole grid, where this launch starts, the addresses of the records and of the word of 0
    in which the grid barriers of a cooperative kernel count.
    """
    items = [group * size for group, size in zip(first, workgroup, strict=True)]
    return _LAUNCH.pack(*grid, *first, *items, records, arrivals)


def dynamic_shared_bytes(artifact: Artifact) -> int:
    """What the launch must give: all of the shared memory once it is more than can be static."""
    size = artifact.resources.shared_bytes
    return size if size > STATIC_SHARED_BYTES else 0
