"""Attention forward, one query row a work-item, keys and values in shared tiles, online softmax."""

import math

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

TILE = 32
DEPTH = 64


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
    query = hl.private(DEPTH, hl.f32)
    total = hl.private(DEPTH, hl.f32)
    for d in hl.static_range(DEPTH):
        query[d] = q[head, own, d] * (1.0 / math.sqrt(DEPTH))
        total[d] = 0.0
    largest = hl.f32(float("-inf"))
    weight = hl.f32(0)
    for start in range(0, rows, TILE):
        for e in range(lane, TILE * DEPTH, hl.group_size(0)):
            r, d = e // DEPTH, e % DEPTH
            inside = start + r < rows
            keys[r, d] = k[head, start + r, d] if inside else 0.0
            values[r, d] = v[head, start + r, d] if inside else 0.0
        hl.barrier()
        for r in range(min(TILE, rows - start)):
            score = hl.f32(0)
            for d in hl.static_range(DEPTH):
                score += query[d] * keys[r, d]
            higher = hl.maximum(largest, score)
            shrink = hl.exp(largest - higher)
            p = hl.exp(score - higher)
            weight = weight * shrink + p
            for d in hl.static_range(DEPTH):
                total[d] = total[d] * shrink + p * values[r, d]
            largest = higher
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
        steps=(Step(flash_attention, (q, k, v, out), (hetir.cdiv(size[1], 64), size[0]), (64,)),),
        results={"out": out},
        expected=expected,
        tolerance=1e-5,
        bytes=16 * q.size,
        flops=4 * q.size * size[1],
        data_note="no input",
    )
