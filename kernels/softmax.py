"""Row softmax: one workgroup a row, numbers stay finite for any finite input."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step


@hetir.kernel(grid=lambda x, y: x.shape[0], workgroup=64)
def softmax(x: hl.Array[hl.f32, 2], y: hl.Array[hl.f32, 2]):
    row = hl.group_id(0)
    lane = hl.local_id(0)
    step = hl.group_size(0)
    largest = hl.f32(float("-inf"))
    for j in range(lane, x.shape[1], step):
        largest = hl.maximum(largest, x[row, j])
    largest = hl.workgroup_reduce(largest, "max")
    total = hl.f32(0)
    for j in range(lane, x.shape[1], step):
        e = hl.exp(x[row, j] - largest)
        y[row, j] = e
        total += e
    total = hl.workgroup_reduce(total, "add")
    for j in range(lane, x.shape[1], step):
        y[row, j] = y[row, j] / total


def reference(x):
    """The same in f64."""
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def case(rng, size=(4096, 1024), data=None):
    """A matrix of `size`, values in [-4, 4); `data` replaces it."""
    x = (rng.random(size, np.float32) * 8 - 4) if data is None else data.astype(np.float32)
    y = np.empty_like(x)
    return Case(
        steps=(Step(softmax, (x, y), (x.shape[0],), (64,)),),
        results={"y": y},
        expected=lambda: {"y": reference(x)},
        tolerance=1e-6,
        bytes=8 * x.size,
        flops=5 * x.size,
    )
