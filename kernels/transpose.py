"""Transpose through a padded shared tile, so that reads and writes are both contiguous."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

TILE = 32
ROWS = 8


@hetir.kernel
def transpose(x: hl.Array[hl.f32, 2], y: hl.Array[hl.f32, 2]):
    tx = hl.local_id(0)
    ty = hl.local_id(1)
    tile = hl.shared((TILE, TILE + 1), hl.f32)
    col = hl.group_id(0) * TILE + tx
    top = hl.group_id(1) * TILE
    for k in range(ty, TILE, ROWS):
        if top + k < x.shape[0] and col < x.shape[1]:
            tile[k, tx] = x[top + k, col]
    hl.barrier()
    col = top + tx
    top = hl.group_id(0) * TILE
    for k in range(ty, TILE, ROWS):
        if top + k < y.shape[0] and col < y.shape[1]:
            y[top + k, col] = tile[tx, k]


def case(rng, size=(4096, 4096), data=None):
    """A matrix of `size`; `data` replaces it."""
    x = rng.random(size, np.float32) if data is None else data.astype(np.float32)
    y = np.empty(x.shape[::-1], np.float32)
    grid = (hetir.cdiv(x.shape[1], TILE), hetir.cdiv(x.shape[0], TILE))
    return Case(
        steps=(Step(transpose, (x, y), grid, (TILE, ROWS)),),
        results={"y": y},
        expected=lambda: {"y": x.T},
        bytes=8 * x.size,
        flops=0,
    )
