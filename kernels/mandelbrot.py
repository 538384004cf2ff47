"""Mandelbrot: iterations until |z| > 2, a divergent loop with break."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step


@hetir.kernel
def mandelbrot(counts: hl.Array[hl.i32, 2], limit: hl.i32):
    px = hl.global_id(0)
    py = hl.global_id(1)
    if px >= counts.shape[1] or py >= counts.shape[0]:
        return
    cx = hl.f32(px) * (hl.f32(3) / hl.f32(counts.shape[1])) - 2.0
    cy = hl.f32(py) * (hl.f32(3) / hl.f32(counts.shape[0])) - 1.5
    zx = hl.f32(0)
    zy = hl.f32(0)
    n = 0
    while n < limit:
        x2 = zx * zx
        y2 = zy * zy
        if x2 + y2 > 4.0:
            break
        zy = 2.0 * zx * zy + cy
        zx = x2 - y2 + cx
        n += 1
    counts[py, px] = n


def reference(height, width, limit):
    """The same operations in the same order, in NumPy."""
    f = np.float32
    cx = (np.arange(width, dtype=f) * (f(3) / f(width)) - f(2))[None, :]
    cy = (np.arange(height, dtype=f) * (f(3) / f(height)) - f(1.5))[:, None]
    zx = np.zeros((height, width), f)
    zy = np.zeros((height, width), f)
    counts = np.zeros((height, width), np.int32)
    live = np.ones((height, width), bool)
    with np.errstate(all="ignore"):
        for _ in range(limit):
            x2, y2 = zx * zx, zy * zy
            live &= ~(x2 + y2 > 4)
            counts += live
            zx, zy = x2 - y2 + cx, f(2) * zx * zy + cy
    return counts


def case(rng, size=(1024, 1024), data=None):
    """An image of `size` (height, width); takes no data."""
    counts = np.empty(size, np.int32)
    grid = (hetir.cdiv(size[1], 64), hetir.cdiv(size[0], 4))
    return Case(
        steps=(Step(mandelbrot, (counts, 256), grid, (64, 4)),),
        results={"counts": counts},
        expected=lambda: {"counts": reference(*size, 256)},
        bytes=4 * counts.size,
        flops=0,
        data_note="no input",
    )
