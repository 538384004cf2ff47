"""Timing on a machine that others use too: medians over windows, the quietest window kept.

Only the standard library and NumPy: every peer's interpreter imports this.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

QUIET_CORES = 0.10
WINDOWS = 4
CORES = os.cpu_count() or 1
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def busy_seconds() -> float | None:
    """CPU seconds that the machine has worked since it started; None where it does not say."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields)
    return (user + nice + system + irq + softirq + steal) / _TICKS


class Raised:
    """With HETIR_BENCH_PRIORITY=1 (root, Linux): this session runs first inside the block."""

    wanted = os.environ.get("HETIR_BENCH_PRIORITY") == "1"

    def __enter__(self) -> None:
        if self.wanted:
            _set_nice(-20)

    def __exit__(self, *_: object) -> None:
        if self.wanted:
            _set_nice(0)


def raise_session(process: int) -> None:
    """Raise the scheduling group of another process that leads a session of its own."""
    with suppress(OSError):
        Path(f"/proc/{process}/autogroup").write_text("-20")


def _set_nice(value: int) -> None:
    """The scheduling group of this session, and each thread, where the system allows it."""
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(value))
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, int(thread.name), value)


def window(run: Callable[[], object], budget: float) -> dict[str, Any]:
    """Run for `budget` seconds: times, own CPU seconds a run, cores that others used."""
    times: list[float] = []
    busy, own, start = busy_seconds(), time.process_time(), time.perf_counter()
    end = start
    while end - start < budget or (len(times) < 3 and end - start < 4 * budget):
        begin = time.perf_counter()
        run()
        end = time.perf_counter()
        times.append(end - begin)
    own = time.process_time() - own
    after = busy_seconds()
    wall = end - start
    others = None if busy is None or after is None else max(0.0, (after - busy - own) / wall)
    return {"times": times, "own_cores": own / wall, "cpu": own / len(times), "others": others}


def _settled(seen: list[dict[str, Any]], budget: float) -> bool:
    """Whether the last window was quiet, or took too long to repeat."""
    others, took = seen[-1]["others"], sum(seen[-1]["times"])
    single = len(seen) > 1 and all(w["own_cores"] < 1.15 for w in seen)
    spare = CORES - 1 if single else 0
    return others is None or others <= spare + QUIET_CORES or took > 3 * budget


def sample(run: Callable[[], object], budget: float) -> dict[str, Any]:
    """The median of the quietest of up to WINDOWS windows.

    A window is quiet when others took at most QUIET_CORES of what the run could have used:
    a run that was seen twice on one thread leaves the other cores to whoever wants them. One
    window goes before them: on a busy machine the system takes a tenth of a second to give
    each thread a core.
    """
    seen: list[dict[str, Any]] = []
    with Raised():
        window(run, budget)  # caches and threads as the last peer's window left them
        while len(seen) < WINDOWS and not (seen and _settled(seen, budget)):
            seen.append(window(run, budget))
    kept = min(seen, key=lambda w: w["others"] or 0.0)
    times = np.array(kept["times"]) * 1e3
    return {
        "ms": float(np.median(times)),
        "ms_least": float(times.min()),
        "ms_p90": float(np.percentile(times, 90)),
        "cpu_ms": kept["cpu"] * 1e3,
        "runs": int(times.size),
        "windows": len(seen),
        "foreign_cores": kept["others"],
    }
