"""Sum: each workgroup reduces a slice through shared memory, one workgroup sums the parts.

The tree is fixed, so the bits do not depend on the device.
"""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

GROUP = 64


@hetir.kernel
def sum_parts(x: hl.Array[hl.f32, 1], parts: hl.Array[hl.f32, 1]):
    lane = hl.local_id(0)
    shared = hl.shared(GROUP, hl.f32)
    total = hl.f32(0)
    part = hetir.cdiv(x.shape[0], hl.num_groups(0))  # a slice a workgroup, read in order
    start = hl.group_id(0) * part
    for i in range(start + lane, min(start + part, x.shape[0]), GROUP):
        total += x[i]
    shared[lane] = total
    hl.barrier()
    width = GROUP // 2
    while width > 0:
        if lane < width:
            shared[lane] += shared[lane + width]
        hl.barrier()
        width //= 2
    if lane == 0:
        parts[hl.group_id(0)] = shared[0]


def case(rng, size=1 << 24, data=None):
    """`size` floats; `data` replaces them."""
    x = rng.random(size, np.float32) if data is None else data.ravel().astype(np.float32)
    parts = np.empty(512, np.float32)
    total = np.empty(1, np.float32)
    return Case(
        steps=(
            Step(sum_parts, (x, parts), (parts.size,), (GROUP,)),
            Step(sum_parts, (parts, total), (1,), (GROUP,)),
        ),
        results={"total": total},
        expected=lambda: {"total": np.array([x.sum(dtype=np.float64)])},
        tolerance=1e-6,
        bytes=4 * x.size,
        flops=x.size,
    )
