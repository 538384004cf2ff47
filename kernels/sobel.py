"""Sobel edge strength of an image; the border repeats the nearest pixel."""

import numpy as np

import hetir
import hetir.lang as hl
from hetir.library import Case, Step


@hetir.kernel(
    grid=lambda image, edges: (hetir.cdiv(image.shape[1], 64), hetir.cdiv(image.shape[0], 4)),
    workgroup=(64, 4),
)
def sobel(image: hl.Array[hl.f32, 2], edges: hl.Array[hl.f32, 2]):
    x = hl.global_id(0)
    y = hl.global_id(1)
    height, width = image.shape
    if x >= width or y >= height:
        return
    left = max(x - 1, 0)
    right = min(x + 1, width - 1)
    up = max(y - 1, 0)
    down = min(y + 1, height - 1)
    gx = (
        (image[up, right] - image[up, left])
        + 2.0 * (image[y, right] - image[y, left])
        + (image[down, right] - image[down, left])
    )
    gy = (
        (image[down, left] - image[up, left])
        + 2.0 * (image[down, x] - image[up, x])
        + (image[down, right] - image[up, right])
    )
    edges[y, x] = hl.sqrt(gx * gx + gy * gy)


def reference(image):
    """The same operations in the same order, in NumPy."""
    p = np.pad(image, 1, mode="edge")
    h, w = image.shape
    at = {(i, j): p[i : i + h, j : j + w] for i in range(3) for j in range(3)}
    two = np.float32(2)
    gx = (at[0, 2] - at[0, 0]) + two * (at[1, 2] - at[1, 0]) + (at[2, 2] - at[2, 0])
    gy = (at[2, 0] - at[0, 0]) + two * (at[2, 1] - at[0, 1]) + (at[2, 2] - at[0, 2])
    return np.sqrt(gx * gx + gy * gy)


def case(rng, size=(2048, 2048), data=None):
    """An image of `size` (height, width), values in [0, 1); `data` replaces it."""
    image = rng.random(size, np.float32) if data is None else data.astype(np.float32)
    edges = np.empty_like(image)
    grid = (hetir.cdiv(image.shape[1], 64), hetir.cdiv(image.shape[0], 4))
    return Case(
        steps=(Step(sobel, (image, edges), grid, (64, 4)),),
        results={"edges": edges},
        expected=lambda: {"edges": reference(image)},
        bytes=8 * image.size,
        flops=15 * image.size,
    )
