"""A plugin of the pytest that runs on a faulty copy: what was imported, and what failed how."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path

import pytest

WRONG_COPY = 78


def pytest_configure() -> None:
    """The changed module must import, and from the copy; an exception here ends the run."""
    module = importlib.import_module(os.environ["HETIR_FAULTY"])
    if not Path(str(module.__file__)).is_relative_to(Path.cwd()):
        pytest.exit(f"{module.__file__} is not of the copy", WRONG_COPY)


def pytest_exception_interact(
    node: pytest.Item | pytest.Collector, call: pytest.CallInfo[object]
) -> None:
    """Note the first failure: the test, the exception's class and what it says."""
    error = call.excinfo
    if error is None or error.errisinstance(pytest.skip.Exception):
        return
    chain = [type(e).__name__ for e in _chain(error.value)]
    said = {"test": node.nodeid, "classes": chain, "message": str(error.value)[:2000]}
    Path(os.environ["HETIR_FAULTY_SAYS"]).write_text(json.dumps(said), encoding="utf-8")


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    now: BaseException | None = error
    while now is not None and now not in found:
        found.append(now)
        now = now.__cause__
    return found
