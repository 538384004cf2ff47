"""What every device promises, asked through programs, arrays and launches."""

import gc
from contextlib import suppress

import ml_dtypes
import numpy as np
import pytest

from hetir.limits import GridError, WorkgroupSizeError
from hetir.runtime import (
    ArgumentError,
    DeviceError,
    LaunchFailedError,
    LaunchTimeoutError,
    OutOfMemoryError,
    Records,
)

# where launches and copies of unlike queues wait for one another
TAKES_TURNS = ("opencl", "vulkan", "cuda")


def saxpy(bench, x, y, a=2.0, **options):
    program = bench.program("saxpy", ("a", "x", "y"))
    return program.launch((a, x, y), grid=-(-len(y) // 64) or 1, workgroup=64, **options)


def arrays(n=1000):
    x = np.arange(n, dtype=np.float32)
    return x, np.ones(n, np.float32)


def test_host_arrays_hold_the_results_after_the_wait(bench):
    x, y = arrays()
    launch = saxpy(bench, x, y)
    launch.wait()
    assert launch.done
    assert launch.arguments["y"] is y
    assert (y == 2 * np.arange(1000, dtype=np.float32) + 1).all()
    assert launch.seconds >= 0
    launch.wait()


def test_run_is_synchronous(bench):
    x, y = arrays()
    program = bench.program("saxpy")
    for step in range(1, 4):
        program.run((2.0, x, y), (16, 1, 1), (64, 1, 1))
        assert (y == 2 * step * x + 1).all()


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::2],
        lambda x: x[::-1],
        lambda x: x[7:93],
        lambda x: x[90:10:-3],
        lambda x: x.reshape(10, 10)[:, 3],
        lambda x: x[:0],
    ],
    ids=["strided", "reversed", "offset", "backwards", "column", "empty"],
)
def test_views_are_read_and_written_in_place(bench, view):
    base_x, base_y = arrays(100)
    expected = base_y.copy()
    view(expected)[...] += 2 * view(base_x)
    saxpy(bench, view(base_x), view(base_y)).wait()
    assert (base_y == expected).all()


def test_elements_between_strided_ones_are_left_alone(bench):
    """Two launches on interleaved columns must not undo each other's work."""
    base = np.ones((64, 2), np.float32)
    x = np.full(64, 3, np.float32)
    first, second = saxpy(bench, x, base[:, 0]), saxpy(bench, x, base[:, 1], a=10.0)
    first.wait()
    second.wait()
    assert (base == [7, 31]).all()


def test_arguments_may_be_one_array(bench):
    _, y = arrays(64)
    y[:] = np.arange(64)
    saxpy(bench, y, y).wait()
    assert (y == 3 * np.arange(64)).all()


def test_two_dimensions_with_any_strides(bench):
    base = np.arange(120, dtype=np.float32).reshape(10, 12)
    expected = base.copy()
    expected[::-2, 1::3] *= 2
    program = bench.program("scale2d", ("x",))
    program.launch((base[::-2, 1::3],), grid=1, workgroup=1).wait()
    assert (base == expected).all()


def test_broadcast_and_read_only_arrays_are_read(bench):
    _, y = arrays(100)
    x = np.broadcast_to(np.float32(4), 100)
    saxpy(bench, x, y).wait()
    assert (y == 9).all()


def test_what_the_kernel_writes_must_be_writable(bench):
    x, y = arrays(100)
    y.flags.writeable = False
    with pytest.raises(ArgumentError, match="`y` is written by the kernel and is read-only"):
        saxpy(bench, x, y)
    with pytest.raises(ArgumentError, match="broadcast"):
        saxpy(bench, x, np.lib.stride_tricks.as_strided(x, (100,), (0,)))
    window = np.lib.stride_tricks.sliding_window_view(x, 3, writeable=True)
    with pytest.raises(ArgumentError, match="overlaps itself"):
        bench.program("scale2d").launch((window,), grid=1, workgroup=1)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.zeros(10), "`y` must be an array of `f32` with 1 dimensions, got an array of `f64`"),
        (np.zeros((10, 1), np.float32), "with 2 dimensions"),
        (np.zeros(10, ">f4"), "`y` must be an array of `f32`"),
        (np.zeros(41, np.uint8)[1:].view(np.float32), "not aligned"),
        ([1.0, 2.0], "got `list`"),
        (3.0, "got `float`"),
    ],
    ids=["type", "rank", "byte order", "alignment", "list", "number"],
)
def test_arrays_that_do_not_fit_are_refused(bench, bad, message):
    x = np.zeros(10, np.float32)
    with pytest.raises(ArgumentError, match=message):
        bench.program("saxpy", ("a", "x", "y")).launch((1.0, x, bad), grid=1, workgroup=1)


