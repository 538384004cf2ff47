"""Bitonic sort of i32, any length: each work-item holds 16 numbers, exchanged in registers.

An index inside a block is three digits of base 16. The numbers of a work-item differ in one of
them, which are exchanges at four distances; shared memory takes a block from one digit to the next.
Where a part is to fall its numbers are held inverted, so that all exchanges put the less one first.
"""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

EACH = 16
GROUP = EACH**2
BLOCK = EACH**3
FAR = 8  # numbers a work-item in global memory: 16 lines whole powers apart share a cache's places


@hetir.func
def merge(v, count, distance):
    """Exchange at a distance, at half of it, and so on down to 1."""
    for step in hl.static_range(distance.bit_length()):
        for j in hl.static_range(count):
            k = j + (distance >> step)
            if not j & (distance >> step):
                v[j], v[k] = hl.min(v[j], v[k]), hl.max(v[j], v[k])


@hetir.func
def invert(v, bits):
    """Invert the numbers in whose digit an odd number of `bits` is set."""
    for j in hl.static_range(EACH):
        if (j & bits).bit_count() % 2:
            v[j] = ~v[j]


@hetir.func
def invert_all(v, odd):
    """Invert a work-item's numbers, or not."""
    mask = hl.i32(-1) if odd else hl.i32(0)
    for j in hl.static_range(EACH):
        v[j] = v[j] ^ mask


@hetir.func
def climb(v, bit, odd):
    """Begin to merge parts of 1 << bit - 1 of this digit, which are half of those to come.

    `odd` is the lowest bit of the next digit.
    """
    invert(v, 3 << (bit - 1))
    if bit == 4:
        invert_all(v, odd)
    merge(v, EACH, 1 << (bit - 1))


@hetir.func
def first(step):
    """The least index of a work-item's numbers, which are `step` apart."""
    low = hl.local_id(0) & (step - 1)
    return EACH * (hl.local_id(0) - low) + low


@hetir.func
def read(v, a, base, step):
    """Take the work-item's numbers, `step` apart."""
    at = base + first(step)
    for j in hl.static_range(EACH):
        v[j] = a[at + j * step]


@hetir.func
def write(v, a, base, step):
    """Put them where `read` takes them."""
    at = base + first(step)
    for j in hl.static_range(EACH):
        a[at + j * step] = v[j]


@hetir.func
def write_tile(v, tile, step):
    write(v, tile, 0, step)
    hl.barrier()


@hetir.func
def finish(v, tile):
    """The exchanges of a merge over the middle and low digit, after those over the high one."""
    write_tile(v, tile, 256)
    read(v, tile, 0, 16)
    merge(v, EACH, 8)
    write_tile(v, tile, 16)
    read(v, tile, 0, 1)
    merge(v, EACH, 8)


@hetir.kernel
def sort_blocks(x: hl.Array[hl.i32, 1]):
    """Sort each block of BLOCK, every second one downwards and inverted.

    What is where at first does not matter, so the digits of steps 16, 256 and 1 count as the low,
    middle and high one until the first merge over the high one, which reads them in that order.
    """
    tile = hl.shared(BLOCK, hl.i32)
    v = hl.private(EACH, hl.i32)
    base, item = hl.group_id(0) * BLOCK, hl.local_id(0)
    read(v, x, base, 16)
    invert(v, 1)
    for bit in hl.static_range(1, 5):
        climb(v, bit, item & 16)
    write_tile(v, tile, 16)
    for bit in hl.static_range(1, 5):
        read(v, tile, 0, 256)
        climb(v, bit, item & 1)
        write_tile(v, tile, 256)
        read(v, tile, 0, 16)
        merge(v, EACH, 8)
        write_tile(v, tile, 16)
    read(v, tile, 0, 1)
    hl.barrier()
    for bit in hl.static_range(1, 5):
        if bit > 1:
            read(v, tile, 0, 256)
        climb(v, bit, base & BLOCK)
        finish(v, tile)
        if bit < 4:
            write_tile(v, tile, 1)
    write(v, x, base, 1)


@hetir.kernel
def exchange_far(x: hl.Array[hl.i32, 1], size: hl.i64, distance: hl.i64, count: hl.static):
    """The exchanges at `distance` and the log2(count) - 1 powers of two above it.

    Before a merge to parts of `size` every second half of them is inverted, and from then on every
    second part: the first exchange of the merge makes it so, and the others have a size of 0.
    """
    base = hl.group_id(1) * count * distance
    at = base + hl.global_id(0)
    v = hl.private(count, hl.i32)
    lower = hl.where((base & size) != 0, hl.i32(-1), hl.i32(0))
    upper = ~lower if size else lower
    for j in hl.static_range(count):
        v[j] = x[at + j * distance] ^ (lower if j < count // 2 else upper)
    merge(v, count, count // 2)
    for j in hl.static_range(count):
        x[at + j * distance] = v[j]


@hetir.kernel
def merge_blocks(x: hl.Array[hl.i32, 1]):
    """The exchanges of a merge that stay inside a block."""
    tile = hl.shared(BLOCK, hl.i32)
    v = hl.private(EACH, hl.i32)
    base = hl.group_id(0) * BLOCK
    read(v, x, base, 256)
    merge(v, EACH, 8)
    finish(v, tile)
    write(v, x, base, 1)


def steps(x):
    """The launches that sort x, whose length is a power of two of at least BLOCK.

    Raises ValueError for any other.
    """
    if x.size < BLOCK or x.size & (x.size - 1):
        hint = "fill it up with the largest number"
        raise ValueError(f"{x.size} numbers: must be a power of two, at least {BLOCK}; {hint}")
    blocks = x.size // BLOCK
    found = [Step(sort_blocks, (x,), (blocks,), (GROUP,))]
    size = 2 * BLOCK
    while size <= x.size:
        distance, first = size, size
        while distance > BLOCK:
            count = min(FAR, distance // BLOCK)
            distance //= count
            grid = (distance // GROUP, x.size // (count * distance))
            found.append(Step(exchange_far, (x, first, distance, count), grid, (GROUP, 1)))
            first = 0
        found.append(Step(merge_blocks, (x,), (blocks,), (GROUP,)))
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
    x = np.full(padded, info.max, np.int32)

    def reset():
        x[: given.size] = given
        x[given.size :] = info.max

    reset()
    return Case(
        steps=steps(x),
        reset=reset,
        results={"x": x[: given.size]},
        expected=lambda: {"x": np.sort(given)},
        bytes=8 * given.size,
        flops=0,
    )
