"""OpenCL C on the first device that pyopencl finds; buffers stay on the device."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

Arrays = Mapping[str, Any]
Run = Callable[[], Arrays]
F = np.float32
GROUP = 64
FAST, CAREFUL = ["-cl-fast-relaxed-math"], ["-cl-mad-enable", "-cl-no-signed-zeros"]
NOT_FAST = ("black_scholes",)  # its error passes the bench's tolerance with FAST
SOURCE = Path(__file__).parent.parent / "native" / "kernels.cl"


def _device() -> cl.Device:
    """The first device; a driver installed by pip is found without being registered."""
    if "OCL_ICD_VENDORS" not in os.environ:
        try:
            files = metadata.files("intel-opencl-rt") or []
        except metadata.PackageNotFoundError:
            files = []
        found = [f.locate() for f in files if f.name == "libintelocl.so"]
        if found:
            os.environ["OCL_ICD_VENDORS"] = str(Path(str(found[0])).resolve())
    try:
        return cl.get_platforms()[0].get_devices()[0]
    except cl.Error as error:
        raise RuntimeError(f"pyopencl finds no device ({error})") from None


_found = _device()
_context = cl.Context([_found])
_queue = cl.CommandQueue(_context)
_text = SOURCE.read_text()
_fast, _careful = (cl.Program(_context, _text).build(flags) for flags in (FAST, CAREFUL))


def describe() -> dict[str, str]:
    """Version and what the numbers mean."""
    name = " ".join(_found.name.split())
    style = f"work-items, fast-math, on {name} through {_found.platform.name.strip()}"
    return {"version": cl.VERSION_TEXT, "style": style}


class Held:
    """An array on the device; NumPy reads it when it is asked for."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.host = array
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        self.buffer = cl.Buffer(_context, flags, hostbuf=array)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        cl.enqueue_copy(_queue, self.host, self.buffer)
        return self.host


def empty(*shape: int, dtype: Any = F) -> Held:
    """An array of the device whose values are not set."""
    return Held(np.zeros(shape, dtype))


def step(name: str, size: tuple[int, ...], group: tuple[int, ...], *arguments: Any) -> Run:
    """One launch with its arguments set; it is not waited for."""
    kernel = cl.Kernel(_careful if name in NOT_FAST else _fast, name)
    kernel.set_args(*(a.buffer if isinstance(a, Held) else a for a in arguments))

    def run(_keep: object = arguments) -> Any:  # a kernel does not own its buffers
        return cl.enqueue_nd_range_kernel(_queue, kernel, size, group)

    return run


def run_of(results: Mapping[str, Held], *steps: Run) -> Run:
    """All steps in order, waited for."""

    def run() -> Arrays:
        for launch in steps:
            launch()
        _queue.finish()
        return results

    return run


def over(name: str, results: Mapping[str, Held], *arguments: Any) -> Run:
    """One work-item an element of the first result."""
    size = next(iter(results.values())).host.size
    return run_of(results, step(name, (size,), (256,), *arguments))


def rows(name: str, given: Arrays, *names: str) -> Run:
    """One group a row."""
    height, width = given["x"].shape
    y = empty(height, width)
    held = [Held(given[n]) for n in names]
    size = (height * GROUP,)
    return run_of({"y": y}, step(name, size, (GROUP,), np.int32(width), *held, y))


def vector_add(g: Arrays) -> Run:
    z = empty(g["x"].size)
    return over("vector_add", {"z": z}, Held(g["x"]), Held(g["y"]), z)


def saxpy(g: Arrays) -> Run:
    y = Held(g["y"])
    return over("saxpy", {"y": y}, F(1.5), Held(g["x"]), y)


def launch(g: Arrays) -> Run:
    z = empty(g["x"].size)
    return over("launch", {"z": z}, F(2), Held(g["x"]), F(3), Held(g["y"]), z)


def total(g: Arrays) -> Run:
    parts, out = empty(256), empty(1)
    n, group = np.int32(g["x"].size), (GROUP,)
    return run_of(
        {"total": out},
        step("sum", (256 * GROUP,), group, n, Held(g["x"]), parts),
        step("sum", group, group, np.int32(256), parts, out),
    )


