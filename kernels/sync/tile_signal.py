"""A tile that all work-items of a workgroup write and one signals; another workgroup reads it."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step


@hetir.kernel(cooperative=True)
def hand_over(x: hl.Array[hl.i32, 1], tile: hl.Array[hl.i32, 1], flag: hl.Array[hl.i32, 1],
              y: hl.Array[hl.i32, 1]):  # fmt: skip
    item = hl.local_id(0)
    if hl.group_id(0) == 0:
        tile[item] = x[item] + 1
        hl.fence("release", "device")  # redundant: the elected work-item's store releases
        hl.barrier()
        if item == 0:
            hl.atomic_store(flag, 0, 1, order="release")
    else:
        if item == 0:
            while hl.atomic_load(flag, 0, order="acquire") == 0:
                pass
        hl.barrier()
        y[item] = tile[hl.group_size(0) - 1 - item]


def case(rng, size=64):
    """A tile of `size` elements between two workgroups."""
    x = rng.integers(0, 100, size, np.int32)
    tile, flag, y = np.zeros_like(x), np.zeros(1, np.int32), np.zeros_like(x)
    return Case(
        steps=(Step(hand_over, (x, tile, flag, y), (2,), (size,)),),
        reset=lambda: flag.fill(0),
        results={"y": y},
        expected=lambda: {"y": x[::-1] + 1},
        bytes=4 * x.nbytes,
        flops=size,
    )


def small():
    """The launches that the certificates judge on."""
    x, tile, flag, y = (np.zeros(n, np.int32) for n in (2, 2, 1, 2))
    return (Step(hand_over, (x, tile, flag, y), (2,), (2,)),)
