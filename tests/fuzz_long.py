"""Searches for disagreements for hours: python tests/fuzz_long.py --hours 3 --corpus DIR.

Each part of tests/property/parts.py runs in a child process, a slice of time after another, with
seeds from --seed on. A crash, a hang or an error is a fault like unequal bits: it is written to
the corpus folder, small and with everything that reproduces it, and the search goes on. At the
end, and after every round, a line a part says what ran. Exits with 1 when there was a fault.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CASE_SECONDS = 180.0
"""What one case may take, its compilation included, before it counts as a hang."""
REDUCE_SECONDS = 60.0
START_SECONDS = 300.0
MOST_OF_A_KIND = 3
"""How many faults of one kind are written down; the others are counted."""


# ---- the child ---------------------------------------------------------------------------------


def work(name: str, seed: int, seconds: float, out: int, most: int) -> None:
    """Run cases from a seed on until the time is over; tell by lines of JSON."""
    from tests.property import parts

    def tell(**news: Any) -> None:
        os.write(out, (json.dumps(news) + "\n").encode())

    part, end = parts.PARTS[name], time.monotonic() + seconds
    if not part.here():
        tell(absent=name)
        return
    for now in range(seed, seed + most):
        if time.monotonic() >= end:
            break
        tell(begin=now)
        start = time.monotonic()
        for news in _outcomes(parts, part, now):
            tell(**news)
        tell(end=now, seconds=time.monotonic() - start)


def _outcomes(parts: Any, part: Any, seed: int) -> Any:
    """For each check of a case: that it ran, was refused, or failed."""
    try:
        case, checks = parts.drawn(part, seed)
    except Exception as error:  # noqa: BLE001 - the generator's own fault
        yield {"fault": "the generator", "kind": parts.signature(error),
               "text": traceback.format_exc(), "case": ""}  # fmt: skip
        return
    for check_name, check in checks:
        yield {"check": check_name}
        try:
            check(case)
        except parts.REFUSED as error:
            yield {"refused": check_name, "reason": parts.signature(error)}
        except Exception as error:  # noqa: BLE001 - any error is what we look for
            text = traceback.format_exc()
            yield {"found": check_name}
            yield {"fault": check_name, "kind": parts.signature(error), "text": text,
                   "case": _reduced(parts, case, check, error)}  # fmt: skip
        else:
            yield {"ran": check_name}


def _reduced(parts: Any, case: Any, check: Any, error: BaseException) -> str:
    """The case as a corpus entry, small where it can be made small in time."""
    from tests.property import corpus

    if isinstance(case, parts.Case):
        limit = time.monotonic() + REDUCE_SECONDS
        case = parts.smaller(case, check, error, lambda: time.monotonic() > limit)
    return corpus.write(case)


# ---- the parent --------------------------------------------------------------------------------


@dataclass(slots=True)
class Tally:
    """What a part did."""

    cases: int = 0
    ran: int = 0
    seconds: float = 0.0
    refused: Counter[str] = field(default_factory=Counter[str])
    faults: Counter[str] = field(default_factory=Counter[str])
    absent: bool = False

    def line(self, name: str) -> str:
        """One line for people."""
        if self.absent:
            return f"{name:12} no device here"
        asked = self.ran + self.refused.total() + self.faults.total()
        share = 100 * self.ran / max(1, asked)
        return (
            f"{name:12} {self.cases:6} kernels {self.ran:7} runs ({share:3.0f} %) "
            f"{self.faults.total():4} faults in {len(self.faults)} kinds {self.seconds:7.0f} s"
        )


class Search:
    """Runs children and keeps what they tell."""

    def __init__(self, corpus: Path, log: Path) -> None:
        self.corpus, self.log = corpus, log
        self.tallies: dict[str, Tally] = {}
        self.next: dict[str, int] = {}
        corpus.mkdir(parents=True, exist_ok=True)

    def slice(self, name: str, seed: int, seconds: float, most: int = 1 << 40) -> None:
        """One child of a part, from where the part stopped; another one after a crash."""
        tally = self.tallies.setdefault(name, Tally())
        start, end = time.monotonic(), time.monotonic() + seconds
        last = seed + most
        while time.monotonic() < end and not tally.absent:
            at = self.next.get(name, seed)
            if at >= last:
                break
            self._child(name, at, end - time.monotonic(), last - at, tally)
        tally.seconds += time.monotonic() - start

    def _child(self, name: str, seed: int, seconds: float, most: int, tally: Tally) -> None:
        begun: dict[str, Any] = {"seed": None, "check": ""}
        read, write = os.pipe()
        command = [sys.executable, __file__, "--child", name, "--seed", str(seed)]
        command += ["--hours", str(seconds / 3600), "--out", str(write), "--most", str(most)]
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                command, pass_fds=(write,), stdout=log, stderr=log, start_new_session=True
            )
        os.close(write)
        hung = False
        buffer = b""
        while True:
            limit = START_SECONDS if begun["seed"] is None else CASE_SECONDS + REDUCE_SECONDS
            ready, _, _ = select.select([read], [], [], limit)
            if not ready:
                hung = True
                os.killpg(child.pid, signal.SIGKILL)
                break
            data = os.read(read, 1 << 16)
            if not data:
                break
            buffer += data
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                self._heard(name, json.loads(line), begun, tally)
        os.close(read)
        code = child.wait()
        if hung or code:
            self._crashed(name, begun, tally, "hang" if hung else f"the process ended with {code}")
        self.next[name] = seed + bool(code) if begun["seed"] is None else begun["seed"] + 1

    def _heard(self, name: str, news: dict[str, Any], begun: dict[str, Any], tally: Tally) -> None:
        match news:
            case {"begin": seed}:
                begun.update(seed=seed, check="before its first check")
            case {"check": check} | {"found": check}:
                begun["check"] = check
            case {"ran": _}:
                tally.ran += 1
            case {"refused": _, "reason": reason}:
                tally.refused[reason] += 1
            case {"fault": check, "kind": kind, "text": text, "case": case}:
                self._fault(name, begun["seed"], check, kind, text, case, tally)
            case {"end": _}:
                begun["check"] = "after its last check"
                tally.cases += 1
            case {"absent": _}:
                tally.absent = True
            case _:
                raise AssertionError(news)

    def _crashed(self, name: str, begun: dict[str, Any], tally: Tally, what: str) -> None:
        tally.cases += 1
        self._fault(name, begun["seed"], begun["check"], f"crash: {what}", what, "", tally)

    def _fault(
        self, name: str, seed: int, check: str, kind: str, text: str, case: str, tally: Tally
    ) -> None:
        where = re.sub(r"[=\[].*", "", check).strip()
        sort = f"{where}: {kind}"
        tally.faults[sort] += 1
        print(f"FAULT {name} seed {seed}, {check}: {kind}", flush=True)
        if tally.faults[sort] > MOST_OF_A_KIND:
            return
        head = [f"part {name}, seed {seed}", f"check {check}", *text.strip().splitlines()[-30:]]
        mark = "#" if case.startswith("#") else "//"
        body = "\n".join(f"{mark} {line}" for line in head) + "\n" + case
        suffix = "py" if mark == "#" else "hir"
        (self.corpus / f"{name}-{seed}-{tally.faults[sort]}.{suffix}").write_text(body)

    def report(self) -> None:
        """A line a part, and the reasons why targets refused."""
        for name, tally in self.tallies.items():
            print(tally.line(name))
            for reason, count in [*tally.refused.most_common(4)]:
                print(f"{'':14}{count:6} refused: {reason}")
            for sort, count in tally.faults.most_common():
                print(f"{'':14}{count:6} {sort}")
        sys.stdout.flush()

    def to_json(self) -> dict[str, Any]:
        """All numbers, for whoever adds up several runs."""
        return {
            name: {"cases": t.cases, "ran": t.ran, "seconds": round(t.seconds),
                   "refused": dict(t.refused), "faults": dict(t.faults), "absent": t.absent}
            for name, t in self.tallies.items()
        }  # fmt: skip


def main() -> int:
    """Read the command line and search."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=None, help="the first seed; fresh if left out")
    parser.add_argument("--corpus", type=Path, default=Path("fuzz-corpus"))
    parser.add_argument("--only", action="append", help="a part's name; may be given again")
    parser.add_argument("--slice", type=float, default=60.0, help="seconds a part has in turn")
    parser.add_argument("--most", type=int, default=1 << 40, help="cases a part at most")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    sys.path[:] = [p for p in sys.path if p != str(ROOT / "tests")]
    sys.path.append(str(ROOT))  # last, so that an installed hetir is what is tested
    if asked.child:
        work(asked.child, asked.seed, asked.hours * 3600, asked.out, asked.most)
        return 0
    from tests.property import parts

    names = asked.only or list(parts.PARTS)
    seed = asked.seed if asked.seed is not None else int.from_bytes(os.urandom(5))
    print(f"seed {seed}, parts {', '.join(names)}", flush=True)
    search = Search(asked.corpus, asked.corpus.with_suffix(".log"))
    end = time.monotonic() + asked.hours * 3600
    while (left := end - time.monotonic()) > 0:
        done = [n for n in names if search.next.get(n, seed) >= seed + asked.most]
        if len(done) == len(names) or (done and all(t.absent for t in search.tallies.values())):
            break
        for name in names:
            search.slice(name, seed, min(asked.slice, left), asked.most)
            left = end - time.monotonic()
            if left <= 0:
                break
        print(f"---- {(asked.hours * 3600 - left) / 60:.0f} minutes")
        search.report()
        (asked.corpus / "summary.json").write_text(json.dumps(search.to_json(), indent=1))
    return int(any(t.faults for t in search.tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
