"""The mathematics beside NumPy, torch and numba: `python -m bench.mathematics exp log`.

Sixteen million `f32` of a normal distribution, from memory to memory. Peers that are not
installed are left out; without a torch built for it, torch uses as many threads as hetir.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import hetir
import hetir.lang as hl
from bench.measure import sample

COUNT = 1 << 24
BUDGET = 0.4
DEFAULT = ("exp", "log", "sin", "tanh", "erf", "sigmoid", "gelu", "log1p", "rsqrt", "atan")
# where a peer calls it otherwise
NUMPY = {"atan": "arctan", "asin": "arcsin", "acos": "arccos"}


def hetir_run(name: str, x: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    """A launch of the function over the array."""
    function = getattr(hl, name)

    @hetir.kernel
    def apply(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]) -> None:
        i = hl.global_id(0)
        if i < y.shape[0]:
            y[i] = function(x[i])

    launch = apply[hetir.cdiv(COUNT, 256), 256]
    return lambda: launch(x, y)


def numpy_run(name: str, x: np.ndarray, y: np.ndarray) -> Callable[[], object] | None:
    """NumPy's function, on one thread."""
    function = getattr(np, NUMPY.get(name, name), None)
    return None if function is None else lambda: function(x, out=y)


def torch_run(name: str, x: np.ndarray, y: np.ndarray) -> Callable[[], object] | None:
    """torch's function."""
    try:
        import torch
    except ImportError:
        return None
    source, to = torch.from_numpy(x), torch.from_numpy(y)
    if name == "gelu":
        return lambda: torch.nn.functional.gelu(source)
    function = getattr(torch, name, None)
    return None if function is None else lambda: function(source, out=to)


def numba_run(name: str, x: np.ndarray, y: np.ndarray) -> Callable[[], object] | None:
    """numba's parallel loop over Python's math, without SVML."""
    import math

    function = getattr(math, name, None)
    try:
        import numba
    except ImportError:
        return None
    if function is None:
        return None

    @numba.njit(parallel=True)
    def loop(x: Any, y: Any) -> None:
        for i in numba.prange(x.size):
            y[i] = function(x[i])

    return lambda: loop(x, y)


PEERS = {"hetir": hetir_run, "numpy": numpy_run, "torch": torch_run, "numba": numba_run}


def rows(names: list[str]) -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
    """Each function's times by peer."""
    x = np.abs(np.random.default_rng(0).normal(0, 3, COUNT)).astype(np.float32)
    y = np.empty_like(x)
    for name in names:
        found: dict[str, dict[str, Any]] = {}
        for peer, make in PEERS.items():
            if (run := make(name, x, y)) is not None:
                run()
                found[peer] = sample(run, BUDGET)
        yield name, found


def main() -> None:
    """Print the table: milliseconds, and in brackets those of all cores together."""
    print("| function |" + "".join(f" {peer} |" for peer in PEERS))
    print("|---" * (len(PEERS) + 1) + "|")
    for name, found in rows(sys.argv[1:] or list(DEFAULT)):
        cells = [
            f"{found[p]['ms']:.1f} ({found[p]['cpu_ms']:.1f})" if p in found else "" for p in PEERS
        ]
        print(f"| `{name}` | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
