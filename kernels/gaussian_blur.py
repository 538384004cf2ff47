"""Gaussian blur of radius 3 in two passes, rows then columns; the border repeats the last pixel."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step

RADIUS = 3
WEIGHTS = tuple(float(w) for w in np.array([1, 6, 15, 20, 15, 6, 1], np.float32) / np.float32(64))


@hetir.kernel
def blur_rows(image: hl.Array[hl.f32, 2], out: hl.Array[hl.f32, 2]):
    x, y = hl.global_id(0), hl.global_id(1)
    if x < image.shape[1] and y < image.shape[0]:
        total = hl.f32(0)
        for k in hl.static_range(2 * RADIUS + 1):
            total += WEIGHTS[k] * image[y, hl.clamp(x + k - RADIUS, 0, image.shape[1] - 1)]
        out[y, x] = total


@hetir.kernel
def blur_columns(image: hl.Array[hl.f32, 2], out: hl.Array[hl.f32, 2]):
    x, y = hl.global_id(0), hl.global_id(1)
    if x < image.shape[1] and y < image.shape[0]:
        total = hl.f32(0)
        for k in hl.static_range(2 * RADIUS + 1):
            total += WEIGHTS[k] * image[hl.clamp(y + k - RADIUS, 0, image.shape[0] - 1), x]
        out[y, x] = total


def blur(image, axis):
    """One pass in NumPy, the same operations in the same order."""
    padding = [(0, 0), (0, 0)]
    padding[axis] = (RADIUS, RADIUS)
    padded = np.pad(image, padding, mode="edge")
    total = np.zeros_like(image)
    for k, w in enumerate(WEIGHTS):
        total += np.float32(w) * np.take(padded, range(k, k + image.shape[axis]), axis)
    return total


def case(rng, size=(2048, 2048), data=None):
    """An image of `size` (height, width), values in [0, 1); `data` replaces it."""
    image = rng.random(size, np.float32) if data is None else data.astype(np.float32)
    between, out = np.empty_like(image), np.empty_like(image)
    grid = (hetir.cdiv(image.shape[1], 64), hetir.cdiv(image.shape[0], 4))
    return Case(
        steps=(
            Step(blur_rows, (image, between), grid, (64, 4)),
            Step(blur_columns, (between, out), grid, (64, 4)),
        ),
        results={"out": out},
        expected=lambda: {"out": blur(blur(image, 1), 0)},
        bytes=16 * image.size,
        flops=28 * image.size,
    )
