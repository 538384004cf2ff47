"""Order between launches by what they read and write, on every device."""

from dataclasses import replace

import numpy as np
import pytest

from hetir.runtime import Event, as_operand
from hetir.runtime.hazards import IN_FLIGHT

NAMES = ("a", "x", "y")
ONE = {"grid": 1, "workgroup": 8}


@pytest.fixture
def followed(bench, monkeypatch):
    """The events that each launch on the device was made to follow."""
    seen = []
    launch = bench.driver.launch

    def spy(queue, task, after=()):
        seen.append(list(after))
        return launch(queue, task, after)

    monkeypatch.setattr(bench.driver, "launch", spy)
    yield seen
    bench.device.wait()
    assert IN_FLIGHT.of(bench.device) == []


def there(bench, *values):
    """Arrays in the memory that the device works on."""
    return [bench.device.array(np.array(v, np.float32)) for v in values]


def declared(bench, reads, writes):
    """saxpy whose `y` has other declarations; the code is the same."""
    artifact = bench.artifact("saxpy")
    *others, y = artifact.layout.slots
    slots = (*others, replace(y, reads=reads, writes=writes))
    layout = replace(artifact.layout, slots=slots)
    return bench.device.load(replace(artifact, layout=layout), NAMES)


READS, WRITES, BOTH = (True, False), (False, True), (True, True)
DECLARATIONS = [
    (READS, READS), (READS, WRITES), (WRITES, READS), (WRITES, WRITES), (BOTH, BOTH),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), DECLARATIONS)
def test_queues_follow_each_other_exactly_where_one_writes(bench, followed, first, second):
    x, y = there(bench, [1] * 8, [0] * 8)
    one, other = bench.device.queue(), bench.device.queue()
    before = declared(bench, *first).launch((2.0, x, y), queue=one, **ONE)
    declared(bench, *second).launch((2.0, x, y), queue=other, **ONE)
    expected = [before.event] if first[1] or second[1] else []
    assert followed[-1] == expected


@pytest.mark.parametrize("undeclared", ["nothing", "the write", "the read"])
def test_without_its_declaration_an_order_is_lost(bench, followed, undeclared):
    """Removing one declaration makes the order fail that the test before relies on."""
    x, y, z = there(bench, [1] * 8, [0] * 8, [0] * 8)
    writer = declared(bench, False, undeclared != "the write")
    reader = bench.artifact("saxpy")
    a, source, target = reader.layout.slots
    source = replace(source, reads=undeclared != "the read")
    reader = bench.device.load(
        replace(reader, layout=replace(reader.layout, slots=(a, source, target))), NAMES
    )
    writer.launch((2.0, x, y), queue=bench.device.queue(), **ONE)
    reader.launch((1.0, y, z), queue=bench.device.queue(), **ONE)
    assert bool(followed[-1]) == (undeclared == "nothing")


def test_memory_that_two_launches_do_not_share_orders_nothing(bench, followed):
    (x, y) = there(bench, [1] * 8, np.zeros(16))
    program = bench.program("saxpy", NAMES)
    program.launch((2.0, x, y[:8]), queue=bench.device.queue(), **ONE)
    program.launch((2.0, x, y[8:]), queue=bench.device.queue(), **ONE)
    assert followed[-1] == []
    program.launch((2.0, x, y[7:15]), queue=bench.device.queue(), **ONE)
    assert len(followed[-1]) == 2
    bench.device.wait()
    assert y.numpy().tolist() == [2] * 7 + [4] * 8 + [2]


def test_one_queue_needs_no_events(bench, followed):
    x, y = there(bench, [1] * 8, [0] * 8)
    program = bench.program("saxpy", NAMES)
    for _ in range(3):
        program.launch((2.0, x, y), **ONE)
    assert followed == [[], [], []]
    assert y.numpy().tolist() == [6] * 8


def test_after_is_kept_beside_what_is_derived(bench, followed):
    x, y, z = there(bench, [1] * 8, [0] * 8, [0] * 8)
    program = bench.program("saxpy", NAMES)
    one = program.launch((2.0, x, y), queue=bench.device.queue(), **ONE)
    two = program.launch((2.0, x, z), queue=bench.device.queue(), after=[one], **ONE)
    assert followed[-1] == [one.event]
    program.launch((2.0, y, z), queue=bench.device.queue(), after=[one.event], **ONE)
    assert set(map(id, followed[-1])) == {id(one.event), id(two.event)}


