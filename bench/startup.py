"""What happens once: imports, the first result of a new process, compile time by size."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import hetir

from . import measure

FOLDER = Path(__file__).parent
SAMPLES = 5
IMPORTS = ("numpy", "hetir", "hetir.lang")
Row = dict[str, Any]


def _python(peer: str) -> str:
    return os.environ.get(f"HETIR_BENCH_PYTHON_{peer.upper()}", sys.executable)


@cache
def _bytecode() -> tempfile.TemporaryDirectory[str]:
    """Where Python keeps bytecode, as it does for what is installed."""
    return tempfile.TemporaryDirectory(prefix="hetir-bench-bytecode-")


def _environment(folder: str) -> dict[str, str]:
    """Caches in a folder of their own, hetir found where this process found it."""
    root = str(Path(hetir.__file__).parent.parent)
    path = os.pathsep.join((root, os.environ.get("PYTHONPATH", "")))
    own = {"HETIR_CACHE_DIR": folder, "NUMBA_CACHE_DIR": folder, "PYTHONPATH": path}
    own |= {"PYTHONPYCACHEPREFIX": _bytecode().name, "PYTHONDONTWRITEBYTECODE": ""}
    return {**os.environ, **own}


def _run(command: list[str], folder: str) -> subprocess.CompletedProcess[str]:
    """A process in a session of its own, which runs first where that is asked for."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command,
        stdout=pipe,
        stderr=pipe,
        text=True,
        env=_environment(folder),
        start_new_session=True,
    ) as child:
        if measure.Raised.wanted:
            measure.raise_session(child.pid)
        out, err = child.communicate()
    return subprocess.CompletedProcess(command, child.returncode, out, err)


def first_results(peers: Sequence[str]) -> list[Row]:
    """Import times, and each peer's first softmax, cold and with a warm cache."""
    rows: list[Row] = [_import_time(name) for name in ("", *IMPORTS)]
    for peer in peers:
        samples: dict[str, list[Row]] = {"cold": [], "warm": []}
        for count in range(SAMPLES + 1):
            with tempfile.TemporaryDirectory(prefix="hetir-bench-cache-") as folder:
                for kind, found in samples.items():
                    row = _first_result(peer, kind, folder)
                    if count:  # the first run of all makes Python's bytecode
                        found.append(row)
        for found in samples.values():
            if any("failed" in row for row in found):
                rows.append(next(row for row in found if "failed" in row))
            else:
                rows.append(min(found, key=lambda row: row["ms"]) | _spread(found))
    return rows


def _spread(found: list[Row]) -> Row:
    return {"ms_median": statistics.median(row["ms"] for row in found), "samples": len(found)}


def _first_result(peer: str, kind: str, folder: str) -> Row:
    start = time.monotonic()
    done = _run([_python(peer), str(FOLDER / "first_result.py"), peer], folder)
    place = {"kind": "startup", "peer": peer, "cache": kind}
    if done.returncode:
        return {**place, "failed": done.stderr.strip().split("\n")[-1][:200]}
    clock = json.loads(done.stdout)
    return {
        **place,
        "ms": (clock["result"] - start) * 1e3,
        "interpreter_ms": (clock["started"] - start) * 1e3,
        "numpy_ms": (clock["numpy"] - clock["started"]) * 1e3,
        "import_ms": (clock["imported"] - clock["numpy"]) * 1e3,
        "first_ms": (clock["result"] - clock["imported"]) * 1e3,
        "right": clock["right"],
    }


def _import_time(name: str) -> Row:
    """Wall time of a process that imports one module (none for the bare interpreter)."""
    times: list[float] = []
    for _ in range(SAMPLES):
        start = time.perf_counter()
        command = [_python("hetir"), "-c", f"import {name}" if name else ""]
        _run(command, tempfile.gettempdir())
        times.append((time.perf_counter() - start) * 1e3)
    median = statistics.median(times)
    return {"kind": "import", "module": name, "ms": min(times), "ms_median": median}


def compile_curve(seconds: float = 60.0) -> list[Row]:
    """Rows of compile_times.py, with an empty cache."""
    with tempfile.TemporaryDirectory(prefix="hetir-bench-cache-") as folder:
        command = [_python("hetir"), str(FOLDER / "compile_times.py"), str(seconds)]
        done = _run(command, folder)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode:
        rows.append({"kind": "compile", "failed": done.stderr.strip().split("\n")[-1][:200]})
    return rows
