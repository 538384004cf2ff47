"""Work-items as vectors: every library kernel and generated kernels at several widths."""

import os
import random

import numpy as np
import pytest

from hetir import compiler, library, runtime, testing
from hetir.backends import cpu
from hetir.backends.cpu import compile_kernel
from hetir.ir.text import parse_kernel, print_kernel
from hetir.passes.simplify import simplify
from tests.unit.cpu_support import run_text

COUNT = int(os.environ.get("HETIR_GENERATED", "100")) // 4
FRESH = random.SystemRandom().randrange(1 << 40)


def run_at(name, lanes):
    case = library.case(name, size=library.SMALL[name])
    case.reset()
    for step in case.steps:
        traced = compiler.record(step.kernel, step.kernel.specialise(step.arguments))
        kernel = simplify(compiler.prepare(traced.module))
        shape = compiler.dims(step.workgroup)
        artifact = compile_kernel(kernel, workgroup=shape, lanes=lanes, optimise=1)
        program = runtime.device("cpu").load(artifact, names=step.kernel.parameters)
        program.run(step.arguments, compiler.dims(step.grid), shape)
    return {key: value.tobytes() for key, value in case.results.items()}


@pytest.mark.parametrize("name", library.NAMES)
def test_library_kernels_give_the_same_bits_at_every_width(name):
    one = run_at(name, 0)
    for lanes in (4, 16, None):
        assert run_at(name, lanes) == one, lanes


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32, 64, None])
def test_generated_kernels_agree_at_every_width(lanes, monkeypatch):
    """None lets the backend choose for each leaf; from 2 up, as few groups are wide."""
    monkeypatch.setattr(cpu, "vector_lanes", lambda _: 2)
    fresh = COUNT // 10
    first = (lanes or 100) * 1000
    fixed = range(first, first + COUNT - fresh)
    for seed in (*fixed, *range(FRESH, FRESH + fresh)):
        case = testing.generate(random.Random(seed).randrange)
        runner = testing.on_cpu(optimise=3 if seed % 8 == 0 else 0, lanes=lanes)
        expected = case.run(testing.evaluator)
        wrong = testing.differences(expected, case.run(runner))
        assert not wrong, f"seed {seed}\n{print_kernel(case.kernel)}\n{wrong}"


RANGE_AT_THE_EDGE = """kernel k(%x: array<i32[?], global> from 0, %a: i64 from 1, %b: i64 from 2) {
  %i: i64 = local_id axis=0
  %size: i64 = group_size axis=0
  %start: i64 = add %a, %i
  %zero: i32 = const 0
  %one: i32 = const 1
  %n: i32 = for %start, %b, %size, %zero (%k: i64, %count: i32) {
    %more: i32 = add %count, %one
    yield %more
  }
  store %x, %i, %n
  return
}
"""


@pytest.mark.parametrize("lanes", [0, 4, 8])
@pytest.mark.parametrize("stop", [2**63 - 1, 2**63 - 6, 2**63 - 30])
def test_strided_ranges_do_not_wrap_at_the_largest_index(lanes, stop):
    start = 2**63 - 40
    x = np.full(16, -1, np.int32)
    run_text(RANGE_AT_THE_EDGE, [x, np.int64(start), np.int64(stop)], (16, 1, 1), lanes)
    assert x.tolist() == [len(range(start + i, stop, 16)) for i in range(16)]


WRAPPING_COMPARE = """kernel k(
  %x: array<bool[?], global> from 0, %base: i64 from 1, %top: i64 from 2
) {
  %i: i64 = local_id axis=0
  %sum: i64 = add %base, %i
  %less: bool = lt %sum, %top
  store %x, %i, %less
  return
}
"""


@pytest.mark.parametrize("lanes", [0, 4, 8])
@pytest.mark.parametrize("limit", [-5, 0, 2**63 - 1, -(2**63)])
def test_an_index_that_wraps_compares_as_it_wraps(lanes, limit):
    base = 2**63 - 4
    x = np.zeros(16, np.bool_)
    run_text(WRAPPING_COMPARE, [x, np.int64(base), np.int64(limit)], (16, 1, 1), lanes)
    sums = [(base + i + 2**63) % 2**64 - 2**63 for i in range(16)]
    assert x.tolist() == [s < limit for s in sums]


