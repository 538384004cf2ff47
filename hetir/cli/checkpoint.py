"""`hetir checkpoint` and `hetir resume`: look at a stopped launch, and go on with it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer

from hetir import checkpoint
from hetir.checkpoint import file
from hetir.checkpoint.snapshot import Snapshot
from hetir.cli.common import UsageError, parse_save, save_arrays


def register(app: typer.Typer) -> None:
    """Add `checkpoint info`, `checkpoint verify` and `resume`."""
    commands = typer.Typer(help="Launches that were stopped and saved.", no_args_is_help=True)
    commands.command()(info)
    commands.command()(verify)
    app.add_typer(commands, name="checkpoint")
    app.command()(resume)


def info(
    path: Annotated[Path, typer.Argument(metavar="FILE.hetck")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what a file holds: the kernel, the launch, how far it has come, its arguments."""
    found = checkpoint.load(path)
    told = _told(found, path)
    if as_json:
        print(json.dumps(told, indent=1))
        return
    for name, value in told.items():
        if name != "arguments":
            typer.echo(f"{name.replace('_', ' '):16} {value}")
    for name, shown in told["arguments"].items():
        typer.echo(f"  {name:14} {shown}")


def _told(found: Snapshot, path: Path) -> dict[str, Any]:
    status = found.status
    arguments = zip(found.names, found.values, strict=True)
    return {
        "file": str(path),
        "bytes": path.stat().st_size,
        "kernel": found.job.kernel.name,
        "grid": "x".join(map(str, found.job.grid)),
        "workgroup": "x".join(map(str, found.job.workgroup)),
        "mathematics": found.job.kernel.options.math,
        "launch": found.job.id,
        "epoch": found.epoch,
        "written_on": found.producer.get("device", ""),
        "workgroups": int(status.size),
        "done": int((status < 0).sum()),
        "stopped_on_the_way": int((status > 0).sum()),
        "not_started": int((status == 0).sum()),
        "safe_points": len(found.job.plan.points),
        "arguments": {name: _shown(value) for name, value in arguments},
    }


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return f"{array.dtype}{list(array.shape)}, {array.nbytes} bytes"
    return repr(value)


def verify(path: Annotated[Path, typer.Argument(metavar="FILE.hetck")]) -> None:
    """Check every checksum and every count of a file; exit status 1 if it is damaged."""
    found = checkpoint.load(path)
    size = path.stat().st_size
    pieces = -(-size // file.PIECE_BYTES)
    typer.echo(f"{path}: whole, {size} bytes in {pieces} pieces, kernel {found.job.kernel.name}")


def resume(
    path: Annotated[Path, typer.Argument(metavar="FILE.hetck")],
    device: Annotated[str, typer.Option(help="A name of `hetir devices`.")] = "cpu",
    out: Annotated[list[str] | None, typer.Option(help="NAME=file.npy: save an array.")] = None,
    allow_native: Annotated[
        bool, typer.Option(help="Go on with native mathematics, whose bits depend on the device.")
    ] = False,
) -> None:
    """Go on with a stopped launch on any device, to its end."""
    saves = dict(parse_save(text) for text in out or ())
    start = time.perf_counter()
    run = checkpoint.resume(path, device, allow_native=allow_native)
    for name in saves:
        if not isinstance(run.arguments.get(name), np.ndarray):
            raise UsageError(f"`{name}` of --out is not an array of {path}")
    run.wait()
    seconds = time.perf_counter() - start
    typer.echo(f"{run.kernel} on {device}: {seconds * 1e3:.2f} ms (compilation included)")
    save_arrays(saves, run.arguments)
