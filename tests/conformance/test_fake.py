"""The fake C driver's own view: the calls that reach it, their order, and what failures become."""

import gc

import numpy as np
import pytest

from hetir.runtime import DeviceError, DriverError, LaunchFailedError, OutOfMemoryError


@pytest.fixture
def library(fake_bench):
    assert fake_bench.device.default_queue  # is made at its first use
    fake_bench.device.wait()  # other tests' launches, on all queues
    gc.collect()
    fake_bench.driver.library.calls()
    return fake_bench.driver.library


def saxpy_values(n=8):
    return 2.0, np.ones(n, np.float32), np.zeros(n, np.float32)


def test_a_launch_copies_in_runs_and_copies_back_what_is_written(fake_bench, library):
    program = fake_bench.program("saxpy")
    library.calls()
    launch = program.launch(saxpy_values(), grid=1, workgroup=8)
    assert library.calls() == ["fnAlloc", "fnWrite", "fnAlloc", "fnWrite", "fnLaunch"]
    launch.wait()
    assert library.calls() == ["fnEventWait", "fnRead", "fnFree", "fnFree"]


def test_arrays_on_the_device_are_not_copied(fake_bench, library):
    a, x, y = saxpy_values()
    device = fake_bench.device
    x, y = device.array(x), device.array(y)
    program = fake_bench.program("saxpy")
    library.calls()
    program.launch((a, x, y), grid=1, workgroup=8).wait()
    assert library.calls() == ["fnLaunch", "fnEventWait"]
    assert (y.numpy() == 2).all()


def test_overlapping_host_arrays_share_one_copy(fake_bench, library):
    base = np.arange(20, dtype=np.float32)
    expected = base.copy()
    expected[4:12] += 2 * base[6:14].copy()
    program = fake_bench.program("saxpy")
    library.calls()
    program.launch((2.0, base[6:14], base[4:12]), grid=1, workgroup=8).wait()
    assert library.calls().count("fnAlloc") == 1
    # item i reads what item i-2.. of a sequential device wrote: only i+2 is read, before its turn
    assert (base == expected).all()


@pytest.mark.parametrize(
    ("call", "code", "error", "text"),
    [
        ("fnAlloc", 2, OutOfMemoryError, "has no memory for 32 bytes"),
        ("fnLaunch", 400, LaunchFailedError, "`fnLaunch` failed with FN_BAD_HANDLE (400)"),
        ("fnEventWait", 700, LaunchFailedError, "`fnEventWait` failed with FN_BAD_ADDRESS (700)"),
        ("fnWrite", 700, DriverError, "`fnWrite` failed with FN_BAD_ADDRESS (700)"),
        ("fnRead", 1, LaunchFailedError, "`fnRead` failed with FN_BAD_VALUE (1)"),
    ],
)
def test_each_failing_call_is_named_and_the_device_goes_on(
    fake_bench, library, call, code, error, text
):
    program = fake_bench.program("saxpy")
    library.raw.fnFailNext(call.encode(), code)
    with pytest.raises(error) as caught:
        program.launch(saxpy_values(), grid=1, workgroup=8).wait()
    assert text in str(caught.value)
    values = saxpy_values()
    program.launch(values, grid=1, workgroup=8).wait()
    assert (values[2] == 2).all()


def test_the_log_of_the_loader_is_in_the_error(fake_bench, library):
    library.calls()
    from dataclasses import replace

    with pytest.raises(DeviceError, match="the image has no kernel absent"):
        fake_bench.device.load(replace(fake_bench.artifact("saxpy"), entry="absent"))


def test_nothing_leaks_over_many_launches(fake_bench, library):
    program = fake_bench.program("saxpy")
    program.launch(saxpy_values(), grid=1, workgroup=8).wait()
    gc.collect()
    before = library.raw.fnLiveBytes()
    for _ in range(200):
        program.launch(saxpy_values(), grid=1, workgroup=8).wait()
    gc.collect()
    fake_bench.device.default_queue.wait()
    assert library.raw.fnLiveBytes() <= before + 64
