"""`hetir cache`: the folder of compiled kernels."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from hetir import runtime
from hetir.cli.common import UsageError

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def register(app: typer.Typer) -> None:
    """Add `cache list`, `cache prune` and `cache clear`."""
    commands = typer.Typer(help="The compiled kernels on disk.", no_args_is_help=True)
    commands.command(name="list")(show)
    commands.command()(prune)
    commands.command()(clear)
    app.add_typer(commands, name="cache")


def show(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the entries, the last used first."""
    store = runtime.cache()
    entries = sorted(store.entries(), key=lambda e: -e.used)
    if as_json:
        rows = [{"key": e.key, "bytes": e.size, "used": e.used} for e in entries]
        print(json.dumps({"folder": str(store.folder), "entries": rows}, indent=1))
        return
    for e in entries:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(e.used))
        typer.echo(f"{e.key[:16]}  {e.size:>9} bytes  used {used}")
    total = sum(e.size for e in entries)
    typer.echo(f"{len(entries)} entries, {total} bytes in {store.folder}")
    if store.refusal:
        typer.echo(f"not used: {store.refusal}", err=True)


def prune(
    size: Annotated[str, typer.Option(help="Keep at most this much: 500M, 2G.")] = "",
) -> None:
    """Remove the entries that were not used for longest."""
    removed = runtime.cache().prune(_bytes(size) if size else None)
    typer.echo(f"removed {removed} entries")


def clear() -> None:
    """Remove every entry."""
    typer.echo(f"removed {runtime.cache().clear()} entries")


def _bytes(text: str) -> int:
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    if not number.isdigit() or unit not in _UNITS:
        raise UsageError(f"`{text}` is not a size", hint="write 500M or 2G")
    return int(number) * _UNITS[unit]
