"""C with OpenMP, compiled for this machine when the bench starts."""

from __future__ import annotations

import ctypes
import os
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Arrays = Mapping[str, Any]
Run = Callable[[], Arrays]
NATIVE = Path(__file__).parent.parent / "native"
CC = os.environ.get("CC", "gcc")
FLAGS = ("-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC")


def _build(name: str) -> ctypes.CDLL:
    """The library of one C file; once it is loaded, its file can go."""
    with tempfile.TemporaryDirectory(prefix="hetir-bench-c-") as folder:
        library = Path(folder, f"{name}.so")
        command = [CC, *FLAGS, str(NATIVE / f"{name}.c"), "-o", str(library), "-lm"]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode:
            raise RuntimeError(f"{CC}: {built.stderr[:300]}")
        return ctypes.CDLL(str(library))


_kernels = _build("kernels")


def describe() -> dict[str, str]:
    """Version and what the numbers mean."""
    found = subprocess.run([CC, "-dumpfullversion"], capture_output=True, text=True, check=True)
    return {"version": f"{CC} {found.stdout.strip()}", "style": "loops, OpenMP, fast-math"}


def run_of(name: str, results: Arrays, *arguments: Any) -> Run:
    """A run that calls one C function; integers are long, floats float, arrays pointers."""
    function = getattr(_kernels, name)
    function.restype = None
    passed = tuple(map(_argument, arguments))

    def run() -> Arrays:
        function(*passed)
        return results

    run.keep = arguments  # type: ignore[attr-defined] (the arrays must outlive the pointers)
    return run


def _argument(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        assert value.flags.c_contiguous
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_float(value) if isinstance(value, float) else ctypes.c_long(value)


def vector_add(g: Arrays) -> Run:
    z = np.empty_like(g["x"])
    return run_of("vector_add", {"z": z}, z.size, g["x"], g["y"], z)


def saxpy(g: Arrays) -> Run:
    return run_of("saxpy", g, g["x"].size, 1.5, g["x"], g["y"])


def launch(g: Arrays) -> Run:
    z = np.empty_like(g["x"])
    return run_of("launch", {"z": z}, z.size, 2.0, g["x"], 3.0, g["y"], z)


def softmax(g: Arrays) -> Run:
    y = np.empty_like(g["x"])
    return run_of("softmax", {"y": y}, *y.shape, g["x"], y)


def layer_norm(g: Arrays) -> Run:
    y = np.empty_like(g["x"])
    return run_of("layer_norm", {"y": y}, *y.shape, g["x"], g["weight"], g["bias"], y)


def total(g: Arrays) -> Run:
    out = np.empty(1, np.float32)
    return run_of("sum", {"total": out}, g["x"].size, g["x"], out)


def scan(g: Arrays) -> Run:
    y = np.empty_like(g["x"])
    return run_of("scan", {"y": y}, y.size, g["x"], y)


def histogram(g: Arrays) -> Run:
    counts = np.empty(256, np.int32)
    return run_of("histogram", {"counts": counts}, g["x"].size, g["x"], counts)


def matmul(g: Arrays) -> Run:
    c = np.empty_like(g["a"])
    packed = np.empty(256 * len(c), np.float32)
    return run_of("matmul", {"c": c}, len(c), g["a"], g["b"], c, packed)


def jacobi(g: Arrays) -> Run:
    return run_of("jacobi", g, len(g["a"]), 10, g["a"], g["a"].copy())


def nbody(g: Arrays) -> Run:
    out = np.empty((len(g["vel"]), 6), np.float32)
    return run_of("nbody", {"out": out}, len(out), *g["pos"], g["vel"], out)


def mandelbrot(_: Arrays) -> Run:
    counts = np.empty((1024, 1024), np.int32)
    return run_of("mandelbrot", {"counts": counts}, 1024, 256, counts)


def flash_attention(g: Arrays) -> Run:
    out = np.empty_like(g["q"])
    return run_of("flash_attention", {"out": out}, *out.shape[:2], g["q"], g["k"], g["v"], out)


def black_scholes(g: Arrays) -> Run:
    call, put = np.empty_like(g["spot"]), np.empty_like(g["spot"])
    given = (g["spot"], g["strike"], g["years"])
    return run_of("black_scholes", {"call": call, "put": put}, call.size, *given, call, put)


def transpose(g: Arrays) -> Run:
    y = np.empty_like(g["x"])
    return run_of("transpose", {"y": y}, len(y), g["x"], y)


def spmv(g: Arrays) -> Run:
    y = np.empty_like(g["x"])
    return run_of("spmv", {"y": y}, y.size, g["start"], g["column"], g["value"], g["x"], y)


def bitonic_sort(g: Arrays) -> Run:
    x = np.empty_like(g["x"])
    return run_of("bitonic_sort", {"x": x}, x.size, g["x"], x)


MAKERS = {
    "vector_add": vector_add,
    "saxpy": saxpy,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "sum": total,
    "scan": scan,
    "histogram": histogram,
    "matmul_512": matmul,
    "matmul_1024": matmul,
    "jacobi": jacobi,
    "nbody": nbody,
    "mandelbrot": mandelbrot,
    "flash_attention": flash_attention,
    "black_scholes": black_scholes,
    "transpose": transpose,
    "spmv": spmv,
    "bitonic_sort": bitonic_sort,
    "launch": launch,
}


def limits() -> dict[str, float]:
    """Bandwidths, FMA rate and fork-join time of all cores together: best of several."""
    library = _build("limits")
    for name in ("triad", "read_own", "multiply_add", "fork_join"):
        getattr(library, name).restype = ctypes.c_double
    threads = len(os.sched_getaffinity(0))
    n = 1 << 24
    a, b, c = (np.ones(n, np.float32) for _ in range(3))

    def least(name: str, *arguments: Any) -> float:
        passed = tuple(map(_argument, arguments))
        return min(getattr(library, name)(*passed) for _ in range(9))

    def read(floats: int, rounds: int) -> float:
        return 4e-9 * floats * rounds * threads / least("read_own", floats, rounds, a)

    rounds = 2_000_000
    forks = statistics.median(library.fork_join(ctypes.c_long(100)) for _ in range(9))
    return {
        "triad_gbps": 12e-9 * n / least("triad", n, a, b, c),
        "read_gbps": read(n // threads, 1),
        "l1_gbps": read(4096, 4000),
        "l2_gbps": read(65536, 250),
        "fma_gflops": 24e-9 * library.width() * rounds * threads / least("multiply_add", rounds),
        "fork_join_us": forks * 1e6,
    }
