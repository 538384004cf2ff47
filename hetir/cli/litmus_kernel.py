"""`hetir litmus FILE.py:KERNEL`: everything that a small kernel may do, by the memory model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hetir.cli.common import find_kernel, parse_arguments, parse_dims

if TYPE_CHECKING:
    from hetir.memory.check import Checker, Outcome, Witness
    from hetir.memory.program import Program

MOST_OUTCOMES = 1000


def judge_kernel(
    spec: str,
    values: Sequence[str],
    sizes: tuple[str, str],
    *,
    dot: Path | None,
    svg: Path | None,
    as_json: bool,
) -> None:
    """Print whether a kernel races, what its assertions do, and how its arrays may end."""
    # the solver and the compiler take a moment to load
    from hetir.compiler import litmus
    from hetir.memory.check import Checker
    from hetir.memory.claim import FinalLocation
    from hetir.memory.models.ir import IrModel

    found = find_kernel(spec)
    arguments = parse_arguments(found, values, found.parameters)
    grid = parse_dims(sizes[0], "--grid") if sizes[0] else None
    items = parse_dims(sizes[1], "--workgroup") if sizes[1] else None
    groups, items = found.launch_shape(arguments, grid, items)
    harness = litmus(found, tuple(arguments.values()), groups, items)
    program = harness.program
    with Checker(program, IrModel()) as checker:
        raced = checker.race()
        written = {str(item) for item in checker.observables()}
        names = [name for name in harness.outputs if name in written]
        watched = [FinalLocation(name) for name in names]
        outcomes = checker.outcomes(watched, limit=MOST_OUTCOMES)
        failures = [
            (loc, _fails(checker, thread, name)) for thread, name, loc in harness.assertions
        ]
    failed = next((w for _, w in failures if w is not None), None)
    draw(program, raced or failed, dot, svg)
    states = sorted(outcomes, key=str)
    lines = {loc.line if loc else 0: False for loc, _ in failures}
    for loc, shown in failures:
        lines[loc.line if loc else 0] |= shown is not None
    if as_json:
        typer.echo(json.dumps(_as_json(program.name, raced is not None, lines, names, states)))
    else:
        _print(program, raced, failed, lines, names, states)
    if raced is not None or failed is not None:
        raise typer.Exit(1)


def _fails(checker: Checker, thread: int, name: str) -> Witness | None:
    """An execution in which an assertion fails."""
    from hetir.memory.claim import Claim, Compare, FinalRegister, Quantifier

    condition = Compare("==", FinalRegister(thread, name), 1)
    return checker.judge(Claim(Quantifier.EXISTS, condition)).witness


def draw(program: Program, shown: Witness | None, dot: Path | None, svg: Path | None) -> None:
    """Write pictures of an execution."""
    from hetir.memory import witness

    if shown is None:
        return
    if dot is not None:
        dot.write_text(witness.dot(program, shown), encoding="utf-8")
    if svg is not None:
        svg.write_text(witness.svg(program, shown), encoding="utf-8")


def _print(
    program: Program,
    raced: Witness | None,
    failed: Witness | None,
    lines: dict[int, bool],
    names: Sequence[str],
    states: Sequence[Outcome],
) -> None:
    from hetir.memory import witness

    typer.echo(f"{program.name}: {len(program.threads)} work-items")
    if raced is not None:
        typer.echo("a data race: every outcome is possible\n\n" + witness.text(program, raced))
        return
    typer.echo("no execution has a data race")
    for line, fails in lines.items():
        typer.echo(f"the assertion at line {line} {'may fail' if fails else 'holds'}")
    more = " or more" if len(states) == MOST_OUTCOMES else ""
    typer.echo(f"{len(states)}{more} outcome{'s' * (len(states) != 1)}")
    for state in states:
        shown = (f"{name}={value}" for name, value in zip(names, state, strict=True))
        typer.echo("  " + "  ".join(shown))
    if failed is not None:
        typer.echo("\nan execution in which an assertion fails:\n" + witness.text(program, failed))


def _as_json(
    name: str,
    raced: bool,
    lines: dict[int, bool],
    names: Sequence[str],
    states: Sequence[Outcome],
) -> dict[str, object]:
    return {
        "name": name,
        "race": raced,
        "assertions": [{"line": line, "may_fail": fails} for line, fails in lines.items()],
        "outcomes": [] if raced else [dict(zip(names, s, strict=True)) for s in states],
    }
