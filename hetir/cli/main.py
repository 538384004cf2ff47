"""The `hetir` command: registers the commands and turns user errors into exit status 1."""

from __future__ import annotations

import sys

import typer

from hetir import __version__
from hetir.cli import (
    bench,
    build,
    cache,
    check,
    checkpoint,
    demo,
    devices,
    fences,
    inspect,
    litmus,
    occupancy,
    run,
    targets,
)
from hetir.diagnostics import HetirError

app = typer.Typer(
    name="hetir",
    help="Write a kernel once in Python; check it, compile it and run it anywhere.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for module in (
    *(demo, devices, targets, build, inspect, run, check, occupancy, litmus, fences),
    *(checkpoint, cache, bench),
):
    module.register(app)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"hetir {__version__}")
        raise typer.Exit


@app.callback()
def _options(  # pyright: ignore[reportUnusedFunction]
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Options of `hetir` itself."""


def main() -> None:
    """Run the command line; a user's error is printed without a traceback (exit status 1)."""
    try:
        app()
    except HetirError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
