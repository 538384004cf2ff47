"""Matrix product with int8 weights and one scale a column: y = (x @ w) * scale, sums in f32."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

TILE = 16


@hetir.kernel
def int8_matmul(
    x: hl.Array[hl.f32, 2],
    weight: hl.Array[hl.i8, 2],
    scale: hl.Array[hl.f32, 1],
    y: hl.Array[hl.f32, 2],
):
    tx, ty = hl.local_id(0), hl.local_id(1)
    row, col = hl.group_id(1) * TILE + ty, hl.group_id(0) * TILE + tx
    tile_x = hl.shared((TILE, TILE), hl.f32)
    tile_w = hl.shared((TILE, TILE), hl.f32)
    depth = x.shape[1]
    total = hl.f32(0)
    for start in range(0, depth, TILE):
        tile_x[ty, tx] = x[row, start + tx] if row < x.shape[0] and start + tx < depth else 0.0
        inside = start + ty < depth and col < weight.shape[1]
        tile_w[ty, tx] = hl.f32(weight[start + ty, col]) if inside else 0.0
        hl.barrier()
        for k in range(TILE):
            total += tile_x[ty, k] * tile_w[k, tx]
        hl.barrier()
    if row < y.shape[0] and col < y.shape[1]:
        y[row, col] = total * scale[col]


def case(rng, size=(256, 512, 512), data=None):
    """(rows, depth, columns); takes no data."""
    rows, depth, columns = size
    x = rng.random((rows, depth), np.float32) * 2 - 1
    weight = rng.integers(-128, 128, (depth, columns), np.int8)
    scale = rng.random(columns, np.float32) * np.float32(0.01)
    y = np.empty((rows, columns), np.float32)
    grid = (hetir.cdiv(columns, TILE), hetir.cdiv(rows, TILE))
    return Case(
        steps=(Step(int8_matmul, (x, weight, scale, y), grid, (TILE, TILE)),),
        results={"y": y},
        expected=lambda: {"y": (x.astype(np.float64) @ weight.astype(np.float64)) * scale},
        tolerance=1e-5,
        bytes=4 * x.size + weight.size + 4 * y.size,
        flops=2 * x.size * columns,
        data_note="no input",
    )
