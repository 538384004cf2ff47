"""The migration matrix: a sample of kernels over every ordered pair of devices that are here."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hetir
from hetir import library

ROOT = Path(__file__).parents[2]


def run_matrix(tmp_path: Path, *options: str) -> dict:
    """In a process of its own: a broken vendor library may end it."""
    path = tmp_path / "matrix.json"
    command = [sys.executable, "-m", "tools.migration_matrix", "--json", str(path), *options]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=3600
    )
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
    return json.loads(path.read_text())


def test_a_sample_of_the_matrix(tmp_path):
    found = run_matrix(tmp_path, "--kernels", "softmax,transpose", "--stops", "9")
    assert {"cpu", "emulator", "ptx-emulator"} <= set(found["devices"])
    assert {d.name for d in hetir.devices()} <= set(found["devices"])
    for kernel, row in found["kernels"].items():
        assert len(row) == len(found["devices"]) ** 2
        assert {r for cell in row.values() for r in cell["result"]} == {"equal"}, kernel
        assert sum(cell["midway"] for cell in row.values()) > len(row) // 2


@pytest.mark.slow
def test_the_whole_matrix(tmp_path):
    found = run_matrix(tmp_path)
    for row in found["kernels"].values():
        results = {r for cell in row.values() for r in cell["result"]}
        assert "DIFFERENT" not in results
        assert "equal" in results


def test_the_example_of_a_killed_job():
    command = [sys.executable, "examples/migrate.py", "--device", "ptx-emulator"]
    ended = subprocess.run(
        [*command, "--paths", "150", "--groups", "4"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
    assert "the bits are equal" in ended.stdout


@pytest.mark.slow
def test_20_random_hops(tmp_path):
    """Random devices, random stops, one launch; NumPy says what comes out."""
    script = """
import random, sys, warnings
import numpy as np
import hetir
from test_checkpoint import rotate, rotated, rows
warnings.simplefilter("ignore", RuntimeWarning)
choose, path, x = random.Random(3), sys.argv[1], rows()
names = [*(d.name for d in hetir.devices()), "emulator", "ptx-emulator"]
stop = lambda: hetir.StopAt(safe_points=choose.randrange(10, 70), path=path)
run = rotate.launch((x, np.zeros_like(x), 60), grid=8, workgroup=32, checkpoint=stop())
run.wait()
for _ in range(20):
    run = hetir.resume(path, choose.choice(names), stop=stop())
    run.wait()
run = hetir.resume(path)
run.wait()
assert (run.arguments["y"] == rotated(x, 60)).all()
"""
    command = [sys.executable, "-c", script, str(tmp_path / "job.hetck")]
    ended = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False, timeout=900
    )
    assert ended.returncode == 0, ended.stderr[-2000:]


JOBS = ("nbody", "jacobi", "mandelbrot", "matmul", "flash_attention", "monte_carlo")
KILLED = """
import sys
import hetir
from hetir import library
step = library.case(sys.argv[1], size=library.SMALL[sys.argv[1]]).steps[0]
stop = hetir.StopAt(safe_points=2, path=sys.argv[2])
step.kernel.launch(
    step.arguments, grid=step.grid, workgroup=step.workgroup, checkpoint=stop
).wait()
while True:
    print("saved", flush=True)
    hetir.resume(sys.argv[2], stop=stop).wait()
"""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "matmul" else pytest.mark.slow) for n in JOBS]
)
def test_well_known_jobs_are_killed_and_go_on_elsewhere(name, tmp_path):
    """SIGKILL in the middle of the grid; the rest on another device, to the same bits."""
    path = tmp_path / "job.hetck"
    command = [sys.executable, "-c", KILLED, name, str(path)]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "saved\n"
    child.kill()
    child.wait()
    child.stdout.close()
    found = hetir.checkpoint.load(hetir.checkpoint.latest(tmp_path))
    assert not found.done
    run = hetir.resume(hetir.checkpoint.latest(tmp_path), "opencl:0")
    run.wait()
    step = library.case(name, size=library.SMALL[name]).steps[0]
    step.kernel.launch(step.arguments, grid=step.grid, workgroup=step.workgroup).wait()
    arrays = [a for a in step.arguments if isinstance(a, np.ndarray)]
    assert arrays
    for got, want in zip(run.arguments.values(), step.arguments, strict=True):
        if isinstance(want, np.ndarray):
            assert got.tobytes() == want.tobytes()


def test_a_large_checkpoint_shows_its_progress_on_a_terminal(tmp_path):
    script = (
        "import numpy as np, hetir, hetir.checkpoint.launch as launch, kernels_of_test as k;"
        "launch._SHOWN_BYTES = 1;"
        "run = k.touch.launch((np.zeros(1 << 22, np.float32),), grid=1, workgroup=1,"
        " checkpoint=True); run.wait(); run.checkpoint('job.hetck')"
    )
    (tmp_path / "kernels_of_test.py").write_text(
        "import hetir, hetir.lang as hl\n\n\n@hetir.kernel\ndef touch(x: hl.Array[hl.f32, 1]):\n"
        "    x[0] = 1.0\n"
    )
    reader, writer = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}", "TERM": "xterm"}
    child = subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, stderr=writer, env=environment
    )
    os.close(writer)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while data := os.read(reader, 65536):
            shown += data
    os.close(reader)
    assert child.wait() == 0, shown.decode()
    assert b"saving job.hetck" in shown
    assert (tmp_path / "job.hetck").stat().st_size > 1 << 24
