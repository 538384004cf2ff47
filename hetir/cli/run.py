"""`hetir run`: launch a kernel of a file on arrays from files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from hetir.cli.common import UsageError, find_kernel, parse_arguments, parse_dims


def register(app: typer.Typer) -> None:
    """Add `run`."""
    app.command()(run)


def run(
    kernel: Annotated[str, typer.Argument(metavar="FILE.py:KERNEL")],
    values: Annotated[list[str] | None, typer.Argument(metavar="NAME=VALUE")] = None,
    grid: Annotated[str, typer.Option(help="Workgroups: G, or X,Y,Z.")] = "",
    workgroup: Annotated[str, typer.Option(help="Work-items a workgroup: W, or X,Y,Z.")] = "",
    device: Annotated[str, typer.Option(help="A name of `hetir devices`.")] = "cpu",
    out: Annotated[list[str] | None, typer.Option(help="NAME=file.npy: save an array.")] = None,
) -> None:
    """Run a kernel: values are numbers, .npy files, or f32[4096,1024] for zeros."""
    found = find_kernel(kernel)
    saves = dict(_save(text) for text in out or ())
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
    for name, path in saves.items():
        try:
            np.save(path, arguments[name])
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    shape = f"{'x'.join(map(str, groups))} workgroups of {'x'.join(map(str, items))}"
    typer.echo(f"{found.name} on {device}: {shape}, {seconds * 1e3:.2f} ms (compilation included)")
    for name, path in saves.items():
        typer.echo(f"  {name} -> {path} {arguments[name].dtype}{list(arguments[name].shape)}")


def _save(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals or not path.endswith(".npy"):
        raise UsageError(f"--out `{text}` is not NAME=file.npy", hint="write --out y=y.npy")
    folder = Path(path).parent
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder} for --out {text}", hint=f"mkdir -p {folder}")
    return name, path
