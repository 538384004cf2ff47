"""`hetir inspect`: print what a kernel became at one stage."""

from __future__ import annotations

from typing import Annotated

import typer

from hetir.backends import cpu, ptx
from hetir.cli.common import UsageError, find_kernel, parse_dims
from hetir.compiler import compile as compile_kernel

_STAGES = {
    **{"hir": "hetir", "llvm": "cpu", "asm": "cpu", "spirv": "spirv:opencl"},
    **{"ptx": "ptx:sm_90", "sass": "ptx:sm_90", "ascend": "ascend:910b"},
}
_DISASSEMBLERS = {"asm": cpu.disassemble, "sass": ptx.sass}


def register(app: typer.Typer) -> None:
    """Add `inspect`."""
    app.command()(inspect)


def inspect(
    kernel: Annotated[str, typer.Argument(metavar="FILE.py:KERNEL")],
    stage: Annotated[str, typer.Option(help="hir, llvm, asm, spirv, ptx, sass or ascend.")] = "hir",
    signature: Annotated[
        str, typer.Option(help='"f32, f32[:], i64"; from annotations if left out.')
    ] = "",
    target: Annotated[str, typer.Option(help="Default: the stage's own.")] = "",
    workgroup: Annotated[str, typer.Option(help="Compile for this size.")] = "",
) -> None:
    """Print a kernel's hetIR, LLVM IR, SPIR-V, PTX, Ascend C or assembly."""
    if stage not in _STAGES:
        raise UsageError(f"there is no stage `{stage}`", hint=f"stages are {', '.join(_STAGES)}")
    found = find_kernel(kernel)
    artifact = compile_kernel(
        found,
        signature or None,
        target=target or _STAGES[stage],
        workgroup=parse_dims(workgroup, "--workgroup") if workgroup else None,
    )
    show = _DISASSEMBLERS.get(stage)
    typer.echo(artifact.text if show is None else show(artifact), nl=False)
