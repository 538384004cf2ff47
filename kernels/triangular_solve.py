"""Forward substitution L x = b for many right-hand sides, one work-item a side, in place."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

GROUP = 64
EACH = 8  # rows at a time, whose sums are in registers


@hetir.func
def solve(lower, x, side, top, count):
    """Solve rows `top` to top + count, when all before are solved."""
    total = hl.private(count, hl.f32)
    for r in hl.static_range(count):
        total[r] = x[top + r, side]
    for j in range(top):
        known = x[j, side]
        for r in hl.static_range(count):
            total[r] -= lower[top + r, j] * known
    for r in hl.static_range(count):
        for j in hl.static_range(r):
            total[r] -= lower[top + r, top + j] * total[j]
        total[r] /= lower[top + r, top + r]
        x[top + r, side] = total[r]


@hetir.kernel
def triangular_solve(lower: hl.Array[hl.f32, 2], x: hl.Array[hl.f32, 2]):
    """x holds b (rows, sides) and becomes the solution; lower's diagonal is not zero."""
    side, rows = hl.global_id(0), x.shape[0]
    if side < x.shape[1]:
        for top in range(0, rows - EACH + 1, EACH):
            solve(lower, x, side, top, EACH)
        for top in range(rows - rows % EACH, rows):
            solve(lower, x, side, top, 1)


def case(rng, size=(256, 2048), data=None):
    """(rows, right-hand sides); takes no data."""
    rows, sides = size
    lower = np.tril(rng.random((rows, rows), np.float32)) / np.float32(rows)
    lower[np.diag_indices(rows)] = 1 + rng.random(rows, np.float32)
    b = rng.random(size, np.float32)
    x = b.copy()
    return Case(
        steps=(Step(triangular_solve, (lower, x), (hetir.cdiv(sides, GROUP),), (GROUP,)),),
        reset=lambda: np.copyto(x, b),
        results={"x": x},
        expected=lambda: {"x": np.linalg.solve(lower.astype(np.float64), b.astype(np.float64))},
        tolerance=1e-5,
        bytes=4 * lower.size + 8 * x.size,
        flops=rows * rows * sides,
        data_note="no input",
    )
