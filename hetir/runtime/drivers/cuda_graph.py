"""CUDA graphs of kernel launches, with the edges that the runtime derived."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hetir.runtime.driver import Dims, Task
from hetir.runtime.drivers.grids import launch_parameter, pieces

if TYPE_CHECKING:
    from hetir.runtime.drivers.cuda import CudaDriver


class CudaGraph:
    """A graph, its executable form, and the nodes of each launch (several for a huge grid)."""

    __slots__ = ("executable", "graph", "nodes")

    def __init__(self, graph: Any, executable: Any, nodes: list[list[Any]]) -> None:
        self.graph, self.executable, self.nodes = graph, executable, nodes


def make(driver: CudaDriver, tasks: Sequence[Task], after: Sequence[Sequence[int]]) -> Any:
    """An instantiated graph, or None for launches that CUDA's graphs do not take."""
    if not tasks or any(task.program.cooperative for task in tasks):
        return None
    library = driver.library
    graph = library.get("cuGraphCreate", "void *", 0)
    nodes: list[list[Any]] = []
    try:
        for task, before in zip(tasks, after, strict=True):
            driver.opt_in(task.program)
            edges = [node for index in before for node in nodes[index]]
            nodes.append([_add(driver, graph, edges, p) for p in _parameters(driver, task)])
        executable = library.get("cuGraphInstantiateWithFlags", "void *", graph, 0)
    except BaseException:
        library.call("cuGraphDestroy", graph)
        raise
    return CudaGraph(graph, executable, nodes)


def update(driver: CudaDriver, graph: CudaGraph, index: int, task: Task) -> bool:
    """Give a launch of one node another task; False where that takes a new graph."""
    nodes, parameters = graph.nodes[index], _parameters(driver, task)
    if task.program.cooperative or len(nodes) != 1 or len(parameters) != 1:
        return False
    driver.opt_in(task.program)
    given = driver.library.ffi.addressof(parameters[0][0])
    driver.library.call("cuGraphExecKernelNodeSetParams", graph.executable, nodes[0], given)
    return True


def free(driver: CudaDriver, graph: CudaGraph) -> None:
    """Give both forms back."""
    driver.library.call("cuGraphExecDestroy", graph.executable)
    driver.library.call("cuGraphDestroy", graph.graph)


def _add(driver: CudaDriver, graph: Any, edges: list[Any], parameters: tuple[Any, ...]) -> Any:
    ffi = driver.library.ffi
    listed = ffi.new("void *[]", edges) if edges else ffi.NULL
    given = ffi.addressof(parameters[0])
    return driver.library.get("cuGraphAddKernelNode", "void *", graph, listed, len(edges), given)


def _parameters(driver: CudaDriver, task: Task) -> list[tuple[Any, ...]]:
    """CUDA's description of each launch of a task, with what it points to."""
    ffi, program = driver.library.ffi, task.program
    most: Dims = driver.portrait.limits.max_grid_dims
    block = [ffi.from_buffer(task.block)] if program.has_block else []
    found: list[tuple[Any, ...]] = []
    for first, extents in pieces(task.grid, most):
        launch = launch_parameter(task.grid, first, task.workgroup, 0)
        pointers = ffi.new("void *[]", [*block, ffi.from_buffer(launch)])
        shape = (*extents, *task.workgroup, program.shared_bytes)
        made = ffi.new("KernelNode *", (program.function, *shape, pointers, ffi.NULL))
        found.append((made[0], made, pointers, launch, block))
    return found
