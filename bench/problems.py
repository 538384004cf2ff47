"""The problems: which case of the kernel library, what must come out, what limits it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hetir import library

Arrays = Mapping[str, np.ndarray[Any, Any]]
LOCAL = Path(__file__).parent / "kernels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One row of the table.

    `kernel` is the library's name and `options` its case's; peers get the arrays named in
    `inputs`. A result may differ from the float64 reference by `tolerance` times
    max(1, max|want|); with `share`, by that share of elements. `reset` puts the case's reset
    inside the timed run, where a run uses up its input. `bound` names the measured bandwidth
    that the bytes are divided by, and `limit` says in words what holds the kernel back.
    """

    name: str
    inputs: tuple[str, ...]
    tolerance: float
    limit: str
    kernel: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    reference: Callable[[Arrays], Arrays] | None = None
    share: bool = False
    reset: bool = False
    bound: str = "triad_gbps"

    def case(self) -> library.Case:
        """The library's case, the same arrays each time."""
        name = self.kernel or self.name
        if (LOCAL / f"{name}.py").is_file():
            return library.load(LOCAL / f"{name}.py").case(np.random.default_rng(0))
        return library.case(name, **self.options)

    def export(self, folder: Path) -> dict[str, Any]:
        """Write inputs and reference results as .npy files; gives what a worker needs."""
        case = self.case()
        case.reset()
        named = dict(zip(case.steps[0].kernel.parameters, case.steps[0].arguments, strict=True))
        inputs = {name: named[name] for name in self.inputs}
        wanted = self.reference(inputs) if self.reference else case.expected()
        for name, array in inputs.items():
            np.save(folder / f"in.{name}.npy", array)
        for name, array in wanted.items():
            np.save(folder / f"want.{name}.npy", array)
        return {
            "problem": self.name,
            "folder": str(folder),
            "tolerance": self.tolerance,
            "share": self.share,
            "bytes": case.bytes,
            "flops": case.flops,
        }


def _saxpy(given: Arrays) -> Arrays:
    return {"y": 1.5 * given["x"].astype(np.float64) + given["y"]}


def _jacobi(given: Arrays) -> Arrays:
    """Ten steps in float64."""
    p = given["a"].astype(np.float64)
    q = p.copy()
    for _ in range(10):
        around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
        q[1:-1, 1:-1] = 0.2 * (p[1:-1, 1:-1] + around)
        p, q = q, p
    return {"a": p}


_STREAM = "bytes: each element is used once"
_ROWS = "bytes, if the row stays in the nearest cache between the passes"

MAIN = (
    Problem(name="vector_add", inputs=("x", "y"), tolerance=1e-6, limit=_STREAM),
    Problem(name="saxpy", inputs=("x", "y"), tolerance=1e-6, limit=_STREAM, reference=_saxpy),
    Problem(name="softmax", inputs=("x",), tolerance=1e-5, limit=f"{_ROWS}; then exp"),
    Problem(name="layer_norm", inputs=("x", "weight", "bias"), tolerance=5e-4, limit=_ROWS),
    Problem(name="sum", inputs=("x",), tolerance=2e-4, limit=_STREAM, bound="read_gbps"),
    Problem(name="scan", inputs=("x",), tolerance=0.0, limit="bytes; then the chain of additions"),
    Problem(
        name="histogram",
        inputs=("x",),
        tolerance=0.0,
        limit="latency of load, add, store on one bin; far from bytes",
        reset=True,
        bound="read_gbps",
    ),
    Problem(
        name="matmul_512",
        kernel="matmul",
        options={"size": (512, 512, 512)},
        inputs=("a", "b"),
        tolerance=1e-4,
        limit="flops: needs register tiles, two loads an fma at most",
    ),
    Problem(
        name="matmul_1024",
        kernel="matmul",
        options={"size": (1024, 1024, 1024)},
        inputs=("a", "b"),
        tolerance=1e-4,
        limit="flops: needs register tiles, and b packed or blocked for the caches",
    ),
    Problem(
        name="jacobi",
        inputs=("a",),
        tolerance=1e-5,
        limit="bytes, with three rows in the nearest cache; the steps pass through the last one",
        reference=_jacobi,
    ),
    Problem(
        name="nbody",
        inputs=("pos", "vel"),
        tolerance=1e-3,
        limit="throughput of divide and square root, which flops do not count",
    ),
    Problem(
        name="mandelbrot",
        inputs=(),
        tolerance=0.02,
        share=True,
        limit="the chain of multiply and add of a pixel, and lanes that are done and wait",
    ),
    Problem(
        name="flash_attention",
        inputs=("q", "k", "v"),
        tolerance=1e-4,
        limit="flops of two small matrix products; then exp",
    ),
    Problem(
        name="black_scholes",
        inputs=("spot", "strike", "years"),
        tolerance=1e-4,
        limit="flops of exp, log, divide and square root, of which the nominal 60 count few",
    ),
    Problem(
        name="transpose",
        inputs=("x",),
        tolerance=0.0,
        limit="bytes in theory; cache lines and pages that a column touches in fact",
    ),
    Problem(
        name="spmv",
        inputs=("start", "column", "value", "x"),
        tolerance=1e-4,
        limit="latency of gathers and short rows; then bytes",
        bound="read_gbps",
    ),
    Problem(
        name="bitonic_sort",
        inputs=("x",),
        tolerance=0.0,
        limit="compare and exchange: log2(n) (log2(n) + 1) / 2 distances, in registers",
        reset=True,
    ),
)
MORE = (
    Problem(name="rms_norm", inputs=("x", "weight"), tolerance=1e-5, limit=_ROWS),
    Problem(name="cross_entropy", inputs=("logits", "labels"), tolerance=1e-5, limit=_ROWS),
    Problem(name="reduce_max", inputs=("x",), tolerance=0.0, limit=_STREAM, bound="read_gbps"),
    Problem(name="rotary", inputs=("x", "cosine", "sine"), tolerance=1e-5, limit=_STREAM),
    Problem(name="sobel", inputs=("image",), tolerance=1e-5, limit="bytes, rows in the cache"),
    Problem(
        name="gaussian_blur",
        inputs=("image",),
        tolerance=1e-5,
        limit="bytes of two passes; clamped indices keep vectors out",
    ),
    Problem(name="top_k", inputs=("x",), tolerance=0.0, limit="compares: 2 a step of the list"),
    Problem(
        name="fft",
        inputs=("real", "imag"),
        tolerance=1e-5,
        limit="bytes; three passes over a row in registers",
    ),
    Problem(
        name="int8_matmul",
        inputs=("x", "weight", "scale"),
        tolerance=1e-4,
        limit="flops, after widening the weights",
    ),
    Problem(
        name="monte_carlo",
        inputs=(),
        tolerance=0.0,
        limit="integer multiplications: ten rounds of two wide products for four words",
        reset=True,
    ),
    Problem(
        name="triangular_solve",
        inputs=("lower", "x"),
        tolerance=1e-4,
        limit="flops; rows depend on each other",
        reset=True,
    ),
)
LAUNCH = Problem(name="launch", inputs=("x", "y"), tolerance=1e-6, limit="latency of one launch")
QUEUED = Problem(
    name="queued_launch", kernel="launch", inputs=("x", "y"), tolerance=1e-6, limit=LAUNCH.limit
)
ALL = {p.name: p for p in (*MAIN, *MORE, LAUNCH, QUEUED)}
