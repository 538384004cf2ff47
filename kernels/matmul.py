"""Tiled matrix product, any size: tiles of b in shared memory, tiles of results in registers."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

GROUP = (16, 16)
TALL, WIDE = 6, 4  # results of a work-item
ROWS = GROUP[1] * TALL
COLUMNS = GROUP[0] * WIDE
DEPTH = 128


def fill(tile, source, top, left):
    """Copy the part of a matrix that starts at (top, left); outside of it lie zeros."""
    tx, ty = hl.local_id(0), hl.local_id(1)
    rows, columns = tile.shape
    if top + rows <= source.shape[0] and left + columns <= source.shape[1]:
        for r in range(ty, rows, GROUP[1]):
            for c in hl.static_range(0, columns, GROUP[0]):
                tile[r, tx + c] = source[top + r, left + tx + c]
    else:
        for r in range(ty, rows, GROUP[1]):
            for c in hl.static_range(0, columns, GROUP[0]):
                inside = top + r < source.shape[0] and left + tx + c < source.shape[1]
                tile[r, tx + c] = source[top + r, left + tx + c] if inside else 0.0


@hetir.kernel
def matmul(a: hl.Array[hl.f32, 2], b: hl.Array[hl.f32, 2], c: hl.Array[hl.f32, 2]):
    """A workgroup makes ROWS x COLUMNS of c, each work-item TALL neighbouring rows of WIDE columns.

    The work-items of a row share the elements of a, which come from the nearest cache.
    """
    tx, ty = hl.local_id(0), hl.local_id(1)
    top = hl.group_id(1) * ROWS + ty * TALL
    left = hl.group_id(0) * COLUMNS
    tile = hl.shared((DEPTH, COLUMNS), hl.f32)
    total = hl.private((TALL, WIDE), hl.f32)
    for r in hl.static_range(TALL):
        for q in hl.static_range(WIDE):
            total[r, q] = 0.0
    for start in range(0, a.shape[1], DEPTH):
        fill(tile, b, start, left)
        hl.barrier()
        if top < a.shape[0]:
            for k in range(min(DEPTH, a.shape[1] - start)):
                for r in hl.static_range(TALL):
                    factor = a[min(top + r, a.shape[0] - 1), start + k]
                    for q in hl.static_range(WIDE):
                        total[r, q] += factor * tile[k, tx + q * GROUP[0]]
        hl.barrier()
    for r in hl.static_range(TALL):
        for q in hl.static_range(WIDE):
            column = left + tx + q * GROUP[0]
            if top + r < c.shape[0] and column < c.shape[1]:
                c[top + r, column] = total[r, q]


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
