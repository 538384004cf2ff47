"""`hetir devices`: what can run kernels here, and what would bring the rest."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hetir import runtime


def register(app: typer.Typer) -> None:
    """Add `devices`."""
    app.command()(devices)


def devices(
    as_json: Annotated[bool, typer.Option("--json", help="Print every portrait as JSON.")] = False,
    links: Annotated[
        bool, typer.Option("--links", help="Measure copies to each and back.")
    ] = False,
) -> None:
    """List the devices of this machine, the CPU first, and why others are absent."""
    found, absent = runtime.devices(emulated=True), runtime.absent()
    for device in found if links else ():
        device.link()
    if as_json:
        portraits = [d.to_json() for d in found]
        print(json.dumps({"devices": portraits, "absent": [asdict(a) for a in absent]}, indent=1))
        return
    table = Table(title="devices")
    for head in ("name", "device", "target", "units", "memory", "workgroup", "shared"):
        table.add_column(head, justify="right" if head in ("units", "memory", "shared") else "left")
    for d in found:
        p = d.portrait
        table.add_row(
            p.name,
            p.title + (" (emulated)" if p.emulated else ""),
            _shown(p.targets),
            "" if p.units is None else str(p.units),
            "" if p.memory_bytes is None else f"{p.memory_bytes / 2**30:.1f} GiB",
            f"up to {p.limits.max_workgroup_size}",
            f"{p.limits.shared_bytes_optin // 1024} KiB",
        )
    console = Console()
    console.print(table)
    if links:
        console.print(_links(found))
    if absent:
        missing = Table(title="not here")
        for head in ("driver", "why", "what would bring it"):
            missing.add_column(head)
        for gap in absent:
            missing.add_row(gap.driver, escape(gap.reason), escape(gap.remedy))
        console.print(missing)


def _links(found: tuple[runtime.Device, ...]) -> Table:
    """What copies cost."""
    table = Table(title="copies")
    for head in ("name", "to", "from", "there and back"):
        table.add_column(head, justify="left" if head == "name" else "right")
    for d in found:
        link = d.link()
        speeds = (link.upload_bytes_per_second, link.download_bytes_per_second)
        rates = (f"{speed / 2**30:.1f} GiB/s" for speed in speeds)
        table.add_row(d.name, *rates, f"{link.latency_seconds * 1e6:.0f} us")
    return table


def _shown(targets: tuple[str, ...]) -> str:
    """The preferred target, and how many others run too."""
    others = len(targets) - 1
    return targets[0] + (f" and {others} more" if others else "")
