"""Maximum of an array: NaN anywhere gives NaN; a part a workgroup, then the parts."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step


@hetir.kernel
def reduce_max(x: hl.Array[hl.f32, 1], parts: hl.Array[hl.f32, 1]):
    largest = hl.f32(float("-inf"))
    part = hetir.cdiv(x.shape[0], hl.num_groups(0))  # a slice a workgroup, read in order
    start = hl.group_id(0) * part
    end = min(start + part, x.shape[0])
    for i in range(start + hl.local_id(0), end, hl.group_size(0)):
        largest = hl.maximum(largest, x[i])
    largest = hl.workgroup_reduce(largest, "max")
    if hl.local_id(0) == 0:
        parts[hl.group_id(0)] = largest


def case(rng, size=1 << 24, data=None):
    """`size` floats in [-1, 1); `data` replaces them."""
    x = (rng.random(size, np.float32) * 2 - 1) if data is None else data.ravel().astype(np.float32)
    parts = np.empty(512, np.float32)
    largest = np.empty(1, np.float32)
    return Case(
        steps=(
            Step(reduce_max, (x, parts), (parts.size,), (64,)),
            Step(reduce_max, (parts, largest), (1,), (64,)),
        ),
        results={"largest": largest},
        expected=lambda: {"largest": x.max(keepdims=True)},
        bytes=4 * x.size,
        flops=x.size,
    )
