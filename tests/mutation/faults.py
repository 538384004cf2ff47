"""Seeds faults one by one in a copy of hetir; the property suite must notice each.

    python -m tests.mutation.faults                      # all; prints a Markdown table
    python -m tests.mutation.faults --only NAME...       # some
    python -m tests.mutation.faults --five [DATE]        # the five of a day
    python -m tests.mutation.faults --sound              # the parts pass where nothing is wrong

A fault is caught when a test of its part fails as tests fail: by an assertion, or an error that
hetir or a vendor's tool reports. A changed module that does not import catches nothing.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.fault import PACKAGE, Fault, Part
from tests.mutation.parts import PARTS
from tests.mutation.seeded_backends import BACKENDS
from tests.mutation.seeded_passes import PASSES
from tests.mutation.seeded_runtime import RUNTIME

ROOT = Path(__file__).resolve().parents[2]
FAULTS: tuple[Fault, ...] = (*PASSES, *BACKENDS, *RUNTIME)
SECONDS = 300
CODES = {0: "survived", 1: "caught", 5: "no test ran"}
# how a fault shows that is none of a program's behaviour
NO_CATCH = frozenset({"ImportError", "ModuleNotFoundError", "SyntaxError", "NameError",
                      "UnboundLocalError", "AttributeError", "TypeError"})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a fault: `caught`, `survived` or what else; by which test, saying what."""

    verdict: str
    test: str = ""
    words: str = ""
    seconds: float = 0.0


@contextmanager
def copy() -> Generator[Path]:
    """A folder with the package, the tests and the kernels as they are now."""
    unwanted = shutil.ignore_patterns("__pycache__", ".hypothesis", "golden")
    with tempfile.TemporaryDirectory(prefix="hetir-faulty-") as folder:
        root = Path(folder).resolve()
        shutil.copytree(PACKAGE, root / "hetir", ignore=unwanted)
        for name in ("tests", "kernels"):
            shutil.copytree(ROOT / name, root / name, ignore=unwanted)
        shutil.copy(ROOT / "pyproject.toml", root)
        yield root


@contextmanager
def planted(root: Path, fault: Fault) -> Generator[None]:
    """The fault stands in the copy; afterwards the file is what it was."""
    path = root / "hetir" / fault.file
    text = fault.source(root / "hetir")
    kept = path.with_name(path.name + ".right")
    path.rename(kept)
    path.write_text(text, encoding="utf-8")
    # a compiled file is known by time and size: no two faults may look alike
    now = time.time()
    os.utime(path, (now, now + next(_seconds)))
    try:
        yield
    finally:
        kept.replace(path)


_seconds = iter(range(2, 1 << 20))


def run(root: Path, module: str, part: Part) -> Outcome:
    """Run a part in a copy, its module imported first, until a test fails."""
    says, cache = root / "says.json", root / "cache"
    says.unlink(missing_ok=True)
    shutil.rmtree(cache, ignore_errors=True)  # what other code compiled
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider",
               "-p", "tests.mutation.witness", "-o", "addopts=--strict-markers",
               "-m", "not slow", *part.tests]  # fmt: skip
    environment = {**os.environ, **part.environment, "PYTHONPATH": str(root)}
    environment |= {"HETIR_CACHE_DIR": str(cache), "HETIR_FAULTY": module}
    environment |= {"HETIR_FAULTY_SAYS": str(says), "PYTHONDONTWRITEBYTECODE": ""}
    for name in [n for n in environment if n.startswith(("PYTEST_", "COV_"))]:
        del environment[name]
    start = time.monotonic()
    with (root / "output").open("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            command, cwd=root, env=environment, stdout=output, stderr=output, text=True,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            return Outcome("did not end", seconds=SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        spent = time.monotonic() - start
        output.seek(0)
        return _judged(code, says, output.read(), spent)


def _judged(code: int, says: Path, output: str, seconds: float) -> Outcome:
    last = (output.strip().splitlines() or [""])[-1]
    if code < 0:
        return Outcome("caught", words=f"the process died: {signal.Signals(-code).name}",
                       seconds=seconds)  # fmt: skip
    if code != 1 or not says.exists():
        return Outcome(CODES.get(code, "does not run"), words=last, seconds=seconds)
    said = json.loads(says.read_text(encoding="utf-8"))
    wrong = NO_CATCH.intersection(said["classes"])
    lines = str(said["message"]).strip().splitlines() or [""]
    words = f"{said['classes'][0]}: {lines[0]}"
    return Outcome("does not run" if wrong else "caught", said["test"], words, seconds)


def outcomes(faults: Sequence[Fault]) -> Iterator[tuple[Fault, Outcome]]:
    """Each fault with what became of it, one after another in one copy; none is left in it."""
    with copy() as root:
        for fault in faults:
            with planted(root, fault):
                yield fault, run(root, fault.module, PARTS[fault.part])


def five(day: datetime.date) -> tuple[Fault, ...]:
    """The faults of a day; all have their turn before one comes again."""
    first = 5 * day.timetuple().tm_yday
    return tuple(FAULTS[(first + n) % len(FAULTS)] for n in range(5))


def table(found: Iterator[tuple[Fault, Outcome]]) -> Iterator[str]:
    """A Markdown table, line by line."""
    yield "| fault | kind | file | part | outcome | by | s |"
    yield "|---|---|---|---|---|---|---:|"
    for fault, outcome in found:
        by = outcome.test.rpartition("/")[2] or outcome.words
        said = outcome.verdict if outcome.verdict == "caught" else f"**{outcome.verdict}**"
        row = (fault.name, fault.kind, fault.file, fault.part, said, by, f"{outcome.seconds:.1f}")
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def say(text: str) -> None:
    """A line, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def sound() -> int:
    """Every part passes in a copy without a fault; gives how many do not."""
    bad = 0
    with copy() as root:
        for name, part in PARTS.items():
            outcome = run(root, "hetir", part)
            bad += outcome.verdict != "survived"
            said = "passes" if outcome.verdict == "survived" else f"{outcome}"
            say(f"{name}: {said}, {outcome.seconds:.1f} s")
    return bad


def _stopped(number: int, _: object) -> None:
    """What runs ends, and the copy goes."""
    sys.exit(128 + number)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some faults, or of some parts")
    parser.add_argument("--five", nargs="?", const="today", metavar="DATE")
    parser.add_argument("--sound", action="store_true")
    parser.add_argument("--say", action="store_true", help="what the failing test said, too")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, _stopped)
    if asked.sound:
        return sound()
    chosen = FAULTS
    if asked.five:
        today = asked.five == "today"
        day = datetime.date.today() if today else datetime.date.fromisoformat(asked.five)
        chosen = five(day)
    elif asked.only:
        chosen = tuple(f for f in FAULTS if {f.name, f.part, f.file} & set(asked.only))
    missed = 0

    def watched() -> Iterator[tuple[Fault, Outcome]]:
        nonlocal missed
        for fault, outcome in outcomes(chosen):
            missed += outcome.verdict != "caught"
            yield fault, outcome
            if asked.say:
                say(f"    {outcome.words[:200]}")

    for line in table(watched()):
        say(line)
    say(f"\n{len(chosen) - missed} of {len(chosen)} caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
