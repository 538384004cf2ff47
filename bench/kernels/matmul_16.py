"""The matrix product of bench/native/kernels.cu, one result a work-item, in Python."""

import hetir
import hetir.lang as hl

TILE = 16


@hetir.kernel
def matmul(a: hl.Array[hl.f32, 2], b: hl.Array[hl.f32, 2], c: hl.Array[hl.f32, 2]):
    """c = a @ b through two tiles of shared memory, for any size."""
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
