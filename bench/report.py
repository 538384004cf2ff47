"""Markdown tables from the rows of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import problems

Row = Mapping[str, Any]
Times = dict[str, dict[str, float]]


def markdown(rows: Sequence[Row]) -> str:
    """The whole report."""
    parts = [
        _machine(rows),
        _limits(rows),
        _table(rows, [p.name for p in problems.MAIN], "Seventeen kernels"),
        _table(rows, [p.name for p in problems.MORE], "The rest of the library"),
        _bounds(rows),
        _launch(rows),
        _startup(rows),
        _compile(rows),
        _trouble(rows),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def best_times(rows: Iterable[Row]) -> Times:
    """ms[problem][peer] of right results: the least of the rounds' medians, as noise only adds."""
    found: Times = {}
    for row in rows:
        if row["kind"] == "time" and row.get("right") and "ms" in row:
            times = found.setdefault(row["problem"], {})
            times[row["peer"]] = min(row["ms"], times.get(row["peer"], math.inf))
    return found


def loud(row: Row, cores: int) -> bool:
    """Whether others took more than 0.1 core of what the run could have used, at the best."""
    spare = cores - 1 if row["cpu_ms"] < 1.15 * row["ms"] else 0
    return (row["foreign_cores"] or 0) > spare + 0.1


def _loud_places(rows: Sequence[Row]) -> set[tuple[str, str]]:
    """(problem, peer) of the times in the tables that were not measured in quiet."""
    best, (machine,) = best_times(rows), _of(rows, "machine")
    return {
        (row["problem"], row["peer"])
        for row in _of(rows, "time")
        if row.get("right") and row.get("ms") == best[row["problem"]][row["peer"]]
        if "cpu_ms" in row and loud(row, machine["cores"])
    }


def best_limits(rows: Iterable[Row]) -> dict[str, float]:
    """The best that was seen of each: rates at most, times at least."""
    found: dict[str, float] = {}
    for row in _of(rows, "limits"):
        for key, value in row.items():
            if key not in ("kind", "failed"):
                better = min if key.endswith("_us") else max
                found[key] = better(value, found.get(key, value))
    return found


