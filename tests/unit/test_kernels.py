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


@pytest.mark.parametrize("size", [1, 2, 4095, 4097, 70_000])
def test_a_sort_of_equal_extreme_and_ordered_numbers(size):
    info = np.iinfo(np.int32)
    rising = np.linspace(info.min, info.max, size).astype(np.int32)
    ends = np.where(np.arange(size) % 3, info.max, info.min)
    for data in (rising, rising[::-1], ends, np.full(size, -1), np.arange(size) % 7 - 3):
        case = library.case("bitonic_sort", data=data)
        case.run()
        assert case.error() == 0


@pytest.mark.parametrize("radices", [(2,) * 7, (4, 4, 4), (2, 4, 8), (16, 16, 2), (8, 16), (32,)])
def test_a_transform_by_any_radices(radices):
    module = library.load(library.folder() / "fft.py")
    n, choose = int(np.prod(radices)), np.random.default_rng(1)
    real, imag, *out = (choose.random((3, n), np.float32) for _ in range(4))
    arguments = (real, imag, *module.twiddles(radices), *out, radices)
    module.fft.launch(arguments, grid=(3,), workgroup=(module.GROUP,)).wait()
    want = np.fft.fft(real + 1j * imag.astype(np.float64))
    assert np.abs(out[0] - want.real).max() < 1e-5 * np.abs(want).max()
    assert np.abs(out[1] - want.imag).max() < 1e-5 * np.abs(want).max()


@pytest.mark.parametrize("n", [0, 3, 12, 100])
def test_a_transform_of_another_length_is_refused(n):
    with pytest.raises(ValueError, match="power of two"):
        library.load(library.folder() / "fft.py").plan(n)


@pytest.mark.parametrize("n", [0, 1, 2048, 5000, 12288])
def test_a_sort_of_another_length_is_refused(n):
    with pytest.raises(ValueError, match="power of two"):
        library.load(library.folder() / "bitonic_sort.py").steps(np.zeros(n, np.int32))


def test_top_k_of_equal_values_and_infinities():
    data = np.array([[np.inf] * 3 + [-np.inf] * 200, [1.0, 2.0] * 101 + [0.0]], np.float32)
    case = library.case("top_k", data=data)
    case.run()
    assert case.results["y"].tolist() == [[np.inf] * 3 + [-np.inf] * 5, [2.0] * 8]
