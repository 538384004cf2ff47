"""Checks hetir on an NVIDIA GPU in a few minutes: `python tests/device/nvidia.py [OUT.json]`.

Every kernel of the library on `cuda:0` against the CPU, bit for bit; random kernels against the
evaluator; grids past 65,535, shared memory past 48 KiB, printing; then bandwidth beside torch
where it is installed, and the cost of a launch. One line each; exit status 1 when a check fails.
"""

from __future__ import annotations

import json
import random
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

import hetir
import hetir.lang as hl
from hetir import library, runtime
from hetir.artifact import Artifact
from hetir.backends import ptx
from hetir.backends.ptx import assembler
from hetir.ir.core import Kernel
from hetir.runtime.drivers.cuda import CudaDriver
from hetir.testing import Case, differences, evaluator, generate

DEVICE = "cuda:0"
RANDOM_KERNELS = 100
REPEATS = 20
results: dict[str, Any] = {}
failures: list[str] = []


def check(name: str, action: Callable[[], str]) -> None:
    """Run one check; a difference or an exception is a failure of the script."""
    begun = time.perf_counter()
    try:
        said = action()
    except Exception as error:  # noqa: BLE001 - the script reports all checks
        said = f"FAILED: {type(error).__name__}: {error}".splitlines()[0]
        failures.append(name)
        traceback.print_exc(limit=4)
    results[name] = said
    print(f"{name:28} {time.perf_counter() - begun:6.1f} s  {said}", flush=True)


def on_gpu(artifact: Artifact, arguments: list[Any], grid: Any, workgroup: Any) -> None:
    """Load and launch on the GPU, and wait."""
    program = runtime.device(DEVICE).load(artifact, [f"p{k}" for k in range(len(arguments))])
    program.launch(arguments, grid=grid, workgroup=workgroup).wait()


def kernel_of_library(name: str) -> str:
    """One library kernel: within its tolerance, and the CPU's bits."""
    found = []
    for device in (DEVICE, "cpu"):
        case = library.case(name, size=library.SMALL[name])
        case.run(device)
        error = case.error()
        assert error <= case.tolerance, f"error {error} on {device}"
        found.append([np.array(v) for v in case.results.values()])
    wrong = differences(*found)
    assert not wrong, "; ".join(wrong)
    return "same bits"


def random_kernels() -> str:
    """Generated kernels as PTX and as cubin, against the evaluator."""
    target = runtime.device(DEVICE).target

    def gpu(kernel: Kernel, arguments: list[Any], grid: Any, workgroup: Any) -> None:
        on_gpu(ptx.compile_kernel(kernel, target=target), arguments, grid, workgroup)

    for seed in range(RANDOM_KERNELS):
        case: Case = generate(random.Random(seed).randrange)
        wrong = differences(case.run(evaluator), case.run(gpu))
        assert not wrong, f"seed {seed}: {'; '.join(wrong)}"
    return f"{RANDOM_KERNELS} kernels, same bits"


@hetir.kernel
def place(out: hl.Array[hl.i64, 1]):
    """Each workgroup writes its y."""
    out[hl.group_id(1)] = hl.group_id(1) * 3


def folded_grid() -> str:
    """More workgroups in y than one launch takes."""
    out = np.zeros(70_000, np.int64)
    place.launch((out,), grid=(1, 70_000), workgroup=1, device=DEVICE).wait()
    assert (out == 3 * np.arange(70_000)).all()
    return "70,000 workgroups in y"


@hetir.kernel
def reverse(x: hl.Array[hl.f32, 1]):
    """Reverses 64 KiB through shared memory."""
    tile = hl.shared((16384,), hl.f32)
    i = hl.local_id(0)
    for k in range(16):
        tile[i + 1024 * k] = x[i + 1024 * k]
    hl.barrier()
    for k in range(16):
        x[i + 1024 * k] = tile[16383 - i - 1024 * k]


def large_shared() -> str:
    """Dynamic shared memory past 48 KiB."""
    x = np.arange(16384, dtype=np.float32)
    reverse.launch((x,), grid=1, workgroup=1024, device=DEVICE).wait()
    assert (x == np.arange(16384)[::-1]).all()
    return "64 KiB"


@hetir.kernel
def ticket(data: hl.Array[hl.i32, 1], flag: hl.Array[hl.i32, 1], out: hl.Array[hl.i32, 1]):
    """The last workgroup to arrive reads what all have written."""
    last = hl.shared((1,), hl.i32)
    i = hl.global_id(0)
    data[i] = hl.i32(i)
    hl.barrier()
    if hl.local_id(0) == 0:
        last[0] = hl.atomic_add(flag, 0, 1, order="acq_rel", scope="device")
    hl.barrier()
    if hl.assume_uniform(last[0]) == hl.i32(hl.num_groups(0)) - 1:
        total = hl.i32(0)
        for k in range(data.shape[0]):
            total = total + data[k]
        if hl.local_id(0) == 0:
            out[0] = total


