"""Checks hetir on an NVIDIA GPU in a few minutes: `python tests/device/nvidia.py [--out FILE]`.

Every kernel of the library on the GPU against the CPU, bit for bit; random kernels against the
evaluator; grids past 65,535, shared memory past 48 KiB, graphs, cooperative launches, checkpoints
to and from the CPU, copies to a second GPU; then the error of the GPU's own functions, bandwidth
beside torch where it is installed, and the cost of a launch. One line each; exit status 1 when a
check fails. `--out` writes the lines and all numbers as JSON, for bench/results.

Without a GPU `--device ptx-emulator --small` runs the same script on the PTX emulator.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
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
from hetir.target import Assumptions
from hetir.testing import Case, differences, evaluator, generate

REPEATS = 20
results: dict[str, Any] = {}
numbers: dict[str, float] = {}
failures: list[str] = []


class Asked:
    """What the command line asks for."""

    device = "cuda:0"
    small = False


def on_cuda() -> bool:
    """Whether the device is a GPU by libcuda."""
    return Asked.device.startswith("cuda:")


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
    program = runtime.device(Asked.device).load(artifact, [f"p{k}" for k in range(len(arguments))])
    program.launch(arguments, grid=grid, workgroup=workgroup).wait()


def kernel_of_library(name: str) -> str:
    """One library kernel: within its tolerance, and the CPU's bits."""
    found = []
    for device in (Asked.device, "cpu"):
        case = library.case(name, size=library.SMALL[name])
        case.run(device)
        error = case.error()
        assert error <= case.tolerance, f"error {error} on {device}"
        found.append([np.array(v) for v in case.results.values()])
    wrong = differences(*found)
    assert not wrong, "; ".join(wrong)
    return "same bits"


def scenarios() -> str:
    """The synchronising kernels, again and again: each result right, none of them stuck."""
    turns = 1 if Asked.small else 20
    for name in library.SYNC:
        for seed in range(turns):
            case = library.scenario(name).case(np.random.default_rng(seed))
            case.reset()
            case.run(Asked.device)
            assert case.error() == 0, f"{name}, turn {seed}"
    return f"{len(library.SYNC)} scenarios, {turns} times each"


