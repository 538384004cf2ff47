"""The picture of `hetir occupancy --plot`: occupancy against each figure, the kernel marked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby
from pathlib import Path

from hetir.cli.canvas import (
    Box,
    Dot,
    Drawing,
    Path2D,
    PictureError,
    Shape,
    Words,
    svg,
    write_png,
)
from hetir.limits import AmdUnit, AscendUnit, IntelUnit, Limits, NvidiaUnit
from hetir.residency import Occupancy, Residency, residency_of

_PANEL_WIDTH, _PANEL_HEIGHT = 270, 200
_LEFT, _TOP, _GAP = 56, 84, 44
_LINE, _AREA, _MARK, _GRID = "#1f5fa8", "#dbe7f5", "#c8321e", "#d8d8d8"
_SHARED_POINTS = 900

Axis = Callable[[float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Occupancy against one figure of the request; `ticks` label the axis."""

    title: str
    field: str
    values: range
    ticks: tuple[tuple[int, str], ...]
    steps: tuple[tuple[int, int, Residency], ...]


def write_plot(path: Path, answer: Occupancy, name: str) -> None:
    """Write the picture as the suffix says: .svg, .html or .png."""
    drawing = draw(answer, name)
    match path.suffix:
        case ".svg":
            path.write_text(svg(drawing), encoding="utf-8")
        case ".html":
            path.write_text(_page(answer, name, svg(drawing)), encoding="utf-8")
        case ".png":
            write_png(drawing, path)
        case _:
            raise PictureError(
                f"cannot tell the format of {path}", hint="end it in .html, .svg or .png"
            )


def draw(answer: Occupancy, name: str) -> Drawing:
    """Three panels side by side under a title."""
    shapes: list[Shape] = [*_heading(answer, name)]
    for index, panel in enumerate(panels(answer)):
        shapes += _panel(panel, answer, _LEFT + index * (_PANEL_WIDTH + _GAP))
    width = _LEFT + 3 * _PANEL_WIDTH + 2 * _GAP + 24
    return Drawing(width=width, height=_TOP + _PANEL_HEIGHT + 56, shapes=tuple(shapes))


