"""Barriers, orders and scopes in PTX are enough: the emulator's race detector finds nothing.

It knows PTX's own rules and nothing of hetIR; kernels that ask for too little are caught.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import compiler, library, runtime
from hetir.artifact import Slot
from hetir.backends.ptx import compile_kernel
from hetir.diagnostics import HetirError
from hetir.emulator.ptx import Machine, parse
from hetir.ir.types import SCALARS
from hetir.passes.simplify import simplify
from hetir.runtime.drivers.grids import launch_parameter
from tests.unit.cpu_support import pack
from tests.unit.ptx_support import memory_of

SIZES: dict[str, Any] = {
    "sum": 3000,
    "reduce_max": 3000,
    "histogram": 3000,
    "scan": 1500,
    "softmax": (5, 60),
    "matmul": (17, 20, 18),
    "transpose": (33, 40),
    "bitonic_sort": 5000,
    "top_k": (3, 50),
    "layer_norm": (3, 60),
}


def races_of(kernel: Any, values: tuple[Any, ...], grid: Any, workgroup: Any, chip: str) -> int:
    """Run a `@hetir.kernel` on its arguments; how many races the detector reports."""
    operands = tuple(map(runtime.as_operand, values))
    traced = compiler.record(kernel, kernel.specialise(operands))
    found = simplify(compiler.prepare(traced.module))
    artifact = compile_kernel(found, target=f"ptx:{chip}", binary=False)
    arguments = [_argument(operands, slot) for slot in artifact.layout.slots]
    memory = memory_of(a for a in arguments if isinstance(a, np.ndarray))
    grid3, group3 = compiler.dims(grid), compiler.dims(workgroup)
    arrivals = np.zeros(64, np.uint8)
    word = memory.add(arrivals, "arrivals") if artifact.cooperative else 0
    last = launch_parameter(grid3, (0, 0, 0), group3, 0, word)
    block = pack(artifact, arguments).tobytes() + last
    checks = {"races": True, "uninitialised": True, "cooperative": artifact.cooperative}
    report = Machine(parse(artifact.text)).launch(
        artifact.entry, grid3, group3, block, 0, memory, **checks
    )
    return len(report.races)


def _argument(operands: tuple[Any, ...], slot: Slot) -> Any:
    value = operands[int(slot.source[0])]
    for field in slot.source[1:]:
        value = getattr(value, str(field))
    return SCALARS[slot.dtype].numpy.type(value) if slot.ndim is None else value


@pytest.mark.parametrize("name", SIZES)
def test_the_library_has_no_races(name: str) -> None:
    case = library.case(name, size=SIZES[name])
    for step in case.steps:
        chip = "sm_75" if name in ("sum", "scan") else "sm_90"
        assert races_of(step.kernel, step.arguments, step.grid, step.workgroup, chip) == 0
    assert case.error() <= case.tolerance


def test_a_missing_barrier_is_found() -> None:
    @hetir.kernel
    def shift(x: hl.Array[hl.f32, 1], wait: hl.static):
        tile = hl.shared((64,), hl.f32)
        i = hl.local_id(0)
        tile[i] = x[i]
        if wait:
            hl.barrier()
        x[i] = tile[63 - i]

    for wait in (True, False):
        x = np.arange(64, dtype=np.float32)
        assert (races_of(shift, (x, wait), 1, 64, "sm_90") == 0) == wait


ORDERS = [
    ("acq_rel", "device", True),
    ("seq_cst", "device", True),
    ("acq_rel", "system", True),
    ("relaxed", "device", False),
    ("release", "device", False),
    ("acquire", "device", False),
    ("acq_rel", "workgroup", False),
]


@pytest.mark.parametrize("chip", ["sm_75", "sm_90"])
@pytest.mark.parametrize(("order", "scope", "enough"), ORDERS)
def test_the_last_workgroup_reads_what_all_wrote(
    order: str, scope: str, enough: bool, chip: str
) -> None:
    """A ticket orders the groups' plain writes exactly when its order and scope are enough."""

    @hetir.kernel
    def ticket(data: hl.Array[hl.i32, 1], flag: hl.Array[hl.i32, 1], out: hl.Array[hl.i32, 1]):
        g = hl.group_id(0)
        data[g] = hl.i32(g) + 1
        if hl.atomic_add(flag, 0, 1, order=order, scope=scope) == 3:
            out[0] = data[0] + data[1] + data[2] + data[3]

    data, flag, out = (np.zeros(n, np.int32) for n in (4, 1, 1))
    assert (races_of(ticket, (data, flag, out), 4, 1, chip) == 0) == enough
    assert out[0] == 10


