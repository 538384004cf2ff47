"""A barrier of all workgroups, by hand: an arrival each, between two workgroup barriers."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step


@hetir.kernel(cooperative=True)
def turned(x: hl.Array[hl.i32, 1], between: hl.Array[hl.i32, 1], count: hl.Array[hl.i32, 1],
           y: hl.Array[hl.i32, 1]):  # fmt: skip
    i = hl.global_id(0)
    between[i] = x[i] + 1
    hl.barrier()
    if hl.local_id(0) == 0:
        hl.atomic_add(count, 0, 1, order="release")
        while hl.atomic_load(count, 0, order="acquire") < hl.num_groups(0):
            pass
    hl.barrier()
    y[i] = between[between.shape[0] - 1 - i]


def case(rng, size=256):
    """`size` elements, a multiple of 64."""
    x = rng.integers(0, 100, size, np.int32)
    between, count, y = (np.zeros(n, np.int32) for n in (size, 1, size))
    return Case(
        steps=(Step(turned, (x, between, count, y), (size // 64,), (64,)),),
        reset=lambda: count.fill(0),
        results={"y": y},
        expected=lambda: {"y": x[::-1] + 1},
        bytes=4 * x.nbytes,
        flops=size,
    )


def small():
    """The launches that the certificates judge on."""
    x, between, count, y = (np.zeros(n, np.int32) for n in (4, 4, 1, 4))
    return (Step(turned, (x, between, count, y), (2,), (2,)),)