def panels(answer: Occupancy) -> tuple[Panel, Panel, Panel]:
    """The request with one figure at a time swept over what the target allows."""
    limits, uses = answer.limits, answer.request
    most = max(_most_registers(limits), uses.registers)
    step = max(128, limits.shared_bytes_optin // _SHARED_POINTS // 128 * 128)
    shared = range(0, max(limits.shared_bytes_optin, uses.shared_bytes) + 1, step)
    width = uses.subgroup_size
    sizes = range(width, max(limits.max_workgroup_size, uses.workgroup_size) + 1, width)
    return (
        _sweep(answer, "registers a work-item", "registers", range(1, most + 1), 1, 64),
        _sweep(answer, "shared memory a workgroup, KiB", "shared_bytes", shared, 1024, 16),
        _sweep(answer, "work-items a workgroup", "workgroup_size", sizes, 1, 256),
    )


def _most_registers(limits: Limits) -> int:
    match limits.unit:
        case NvidiaUnit():
            return 255
        case AmdUnit() as unit:
            return unit.max_vector_registers
        case IntelUnit() as unit:
            return max(unit.registers, unit.large_registers)
        case AscendUnit(register_steps=steps) if steps:
            return steps[0][1]
        case _:
            return 255


def _sweep(
    answer: Occupancy, title: str, field: str, values: range, unit: int, every: int
) -> Panel:
    found = [
        (value, residency_of(answer.limits, replace(answer.request, **{field: value})))
        for value in values
    ]
    steps: list[tuple[int, int, Residency]] = []
    for _, run in groupby(found, key=lambda pair: (pair[1].groups, pair[1].fraction)):
        members = list(run)
        steps.append((members[0][0], members[-1][0], members[0][1]))
    last = values[-1] // unit
    spacing = every
    while last > 5 * spacing:
        spacing *= 2
    ticks = tuple((tick * unit, str(tick)) for tick in range(0, last + 1, spacing))
    return Panel(title=title, field=field, values=values, ticks=ticks, steps=tuple(steps))


def _heading(answer: Occupancy, name: str) -> Iterator[Shape]:
    uses = answer.request
    title = f"{name} on {answer.limits.title}" if name else answer.limits.title
    yield Words(x=_LEFT, y=28, text=f"Occupancy: {title}", size=17, bold=True)
    yield Dot(x=_LEFT + 6, y=48, radius=5, color=_MARK)
    yield Words(
        x=_LEFT + 18,
        y=52,
        text=f"workgroup of {uses.workgroup_size}, {uses.registers} registers, "
        f"{uses.shared_bytes} bytes of shared memory: {_counted(answer.groups_per_unit)} a unit, "
        f"{answer.fraction:.0%}{_because(answer)}",
    )


def _counted(groups: int) -> str:
    return "1 workgroup" if groups == 1 else f"{groups} workgroups"


def _because(answer: Occupancy) -> str:
    if answer.fraction == 1:
        return ""
    return f", limited by {' and '.join(answer.limiters).replace('_', ' ')}"


def _panel(panel: Panel, answer: Occupancy, left: float) -> Iterator[Shape]:
    low, high = 0, panel.values[-1]

    def x(value: float) -> float:
        return left + _PANEL_WIDTH * (value - low) / (high - low)

    def y(fraction: float) -> float:
        return _TOP + _PANEL_HEIGHT * (1 - fraction)

    for percent in (0, 25, 50, 75, 100):
        level = y(percent / 100)
        yield Path2D(points=((left, level), (left + _PANEL_WIDTH, level)), color=_GRID)
        yield Words(x=left - 6, y=level + 4, text=f"{percent}%", size=11, anchor="end")
    for value, label in panel.ticks:
        yield Path2D(points=((x(value), y(0)), (x(value), y(0) + 4)), color="#888888")
        yield Words(x=x(value), y=y(0) + 18, text=label, size=11, anchor="middle")
    yield Words(x=left + _PANEL_WIDTH / 2, y=y(0) + 40, text=panel.title, anchor="middle")
    yield from _curve(panel, x, y)
    value = getattr(answer.request, panel.field)
    yield Path2D(points=((x(value), y(0)), (x(value), y(answer.fraction))), color=_MARK)
    yield Dot(x=x(value), y=y(answer.fraction), radius=5, color=_MARK)


def _curve(panel: Panel, x: Axis, y: Axis) -> Iterator[Shape]:
    """The steps as an area and a line, with a tip over each."""
    points: list[tuple[float, float]] = []
    tips: list[Shape] = []
    for start, last, found in panel.steps:
        # hardware rounds up, so a value stands for all down to the one before it
        left, right, level = x(max(0, start - panel.values.step)), x(last), y(found.fraction)
        yield Box(x=left, y=level, width=right - left, height=y(0) - level, color=_AREA)
        points += [(left, level), (right, level)]
        tip = f"{start} to {last}: {_counted(found.groups)}, {found.fraction:.0%}"
        height = y(0) - y(1)
        tips.append(Box(x=left, y=y(1), width=right - left, height=height, color="none", tip=tip))
    yield Path2D(points=tuple(points), color=_LINE, width=2)
    yield from tips


def _page(answer: Occupancy, name: str, picture: str) -> str:
    """One HTML page without any outside file: the picture, the limiters and the advice."""
    title = escape(f"Occupancy of {name}" if name else f"Occupancy on {answer.limits.title}")
    rows = "".join(
        f"<tr{' class=least' if limiter in answer.limiters else ''}><td>"
        f"{limiter.replace('_', ' ')}<td>{'any' if bound is None else bound}"
        for limiter, bound in answer.bounds.items()
    )
    advice = (
        "".join(f"<li>{escape(s.text)}: {s.fraction:.0%}" for s in answer.suggestions)
        or "<li>nothing holds more by one change"
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        "<style>body{font:14px Helvetica,Arial,sans-serif;margin:2em;color:#333}"
        "svg{max-width:100%;height:auto}td{padding:2px 16px 2px 0}td+td{text-align:right}"
        ".least{font-weight:bold;color:#c8321e}</style>"
        f"{picture}<h2>Workgroups that each limiter admits</h2><table>{rows}</table>"
        f"<h2>What holds more</h2><ul>{advice}</ul></html>\n"
    )
