"""`hetir targets`: what hetir compiles for, and the limits of each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from hetir import limits
from hetir.limits import Limits


def register(app: typer.Typer) -> None:
    """Add `targets`."""
    app.command()(targets)


def targets(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every figure and its source as JSON.")
    ] = False,
) -> None:
    """List the targets, and the devices that the occupancy model knows, with their limits."""
    if as_json:
        listed = {
            "version": 1,
            "targets": [_plain(entry) for entry in limits.targets().values()],
            "devices": [_plain(entry) for entry in limits.devices().values()],
        }
        typer.echo(json.dumps(listed, indent=2))
        return
    console = Console()
    console.print(_table("Targets", limits.targets().values()))
    console.print(_table("Devices known to `hetir occupancy`", limits.devices().values()))


def _table(title: str, entries: Iterable[Limits]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("what")
    for column in ("subgroup", "workgroup", "shared KiB"):
        table.add_column(column, justify="right", no_wrap=True)
    for entry in entries:
        shared = (entry.shared_bytes // 1024, entry.shared_bytes_optin // 1024)
        table.add_row(
            entry.target,
            entry.title,
            _range(entry.subgroup_sizes),
            str(entry.max_workgroup_size),
            _range(shared),
        )
    return table


def _range(sizes: tuple[int, ...]) -> str:
    low, high = min(sizes), max(sizes)
    return str(low) if low == high else f"{low} to {high}"


def _plain(entry: Limits) -> dict[str, Any]:
    """The limits as JSON knows them; the sources are a mapping of their own."""
    unit = None if entry.unit is None else asdict(entry.unit)
    plain = {name: getattr(entry, name) for name in Limits.__dataclass_fields__ if name != "unit"}
    return {
        **plain,
        "features": sorted(entry.features),
        "sources": dict(entry.sources),
        "unit": unit,
    }
