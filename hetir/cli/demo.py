"""`hetir demo`: compile the kernel library, run it on the CPU, check it against NumPy."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from hetir import library
from hetir.cli.common import UsageError


def register(app: typer.Typer) -> None:
    """Add `demo`."""
    app.command()(demo)


def demo(
    names: Annotated[list[str] | None, typer.Argument(metavar="[KERNEL]...")] = None,
    data: Annotated[Path | None, typer.Option(help="A .npy array or an image as input.")] = None,
    device: Annotated[str, typer.Option(help="A name of `hetir devices`.")] = "cpu",
    small: Annotated[bool, typer.Option(help="Small sizes: a second in all.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compile the library's kernels, run them, and check each against NumPy."""
    chosen = names or list(library.NAMES)
    if unknown := [n for n in chosen if n not in library.NAMES]:
        raise UsageError(
            f"the library has no kernel `{unknown[0]}`", hint=f"it has {', '.join(library.NAMES)}"
        )
    user_data = read_data(data) if data else None
    console = Console(stderr=True)
    rows: list[dict[str, Any]] = []
    with console.status("") as status:
        for name in chosen:
            status.update(f"{name}: compile, run, check")
            rows.append(measure(name, user_data, device, small=small))
    print(json.dumps(rows, indent=1)) if as_json else show(rows, device)
    if not all(row["right"] for row in rows):
        raise typer.Exit(1)


def read_data(path: Path) -> np.ndarray[Any, Any]:
    """An array from a .npy file, or the grey values in [0, 1] of an image (needs Pillow)."""
    try:
        if path.suffix == ".npy":
            return np.load(path, allow_pickle=False)
        from PIL import Image

        return np.asarray(Image.open(path).convert("L"), np.float32) / 255
    except ImportError:
        raise UsageError(
            "images need Pillow", hint="pip install pillow, or give a .npy file"
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot read {path}: {error}", hint="give a .npy file or an image"
        ) from None


def measure(
    name: str, data: np.ndarray[Any, Any] | None, device: str, *, small: bool
) -> dict[str, Any]:
    """Compile and run one case: first-run and best time, bandwidth, error."""
    case, source = _case(name, data, small=small)
    case.reset()
    start = time.perf_counter()
    case.run(device)
    first = time.perf_counter() - start
    error = case.error()
    best = float("inf")
    for _ in range(1 if first > 2 else 5):
        case.reset()
        start = time.perf_counter()
        case.run(device)
        best = min(best, time.perf_counter() - start)
    return {
        "kernel": name,
        "input": source,
        "first_ms": first * 1e3,
        "ms": best * 1e3,
        "gbps": case.bytes / best * 1e-9,
        "gflops": case.flops / best * 1e-9,
        "error": error,
        "tolerance": case.tolerance,
        "right": bool(error <= case.tolerance),
    }


def _case(name: str, data: np.ndarray[Any, Any] | None, *, small: bool) -> tuple[library.Case, str]:
    """The case on the user's data where the kernel takes such an array, else generated."""
    wanted = library.data_rank(name)
    if data is not None and wanted and (wanted == 1 or data.ndim == wanted):
        return library.case(name, data=data), f"your {'x'.join(map(str, data.shape))}"
    case = library.case(name, **({"size": library.SMALL[name]} if small else {}))
    return case, case.data_note or "generated"


def show(rows: list[dict[str, Any]], device: str) -> None:
    """The table for people."""
    table = Table(
        title=f"hetir demo on {device}: results beside NumPy", box=box.SIMPLE, padding=(0, 1, 0, 0)
    )
    table.add_column("kernel", no_wrap=True)
    table.add_column("input", no_wrap=True)
    for head in ("first ms", "ms", "GB/s", "GFLOP/s", "error"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in rows:
        table.add_row(
            row["kernel"],
            row["input"],
            f"{row['first_ms']:.0f}",
            f"{row['ms']:.2f}",
            f"{row['gbps']:.1f}",
            f"{row['gflops']:.1f}" if row["gflops"] else "",
            f"{row['error']:.1e}" if row["error"] else "0",
            "right" if row["right"] else f"WRONG (allowed {row['tolerance']:.0e})",
        )
    Console().print(table)
