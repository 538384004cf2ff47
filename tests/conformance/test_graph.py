"""Graphs on every device: recorded once, replayed with other arguments, bound again or refused."""

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir.emulator.ascend import compilers
from hetir.runtime import ArgumentError, Graph, LaunchTimeoutError, Node, Plan, Ready
from hetir.runtime.arrays import Buffer

NAMES = ("a", "x", "y")
NO_COMPILER = pytest.mark.skipif(not compilers(), reason="no C++ compiler")
SPINNING = ["cpu", "emulator", "ascend", pytest.param("ascend_shim", marks=NO_COMPILER)]


@pytest.fixture
def record(bench):
    """Adds saxpy to a graph, as `@hetir.kernel` does on devices that it finds."""
    program = bench.program("saxpy", NAMES)

    def add(graph, *values, groups=1):
        def ready(given):
            return Ready(program, given, program.pack(given), None)

        made = Node(
            kernel="saxpy",
            names=NAMES,
            values=values,
            grid=(groups, 1, 1),
            workgroup=(8, 1, 1),
            ready=ready,
        )
        graph.nodes.append(made)
        return made

    return add


def arrays(bench, *values):
    return [bench.device.array(np.array(v, np.float32)) for v in values]


@pytest.mark.parametrize("how", ["replay", "run", "queue"])
def test_a_graph_runs_again_and_again(bench, record, how):
    x, y, z = arrays(bench, [1] * 8, [0] * 8, [0] * 8)
    graph = Graph()
    record(graph, 2.0, x, y)
    record(graph, 3.0, y, z)
    plan = graph.instantiate()
    assert (y.numpy().tolist(), z.numpy().tolist()) == ([0] * 8, [0] * 8)
    queue = bench.device.queue() if how == "queue" else None
    for _ in range(3):
        if how == "run":
            plan.run()
        else:
            plan.replay(queue).wait()
    assert y.numpy().tolist() == [6] * 8
    assert z.numpy().tolist() == [6 + 12 + 18] * 8


def test_arguments_are_updated_and_runs_that_were_started_keep_theirs(bench, record):
    x, y, z = arrays(bench, [1] * 8, [0] * 8, [0] * 8)
    graph = Graph()
    record(graph, 2.0, x, y)
    plan = graph.instantiate()
    first = plan.replay()
    plan.update(0, a=10.0)
    second = plan.replay()
    plan.update(-1, y=z)
    plan.replay().wait()
    first.wait()
    second.wait()
    assert y.numpy().tolist() == [12] * 8
    assert z.numpy().tolist() == [10] * 8


def test_updates_that_do_not_fit_change_nothing(bench, record):
    x, y = arrays(bench, [1] * 8, [0] * 8)
    graph = Graph()
    record(graph, 2.0, x, y)
    plan = graph.instantiate()
    for bad, message in (
        ({"b": 1.0}, "no parameter `b`"),
        ({"a": "text"}, "must be a number"),
        ({"x": bench.device.array(np.zeros(8))}, "must be an array of `f32`"),
    ):
        with pytest.raises(ArgumentError, match=message):
            plan.update(0, **bad)
    with pytest.raises(ArgumentError, match="there is no 1"):
        plan.update(1, a=1.0)
    plan.run()
    assert y.numpy().tolist() == [2] * 8


def test_a_freed_array_is_refused_and_can_be_replaced(bench, record):
    x, y, z = arrays(bench, [1] * 8, [0] * 8, [5] * 8)
    graph = Graph()
    record(graph, 2.0, x, y)
    plan = graph.instantiate()
    plan.run()
    x.free()
    others = arrays(bench, *[[9] * 8] * 4)
    for use in (plan.run, plan.replay):
        with pytest.raises(ArgumentError, match="launch 0 of the graph, of `saxpy`: the array"):
            use()
    plan.update(0, x=z)
    plan.run()
    assert y.numpy().tolist() == [12] * 8
    assert all((other.numpy() == 9).all() for other in others)


def test_a_moved_array_is_bound_again(bench, record):
    x, y = arrays(bench, [1] * 8, [0] * 8)
    graph = Graph()
    record(graph, 2.0, x, y)
    plan = graph.instantiate()
    plan.run()
    elsewhere = Buffer(bench.device, x.nbytes)
    queue = bench.device.default_queue.handle
    content = np.full(8, 7, np.float32).view(np.uint8)
    bench.driver.write(queue, elsewhere.memory, 0, content)
    x.storage.buffer = elsewhere
    plan.replay().wait()
    assert y.numpy().tolist() == [2 + 14] * 8


