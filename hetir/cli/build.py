"""`hetir build`: compile kernels ahead of time, into one portable file or one target's code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hetir import hetbin
from hetir.artifact import Artifact, Resources
from hetir.backends.ascend import build as ascend_project
from hetir.cli.common import UsageError, find_kernel, kernels_in, parse_dims, split_spec
from hetir.compiler import Dims, dims
from hetir.compiler import compile as compile_kernel
from hetir.decorator import Kernel, KernelUseError

_ANY = "any"


def register(app: typer.Typer) -> None:
    """Add `build`."""
    app.command()(build)


def build(
    kernel: Annotated[str, typer.Argument(metavar="FILE.py[:KERNEL]")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file or folder to write.")],
    target: Annotated[
        list[str] | None, typer.Option(help="A name of `hetir targets`; several for a .hetbin.")
    ] = None,
    signature: Annotated[
        list[str] | None,
        typer.Option(
            help='"f32, f32[:], i64"; from annotations if left out. Several for a .hetbin, '
            '"KERNEL: f32" where the file has several kernels.'
        ),
    ] = None,
    workgroup: Annotated[
        list[str] | None,
        typer.Option(help="Left to the launch if not given. Several for a .hetbin, or `any`."),
    ] = None,
    deps: Annotated[
        Path | None, typer.Option(help="Write what a .hetbin was made of, for make and Ninja.")
    ] = None,
) -> None:
    """Write a .hetbin with code for several targets, or one target's object, module or text.

    For an Ascend target a name without an ending is a folder: the kernel and its host launcher.

    The entries and the resources are printed.
    """
    if output.suffix == ".hetbin":
        _build_file(kernel, output, target or [], signature or [], workgroup or [])
        if deps is not None:
            deps.write_text(_dependencies(output, split_spec(kernel)[0]), encoding="utf-8")
        return
    signatures, targets = _one(signature, "--signature"), _one(target, "--target")
    size = _one(workgroup, "--workgroup")
    found = find_kernel(kernel)
    artifact = compile_kernel(
        found,
        signatures or None,
        target=targets or "cpu",
        workgroup=parse_dims(size, "--workgroup") if size else None,
    )
    if artifact.target.startswith("ascend:") and not output.suffix:
        made = ascend_project.write(artifact, output, found.parameters)
        typer.echo(
            f"{output}: {artifact.kernel} for {artifact.target}, entry `{artifact.entry}`, "
            f"{', '.join(path.name for path in made)}, {shown_resources(artifact.resources)}"
        )
        return
    output.write_bytes(_content(artifact, output.suffix))
    typer.echo(
        f"{output}: {artifact.kernel} for {artifact.target}, entry `{artifact.entry}`, "
        f"{output.stat().st_size} bytes, {shown_resources(artifact.resources)}"
    )


def _one(values: Sequence[str] | None, option: str) -> str:
    if values is not None and len(values) > 1:
        raise UsageError(
            f"{option} is given {len(values)} times", hint="write a file that ends in .hetbin"
        )
    return values[0] if values else ""


def _content(artifact: Artifact, suffix: str) -> bytes:
    if suffix == ".cubin" and artifact.binary is None:
        raise UsageError(
            "a .cubin needs NVIDIA's assembler, which is not here",
            hint="`pip install nvidia-cuda-nvcc`, set HETIR_PTXAS, or write a .ptx file",
        )
    if artifact.binary is None and suffix == ".o" and artifact.target.startswith("ascend:"):
        raise UsageError(
            "an object for an NPU needs Huawei's compiler, which is not here",
            hint=f"put CANN's `bisheng` on PATH, set {ascend_project.VARIABLE}, or write a folder",
        )
    if artifact.binary is None or suffix in (".ptx", ".asc"):
        return artifact.text.encode()
    return artifact.binary


def shown_resources(found: Resources) -> str:
    """Resources in words."""
    parts = [f"shared memory {found.shared_bytes} bytes"]
    if found.item_bytes:
        parts.append(f"{found.item_bytes} bytes a work-item")
    if found.registers is not None:
        parts.append(f"{found.registers} registers")
    if found.spill_bytes is not None:
        parts.append(f"{found.spill_bytes} bytes spilled")
    return ", ".join(parts)


# ---- a .hetbin


def _build_file(
    spec: str,
    output: Path,
    targets: Sequence[str],
    signatures: Sequence[str],
    workgroups: Sequence[str],
) -> None:
    path, name = split_spec(spec)
    kernels = {name: find_kernel(spec)} if name else dict(kernels_in(path))
    if not kernels:
        raise UsageError(f"{path} has no kernels", hint="put `@hetir.kernel` above a function")
    wanted = _signatures(kernels, signatures)
    hetbin.check_targets(targets)
    sizes = tuple(_size(text) for text in workgroups)
    entries: list[hetbin.Specialisation] = []
    for found in kernels.values():
        for signature in wanted.get(found.name) or [None]:
            entries += hetbin.specialise(
                found, signature, targets, sizes or _usual(found), Path(path).parent, _tell
            )
    data = hetbin.encode(entries)
    try:
        output.write_bytes(data)
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}") from None
    count = sum(len(entry.payloads) for entry in entries)
    typer.echo(f"{output}: {len(data)} bytes, {len(entries)} specialisations of {len(kernels)} "
               f"kernels, {count} payloads for {', '.join(targets) or 'no target'}")  # fmt: skip


def _signatures(kernels: dict[str, Kernel], given: Sequence[str]) -> dict[str, list[str]]:
    """What `--signature` gives each kernel; `KERNEL: TYPES` where there are several."""
    found: dict[str, list[str]] = {}
    for text in given:
        name, colon, types = text.partition(":")
        if not colon or name.strip() not in kernels:
            if len(kernels) > 1:
                raise UsageError(
                    f"--signature `{text}` does not say which kernel it is for",
                    hint=f'write "{next(iter(kernels))}: {text}"',
                )
            name, types = next(iter(kernels)), text
        found.setdefault(kernels[name.strip()].name, []).append(types.strip())
    return found


def _size(text: str) -> Dims | None:
    return None if text == _ANY else dims(parse_dims(text, "--workgroup"))


def _usual(kernel: Kernel) -> tuple[Dims | None, ...]:
    """The kernel's usual workgroup, for which vector code can be made, and any other."""
    try:
        return kernel.launch_shape({}, grid=1)[1], None
    except KernelUseError:
        return (None,)


def _tell(line: str) -> None:
    """Progress, where somebody looks."""
    if sys.stderr.isatty():
        typer.echo(f"  {line}", err=True)


def _dependencies(output: Path, source: str) -> str:
    """A make rule with the Python files beside the source, and hetir's own, that were loaded."""
    roots = (Path(source).resolve().parent, Path(hetbin.__file__).parent.parent)
    loaded = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    files = {Path(source).resolve()}
    for name in filter(None, loaded):
        path = Path(name).resolve()
        if path.suffix == ".py" and any(path.is_relative_to(root) for root in roots):
            files.add(path)
    paths = map(str, (output.resolve(), *sorted(files)))
    made, *needed = [path.replace(" ", "\\ ").replace("$", "$$") for path in paths]
    return " \\\n  ".join((f"{made}:", *needed)) + "\n"
