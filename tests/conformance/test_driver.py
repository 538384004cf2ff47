"""What every driver promises, asked through the driver interface alone."""

import threading
from itertools import pairwise

import numpy as np
import pytest

from hetir.runtime import DriverError
from hetir.runtime.driver import Task


def put(driver, queue, data):
    memory = driver.allocate(data.nbytes)
    driver.write(queue, memory, 0, data.view(np.uint8))
    return memory


def get(driver, queue, memory, dtype, count):
    out = np.empty(count, dtype)
    driver.read(queue, memory, 0, out.view(np.uint8))
    return out


@pytest.fixture
def queue(bench):
    made = bench.driver.make_queue()
    yield made
    bench.driver.free_queue(made)


def test_the_portrait_names_the_device_and_never_changes(bench):
    portrait = bench.driver.portrait
    assert portrait is bench.driver.portrait
    assert portrait.name
    assert bench.driver.can_run(portrait.targets[0])
    assert not bench.driver.can_run("ascend:310p")
    assert portrait.to_json()["schema"] == 1


def test_allocations_are_apart_and_aligned(bench):
    made = [bench.driver.allocate(100) for _ in range(20)]
    starts = sorted(memory.address for memory in made)
    assert all(b - a >= 100 for a, b in pairwise(starts))
    assert all(start % 64 == 0 for start in starts)
    for memory in made:
        bench.driver.free(memory)


def test_more_memory_than_there_is_raises_memory_error(bench):
    with pytest.raises(MemoryError):
        bench.driver.allocate(1 << 60)
    bench.driver.free(bench.driver.allocate(16))


def test_whole_and_partial_copies_both_ways(bench, queue):
    driver = bench.driver
    data = np.arange(1000, dtype=np.uint8)
    memory = put(driver, queue, data)
    driver.write(queue, memory, 100, np.arange(50, 60, dtype=np.uint8))
    data[100:110] = range(50, 60)
    assert (get(driver, queue, memory, np.uint8, 1000) == data).all()
    part = np.zeros(7, np.uint8)
    driver.read(queue, memory, 103, part)
    assert part.tobytes() == data[103:110].tobytes()
    driver.free(memory)


def test_copies_within_the_device(bench, queue):
    driver = bench.driver
    data = np.arange(256, dtype=np.uint8)
    source, target = put(driver, queue, data), put(driver, queue, np.zeros(256, np.uint8))
    assert driver.copy(queue, (target, 10), (source, 200), 50).wait()
    expected = np.zeros(256, np.uint8)
    expected[10:60] = data[200:250]
    assert (get(driver, queue, target, np.uint8, 256) == expected).all()


def saxpy_task(bench, program, x, y, n, a=2.0):
    block = np.zeros(64, np.uint8)
    block[:4] = np.array([a], np.float32).view(np.uint8)
    words = np.array([x.address, n, 4, y.address, n, 4], np.int64)
    block[8:56] = words.view(np.uint8)
    return Task(
        program=program,
        grid=(-(-n // 64), 1, 1),
        workgroup=(64, 1, 1),
        block=block.tobytes(),
        memories=(x, y),
    )


def test_work_on_a_queue_takes_effect_in_order(bench, queue):
    driver, n = bench.driver, 1000
    x, y = (put(driver, queue, np.full(n, v, np.float32)) for v in (1, 0))
    program = driver.load(bench.artifact("saxpy"))
    for _ in range(50):  # y <- 2x + y, then x <- 2y + x: only the right order gives the numbers
        driver.launch(queue, saxpy_task(bench, program, x, y, n, 0.5))
        driver.launch(queue, saxpy_task(bench, program, y, x, n, -0.5))
    expected_x, expected_y = np.float32(1), np.float32(0)
    for _ in range(50):
        expected_y += np.float32(0.5) * expected_x
        expected_x += np.float32(-0.5) * expected_y
    assert (get(driver, queue, x, np.float32, n) == expected_x).all()
    assert (get(driver, queue, y, np.float32, n) == expected_y).all()
    driver.unload(program)


def test_queues_are_independent_and_after_joins_them(bench, queue):
    driver, n = bench.driver, 100
    other = driver.make_queue()
    spin = driver.load(bench.artifact("spin"))
    empty = Task(program=spin, grid=(1, 1, 1), workgroup=(1, 1, 1), block=b"")
    x, y = (put(driver, other, np.ones(n, np.float32)) for _ in range(2))
    program = driver.load(bench.artifact("saxpy"))
    spinning = driver.launch(queue, empty)
    free = driver.launch(other, saxpy_task(bench, program, x, y, n))
    assert free.wait(20)
    if bench.overlaps:
        assert not spinning.done()
    else:
        spinning = driver.launch(queue, empty)
    joined = driver.launch(other, saxpy_task(bench, program, x, y, n), [spinning])
    assert not joined.wait(0.05)
    assert spinning.abandon()
    assert joined.wait(20)
    assert (get(driver, other, y, np.float32, n) == 5).all()


def test_events_end_and_keep_time(bench, queue):
    driver = bench.driver
    spin = driver.load(bench.artifact("spin"))
    empty = Task(program=spin, grid=(1, 1, 1), workgroup=(1, 1, 1), block=b"")
    event = driver.launch(queue, empty)
    assert not event.wait(0.05)
    assert not event.done()
    assert event.times() is None
    assert event.abandon()
    mark = driver.mark(queue)
    assert mark.wait(20)
    assert mark.done()
    (begun, ended), (_, marked) = event.times(), mark.times()
    assert 0.04e9 <= ended - begun < 60e9
    assert marked >= ended


def test_an_error_belongs_to_its_launch_and_the_device_goes_on(bench, queue):
    driver, n = bench.driver, 128
    fails = driver.load(bench.artifact("fails"))
    x, y = (put(driver, queue, np.ones(n, np.float32)) for _ in range(2))
    program = driver.load(bench.artifact("saxpy"))
    before = driver.launch(queue, saxpy_task(bench, program, x, y, n))
    failed = driver.launch(
        queue, Task(program=fails, grid=(1, 1, 1), workgroup=(8192, 1, 1), block=b"")
    )
    after = driver.launch(queue, saxpy_task(bench, program, x, y, n))
    assert after.wait(20)
    assert before.wait(20)
    for _ in range(2):
        with pytest.raises((DriverError, ArithmeticError)):
            failed.wait(20)
    assert failed.done()
    assert (get(driver, queue, y, np.float32, n) == 5).all()


def test_code_that_does_not_load_says_why(bench):
    if bench.name == "emulator":
        return  # text is not looked at before it runs
    from dataclasses import replace

    with pytest.raises(DriverError, match="absent"):
        bench.driver.load(replace(bench.artifact("saxpy"), entry="absent"))
    with pytest.raises(DriverError):
        bench.driver.load(replace(bench.artifact("saxpy"), binary=b"nonsense"))


def test_sixteen_threads_launch_at_once(bench):
    driver, n, wrong = bench.driver, 500, []
    program = driver.load(bench.artifact("saxpy"))

    def work(number):
        queue = driver.make_queue()
        x, y = (put(driver, queue, np.full(n, v, np.float32)) for v in (number, 0))
        for _ in range(10):
            driver.launch(queue, saxpy_task(bench, program, x, y, n, 1.0))
        if not (get(driver, queue, y, np.float32, n) == 10 * number).all():
            wrong.append(number)
        driver.free_queue(queue)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []
    assert not any(thread.is_alive() for thread in threads)