@pytest.mark.parametrize("bad", ["text", None, 1j], ids=str)
def test_scalars_that_do_not_fit_are_refused(bench, bad):
    x, y = arrays(4)
    with pytest.raises(ArgumentError, match="`a` must be a number of type `f32`"):
        saxpy(bench, x, y, a=bad)


def test_the_block_and_the_shape_arrive_as_they_are(bench):
    if bench.name == "emulator":
        return  # it takes values and no block
    out = np.zeros(96 + 48, np.uint8)
    x = np.zeros((3, 5), np.float32)
    values = (out, True, -3, 65535, 1.5, np.float64(0.1), -(2**62), 0.333, 1 / 3, x.T)
    bench.program("dump").launch(values, grid=(2, 3, 4), workgroup=(5, 6, 7)).wait()
    block = out[:96].tobytes()
    assert block[24] == 1
    assert block[25] == 253
    expected = {
        26: np.uint16(65535),
        28: np.float32(1.5),
        32: np.float64(0.1),
        40: np.int64(-(2**62)),
        48: np.float16(0.333),
        50: ml_dtypes.bfloat16(1 / 3),
        64: np.array([5, 3, 4, 20], np.int64),
    }
    for offset, value in expected.items():
        raw = value.tobytes()
        assert block[offset : offset + len(raw)] == raw, offset
    assert out[96:].view(np.int64).tolist() == [2, 3, 4, 5, 6, 7]


def test_integers_out_of_range_are_refused(bench):
    out = np.zeros(160, np.uint8)
    x = np.zeros((1, 1), np.float32)
    good = [out, True, 1, 1, 1.0, 1.0, 1, 1.0, 1.0, x]
    program = bench.program("dump")
    for position, value in ((2, 128), (2, -129), (3, -1), (3, 65536), (6, 2**63)):
        values = list(good)
        values[position] = value
        with pytest.raises(ArgumentError, match=f"argument {position} is {value}, which is out of"):
            program.launch(values, grid=1, workgroup=1)


def test_shapes_that_cannot_be_are_refused(bench):
    x, y = arrays(4)
    program = bench.program("saxpy")
    for grid, workgroup, error in [
        ((1, 1, 1, 1), 1, GridError),
        (-1, 1, GridError),
        (2**62, 4, GridError),
        (1, 0, WorkgroupSizeError),
        (1, 1 << 20, WorkgroupSizeError),
        (1.5, 1, ArgumentError),
    ]:
        with pytest.raises(error):
            program.launch((1.0, x, y), grid=grid, workgroup=workgroup)


@pytest.mark.parametrize("grid", [0, (0, 5), (3, 0, 2)], ids=str)
def test_empty_grids_do_nothing(bench, grid):
    x, y = arrays(4)
    program = bench.program("saxpy")
    launch = program.launch((1.0, x, y), grid=grid, workgroup=4)
    launch.wait()
    program.run((1.0, x, y), grid, 4)
    assert (y == 1).all()


def test_a_failure_is_raised_once_and_names_the_kernel(bench):
    launch = bench.program("fails").launch((), grid=1, workgroup=bench.many_items)
    with pytest.raises((LaunchFailedError, ArithmeticError)) as caught:
        launch.wait()
    assert launch.error is caught.value
    if bench.name != "emulator":
        assert "kernel `fails` failed" in str(caught.value)
    launch.wait()
    x, y = arrays(10)
    saxpy(bench, x, y).wait()
    assert (y == 2 * x + 1).all()


def test_a_launch_that_does_not_end_is_given_up(bench):
    launch = bench.program("spin").launch((), grid=4, workgroup=1)
    with pytest.raises(LaunchTimeoutError, match=r"kernel `spin` did not end in 0\.05 s"):
        launch.wait(timeout=0.05)
    x, y = arrays(10)
    saxpy(bench, x, y).wait(timeout=20)
    assert (y == 2 * x + 1).all()


