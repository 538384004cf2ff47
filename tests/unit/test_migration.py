"""The migration matrix: a sample of kernels over every ordered pair of devices that are here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import hetir

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
