"""Every flag, barrier and cache operation of kernels is missed when it is taken away."""

from __future__ import annotations

import pytest

from hetir import library
from hetir.emulator import ascend as shim
from tools.ascend_mutation import ALL, SIMD, SIMT, Row, row, rows, steps

needs_compiler = pytest.mark.skipif(not shim.compilers(), reason="no C++ compiler is here")


def all_missed(found: Row) -> bool:
    there, missed, taken, seen = found.counts
    return there == missed and taken - seen == len(found.unseen)


@needs_compiler
@pytest.mark.parametrize("target", [*SIMD, SIMT])
@pytest.mark.parametrize("name", ["saxpy", "sum", "transpose"])
def test_runs_show_most_of_what_is_missing(name: str, target: str) -> None:
    """Not where a case ends before the path, or copies go to different parts of one array."""
    for step in steps(name):
        found = row(step, target, ALL)
        assert all_missed(found)
        assert found.counts[3] >= found.counts[2] * 2 // 3, found


@needs_compiler
def test_a_part_of_what_is_there_is_taken_evenly() -> None:
    (step,) = steps("saxpy")
    whole, some = (row(step, "ascend:910b", most).counts for most in (ALL, 5))
    assert whole[2] > 10
    assert 3 <= some[2] <= 5
    assert some[:2] == whole[:2]


@pytest.mark.slow
@needs_compiler
def test_of_the_whole_library() -> None:
    """By proof all of them; of up to 24 of a kernel runs show most."""
    found = [*rows(library.NAMES, 24)]
    assert all(map(all_missed, found))
    there, _, taken, seen = (sum(r.counts[n] for r in found) for n in range(4))
    assert there > 4000
    assert seen > 0.9 * taken
