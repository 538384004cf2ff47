"""`hetir check`: run a kernel on the evaluator with every check on."""

from __future__ import annotations

from typing import Annotated

import typer

from hetir.cli.common import find_kernel, parse_arguments, parse_dims
from hetir.compiler import check as check_kernel


def register(app: typer.Typer) -> None:
    """Add `check`."""
    app.command()(check)


def check(
    kernel: Annotated[str, typer.Argument(metavar="FILE.py:KERNEL")],
    values: Annotated[list[str] | None, typer.Argument(metavar="NAME=VALUE")] = None,
    grid: Annotated[str, typer.Option(help="Workgroups: G, or X,Y,Z.")] = "",
    workgroup: Annotated[str, typer.Option(help="Work-items a workgroup: W, or X,Y,Z.")] = "",
    seed: Annotated[int, typer.Option(help="Order of workgroups and atomics.")] = 0,
    weak: Annotated[
        bool, typer.Option("--weak", help="Weak memory: finds missing orders on small grids.")
    ] = False,
    runs: Annotated[
        int | None, typer.Option(help="Seeds to try until one shows a fault: 1, or 100 if weak.")
    ] = None,
) -> None:
    """Find out-of-bounds accesses, races, uninitialised reads, divergent barriers and more."""
    found = find_kernel(kernel)
    arguments = parse_arguments(found, values or (), found.parameters)
    groups, items = found.launch_shape(
        arguments,
        parse_dims(grid, "--grid") if grid else None,
        parse_dims(workgroup, "--workgroup") if workgroup else None,
    )
    report = check_kernel(
        found, tuple(arguments.values()), groups, items, seed=seed, weak=weak, runs=runs
    )
    for line in report.output:
        typer.echo(line)
    for fault in report.faults:
        typer.echo(str(fault), err=True)
    count = len(report.faults)
    if count:
        again = f" with --seed {report.seed}" if weak or runs else ""
        typer.echo(f"{found.name}: {count} fault{'s' * (count > 1)}{again}", err=True)
        raise typer.Exit(1)
    typer.echo(f"{found.name}: no faults in {'x'.join(map(str, groups))} workgroups")
    if report.results > 1:
        typer.echo(f"the arrays ended with {report.results} different contents over the runs")
