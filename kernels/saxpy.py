"""saxpy: y = a * x + y, without contraction: the product is rounded before the sum."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step


@hetir.kernel(grid=lambda a, x, y: hetir.cdiv(x.size, 256), workgroup=256)
def saxpy(a: hl.f32, x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


def case(rng, size=1 << 24, data=None):
    """x and y of `size` floats; `data` replaces x."""
    x = rng.random(size, np.float32) if data is None else data.ravel().astype(np.float32)
    y = rng.random(x.size, np.float32)
    start = y.copy()
    return Case(
        steps=(Step(saxpy, (1.5, x, y), (hetir.cdiv(x.size, 256),), (256,)),),
        reset=lambda: np.copyto(y, start),
        results={"y": y},
        expected=lambda: {"y": np.float32(1.5) * x + start},
        bytes=12 * x.size,
        flops=2 * x.size,
    )
