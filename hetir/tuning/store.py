"""Choices on disk: one JSON file a kernel, device and key, beside the compilation cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from pathlib import Path
from typing import Any

from hetir import runtime
from hetir.runtime.cache import why_not
from hetir.tuning.report import Report, Trial

VERSION = 1


def folder() -> Path:
    """Where choices lie: the folder `tuning` in that of the compilation cache."""
    return runtime.cache().folder / "tuning"


def load(identity: str) -> Report | None:
    """The report stored under an identity; None where there is none that can be trusted."""
    try:
        if why_not(folder()):
            return None
        found = json.loads(_path(identity).read_text(encoding="utf-8"))
        return _report(found) if found["identity"] == identity else None
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def save(identity: str, report: Report) -> bool:
    """Publish a report by one rename; False where the folder or the disk does not let it."""
    text = json.dumps(_plain(identity, report), indent=1)
    path = _path(identity)
    temporary = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}.part")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if why_not(path.parent):
            return False
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        return False
    return True


def _path(identity: str) -> Path:
    return folder() / (hashlib.sha256(identity.encode()).hexdigest()[:40] + ".json")


def _plain(identity: str, report: Report) -> dict[str, Any]:
    return {
        "version": VERSION,
        "identity": identity,
        "kernel": report.kernel,
        "device": report.device,
        "key": report.key,
        "default": report.default,
        "chosen": report.chosen,
        "trials": [
            {
                "config": dict(trial.config),
                "outcome": trial.outcome,
                "reason": trial.reason,
                "score": trial.score,
                "seconds": trial.seconds,
            }
            for trial in report.trials
        ],
    }


def _report(found: dict[str, Any]) -> Report:
    """The report of a file's JSON; raises what a file of another form makes it raise."""
    if found["version"] != VERSION:
        raise ValueError("written by another version")
    trials = tuple(
        Trial(
            config=_config(entry["config"]),
            outcome=str(entry["outcome"]),
            reason=str(entry["reason"]),
            score=entry["score"],
            seconds=tuple(map(float, entry["seconds"])),
        )
        for entry in found["trials"]
    )
    default, chosen = int(found["default"]), int(found["chosen"])
    if not (0 <= default < len(trials) and 0 <= chosen < len(trials)):
        raise ValueError("names a trial that is not there")
    return Report(
        kernel=str(found["kernel"]),
        device=str(found["device"]),
        key=tuple(map(str, found["key"])),
        trials=trials,
        default=default,
        chosen=chosen,
        stored=True,
    )


def _config(entry: dict[str, Any]) -> dict[str, Any]:
    """JSON has no tuples."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
