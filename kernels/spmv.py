"""Sparse matrix times vector, CSR: a group multiplies in memory's order, its items add up rows."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

PART = 2048  # elements at a time: all of 64 rows of up to 32
AHEAD = 4  # neighbours that a row reads at once


@hetir.kernel
def spmv(
    start: hl.Array[hl.i32, 1],
    column: hl.Array[hl.i32, 1],
    value: hl.Array[hl.f32, 1],
    x: hl.Array[hl.f32, 1],
    y: hl.Array[hl.f32, 1],
):
    """Each work-item makes one row; the elements of a group's rows go through shared memory."""
    row, lane, group = hl.global_id(0), hl.local_id(0), hl.group_size(0)
    rows = y.shape[0]
    products = hl.shared(PART + AHEAD - 1, hl.f32)
    first, stop = start[min(row, rows)], start[min(row + 1, rows)]
    top = hl.group_id(0) * group
    end = start[min(top + group, rows)]
    total = hl.f32(0)
    for part in range(start[min(top, rows)], end, PART):
        count = min(PART, end - part)
        for e in range(lane, count, group):
            products[e] = value[part + e] * x[column[part + e]]
        for e in range(count + lane, count + AHEAD - 1, group):
            products[e] = 0.0
        hl.barrier()
        low, high = min(max(first - part, 0), PART), max(min(stop - part, PART), 0)
        for k in range(low, high, AHEAD):  # both in [0, PART]: counts of 32 bits will do
            total += products[k]
            left = hl.i32(high - k)
            for n in hl.static_range(1, AHEAD):
                total += hl.where(n < left, products[k + n], 0.0)
        hl.barrier()
    if row < rows:
        y[row] = total


def case(rng, size=100_000, data=None):
    """`size` rows of 8 to 24 elements; takes no data."""
    counts = rng.integers(8, 25, size)
    start = np.zeros(size + 1, np.int32)
    np.cumsum(counts, out=start[1:])
    column = rng.integers(0, size, start[-1]).astype(np.int32)
    value = rng.random(start[-1], np.float32) * 2 - 1
    x = rng.random(size, np.float32) * 2 - 1
    y = np.empty(size, np.float32)

    def expected():
        products = value.astype(np.float64) * x[column]
        return {"y": np.add.reduceat(products, start[:-1])}

    return Case(
        steps=(Step(spmv, (start, column, value, x, y), (hetir.cdiv(size, 64),), (64,)),),
        results={"y": y},
        expected=expected,
        tolerance=1e-6,
        bytes=8 * int(start[-1]),
        flops=2 * int(start[-1]),
        data_note="no input",
    )
