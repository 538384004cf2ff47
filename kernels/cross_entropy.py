"""Softmax cross entropy of rows of logits against one label a row; one workgroup a row."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step


@hetir.kernel(grid=lambda logits, labels, loss: logits.shape[0], workgroup=64)
def cross_entropy(
    logits: hl.Array[hl.f32, 2], labels: hl.Array[hl.i64, 1], loss: hl.Array[hl.f32, 1]
):
    row, lane = hl.group_id(0), hl.local_id(0)
    step, width = hl.group_size(0), logits.shape[1]
    largest = hl.f32(float("-inf"))
    for j in range(lane, width, step):
        largest = hl.maximum(largest, logits[row, j])
    largest = hl.workgroup_reduce(largest, "max")
    total = hl.f32(0)
    for j in range(lane, width, step):
        total += hl.exp(logits[row, j] - largest)
    total = hl.workgroup_reduce(total, "add")
    if lane == 0:
        loss[row] = hl.log(total) + (largest - logits[row, labels[row]])


def case(rng, size=(4096, 1024), data=None):
    """Logits of `size` in [-4, 4); `data` replaces them."""
    logits = (rng.random(size, np.float32) * 8 - 4) if data is None else data.astype(np.float32)
    labels = rng.integers(0, logits.shape[1], logits.shape[0])
    loss = np.empty(logits.shape[0], np.float32)

    def expected():
        wide = logits.astype(np.float64)
        top = wide.max(1)
        picked = wide[np.arange(labels.size), labels]
        return {"loss": np.log(np.exp(wide - top[:, None]).sum(1)) + top - picked}

    return Case(
        steps=(Step(cross_entropy, (logits, labels, loss), (logits.shape[0],), (64,)),),
        results={"loss": loss},
        expected=expected,
        tolerance=1e-6,
        bytes=4 * logits.size,
        flops=4 * logits.size,
    )