SHAPES = [
    (1, 1, 1),
    (3, 1, 1),
    (33, 1, 1),
    (100, 1, 1),
    (128, 1, 1),
    (64, 3, 1),
    (5, 3, 1),
    (4, 4, 2),
    (16, 3, 1),
    (1, 64, 1),
    (7, 1, 9),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_ids_in_groups_of_every_shape(shape):
    text = """kernel k(%x: array<i64[?, ?], global> from 0) {
  %a: i64 = local_id axis=0
  %b: i64 = local_id axis=1
  %c: i64 = local_id axis=2
  %sx: i64 = group_size axis=0
  %sy: i64 = group_size axis=1
  %zy: i64 = mul %c, %sy
  %row: i64 = add %zy, %b
  %zyx: i64 = mul %row, %sx
  %i: i64 = add %zyx, %a
  %lane: i64 = lane_id
  %0: i64 = const 0
  %1: i64 = const 1
  %2: i64 = const 2
  %3: i64 = const 3
  store %x, %i, %0, %a
  store %x, %i, %1, %b
  store %x, %i, %2, %c
  store %x, %i, %3, %lane
  return
}
"""
    count = int(np.prod(shape))
    i = np.arange(count)
    want = np.stack(
        [i % shape[0], i // shape[0] % shape[1], i // (shape[0] * shape[1]), i % 32], axis=1
    )
    for lanes in (0, 4, 8, 16, None):
        x = np.full((count, 4), -1, np.int64)
        run_text(text, [x], shape, lanes)
        assert (x == want).all(), lanes


WHOLE_SUBGROUPS = """kernel k(
  %x: array<{kind}[?], global> from 0, %where: array<bool[?], global> from 1,
  %by: array<i64[?], global> from 2, %y: array<{kind}[?, ?], global> from 3,
  %bits: array<u64[?, ?], global> from 4
) subgroup_size={width} {{
  %i: i64 = global_id axis=0
  %v: {kind} = load %x, %i
  %w: bool = load %where, %i
  %d: i64 = load %by, %i
  %t: bool = const true
  %0: i64 = const 0
  %1: i64 = const 1
  %2: i64 = const 2
  %3: i64 = const 3
  %4: i64 = const 4
  %5: i64 = const 5
  %6: i64 = const 6
  %far: i64 = const -3
  %a: {kind} = subgroup_reduce %v, %w kind=max
  store %y, %0, %i, %a
  %b: {kind} = subgroup_scan %v, %t inclusive=true kind=add
  store %y, %1, %i, %b
  %c: {kind} = subgroup_scan %b, %w inclusive=false kind=min
  store %y, %2, %i, %c
  %e: {kind} = shuffle %c, %3, %w mode=xor
  store %y, %3, %i, %e
  %f: {kind} = shuffle %b, %far, %t mode=up
  store %y, %4, %i, %f
  %g: {kind} = shuffle %f, %1, %w mode=index
  store %y, %5, %i, %g
  %h: {kind} = shuffle %g, %d, %t mode=down
  %sum: {kind} = add %h, %e
  store %y, %6, %i, %sum
  %big: bool = lt %h, %e
  %ballot: u64 = ballot %big, %w
  store %bits, %0, %i, %ballot
  %some: bool = vote %big, %w mode=any
  %one: u64 = const 1
  %none: u64 = const 0
  %flag: u64 = select %some, %one, %none
  store %bits, %1, %i, %flag
  return
}}
"""


@pytest.mark.parametrize("width", [1, 2, 8, 32, 64])
@pytest.mark.parametrize("kind", ["f32", "u8"])
@pytest.mark.parametrize("items", [64, 192])
def test_subgroups_that_have_all_their_items(kind, width, items):
    kernel = parse_kernel(WHOLE_SUBGROUPS.format(kind=kind, width=width))
    rng = np.random.default_rng(items + width)
    dtype = {"f32": np.float32, "u8": np.uint8}[kind]
    count = 2 * items
    given = [
        rng.integers(0, 100, count).astype(dtype),
        rng.random(count) < 0.7,
        rng.integers(-2, width + 2, count),
        np.zeros((7, count), dtype),
        np.zeros((2, count), np.uint64),
    ]
    want = [np.copy(a) for a in given]
    testing.evaluator(kernel, want, (2, 1, 1), (items, 1, 1))
    for lanes, level in ((0, 1), (4, 0), (16, 1), (None, 0), (None, 3)):
        got = [np.copy(a) for a in given]
        testing.on_cpu(optimise=level, lanes=lanes)(kernel, got, (2, 1, 1), (items, 1, 1))
        assert not testing.differences(want, got), (lanes, level)


LINES = """kernel k(%y: array<i64[?, ?], global> from 0) {
  %i: i64 = local_id axis=0
  %0: i64 = const 0
  %1: i64 = const 1
  %2: i64 = const 2
  %3: i64 = const 3
  %4: i64 = const 4
  %5: i64 = const 5
  %7: i64 = const 7
  %40: i64 = const 40
  %a: i64 = sub %40, %i
  store %y, %0, %i, %a
  %b: i64 = and %i, %3
  store %y, %1, %i, %b
  %c: i64 = shr %i, %2
  store %y, %2, %i, %c
  %next: i64 = add %i, %1
  %d: i64 = and %next, %3
  store %y, %3, %i, %d
  %twice: i64 = mul %i, %2
  %e: i64 = and %twice, %7
  store %y, %4, %i, %e
  %f: i64 = shr %next, %3
  %g: i64 = add %f, %a
  store %y, %5, %i, %g
  return
}
"""


@pytest.mark.parametrize("lanes", [0, 2, 4, 8, None])
def test_arithmetic_on_lines(lanes):
    i = np.arange(64)
    y = np.zeros((6, 64), np.int64)
    run_text(LINES, [y], (64, 1, 1), lanes)
    want = [40 - i, i & 3, i >> 2, i + 1 & 3, 2 * i & 7, (i + 1 >> 3) + 40 - i]
    assert y.tolist() == [w.tolist() for w in want]


GROUPS_IN_ROWS = """kernel k(%y: array<i64[?, ?, ?], global> from 0) {
  %x: i64 = global_id axis=0
  %r: i64 = global_id axis=1
  %p: i64 = global_id axis=2
  %g: i64 = group_id axis=0
  %100: i64 = const 100
  %a: i64 = mul %r, %100
  %b: i64 = add %x, %a
  %c: i64 = mul %p, %100
  %d: i64 = mul %c, %100
  %e: i64 = add %b, %d
  %f: i64 = add %e, %g
  %old: i64 = load %y, %p, %r, %x
  %sum: i64 = add %old, %f
  store %y, %p, %r, %x, %sum
  return
}
"""


@pytest.mark.parametrize("lanes", [0, 4, None])
def test_rows_of_groups_run_each_group_once(lanes):
    y = np.zeros((2, 22, 8 * 11), np.int64)
    run_text(GROUPS_IN_ROWS, [y], (8, 2, 1), lanes, grid=(11, 11, 2))
    p, r, x = np.indices(y.shape)
    assert (y == x + 100 * r + 10000 * p + x // 8).all()


ROWS_MEET = """kernel k(%t: array<i64[?], global> from 0, %y: array<i64[?], global> from 1) {
  %x: i64 = local_id axis=0
  %r: i64 = local_id axis=1
  %8: i64 = const 8
  %15: i64 = const 15
  %row: i64 = mul %r, %8
  %i: i64 = add %row, %x
  store %t, %i, %i
  barrier scope=workgroup
  %j: i64 = sub %15, %i
  %v: i64 = load %t, %j
  store %y, %i, %v
  return
}
"""


@pytest.mark.parametrize("lanes", [0, 4, None])
def test_rows_of_a_group_meet_at_a_barrier(lanes):
    t, y = np.full(16, -1), np.full(16, -1)
    run_text(ROWS_MEET, [t, y], (8, 2, 1), lanes)
    assert y.tolist() == list(range(15, -1, -1))


TWO_SUBGROUP_PROGRAMS = """kernel k(
  %x: array<i64[?], global> from 0, %y: array<i64[?], global> from 1
) subgroup_size=8 {
  %i: i64 = local_id axis=0
  %t: bool = const true
  %v: i64 = load %x, %i
  %a: i64 = subgroup_scan %v, %t inclusive=true kind=add
  barrier scope=workgroup
  %b: i64 = add %a, %v
  %c: i64 = subgroup_reduce %b, %t kind=max
  %d: i64 = sub %c, %a
  store %y, %i, %d
  return
}
"""


@pytest.mark.parametrize("lanes", [0, 4, 8, None])
def test_values_from_one_subgroup_program_to_the_next(lanes):
    x = np.random.default_rng(9).integers(0, 100, 32)
    y = np.zeros(32, np.int64)
    run_text(TWO_SUBGROUP_PROGRAMS, [x, y], (32, 1, 1), lanes)
    a = x.reshape(4, 8).cumsum(1)
    want = (a + x.reshape(4, 8)).max(1, keepdims=True) - a
    assert y.tolist() == want.ravel().tolist()
