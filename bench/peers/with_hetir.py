"""hetir itself: the cases of the kernel library on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import problems

import hetir

Arrays = Mapping[str, Any]


def describe() -> dict[str, str]:
    """Version and what the numbers mean."""
    return {"version": hetir.__version__, "style": "work-items, strict results"}


def make(problem: problems.Problem, _: Arrays) -> Callable[[], Arrays]:
    """The case rebuilt from the same seed; its reset is timed where a run uses up its input."""
    case = problem.case()
    case.reset()
    steps = [(step.kernel[step.grid, step.workgroup], step.arguments) for step in case.steps]

    def run() -> Arrays:
        if problem.reset:
            case.reset()
        for launch, arguments in steps:
            launch(*arguments)
        return case.results

    return run


def launch(_: Arrays) -> Callable[[], Arrays]:
    """`kernel[grid, workgroup](...)`, which waits; `queued_launch` is `launch(...).wait()`."""
    case = problems.LAUNCH.case()
    (step,) = case.steps

    def run() -> Arrays:
        step.kernel[step.grid, step.workgroup](*step.arguments)
        return case.results

    return run


MAKERS = {name: partial(make, problem) for name, problem in problems.ALL.items()}
MAKERS["launch"] = launch
