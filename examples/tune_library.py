"""Tunes the workgroups of library kernels on a device and measures the gain once more.

`python examples/tune_library.py [--device cpu] [--json OUT]`. The gain is measured with samples
that the choice was not made from, default and choice in turn, so that luck in the first
measurement does not count. Results are compared with NumPy's after tuning.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import hetir
from hetir import library
from hetir.tuning import Tuned
from hetir.tuning.measure import Race, race, sample
from hetir.tuning.report import Trial, decide

ROWS = ({"workgroup": 64}, {"workgroup": 16}, {"workgroup": 32}, {"workgroup": 128})
IMAGE = tuple({"workgroup": w} for w in ((64, 4), (16, 16), (128, 2), (256, 1), (64, 16)))


@dataclass(frozen=True, slots=True)
class Problem:
    """A kernel of the library, the size to tune it for, and what to try; the default first."""

    name: str
    size: tuple[int, ...]
    configs: Sequence[Mapping[str, Any]]


PROBLEMS = (
    Problem("jacobi", (1024, 1024), IMAGE),
    Problem("layer_norm", (1024, 1024), ROWS),
    Problem("rms_norm", (1024, 1024), ROWS),
    Problem("softmax", (1024, 1024), ROWS),
    Problem("cross_entropy", (1024, 1024), ROWS),
)


def tune(problem: Problem, device: str, rounds: int) -> dict[str, Any]:
    """Tune one kernel; gives a row of the result."""
    case = library.case(problem.name, size=problem.size)
    step = case.steps[0]
    named = dict(zip(step.kernel.parameters, step.arguments, strict=True))
    tuned = hetir.autotune(
        step.kernel,
        problem.configs,
        key=step.kernel.parameters,
        grid=lambda a: covering(step, a["workgroup"]),
        rounds=rounds,
    )
    chosen = tuned.best(named, device=device)
    assert tuned.report is not None
    print(tuned.report, flush=True)
    row = again(tuned, named, device, 2 * rounds)
    check(case, chosen["workgroup"], device)
    print(f"measured again: {row['gain']:.2f} times as fast\n", flush=True)
    return {"kernel": problem.name, "size": problem.size, **row}


def covering(step: library.Step, workgroup: Sequence[int]) -> tuple[int, ...]:
    """The grid of a library step for another workgroup; a row stays one workgroup's."""
    if len(step.workgroup) == 1:
        return step.grid
    extents = [g * w for g, w in zip(step.grid, step.workgroup, strict=True)]
    return tuple(hetir.cdiv(n, w) for n, w in zip(extents, workgroup, strict=False))


def again(tuned: Tuned, named: Mapping[str, Any], device: str, rounds: int) -> dict[str, Any]:
    """Default and choice, measured once more."""
    report = tuned.report
    assert report is not None
    pair = [report.trials[i].config for i in dict.fromkeys((report.default, report.chosen))]
    on = hetir.device(device)
    trials = [Trial(config=config, outcome="measured") for config in pair]
    runs = {i: tuned.run_of(named, config, on) for i, config in enumerate(pair)}
    measured = race(trials, runs, 0, Race(rounds, 1, sample), lambda _: None)
    default, choice = measured[0], measured[-1]
    return {
        "default": list(default.config["workgroup"]),
        "choice": list(choice.config["workgroup"]),
        "default_ms": default.median * 1e3,
        "choice_ms": choice.median * 1e3,
        "default_noise_ms": default.noise * 1e3,
        "choice_noise_ms": choice.noise * 1e3,
        "samples": [len(default.seconds), len(choice.seconds)],
        "gain": default.median / choice.median,
        "beyond_noise": len(pair) == 2 and decide(measured, 0) == 1,
    }


def check(case: library.Case, workgroup: tuple[int, ...], device: str) -> None:
    """The tuned kernel's results are right."""
    for step in case.steps:
        step.kernel.launch(
            step.arguments, grid=covering(step, workgroup), workgroup=workgroup, device=device
        ).wait()
    error = case.error()
    assert error <= case.tolerance, f"wrong by {error}"


def machine() -> dict[str, Any]:
    """Where and when the figures were measured."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "hetir": hetir.__version__,
    }


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def main() -> None:
    """Tune each problem and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    rows = [tune(problem, asked.device, asked.rounds) for problem in PROBLEMS]
    won = [row["kernel"] for row in rows if row["beyond_noise"]]
    print(f"faster beyond noise: {', '.join(won) or 'none'}")
    if asked.json:
        document = {"machine": machine(), "device": asked.device, "kernels": rows}
        asked.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
