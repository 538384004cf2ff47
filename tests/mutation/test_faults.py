"""Seeded faults are noticed by the property suite: five a day in CI, all when slow."""

from __future__ import annotations

import datetime

import pytest

from tests.mutation import faults
from tests.mutation.parts import PARTS


def missed(chosen: tuple[faults.Fault, ...]) -> list[str]:
    """The faults that were not caught; the table is printed."""
    found = list(faults.outcomes(chosen))
    print("\n".join(faults.table(iter(found))))  # noqa: T201 (pytest shows it where it fails)
    return [f"{f.name}: {o.verdict}" for f, o in found if o.verdict != "caught"]


def test_every_fault_changes_its_module() -> None:
    """The table cannot rot: each piece is where it was, and the changed file is Python."""
    assert len(faults.FAULTS) >= 60
    assert len({f.name for f in faults.FAULTS}) == len(faults.FAULTS)
    assert len({(f.file, f.before, f.after) for f in faults.FAULTS}) == len(faults.FAULTS)
    for fault in faults.FAULTS:
        compile(fault.source(), fault.file, "exec")
        assert fault.part in PARTS


def test_every_day_has_its_five() -> None:
    """In a row of days every fault has its turn."""
    days = -(-len(faults.FAULTS) // 5)
    first = datetime.date(2027, 1, 1)
    seen = [f for n in range(days) for f in faults.five(first + datetime.timedelta(n))]
    assert set(seen) == set(faults.FAULTS)


def test_five_of_the_faults_are_caught() -> None:
    assert not missed(faults.five(datetime.date.today()))


@pytest.mark.slow
def test_all_faults_are_caught() -> None:
    assert not missed(faults.FAULTS)
