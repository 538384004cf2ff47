"""Three parties: a neighbour hands on, at device scope, what it got at workgroup scope."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step


@hetir.kernel(cooperative=True)
def handed_on(data: hl.Array[hl.i32, 1], near: hl.Array[hl.i32, 1], far: hl.Array[hl.i32, 1],
              out: hl.Array[hl.i32, 1]):  # fmt: skip
    group, item = hl.group_id(0), hl.local_id(0)
    if group == 0 and item == 0:
        data[0] = 5
        hl.atomic_store(near, 0, 1, order="release", scope="workgroup")
    elif group == 0 and item == 1:
        while hl.atomic_load(near, 0, order="acquire", scope="workgroup") == 0:
            pass
        hl.atomic_store(far, 0, 1, order="release", scope="device")
    elif group == 1 and item == 0:
        while hl.atomic_load(far, 0, order="acquire", scope="device") == 0:
            pass
        out[0] = data[0]


def case(rng, size=2):
    """Two workgroups of `size` * 32."""
    data, near, far, out = (np.zeros(1, np.int32) for _ in range(4))

    def reset():
        near.fill(0)
        far.fill(0)

    return Case(
        steps=(Step(handed_on, (data, near, far, out), (2,), (32 * size,)),),
        reset=reset,
        results={"out": out},
        expected=lambda: {"out": np.array([5], np.int32)},
        bytes=16,
        flops=0,
    )


def small():
    """The launches that the certificates judge on."""
    words = tuple(np.zeros(1, np.int32) for _ in range(4))
    return (Step(handed_on, words, (2,), (2,)),)
