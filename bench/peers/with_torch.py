"""torch on the CPU, eager: one library call, or a few whole-tensor ones, a problem."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as nn

Arrays = Mapping[str, Any]
Run = Callable[[], Arrays]
Tensors = dict[str, torch.Tensor]

torch.set_num_threads(len(os.sched_getaffinity(0)))
torch.set_grad_enabled(False)


def describe() -> dict[str, str]:
    """Version and what the numbers mean."""
    return {"version": torch.__version__, "style": "library calls on whole tensors"}


def whole(result: str, function: Callable[[Tensors], torch.Tensor]) -> Callable[[Arrays], Run]:
    """A maker for a function of the inputs that gives one tensor."""

    def make(given: Arrays) -> Run:
        tensors = _tensors(given)
        return lambda: {result: function(tensors)}

    return make


def _tensors(given: Arrays) -> Tensors:
    return {name: torch.from_numpy(array) for name, array in given.items()}


def vector_add(given: Arrays) -> Run:
    t = _tensors(given)
    z = torch.empty_like(t["x"])
    return lambda: {"z": torch.add(t["x"], t["y"], out=z)}


def jacobi(given: Arrays) -> Run:
    a = torch.from_numpy(given["a"])
    b = a.clone()

    def run() -> Arrays:
        p, q = a, b
        for _ in range(10):
            around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
            torch.mul(around.add_(p[1:-1, 1:-1]), 0.2, out=q[1:-1, 1:-1])
            p, q = q, p
        return {"a": a}

    return run


def nbody(t: Tensors) -> torch.Tensor:
    place, mass = t["pos"][:3].T, t["pos"][3]
    away = place[None] - place[:, None]
    inverse = torch.rsqrt((away * away).sum(2) + 1e-2)
    pull = (away * (mass * inverse**3)[:, :, None]).sum(1)
    faster = t["vel"] + 1e-3 * pull
    return torch.cat([place + 1e-3 * faster, faster], 1)


def mandelbrot(_: Tensors) -> torch.Tensor:
    side = torch.arange(1024, dtype=torch.float32) * (3 / 1024)
    cx, cy = (side - 2)[None, :], (side - 1.5)[:, None]
    zx, zy = torch.zeros(1024, 1024), torch.zeros(1024, 1024)
    counts = torch.zeros(1024, 1024, dtype=torch.int32)
    live = torch.ones(1024, 1024, dtype=torch.bool)
    for _ in range(256):
        x2, y2 = zx * zx, zy * zy
        live &= x2 + y2 <= 4
        counts += live
        zy = (zx * zy).mul_(2).add_(cy)
        zx = x2.sub_(y2).add_(cx)
    return counts


def flash_attention(t: Tensors) -> torch.Tensor:
    return nn.scaled_dot_product_attention(t["q"][None], t["k"][None], t["v"][None])[0]


def normal_cdf(z: torch.Tensor) -> torch.Tensor:
    u = 1 / (1 + 0.2316419 * z.abs())
    series = -0.356563782 + u * (1.781477937 + u * (-1.821255978 + u * 1.330274429))
    tail = 0.3989422804 * torch.exp(-0.5 * z * z) * (u * (0.31938153 + u * series))
    return torch.where(z > 0, 1 - tail, tail)


def black_scholes(given: Arrays) -> Run:
    t = _tensors(given)
    spot, strike, years = t["spot"], t["strike"], t["years"]

    def run() -> Arrays:
        spread = 0.3 * years.sqrt()
        d1 = ((spot / strike).log() + 0.065 * years) / spread
        n1, n2 = normal_cdf(d1), normal_cdf(d1 - spread)
        discounted = strike * torch.exp(-0.02 * years)
        return {
            "call": spot * n1 - discounted * n2,
            "put": discounted * (1 - n2) - spot * (1 - n1),
        }

    return run


def spmv(given: Arrays) -> Run:
    t = _tensors(given)
    rows = t["x"].numel()
    matrix = torch.sparse_csr_tensor(t["start"], t["column"], t["value"], (rows, rows))
    return lambda: {"y": matrix @ t["x"]}


def fft(given: Arrays) -> Run:
    t = _tensors(given)

    def run() -> Arrays:
        full = torch.fft.fft(torch.complex(t["real"], t["imag"]))
        return {"out_real": full.real, "out_imag": full.imag}

    return run


def layer_norm(t: Tensors) -> torch.Tensor:
    return nn.layer_norm(t["x"], (t["x"].shape[1],), t["weight"], t["bias"], 1e-5)


MAKERS = {
    "vector_add": vector_add,
    "saxpy": whole("y", lambda t: t["y"].add_(t["x"], alpha=1.5)),
    "softmax": whole("y", lambda t: torch.softmax(t["x"], 1)),
    "layer_norm": whole("y", layer_norm),
    "sum": whole("total", lambda t: t["x"].sum().reshape(1)),
    "scan": whole("y", lambda t: torch.cumsum(t["x"], 0)),
    "histogram": whole("counts", lambda t: torch.bincount(t["x"], minlength=256)),
    "matmul_512": whole("c", lambda t: t["a"] @ t["b"]),
    "matmul_1024": whole("c", lambda t: t["a"] @ t["b"]),
    "jacobi": jacobi,
    "nbody": whole("out", nbody),
    "mandelbrot": whole("counts", mandelbrot),
    "flash_attention": whole("out", flash_attention),
    "black_scholes": black_scholes,
    "transpose": whole("y", lambda t: t["x"].t().contiguous()),
    "spmv": spmv,
    "bitonic_sort": whole("x", lambda t: torch.sort(t["x"]).values),
    "rms_norm": whole("y", lambda t: nn.rms_norm(t["x"], (1024,), t["weight"], 1e-5)),
    "cross_entropy": whole(
        "loss", lambda t: nn.cross_entropy(t["logits"], t["labels"], reduction="none")
    ),
    "reduce_max": whole("largest", lambda t: t["x"].max().reshape(1)),
    "top_k": whole("y", lambda t: torch.topk(t["x"], 8, dim=1).values),
    "fft": fft,
    "int8_matmul": whole("y", lambda t: (t["x"] @ t["weight"].float()) * t["scale"]),
    "triangular_solve": whole(
        "x", lambda t: torch.linalg.solve_triangular(t["lower"], t["x"], upper=False)
    ),
    "launch": whole("z", lambda t: torch.add(t["x"] * 2.0, t["y"], alpha=3.0)),
}
