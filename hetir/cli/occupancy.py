"""`hetir occupancy`: what is resident on a device, what limits it, and a picture of it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from hetir.artifact import Artifact
from hetir.cli.common import find_kernel, parse_dims
from hetir.cli.occupancy_plot import write_plot
from hetir.compiler import compile as compile_kernel
from hetir.limits import devices, limits_of
from hetir.residency import Occupancy, occupancy

_LIMITERS = {
    "subgroups": "subgroup slots",
    "workgroups": "workgroup slots",
    "registers": "registers",
    "scalar_registers": "scalar registers",
    "shared_memory": "shared memory",
    "barriers": "barriers",
    "virtual_resources": "virtual resources",
}


def register(app: typer.Typer) -> None:
    """Add `occupancy`."""
    app.command(name="occupancy")(show)


def show(  # noqa: PLR0913, PLR0917 - an option for each figure
    kernel: Annotated[
        str | None,
        typer.Argument(metavar="[FILE.py:KERNEL]", help="Take the figures from this kernel."),
    ] = None,
    target: Annotated[str, typer.Option(help="A name of `hetir targets`.")] = "ptx:sm_90",
    signature: Annotated[
        str, typer.Option(help='"f32, f32[:], i64"; from annotations if left out.')
    ] = "",
    workgroup: Annotated[str, typer.Option(help="For example 16,16; 256 if left out.")] = "",
    registers: Annotated[
        int | None, typer.Option(help="Registers a work-item; 64 without a kernel.")
    ] = None,
    shared_bytes: Annotated[
        int | None,
        typer.Option(help="Static plus dynamic, of a workgroup; 49152 without a kernel."),
    ] = None,
    barriers: Annotated[int, typer.Option(help="Named barriers of a workgroup.")] = 1,
    carveout: Annotated[
        int | None, typer.Option(help="Shared-memory carve-out in percent (NVIDIA).")
    ] = None,
    subgroup: Annotated[int | None, typer.Option(help="Subgroup width, where it varies.")] = None,
    grid: Annotated[str, typer.Option(help="Workgroups, to show how the last wave fills.")] = "",
    units: Annotated[
        int | None, typer.Option(help="Multiprocessors, compute units or cores of the device.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write a picture: out.html, out.svg or out.png.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Show how many workgroups are resident on one unit of a device, and what limits them.

    Figures that are given win over those of the kernel.
    """
    size = parse_dims(workgroup, "--workgroup") if workgroup else (256,)
    given = {
        "registers": registers,
        "shared_bytes": shared_bytes,
        "carveout": carveout,
        "subgroup_size": subgroup,
    }
    note = ""
    if kernel is None:
        used = {name: value for name, value in given.items() if value is not None}
        answer = occupancy(target, size, barriers=barriers, **used)
    else:
        artifact = _compiled(kernel, signature, target, size)
        answer = artifact.occupancy(limits_of(target).target, barriers=barriers, **given)
        note = f"`{artifact.kernel}`, {_counted_by(artifact)}"
    extents = parse_dims(grid, "--grid") if grid else None
    if plot is not None:
        write_plot(plot, answer, kernel or "")
    if as_json:
        typer.echo(json.dumps(_plain(answer, extents, units), indent=2))
        return
    _print(Console(), answer, extents, units, note)
    if plot is not None:
        typer.echo(f"wrote {plot}")


def _compiled(spec: str, signature: str, target: str, workgroup: tuple[int, ...]) -> Artifact:
    """The kernel compiled for the target, or in portable form for a device that is none."""
    full = target if target.startswith("cpu:") else limits_of(target).target
    return compile_kernel(
        find_kernel(spec),
        signature or None,
        target="hetir" if full in devices() else full,
        workgroup=workgroup,
    )


def _counted_by(artifact: Artifact) -> str:
    """Who counted the figures, and what is spilled where that is known."""
    found = artifact.resources
    spilled = "" if found.spill_bytes is None else f", {found.spill_bytes} bytes spilled"
    return f"figures from {found.source}{spilled}"


def _print(
    console: Console,
    answer: Occupancy,
    extents: tuple[int, ...] | None,
    units: int | None,
    note: str,
) -> None:
    uses = answer.request
    console.print(f"[bold]{answer.limits.title}[/bold]" + (f", {note}" if note else ""))
    console.print(
        f"workgroup of {uses.workgroup_size}, {uses.registers} registers a work-item, "
        f"{uses.shared_bytes} bytes of shared memory"
    )
    console.print(
        f"[bold]{_counted(answer.groups_per_unit)}[/bold] on a unit, "
        f"{answer.subgroups_per_unit} of {answer.max_subgroups_per_unit} subgroups: "
        f"[bold]{answer.fraction:.0%}[/bold]"
    )
    console.print(_bounds(answer))
    for suggestion in answer.suggestions:
        console.print(f"{suggestion.text}: {suggestion.fraction:.0%}")
    if answer.fraction < 1 and not answer.suggestions:
        console.print("no single change holds more")
    if extents is not None:
        tail = answer.tail(extents, units)
        console.print(
            f"{_counted(tail.groups)} on {tail.units} units: {tail.waves} waves of "
            f"{tail.capacity}, {tail.last_wave_groups} in the last, "
            f"{tail.efficiency:.0%} of the places used"
        )
    for step in answer.carveouts():
        console.print(
            f"carve-out {step.percent:3}% ({step.shared_bytes // 1024} KiB): "
            f"{_counted(step.groups_per_unit)}"
        )


def _counted(groups: int) -> str:
    return "1 workgroup" if groups == 1 else f"{groups} workgroups"


def _bounds(answer: Occupancy) -> Table:
    table = Table()
    table.add_column("limited by")
    table.add_column("workgroups", justify="right")
    for name, bound in answer.bounds.items():
        mark = " [bold]<[/bold]" if name in answer.limiters else ""
        table.add_row(_LIMITERS[name], "any" if bound is None else f"{bound}{mark}")
    return table


def _plain(answer: Occupancy, extents: tuple[int, ...] | None, units: int | None) -> dict[str, Any]:
    return {
        "version": 1,
        "target": answer.limits.target,
        "request": asdict(answer.request),
        "groups_per_unit": answer.groups_per_unit,
        "subgroups_per_unit": answer.subgroups_per_unit,
        "max_subgroups_per_unit": answer.max_subgroups_per_unit,
        "fraction": answer.fraction,
        "limiter": answer.limiter,
        "limiters": list(answer.limiters),
        "bounds": dict(answer.bounds),
        "suggestions": [asdict(suggestion) for suggestion in answer.suggestions],
        "best_workgroup_size": answer.best_workgroup_size,
        "carveouts": [asdict(step) for step in answer.carveouts()],
        "tail": None if extents is None else asdict(answer.tail(extents, units)),
    }
