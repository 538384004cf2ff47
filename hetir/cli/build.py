"""`hetir build`: compile a kernel ahead of time into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hetir.artifact import Artifact
from hetir.cli.common import UsageError, find_kernel, parse_dims
from hetir.compiler import compile as compile_kernel


def register(app: typer.Typer) -> None:
    """Add `build`."""
    app.command()(build)


def build(
    kernel: Annotated[str, typer.Argument(metavar="FILE.py:KERNEL")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write.")],
    target: Annotated[str, typer.Option(help="A name of `hetir targets`.")] = "cpu",
    signature: Annotated[
        str, typer.Option(help='"f32, f32[:], i64"; from annotations if left out.')
    ] = "",
    workgroup: Annotated[str, typer.Option(help="Left to the launch if not given.")] = "",
) -> None:
    """Write object code (cpu), a module (spirv), a cubin or text (ptx: by the file's ending).

    The entry and the resources are printed.
    """
    artifact = compile_kernel(
        find_kernel(kernel),
        signature or None,
        target=target,
        workgroup=parse_dims(workgroup, "--workgroup") if workgroup else None,
    )
    output.write_bytes(_content(artifact, output.suffix))
    typer.echo(
        f"{output}: {artifact.kernel} for {artifact.target}, entry `{artifact.entry}`, "
        f"{output.stat().st_size} bytes, {_resources(artifact)}"
    )


def _content(artifact: Artifact, suffix: str) -> bytes:
    if suffix == ".cubin" and artifact.binary is None:
        raise UsageError(
            "a .cubin needs NVIDIA's assembler, which is not here",
            hint="`pip install nvidia-cuda-nvcc`, set HETIR_PTXAS, or write a .ptx file",
        )
    if artifact.binary is None or suffix == ".ptx":
        return artifact.text.encode()
    return artifact.binary


def _resources(artifact: Artifact) -> str:
    found = artifact.resources
    parts = [f"shared memory {found.shared_bytes} bytes"]
    if found.registers is not None:
        parts.append(f"{found.registers} registers")
    if found.spill_bytes is not None:
        parts.append(f"{found.spill_bytes} bytes spilled")
    return ", ".join(parts)
