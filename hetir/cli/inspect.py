"""`hetir inspect`: print what a kernel became at one stage, or what a hetbin holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from hetir import hetbin
from hetir.backends import cpu, ptx
from hetir.cli.build import shown_resources
from hetir.cli.common import UsageError, find_kernel, parse_dims, split_spec
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
    kernel: Annotated[str, typer.Argument(metavar="FILE.py:KERNEL|FILE.hetbin")],
    stage: Annotated[str, typer.Option(help="hir, llvm, asm, spirv, ptx, sass or ascend.")] = "hir",
    signature: Annotated[
        str, typer.Option(help='"f32, f32[:], i64"; from annotations if left out.')
    ] = "",
    target: Annotated[str, typer.Option(help="Default: the stage's own.")] = "",
    workgroup: Annotated[str, typer.Option(help="Compile for this size.")] = "",
) -> None:
    """Print a kernel's hetIR, LLVM IR, SPIR-V, PTX, Ascend C or assembly; or list a hetbin."""
    path, name = split_spec(kernel)
    if Path(path).suffix == ".hetbin":
        typer.echo("\n".join(_listed(hetbin.load(path), name)))
        return
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


def _listed(file: hetbin.Hetbin, name: str) -> Iterator[str]:
    """All that a file holds, or one kernel of it."""
    chosen = file[name].built if name else file.entries
    yield f"{file.file}: {Path(file.file).stat().st_size} bytes, {len(chosen)} specialisations"
    for entry in chosen:
        pairs = ", ".join(f"{p.name}: {p.type}" for p in entry.parameters)
        yield f"{entry.name}({pairs})" + (f"  {entry.loc}" if entry.loc else "")
        yield from (f"  {line}" for line in _described(entry))


def _described(entry: hetbin.Specialisation) -> Iterator[str]:
    options = ["cooperative"] if entry.cooperative else []
    options += [] if entry.reproducible else [f"not reproducible: {entry.irreproducible_reason}"]
    words = [f"hetIR {len(entry.module)} bytes", f"subgroups of {entry.subgroup_size}", *options]
    yield ", ".join(words)
    yield f"argument block {entry.layout.size} bytes"
    for slot in entry.layout.slots:
        first, *path = slot.source
        names = ".".join([entry.parameters[int(first)].name, *map(str, path)])
        shape = "" if slot.ndim is None else f"[{', '.join([':'] * slot.ndim)}]"
        use = ("" if slot.ndim is None
               else " read" * slot.reads + " written" * slot.writes or " unused")  # fmt: skip
        yield f"  {slot.offset:4} {names}: {slot.dtype}{shape}{use}"
    for point in entry.points:
        yield f"{point.kind} {point.text}" + (f"  {point.loc}" if point.loc else "")
    for payload in entry.payloads:
        yield from _payload(payload)


def _payload(payload: hetbin.Payload) -> Iterator[str]:
    made, promised = payload.artifact, payload.assumptions
    size = f"workgroup {'x'.join(map(str, made.workgroup))}" if made.workgroup else "any workgroup"
    words = [size, f"{promised.index_bits}-bit indices"]
    words += ["disjoint arrays"] if promised.disjoint else []
    words += ["arrays aligned to 16"] if any(promised.aligned) else []
    code = [f"code {len(made.binary)} bytes"] if made.binary is not None else []
    code += [f"text {len(made.text.encode())} bytes"] if made.text else []
    code += [f"with {'+'.join(v.needs)} {len(v.binary)} bytes" for v in made.variants]
    yield f"{made.target}: entry `{made.entry}`, {', '.join(words)}"
    yield f"  {', '.join(code)}; {shown_resources(made.resources)}"
    for fence in made.fences:
        asked = " ".join(filter(None, (fence.kind, fence.order, fence.scope)))
        place = f"  {fence.location}" if fence.location else ""
        yield f"  {asked}: {fence.instruction or 'nothing'}, {fence.reason}{place}"
    for site in made.sites:
        yield f"  {site.kind} {site.format!r}" + (f"  {site.loc}" if site.loc else "")
