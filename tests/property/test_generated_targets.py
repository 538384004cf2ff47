"""Generated kernels on every target, in a child process a part; and what they once found.

HETIR_GENERATED scales how many there are (CI: 2000), most from fixed seeds and a few from fresh
ones; tests/fuzz_long.py does the same for hours.
"""

import os
import random
from pathlib import Path

import pytest

from hetir import runtime, testing
from hetir.testing.cases import Case
from hetir.testing.runners import OnDevice
from tests.fuzz_long import Search
from tests.property import corpus, parts

SCALE = int(os.environ.get("HETIR_GENERATED", "100")) / 2000
FRESH = random.SystemRandom().randrange(1 << 40)
# cases of each part at full scale, and the least share in percent that its target must run
CASES = {
    "cpu": (30, 100),
    "evaluator": (120, 100),
    "forms": (30, 100),
    "checkpoint": (14, 60),
    "source": (8, 100),
    "ptx": (50, 95),
    "opencl": (45, 80),
    "vulkan": (45, 60),
    "ascend": (12, 50),
    "ascend-310p": (10, 50),
    "ascend-950": (12, 50),
}


def test_every_part_is_run():
    assert CASES.keys() == parts.PARTS.keys()


@pytest.mark.parametrize("name", CASES)
def test_generated_kernels_agree(name, tmp_path):
    count, share = CASES[name]
    search = Search(tmp_path, tmp_path / "log")
    fixed, fresh = max(2, round(0.8 * count * SCALE)), max(1, round(0.2 * count * SCALE))
    for seed, most in ((40_000, fixed), (FRESH, fresh)):
        search.next.clear()
        search.slice(name, seed, 600, most)
    tally = search.tallies[name]
    if tally.absent:
        pytest.skip(f"no device for {name}")
    files = [f"{f.name}:\n{f.read_text()}" for f in tmp_path.iterdir() if f.suffix != ".log"]
    assert not tally.faults, "\n".join([f"fresh seeds from {FRESH}", *files])
    assert tally.cases == fixed + fresh
    asked = tally.ran + tally.refused.total()
    if tally.cases >= 10:
        assert 100 * tally.ran >= share * asked, tally.refused


# ---- what was found once -----------------------------------------------------------------------


def entries():
    return sorted(corpus.FOLDER.iterdir())


@pytest.mark.filterwarnings("ignore:.*ends loops after")
@pytest.mark.parametrize("path", entries(), ids=lambda path: path.stem)
def test_what_was_found_stays_found(path: Path):
    """Each entry on the CPU in several ways, and on the devices that its comment names."""
    case = corpus.read(path)
    text = path.read_text(encoding="utf-8")
    assert text.startswith(("// Found: ", "# Found: ")), "say what it found"
    if not isinstance(case, Case):
        check_source(case)
        return
    ways = [
        OnDevice(device="cpu", optimise=level, lanes=lanes, simplified=simplified)
        for level, lanes, simplified in ((0, None, True), (3, None, True), (0, 0, False))
    ]
    asked = next((x for x in text.splitlines() if x.startswith("// Devices: ")), "")
    for name in filter(None, asked.removeprefix("// Devices: ").split(", ")):
        device, _, target = name.partition(" ")
        if any(d.name == device for d in runtime.devices(emulated=True)):
            ways.append(OnDevice(device=device, target=target))
    case.run(testing.checked)
    for way in ways:
        parts.agrees(way)(case)


def check_source(case):
    for _, check in parts.source_checks(random.Random(0), build=True):
        check(case)


def test_a_stored_case_is_what_was_written(tmp_path):
    for seed in range(20):
        case = testing.generate(random.Random(seed).randrange)
        path = tmp_path / "case.hir"
        path.write_text(corpus.write(case))
        again = corpus.read(path)
        one, two = case.arguments(), again.arguments()
        assert [getattr(a, "strides", None) for a in one] == [
            getattr(a, "strides", None) for a in two
        ]
        assert not testing.differences(one, two)
        parts.equal(parts.right(case), parts.right(again))


# ---- the search itself -------------------------------------------------------------------------


def test_a_crash_a_hang_and_an_error_are_found_and_the_search_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.fuzz_long.CASE_SECONDS", 8.0)
    monkeypatch.setattr("tests.fuzz_long.REDUCE_SECONDS", 0.0)
    monkeypatch.setenv("HETIR_FUZZ_PLANTED", "1")
    search = Search(tmp_path, tmp_path / "log")
    search.slice("planted", 0, 60, 8)
    tally = search.tallies["planted"]
    assert tally.cases == 8
    kinds = " ".join(tally.faults)
    for word in ("bits differ", "ended with -11", "hang", "ValueError"):
        assert word in kinds
    assert tally.ran == 4
    assert len(list(tmp_path.glob("planted-*"))) == 4