def random_kernels() -> str:
    """Generated kernels against the evaluator, with 64- and 32-bit indices, as PTX and as cubin."""
    target = runtime.device(Asked.device).target
    random_count = 8 if Asked.small else 200

    def gpu(kernel: Kernel, arguments: list[Any], grid: Any, workgroup: Any) -> None:
        promised = Assumptions(index_bits=(64, 32)[seed % 2])
        made = ptx.compile_kernel(
            kernel, target=target, assumptions=promised, binary=bool(seed % 4 // 2)
        )
        on_gpu(made, arguments, grid, workgroup)

    for seed in range(random_count):
        case: Case = generate(random.Random(seed).randrange)
        wrong = differences(case.run(evaluator), case.run(gpu))
        assert not wrong, f"seed {seed}: {'; '.join(wrong)}"
    return f"{random_count} kernels, same bits"


@hetir.kernel
def place(out: hl.Array[hl.i64, 1]):
    """Each workgroup writes its y."""
    out[hl.group_id(1)] = hl.group_id(1) * 3


def folded_grid() -> str:
    """More workgroups in y than one launch takes."""
    count = 66_000 if Asked.small else 70_000
    out = np.zeros(count, np.int64)
    place.launch((out,), grid=(1, count), workgroup=1, device=Asked.device).wait()
    assert (out == 3 * np.arange(count)).all()
    return f"{count} workgroups in y"


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
    reverse.launch((x,), grid=1, workgroup=1024, device=Asked.device).wait()
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
    count, launches = 64 * 128, 1 if Asked.small else 50
    for _ in range(launches):
        data, flag, out = np.zeros(count, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
        ticket.launch((data, flag, out), grid=64, workgroup=128, device=Asked.device).wait()
        assert flag[0] == 64
        assert out[0] == count * (count - 1) // 2, int(out[0])
    return f"{launches} launches"


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
    groups, rounds = (2, 3) if Asked.small else (64, 100)
    x = np.arange(groups * 256, dtype=np.int32)
    want = x.copy()
    for _ in range(rounds):
        sums = np.roll(want, -4097) + want
        want = np.roll(sums, -8191) - sums
    arguments = (x, np.zeros_like(x), rounds)
    diffuse.launch(arguments, grid=groups, workgroup=256, device=Asked.device).wait()
    assert (x == want).all()
    return f"{2 * rounds} barriers of {groups} workgroups"


@hetir.kernel
def walk(x: hl.Array[hl.f32, 1], steps: hl.i32):
    """A long loop, which `checkpoint=True` can stop in each turn."""
    i = hl.global_id(0)
    v = x[i]
    for k in range(steps):
        v = v * 0.999 + hl.sqrt(hl.f32(k) + v)
    x[i] = v


def checkpoints() -> str:
    """Stopped on the GPU and resumed on the CPU, and the other way round: the CPU's bits."""
    items, steps = (64, 400) if Asked.small else (1 << 16, 20_000)
    start = np.random.default_rng(3).random(items, np.float32)
    want = start.copy()
    walk.launch((want, steps), grid=items // 64, workgroup=64, device="cpu").wait()
    with tempfile.TemporaryDirectory() as folder:
        for here, there in ((Asked.device, "cpu"), ("cpu", Asked.device)):
            x, file = start.copy(), Path(folder) / "walk.hetck"
            run = walk.launch(
                (x, steps), grid=items // 64, workgroup=64, device=here, checkpoint=True
            )
            run.checkpoint(file, timeout=60)
            moved = hetir.resume(file, device=there)
            moved.wait()
            (got,) = (a for a in moved.arguments.values() if isinstance(a, np.ndarray))
            assert got.tobytes() == want.tobytes(), f"{here} to {there}"
    return f"{items} work-items, {steps} steps, both ways"


@hetir.kernel
def scale(x: hl.Array[hl.f32, 1]):
    """Doubles x."""
    i = hl.global_id(0)
    x[i] = x[i] * 2.0


def graphs() -> str:
    """Recorded once, replayed many times."""
    device, replays = runtime.device(Asked.device), 3 if Asked.small else 100
    x = device.array(np.ones(256, np.float32))
    with hetir.Graph() as graph:
        for _ in range(4):
            scale.launch((x,), grid=4, workgroup=64, device=Asked.device)
    plan = graph.instantiate()
    begun = time.perf_counter()
    for _ in range(replays):
        plan.replay().wait()
        assert x.numpy()[0] == 16.0
        x.copy_from(np.ones(256, np.float32))
    numbers["graph of 4 launches us"] = (time.perf_counter() - begun) / replays * 1e6
    return f"{replays} replays of 4 launches"


def second_gpu() -> str:
    """An array to the second GPU and back."""
    names = [d.name for d in hetir.devices() if d.name.startswith("cuda:")]
    if len(names) < 2:
        return "only one GPU"
    x = np.random.default_rng(5).random(1 << 22, np.float32)
    first = runtime.device(names[0]).array(x)
    begun = time.perf_counter()
    there = first.to(names[1])
    numbers["peer copy GB/s"] = x.nbytes / (time.perf_counter() - begun) / 1e9
    assert (there.to(names[0]).numpy() == x).all()
    return f"{numbers['peer copy GB/s']:.1f} GB/s"


@hetir.kernel(math="native")
def approximate(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 2]):
    """The GPU's own functions."""
    i = hl.global_id(0)
    v = x[i]
    y[i, 0] = hl.exp(v)
    y[i, 1] = hl.log(v)
    y[i, 2] = hl.sin(v)
    y[i, 3] = hl.rsqrt(v)
    y[i, 4] = hl.tanh(v)
    y[i, 5] = v / 3.0


def native_errors() -> str:
    """The largest errors of `math="native"` on (0, 2 pi), which docs/math.md bounds."""
    x = np.random.default_rng(1).uniform(1e-3, 6.28, 1 << 12).astype(np.float32)
    y = np.zeros((x.size, 6), np.float32)
    approximate.launch((x, y), grid=x.size // 64, workgroup=64, device=Asked.device).wait()
    v = x.astype(np.float64)
    exact = {"exp": np.exp(v), "log": np.log(v), "sin": np.sin(v), "rsqrt": v**-0.5}
    exact |= {"tanh": np.tanh(v), "quotient": v / 3}
    said: list[str] = []
    for column, (name, want) in enumerate(exact.items()):
        error = np.abs(y[:, column] - want)
        if name not in ("sin", "log"):
            error /= np.abs(want)
        numbers[f"error {name}"] = worst = float(error.max())
        most = {"tanh": 2**-11, "sin": 2**-20.5, "log": 2**-21 * 6}.get(name, 2**-19.5)
        assert worst <= most, f"{name}: {worst}"
        said.append(f"{name} {worst:.1e}")
    return ", ".join(said)


def bandwidth() -> str:
    """GB/s of kernels on device arrays, beside torch."""
    said: list[str] = []
    count, side, rows, repeats = 1 << 26, 8192, (16384, 4096), REPEATS
    if Asked.small:
        count, side, rows, repeats = 1 << 12, 64, (8, 64), 1
    for name, size, moved in (
        ("vector_add", count, 3 * 4 * count),
        ("transpose", (side, side), 2 * 4 * side * side),
        ("softmax", rows, 2 * 4 * rows[0] * rows[1]),
    ):
        case = library.case(name, size=size)
        (step,) = case.steps
        device = runtime.device(Asked.device)
        arguments = tuple(
            device.array(a) if isinstance(a, np.ndarray) else a for a in step.arguments
        )
        best = float("inf")
        for _ in range(repeats):
            run = step.kernel.launch(
                arguments, grid=step.grid, workgroup=step.workgroup, device=Asked.device
            )
            run.wait()
            best = min(best, run.seconds or best)
        numbers[f"{name} GB/s"] = moved / best / 1e9
        said.append(f"{name} {moved / best / 1e9:.3g} GB/s{beside_torch(name, size, moved)}")
    return ", ".join(said)


def beside_torch(name: str, size: Any, moved: int) -> str:
    """The same by torch, where it is installed with CUDA."""
    try:
        import torch
    except ImportError:
        return ""
    if not on_cuda() or not torch.cuda.is_available():
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
    numbers[f"{name} by torch GB/s"] = moved / best / 1e9
    return f" (torch {moved / best / 1e9:.3g})"


def launch_cost() -> str:
    """Microseconds from launch to wait, and without waiting."""
    device = runtime.device(Asked.device)
    out = device.array(np.zeros(4, np.int64))

    def go() -> runtime.Launch:
        return place.launch((out,), grid=1, workgroup=1, device=Asked.device)

    launches = 5 if Asked.small else 1000
    go().wait()
    begun = time.perf_counter()
    for _ in range(launches):
        go().wait()
    numbers["launch and wait us"] = (time.perf_counter() - begun) / launches * 1e6
    begun = time.perf_counter()
    for _ in range(launches):
        last = go()
    numbers["launch us"] = (time.perf_counter() - begun) / launches * 1e6
    last.wait()
    waited, queued = numbers["launch and wait us"], numbers["launch us"]
    return f"{waited:.1f} us with wait, {queued:.1f} us without"


def occupancy() -> str:
    """The driver's workgroups a multiprocessor equal hetir's own figure."""
    device = runtime.device(Asked.device)
    driver: Any = device.driver
    if not on_cuda():
        return "no CUDA driver: not compared"
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


CHECKS: tuple[tuple[str, Callable[[], str]], ...] = (
    ("synchronising kernels", scenarios),
    ("random kernels", random_kernels),
    ("grid past 65,535", folded_grid),
    ("shared memory past 48 KiB", large_shared),
    ("release and acquire", message_passing),
    ("grid barrier", grid_barrier),
    ("graphs", graphs),
    ("checkpoints", checkpoints),
    ("second GPU", second_gpu),
    ("occupancy", occupancy),
    ("native functions", native_errors),
    ("bandwidth", bandwidth),
    ("launch", launch_cost),
)


def main() -> int:
    """All checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--out", type=Path, help="where the JSON goes")
    parser.add_argument("--small", action="store_true", help="tiny sizes and two library kernels")
    asked = parser.parse_args()
    Asked.device, Asked.small = asked.device, asked.small
    device = hetir.device(Asked.device)
    tool = assembler.assembler_version() or "no assembler"
    print(device.portrait.title, device.target, tool)
    for name in ("saxpy", "histogram") if Asked.small else library.NAMES:
        check(name, lambda name=name: kernel_of_library(name))
    for name, action in CHECKS:
        check(name, action)
    if asked.out:
        found = {
            "date": datetime.now(UTC).date().isoformat(),
            "device": device.portrait.title,
            "target": device.target,
            "assembler": tool,
            "checks": results,
            "failures": failures,
            "numbers": {name: float(f"{value:.5g}") for name, value in numbers.items()},
        }
        asked.out.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{len(results) - len(failures)} of {len(results)} checks passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