def test_launches_of_one_queue_are_in_order_and_after_joins_queues(bench):
    device, n = bench.device, 64
    x = device.array(np.ones(n, np.float32))
    y = device.array(np.zeros(n, np.float32))
    one, two = device.queue(), device.queue()
    spinning = bench.program("spin").launch((), grid=1, workgroup=1, queue=one)
    waiting = saxpy(bench, x, y, queue=two, after=[spinning])
    assert not waiting.done
    with pytest.raises(LaunchTimeoutError):
        spinning.wait(timeout=0.05)
    waiting.wait(timeout=20)
    assert (y.numpy() == 2).all()


def test_device_arrays_go_in_and_out(bench):
    device = bench.device
    x, y = device.array(np.arange(8.0, dtype=np.float32)), device.array(np.ones(8, np.float32))
    launch = saxpy(bench, x[::-1], y)
    launch.wait()
    assert (y.numpy() == 2 * np.arange(8)[::-1] + 1).all()
    assert (np.asarray(y[2:4]) == y.numpy()[2:4]).all()
    assert y[..., None].shape == (8, 1)
    assert y.to("cpu").numpy().tolist() == y.numpy().tolist()
    assert device.empty((0, 3), "i64").numpy().shape == (0, 3)
    assert device.array([[1, 2]]).dtype == np.int64


def test_arrays_of_another_device_are_refused_or_shared(bench, fake_bench):
    x = fake_bench.device.array(np.ones(8, np.float32))
    y = np.ones(8, np.float32)
    if bench is fake_bench:
        saxpy(bench, x, y).wait()
        assert (y == 3).all()
        return
    with pytest.raises(ArgumentError, match=r"write `x\.to"):
        saxpy(bench, x, y)


def test_a_buffer_lives_until_its_last_launch_has_ended(bench):
    device = bench.device
    x, y = device.array(np.ones(64, np.float32)), device.array(np.zeros(64, np.float32))
    queue = device.queue()
    spinning = bench.program("spin").launch((), grid=1, workgroup=1, queue=queue)
    launch = saxpy(bench, x, y, queue=queue)
    del x
    gc.collect()
    scratch = [device.array(np.full(64, np.nan, np.float32)) for _ in range(8)]
    # where launches and copies of unlike queues take turns, it may have ended by now
    ended = suppress(LaunchTimeoutError) if bench.name in TAKES_TURNS else None
    with ended or pytest.raises(LaunchTimeoutError):
        spinning.wait(timeout=0.02)
    launch.wait()
    assert (y.numpy() == 2).all()
    del scratch


@pytest.mark.parametrize("own", [True, False], ids=["the device's queue", "another queue"])
def test_memory_goes_back_with_the_array_once_its_launch_was_waited_for(bench, monkeypatch, own):
    x, y = (bench.device.array(np.ones(64, np.float32)) for _ in range(2))
    freed, free = [], bench.driver.free
    monkeypatch.setattr(bench.driver, "free", lambda m: (freed.append(m.address), free(m)))
    places = {x.buffer.memory.address, y.buffer.memory.address}
    queue = bench.device.default_queue if own else bench.device.queue()
    saxpy(bench, x, y, queue=queue).wait()
    assert places.isdisjoint(freed)
    del x, y
    assert places <= set(freed)


def test_records_reach_who_asked_for_them(bench):
    seen = []
    program = bench.program("writes_record")
    launch = program.launch((), grid=2, workgroup=1, records=Records(size=64, finish=seen.append))
    assert seen == []
    launch.wait()
    launch.wait()
    expected = np.array([48, 8, 0x1122334455667788], np.uint64).tobytes()
    assert seen == [expected]


def test_no_memory_is_an_error_of_hetir(bench):
    with pytest.raises(OutOfMemoryError, match="no memory for"):
        bench.device.empty(1 << 58, "f32")


def test_code_for_another_target_is_refused(bench):
    from dataclasses import replace

    with pytest.raises(DeviceError, match="does not run code for `ascend:310p`"):
        bench.device.load(replace(bench.artifact("saxpy"), target="ascend:310p"))


def test_a_compiled_workgroup_is_held_to(bench):
    from dataclasses import replace

    program = bench.device.load(replace(bench.artifact("saxpy"), workgroup=(64, 1, 1)))
    x, y = arrays(64)
    with pytest.raises(WorkgroupSizeError, match="was compiled for workgroups"):
        program.launch((1.0, x, y), grid=1, workgroup=32)
    program.run((2.0, x, y), 1, 64)
    assert (y == 2 * x + 1).all()
