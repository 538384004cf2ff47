"""Sum in one launch: whoever comes last adds up what the others have left."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

WIDTH = 64


@hetir.kernel
def by_items(x: hl.Array[hl.i32, 1], parts: hl.Array[hl.i32, 1], count: hl.Array[hl.i32, 1],
             out: hl.Array[hl.i32, 1]):  # fmt: skip
    i, items = hl.global_id(0), hl.group_size(0) * hl.num_groups(0)
    parts[i] = x[i] * 2
    if hl.atomic_add(count, 0, 1, order="acq_rel") == items - 1:
        total = 0
        for k in range(items):
            total += parts[k]
        out[0] = total


@hetir.kernel
def by_workgroups(x: hl.Array[hl.i32, 1], parts: hl.Array[hl.i32, 1], count: hl.Array[hl.i32, 1],
                  out: hl.Array[hl.i32, 1]):  # fmt: skip
    group, item = hl.group_id(0), hl.local_id(0)
    part, last = hl.shared(WIDTH, hl.i32), hl.shared(1, hl.i32)
    part[item] = x[hl.global_id(0)]
    hl.barrier()
    if item == 0:
        total = 0
        for k in range(hl.group_size(0)):
            total += part[k]
        parts[group] = total
        arrived = hl.atomic_add(count, 0, 1, order="acq_rel")
        last[0] = 1 if arrived == hl.num_groups(0) - 1 else 0
    hl.barrier()
    if last[0] == 1 and item == hl.group_size(0) - 1:
        total = 0
        for k in range(hl.num_groups(0)):
            total += parts[k]
        out[0] = total


def case(rng, size=4 * WIDTH):
    """`size` elements, a multiple of WIDTH, by both kernels."""
    x = rng.integers(0, 9, size, np.int32)
    parts, more, counts, out = (np.zeros(n, np.int32) for n in (size, size, 2, 2))
    grid = (size // WIDTH,)
    return Case(
        steps=(
            Step(by_items, (x, parts, counts[:1], out[:1]), grid, (WIDTH,)),
            Step(by_workgroups, (x, more, counts[1:], out[1:]), grid, (WIDTH,)),
        ),
        reset=lambda: counts.fill(0),
        results={"out": out},
        expected=lambda: {"out": np.array([2 * x.sum(), x.sum()], np.int32)},
        bytes=3 * x.nbytes,
        flops=3 * size,
    )


def small():
    """The launches that the certificates judge on."""
    x, parts, count, out = (np.ones(4, np.int32), *(np.zeros(n, np.int32) for n in (4, 1, 1)))
    return (
        Step(by_items, (x, parts, count, out), (2,), (1,)),
        Step(by_workgroups, (x, parts, count, out), (2,), (2,)),
    )
