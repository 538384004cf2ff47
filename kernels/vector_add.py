"""Vector addition: z = x + y."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step


@hetir.kernel(grid=lambda x, y, z: hetir.cdiv(x.size, 256), workgroup=256)
def vector_add(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1], z: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    if i < z.shape[0]:
        z[i] = x[i] + y[i]


def case(rng, size=1 << 24, data=None):
    """x and y of `size` floats; `data` replaces x."""
    x = rng.random(size, np.float32) if data is None else data.ravel().astype(np.float32)
    y = rng.random(x.size, np.float32)
    z = np.empty_like(x)
    return Case(
        steps=(Step(vector_add, (x, y, z), (hetir.cdiv(x.size, 256),), (256,)),),
        results={"z": z},
        expected=lambda: {"z": x + y},
        bytes=12 * x.size,
        flops=x.size,
    )
