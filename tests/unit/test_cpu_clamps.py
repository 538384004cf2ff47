"""Clamped indices at every width: lines inside, and the right elements at the border."""

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import compiler, runtime
from hetir.backends.cpu import compile_kernel, emit_ir
from hetir.passes.simplify import simplify
from hetir.target import Assumptions

LANES = (0, 4, 8, 16, 32, None)


def prepared(kernel, arguments):
    return simplify(compiler.prepare(compiler.record(kernel, kernel.specialise(arguments)).module))


def runner(kernel, arguments, workgroup, lanes):
    """Compiled for arguments of these types: `run(arguments, groups)`."""
    shape = compiler.dims(workgroup)
    artifact = compile_kernel(
        prepared(kernel, arguments),
        workgroup=shape,
        assumptions=Assumptions(index_bits=32),
        lanes=lanes,
        optimise=1,
    )
    program = runtime.device("cpu").load(artifact, names=kernel.parameters)
    return lambda arguments, groups: program.run(arguments, compiler.dims(groups), shape)


@hetir.kernel
def shifted(
    x: hl.Array[hl.i32, 1],
    y: hl.Array[hl.i32, 1],
    by: hl.i64,
    low: hl.i64,
    high: hl.i64,
):
    i = hl.global_id(0)
    if i >= y.shape[0]:
        return
    y[i] = x[hl.clamp(i + by, low, high)] + x[min(i, high)] - x[max(high - i, low)]


def expected(x, count, by, low, high):
    i = np.arange(count)
    return x[np.clip(i + by, low, high)] + x[np.minimum(i, high)] - x[np.maximum(high - i, low)]


@pytest.mark.parametrize("lanes", LANES)
def test_clamps_at_every_border(lanes):
    x = np.arange(1000, dtype=np.int32) ** 2
    run = runner(shifted, (x, x, *[np.int64(0)] * 3), (64,), lanes)
    for count in (1, 63, 64, 65, 200):
        for by, low, high in (
            (0, 0, 999),
            (-7, 0, count - 1),
            (9, 3, 70),
            (5, 64, 65),
            (300, 0, 0),
        ):
            if high < low:
                continue
            y = np.full(count + 8, -1, np.int32)
            arguments = (x, y[:count], np.int64(by), np.int64(low), np.int64(high))
            run(arguments, (-(-count // 64),))
            assert (y[:count] == expected(x, count, by, low, high)).all(), (count, by, low, high)
            assert (y[count:] == -1).all()


@hetir.kernel
def moved(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1], by: hl.i64):
    i = hl.global_id(0)
    y[i] = x[hl.clamp(i + by, 0, y.shape[0] - 1)]


@hetir.kernel
def neighbours(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1]):
    i = hl.global_id(0)
    last = x.shape[0] - 1
    right = 3 * x[min(i + 2, last)] + x[min(i + 1, last)]
    y[i] = right + 5 * x[hl.clamp(i - 2, 31, last)] + 7 * x[hl.clamp(i - 1, 31, last)]


@pytest.mark.parametrize("lanes", LANES)
def test_one_lane_at_a_border(lanes):
    x, i = np.arange(64, dtype=np.int32) ** 2, np.arange(64)
    y = np.zeros_like(x)
    run = runner(moved, (x, y, np.int64(0)), (64,), lanes)
    for by in (-2, -1, 0, 1, 2, 2**63 - 1, -(2**63)):
        run((x, y, np.int64(by)), (1,))
        with np.errstate(over="ignore"):
            assert (y == x[np.clip(i + np.int64(by), 0, 63)]).all(), by
    run = runner(neighbours, (x, y), (64,), lanes)
    for last in range(48, 66):
        x = np.arange(last + 1, dtype=np.int32) ** 2
        run((x, y), (1,))
        right = 3 * x[np.minimum(i + 2, last)] + x[np.minimum(i + 1, last)]
        left = 5 * x[np.clip(i - 2, 31, last)] + 7 * x[np.clip(i - 1, 31, last)]
        assert (y == right + left).all(), last


@hetir.kernel
def windows(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1], radius: hl.i64):
    """A loop around, a loop behind, a branch in between, and a barrier."""
    i = hl.global_id(0)
    tile = hl.shared(64, hl.i32)
    last = x.shape[0] - 1
    total = hl.i32(0)
    for k in range(-radius, radius + 1):
        total += x[hl.clamp(i + k, 0, last)]
    left = max(i - 1, 0)
    right = min(i + 1, last)
    total += 3 * x[left] if i % 3 == 0 else x[right]
    for k in range(left, right):
        total += x[min(k + 5, last)]
    tile[hl.local_id(0)] = total
    hl.barrier()
    y[i] = tile[max(hl.local_id(0) - 2, 0)] + x[left] + hl.i32(right)


@pytest.mark.parametrize("lanes", LANES)
def test_clamps_in_loops_branches_and_across_barriers(lanes):
    count = 192
    x = np.random.default_rng(3).integers(-99, 99, count).astype(np.int32)
    y = np.zeros_like(x)
    run = runner(windows, (x, y, np.int64(0)), (64,), lanes)
    i, last = np.arange(count), count - 1
    left, right = np.maximum(i - 1, 0), np.minimum(i + 1, last)
    for radius in (0, 1, 5):
        run((x, y, np.int64(radius)), (count // 64,))
        total = sum(x[np.clip(i + k, 0, last)] for k in range(-radius, radius + 1))
        total = total + np.where(i % 3 == 0, 3 * x[left], x[right])
        for n in range(2):
            total = total + np.where(left + n < right, x[np.minimum(left + n + 5, last)], 0)
        tile = total.reshape(-1, 64)[:, np.maximum(np.arange(64) - 2, 0)].ravel()
        assert (y == tile + x[left] + right).all(), radius


@hetir.kernel
def counted(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1]):
    i = hl.global_id(0)
    if i < y.shape[0]:
        y[i] += 1
        y[i] += x[min(i + 2, x.shape[0] - 1)]


@pytest.mark.parametrize("lanes", LANES)
def test_what_came_before_a_clamp_is_done_once(lanes):
    x = np.arange(160, dtype=np.int32)
    run = runner(counted, (x, x), (64,), lanes)
    for count in (128, 130, 160):
        y = np.zeros(count, np.int32)
        run((x[:count], y), (-(-count // 64),))
        assert (y == 1 + np.minimum(np.arange(count) + 2, count - 1)).all(), count


@hetir.kernel
def wrapping(y: hl.Array[hl.i64, 1], start: hl.i64):
    i = hl.global_id(0)
    y[i] = min(start + i, start + 3) + max(start - i, 5)


@pytest.mark.parametrize("lanes", LANES)
def test_clamps_of_numbers_that_wrap(lanes):
    y, i = np.zeros(64, np.int64), np.arange(64)
    run = runner(wrapping, (y, np.int64(0)), (64,), lanes)
    for start in (0, 2**63 - 5, -(2**63) + 5, 2**61, -(2**61)):
        run((y, np.int64(start)), (1,))
        with np.errstate(over="ignore"):
            first = np.minimum(np.int64(start) + i, np.int64(start) + 3)
            assert (y == first + np.maximum(np.int64(start) - i, 5)).all(), start


def test_inside_there_are_no_gathers():
    image = np.zeros((8, 8), np.float32)
    from kernels import sobel

    text = emit_ir(prepared(sobel.sobel, (image, image)), workgroup=(64, 4, 1))
    inside = text[text.index("\ninside") : text.index("gather")]
    assert inside.count("load <") >= 8
    assert text.count("\nborder") == 0  # those take the code for lanes under a mask
