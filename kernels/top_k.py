"""The K largest values of each row, largest first; one workgroup a row, equal values once each."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

K = 8
GROUP = 64


@hetir.func
def insert(best, value):
    """Put a value into a falling list of K, dropping the smallest."""
    for k in hl.static_range(K):
        larger = hl.max(best[k], value)
        value = hl.min(best[k], value)
        best[k] = larger


@hetir.func
def merge(best, other):
    """Keep the K largest of two falling lists.

    They are the larger ones of one list's first and the other's last, and so on. In this order they
    fall and then rise, so that exchanges at K / 2, K / 4, ... sort them.
    """
    for k in hl.static_range(K):
        best[k] = hl.max(best[k], other[K - 1 - k])
    for step in hl.static_range(1, K.bit_length()):
        distance = K >> step
        for k in hl.static_range(K):
            if not k & distance:
                a, b = best[k], best[k + distance]
                best[k], best[k + distance] = hl.max(a, b), hl.min(a, b)


@hetir.kernel(grid=lambda x, y: x.shape[0], workgroup=GROUP)
def top_k(x: hl.Array[hl.f32, 2], y: hl.Array[hl.f32, 2]):
    row, lane = hl.group_id(0), hl.local_id(0)
    best, other = hl.private(K, hl.f32), hl.private(K, hl.f32)
    for k in hl.static_range(K):
        best[k] = float("-inf")
    for j in range(lane, x.shape[1], GROUP):
        insert(best, x[row, j])
    lists = hl.shared((K, GROUP), hl.f32)
    for k in hl.static_range(K):
        lists[k, lane] = best[k]
    hl.barrier()
    half = GROUP // 2
    while half > 0:
        if lane < half:
            for k in hl.static_range(K):
                other[k] = lists[k, lane + half]
            merge(best, other)
            for k in hl.static_range(K):
                lists[k, lane] = best[k]
        hl.barrier()
        half //= 2
    if lane < K:
        y[row, lane] = lists[lane, 0]


def case(rng, size=(4096, 1024), data=None):
    """A matrix of `size`; `data` replaces it. Rows shorter than K end in -inf."""
    x = rng.random(size, np.float32) if data is None else data.astype(np.float32)
    y = np.empty((x.shape[0], K), np.float32)

    def expected():
        filled = np.full((x.shape[0], max(K, x.shape[1])), -np.inf, np.float32)
        filled[:, : x.shape[1]] = x
        return {"y": -np.sort(-filled, axis=1)[:, :K]}

    return Case(
        steps=(Step(top_k, (x, y), (x.shape[0],), (GROUP,)),),
        results={"y": y},
        expected=expected,
        bytes=4 * x.size,
        flops=0,
    )
