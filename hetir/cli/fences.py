"""`hetir fences FILE.py:KERNEL`: what is emitted for each order, why, and what breaks without."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hetir.cli.common import find_kernel, parse_arguments, parse_dims

if TYPE_CHECKING:
    from hetir.artifact import Artifact, Fence
    from hetir.passes.certificate import Certificate, SiteProof, Weakening
    from hetir.passes.harness import HarnessError


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(name="fences")(fences)


def fences(
    spec: Annotated[str, typer.Argument(metavar="FILE.py:KERNEL", show_default=False)],
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="Arguments of the launch to judge on."),
    ] = None,
    target: Annotated[str, typer.Option(help="A target of `hetir targets`.")] = "cpu",
    grid: Annotated[str, typer.Option(help="Workgroups to judge on: G, or X,Y,Z.")] = "2",
    workgroup: Annotated[str, typer.Option(help="Work-items a workgroup there.")] = "2",
    litmus: Annotated[
        bool, typer.Option("--litmus", help="Print the final code as a litmus test.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the certificate as JSON.")] = False,
) -> None:
    """Explain every fence, order and barrier of a kernel as compiled for a target.

    For each: its line, what is emitted, what for, and an execution that breaks without it, found
    by the checker on a small launch. Without arguments such a launch is guessed.
    """
    # the solver and the compiler take a moment to load
    from hetir import compiler
    from hetir.passes.harness import HarnessError

    kernel = find_kernel(spec)
    sizes = parse_dims(grid, "--grid"), parse_dims(workgroup, "--workgroup")
    given: Any = parse_arguments(kernel, values, kernel.parameters) if values else None
    arguments = None if given is None else tuple(given.values())
    signature = None if arguments is None else kernel.specialise(arguments)
    made = compiler.compile(kernel, signature, target=target)
    found: Certificate | None = None
    failed: HarnessError | None = None
    try:
        found = compiler.certificate(kernel, target, arguments, *sizes)
    except HarnessError as error:
        failed = error
    if litmus:
        if found is None:
            assert failed is not None
            raise failed
        from hetir.cli.fences_litmus import harness_text

        typer.echo(harness_text(made, found), nl=False)
    elif as_json:
        typer.echo(json.dumps(_as_json(kernel.name, made, found), indent=2))
    else:
        _print(kernel.name, made, found, failed)
    if found is not None and found.unsafe is not None:
        raise typer.Exit(1)


# ---- for people ----------------------------------------------------------------------------


def _print(
    kernel: str, made: Artifact, found: Certificate | None, failed: HarnessError | None
) -> None:
    typer.echo(f"{kernel} for {made.target}\n")
    if not made.fences and found is None:
        typer.echo("nothing in this kernel orders memory beyond its own work-item")
        return
    proofs = dict(_matched(made, found))
    for number, fence in enumerate(made.fences):
        _print_fence(fence, made.target.partition(":")[0] in ("ptx", "spirv", "cpu"))
        proof = proofs.get(number)
        if proof is not None:
            for weaker in proof.weaker:
                _print_weakening(weaker, fence)
        typer.echo("")
    typer.echo(_verdict(found, failed))


def _print_fence(fence: Fence, read: bool) -> None:
    place = fence.location
    words = f"{fence.kind} {fence.order} at {fence.scope} scope"
    if place is None:
        typer.echo(words)
    else:
        typer.echo(f"{place.file}:{place.line}  {words}")
        typer.echo(f"  {place.line:4} | {place.source().rstrip()}")
    at = f"   (line {fence.line} of the code)" if fence.line else ""
    emitted = fence.instruction or ("nothing" if read else "see the code")
    typer.echo(f"  emitted  {emitted}{at}")
    typer.echo(f"  why      {fence.reason}")


def _print_weakening(weaker: Weakening, fence: Fence) -> None:
    form = _form(weaker, fence)
    broken = weaker.broken or weaker.on_target
    if broken is None:
        typer.echo(f"  {form}: nothing breaks within the bounds")
        return
    typer.echo(f"  {form}: {broken.outcome}")
    for line in broken.picture.splitlines():
        typer.echo(f"      {line}")


def _form(weaker: Weakening, fence: Fence) -> str:
    if not weaker.left:
        return "without it"
    order, _, scope = weaker.left.partition(" ")
    if order == fence.order:
        return f"if it reached the {scope} only"
    return f"if it were {order}" + (f" at {scope} scope" if scope != fence.scope else "")


def _verdict(found: Certificate | None, failed: HarnessError | None) -> str:
    if found is None:
        assert failed is not None
        return f"not judged by the checker: {failed.message}"
    bounds = f"checked to bounds: {found.launch.bounds}; by the model of {found.model}"
    if found.unsafe is not None:
        return f"UNSAFE ({bounds}): {found.unsafe.outcome}\n{found.unsafe.picture}"
    loose = sum(not site.minimal for site in found.sites)
    if loose:
        return f"safe; {loose} of {len(found.sites)} sites may be stronger than needed ({bounds})"
    return f"safe, and nothing weaker is ({bounds})"


def _matched(made: Artifact, found: Certificate | None) -> list[tuple[int, SiteProof]]:
    """The number of the fence that each proof is about."""
    if found is None:
        return []
    pairs: list[tuple[int, SiteProof]] = []
    free = dict(enumerate(made.fences))
    for proof in found.sites:
        op = proof.op
        order, scope = str(op.attrs.get("order", "acq_rel")), str(op.attrs["scope"])
        for number, fence in free.items():
            kept = not fence.reason.startswith("removed") and fence.location == op.loc
            if kept and (fence.order, fence.scope) == (order, scope):
                pairs.append((number, proof))
                del free[number]
                break
    return pairs


# ---- for programs --------------------------------------------------------------------------


def _as_json(kernel: str, made: Artifact, found: Certificate | None) -> dict[str, object]:
    proofs = dict(_matched(made, found))
    return {
        "kernel": kernel,
        "target": made.target,
        "hash": made.key,
        "model": found.model if found else None,
        "bounds": found.launch.bounds if found else None,
        "safe": found.unsafe is None if found else None,
        "minimal": found.minimal if found else None,
        "sites": [_site(fence, proofs.get(n)) for n, fence in enumerate(made.fences)],
    }


def _site(fence: Fence, proof: SiteProof | None) -> dict[str, object]:
    place = fence.location
    return {
        "kind": fence.kind,
        "order": fence.order,
        "scope": fence.scope,
        "file": place.file if place else None,
        "line": place.line if place else None,
        "instruction": fence.instruction,
        "instruction_line": fence.line,
        "reason": fence.reason,
        "weaker": [_weaker(w) for w in proof.weaker] if proof else [],
    }


def _weaker(weaker: Weakening) -> dict[str, object]:
    return {
        "to": weaker.left or "removed",
        "breaks": weaker.broken.outcome if weaker.broken else None,
        "breaks_on_target": weaker.on_target.outcome if weaker.on_target else None,
        "execution": weaker.broken.picture if weaker.broken else None,
    }
