"""CUDA graphs over the make-believe libcuda: one launch, the derived edges, nothing left behind."""

import gc

import cffi
import numpy as np
import pytest

from hetir.runtime import Graph, Node, Ready

NAMES = ("a", "x", "y")


@pytest.fixture
def fake(cuda_library, cuda_bench):
    ffi = cffi.FFI()
    ffi.cdef("int fakeGraphs(void); int fakeEdges(void *graph); const char *fnTakeCalls(void);")
    raw = ffi.dlopen(cuda_library.path)
    cuda_bench.device.wait()  # other tests' launches, on all queues
    gc.collect()
    raw.fnTakeCalls()
    before = raw.fakeGraphs()

    class Fake:
        edges = staticmethod(raw.fakeEdges)

        def calls(self):
            taken = ffi.string(raw.fnTakeCalls()).decode().split()
            quiet = ("cuEvent", "cuStreamWait", "fn")
            return [name for name in taken if not name.startswith(quiet)]

    yield Fake()
    gc.collect()
    assert raw.fakeGraphs() == before


def graph_of(bench, *launches, groups=1):
    program = bench.program("saxpy", NAMES)

    def ready(given):
        return Ready(program, given, program.pack(given), None)

    graph = Graph()
    for values in launches:
        node = Node(kernel="saxpy", names=NAMES, values=values, grid=(groups, 1, 1),
                    workgroup=(8, 1, 1), ready=ready)  # fmt: skip
        graph.nodes.append(node)
    return graph


def device_arrays(bench, count):
    return [bench.device.array(np.ones(8, np.float32)) for _ in range(count)]


def test_a_replay_is_one_call_and_an_update_another(fake, cuda_bench):
    x, y, z = device_arrays(cuda_bench, 3)
    plan = graph_of(cuda_bench, (2.0, x, y), (1.0, y, z)).instantiate()
    made = ["cuGraphCreate", *["cuGraphAddKernelNode"] * 2, "cuGraphInstantiate"]
    assert [c for c in fake.calls() if "Graph" in c] == made
    plan.replay().wait()
    # what follows is the make-believe library's own way to run a graph
    assert fake.calls() == ["cuGraphLaunch", "cuLaunchKernel", "cuLaunchKernel"]
    plan.update(0, a=5.0)
    assert fake.calls() == ["cuGraphExecKernelNodeSetParams"]
    plan.run()
    assert y.numpy().tolist() == [1 + 2 + 5] * 8
    assert z.numpy().tolist() == [1 + 3 + 8] * 8


@pytest.mark.parametrize(
    ("order", "edges"),
    [
        ("xy xz", 0),  # both only read x
        ("xy yz", 1),  # the second reads what the first writes
        ("yz xy", 1),  # the second writes what the first reads
        ("xz yz", 1),  # both write z
        ("xy yz xz", 2),
        ("xy zx", 1),
    ],
)
def test_the_edges_are_those_of_reads_and_writes(fake, cuda_bench, order, edges):
    places = dict(zip("xyz", device_arrays(cuda_bench, 3), strict=True))
    launches = [(1.0, places[pair[0]], places[pair[1]]) for pair in order.split()]
    plan = graph_of(cuda_bench, *launches).instantiate()
    assert fake.edges(plan._native.handle.graph) == edges


def test_an_update_that_moves_the_edges_makes_a_new_graph(fake, cuda_bench):
    w, x, y, z = device_arrays(cuda_bench, 4)
    plan = graph_of(cuda_bench, (2.0, x, y), (1.0, w, z)).instantiate()
    fake.calls()
    plan.update(1, x=y)
    assert "cuGraphCreate" in fake.calls()
    assert fake.edges(plan._native.handle.graph) == 1
    plan.run()
    assert z.numpy().tolist() == [1 + 3] * 8


def test_host_arrays_and_huge_grids(fake, cuda_bench):
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    plan = graph_of(cuda_bench, (2.0, x, y)).instantiate()
    assert plan._native is None
    plan.update(0, x=cuda_bench.device.array(x), y=cuda_bench.device.array(y))
    assert plan._native is not None
    plan.update(0, y=y)
    assert plan._native is None
    plan.run()
    assert y.tolist() == [2] * 8
