"""Jacobi steps on a 2-D grid: each inner point becomes the mean of itself and its neighbours."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step


@hetir.kernel
def jacobi(a: hl.Array[hl.f32, 2], b: hl.Array[hl.f32, 2]):
    x = hl.global_id(0)
    y = hl.global_id(1)
    if 0 < x < a.shape[1] - 1 and 0 < y < a.shape[0] - 1:
        b[y, x] = 0.2 * (a[y, x] + a[y - 1, x] + a[y + 1, x] + a[y, x - 1] + a[y, x + 1])


def case(rng, size=(2048, 2048), data=None, rounds=10):
    """`rounds` steps on a grid of `size` (height, width); `data` replaces the start."""
    start = rng.random(size, np.float32) if data is None else data.astype(np.float32)
    a, b = start.copy(), start.copy()
    grid = (hetir.cdiv(start.shape[1], 64), hetir.cdiv(start.shape[0], 4))

    def reset():
        a[:] = start
        b[:] = start

    def expected():
        p, q = start.copy(), start.copy()
        fifth = np.float32(0.2)
        for _ in range(rounds):
            inner = p[1:-1, 1:-1] + p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
            q[1:-1, 1:-1] = fifth * inner
            p, q = q, p
        return {"a": p}

    steps = tuple(
        Step(jacobi, (a, b) if k % 2 == 0 else (b, a), grid, (64, 4)) for k in range(rounds)
    )
    return Case(
        steps=steps,
        reset=reset,
        results={"a": a if rounds % 2 == 0 else b},
        expected=expected,
        bytes=8 * start.size * rounds,
        flops=5 * start.size * rounds,
    )
