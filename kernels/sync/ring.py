"""A ring of two slots from one workgroup to another."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

SLOTS = 2


@hetir.kernel(cooperative=True)
def one_to_one(x: hl.Array[hl.i32, 1], slots: hl.Array[hl.i32, 1], head: hl.Array[hl.i32, 1],
               tail: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1]):  # fmt: skip
    if hl.local_id(0) == 0:
        if hl.group_id(0) == 0:
            for i in range(x.shape[0]):
                while i - hl.atomic_load(tail, 0, order="acquire") >= SLOTS:
                    pass
                slots[i % SLOTS] = x[i]
                hl.atomic_store(head, 0, i + 1, order="release")
        else:
            for i in range(x.shape[0]):
                while hl.atomic_load(head, 0, order="acquire") <= i:
                    pass
                y[i] = slots[i % SLOTS]
                hl.atomic_store(tail, 0, i + 1, order="release")


def case(rng, size=20):
    """`size` elements go through."""
    x = rng.integers(0, 100, size, np.int32)
    slots, head, tail, y = (np.zeros(n, np.int32) for n in (SLOTS, 1, 1, size))

    def reset():
        head.fill(0)
        tail.fill(0)

    return Case(
        steps=(Step(one_to_one, (x, slots, head, tail, y), (2,), (32,)),),
        reset=reset,
        results={"y": y},
        expected=lambda: {"y": x},
        bytes=4 * x.nbytes,
        flops=0,
    )


def small():
    """The launches that the certificates judge on."""
    x = np.array([5, 6, 7], np.int32)
    slots, head, tail, y = (np.zeros(n, np.int32) for n in (SLOTS, 1, 1, 3))
    return (Step(one_to_one, (x, slots, head, tail, y), (2,), (1,)),)
