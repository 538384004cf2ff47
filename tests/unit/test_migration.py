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
