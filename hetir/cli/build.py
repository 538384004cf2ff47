"""`hetir build`: compile a kernel ahead of time into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hetir.cli.common import find_kernel, parse_dims
from hetir.compiler import compile as compile_kernel


def register(app: typer.Typer) -> None:
    """Add `build`."""
    app.command()(build)


def build(
    kernel: Annotated[str, typer.Argument(metavar="FILE.py:KERNEL")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write.")],
    target: Annotated[str, typer.Option(help="A name of `hetir targets`.")] = "cpu",
    signature: Annotated[str, typer.Option(help='"f32, f32[:], i64"; from annotations if left out.')] = "",
    workgroup: Annotated[str, typer.Option(help="Left to the launch if not given.")] = "",
) -> None:
    """Write object code (cpu), a module (spirv) or hetIR text; print the entry and resources."""
    artifact = compile_kernel(
        find_kernel(kernel),
        signature or None,
        target=target,
        workgroup=parse_dims(workgroup, "--workgroup") if workgroup else None,
    )
    if artifact.binary is None:
        output.write_text(artifact.text)
    else:
        output.write_bytes(artifact.binary)
    resources = artifact.resources
    typer.echo(
        f"{output}: {artifact.kernel} for {artifact.target}, entry `{artifact.entry}`, "
        f"{output.stat().st_size} bytes, shared memory {resources.shared_bytes} bytes"
    )
