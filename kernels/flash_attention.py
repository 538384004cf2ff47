"""Attention forward, one query row a work-item, keys and values in shared tiles, online softmax."""

import math

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

TILE = 32
DEPTH = 64
GROUP = DEPTH  # a work-item copies a column of a tile
BLOCK = 16  # elements of a row that are in registers at a time


@hetir.func
def multiply(query, keys, scores, lane, count):
    """The scores of a tile of keys, some elements of the rows at a time."""
    for first in hl.static_range(0, DEPTH, BLOCK):
        for r in range(count):
            score = scores[r, lane] if first else hl.f32(0)
            for d in hl.static_range(first, first + BLOCK):
                score += query[d] * keys[r, d]
            scores[r, lane] = score


@hetir.func
def accumulate(total, values, scores, lane, count):
    """Add the rows of a tile of values, each times its score, some elements at a time."""
    for first in hl.static_range(0, DEPTH, BLOCK):
        for r in range(count):
            p = scores[r, lane]
            for d in hl.static_range(first, first + BLOCK):
                total[d] += p * values[r, d]


@hetir.kernel
def flash_attention(
    q: hl.Array[hl.f32, 3], k: hl.Array[hl.f32, 3], v: hl.Array[hl.f32, 3], out: hl.Array[hl.f32, 3]
):
    """q, k, v, out are (heads, rows, DEPTH)."""
    head = hl.group_id(1)
    row = hl.global_id(0)
    lane = hl.local_id(0)
    rows = k.shape[1]
    own = min(row, q.shape[1] - 1)
    keys = hl.shared((TILE, DEPTH), hl.f32)
    values = hl.shared((TILE, DEPTH), hl.f32)
    scores = hl.shared((TILE, GROUP), hl.f32)
    query = hl.private(DEPTH, hl.f32)
    total = hl.private(DEPTH, hl.f32)
    for d in hl.static_range(DEPTH):
        query[d] = q[head, own, d] * (1.0 / math.sqrt(DEPTH))
        total[d] = 0.0
    largest = hl.f32(float("-inf"))
    weight = hl.f32(0)
    for start in range(0, rows, TILE):
        count = min(TILE, rows - start)
        for r in range(count):
            keys[r, lane] = k[head, start + r, lane]
            values[r, lane] = v[head, start + r, lane]
        hl.barrier()
        multiply(query, keys, scores, lane, count)
        before = largest
        for r in range(count):
            s = scores[r, lane]
            largest = s if s > largest else largest  # noqa: FURB136 - no NaN is looked for
        shrink = hl.exp(before - largest)
        weight *= shrink
        for d in hl.static_range(DEPTH):
            total[d] *= shrink
        for r in range(count):
            p = hl.exp(scores[r, lane] - largest)
            scores[r, lane] = p
            weight += p
        accumulate(total, values, scores, lane, count)
        hl.barrier()
    if row < q.shape[1]:
        for d in hl.static_range(DEPTH):
            out[head, row, d] = total[d] / weight


def case(rng, size=(8, 512), data=None):
    """(heads, rows); takes no data."""
    q, k, v = (rng.random((*size, DEPTH), np.float32) * 2 - 1 for _ in range(3))
    out = np.empty_like(q)

    def expected():
        q64, k64, v64 = (a.astype(np.float64) for a in (q, k, v))
        s = q64 @ k64.transpose(0, 2, 1) / math.sqrt(DEPTH)
        e = np.exp(s - s.max(2, keepdims=True))
        return {"out": (e / e.sum(2, keepdims=True)) @ v64}

    return Case(
        steps=(
            Step(flash_attention, (q, k, v, out), (hetir.cdiv(size[1], GROUP), size[0]), (GROUP,)),
        ),
        results={"out": out},
        expected=expected,
        tolerance=1e-5,
        bytes=16 * q.size,
        flops=4 * q.size * size[1],
        data_note="no input",
    )