def test_a_graph_keeps_what_it_uses(bench, record):
    x, y = arrays(bench, [1] * 8, [0] * 8)
    graph = Graph()
    record(graph, 2.0, x, y)
    plan = graph.instantiate()
    del graph, x
    others = arrays(bench, *[[9] * 8] * 4)
    plan.replay()
    del plan
    bench.device.wait()
    assert y.numpy().tolist() == [2] * 8
    assert all((other.numpy() == 9).all() for other in others)


def test_host_arrays_in_graphs(bench, record):
    x, y, z = np.ones(8, np.float32), np.zeros(8, np.float32), np.zeros(8, np.float32)
    graph = Graph()
    record(graph, 2.0, x, y)
    record(graph, 3.0, y, z)
    plan = graph.instantiate()
    plan.run()
    plan.replay().wait()
    assert (y.tolist(), z.tolist()) == ([4] * 8, [6 + 12] * 8)


def test_launches_follow_graphs_and_graphs_launches(bench, record):
    x, y, z = arrays(bench, [1] * 8, [0] * 8, [0] * 8)
    graph = Graph()
    record(graph, 2.0, x, y)
    plan = graph.instantiate()
    program = bench.program("saxpy", NAMES)
    one, other = bench.device.queue(), bench.device.queue()
    program.launch((1.0, x, y), grid=1, workgroup=8, queue=one)
    plan.replay(other)
    program.launch((1.0, y, z), grid=1, workgroup=8, queue=one)
    assert z.numpy().tolist() == [3] * 8


def test_empty_graphs_and_empty_grids(bench, record):
    Plan([]).run()
    Plan([]).replay().wait()
    assert Plan([]).replay().done
    x, y = arrays(bench, [1] * 8, [0] * 8)
    graph = Graph()
    record(graph, 2.0, x, y, groups=0)
    record(graph, 2.0, x, y)
    graph.instantiate().replay().wait()
    assert y.numpy().tolist() == [2] * 8


# ---- recorded kernels -----------------------------------------------------------------------


@hetir.kernel
def scale(a: hl.f32, x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    if i < y.shape[0]:
        y[i] = a * x[i]


@hetir.kernel
def told(x: hl.Array[hl.f32, 1]):
    hl.print("x is {}", x[0])


@pytest.mark.parametrize("device", ["cpu", "emulator", "ptx-emulator"])
def test_kernels_are_recorded_inside_with(device, capfd):
    x = hetir.array(np.arange(8, dtype=np.float32), device=device)
    y, z = hetir.zeros(8, device=device), hetir.zeros(8, device=device)
    with hetir.Graph() as graph:
        scale.launch((2.0, x, y), grid=1, workgroup=8, device=device)
        scale.launch({"a": 3.0, "x": y, "y": z}, grid=1, workgroup=8, device=device)
        told.launch((z[1:],), grid=1, workgroup=1, device=device)
        with pytest.raises(ArgumentError, match="records a graph already"):
            hetir.Graph().__enter__()
    assert [node.kernel for node in graph.nodes] == ["scale", "scale", "told"]
    assert z.numpy().tolist() == [0] * 8
    plan = graph.instantiate()
    assert len(plan) == 3
    plan.replay().wait()
    assert z.numpy().tolist() == [6 * i for i in range(8)]
    assert capfd.readouterr().out == "x is 6.0\n"
    plan.update(0, x=hetir.array(np.ones(8, np.float32), device=device)[::-1])
    plan.run()
    assert z.numpy().tolist() == [6] * 8
    assert capfd.readouterr().out == "x is 6.0\n"


def test_calls_are_recorded_and_an_error_ends_the_recording():
    y = np.zeros(4, np.float32)
    with hetir.Graph() as graph:
        scale[1, 4](5.0, np.ones(4, np.float32), y)
    graph.instantiate().run()
    assert y.tolist() == [5] * 4
    with pytest.raises(ZeroDivisionError), hetir.Graph():
        raise ZeroDivisionError
    scale[1, 4](7.0, np.ones(4, np.float32), y)
    assert y.tolist() == [7] * 4


# the spinning kernel of the other drivers ends by itself
@pytest.mark.parametrize("bench", SPINNING, indirect=True)
def test_a_graph_that_hangs_is_given_up(bench):
    program = bench.program("spin")

    def ready(values):
        return Ready(program, values, program.pack(values), None)

    one = (1, 1, 1)
    node = Node(kernel="spin", names=(), values=(), grid=one, workgroup=one, ready=ready)
    with pytest.raises(LaunchTimeoutError):
        Plan([node]).replay(bench.device.queue()).wait(timeout=0.05)
