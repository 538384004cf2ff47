"""Pi by Monte Carlo: points of a counter-based generator (Philox 4x32-10), hits counted exactly."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

SEED = 0x123456789ABCDEF
EACH = 64  # generator calls a work-item; each gives two points


@hetir.kernel
def monte_carlo(hits: hl.Array[hl.i64, 1], items: hl.i64):
    """hits[0] gains the number of points inside the quarter circle."""
    item = hl.global_id(0)
    inside = hl.i32(0)
    if item < items:
        for k in range(EACH):
            a, b, c, d = hl.philox(SEED, item * EACH + k)
            x, y = hl.uniform(a), hl.uniform(b)
            u, v = hl.uniform(c), hl.uniform(d)
            inside += hl.where(x * x + y * y < 1.0, 1, 0) + hl.where(u * u + v * v < 1.0, 1, 0)
    total = hl.workgroup_reduce(inside, "add")
    if hl.local_id(0) == 0:
        hl.atomic_add(hits, 0, hl.i64(total))


def philox(seed, counters):
    """Philox 4x32-10 in NumPy (Salmon et al., Parallel random numbers: as easy as 1, 2, 3)."""
    mask = np.uint64(0xFFFFFFFF)
    k0, k1 = np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)
    c = [
        counters & mask,
        counters >> np.uint64(32),
        np.zeros_like(counters),
        np.zeros_like(counters),
    ]
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (p1 >> np.uint64(32)) ^ c[1] ^ k0,
            p1 & mask,
            (p0 >> np.uint64(32)) ^ c[3] ^ k1,
            p0 & mask,
        ]
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & mask, (k1 + np.uint64(0xBB67AE85)) & mask
    return c


def case(rng, size=1 << 18, data=None):
    """`size` work-items; takes no data."""
    hits = np.zeros(1, np.int64)

    def expected():
        words = philox(SEED, np.arange(size * EACH, dtype=np.uint64))
        x, y, u, v = ((w >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24) for w in words)
        inside = (x * x + y * y < 1).sum() + (u * u + v * v < 1).sum()
        return {"hits": np.array([inside])}

    return Case(
        steps=(Step(monte_carlo, (hits, size), (hetir.cdiv(size, 256),), (256,)),),
        reset=lambda: hits.fill(0),
        results={"hits": hits},
        expected=expected,
        bytes=8,
        flops=0,
        data_note="no input",
    )
