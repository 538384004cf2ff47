"""Inclusive scan of any length: block sums, their scan, then a scan of each block from its start.

The tree is fixed, so the bits do not depend on the device.
"""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

GROUP = 256
BLOCK = 64 * GROUP


@hetir.kernel
def block_sums(x: hl.Array[hl.f32, 1], sums: hl.Array[hl.f32, 1]):
    start = hl.group_id(0) * BLOCK
    total = hl.f32(0)
    for i in range(start + hl.local_id(0), min(start + BLOCK, x.shape[0]), GROUP):
        total += x[i]
    total = hl.workgroup_reduce(total, "add")
    if hl.local_id(0) == 0:
        sums[hl.group_id(0)] = total


@hetir.kernel
def scan_from(x: hl.Array[hl.f32, 1], before: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    """Scan each block of x, from what comes before it; one block takes all of x."""
    lane = hl.local_id(0)
    blocks = hl.num_groups(0)
    start = hl.group_id(0) * BLOCK
    end = min(start + BLOCK, x.shape[0]) if blocks > 1 else x.shape[0]
    carry = before[hl.group_id(0) - 1] if hl.group_id(0) > 0 else 0.0
    last = hl.shared(1, hl.f32)
    for row in range(start, end, GROUP):
        i = row + lane
        inclusive = hl.workgroup_scan(x[i] if i < end else 0.0, "add")
        if i < end:
            y[i] = carry + inclusive
        if lane == GROUP - 1:
            last[0] = inclusive
        hl.barrier()
        carry += last[0]
        hl.barrier()


def case(rng, size=1 << 24, data=None):
    """`size` small integers as floats, so that every sum is exact; `data` replaces them."""
    x = (
        rng.integers(-4, 5, size).astype(np.float32)
        if data is None
        else data.ravel().astype(np.float32)
    )
    blocks = max(1, hetir.cdiv(x.size, BLOCK))
    sums, before = np.empty(blocks, np.float32), np.empty(blocks, np.float32)
    y = np.empty_like(x)
    return Case(
        steps=(
            Step(block_sums, (x, sums), (blocks,), (GROUP,)),
            Step(scan_from, (sums, sums, before), (1,), (GROUP,)),
            Step(scan_from, (x, before, y), (blocks,), (GROUP,)),
        ),
        results={"y": y},
        expected=lambda: {"y": np.cumsum(x, dtype=np.float64)},
        tolerance=0.0 if data is None else 1e-5,
        bytes=8 * x.size,
        flops=x.size,
    )
