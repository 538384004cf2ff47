"""A new process up to its first softmax result; prints the clock at its stages as JSON."""

import time

clock = {"started": time.monotonic()}

import json  # noqa: E402
import sys  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

clock["numpy"] = time.monotonic()
x = np.linspace(-4, 4, 8 * 1024, dtype=np.float32).reshape(8, 1024)
y = np.empty_like(x)


def with_hetir() -> None:
    """The library's kernel, through the public names."""
    from hetir import library

    softmax = library.load(library.folder() / "softmax.py").softmax
    clock["imported"] = time.monotonic()
    softmax(x, y)


def with_numba() -> None:
    """The same rows in numba, with its own disk cache."""
    import math

    import numba

    clock["imported"] = time.monotonic()

    @numba.njit(parallel=True, fastmath=True, cache=True)
    def softmax(x: Any, y: Any) -> None:
        for row in numba.prange(x.shape[0]):
            top = x[row, 0]
            for j in range(x.shape[1]):
                top = max(top, x[row, j])
            total = np.float32(0)
            for j in range(x.shape[1]):
                y[row, j] = math.exp(x[row, j] - top)
                total += y[row, j]
            for j in range(x.shape[1]):
                y[row, j] /= total

    softmax(x, y)


{"hetir": with_hetir, "numba": with_numba}[sys.argv[1]]()
clock["result"] = time.monotonic()
e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
clock["right"] = bool(np.allclose(y, e / e.sum(1, keepdims=True), atol=1e-6))
print(json.dumps(clock))
