"""Every kernel of the library against NumPy, on the CPU and the evaluator, bit for bit alike."""

import numpy as np
import pytest

import hetir
from hetir import library

SIZES = {
    name: [library.SMALL[name], tuple(1 for _ in size) if isinstance(size, tuple) else 1]
    for name, size in library.SMALL.items()
}
SIZES["rotary"][1] = (1, 1, 2)  # it rotates pairs
CASES = [(name, size) for name, sizes in SIZES.items() for size in sizes]


def ran(name, size, device):
    case = library.case(name, size=size)
    case.reset()
    case.run(device)
    return case


@pytest.mark.parametrize(("name", "size"), CASES, ids=str)
def test_kernel_agrees_with_numpy_and_with_the_evaluator(name, size):
    cpu, emulator = ran(name, size, "cpu"), ran(name, size, "emulator")
    assert cpu.error() <= cpu.tolerance
    assert emulator.error() <= emulator.tolerance
    for key, got in cpu.results.items():
        other = emulator.results[key]
        assert got.tobytes() == other.tobytes(), key


@pytest.mark.parametrize("name", library.NAMES)
def test_kernel_is_clean_under_every_check(name):
    case = library.case(name, size=library.SMALL[name])
    case.reset()
    for step in case.steps:
        report = hetir.check(step.kernel, step.arguments, step.grid, step.workgroup)
        assert [str(f) for f in report.faults] == []


def test_a_case_whose_result_is_wrong_says_so():
    case = ran("saxpy", 1000, "cpu")
    case.results["y"][17] += 1
    assert case.error() > case.tolerance


def test_softmax_of_nan_and_infinity():
    case = library.case("softmax", data=np.array([[1, np.nan, 3], [1, 2, np.inf]], np.float32))
    with np.errstate(all="ignore"):
        want = case.expected()["y"]
        case.run("cpu")
    assert np.isnan(case.results["y"]).all()
    assert np.isnan(want).any()
