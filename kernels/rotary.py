"""Rotary position embedding: rotate each pair of a row by its position times the pair's rate."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step


@hetir.kernel
def rotary(
    x: hl.Array[hl.f32, 3],
    cosine: hl.Array[hl.f32, 2],
    sine: hl.Array[hl.f32, 2],
    y: hl.Array[hl.f32, 3],
):
    """x and y are (heads, positions, 2 * pairs); cosine and sine (positions, pairs)."""
    pair, position, head = hl.global_id(0), hl.global_id(1), hl.global_id(2)
    pairs = cosine.shape[1]
    if pair < pairs and position < x.shape[1]:
        c, s = cosine[position, pair], sine[position, pair]
        a, b = x[head, position, pair], x[head, position, pair + pairs]
        y[head, position, pair] = a * c - b * s
        y[head, position, pair + pairs] = b * c + a * s


def case(rng, size=(16, 1024, 64), data=None):
    """(heads, positions, width), the width even; takes no data."""
    heads, positions, width = size
    pairs = width // 2
    angle = np.arange(positions)[:, None] * 10_000.0 ** (-np.arange(pairs) / pairs)
    cosine, sine = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    x = rng.random(size, np.float32) * 2 - 1
    y = np.empty_like(x)

    def expected():
        a, b = x[..., :pairs], x[..., pairs:]
        return {"y": np.concatenate([a * cosine - b * sine, b * cosine + a * sine], 2)}

    return Case(
        steps=(
            Step(
                rotary,
                (x, cosine, sine, y),
                (hetir.cdiv(pairs, 32), hetir.cdiv(positions, 4), heads),
                (32, 4),
            ),
        ),
        results={"y": y},
        expected=expected,
        bytes=8 * x.size + 8 * cosine.size,
        flops=3 * x.size,
        data_note="no input",
    )
