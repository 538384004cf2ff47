"""Histogram of bytes: counts in shared memory, then one global atomic a bin and workgroup.

Neighbours count in tables of their own, so that equal ones do not wait for each other.
"""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

BINS = 256
TABLES = 4


@hetir.kernel(grid=64, workgroup=64)
def histogram(x: hl.Array[hl.u8, 1], counts: hl.Array[hl.i32, 1]):
    lane = hl.local_id(0)
    local = hl.shared((TABLES, BINS), hl.i32)
    for b in range(lane, BINS, hl.group_size(0)):
        for table in hl.static_range(TABLES):
            local[table, b] = 0
    hl.barrier()
    part = hetir.cdiv(x.shape[0], hl.num_groups(0))  # a slice a workgroup, read in order
    start = hl.group_id(0) * part
    for i in range(start + lane, min(start + part, x.shape[0]), hl.group_size(0)):
        hl.atomic_add(local, (lane % TABLES, x[i]), 1, scope="workgroup")
    hl.barrier()
    for b in range(lane, BINS, hl.group_size(0)):
        total = local[0, b]
        for table in hl.static_range(1, TABLES):
            total += local[table, b]
        hl.atomic_add(counts, b, total)


def case(rng, size=1 << 24, data=None):
    """`size` bytes; `data` replaces them."""
    x = rng.integers(0, 256, size, np.uint8) if data is None else data.ravel().astype(np.uint8)
    counts = np.zeros(BINS, np.int32)
    return Case(
        steps=(Step(histogram, (x, counts), (64,), (64,)),),
        reset=lambda: counts.fill(0),
        results={"counts": counts},
        expected=lambda: {"counts": np.bincount(x, minlength=BINS)},
        bytes=x.size,
        flops=0,
    )
