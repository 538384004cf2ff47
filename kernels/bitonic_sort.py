"""Bitonic sort of i32, any length: short distances in shared memory, long ones in global memory."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

BLOCK = 1024
ITEMS = BLOCK // 2


@hetir.func
def order(a, b, ascending):
    """The pair in the wanted order."""
    swap = (a > b) == ascending
    return hl.where(swap, b, a), hl.where(swap, a, b)


@hetir.func
def exchange_block(tile, lane, distance, ascending):
    """Compare and exchange all pairs of a block at one distance."""
    low = 2 * lane - (lane & (distance - 1))
    tile[low], tile[low + distance] = order(tile[low], tile[low + distance], ascending)


@hetir.kernel
def sort_blocks(x: hl.Array[hl.i32, 1]):
    """Sort each block of BLOCK, in turn upwards and downwards."""
    tile = hl.shared(BLOCK, hl.i32)
    lane = hl.local_id(0)
    base = hl.group_id(0) * BLOCK
    tile[lane] = x[base + lane]
    tile[lane + ITEMS] = x[base + lane + ITEMS]
    hl.barrier()
    size = 2
    while size <= BLOCK:
        distance = size // 2
        while distance > 0:
            at = base + 2 * lane - (lane & (distance - 1))
            exchange_block(tile, lane, distance, (at & size) == 0)
            hl.barrier()
            distance //= 2
        size *= 2
    x[base + lane] = tile[lane]
    x[base + lane + ITEMS] = tile[lane + ITEMS]


@hetir.kernel
def exchange_far(x: hl.Array[hl.i32, 1], size: hl.i64, distance: hl.i64):
    """One exchange over distances longer than a block."""
    i = hl.global_id(0)
    low = 2 * i - (i & (distance - 1))
    x[low], x[low + distance] = order(x[low], x[low + distance], (low & size) == 0)


@hetir.kernel
def merge_blocks(x: hl.Array[hl.i32, 1], size: hl.i64):
    """The exchanges of a merge that stay inside a block."""
    tile = hl.shared(BLOCK, hl.i32)
    lane = hl.local_id(0)
    base = hl.group_id(0) * BLOCK
    tile[lane] = x[base + lane]
    tile[lane + ITEMS] = x[base + lane + ITEMS]
    hl.barrier()
    distance = BLOCK // 2
    while distance > 0:
        exchange_block(tile, lane, distance, (base & size) == 0)
        hl.barrier()
        distance //= 2
    x[base + lane] = tile[lane]
    x[base + lane + ITEMS] = tile[lane + ITEMS]


def steps(x):
    """The launches that sort x, whose length is a power of two of at least BLOCK."""
    blocks = x.size // BLOCK
    found = [Step(sort_blocks, (x,), (blocks,), (ITEMS,))]
    size = 2 * BLOCK
    while size <= x.size:
        distance = size // 2
        while distance >= BLOCK:
            found.append(Step(exchange_far, (x, size, distance), (blocks,), (ITEMS,)))
            distance //= 2
        found.append(Step(merge_blocks, (x, size), (blocks,), (ITEMS,)))
        size *= 2
    return tuple(found)


def case(rng, size=1 << 20, data=None):
    """`size` integers, filled up with the largest one to a power of two; `data` replaces them."""
    info = np.iinfo(np.int32)
    given = (
        rng.integers(info.min, info.max, size, np.int32, endpoint=True)
        if data is None
        else data.ravel().astype(np.int32)
    )
    padded = max(BLOCK, 1 << (max(given.size, 1) - 1).bit_length())
    x = np.empty(padded, np.int32)

    def reset():
        x.fill(info.max)
        x[: given.size] = given

    reset()
    return Case(
        steps=steps(x),
        reset=reset,
        results={"x": x[: given.size]},
        expected=lambda: {"x": np.sort(given)},
        bytes=8 * given.size,
        flops=0,
    )
