"""Safe points: any stop at any of them, and the result is what it would have been."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from checkpoint_tools import Hops, evaluator, hop, placed

import hetir
import hetir.lang as hl
from hetir import compiler, emulator, library
from hetir.ir import ops
from hetir.ir.canonical import canonicalise
from hetir.ir.core import Kernel, Operation, walk
from hetir.ir.rewrite import Env, map_kernel, rebuild
from hetir.ir.text import parse_kernel, print_kernel
from hetir.passes import safe_points
from hetir.passes.safe_points import NotCheckpointableError, place
from hetir.passes.safe_points_check import faults
from hetir.passes.simplify import simplify
from hetir.testing.differential import differences, on_cpu
from hetir.testing.generate import Shape, generate

SEEDS = range(16)
ON_CPU = (on_cpu(), False)
WIDE = (on_cpu(lanes=8), False)
CHECKED = (evaluator, True)


TILE = 8
PRODUCT = "f32[:, ::1], f32[:, ::1], f32[:, ::1]"


@hetir.kernel
def product(a: hl.Array[hl.f32, 2], b: hl.Array[hl.f32, 2], c: hl.Array[hl.f32, 2]):
    tx, ty = hl.local_id(0), hl.local_id(1)
    row, col = hl.group_id(1) * TILE + ty, hl.group_id(0) * TILE + tx
    left = hl.shared((TILE, TILE), hl.f32)
    right = hl.shared((TILE, TILE), hl.f32)
    depth = a.shape[1]
    total = hl.f32(0)
    for start in range(0, depth, TILE):
        left[ty, tx] = a[row, start + tx] if row < a.shape[0] and start + tx < depth else 0.0
        right[ty, tx] = b[start + ty, col] if start + ty < depth and col < b.shape[1] else 0.0
        hl.barrier()
        for k in range(TILE):
            total += left[ty, k] * right[k, tx]
        hl.barrier()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = total


def prepared(kernel, signature: str) -> Kernel:
    arguments = compiler.parse_signature(signature)
    return compiler.prepare(compiler.record(kernel, arguments).module)


def library_kernels(*names: str) -> list[Kernel]:
    steps = [s for name in names for s in library.case(name, size=library.SMALL[name]).steps]
    return [s.kernel.specialisation(s.kernel.operands(s.arguments)).kernel for s in steps]


def generated(seed: int):
    choose = random.Random(seed)
    return generate(choose.randrange, Shape(statements=8)), choose


@pytest.mark.parametrize("seed", SEEDS)
def test_random_stops_on_unlike_executors_change_no_bit(seed):
    case, choose = generated(seed)
    want = case.arguments()
    emulator.run(case.kernel, want, case.grid, case.workgroup)
    got = case.arguments()
    hop(
        placed(case.kernel), got, case.grid, case.workgroup, [CHECKED, WIDE, ON_CPU],
        limit=choose.choice([1, 2, 3, 5, 9]), capacity=choose.choice([1, 2, 4]),
    )  # fmt: skip
    assert not differences(case.written(want), case.written(got))


def test_the_generator_reaches_safe_points_with_state():
    """Guards the test above: random kernels have safe points with operands in loops."""
    held = [placed(generated(seed)[0].kernel) for seed in SEEDS]
    assert sum(bool(p.points) for p in held) > 2
    assert sum(len(point.slots) for p in held for point in p.points) > 5


@pytest.mark.parametrize("limit", [4, 11])
def test_a_tiled_product_stops_at_every_barrier(limit):
    """NumPy says what the product is."""
    random_ = np.random.default_rng(0)
    a = random_.integers(-8, 8, (20, 26)).astype(np.float32)
    b = random_.integers(-8, 8, (26, 17)).astype(np.float32)
    c = np.empty((20, 17), np.float32)
    found = placed(prepared(product, PRODUCT))
    hops: Hops = hop(
        found, [a, b, c], (3, 3, 1), (TILE, TILE, 1), [CHECKED, WIDE], limit=limit, capacity=4
    )
    assert hops.stops >= 3
    assert hops.midway >= 3
    np.testing.assert_array_equal(c, a @ b)


@hetir.kernel
def forgetful(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1], n: hl.i64):
    """Memory forgets what it held: only what was saved can bring it back."""
    i = hl.global_id(0)
    first, second, turns = x[i], x[i] * 3, x[0]
    hl.barrier()
    x[i] = -7
    total = first
    for _ in range(n):
        total = total * 3 + second  # of the next turn alone
        hl.barrier()
        total += first
    if turns > 0:
        hl.barrier()
        total -= 1000
        hl.barrier()
        total = total * 5
    else:
        hl.barrier()
        total += 1
    y[i] = total


@pytest.mark.parametrize("seed", range(6))
def test_stops_bring_back_what_memory_forgot(seed):
    """NumPy says what the sums are; two workgroups branch alike or not, by what `x` held."""
    draw = np.random.default_rng(seed)
    n, limit = int(draw.integers(1, 7)), int(draw.integers(2, 9))
    x = draw.integers(1, 9, 16).astype(np.int32)
    x[0] *= 1 - 2 * (seed % 2)
    want = x.copy()
    for _ in range(n):
        want = want * 3 + 3 * x + x
    want = (want - 1000) * 5 if x[0] > 0 else want + 1
    y = np.zeros_like(x)
    found = placed(prepared(forgetful, "i32[::1], i32[::1], i64"))
    given = [x, y, np.int64(n)]
    hops = hop(found, given, (1, 1, 1), (16, 1, 1), [CHECKED, WIDE], limit=limit, capacity=1)
    assert hops.midway > 0
    np.testing.assert_array_equal(y, want)


@hetir.kernel
def horner(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1], n: hl.i64, k: hl.i64):
    i = hl.global_id(0)
    total = hl.f32(0)
    for j in range(n - 1, -1, -k):
        total = total * 0.5 + x[i] * j
        if total > 1000.0:
            continue
        total += 1.0
    y[i] = total


@pytest.mark.parametrize(("n", "k"), [(0, 1), (1, 1), (1000, 1), (777, 3)])
def test_long_loops_without_barriers_are_strip_mined(monkeypatch, n, k):
    monkeypatch.setattr(safe_points, "LONG", 64)
    x = np.random.default_rng(0).random(64, np.float32)
    y = np.empty_like(x)
    found = placed(prepared(horner, "f32[::1], f32[::1], i64, i64"))
    assert len(found.points) == 1
    hops = hop(found, [x, y, np.int64(n), np.int64(k)], (4, 1, 1), (16, 1, 1), [CHECKED],
               limit=300, capacity=2)  # fmt: skip
    want = np.zeros_like(x)
    for j in range(n - 1, -1, -k):
        want = want * np.float32(0.5) + x * np.float32(j)
        want = np.where(want > 1000, want, want + np.float32(1))
    np.testing.assert_array_equal(y, want)
    assert (hops.midway > 0) == (n > 700)


def test_every_needed_value_is_saved_and_the_checker_sees_one_left_out():
    kernels = [generated(seed)[0].kernel for seed in range(10)]
    kernels += library_kernels("sum", "histogram", "nbody")
    dropped = unseen = 0
    for kernel in kernels:
        marked = place(canonicalise(simplify(kernel)))
        assert faults(marked) == ()
        for point in [op for op in walk(marked.body) if op.spec is ops.SAFE_POINT]:
            for index in range(len(point.operands)):
                dropped += 1
                unseen += not faults(_without(marked, point, index))
    assert dropped > 20
    # what is saved in vain: loop values just before a `break` or `return`
    assert unseen <= dropped // 10


def _without(kernel: Kernel, point: Operation, index: int) -> Kernel:
    def visit(op: Operation, env: Env) -> list[Operation]:
        if op is point:
            kept = [n for n in range(len(op.operands)) if n != index]
            operands = tuple(op.operands[n] for n in kept)
            return [replace(op, operands=operands, results=tuple(op.results[n] for n in kept))]
        return [rebuild(op, env, visit)]

    return map_kernel(kernel, visit)


def test_a_single_buffered_decision_is_caught_as_a_race():
    """Condition 1: with one flag, slow work-items read the next decision."""
    found = placed(prepared(product, PRODUCT))

    def one_flag(kernel: Kernel) -> Kernel:
        text = print_kernel(kernel, locations=False)
        assert "= xor " in text
        lines = [
            line.replace("= xor ", "= and ") if ": i64 = xor " in line else line
            for line in text.splitlines()
        ]
        return parse_kernel("\n".join(lines))

    ones = np.ones((16, 64), np.float32)
    with pytest.raises(AssertionError, match="race"):
        hop(
            found, [ones, ones.T.copy(), np.empty((16, 16), np.float32)], (2, 2, 1),
            (TILE, TILE, 1), [CHECKED], limit=1000, capacity=1, change=one_flag,
        )  # fmt: skip


@hetir.kernel
def waits(flag: hl.Array[hl.i32, 1], x: hl.Array[hl.i32, 1]):
    if hl.group_id(0) == 0:
        x[0] = 1
        hl.atomic_store(flag, 0, 1, order="release")
    else:
        while hl.atomic_load(flag, 0, order="acquire") == 0:
            pass
        x[hl.group_id(0)] = x[0]


@hetir.kernel
def chooses(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1], w: hl.Array[hl.f32, 1], n: hl.i32):
    z = x
    if n > 3:
        w[hl.local_id(0)] = 2.0
        z = y
    hl.barrier()
    z[hl.local_id(0)] = 1.0


def test_kernels_that_cannot_be_stopped_are_refused_with_the_line():
    ones = np.zeros(4, np.int32)
    with pytest.raises(NotCheckpointableError, match="waits for another workgroup") as caught:
        waits.launch((ones, ones), grid=2, workgroup=1, checkpoint=True)
    assert "hl.atomic_load(flag" in str(caught.value)
    x = np.zeros(4, np.float32)
    with pytest.raises(NotCheckpointableError, match="chosen by control flow") as caught:
        chooses.launch((x, x.copy(), x, 9), grid=1, workgroup=4, checkpoint=True)
    assert "if n > 3" in str(caught.value)


def test_ids_are_stable_and_say_where():
    """Condition 4: ids come from the canonical kernel, whatever the names and places are."""
    kernel = prepared(product, PRODUCT)
    one = placed(kernel)
    two = placed(parse_kernel(print_kernel(kernel, locations=False)))
    assert [p.id for p in one.points] == [p.id for p in two.points]
    assert len({p.id for p in one.points}) == len(one.points) == 2
