"""Tiled matrix product, any size: tiles in shared memory, a column of results in registers."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

COLUMNS = 64
GROUP = (COLUMNS, 4)
EACH = 16  # rows a work-item
ROWS = GROUP[1] * EACH
DEPTH = 64


def fill(tile, source, top, left):
    """Copy the part of a matrix that starts at (top, left); outside of it lie zeros."""
    tx, ty = hl.local_id(0), hl.local_id(1)
    rows, columns = tile.shape
    if top + rows <= source.shape[0] and left + columns <= source.shape[1]:
        for r in range(ty, rows, GROUP[1]):
            tile[r, tx] = source[top + r, left + tx]
    else:
        for r in range(ty, rows, GROUP[1]):
            inside = top + r < source.shape[0] and left + tx < source.shape[1]
            tile[r, tx] = source[top + r, left + tx] if inside else 0.0


@hetir.kernel
def matmul(a: hl.Array[hl.f32, 2], b: hl.Array[hl.f32, 2], c: hl.Array[hl.f32, 2]):
    """A workgroup makes ROWS x COLUMNS of c, each work-item EACH rows of one column."""
    tx, ty = hl.local_id(0), hl.local_id(1)
    top, left = hl.group_id(1) * ROWS, hl.group_id(0) * COLUMNS
    tile_a = hl.shared((ROWS, DEPTH), hl.f32)
    tile_b = hl.shared((DEPTH, COLUMNS), hl.f32)
    total = hl.private(EACH, hl.f32)
    for r in hl.static_range(EACH):
        total[r] = 0.0
    for start in range(0, a.shape[1], DEPTH):
        fill(tile_a, a, top, start)
        fill(tile_b, b, start, left)
        hl.barrier()
        for k in range(DEPTH):
            factor = tile_b[k, tx]
            for r in hl.static_range(EACH):
                total[r] += tile_a[ty * EACH + r, k] * factor
        hl.barrier()
    for r in hl.static_range(EACH):
        if top + ty * EACH + r < c.shape[0] and left + tx < c.shape[1]:
            c[top + ty * EACH + r, left + tx] = total[r]


def case(rng, size=(512, 512, 512), data=None):
    """(rows, depth, columns); `data` replaces the left matrix."""
    rows, depth, columns = size
    a = (rng.random((rows, depth), np.float32) * 2 - 1) if data is None else data.astype(np.float32)
    b = rng.random((a.shape[1], columns), np.float32) * 2 - 1
    c = np.empty((a.shape[0], columns), np.float32)
    grid = (hetir.cdiv(columns, COLUMNS), hetir.cdiv(a.shape[0], ROWS))
    return Case(
        steps=(Step(matmul, (a, b, c), grid, GROUP),),
        results={"c": c},
        expected=lambda: {"c": a.astype(np.float64) @ b.astype(np.float64)},
        tolerance=1e-5,
        bytes=4 * (a.size + b.size + c.size),
        flops=2 * a.size * columns,
    )
