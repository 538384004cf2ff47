"""Rows that run on over groups, in vectors that start where lines of memory do."""

import itertools
import random

import numpy as np
import pytest

from hetir.backends.cpu import compile_kernel
from hetir.backends.cpu.program import Leaf
from hetir.backends.cpu.rows import anchor
from hetir.backends.cpu.schedule import schedule
from hetir.ir.text import parse_kernel
from hetir.passes.expand_arrays import expand_arrays
from hetir.passes.regions import definitions
from hetir.target import Assumptions
from tests.unit.cpu_support import enter

# y[r, c + shift] = x[r, c] + x[r, c + 1] inside, for columns from 1 on
BESIDE = """kernel k(
  %x: array<{t}[?, ?:1], global> from 0, %y: array<{t}[?, ?:1], global> from 1, %shift: i64 from 2
) {{
  %c: i64 = global_id axis=0
  %r: i64 = global_id axis=1
  %one: i64 = const 1
  %h: i64 = dim %x axis=0
  %w: i64 = dim %x axis=1
  %last: i64 = sub %w, %one
  %a: bool = ge %c, %one
  %b: bool = lt %c, %last
  %d: bool = lt %r, %h
  %ab: bool = and %a, %b
  %on: bool = and %ab, %d
  if %on {{
    %n: i64 = add %c, %one
    %p: {t} = load %x, %r, %c
    %q: {t} = load %x, %r, %n
    %s: {t} = add %p, %q
    %m: i64 = add %c, %shift
    store %y, %r, %m, %s
    yield
  }} else {{
    yield
  }}
  return
}}
"""
DTYPES = {"u8": np.uint8, "i16": np.int16, "f32": np.float32, "u32": np.uint32, "f64": np.float64}


def placed(rng, dtype, height, step, flipped):
    """Memory, and what gives its matrix, which starts any number of elements into a line."""
    count = height * step
    memory = np.array([rng.randrange(100) for _ in range(count + 64)], dtype)
    start = (-memory.ctypes.data % 64 // memory.itemsize + rng.randrange(16)) % 64
    memory = np.concatenate((memory, np.zeros(80, dtype)))
    return memory, lambda m: m[start : start + count].reshape(height, step)[:: 1 - 2 * flipped]


def launch(kernel, arguments, grid, shape, cuts, lanes, optimise):
    promised = Assumptions(index_bits=32, disjoint=True) if cuts else Assumptions()
    made = compile_kernel(
        kernel, workgroup=shape, lanes=lanes, optimise=optimise, assumptions=promised
    )
    go = enter(made, arguments, grid, shape)
    for first, last in itertools.pairwise((0, *sorted(cuts), int(np.prod(grid)))):
        go(first, last)


def check(rng, kind, shape, lanes, optimise):
    """Ragged widths, unlike alignments, odd strides, rows backwards, grids cut anywhere."""
    dtype, height, width = DTYPES[kind], rng.randrange(4), rng.choice((0, 1, 2, 63, 640, 1471))
    shift, step, flipped = rng.randrange(2), width + rng.randrange(2, 40), rng.randrange(2)
    given, view = placed(rng, dtype, height, step, flipped)
    x = view(given)[:, :width]
    memory, view = placed(rng, dtype, height, step, flipped)
    want = memory.copy()
    if width > 2:
        view(want)[:, 1 + shift : width - 1 + shift] = x[:, 1:-1] + x[:, 2:]
    grid = -(-width // shape[0]) or 1, -(-height // shape[1]) or 1, 1
    cuts = [rng.randrange(grid[0] * grid[1] + 1) for _ in range(rng.randrange(4))]
    kernel = parse_kernel(BESIDE.format(t=kind))
    launch(kernel, (x, view(memory), np.int64(shift)), grid, shape, cuts, lanes, optimise)
    np.testing.assert_array_equal(memory, want)


@pytest.mark.parametrize("lanes", [4, 8, 16, 32, None])
@pytest.mark.parametrize("kind", sorted(DTYPES))
def test_rows_at_any_alignment(kind, lanes):
    rng = random.Random(f"{kind} {lanes}")
    for turn in range(6):
        shape = rng.choice(((64, 1, 1), (64, 4, 1), (32, 2, 1), (256, 1, 1)))
        check(rng, kind, shape, lanes, 3 if turn % 3 == 0 else 0)


FLAT = """kernel k(%y: array<f32[?:1], global> from 0, %n: i64 from 1) {{
  %i: i64 = global_id axis=0
  %j: i64 = {place}
  %zero: f32 = const 0
  {before}
  store %y, %i, %zero
  {after}
  return
}}
"""


@pytest.mark.parametrize(
    ("place", "before", "after", "flat"),
    [
        ("const 1", "", "", True),
        ("group_id axis=1", "", "", True),
        ("group_id axis=0", "", "", False),
        ("local_id axis=0", "", "", False),
        ("lane_id", "", "", False),
        ("const 1", "for %j, %n, %j (%k: i64) {", "yield\n  }", False),
    ],
)
def test_which_kernels_run_whole_rows(place, before, after, flat):
    kernel = expand_arrays(parse_kernel(FLAT.format(place=place, before=before, after=after)))
    (leaf,) = (node for node in schedule(kernel).nodes if isinstance(node, Leaf))
    found = anchor(kernel, leaf, definitions(kernel.body))
    assert (found is not None) == flat
