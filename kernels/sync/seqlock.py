"""A sequence lock: the writer counts up before and after, readers keep what it did not disturb."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step


@hetir.kernel
def snapshot(sequence: hl.Array[hl.i32, 1], data: hl.Array[hl.i32, 1], torn: hl.Array[hl.i32, 1]):
    group = hl.group_id(0)
    if hl.local_id(0) == 0:
        if group == 0:
            hl.atomic_store(sequence, 0, 1)
            hl.fence("release", "device")
            hl.atomic_store(data, 0, 5)
            hl.atomic_store(data, 1, 5)
            hl.atomic_store(sequence, 0, 2, order="release")
        else:
            before = hl.atomic_load(sequence, 0, order="acquire")
            one, two = hl.atomic_load(data, 0), hl.atomic_load(data, 1)
            hl.fence("acquire", "device")
            after = hl.atomic_load(sequence, 0)
            if before == after and before != 1 and one != two:
                torn[group] = 1


def case(rng, size=16):
    """One writer and `size` - 1 readers."""
    sequence, data, torn = (np.zeros(n, np.int32) for n in (1, 2, size))

    def reset():
        for array in (sequence, data, torn):
            array.fill(0)

    return Case(
        steps=(Step(snapshot, (sequence, data, torn), (size,), (32,)),),
        reset=reset,
        results={"data": data, "torn": torn},
        expected=lambda: {"data": np.full(2, 5, np.int32), "torn": np.zeros(size, np.int32)},
        bytes=16 * size,
        flops=0,
    )


def small():
    """The launches that the certificates judge on."""
    words = tuple(np.zeros(n, np.int32) for n in (1, 2, 2))
    return (Step(snapshot, words, (2,), (1,)),)