def _of(rows: Iterable[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["kind"] == kind]


def _grid(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the others numbers."""
    rule = ["---", *("---:" for _ in heads[1:])]
    return "\n".join("| " + " | ".join(line) + " |" for line in (heads, rule, *lines))


def number(value: float | None) -> str:
    """Three digits that matter, or nothing."""
    if value is None or not math.isfinite(value):
        return ""
    if value >= 100 or value == 0:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


def geometric_mean(values: Sequence[float]) -> float | None:
    """None of no values."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def _machine(rows: Sequence[Row]) -> str:
    (found,) = _of(rows, "machine")
    commit = f" at {found['commit']}" if found["commit"] else ""
    lines = [
        f"# hetir {found['hetir']}{commit} beside its peers, {found['date']}",
        "",
        f"{found['cpu']}, {found['cores']} cores, {found['vectors']}; {found['system']}; Python "
        f"{found['python']}; load {number(found['load'])} at the start"
        + ("; windows raised in priority" if found["raised"] else "")
        + ".",
        "",
    ]
    for row in _of(rows, "peer"):
        if "missing" in row:
            lines.append(f"- {row['peer']}: not here ({row['missing'][:120]}). {row['hint']}.")
        else:
            lines.append(f"- {row['peer']} {row['version']}: {row['style']}.")
    return "\n".join(lines)


def _limits(rows: Sequence[Row]) -> str:
    found = best_limits(rows)
    if not found:
        return ""
    names = {
        "triad_gbps": "triad, GB/s",
        "read_gbps": "read, GB/s",
        "l2_gbps": "read from 256 KiB a core, GB/s",
        "l1_gbps": "read from 16 KiB a core, GB/s",
        "fma_gflops": "f32 FMA, GFLOP/s",
        "fork_join_us": "OpenMP fork and join, us",
    }
    lines = [[text, number(found[key])] for key, text in names.items()]
    return "## Limits of the machine\n\n" + _grid(("bound, all cores", "measured"), lines)


def bound_ms(problem: problems.Problem, row: Row, limits: Row) -> float:
    """The least time that bandwidth and FMA rate allow."""
    by_bytes = row["bytes"] / limits[problem.bound] * 1e-6
    return max(by_bytes, row["flops"] / limits["fma_gflops"] * 1e-6)


def _table(rows: Sequence[Row], names: Sequence[str], title: str) -> str:
    times = best_times(rows)
    peers = [r["peer"] for r in _of(rows, "peer") if r["peer"] != "hetir" and "missing" not in r]
    limits, noisy = best_limits(rows), _loud_places(rows)
    facts = {row["problem"]: row for row in _of(rows, "time")}
    lines: list[list[str]] = []
    ratios: dict[str, list[float]] = {"best": [], "numba": []}
    for name in names:
        if name not in facts:
            continue
        mine = times.get(name, {}).get("hetir", math.nan)
        marks = {p: "~" for problem, p in noisy if problem == name}
        others = {p: t for p, t in times.get(name, {}).items() if p != "hetir"}
        best = min(others, key=lambda p: others[p], default="")
        cells = (number(others.get(p)) + marks.get(p, "") for p in peers)
        line = [name, number(mine) + marks.get("hetir", ""), *cells, best]
        for key, against in (("best", others.get(best)), ("numba", others.get("numba"))):
            ratio = mine / against if against else math.nan
            if math.isfinite(ratio):
                ratios[key].append(ratio)
            line.append(number(ratio))
        least = bound_ms(problems.ALL[name], facts[name], limits) if limits else math.nan
        share = least / mine
        lines.append([*line, number(least), f"{share:.0%}" if math.isfinite(share) else ""])
    if not lines:
        return ""
    means = [number(geometric_mean(ratios[key])) for key in ("best", "numba")]
    lines.append(["geometric mean", "", *("" for _ in peers), "", *means, "", ""])
    heads = ["kernel", "hetir ms", *peers, "best peer", "hetir / best", "hetir / numba"]
    grid = _grid([*heads, "bound ms", "bound / hetir"], lines)
    text = "Milliseconds; ratios below 1 say that hetir is faster; `~`: no window was quiet."
    return f"## {title}\n\n{text}\n\n{grid}"


def _bounds(rows: Sequence[Row]) -> str:
    """Bytes, flops, the time that each allows, and what holds the kernel back in words."""
    limits = best_limits(rows)
    facts = {row["problem"]: row for row in _of(rows, "time")}
    lines: list[list[str]] = []
    for problem in (*problems.MAIN, *problems.MORE):
        row = facts.get(problem.name)
        if row is None or not limits:
            continue
        by_bytes = row["bytes"] / limits[problem.bound] * 1e-6
        by_flops = row["flops"] / limits["fma_gflops"] * 1e-6
        work = (row["bytes"] * 1e-6, by_bytes, row["flops"] * 1e-9, by_flops)
        lines.append([problem.name, *map(number, work), problem.limit])
    if not lines:
        return ""
    heads = ("kernel", "MB", "ms by bytes", "GFLOP", "ms by flops", "what limits it")
    return "## What limits each kernel\n\n" + _grid(heads, lines)


def _launch(rows: Sequence[Row]) -> str:
    times, queued = (best_times(rows).get(name, {}) for name in ("launch", "queued_launch"))
    if not times and not queued:
        return ""
    lines = [[peer, number(ms * 1e3)] for peer, ms in times.items()]
    lines += [[f"{peer}, `launch(...).wait()`", number(ms * 1e3)] for peer, ms in queued.items()]
    text = "Three arrays of 256 floats and two scalars, waited for; NumPy and torch make arrays."
    return f"## One launch\n\n{text}\n\n" + _grid(("peer", "us"), lines)


def _startup(rows: Sequence[Row]) -> str:
    imports = [
        [f"`import {r['module']}`" if r["module"] else "bare interpreter", number(r["ms"])]
        for r in _of(rows, "import")
    ]
    keys = ("ms", "ms_median", "interpreter_ms", "numpy_ms", "import_ms", "first_ms")
    starts = [
        [f"{r['peer']}, {r['cache']} cache", *(number(r[k]) for k in keys)]
        for r in _of(rows, "startup")
        if "failed" not in r
    ]
    if not imports:
        return ""
    heads = ("first softmax", "best ms", "median", "interpreter", "numpy", "import", "first call")
    return (
        "## A new process\n\n"
        + _grid(("whole process", "ms"), imports)
        + "\n\n"
        + _grid(heads, starts)
    )


def _compile(rows: Sequence[Row]) -> str:
    found = [row for row in _of(rows, "compile") if "failed" not in row]
    if not found:
        return ""
    keys = ("ms", "trace_ms", "prepare_ms", "lower_ms")
    lines = [
        [str(r["ops"]), *(number(r[k]) for k in keys), number(r["ms"] / r["ops"] * 1e3)]
        for r in found
    ]
    heads = ("operations", "ms", "trace", "prepare", "lower", "us an operation")
    return "## Compile time, trace to machine code\n\n" + _grid(heads, lines)


def _trouble(rows: Sequence[Row]) -> str:
    """What failed and what is wrong."""
    lines: list[str] = []
    for row in rows:
        place = f"{row['peer']} {row.get('problem', row['kind'])}" if "peer" in row else row["kind"]
        if "failed" in row:
            lines.append(f"- {place}: {row['failed']}")
        elif row.get("right") is False:
            lines.append(f"- {place}: wrong, error {row.get('error')}; not in the table")
    return "## Notes\n\n" + "\n".join(dict.fromkeys(lines)) if lines else ""
