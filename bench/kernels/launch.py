"""A launch that does next to nothing: three arrays and two scalars, one workgroup."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

SIZE = 256


@hetir.kernel
def launch(
    a: hl.f32,
    x: hl.Array[hl.f32, 1],
    b: hl.f32,
    y: hl.Array[hl.f32, 1],
    z: hl.Array[hl.f32, 1],
):
    i = hl.global_id(0)
    if i < z.shape[0]:
        z[i] = a * x[i] + b * y[i]


def case(rng, size=SIZE, data=None):
    """x and y of `size` floats; `data` replaces x."""
    x = rng.random(size, np.float32) if data is None else data.ravel().astype(np.float32)
    y = rng.random(x.size, np.float32)
    z = np.empty_like(x)
    return Case(
        steps=(Step(launch, (2.0, x, 3.0, y, z), (1,), (SIZE,)),),
        results={"z": z},
        expected=lambda: {"z": np.float32(2) * x + np.float32(3) * y},
        bytes=12 * x.size,
        flops=3 * x.size,
    )
