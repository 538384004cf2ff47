"""The bench: one process a peer, problem by problem, peers in turn within each round."""

from __future__ import annotations

import datetime
import json
import os
import platform
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

import hetir

from . import problems, startup

FOLDER = Path(__file__).parent
PEERS = ("c", "numpy", "numba", "torch", "opencl")
EXTRAS = ("limits", "launch", "queued_launch", "compile", "startup")
ANSWER_SECONDS = 240.0
HOW = {
    "c": "install gcc",
    "numpy": "pip install numpy",
    "numba": "pip install numba",
    "torch": "pip install torch",
    "opencl": "pip install pyopencl, and an OpenCL driver (pip install intel-opencl-rt)",
}
Row = dict[str, Any]


class WorkerError(Exception):
    """A peer's process ended, or did not answer in time."""


class Peer:
    """One peer's process; it starts again when it has died."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.python = os.environ.get(f"HETIR_BENCH_PYTHON_{name.upper()}", sys.executable)
        self.about = self._start()

    @property
    def installed(self) -> bool:
        """Whether the peer can be imported or built."""
        return "missing" not in self.about

    def _start(self) -> Row:
        environment = dict(os.environ)
        if self.name == "hetir":
            root = str(Path(hetir.__file__).parent.parent)
            environment["PYTHONPATH"] = os.pathsep.join((root, environment.get("PYTHONPATH", "")))
        self._process = subprocess.Popen(
            [self.python, str(FOLDER / "worker.py"), self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # its own scheduling group, see measure.Raised
        )
        try:
            return self._read()
        except WorkerError as error:
            return {"missing": str(error)}

    def _read(self) -> Row:
        """One answer; the pipe is unbuffered on this side, so that select sees all of it."""
        assert self._process.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([self._process.stdout], [], [], ANSWER_SECONDS)[0]:
                self.close()
                raise WorkerError(f"no answer within {ANSWER_SECONDS:.0f} s")
            part = os.read(self._process.stdout.fileno(), 65536)
            if not part:
                raise WorkerError(f"its process ended with status {self._process.wait()}")
            line += part
        return json.loads(line)

    def ask(self, do: str, **command: Any) -> Row:
        """Send a command and wait for the answer; a failure is an answer too."""
        if self._process.poll() is not None:
            self.close()
            self._start()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **command}).encode() + b"\n")
            self._process.stdin.flush()
            return self._read()
        except (WorkerError, OSError) as error:
            return {"failed": str(error)}

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):  # what was written and never read
                pipe.close()


@contextmanager
def started(names: Sequence[str]) -> Generator[list[Peer]]:
    """The peers' processes, ended afterwards."""
    peers: list[Peer] = []
    try:
        for name in names:
            peers.append(Peer(name))  # noqa: PERF401 (those that started are ended if one fails)
        yield peers
    finally:
        for peer in peers:
            peer.close()


def run(
    names: Sequence[str],
    peer_names: Sequence[str],
    *,
    rounds: int,
    budget: float,
    tell: Callable[[str], None],
) -> Iterator[Row]:
    """Measure problems and extras; gives each row when it is made.

    Args:
        names: names of `problems.ALL` or of EXTRAS.
        peer_names: names of PEERS; hetir is always there.
        rounds: sweeps over the peers for each problem.
        budget: seconds of a timed window.
        tell: called with what is being measured.
    """
    yield machine()
    with started(("hetir", *peer_names)) as peers:
        for peer in peers:
            hint = {} if peer.installed else {"hint": _hint(peer)}
            yield {"kind": "peer", "peer": peer.name, **peer.about, **hint}
        present = [p for p in peers if p.installed]
        yield from machine_limits(names, present, tell)
        for name in names:
            if name in problems.ALL:
                tell(name)
                yield from one_problem(problems.ALL[name], present, rounds, budget)
        yield from machine_limits(names, present, tell)
    if "startup" in names:
        tell("start of a new process")
        timed = ("hetir", "numba") if "numba" in peer_names else ("hetir",)
        yield from startup.first_results(timed)
    if "compile" in names:
        tell("compile time")
        yield from startup.compile_curve()


def machine_limits(
    names: Sequence[str], peers: Sequence[Peer], tell: Callable[[str], None]
) -> list[Row]:
    """What the C peer measures of the machine, where that is asked for; before and after."""
    if "limits" not in names:
        return []
    tell("limits of the machine")
    return [{"kind": "limits", **peer.ask("limits")} for peer in peers if peer.name == "c"]


def _hint(peer: Peer) -> str:
    variable = f"HETIR_BENCH_PYTHON_{peer.name.upper()}"
    return f"{HOW.get(peer.name, '')}; or name an interpreter that has it in {variable}"


def one_problem(
    problem: problems.Problem, peers: Sequence[Peer], rounds: int, budget: float
) -> list[Row]:
    """Load and check a problem in each peer and time it in turns, anew in each round.

    Where arrays happen to lie in memory decides up to a fifth of the time, so each round has other
    places: all peers let go of theirs, and the next one in turn is the first to ask again.
    """
    rows: list[Row] = []
    ready = list(peers)
    folder = Path(tempfile.mkdtemp(prefix="hetir-bench-"))
    try:
        about = problem.export(folder)
        facts = {"kind": "time", **{key: about[key] for key in ("problem", "bytes", "flops")}}
        for number in range(1, rounds + 1):
            loaded = {peer: peer.ask("load", **about) for peer in ready}
            failed = {p: answer for p, answer in loaded.items() if "failed" in answer}
            rows += [{"peer": p.name, **facts, **answer} for p, answer in failed.items()]
            ready = [p for p, answer in loaded.items() if "right" in answer]
            for peer in ready:
                timed = peer.ask("time", budget=budget)
                rows.append({"peer": peer.name, "round": number, **facts, **loaded[peer], **timed})
            for peer in ready:
                peer.ask("drop")
            ready = [*ready[1:], *ready[:1]]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return rows


def machine() -> Row:
    """What the numbers were measured on, and when."""
    return {
        "kind": "machine",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_name(),
        "vectors": _widest_vectors(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "raised": os.environ.get("HETIR_BENCH_PRIORITY") == "1",
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "hetir": hetir.__version__,
        "commit": _commit(),
    }


def _cpuinfo(key: str) -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), "")


def _cpu_name() -> str:
    family, model = _cpuinfo("cpu family"), _cpuinfo("model\t")
    return f"{_cpuinfo('model name') or platform.machine()} (family {family}, model {model})"


def _widest_vectors() -> str:
    flags = set(_cpuinfo("flags").split())
    return next((f for f in ("avx512f", "avx2", "avx", "sse4_2") if f in flags), "")


def _commit() -> str:
    """The commit of the source tree, with `+` when it has changes; empty when installed."""
    git = ["git", "-C", str(FOLDER)]
    try:
        found = subprocess.run(
            [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        )
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD"], check=False).returncode
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip() + ("+" if changed else "")