def scan(g: Arrays) -> Run:
    run = np.int32(4096)
    items = g["x"].size // 4096
    x, sums, y = Held(g["x"]), empty(items), empty(g["x"].size)
    return run_of(
        {"y": y},
        step("scan_runs", (items,), (8,), run, x, sums),
        step("scan_sums", (1,), (1,), np.int32(items), sums),
        step("scan", (items,), (8,), run, x, sums, y),
    )


def histogram(g: Arrays) -> Run:
    counts = empty(256, dtype=np.int32)
    x, n = Held(g["x"]), np.int32(g["x"].size)
    clear = lambda: cl.enqueue_fill_buffer(_queue, counts.buffer, np.int32(0), 0, 1024)  # noqa: E731
    return run_of(
        {"counts": counts}, clear, step("histogram", (64 * GROUP,), (GROUP,), n, x, counts)
    )


def matmul(g: Arrays) -> Run:
    n = len(g["a"])
    c = empty(n, n)
    held = (np.int32(n), Held(g["a"]), Held(g["b"]), c)
    return run_of({"c": c}, step("matmul", (n, n), (16, 16), *held))


def jacobi(g: Arrays) -> Run:
    a, b = Held(g["a"]), Held(g["a"])
    size = g["a"].shape[::-1]
    there, back = (step("jacobi", size, (64, 4), *pair) for pair in ((a, b), (b, a)))
    return run_of({"a": a}, *(5 * (there, back)))


def nbody(g: Arrays) -> Run:
    n = len(g["vel"])
    out = empty(n, 6)
    held = (np.int32(n), Held(np.ascontiguousarray(g["pos"].T)), Held(g["vel"]), out)
    return run_of({"out": out}, step("nbody", (n,), (GROUP,), *held))


def mandelbrot(_: Arrays) -> Run:
    counts = empty(1024, 1024, dtype=np.int32)
    made = step("mandelbrot", (1024, 1024), (16, 16), np.int32(256), counts)
    return run_of({"counts": counts}, made)


def flash_attention(g: Arrays) -> Run:
    heads, length, depth = g["q"].shape
    out = empty(heads, length, depth)
    held = (np.int32(length), *(Held(g[n]) for n in "qkv"), out)
    return run_of({"out": out}, step("flash_attention", (length, heads), (GROUP, 1), *held))


def black_scholes(g: Arrays) -> Run:
    n = g["spot"].size
    call, put = empty(n), empty(n)
    given = (Held(g[name]) for name in ("spot", "strike", "years"))
    return over("black_scholes", {"call": call, "put": put}, *given, call, put)


def transpose(g: Arrays) -> Run:
    n = len(g["x"])
    y = empty(n, n)
    return run_of({"y": y}, step("transpose", (n, n), (16, 16), np.int32(n), Held(g["x"]), y))


def spmv(g: Arrays) -> Run:
    n = g["x"].size
    y = empty(n)
    held = (Held(g[name]) for name in ("start", "column", "value", "x"))
    size = (-(-n // GROUP) * GROUP,)
    return run_of({"y": y}, step("spmv", size, (GROUP,), np.int32(n), *held, y))


def bitonic_sort(g: Arrays) -> Run:
    """The network: passes inside a block in local memory, the others one launch each."""
    given, x = Held(g["x"]), Held(g["x"])
    n, block = g["x"].size, 1024
    inside = ((n // 4,), (block // 4,))
    steps = [lambda: cl.enqueue_copy(_queue, x.buffer, given.buffer)]
    steps.append(step("exchange_block", *inside, np.int32(2), np.int32(block), x))
    size = 2 * block
    while size <= n:
        distance = size // 2
        while distance >= block:
            far = (np.int32(size), np.int32(distance), x)
            steps.append(step("exchange", (n // 2,), (256,), *far))
            distance //= 2
        steps.append(step("exchange_block", *inside, np.int32(size), np.int32(size), x))
        size *= 2
    return run_of({"x": x}, *steps)


MAKERS = {
    "vector_add": vector_add,
    "saxpy": saxpy,
    "softmax": lambda g: rows("softmax", g, "x"),
    "layer_norm": lambda g: rows("layer_norm", g, "x", "weight", "bias"),
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
