"""NumPy in float32, whole arrays at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Arrays = Mapping[str, Any]
Run = Callable[[], Arrays]
F = np.float32
TAIL = tuple(map(F, (1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.31938153)))


def describe() -> dict[str, str]:
    """Version and what the numbers mean."""
    return {"version": np.__version__, "style": "whole arrays"}


def whole(result: str, function: Callable[[Arrays], Any]) -> Callable[[Arrays], Run]:
    """A maker for a function of the inputs that gives one array."""
    return lambda given: lambda: {result: function(given)}


def vector_add(given: Arrays) -> Run:
    z = np.empty_like(given["x"])
    return lambda: {"z": np.add(given["x"], given["y"], out=z)}


def saxpy(given: Arrays) -> Run:
    x, y = given["x"], given["y"]
    scaled = np.empty_like(x)

    def run() -> Arrays:
        np.multiply(x, F(1.5), out=scaled)
        np.add(y, scaled, out=y)
        return given

    return run


def softmax(given: Arrays) -> np.ndarray[Any, Any]:
    e = np.exp(given["x"] - given["x"].max(1, keepdims=True))
    e /= e.sum(1, keepdims=True)
    return e


def layer_norm(given: Arrays) -> np.ndarray[Any, Any]:
    centred = given["x"] - given["x"].mean(1, keepdims=True)
    variance = np.mean(centred * centred, 1, keepdims=True)
    return centred / np.sqrt(variance + F(1e-5)) * given["weight"] + given["bias"]


def jacobi(given: Arrays) -> Run:
    a, b = given["a"], given["a"].copy()

    def run() -> Arrays:
        p, q = a, b
        for _ in range(10):
            total = p[1:-1, 1:-1] + p[:-2, 1:-1]
            for part in (p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:]):
                total += part
            np.multiply(total, F(0.2), out=q[1:-1, 1:-1])
            p, q = q, p
        return given

    return run


def nbody(given: Arrays) -> np.ndarray[Any, Any]:
    place, mass, velocity = given["pos"][:3].T, given["pos"][3], given["vel"]
    pull = np.empty_like(velocity)
    for i in range(0, len(place), 128):
        away = place[None] - place[i : i + 128, None]
        square = np.einsum("ijk,ijk->ij", away, away) + F(1e-2)
        pull[i : i + 128] = np.einsum("ijk,ij->ik", away, mass / (square * np.sqrt(square)))
    faster = velocity + F(1e-3) * pull
    return np.concatenate([place + F(1e-3) * faster, faster], 1)


def mandelbrot(_: Arrays) -> np.ndarray[Any, Any]:
    """All pixels, 256 steps; what has escaped is masked."""
    side = np.arange(1024, dtype=F) * F(3 / 1024)
    cx, cy = (side - F(2))[None, :], (side - F(1.5))[:, None]
    zx, zy = np.zeros((1024, 1024), F), np.zeros((1024, 1024), F)
    counts = np.zeros((1024, 1024), np.int32)
    live = np.ones((1024, 1024), bool)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(256):
            x2, y2 = zx * zx, zy * zy
            live &= x2 + y2 <= F(4)
            counts += live
            zy = F(2) * zx * zy + cy
            zx = x2 - y2 + cx
    return counts


def flash_attention(given: Arrays) -> np.ndarray[Any, Any]:
    s = given["q"] @ given["k"].transpose(0, 2, 1) * F(0.125)
    e = np.exp(s - s.max(2, keepdims=True))
    return (e / e.sum(2, keepdims=True)) @ given["v"]


def normal_cdf(z: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    u = 1 / (1 + F(0.2316419) * np.abs(z))
    series = TAIL[0]
    for c in TAIL[1:]:
        series = c + u * series
    tail = F(0.3989422804) * np.exp(F(-0.5) * z * z) * (u * series)
    return np.where(z > 0, 1 - tail, tail)


def black_scholes(given: Arrays) -> Run:
    s, x, t = given["spot"], given["strike"], given["years"]

    def run() -> Arrays:
        root = np.sqrt(t)
        d1 = (np.log(s / x) + F(0.02 + 0.045) * t) / (F(0.3) * root)
        n1, n2 = normal_cdf(d1), normal_cdf(d1 - F(0.3) * root)
        discounted = x * np.exp(F(-0.02) * t)
        return {
            "call": s * n1 - discounted * n2,
            "put": discounted * (1 - n2) - s * (1 - n1),
        }

    return run


def transpose(given: Arrays) -> Run:
    y = np.empty_like(given["x"])

    def run() -> Arrays:
        np.copyto(y, given["x"].T)
        return {"y": y}

    return run


def spmv(given: Arrays) -> np.ndarray[Any, Any]:
    products = given["value"] * given["x"][given["column"]]
    return np.add.reduceat(products, given["start"][:-1])


def rms_norm(given: Arrays) -> np.ndarray[Any, Any]:
    x = given["x"]
    mean = np.mean(x * x, 1, keepdims=True)
    return x / np.sqrt(mean + F(1e-5)) * given["weight"]


def cross_entropy(given: Arrays) -> np.ndarray[Any, Any]:
    logits = given["logits"]
    top = logits.max(1)
    picked = np.take_along_axis(logits, given["labels"][:, None], 1)[:, 0]
    return np.log(np.exp(logits - top[:, None]).sum(1)) + (top - picked)


def rotary(given: Arrays) -> np.ndarray[Any, Any]:
    a, b = np.split(given["x"], 2, axis=2)
    c, s = given["cosine"], given["sine"]
    return np.concatenate([a * c - b * s, b * c + a * s], 2)


def sobel(given: Arrays) -> np.ndarray[Any, Any]:
    p = np.pad(given["image"], 1, mode="edge")
    across, down = p[:, 2:] - p[:, :-2], p[2:] - p[:-2]
    gx = across[:-2] + 2 * across[1:-1] + across[2:]
    gy = down[:, :-2] + 2 * down[:, 1:-1] + down[:, 2:]
    return np.sqrt(gx * gx + gy * gy)


def gaussian_blur(given: Arrays) -> np.ndarray[Any, Any]:
    out = given["image"]
    for axis in (1, 0):
        padded = np.pad(out, [(3, 3) if k == axis else (0, 0) for k in (0, 1)], mode="edge")
        if axis:
            parts = [padded[:, k : k + out.shape[1]] for k in range(7)]
        else:
            parts = [padded[k : k + out.shape[0]] for k in range(7)]
        out = sum(F(w / 64) * p for w, p in zip((1, 6, 15, 20, 15, 6, 1), parts, strict=True))
    return np.asarray(out)


def top_k(given: Arrays) -> np.ndarray[Any, Any]:
    return -np.sort(np.partition(-given["x"], 7, axis=1)[:, :8], axis=1)


def fft(given: Arrays) -> Run:
    def run() -> Arrays:
        full = np.fft.fft(given["real"] + 1j * given["imag"], axis=1)
        return {"out_real": full.real, "out_imag": full.imag}

    return run


MAKERS = {
    "vector_add": vector_add,
    "saxpy": saxpy,
    "softmax": whole("y", softmax),
    "layer_norm": whole("y", layer_norm),
    "sum": whole("total", lambda g: g["x"].sum(keepdims=True)),
    "scan": whole("y", lambda g: np.cumsum(g["x"], dtype=F)),
    "histogram": whole("counts", lambda g: np.bincount(g["x"], minlength=256)),
    "matmul_512": whole("c", lambda g: g["a"] @ g["b"]),
    "matmul_1024": whole("c", lambda g: g["a"] @ g["b"]),
    "jacobi": jacobi,
    "nbody": whole("out", nbody),
    "mandelbrot": whole("counts", mandelbrot),
    "flash_attention": whole("out", flash_attention),
    "black_scholes": black_scholes,
    "transpose": transpose,
    "spmv": whole("y", spmv),
    "bitonic_sort": whole("x", lambda g: np.sort(g["x"])),
    "rms_norm": whole("y", rms_norm),
    "cross_entropy": whole("loss", cross_entropy),
    "reduce_max": whole("largest", lambda g: g["x"].max(keepdims=True)),
    "rotary": whole("y", rotary),
    "sobel": whole("edges", sobel),
    "gaussian_blur": whole("out", gaussian_blur),
    "top_k": whole("y", top_k),
    "fft": fft,
    "int8_matmul": whole("y", lambda g: (g["x"] @ g["weight"].astype(F)) * g["scale"]),
    "triangular_solve": whole("x", lambda g: np.linalg.solve(g["lower"], g["x"])),
    "launch": whole("z", lambda g: F(2) * g["x"] + F(3) * g["y"]),
}
