"""Chains of arithmetic side by side: what they read and write stays in order."""

import itertools

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir.backends.cpu.order import side_by_side
from hetir.ir import ops
from hetir.ir.core import walk
from tests.unit.test_cpu_clamps import prepared, runner


@hetir.kernel
def chains(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    """Reads again what it wrote, which may be in either array."""
    i = hl.global_id(0)
    if i < y.shape[0]:
        a, b = hl.log(hl.abs(x[i]) + 2.0), hl.exp(x[i] - 2.0)
        x[i] = a * b
        c = hl.log(y[i] + 3.0)
        y[i] = x[i] + hl.exp(c)
        x[i] = y[i] - a


def test_ops_come_when_their_operands_are_there():
    x = np.ones(64, np.float32)
    kernel = prepared(chains, (x, x))
    moved = side_by_side(kernel)
    before, after = ([*walk(k.body)] for k in (kernel, moved))
    accesses = [[op for op in all_ if op.spec in (ops.LOAD, ops.STORE)] for all_ in (before, after)]
    assert accesses[0] == accesses[1]
    assert {id(v) for op in before for v in op.results} == {
        id(v) for op in after for v in op.results
    }
    known = {p.value for p in moved.params}
    for op in after:
        assert known.issuperset(op.operands)
        known.update(op.results)
    assert waiting(before) > 2 * waiting(after)


def waiting(body):
    """How many ops stand right behind what they need."""
    return sum(any(v in a.results for v in b.operands) for a, b in itertools.pairwise(body))


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("lanes", [0, 8, None])
def test_memory_keeps_its_order(lanes, together):
    x = np.random.default_rng(4).random(100, np.float32) * 4
    y = x if together else x[::-1].copy()
    x64, y64 = x.astype(np.float64), y.astype(np.float64)
    a = np.log(np.abs(x64) + 2)
    x64 = a * np.exp(x64 - 2)
    y64 = x64 if together else y64
    y64 = x64 + y64 + 3
    runner(chains, (x, y), (64,), lanes)((x, y), (2,))
    np.testing.assert_allclose(x, y64 - a, rtol=3e-6)
    if not together:
        np.testing.assert_allclose(y, y64, rtol=3e-6)


@hetir.kernel
def across(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    """Arithmetic behind a barrier, which would have to be kept if it came before."""
    i = hl.local_id(0)
    shared = hl.shared(64, hl.f32)
    a = x[i]
    shared[i] = hl.erf(a)
    hl.barrier()
    y[i] = shared[63 - i] + hl.erf(a + 1.0)


def test_arithmetic_stays_on_its_side_of_a_barrier():
    x = np.ones(64, np.float32)
    kernel = prepared(across, (x, x))
    behind = []
    for body in (kernel.body.body, side_by_side(kernel).body.body):
        places = [n for n, op in enumerate(body) if op.spec is ops.BARRIER]
        behind.append({op.results for op in body[places[0] :]})
    assert behind[0] == behind[1]
    assert len(behind[0]) > 60
