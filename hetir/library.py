"""The kernel library: where it lies, and one runnable, checkable case of each kernel."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np

NAMES = (
    "vector_add",
    "saxpy",
    "softmax",
    "sum",
    "histogram",
    "matmul",
    "mandelbrot",
    "transpose",
    "sobel",
    "layer_norm",
    "rms_norm",
    "reduce_max",
    "scan",
    "jacobi",
    "nbody",
    "spmv",
    "bitonic_sort",
    "flash_attention",
    "gaussian_blur",
    "top_k",
    "rotary",
    "int8_matmul",
    "fft",
    "triangular_solve",
    "black_scholes",
    "cross_entropy",
    "monte_carlo",
)
SYNC = (
    "coherent",
    "dekker",
    "exchange",
    "grid_barrier",
    "histogram",
    "last_block",
    "locks",
    "look_back",
    "message",
    "once",
    "ring",
    "seqlock",
    "stream_k",
    "three_party",
    "tile_signal",
)
"""Kernels whose work-items hand memory to each other, in kernels/sync."""
SMALL: Mapping[str, Any] = {
    "vector_add": 10_000,
    "saxpy": 10_000,
    "softmax": (33, 100),
    "sum": 100_001,
    "histogram": 100_001,
    "matmul": (65, 66, 67),
    "mandelbrot": (65, 70),
    "transpose": (65, 100),
    "sobel": (33, 70),
    "layer_norm": (7, 100),
    "rms_norm": (7, 100),
    "reduce_max": 100_001,
    "scan": 10_001,
    "jacobi": (33, 70),
    "nbody": 200,
    "spmv": 500,
    "bitonic_sort": 9_000,
    "flash_attention": (2, 70),
    "gaussian_blur": (33, 70),
    "top_k": (9, 100),
    "rotary": (3, 21, 34),
    "int8_matmul": (19, 40, 33),
    "fft": (3, 256),
    "triangular_solve": (40, 70),
    "black_scholes": 3_001,
    "cross_entropy": (9, 100),
    "monte_carlo": 500,
}


@dataclass(frozen=True, slots=True, kw_only=False)
class Step:
    """One launch of a case."""

    kernel: Any
    arguments: tuple[Any, ...]
    grid: tuple[int, ...]
    workgroup: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Launches on given arrays, and what they must give.

    `results` are the arrays that the steps write; `expected()` computes the same by
    NumPy. `tolerance` bounds max|got - want| / max(1, max|want|); 0 asks for equal
    values. `reset()` restores arrays that a run changes. `bytes` and `flops` are the
    least traffic and the nominal work of one run.
    """

    steps: tuple[Step, ...]
    results: Mapping[str, np.ndarray[Any, Any]]
    expected: Callable[[], Mapping[str, np.ndarray[Any, Any]]]
    bytes: int
    flops: int
    tolerance: float = 0.0
    reset: Callable[[], None] = lambda: None
    data_note: str = ""

    def run(self, device: str = "cpu") -> None:
        """All launches, waited for."""
        for step in self.steps:
            step.kernel.launch(
                step.arguments, grid=step.grid, workgroup=step.workgroup, device=device
            ).wait()

    def error(self) -> float:
        """The largest error of the results over all arrays, as `tolerance` measures it."""
        expected = self.expected()
        return max(_error(self.results[name], want) for name, want in expected.items())


def _error(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> float:
    """max|got - want| / max(1, max|want|); NaN equals NaN; infinite when shapes differ."""
    if got.shape != want.shape:
        return float("inf")
    if not want.size:
        return 0.0
    got64, want64 = got.astype(np.float64), want.astype(np.float64)
    same = (got64 == want64) | (np.isnan(got64) & np.isnan(want64))
    if same.all():
        return 0.0
    distance = np.abs(got64 - want64)[~same]
    if not np.isfinite(distance).all():
        return float("inf")
    return float(distance.max() / max(1.0, np.abs(want64).max()))


def folder() -> Path:
    """The installed kernels, or those of the source tree."""
    installed = Path(__file__).parent / "kernels"
    return installed if installed.is_dir() else Path(__file__).parent.parent / "kernels"


def load(path: str | Path) -> ModuleType:
    """Import a file that holds kernels; the same file gives the same module."""
    file = Path(path).resolve()
    name = f"hetir_file_{abs(hash(str(file))):x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def data_rank(name: str) -> int:
    """The rank of the user's array that a case takes as `data`; 0 where it takes none."""
    if case(name, size=SMALL[name]).data_note:
        return 0
    size = SMALL[name]
    return min(2, len(cast("tuple[int, ...]", size))) if isinstance(size, tuple) else 1


def scenario(name: str) -> ModuleType:
    """A module of kernels/sync: `case(rng)`, and `small()`, the launches to judge orders on."""
    return load(folder() / "sync" / f"{name}.py")


def case(name: str, **options: Any) -> Case:
    """The case of a library kernel; `options` are `size`, `data` and `rng`."""
    options.setdefault("rng", np.random.default_rng(0))
    return load(folder() / f"{name}.py").case(**options)