@pytest.mark.parametrize("queues", [1, 2])
def test_host_arrays_go_from_launch_to_launch_without_a_wait(bench, queues):
    """The second reads what the first wrote, though nobody waited for it to be copied back."""
    program = bench.program("saxpy", NAMES)
    x, y, z = np.ones(8, np.float32), np.zeros(8, np.float32), np.zeros(8, np.float32)
    places = [bench.device.queue() for _ in range(queues)]
    program.launch((2.0, x, y), queue=places[0], **ONE)
    last = program.launch((3.0, y, z), queue=places[-1], **ONE)
    program.run((5.0, z, x), 1, 8)
    assert x.tolist() == [31] * 8
    last.wait()
    assert (y.tolist(), z.tolist()) == ([2] * 8, [6] * 8)


def test_devices_follow_each_other_over_host_memory(bench, cpu_bench):
    x, y, z = np.ones(8, np.float32), np.zeros(8, np.float32), np.zeros(8, np.float32)
    for first, second in ((bench, cpu_bench), (cpu_bench, bench)):
        y[:], z[:] = 0, 0
        first.program("saxpy", NAMES).launch((2.0, x, y), **ONE)
        second.program("saxpy", NAMES).launch((3.0, y, z), **ONE).wait()
        assert z.tolist() == [6] * 8


def test_the_host_sees_what_launches_in_flight_write(bench):
    x, y = there(bench, [1] * 8, [0] * 8)
    program = bench.program("saxpy", NAMES)
    program.launch((2.0, x, y), queue=bench.device.queue(), **ONE)
    assert y.numpy().tolist() == [2] * 8
    program.launch((2.0, x, y), queue=bench.device.queue(), **ONE)
    y.copy_from(np.zeros(8, np.float32))
    assert y.numpy().tolist() == [0] * 8
    program.launch((2.0, x, y), queue=bench.device.queue(), **ONE)
    assert as_operand(y).to("cpu").numpy().tolist() == [2] * 8


def test_a_copy_on_the_device_follows_what_writes_it_and_leaves_the_device_not(bench, monkeypatch):
    x, y = there(bench, [1] * 8, [0] * 8)
    bench.program("saxpy", NAMES).launch((2.0, x, y), queue=bench.device.queue(), **ONE)
    monkeypatch.setattr(bench.driver, "read", None)
    copy, part = bench.device.array(y), bench.device.array(y[4:])
    monkeypatch.undo()
    y.copy_from(np.zeros(8, np.float32))
    assert copy.numpy().tolist() == [2] * 8
    assert part.numpy().tolist() == [2] * 4


def test_an_array_freed_in_use_is_kept_until_its_launches_end(bench):
    x, y = there(bench, [1] * 8, [0] * 8)
    view = y[:]
    launch = bench.program("saxpy", NAMES).launch((2.0, x, y), **ONE)
    buffer = launch._keep[2]
    x.free()
    more = [bench.device.array(np.full(8, 7, np.float32)) for _ in range(4)]
    launch.wait()
    assert view.numpy().tolist() == [2] * 8
    assert [m.numpy()[0] for m in more] == [7] * 4
    assert buffer


def test_a_failure_nobody_waited_for_is_raised_by_the_queue(bench):
    queue = bench.device.queue()
    program = bench.program("fails")
    failing = program.launch((), grid=1, workgroup=bench.many_items, queue=queue)
    while not failing.done:
        pass
    x, y = there(bench, [1] * 8, [0] * 8)
    bench.program("saxpy", NAMES).launch((2.0, x, y), queue=queue, **ONE)
    with pytest.raises(Exception, match=r"fails|fault"):
        queue.wait()
    queue.wait()
    failing.wait()
    assert failing.error is not None
    assert y.numpy().tolist() == [2] * 8


def test_launches_that_nobody_waits_for_are_let_go(bench):
    x, y = there(bench, [1] * 8, [0] * 8)
    program = bench.program("saxpy", NAMES)
    queues = [bench.device.queue() for _ in range(3)]
    for number in range(60):
        program.launch((2.0, x, y), queue=queues[number % 3], **ONE)
    bench.device.drain()
    for _ in range(64):
        program.launch((2.0, x, y), **ONE)
        bench.device.drain()
    assert len(IN_FLIGHT.of(bench.device)) < 64
    assert y.numpy().tolist() == [2 * 124] * 8


def test_times_of_events_are_in_order(bench):
    x, y = there(bench, [1] * 8, [0] * 8)
    program = bench.program("saxpy", NAMES)
    first = program.launch((2.0, x, y), queue=bench.device.queue(), **ONE)
    second = program.launch((2.0, x, y), queue=bench.device.queue(), **ONE)
    second.wait()
    one, two = first.event.times(), second.event.times()
    assert isinstance(first.event, Event)
    if bench.name not in ("fake", "cuda"):  # the make-believe ones keep no common clock
        assert one[0] <= one[1] <= two[1]
    assert second.seconds >= 0
