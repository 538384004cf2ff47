"""Tiled matrix product through shared memory, any size."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

TILE = 16


@hetir.kernel
def matmul(a: hl.Array[hl.f32, 2], b: hl.Array[hl.f32, 2], c: hl.Array[hl.f32, 2]):
    tx = hl.local_id(0)
    ty = hl.local_id(1)
    row = hl.group_id(1) * TILE + ty
    col = hl.group_id(0) * TILE + tx
    tile_a = hl.shared((TILE, TILE), hl.f32)
    tile_b = hl.shared((TILE, TILE), hl.f32)
    depth = a.shape[1]
    total = hl.f32(0)
    for start in range(0, depth, TILE):
        inside_a = row < a.shape[0] and start + tx < depth
        tile_a[ty, tx] = a[row, start + tx] if inside_a else 0.0
        inside_b = start + ty < depth and col < b.shape[1]
        tile_b[ty, tx] = b[start + ty, col] if inside_b else 0.0
        hl.barrier()
        for k in range(TILE):
            total += tile_a[ty, k] * tile_b[k, tx]
        hl.barrier()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = total


def case(rng, size=(512, 512, 512), data=None):
    """(rows, depth, columns); `data` replaces the left matrix."""
    rows, depth, columns = size
    a = (rng.random((rows, depth), np.float32) * 2 - 1) if data is None else data.astype(np.float32)
    b = rng.random((a.shape[1], columns), np.float32) * 2 - 1
    c = np.empty((a.shape[0], columns), np.float32)
    grid = (hetir.cdiv(columns, TILE), hetir.cdiv(a.shape[0], TILE))
    return Case(
        steps=(Step(matmul, (a, b, c), grid, (TILE, TILE)),),
        results={"c": c},
        expected=lambda: {"c": a.astype(np.float64) @ b.astype(np.float64)},
        tolerance=1e-5,
        bytes=4 * (a.size + b.size + c.size),
        flops=2 * a.size * columns,
    )
