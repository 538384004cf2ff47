"""`hetir litmus FILE`: judge a litmus test, or all that a small kernel may do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hetir.cli.common import split_spec
from hetir.cli.litmus_kernel import draw, judge_kernel

if TYPE_CHECKING:
    from hetir.memory.check import Checker, Verdict, Witness
    from hetir.memory.litmus import Litmus


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(name="litmus")(litmus)


def litmus(
    file: Annotated[
        str,
        typer.Argument(
            help="A litmus file (HETIR, PTX, VULKAN or OPENCL), or a kernel: FILE.py:KERNEL.",
            show_default=False,
        ),
    ],
    values: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE", help="A kernel's arguments.")
    ] = None,
    grid: Annotated[str, typer.Option(help="A kernel's workgroups: G, or X,Y,Z.")] = "",
    workgroup: Annotated[str, typer.Option(help="Work-items a workgroup: W, or X,Y,Z.")] = "",
    outcomes: Annotated[bool, typer.Option("--outcomes", help="List every final state.")] = False,
    dot: Annotated[
        Path | None, typer.Option(help="Write the execution as Graphviz text.", show_default=False)
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(help="Write the execution as a picture.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Say whether a litmus test's claim holds, and show an execution that decides it.

    Of a kernel: whether it races, whether its assertions hold, and how its arrays may end.
    """
    if split_spec(file)[0].endswith(".py"):
        judge_kernel(file, values or (), (grid, workgroup), dot=dot, svg=svg, as_json=as_json)
        return
    # the solver takes a moment to load, which only this command should pay for
    from hetir.memory.check import Checker
    from hetir.memory.claim import constants
    from hetir.memory.litmus import read

    test = read(Path(file))
    guesses = constants(test.claim.condition)
    with Checker(test.program, test.model, guesses=guesses) as checker:
        verdict = checker.judge(test.claim, explain=True)
        raced = checker.race()
        states = _states(checker) if outcomes or as_json else []
    shown = verdict.witness or (raced if verdict.undefined else verdict.near_miss)
    draw(test.program, shown, dot, svg)
    if as_json:
        typer.echo(json.dumps(_as_json(test, verdict, raced is not None, states), indent=2))
        return
    _print(test, verdict, raced is not None, shown)
    if outcomes:
        typer.echo(f"\n{len(states)} final states")
        for state in states:
            typer.echo("  " + "  ".join(f"{name}={value}" for name, value in state.items()))


def _states(checker: Checker) -> list[dict[str, int | None]]:
    names = [str(item) for item in checker.observables()]
    found = sorted(checker.outcomes(), key=lambda state: [(v is None, v or 0) for v in state])
    return [dict(zip(names, state, strict=True)) for state in found]


def _print(test: Litmus, verdict: Verdict, raced: bool, shown: Witness | None) -> None:
    from hetir.memory import witness

    typer.echo(f"{test.program.name} ({test.model.name})")
    typer.echo(f"{test.claim}: {'holds' if verdict.holds else 'does not hold'}")
    typer.echo(_reason(verdict))
    if raced and not verdict.undefined:
        typer.echo("some execution has a data race")
    if shown is not None:
        typer.echo("\n" + witness.text(test.program, shown))


def _reason(verdict: Verdict) -> str:
    if verdict.undefined:
        return "undefined behaviour: an execution has a data race, so every outcome is possible"
    if verdict.witness is not None:
        return "allowed: this execution shows it"
    if verdict.near_miss is None:
        return f"forbidden: {', '.join(verdict.forbidden_by)}"
    return f"forbidden by {', '.join(verdict.forbidden_by)}; this execution would break it"


def _as_json(
    test: Litmus, verdict: Verdict, raced: bool, states: list[dict[str, int | None]]
) -> dict[str, object]:
    return {
        "name": test.program.name,
        "model": test.model.name,
        "claim": str(test.claim),
        "holds": verdict.holds,
        "allowed": verdict.witness is not None or verdict.undefined,
        "undefined": verdict.undefined,
        "race": raced,
        "forbidden_by": list(verdict.forbidden_by),
        "outcomes": states,
    }
