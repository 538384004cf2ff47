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
from hetir.backends.ptx import compile_kernel
from hetir.emulator.ptx import Machine, parse
from hetir.passes.layout import layout_of
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
    "bitonic_sort": 600,
    "top_k": (3, 50),
    "layer_norm": (3, 60),
}


def races_of(kernel: Any, values: tuple[Any, ...], grid: Any, workgroup: Any, chip: str) -> int:
    """Run a `@hetir.kernel` on its arguments; how many races the detector reports."""
    operands = tuple(map(runtime.as_operand, values))
    traced = compiler.record(kernel, kernel.specialise(operands))
    found = simplify(compiler.prepare(traced.module))
    artifact = compile_kernel(found, target=f"ptx:{chip}", binary=False)
    given = [compiler._slot_value(s, operands) for s in layout_of(found).slots]
    arguments = [
        _whole(operands, slot.source) if slot.ndim is not None else value
        for slot, value in zip(artifact.layout.slots, given, strict=True)
    ]
    memory = memory_of(a for a in arguments if isinstance(a, np.ndarray))
    grid3, group3 = compiler.dims(grid), compiler.dims(workgroup)
    block = pack(artifact, arguments).tobytes() + launch_parameter(grid3, (0, 0, 0), group3, 0)
    report = Machine(parse(artifact.text)).launch(
        artifact.entry, grid3, group3, block, 0, memory, races=True, uninitialised=True
    )
    return len(report.races)


def _whole(operands: tuple[Any, ...], source: tuple[Any, ...]) -> Any:
    value = operands[source[0]]
    for field in source[1:]:
        value = getattr(value, field)
    return value


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
