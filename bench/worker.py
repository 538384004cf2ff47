"""One peer in one process: reads commands as JSON lines, answers each with one JSON line.

Run by a peer's own interpreter, which need not have hetir: `python worker.py PEER`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import measure

Run = Callable[[], Mapping[str, Any]]


def error(got: Mapping[str, Any], command: Mapping[str, Any]) -> float:
    """The largest error over all results, as the problem measures it."""
    return max(
        _error(np.asarray(got[name]), np.load(file), share=command["share"])
        for name, file in _files(command, "want.").items()
    )


def _error(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], *, share: bool) -> float:
    if got.shape != want.shape:
        return float("inf")
    if share:
        return float((got != want).mean())
    distance = np.abs(got.astype(np.float64) - want)
    if not np.isfinite(distance).all():
        return float("inf")
    return float(distance.max() / max(1.0, np.abs(want).max()))


def _files(command: Mapping[str, Any], prefix: str) -> dict[str, Path]:
    folder = Path(command["folder"])
    return {f.name[len(prefix) : -4]: f for f in sorted(folder.glob(f"{prefix}*.npy"))}


class Worker:
    """The peer's module, and the problem that is loaded."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.run: Run | None = None

    def load(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Make the run, run it for the first time, check it against the reference."""
        self.run = None
        make = self.module.MAKERS.get(command["problem"])
        if make is None:
            return {"absent": True}
        run: Run = make({name: np.load(file) for name, file in _files(command, "in.").items()})
        start = time.perf_counter()
        got = run()
        first = time.perf_counter() - start
        wrong = error(got, command)
        self.run = run
        return {"first_ms": first * 1e3, "error": wrong, "right": wrong <= command["tolerance"]}

    def time(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Time what is loaded."""
        assert self.run is not None
        return measure.sample(self.run, command["budget"])

    def drop(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """Let go of what is loaded."""
        self.run = None
        return {}

    def limits(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """What this machine can do, by a peer that measures it."""
        with measure.Raised():
            return self.module.limits()


def main() -> None:
    """Serve until the input ends; only answers go to the real standard output."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(answer: Mapping[str, Any]) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    try:
        module = importlib.import_module(f"peers.with_{sys.argv[1]}")
        say(module.describe())
    except Exception as missing:  # noqa: BLE001 (each driver has its own; the table says it)
        say({"missing": f"{type(missing).__name__}: {str(missing)[:2000]}"})
        return
    worker = Worker(module)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            say(getattr(worker, command["do"])(command))
        except Exception as failure:  # noqa: BLE001 (one failed kernel is a line of the table)
            say({"failed": f"{type(failure).__name__}: {str(failure)[:300]}"})


if __name__ == "__main__":
    main()
