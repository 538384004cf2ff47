"""Forward substitution L x = b for many right-hand sides, one work-item a side, in place."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step


@hetir.kernel
def triangular_solve(lower: hl.Array[hl.f32, 2], x: hl.Array[hl.f32, 2]):
    """x holds b (rows, sides) and becomes the solution; lower's diagonal is not zero."""
    side = hl.global_id(0)
    if side < x.shape[1]:
        for i in range(x.shape[0]):
            total = x[i, side]
            for j in range(i):
                total -= lower[i, j] * x[j, side]
            x[i, side] = total / lower[i, i]


def case(rng, size=(256, 2048), data=None):
    """(rows, right-hand sides); takes no data."""
    rows, sides = size
    lower = np.tril(rng.random((rows, rows), np.float32)) / np.float32(rows)
    lower[np.diag_indices(rows)] = 1 + rng.random(rows, np.float32)
    b = rng.random(size, np.float32)
    x = b.copy()
    return Case(
        steps=(Step(triangular_solve, (lower, x), (hetir.cdiv(sides, 64),), (64,)),),
        reset=lambda: np.copyto(x, b),
        results={"x": x},
        expected=lambda: {"x": np.linalg.solve(lower.astype(np.float64), b.astype(np.float64))},
        tolerance=1e-5,
        bytes=4 * lower.size + 8 * x.size,
        flops=rows * rows * sides,
        data_note="no input",
    )
