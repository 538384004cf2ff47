"""Inclusive scan of any length: block sums, their scan, then a scan of each block from its start.

The tree is fixed, so the bits do not depend on the device.
"""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

WIDTH = 32
GROUP = 4 * WIDTH
BLOCK = 256 * WIDTH


@hetir.kernel
def block_sums(x: hl.Array[hl.f32, 1], sums: hl.Array[hl.f32, 1]):
    """One workgroup a block."""
    start = hl.group_id(0) * BLOCK
    total = hl.f32(0)
    for i in range(start + hl.local_id(0), min(start + BLOCK, x.shape[0]), hl.group_size(0)):
        total += x[i]
    total = hl.workgroup_reduce(total, "add")
    if hl.local_id(0) == 0:
        sums[hl.group_id(0)] = total


@hetir.kernel(subgroup_size=WIDTH)
def scan_from(
    x: hl.Array[hl.f32, 1], before: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1], length: hl.i64
):
    """Each subgroup scans a block of `length` elements, from what comes before it."""
    lane = hl.lane_id()
    block = hl.group_id(0) * (GROUP // WIDTH) + hl.subgroup_id()
    start = block * length
    end = min(start + length, x.shape[0])
    carry = before[block - 1] if block > 0 and start < end else 0.0
    for row in range(0, length, WIDTH):  # the same for all subgroups, as SPIR-V needs it
        i = start + row + lane
        inclusive = hl.subgroup_scan(x[i] if i < end else 0.0, "add")
        if i < end:
            y[i] = carry + inclusive
        carry += hl.shuffle(inclusive, WIDTH - 1)


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
    groups = hetir.cdiv(blocks, GROUP // WIDTH)
    return Case(
        steps=(
            Step(block_sums, (x, sums), (blocks,), (64,)),
            Step(scan_from, (sums, sums, before, blocks), (1,), (GROUP,)),
            Step(scan_from, (x, before, y, BLOCK), (groups,), (GROUP,)),
        ),
        results={"y": y},
        expected=lambda: {"y": np.cumsum(x, dtype=np.float64)},
        tolerance=0.0 if data is None else 1e-5,
        bytes=8 * x.size,
        flops=x.size,
    )
