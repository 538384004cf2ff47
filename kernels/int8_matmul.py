"""Matrix product with int8 weights and one scale a column: y = (x @ w) * scale, sums in f32."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

COLUMNS = 64
GROUP = (COLUMNS, 4)
EACH = 8  # rows a work-item
ROWS = GROUP[1] * EACH
DEPTH = 64


@hetir.kernel
def int8_matmul(
    x: hl.Array[hl.f32, 2],
    weight: hl.Array[hl.i8, 2],
    scale: hl.Array[hl.f32, 1],
    y: hl.Array[hl.f32, 2],
):
    """A workgroup makes ROWS x COLUMNS of y, each work-item EACH rows of one column."""
    tx, ty = hl.local_id(0), hl.local_id(1)
    top, col = hl.group_id(1) * ROWS, hl.group_id(0) * COLUMNS + tx
    tile_x = hl.shared((ROWS, DEPTH), hl.f32)
    tile_w = hl.shared((DEPTH, COLUMNS), hl.f32)
    depth = x.shape[1]
    total = hl.private(EACH, hl.f32)
    for r in hl.static_range(EACH):
        total[r] = 0.0
    for start in range(0, depth, DEPTH):
        for r in range(ty, ROWS, GROUP[1]):
            inside = top + r < x.shape[0] and start + tx < depth
            tile_x[r, tx] = x[top + r, start + tx] if inside else 0.0
        for k in range(ty, DEPTH, GROUP[1]):
            inside = start + k < depth and col < weight.shape[1]
            tile_w[k, tx] = hl.f32(weight[start + k, col]) if inside else 0.0
        hl.barrier()
        for k in range(DEPTH):
            factor = tile_w[k, tx]
            for r in hl.static_range(EACH):
                total[r] += tile_x[ty * EACH + r, k] * factor
        hl.barrier()
    for r in hl.static_range(EACH):
        if top + ty * EACH + r < y.shape[0] and col < y.shape[1]:
            y[top + ty * EACH + r, col] = total[r] * scale[col]


def case(rng, size=(256, 512, 512), data=None):
    """(rows, depth, columns); takes no data."""
    rows, depth, columns = size
    x = rng.random((rows, depth), np.float32) * 2 - 1
    weight = rng.integers(-128, 128, (depth, columns), np.int8)
    scale = rng.random(columns, np.float32) * np.float32(0.01)
    y = np.empty((rows, columns), np.float32)
    grid = (hetir.cdiv(columns, COLUMNS), hetir.cdiv(rows, ROWS))
    return Case(
        steps=(Step(int8_matmul, (x, weight, scale, y), grid, GROUP),),
        results={"y": y},
        expected=lambda: {"y": (x.astype(np.float64) @ weight.astype(np.float64)) * scale},
        tolerance=1e-5,
        bytes=4 * x.size + weight.size + 4 * y.size,
        flops=2 * x.size * columns,
        data_note="no input",
    )
