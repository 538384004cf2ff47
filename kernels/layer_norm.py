"""Layer norm over rows: one workgroup a row, mean and variance in two passes."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

EPSILON = 1e-5


@hetir.kernel(grid=lambda x, weight, bias, y: x.shape[0], workgroup=64)
def layer_norm(
    x: hl.Array[hl.f32, 2],
    weight: hl.Array[hl.f32, 1],
    bias: hl.Array[hl.f32, 1],
    y: hl.Array[hl.f32, 2],
):
    row = hl.group_id(0)
    lane = hl.local_id(0)
    step = hl.group_size(0)
    width = x.shape[1]
    total = hl.f32(0)
    for j in range(lane, width, step):
        total += x[row, j]
    mean = hl.workgroup_reduce(total, "add") / hl.f32(width)
    square = hl.f32(0)
    for j in range(lane, width, step):
        centred = x[row, j] - mean
        square += centred * centred
    variance = hl.workgroup_reduce(square, "add") / hl.f32(width)
    scale = 1.0 / hl.sqrt(variance + EPSILON)
    for j in range(lane, width, step):
        y[row, j] = (x[row, j] - mean) * scale * weight[j] + bias[j]


def case(rng, size=(4096, 1024), data=None):
    """A matrix of `size`, values in [-2, 3); `data` replaces it."""
    x = (rng.random(size, np.float32) * 5 - 2) if data is None else data.astype(np.float32)
    weight = rng.random(x.shape[1], np.float32) + np.float32(0.5)
    bias = rng.random(x.shape[1], np.float32) * 2 - 1
    y = np.empty_like(x)

    def expected():
        wide = x.astype(np.float64)
        centred = wide - wide.mean(1, keepdims=True)
        scale = 1 / np.sqrt((centred**2).mean(1, keepdims=True) + EPSILON)
        return {"y": centred * scale * weight + bias}

    return Case(
        steps=(Step(layer_norm, (x, weight, bias, y), (x.shape[0],), (64,)),),
        results={"y": y},
        expected=expected,
        tolerance=1e-5,
        bytes=8 * x.size,
        flops=8 * x.size,
    )
