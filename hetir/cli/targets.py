"""`hetir targets`: what hetir compiles for, and the limits of each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

import typer
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
    table = Table(title=title, title_justify="left")
    for column in ("name", "what", "subgroup", "workgroup", "shared KiB", "with opt-in"):
        table.add_column(column, justify="left" if column in ("name", "what") else "right")
    for entry in entries:
        table.add_row(
            entry.target,
            entry.title,
            _range(entry.subgroup_sizes),
            str(entry.max_workgroup_size),
            _kib(entry.shared_bytes),
            _kib(entry.shared_bytes_optin),
        )
    return table


def _range(sizes: tuple[int, ...]) -> str:
    return str(sizes[0]) if len(sizes) == 1 else f"{min(sizes)} to {max(sizes)}"


def _kib(count: int) -> str:
    return f"{count / 1024:g}"


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
