"""`hetir bench`: time the kernel library beside C, NumPy, numba, torch and OpenCL."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console

import hetir
from hetir.cli.common import UsageError


def register(app: typer.Typer) -> None:
    """Add `bench`."""
    app.command()(bench)


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KERNEL]...",
            help="Kernels, or limits, launch, queued_launch, compile, startup; left out, all.",
        ),
    ] = None,
    peers: Annotated[
        str, typer.Option(help="Peers with commas between; `all`, or `none` for hetir alone.")
    ] = "all",
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="OUT", help="Write JSON lines there.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Sweeps over the peers.")] = 3,
    budget: Annotated[float, typer.Option(min=0.001, help="Seconds of a timed window.")] = 0.5,
    more: Annotated[bool, typer.Option("--more", help="Time the rest of the library too.")] = False,
) -> None:
    """Time the kernels beside what else is installed, each result checked first.

    A peer runs in its own process, by the interpreter that HETIR_BENCH_PYTHON_<PEER>
    names (this one if unset). Prints Markdown tables.
    """
    driver, problems, report = (part(name) for name in ("driver", "problems", "report"))
    chosen = names or [*driver.EXTRAS, *(p.name for p in problems.MAIN)]
    if more:
        chosen += [p.name for p in problems.MORE]
    _known(chosen, dict.fromkeys((*problems.ALL, *driver.EXTRAS)), "kernel")
    asked = {"all": list(driver.PEERS), "none": []}.get(peers, peers.split(","))
    _known(asked, driver.PEERS, "peer")
    console = Console(stderr=True)
    rows: list[dict[str, Any]] = []
    with console.status("") as status, _lines(json_file) as lines:
        for row in driver.run(chosen, asked, rounds=rounds, budget=budget, tell=status.update):
            rows.append(row)
            if lines is not None:
                print(json.dumps(row), file=lines, flush=True)
    print(report.markdown(rows), end="")
    if any(row.get("right") is False for row in rows if row.get("peer") == "hetir"):
        raise typer.Exit(1)


def _lines(file: Path | None) -> AbstractContextManager[TextIO | None]:
    """The file for JSON lines, where one is asked for."""
    try:
        return file.open("w") if file else nullcontext()
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error}", hint="give a file in a folder") from None


def _known(asked: list[str], known: Collection[str], what: str) -> None:
    if unknown := [name for name in asked if name not in known]:
        hint = f"it has {', '.join(known)}"
        raise UsageError(f"the bench has no {what} `{unknown[0]}`", hint=hint)


def part(name: str) -> Any:
    """A module of the bench: installed as hetir/bench, or beside hetir in the source tree."""
    package = Path(hetir.__file__).parent
    if (package / "bench").is_dir():
        return import_module(f"hetir.bench.{name}")
    root = str(package.parent)
    if root not in sys.path:
        sys.path.append(root)
    return import_module(f"bench.{name}")
