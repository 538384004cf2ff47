"""Control flow around barriers that must be right, or refused, on OpenCL and Vulkan devices."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import runtime
from hetir.backends.spirv import compile_kernel
from hetir.backends.spirv.targets import NAMES
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Value
from hetir.ir.types import I32, I64, U8, U32, array
from hetir.passes.check_barriers import DivergentBarrierError
from tests.unit.cpu_support import kernel_of
from tests.unit.spirv_support import HERE, device_of, run

targets = pytest.mark.parametrize("target", HERE)
ITEMS = 16


def device_name(target: str) -> str:
    device = device_of(target)
    assert device is not None
    return device.name


@hetir.kernel
def rotate(x: hl.Array[hl.i32, 1], rounds: hl.i32):
    """Each round hands every value to the next work-item."""
    tile = hl.shared(ITEMS, hl.i32)
    i = hl.local_id(0)
    mine = x[i]
    for _ in range(rounds):
        tile[i] = mine
        hl.barrier()
        mine = tile[(i + 1) % ITEMS] + 1
        hl.barrier()
    x[i] = mine


@targets
@pytest.mark.parametrize("rounds", [0, 1, 5, 37, -2])
def test_barriers_in_a_loop_of_a_run_time_trip_count(rounds: int, target: str) -> None:
    x = np.arange(ITEMS, dtype=np.int32) * 10
    count = max(rounds, 0)
    want = np.roll(x, -count) + count
    rotate.launch((x, rounds), grid=1, workgroup=ITEMS, device=device_name(target)).wait()
    assert (x == want).all()


@hetir.kernel
def search(x: hl.Array[hl.i32, 1], skip: hl.i32, stop: hl.i32):
    tile = hl.shared(ITEMS, hl.i32)
    i = hl.local_id(0)
    tile[i] = x[i]
    total = hl.i32(0)
    for outer in range(6):
        if outer == skip:
            continue
        inner = hl.i32(0)
        while True:
            hl.barrier()
            seen = tile[(i + 1) % ITEMS]
            hl.barrier()
            tile[i] = seen
            inner += 1
            if inner == outer:
                continue
            total += seen * (outer + 1)
            if inner >= stop:
                break
        if outer + inner > 7:
            break
    x[i] = total


def searched(x: np.ndarray, skip: int, stop: int) -> np.ndarray:
    tile, total = x.copy(), np.zeros_like(x)
    for outer in range(6):
        if outer == skip:
            continue
        inner = 0
        while True:
            tile = np.roll(tile, -1)
            inner += 1
            if inner == outer:
                continue
            total += tile * (outer + 1)
            if inner >= stop:
                break
        if outer + inner > 7:
            break
    return total


@targets
@pytest.mark.parametrize(("skip", "stop"), [(9, 3), (0, 1), (2, 4), (3, 3)])
def test_nested_loops_with_break_and_continue_around_barriers(
    skip: int, stop: int, target: str
) -> None:
    x = np.arange(ITEMS, dtype=np.int32) ** 2
    want = searched(x, skip, stop)
    search.launch((x, skip, stop), grid=1, workgroup=ITEMS, device=device_name(target)).wait()
    assert (x == want).all()


@hetir.kernel
def classify(x: hl.Array[hl.i32, 1]):
    i = hl.global_id(0)
    v = x[i]
    if v == 0:
        r = hl.i32(100)
    elif v == 1:
        r = v + 41
    elif v == 2 or v == 5:
        r = hl.i32(-7)
        for k in range(v):
            r += k
    elif v < 0:
        r = -v
    elif v == 7:
        return
    else:
        r = v * v
    x[i] = r


@targets
def test_chains_like_switches(target: str) -> None:
    x = np.array([0, 1, 2, 3, 5, 7, -4, 9, 2, 1], np.int32)
    want = [100, 42, -6, 9, 3, 7, 4, 81, -6, 42]
    classify.launch((x,), grid=1, workgroup=10, device=device_name(target)).wait()
    assert x.tolist() == want


@hetir.kernel
def leaves_early(x: hl.Array[hl.i32, 1], limit: hl.i32):
    tile = hl.shared(ITEMS, hl.i32)
    i = hl.local_id(0)
    if limit < 0:
        return
    tile[i] = x[i]
    hl.barrier()
    x[i] = tile[ITEMS - 1 - i]


@targets
def test_a_uniform_return_before_a_barrier(target: str) -> None:
    x = np.arange(ITEMS, dtype=np.int32)
    name = device_name(target)
    leaves_early.launch((x, -1), grid=1, workgroup=ITEMS, device=name).wait()
    assert x.tolist() == list(range(ITEMS))
    leaves_early.launch((x, 1), grid=1, workgroup=ITEMS, device=name).wait()
    assert x.tolist() == list(range(ITEMS))[::-1]


@hetir.kernel
def leaves_alone(x: hl.Array[hl.i32, 1]):
    if x[hl.local_id(0)] > 3:
        return
    hl.barrier()
    x[0] = 1


@pytest.mark.parametrize("target", NAMES)
def test_a_divergent_return_before_a_barrier_is_refused(target: str) -> None:
    with pytest.raises(DivergentBarrierError) as caught:
        hetir.compile(leaves_alone, "i32[:]", target=target)
    assert any(label.loc.line == line_of("hl.barrier()") for label in caught.value.labels)


def line_of(text: str) -> int:
    """Where a line stands in `leaves_alone`."""
    import inspect

    lines, first = inspect.getsourcelines(leaves_alone.function)
    return first + next(n for n, line in enumerate(lines) if text in line)


@targets
def test_extended_integers_compare_with_constants_as_wide_ones(target: str) -> None:
    """Mesa 22.3 gets them wrong unless it does not know that they are extended."""
    bounds = (-(1 << 31), -7, -1, 0, 1, 127, 300, (1 << 31) - 1, 1 << 40)
    values = np.array([-(1 << 31), -8, -7, -1, 0, 1, 2, 300, 40_000, (1 << 31) - 1], np.int32)
    compares = (ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ, ops.NE)

    def build(b: Builder, x: Value, y: Value) -> None:
        i = b.value(ops.GLOBAL_ID, axis=0)
        wide = b.value(ops.CAST, b.value(ops.LOAD, x, i), to=I64)
        for row, bound in enumerate(bounds):
            for column, spec in enumerate(compares):
                known, place = b.const(I64, bound), b.const(I64, 12 * row + 2 * column)
                for side, sides in enumerate(((wide, known), (known, wide))):
                    found = b.value(ops.CAST, b.value(spec, *sides), to=U8)
                    at = b.value(ops.ADD, place, b.const(I64, side))
                    b.emit(ops.STORE, y, i, at, found)

    y = np.zeros((len(values), 12 * len(bounds)), np.uint8)
    kernel = kernel_of(build, [array(I32, 1), array(U8, 2)])
    run(kernel, [values, y], (1, 1, 1), (len(values), 1, 1), target=target)
    orders = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)
    wide = values.astype(np.int64)
    want = [f(*s) for c in bounds for f in orders for s in ((wide, c), (c, wide))]
    assert (y == np.stack(want, axis=1)).all()


@targets
def test_two_launches_racing_on_one_queue(target: str) -> None:
    """From two threads: each takes effect whole, in one order or the other."""

    def build(b: Builder, x: Value, factor: Value, more: Value) -> None:
        i = b.value(ops.GLOBAL_ID, axis=0)
        scaled = b.value(ops.MUL, b.value(ops.LOAD, x, i), factor)
        b.emit(ops.STORE, x, i, b.value(ops.ADD, scaled, more))

    device = device_of(target)
    assert device is not None
    kernel = kernel_of(build, [array(U32, 1), U32, U32])
    program, queue = device.load(compile_kernel(kernel, target=target)), device.queue()
    for _ in range(20):
        x = device.array(np.ones(4096, np.uint32))
        gate, launches = threading.Barrier(2), list[runtime.Launch]()

        def work(
            factor: int, more: int, x: runtime.Array = x, gate: threading.Barrier = gate
        ) -> None:
            gate.wait()
            launches.append(  # noqa: B023 - joined below
                program.launch((x, factor, more), grid=16, workgroup=256, queue=queue)
            )

        threads = [threading.Thread(target=work, args=given) for given in ((3, 1), (5, 2))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for launch in launches:
            launch.wait()
        found = set(x.numpy().tolist())
        assert found in ({(1 * 3 + 1) * 5 + 2}, {(1 * 5 + 2) * 3 + 1})
