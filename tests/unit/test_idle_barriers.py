"""Barriers that nothing crosses: gone exactly where no two work-items meet."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetir import testing
from hetir.ir import ops
from hetir.ir.core import walk
from hetir.ir.text import parse_kernel
from hetir.passes.expand_arrays import expand_arrays
from hetir.passes.idle_barriers import drop_idle_barriers

# writes tile[ax x + ay y + ao], then reads tile[bx x + by y + bo]; a loop goes round twice
TEXT = """kernel k(%out: array<u32[?], global> from 0) {{
  %x: i64 = local_id axis=0
  %y: i64 = local_id axis=1
  %ax: i64 = const {ax}
  %ay: i64 = const {ay}
  %ao: i64 = const {ao}
  %bx: i64 = const {bx}
  %by: i64 = const {by}
  %bo: i64 = const {bo}
  %row: i64 = const {row}
  %two: i64 = const 2
  %one: i64 = const 1
  %nought: i64 = const 0
  %base: i64 = const 64
  %tile: array<u32[256], shared> = alloc
  %r: i64 = mul %y, %row
  %i: i64 = add %r, %x
  %v: u32 = cast %i
  %p: i64 = mul %ax, %x
  %q: i64 = mul %ay, %y
  %s: i64 = add %p, %q
  %t: i64 = add %s, %ao
  %from: i64 = add %t, %base
  %pp: i64 = mul %bx, %x
  %qq: i64 = mul %by, %y
  %ss: i64 = add %pp, %qq
  %tt: i64 = add %ss, %bo
  %to: i64 = add %tt, %base
  {loop}
  {first}
  store %tile, %from, %v
  barrier scope=workgroup
  %w: u32 = load %tile, %to
  %u: u32 = add %w, %v
  store %out, %i, %u
  {last}
  return
}}
"""
PLAIN = {"loop": "", "first": "", "last": ""}
LOOP = {
    "loop": "for %nought, %two, %one (%k: i64) {",
    "first": "barrier scope=workgroup",
    "last": "barrier scope=workgroup\n  yield\n  }",
}


def kernel_of(steps, shape, around):
    names = ("ax", "ay", "ao", "bx", "by", "bo")
    text = TEXT.format(**dict(zip(names, steps, strict=True)), row=shape[0], **around)
    return expand_arrays(parse_kernel(text))


def barriers(kernel):
    return sum(op.spec is ops.BARRIER for op in walk(kernel.body))


def crosses(steps, shape):
    """Whether one work-item reads or writes what another one wrote, by trying all pairs."""
    ax, ay, ao, bx, by, bo = steps
    items = list(product(range(shape[0]), range(shape[1])))
    return any(
        one != other and ax * one[0] + ay * one[1] + ao == bx * other[0] + by * other[1] + bo
        for one, other in product(items, items)
    )


small = st.integers(-4, 4)


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(small, small, small, small, small, small),
    st.booleans(),
    st.sampled_from(((8, 1, 1), (4, 2, 1))),
    st.sampled_from((PLAIN, LOOP)),
)
def test_a_barrier_goes_where_no_two_items_meet(steps, alike, shape, around):
    if alike:
        steps = (*steps[:3], *steps[:2], steps[5])
    kernel = kernel_of(steps, shape, around)
    dropped = drop_idle_barriers(kernel, shape, disjoint=True)
    gone = barriers(kernel) - barriers(dropped)
    if crosses(steps, shape):
        assert gone == 0
    elif alike:
        assert gone == 1


@pytest.mark.parametrize("around", [PLAIN, LOOP])
@pytest.mark.parametrize(
    ("steps", "factor", "more", "gone"),
    [
        ((1, 8, 0, 1, 8, 0), 2, 0, 1),  # its own place
        ((2, 17, 5, 2, 17, 5), 2, 0, 1),
        ((1, 8, 0, -1, -8, 63), 0, 63, 0),  # the place of the item at the other end
    ],
)
def test_the_results_are_the_same_at_every_width(steps, factor, more, gone, around):
    kernel, shape = kernel_of(steps, (8, 8, 1), around), (8, 8, 1)
    dropped = drop_idle_barriers(kernel, shape, disjoint=True)
    assert barriers(kernel) - barriers(dropped) == gone
    for lanes in (0, 4, 8, 16, 32, 64, None):
        out = np.zeros(64, np.uint32)
        testing.on_cpu(lanes=lanes, simplified=False)(kernel, [out], (1, 1, 1), shape)
        assert (out == factor * np.arange(64) + more).all(), lanes


OTHERS = """kernel k(%x: array<u32[?:1], global> from 0, %out: array<u32[?:1], global> from 1) {
  %i: i64 = local_id axis=0
  %v: u32 = const 7
  %w: u32 = load %x, %i
  WRITE
  barrier scope=workgroup
  READ
  return
}
"""


@pytest.mark.parametrize(
    ("write", "read", "disjoint", "gone"),
    [
        ("store %out, %i, %v", "%u: u32 = load %out, %i", False, 1),
        ("store %out, %i, %v", "%u: u32 = load %x, %i", True, 1),
        ("store %out, %i, %v", "%u: u32 = load %x, %i", False, 0),  # they may overlap
        ("", "store %out, %i, %v", False, 0),
        ("", "%u: u32 = load %out, %i", False, 1),  # nobody writes
        ("fence order=acq_rel scope=workgroup", "%u: u32 = load %out, %i", True, 0),
        ("%j: i64 = cast %w\n store %out, %j, %v", "%u: u32 = load %out, %i", True, 0),
    ],
)
def test_other_arrays_and_other_effects(write, read, disjoint, gone):
    kernel = expand_arrays(parse_kernel(OTHERS.replace("WRITE", write).replace("READ", read)))
    dropped = drop_idle_barriers(kernel, (64, 1, 1), disjoint=disjoint)
    assert barriers(kernel) - barriers(dropped) == gone


INSIDE = """kernel k(%n: i64 from 0) {
  %i: i64 = local_id axis=0
  %v: u32 = const 7
  %nought: i64 = const 0
  %one: i64 = const 1
  %tile: array<u32[512], shared> = alloc
  for %nought, %n, %one (%k: i64) {
    %j: i64 = add %i, %k
    store %tile, %j, %v
    yield
  }
  barrier scope=workgroup
  %u: u32 = load %tile, %i
  for %nought, %n, %one (%m: i64) {
    store %tile, %i, %v
    barrier scope=workgroup
    %w: u32 = load %tile, %i
    yield
  }
  return
}
"""


def test_what_turns_or_comes_round_again_keeps_its_barrier():
    kernel = expand_arrays(parse_kernel(INSIDE))
    assert drop_idle_barriers(kernel, (64, 1, 1), disjoint=True) is kernel
