"""The command `hetir occupancy`: figures by hand, figures of a kernel, JSON, grid and picture."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from hetir.artifact import Artifact, Layout, Resources
from hetir.cli import occupancy as command


def _run(*arguments: str) -> Result:
    app = typer.Typer()
    command.register(app)
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "120"})


def test_figures_by_hand() -> None:
    shown = _run(
        "--target", "ptx:sm_90", "--workgroup", "16,16", "--registers", "80", "--grid", "300"
    )
    assert shown.exit_code == 0
    # 65536 registers of sm_90 hold 24 subgroups of 80; the default 49152 bytes four groups
    assert "3 workgroups on a unit, 24 of 64 subgroups: 38%" in shown.output
    assert "registers" in shown.output
    # 132 multiprocessors hold 396
    assert "300 workgroups on 132 units: 1 waves of 396, 300 in the last, 76%" in shown.output


def test_json_answers_a_program() -> None:
    shown = _run("--target", "gfx90a", "--registers", "128", "--shared-bytes", "0", "--json")
    answer = json.loads(shown.output)
    assert (answer["target"], answer["groups_per_unit"], answer["fraction"]) == (
        "amd:gfx90a",
        4,
        0.5,
    )
    assert answer["limiter"] == "registers"
    assert answer["suggestions"][0]["changes"] == {"registers": 96}


def _artifact(target: str, **figures: int | str | None) -> Artifact:
    return Artifact(
        kernel="matmul",
        target=target,
        entry="matmul",
        text="",
        binary=None,
        layout=Layout(slots=(), size=0),
        resources=Resources(**figures),  # pyright: ignore[reportArgumentType]
        workgroup=(16, 16, 1),
    )


def test_a_kernels_figures_come_from_its_artifact(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[object] = []

    def compiled(kernel: object, signature: object, **rest: object) -> Artifact:
        asked.append((kernel, signature, rest))
        return _artifact("ptx:sm_90", registers=40, shared_bytes=34816, source="ptxas 13.0")

    monkeypatch.setattr(command, "find_kernel", lambda spec: f"<{spec}>")
    monkeypatch.setattr(command, "compile_kernel", compiled)
    picture = tmp_path / "o.svg"
    shown = _run(
        *("k.py:matmul", "--target", "sm_90", "--signature", "f32[:]"),
        *("--workgroup", "16,16", "--plot", str(picture)),
    )
    assert asked == [("<k.py:matmul>", "f32[:]", {"target": "ptx:sm_90", "workgroup": (16, 16)})]
    assert "`matmul`, figures from ptxas 13.0" in shown.output
    # shared memory would let 6 groups in (34816 + 1024 of 233472 bytes), registers 65536 / 10240
    assert "6 workgroups on a unit, 48 of 64 subgroups: 75%" in shown.output
    assert "k.py:matmul" in picture.read_text()


def test_given_figures_win_and_unknown_ones_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_kernel", lambda spec: spec)
    monkeypatch.setattr(command, "compile_kernel", lambda *_, **__: _artifact("ptx:sm_90"))
    refused = _run("k.py:k")
    assert refused.exit_code == 1
    assert "give `registers=` with your estimate" in str(refused.exception)
    shown = _run("k.py:k", "--registers", "32", "--json")
    assert json.loads(shown.output)["request"]["registers"] == 32


def test_devices_without_a_backend_are_told_by_the_portable_kernel() -> None:
    shown = _run("kernels/matmul.py:matmul", "--target", "gfx942", "--workgroup", "16,16", "--json")
    answer = json.loads(shown.output)
    assert answer["target"] == "amd:gfx942"
    assert answer["request"]["shared_bytes"] == 128 * 64 * 4
    assert 24 < answer["request"]["registers"] <= 128


def test_llvm_tells_the_stack_on_a_cpu() -> None:
    shown = _run("kernels/saxpy.py:saxpy", "--target", "cpu", "--workgroup", "256")
    assert re.search(r"figures from LLVM .* register allocation, \d+ bytes spilled", shown.output)
    assert "1 workgroup on a unit" in shown.output