@pytest.mark.parametrize("chip", ["sm_75", "sm_90"])
@pytest.mark.parametrize("fenced", [True, False])
def test_fences_order_plain_accesses_around_relaxed_ones(fenced: bool, chip: str) -> None:
    @hetir.kernel
    def ticket(
        data: hl.Array[hl.i32, 1],
        flag: hl.Array[hl.i32, 1],
        out: hl.Array[hl.i32, 1],
        fence: hl.static,
    ):
        g = hl.group_id(0)
        data[g] = 7
        if fence:
            hl.fence("release", "device")
        old = hl.atomic_add(flag, 0, 1)
        if fence:
            hl.fence("acquire", "device")
        if old == 2:
            out[0] = data[0] + data[1] + data[2]

    data, flag, out = (np.zeros(n, np.int32) for n in (3, 1, 1))
    assert (races_of(ticket, (data, flag, out, fenced), 3, 1, chip) == 0) == fenced


@pytest.mark.parametrize("chip", ["sm_75", "sm_90"])
def test_grid_barriers_order_the_whole_grid(chip: str) -> None:
    """Every round reads what other workgroups wrote in the one before."""

    @hetir.kernel(cooperative=True)
    def rounds(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1]):
        i = hl.global_id(0)
        for _ in range(3):
            y[i] = x[(i + 5) % 32] + x[i]
            hl.barrier(scope="device")
            x[i] = y[(i + 9) % 32] - y[i]
            hl.barrier(scope="device")

    x, y = np.arange(32, dtype=np.int32) ** 2, np.zeros(32, np.int32)
    want = x.copy()
    for _ in range(3):
        sums = np.roll(want, -5) + want
        want = np.roll(sums, -9) - sums
    assert races_of(rounds, (x, y), 4, 8, chip) == 0
    np.testing.assert_array_equal(x, want)
    launched = np.arange(32, dtype=np.int32) ** 2
    rounds.launch((launched, y), grid=4, workgroup=8, device="ptx-emulator").wait()
    np.testing.assert_array_equal(launched, want)


def test_a_grid_barrier_waits_for_the_next_multiple() -> None:
    """One of four workgroups, the others played by the word: three came, then nobody does."""

    @hetir.kernel(cooperative=True)
    def twice(out: hl.Array[hl.i32, 1]):
        hl.barrier(scope="device")
        out[0] = 1
        hl.barrier(scope="device")
        out[1] = 1

    out, arrivals = np.zeros(2, np.int32), np.array([3, 0, 0, 0], np.uint64)
    traced = compiler.record(twice, twice.specialise((out,)))
    kernel = simplify(compiler.prepare(traced.module))
    artifact = compile_kernel(kernel, target="ptx:sm_90", binary=False)
    memory = memory_of([out])
    word = memory.add(arrivals, "arrivals")
    block = pack(artifact, [out]).tobytes()
    block += launch_parameter((4, 1, 1), (0, 0, 0), (32, 1, 1), 0, word)
    with pytest.raises(HetirError, match="turns were not enough"):
        Machine(parse(artifact.text)).launch(
            artifact.entry, 1, 32, block, 0, memory, step_limit=2000
        )
    assert out.tolist() == [1, 0]
    assert arrivals[0] == 5
