"""What checkpoints cost: while nobody asks, from the request to the stop, and on the disk.

python -m bench.checkpoint [--rounds 9] [--gib 0.5] > bench/results/checkpoint-DATE.md
"""

from __future__ import annotations

import argparse
import datetime
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import hetir
import hetir.lang as hl
from hetir import library
from hetir.checkpoint import file

SIZES: Mapping[str, Any] = {
    "vector_add": 1 << 24,
    "saxpy": 1 << 24,
    "softmax": (8192, 1024),
    "sum": 1 << 25,
    "histogram": 1 << 24,
    "matmul": (768, 768, 768),
    "mandelbrot": (512, 512),
    "transpose": (4096, 4096),
    "sobel": (2048, 2048),
    "layer_norm": (8192, 1024),
    "rms_norm": (8192, 1024),
    "reduce_max": 1 << 25,
    "scan": 1 << 24,
    "jacobi": (2048, 2048),
    "nbody": 8192,
    "spmv": 400_000,
    "bitonic_sort": 1 << 17,
    "flash_attention": (4, 512),
    "gaussian_blur": (2048, 2048),
    "top_k": (2048, 1000),
    "rotary": (16, 512, 128),
    "int8_matmul": (256, 512, 512),
    "fft": (512, 1024),
    "triangular_solve": (256, 512),
    "black_scholes": 1 << 21,
    "cross_entropy": (8192, 1000),
    "monte_carlo": 200_000,
}


def seconds(case: library.Case, *, checkpoint: bool) -> float:
    """One run of all launches of a case, host time included."""
    case.reset()
    start = time.perf_counter()
    for step in case.steps:
        step.kernel.launch(
            step.arguments, grid=step.grid, workgroup=step.workgroup, checkpoint=checkpoint
        ).wait()
    return time.perf_counter() - start


def overhead(name: str, rounds: int) -> tuple[float, float]:
    """Milliseconds without, and the ratio of the minima with to without, interleaved."""
    case = library.case(name, size=SIZES[name])
    seconds(case, checkpoint=False)
    seconds(case, checkpoint=True)
    plain: list[float] = []
    stoppable: list[float] = []
    for _ in range(rounds):
        plain.append(seconds(case, checkpoint=False))
        stoppable.append(seconds(case, checkpoint=True))
    return min(plain) * 1e3, min(stoppable) / min(plain)


@hetir.kernel
def rounds_of(x: hl.Array[hl.f32, 1], times: hl.i32) -> None:
    """A long kernel with a barrier every few microseconds."""
    lane = hl.local_id(0)
    ring = hl.shared(256, hl.f32)
    value = x[hl.global_id(0)]
    for turn in range(times):
        ring[lane] = value
        hl.barrier()
        value = ring[(lane + 1) % 256] + turn
        hl.barrier()
    x[hl.global_id(0)] = value


def to_stop(tries: int = 20) -> float:
    """Median milliseconds from a request to the file, the file being of a few kilobytes."""
    found: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(tries):
            x = np.zeros(1024, np.float32)
            run = rounds_of.launch((x, 1 << 24), grid=4, workgroup=256, checkpoint=True)
            time.sleep(0.01)
            start = time.perf_counter()
            run.migrate("cpu")
            found.append(time.perf_counter() - start)
            run.checkpoint(Path(folder) / "job.hetck")
    return statistics.median(found) * 1e3


def disk(gib: float) -> dict[str, float]:
    """Seconds a GiB: a raw durable write, a checkpoint's, a plain read and a restore."""
    data = np.random.default_rng(0).integers(0, 256, int(gib * 2**30), dtype=np.uint8)
    x = data.view(np.float32)

    @hetir.kernel
    def touch(x: hl.Array[hl.f32, 1]) -> None:
        hl.barrier()
        if hl.global_id(0) == 0:
            x[0] = 1.0

    with tempfile.TemporaryDirectory(dir=".") as folder:
        raw, saved = Path(folder) / "raw", Path(folder) / "job.hetck"
        write = _timed(lambda: _durable(raw, data))
        run = touch.launch((x,), grid=1, workgroup=1, checkpoint=True)
        run.wait()
        save = _timed(lambda: run.checkpoint(saved))
        read = _timed(raw.read_bytes)
        check = _timed(lambda: file.read(saved))
        restore = _timed(lambda: hetir.checkpoint.load(saved))
        extra = saved.stat().st_size - data.nbytes
    per = {"raw write": write, "checkpoint": save, "read": read}
    per |= {"check every byte": check, "check and restore": restore}
    return {name: value / gib for name, value in per.items()} | {"extra bytes": extra}


def _durable(path: Path, data: np.ndarray[Any, Any]) -> None:
    with path.open("wb") as out:
        out.write(data.data)
        out.flush()
        os.fsync(out.fileno())


def _timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def main() -> None:
    """Measure, and print a page in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--gib", type=float, default=0.5)
    given = parser.parse_args()
    print(f"# What checkpoints cost, {datetime.date.today().isoformat()}, CPU\n")
    print("| kernel | ms without | ratio with `checkpoint=True`, nobody asking |\n|---|---|---|")
    ratios: list[float] = []
    for name in SIZES:
        plain, ratio = overhead(name, given.rounds)
        ratios.append(ratio)
        print(f"| {name} | {plain:.2f} | {ratio:.3f} |", flush=True)
    print(f"\nMedian ratio {statistics.median(ratios):.3f}, largest {max(ratios):.3f}.\n")
    print(f"From the request to running again on the same device: median {to_stop():.2f} ms.\n")
    print("| | seconds a GiB |\n|---|---|")
    costs = disk(given.gib)
    extra = costs.pop("extra bytes")
    for name, value in costs.items():
        print(f"| {name} | {value:.2f} |")
    print(f"\nThe file is {extra:.0f} bytes larger than the arrays.")


if __name__ == "__main__":
    main()
