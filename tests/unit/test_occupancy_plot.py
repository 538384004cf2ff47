"""The picture of occupancy, read back: what it draws is what the model says."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

from hetir.cli import targets as targets_command
from hetir.cli.canvas import Dot, Path2D, PictureError
from hetir.cli.occupancy_plot import draw, panels, write_plot
from hetir.limits import devices, targets
from hetir.residency import occupancy

ANSWER = occupancy("ptx:sm_90", (16, 16), 40, 34816)
FIELDS = ("registers", "shared_bytes", "workgroup_size")


@pytest.mark.parametrize(
    "target", ["ptx:sm_86", "amd:gfx1100", "intel:xe-hpc", "ascend:950", "cpu"]
)
def test_every_step_is_the_models(target: str) -> None:
    answer = occupancy(target, 128, 60, 20000)
    for field, panel in zip(FIELDS, panels(answer), strict=True):
        assert panel.steps[0][0] == panel.values[0]
        assert panel.steps[-1][1] == panel.values[-1]
        for start, last, found in panel.steps:
            for value in (start, last):
                uses = {"registers": 60, "shared_bytes": 20000, "workgroup_size": 128}
                again = occupancy(target, **{**uses, field: value})
                assert (again.groups_per_unit, again.fraction) == (found.groups, found.fraction)


def test_the_kernels_point_lies_on_each_curve() -> None:
    drawing = draw(ANSWER, "matmul")
    # the first dot belongs to the legend
    dots = [s for s in drawing.shapes if isinstance(s, Dot)][1:]
    curves = [s for s in drawing.shapes if isinstance(s, Path2D) and len(s.points) > 2]
    assert len(dots) == len(curves) == 3
    for dot, curve in zip(dots, curves, strict=True):
        left, right = min(x for x, _ in curve.points), max(x for x, _ in curve.points)
        assert left <= dot.x <= right
        beside = {y for x, y in curve.points if abs(x - dot.x) < 20}
        assert dot.y in beside
    # three quarters of a panel of 200 above its foot
    assert {dot.y for dot in dots} == {84 + 200 * 0.25}


def test_svg_is_well_formed_and_stands_alone(tmp_path: Path) -> None:
    path = tmp_path / "o.svg"
    write_plot(path, ANSWER, "a<b>&c")
    root = ElementTree.parse(path).getroot()
    words = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "Occupancy: a<b>&c on NVIDIA capability 9.0" in words
    assert "registers a work-item" in words
    width = float(root.attrib["width"])
    for box in root.iter("{http://www.w3.org/2000/svg}rect"):
        assert float(box.attrib.get("x", 0)) + float(box.attrib["width"]) <= width
    assert "http" not in path.read_text().replace("http://www.w3.org/2000/svg", "")


def test_html_lists_limiters_and_advice(tmp_path: Path) -> None:
    path = tmp_path / "o.html"
    write_plot(path, ANSWER, "matmul")
    text = path.read_text()
    assert "<svg" in text
    assert "shared memory<td>6" in text
    assert ANSWER.suggestions[0].text in text
    assert "<script" not in text
    assert "src=" not in text


def test_png_shows_the_mark(tmp_path: Path) -> None:
    path = tmp_path / "o.png"
    write_plot(path, ANSWER, "matmul")
    with Image.open(path) as picture:
        drawing = draw(ANSWER, "matmul")
        assert picture.size == (2 * drawing.width, 2 * drawing.height)
        colors = {color for _, color in picture.getcolors(1 << 20)}
    # the mark, the line and the area
    assert {(200, 50, 30), (31, 95, 168), (219, 231, 245)} <= colors


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PictureError, match=r"end it in .html, .svg or .png"):
        write_plot(tmp_path / "o.pdf", ANSWER, "")


def test_targets_command() -> None:
    app = typer.Typer()
    targets_command.register(app)
    shown = CliRunner().invoke(app, [], env={"COLUMNS": "160"})
    assert shown.exit_code == 0
    for name in (*targets(), *devices()):
        assert name in shown.output
    listed = json.loads(CliRunner().invoke(app, ["--json"]).output)
    assert [entry["target"] for entry in listed["targets"]] == list(targets())
    by_name = {entry["target"]: entry for entry in listed["targets"] + listed["devices"]}
    assert by_name["ptx:sm_90"]["shared_bytes_optin"] == 232448
    assert by_name["ptx:sm_90"]["unit"]["carveouts_kib"][-1] == 228
    assert by_name["amd:gfx1100"]["sources"]["shared_granule"].startswith("Mesa")