def message_passing() -> str:
    """Release and acquire between workgroups, many times."""
    count = 64 * 128
    for _ in range(50):
        data, flag, out = np.zeros(count, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
        ticket.launch((data, flag, out), grid=64, workgroup=128, device=DEVICE).wait()
        assert flag[0] == 64
        assert out[0] == count * (count - 1) // 2, int(out[0])
    return "50 launches"


@hetir.kernel(cooperative=True)
def diffuse(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1], rounds: hl.i32):
    """Each round reads what other workgroups wrote in the one before."""
    i = hl.global_id(0)
    n = x.shape[0]
    for _ in range(rounds):
        y[i] = x[(i + 4097) % n] + x[i]
        hl.barrier(scope="device")
        x[i] = y[(i + 8191) % n] - y[i]
        hl.barrier(scope="device")


def grid_barrier() -> str:
    """A barrier over the whole grid."""
    x = np.arange(64 * 256, dtype=np.int32)
    want = x.copy()
    for _ in range(100):
        sums = np.roll(want, -4097) + want
        want = np.roll(sums, -8191) - sums
    diffuse.launch((x, np.zeros_like(x), 100), grid=64, workgroup=256, device=DEVICE).wait()
    assert (x == want).all()
    return "200 barriers of 64 workgroups"


def bandwidth() -> str:
    """GB/s of kernels on device arrays, beside torch."""
    said = []
    for name, size, moved in (
        ("vector_add", 1 << 26, 3 * 4 * (1 << 26)),
        ("transpose", (8192, 8192), 2 * 4 * 8192 * 8192),
        ("softmax", (16384, 4096), 2 * 4 * 16384 * 4096),
    ):
        case = library.case(name, size=size)
        (step,) = case.steps
        device = runtime.device(DEVICE)
        arguments = tuple(
            device.array(a) if isinstance(a, np.ndarray) else a for a in step.arguments
        )
        best = float("inf")
        for _ in range(REPEATS):
            run = step.kernel.launch(
                arguments, grid=step.grid, workgroup=step.workgroup, device=DEVICE
            )
            run.wait()
            best = min(best, run.seconds or best)
        said.append(f"{name} {moved / best / 1e9:.0f} GB/s{beside_torch(name, size, moved)}")
    return ", ".join(said)


def beside_torch(name: str, size: Any, moved: int) -> str:
    """The same by torch, where it is installed with CUDA."""
    try:
        import torch
    except ImportError:
        return ""
    if not torch.cuda.is_available():
        return ""
    x = torch.rand(size, device="cuda")
    out = torch.empty_like(x)
    action = {
        "vector_add": lambda: torch.add(x, x, out=out),
        "transpose": lambda: x.t().contiguous(),
        "softmax": lambda: torch.softmax(x, -1),
    }[name]
    best = float("inf")
    for _ in range(REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        action()
        end.record()
        end.synchronize()
        best = min(best, start.elapsed_time(end) / 1e3)
    return f" (torch {moved / best / 1e9:.0f})"


def launch_cost() -> str:
    """Microseconds from launch to wait, and without waiting."""
    device = runtime.device(DEVICE)
    out = device.array(np.zeros(4, np.int64))

    def go() -> runtime.Launch:
        return place.launch((out,), grid=1, workgroup=1, device=DEVICE)

    go().wait()
    begun = time.perf_counter()
    for _ in range(1000):
        go().wait()
    waited = (time.perf_counter() - begun) * 1e3
    begun = time.perf_counter()
    for _ in range(1000):
        last = go()
    queued = (time.perf_counter() - begun) * 1e3
    last.wait()
    return f"{waited:.1f} us with wait, {queued:.1f} us without"


def occupancy() -> str:
    """The driver's workgroups a multiprocessor equal hetir's own figure."""
    device = runtime.device(DEVICE)
    driver: Any = device.driver
    assert isinstance(driver, CudaDriver)
    for size in (64, 128, 256, 1024):
        art = hetir.compile(reverse, target=device.target, workgroup=(size,))
        if art.binary is None:
            return "no assembler: not compared"
        program = device.load(art)
        own = hetir.occupancy(
            device.target,
            workgroup_size=size,
            registers=art.resources.registers,
            shared_bytes=art.resources.shared_bytes,
        )
        theirs = driver.resident_groups(program.handle, size)
        assert own.groups_per_unit == theirs, f"{size}: {own.groups_per_unit} and {theirs}"
    return "equal at 64, 128, 256 and 1024 work-items"


def main() -> int:
    """All checks."""
    device = hetir.device(DEVICE)
    print(device.portrait.title, device.target, assembler.version() or "no assembler")
    for name in library.NAMES:
        check(name, lambda name=name: kernel_of_library(name))
    for name, action in (
        ("random kernels", random_kernels),
        ("grid past 65,535", folded_grid),
        ("shared memory past 48 KiB", large_shared),
        ("release and acquire", message_passing),
        ("grid barrier", grid_barrier),
        ("occupancy", occupancy),
        ("bandwidth", bandwidth),
        ("launch", launch_cost),
    ):
        check(name, action)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(results, indent=1))
    print(f"{len(results) - len(failures)} of {len(results)} checks passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
