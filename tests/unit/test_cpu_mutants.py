"""Faults planted in the CPU backend's masks are noticed: two a day in CI, all when slow."""

from __future__ import annotations

import datetime
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation import masks

SCRIPT = Path(masks.__file__)


def caught(*names: str) -> None:
    command = [sys.executable, str(SCRIPT), "--trust", *names]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = ran.stdout.splitlines()[2:]
    assert len(rows) == len(names)
    assert not [row for row in rows if "not caught" in row]


def test_two_of_the_faults_are_caught() -> None:
    today = datetime.datetime.now(datetime.UTC).date().toordinal()
    caught(*(masks.MUTANTS[(2 * today + n) % len(masks.MUTANTS)].name for n in range(2)))


def test_every_fault_changes_its_module() -> None:
    assert len({m.name for m in masks.MUTANTS}) == len(masks.MUTANTS)
    for mutant in masks.MUTANTS:
        compile(mutant.source(), str(mutant.path), "exec")


@pytest.mark.slow
def test_all_faults_are_caught() -> None:
    caught(*(m.name for m in masks.MUTANTS))
