"""`hetir run`: launch a kernel of a file on arrays from files."""

from __future__ import annotations

import time
from typing import Annotated

import numpy as np
import typer

from hetir.cli.common import (
    UsageError,
    find_launchable,
    parse_arguments,
    parse_dims,
    parse_save,
    save_arrays,
)


def register(app: typer.Typer) -> None:
    """Add `run`."""
    app.command()(run)


def run(
    kernel: Annotated[str, typer.Argument(metavar="FILE.py:KERNEL|FILE.hetbin:KERNEL")],
    values: Annotated[list[str] | None, typer.Argument(metavar="NAME=VALUE")] = None,
    grid: Annotated[str, typer.Option(help="Workgroups: G, or X,Y,Z.")] = "",
    workgroup: Annotated[str, typer.Option(help="Work-items a workgroup: W, or X,Y,Z.")] = "",
    device: Annotated[str, typer.Option(help="A name of `hetir devices`.")] = "cpu",
    out: Annotated[list[str] | None, typer.Option(help="NAME=file.npy: save an array.")] = None,
) -> None:
    """Run a kernel: values are numbers, .npy files, or f32[4096,1024] for zeros."""
    found = find_launchable(kernel)
    saves = dict(parse_save(text) for text in out or ())
    arguments = parse_arguments(found, values or (), saves)
    for name in saves:
        if name not in arguments or not isinstance(arguments[name], np.ndarray):
            raise UsageError(f"`{name}` of --out is not an array parameter of `{found.name}`")
    groups, items = found.launch_shape(
        arguments,
        parse_dims(grid, "--grid") if grid else None,
        parse_dims(workgroup, "--workgroup") if workgroup else None,
    )
    start = time.perf_counter()
    found.launch(tuple(arguments.values()), grid=groups, workgroup=items, device=device).wait()
    seconds = time.perf_counter() - start
    shape = f"{'x'.join(map(str, groups))} workgroups of {'x'.join(map(str, items))}"
    typer.echo(f"{found.name} on {device}: {shape}, {seconds * 1e3:.2f} ms (compilation included)")
    save_arrays(saves, arguments)
