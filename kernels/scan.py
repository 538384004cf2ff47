"""Inclusive scan of any length: block sums, their scan, then a scan of each block from its start.

The tree is fixed, so the bits do not depend on the device.
"""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

GROUP = 256
ITEM = 16  # elements a work-item
BLOCK = GROUP * ITEM


@hetir.kernel
def block_sums(x: hl.Array[hl.f32, 1], sums: hl.Array[hl.f32, 1]):
    start = hl.group_id(0) * BLOCK + hl.local_id(0) * ITEM
    total = hl.f32(0)
    for i in range(start, min(start + ITEM, x.shape[0])):
        total += x[i]
    total = hl.workgroup_reduce(total, "add")
    if hl.local_id(0) == 0:
        sums[hl.group_id(0)] = total


@hetir.kernel
def scan_sums(sums: hl.Array[hl.f32, 1]):
    """One workgroup: replace each block sum by the sum of the blocks before it."""
    lane = hl.local_id(0)
    carry = hl.f32(0)
    for start in range(0, sums.shape[0], GROUP):
        i = start + lane
        value = sums[i] if i < sums.shape[0] else 0.0
        inclusive = hl.workgroup_scan(value, "add")
        last = hl.shared(1, hl.f32)
        if i < sums.shape[0]:
            sums[i] = carry + (inclusive - value)
        if lane == GROUP - 1:
            last[0] = inclusive
        hl.barrier()
        carry += last[0]
        hl.barrier()


@hetir.kernel
def scan_blocks(x: hl.Array[hl.f32, 1], before: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    start = hl.group_id(0) * BLOCK + hl.local_id(0) * ITEM
    end = min(start + ITEM, x.shape[0])
    total = hl.f32(0)
    for i in range(start, end):
        total += x[i]
    running = before[hl.group_id(0)] + (hl.workgroup_scan(total, "add") - total)
    for i in range(start, end):
        running += x[i]
        y[i] = running


def case(rng, size=1 << 24, data=None):
    """`size` small integers as floats, so that every sum is exact; `data` replaces them."""
    x = rng.integers(-4, 5, size).astype(np.float32) if data is None else data.ravel().astype(np.float32)
    blocks = max(1, hetir.cdiv(x.size, BLOCK))
    sums = np.empty(blocks, np.float32)
    y = np.empty_like(x)
    return Case(
        steps=(
            Step(block_sums, (x, sums), (blocks,), (GROUP,)),
            Step(scan_sums, (sums,), (1,), (GROUP,)),
            Step(scan_blocks, (x, sums, y), (blocks,), (GROUP,)),
        ),
        results={"y": y},
        expected=lambda: {"y": np.cumsum(x, dtype=np.float64)},
        tolerance=0.0 if data is None else 1e-5,
        bytes=8 * x.size,
        flops=x.size,
    )
