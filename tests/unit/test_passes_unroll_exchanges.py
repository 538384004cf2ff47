"""Loops around subgroup operations: which become straight code, and that they mean the same."""

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir.ir import ops
from hetir.ir.core import walk
from hetir.ir.verify import verify
from hetir.passes.unroll_exchanges import unroll_exchanges
from tests.unit.test_cpu_clamps import prepared

WIDTH = 16


@hetir.kernel(subgroup_size=WIDTH)
def halving(x, y, n: hl.i32):
    """The reduction of every book, down to the first lane."""
    v = x[hl.global_id(0)]
    offset = WIDTH // 2
    while offset > 0:
        v += hl.shuffle_down(v, offset)
        offset //= 2
    y[hl.global_id(0)] = v


@hetir.kernel(subgroup_size=WIDTH)
def doubling(x, y, n: hl.i32):
    """A scan: a branch in a turn, and a value from a turn before."""
    lane, v = hl.lane_id(), x[hl.global_id(0)]
    d = 1
    while d < WIDTH:
        u = hl.shuffle_up(v, d)
        if lane >= d:
            v += u
        d *= 2
    y[hl.global_id(0)] = v + d


@hetir.kernel(subgroup_size=WIDTH)
def counted(x, y, n: hl.i32):
    """A range with `continue`, and the index afterwards."""
    v = x[hl.global_id(0)]
    for k in range(3, -1, -1):
        if k == 1:
            continue
        v += hl.shuffle_xor(v, 1 << k)
    y[hl.global_id(0)] = v * 10 + k


@hetir.kernel(subgroup_size=WIDTH)
def left(x, y, n: hl.i32):
    """An early end that is known, with more ops behind it."""
    v = x[hl.global_id(0)]
    k = 0
    while True:
        v += hl.shuffle_xor(v, 1)
        k += 1
        if k == 3:
            v *= 2
            break
        v -= 1
    y[hl.global_id(0)] = v


@hetir.kernel(subgroup_size=WIDTH)
def argued(x, y, n: hl.i32):
    """As many turns as an argument says."""
    v = x[hl.global_id(0)]
    k = 0
    while k < n:
        v += hl.shuffle_xor(v, 1)
        k += 1
    y[hl.global_id(0)] = v


@hetir.kernel(subgroup_size=WIDTH)
def halfway(x, y, n: hl.i32):
    """Turns that are known, and an end that is not."""
    v = x[hl.global_id(0)]
    k = 0
    while k < 4:
        v += hl.shuffle_xor(v, 1)
        k += 1
        if n < k:
            break
    y[hl.global_id(0)] = v


@hetir.kernel(subgroup_size=WIDTH)
def endless(x, y, n: hl.i32):
    """Too many turns."""
    v = x[hl.global_id(0)]
    k = 0
    while k < 40:
        v += hl.shuffle_xor(v, 1) // 2
        k += 1
    y[hl.global_id(0)] = v


@hetir.kernel(subgroup_size=WIDTH)
def met(x, y, n: hl.i32):
    """A barrier in a turn."""
    v = x[hl.global_id(0)]
    for k in range(2):
        v += hl.shuffle_xor(v, 1 << k)
        hl.barrier()
    y[hl.global_id(0)] = v


KERNELS = (halving, doubling, counted, left, argued, halfway, endless, met)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_what_is_unrolled(kernel):
    x = np.zeros(64, np.int32)
    before = prepared(kernel, (x, x, 2))
    after = unroll_exchanges(before)
    verify(after)
    straight = kernel in (halving, doubling, counted, left)
    loops = [op for op in walk(after.body) if op.spec in (ops.LOOP, ops.FOR)]
    assert bool(loops) is not straight
    if not straight:
        assert loops == [op for op in walk(before.body) if op.spec in (ops.LOOP, ops.FOR)]


def right(kernel, x, n):  # noqa: C901 - a branch a kernel
    """What a kernel leaves, by NumPy, for rows of a subgroup's width."""
    v, lane = x.reshape(-1, WIDTH).copy(), np.arange(WIDTH)
    one = lane ^ 1
    if kernel is halving:
        for offset in (8, 4, 2, 1):
            v += np.where(lane + offset < WIDTH, np.roll(v, -offset, 1), 0)
    elif kernel is doubling:
        v = np.cumsum(v, 1, dtype=np.int32) + WIDTH
    elif kernel is counted:
        for k in (3, 2, 0):
            v += v[:, lane ^ (1 << k)]
        v *= 10
    elif kernel is left:
        for _ in range(2):
            v += v[:, one] - 1
        v = (v + v[:, one]) * 2
    elif kernel is endless:
        for _ in range(40):
            v += v[:, one] // 2
    elif kernel is met:
        for k in range(2):
            v += v[:, lane ^ (1 << k)]
    else:
        for _ in range(n if kernel is argued else min(n + 1, 4)):
            v += v[:, one]
    return v.ravel()


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_what_it_gives(kernel):
    x = np.random.default_rng(0).integers(-50, 50, 128).astype(np.int32)
    for n in (0, 2, 5):
        y = np.zeros_like(x)
        kernel[2, 64](x, y, n)
        assert (y == right(kernel, x, n)).all(), n
