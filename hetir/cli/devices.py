"""`hetir devices`: what can run kernels here, and what is missing."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hetir import runtime


def register(app: typer.Typer) -> None:
    """Add `devices`."""
    app.command()(devices)


def devices(
    as_json: Annotated[bool, typer.Option("--json", help="Print every portrait as JSON.")] = False,
) -> None:
    """List the devices of this machine, and why the others are absent."""
    raise typer.Exit(2) if not hasattr(runtime, "devices") else None
