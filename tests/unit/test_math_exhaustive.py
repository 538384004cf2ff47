"""Hours: every f32 argument anew against docs/math.md, and a million arguments on the evaluator."""

import numpy as np
import pytest

from tests.unit.math_cases import BINARY, CASES, compute, samples
from tools import measure_math

RESULTS = measure_math.kept()


def test_the_page_is_what_was_measured():
    assert measure_math.PAGE.read_text() == measure_math.render(RESULTS)


def test_every_function_is_measured_and_within_its_limit():
    for name, case in {**CASES, **BINARY}.items():
        for kind in ("f32", "f64"):
            found = RESULTS[name][kind]
            assert 0.49 < found["ulp"] <= case.limits[kind], (name, kind)
            assert found["wrong_specials"] == 0, (name, kind)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_f32_argument(name):
    with np.errstate(all="ignore"):
        found = measure_math.measure_f32(name, 1)
    committed = RESULTS[name]["f32"]
    assert found["ulp"] <= CASES[name].limits["f32"]
    assert found["wrong_specials"] == 0
    if committed["arguments"] == 1 << 32:
        assert (found["ulp"], found["at"]) == (committed["ulp"], committed["at"])


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CASES, *BINARY])
def test_the_evaluator_has_the_same_bits_on_a_million_arguments(name):
    case = {**CASES, **BINARY}[name]
    for dtype in map(np.dtype, ("f4", "f8")):
        x = [samples(case, dtype, 250_000, seed) for seed in range(1 + (name in BINARY))]
        bits = f"u{dtype.itemsize}"
        ours, theirs = compute(name, *x), compute(name, *x, device="emulator")
        nan = np.isnan(ours) & np.isnan(theirs)
        assert (nan | (ours.view(bits) == theirs.view(bits))).all()
