"""Branches, loops and exits that some lanes of a vector take, kernel by kernel."""

import operator
import re

import numpy as np
import pytest

from hetir import testing
from hetir.backends import cpu
from hetir.ir.text import parse_kernel
from tests.unit.cpu_support import run_text

RETURN_BEHIND_A_BARRIER = """kernel k(%x: array<u32[?], global> from 0, %s: i32 from 1) {
  %i: i64 = local_id axis=0
  %b: u32 = const 2
  %c: bool = cast %s
  if %c {
    barrier scope=workgroup
    return
  } else {
    store %x, %i, %b
    yield
  }
  return
}
"""


@pytest.mark.parametrize("lanes", [0, 4, 8])
def test_a_return_behind_a_barrier_ends_the_workgroup(lanes):
    for flag, want in ((0, 2), (1, 0)):
        x = np.zeros(8, np.uint32)
        run_text(RETURN_BEHIND_A_BARRIER, [x, np.int32(flag)], (8, 1, 1), lanes)
        assert (x == want).all()


RETURN_FROM_A_LOOP = """kernel k(%x: array<i32[?], global> from 0, %s: i64 from 1) {
  %i: i64 = local_id axis=0
  %three: i64 = const 3
  %zero: i64 = const 0
  %one: i64 = const 1
  %hit: i32 = const 7
  %miss: i32 = const 9
  %far: bool = ge %i, %three
  if %far {
    for %zero, %s, %one (%k: i64) {
      %now: bool = eq %k, %three
      if %now {
        store %x, %i, %hit
        return
      } else {
        yield
      }
      yield
    }
    yield
  } else {
    yield
  }
  store %x, %i, %miss
  return
}
"""


@pytest.mark.parametrize("lanes", [0, 2, 4, 8])
@pytest.mark.parametrize("trips", [0, 2, 4, 9])
def test_a_uniform_return_from_a_loop_that_some_lanes_entered(lanes, trips):
    x = np.zeros(11, np.int32)
    run_text(RETURN_FROM_A_LOOP, [x, np.int64(trips)], (11, 1, 1), lanes)
    want = np.where((np.arange(11) >= 3) & (trips > 3), 7, 9)
    assert (x == want).all()


PRIVATE_UNDER_A_MASK = """kernel k(
  %x: array<i32[?], global> from 0, %y: array<i32[?, ?], global> from 1, %s: i64 from 2
) {
  %i: i64 = local_id axis=0
  %p: array<i32[40], private> = alloc
  %0: i64 = const 0
  %1: i64 = const 1
  %40: i64 = const 40
  %five: i32 = const 5
  %none: i32 = const 0
  for %0, %40, %1 (%k: i64) {
    store %p, %k, %five
    yield
  }
  %v: i32 = load %x, %i
  %wide: i64 = cast %v
  %on: bool = gt %v, %none
  if %on {
    store %p, %s, %v
    yield
  } else {
    yield
  }
  %a: i32 = load %p, %s
  store %y, %0, %i, %a
  if %on {
    store %p, %wide, %five
    yield
  } else {
    yield
  }
  %b: i32 = load %p, %s
  store %y, %1, %i, %b
  return
}
"""


@pytest.mark.parametrize("lanes", [0, 4, 8, None])
def test_private_arrays_under_a_mask(lanes):
    x = np.array([0, 2, 3, 0, 1, 3, 2, 0, 0, 1, 2, 3] * 3, np.int32)
    y = np.zeros((2, x.size), np.int32)
    run_text(PRIVATE_UNDER_A_MASK, [x, y, np.int64(2)], (x.size, 1, 1), lanes)
    first = np.where(x > 0, x, 5)
    assert y[0].tolist() == first.tolist()
    assert y[1].tolist() == np.where(x == 2, 5, first).tolist()


SCATTER_UNDER_A_MASK = """kernel k(
  %x: array<i32[?], global> from 0, %to: array<i64[?], global> from 1,
  %y: array<i32[?], global> from 2
) {
  %i: i64 = local_id axis=0
  %none: i32 = const 0
  %v: i32 = load %x, %i
  %on: bool = gt %v, %none
  if %on {
    %at: i64 = load %to, %i
    store %y, %at, %v
    yield
  } else {
    yield
  }
  return
}
"""


@pytest.mark.parametrize("lanes", [0, 4, 16, None])
def test_scatters_under_a_mask(lanes):
    rng = np.random.default_rng(3)
    x, to = rng.integers(-3, 4, 64).astype(np.int32), rng.permutation(64)
    y = np.full(64, -9, np.int32)
    run_text(SCATTER_UNDER_A_MASK, [x, to, y], (64, 1, 1), lanes)
    want = np.full(64, -9)
    want[to[x > 0]] = x[x > 0]
    assert y.tolist() == want.tolist()


BOUNDS = """kernel k(%y: array<i32[?, ?], global> from 0, %n: i64 from 1) {{
  %i: i64 = local_id axis=0
  %0: i64 = const 0
  %1: i64 = const 1
  %mark: i32 = const 1
  %in: bool = {name} %i, %n
  if %in {{
    store %y, %0, %i, %mark
    yield
  }} else {{
    yield
  }}
  %back: bool = {name} %n, %i
  if %back {{
    store %y, %1, %i, %mark
    yield
  }} else {{
    yield
  }}
  return
}}
"""


@pytest.mark.parametrize("lanes", [4, None])
@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_bounds_at_every_lane(name, lanes):
    i = np.arange(16)
    for n in (-1, 0, 3, 4, 15, 16, 2**63 - 1):
        y = np.zeros((2, 16), np.int32)
        run_text(BOUNDS.format(name=name), [y, np.int64(n)], (16, 1, 1), lanes)
        compare = getattr(operator, name)
        assert y[0].tolist() == [int(compare(int(k), n)) for k in i], n
        assert y[1].tolist() == [int(compare(n, int(k))) for k in i], n


SPAN_AND_FLAG = """kernel k(
  %y: array<i32[?, ?], global> from 0, %n: i64 from 1, %s: i32 from 2
) {
  %i: i64 = local_id axis=0
  %0: i64 = const 0
  %1: i64 = const 1
  %mark: i32 = const 1
  %none: i32 = const 0
  %flag: bool = cast %s
  %in: bool = lt %i, %n
  %both: bool = and %flag, %in
  %r: i32 = if %both {
    store %y, %0, %i, %mark
    yield %mark
  } else {
    yield %none
  }
  store %y, %1, %i, %r
  return
}
"""


@pytest.mark.parametrize("lanes", [0, 4, None])
def test_a_bound_and_a_flag(lanes):
    for n, flag in ((0, 1), (3, 1), (8, 1), (8, 0), (99, 0)):
        y = np.zeros((2, 8), np.int32)
        run_text(SPAN_AND_FLAG, [y, np.int64(n), np.int32(flag)], (8, 1, 1), lanes)
        want = [int(bool(flag) and i < n) for i in range(8)]
        assert y.tolist() == [want, want], (n, flag)


SEARCH = """kernel k(
  %x: array<i32[?, ?], global> from 0, %y: array<i32[?], global> from 1, %n: i64 from 2
) {
  %i: i64 = local_id axis=0
  %0: i64 = const 0
  %1: i64 = const 1
  %none: i32 = const 0
  %two: i32 = const 2
  %start: i32 = const 100
  %found: i32 = for %0, %n, %1, %start (%k: i64, %sum: i32) {
    %v: i32 = load %x, %k, %i
    %hit: bool = eq %v, %none
    if %hit {
      break %two
    } else {
      yield
    }
    %twice: i32 = mul %v, %two
    %more: i32 = add %sum, %twice
    yield %more
  }
  store %y, %i, %found
  return
}
"""


@pytest.mark.parametrize("lanes", [0, 4, None])
def test_a_search_that_some_lanes_end_early(lanes):
    x = np.random.default_rng(2).integers(0, 5, (7, 16)).astype(np.int32)
    y = np.zeros(16, np.int32)
    run_text(SEARCH, [x, y, np.int64(7)], (16, 1, 1), lanes)
    assert y.tolist() == np.where((x == 0).any(0), 2, 100 + 2 * x.sum(0)).tolist()


COUNT_UNDER_A_MASK = """kernel k(
  %x: array<i32[?], global> from 0, %y: array<i32[?], global> from 1, %n: i64 from 2
) {
  %i: i64 = local_id axis=0
  %size: i64 = group_size axis=0
  %none: i32 = const 0
  %one: i32 = const 1
  %v: i32 = load %x, %i
  %on: bool = gt %v, %none
  if %on {
    %c: i32 = for %i, %n, %size, %none (%k: i64, %count: i32) {
      %more: i32 = add %count, %one
      yield %more
    }
    store %y, %i, %c
    yield
  } else {
    yield
  }
  return
}
"""


@pytest.mark.parametrize("lanes", [0, 4, None])
def test_strided_ranges_under_a_mask(lanes):
    x = np.random.default_rng(5).integers(-1, 2, 16).astype(np.int32)
    for n in (0, 5, 16, 37):
        y = np.full(16, -1, np.int32)
        run_text(COUNT_UNDER_A_MASK, [x, y, np.int64(n)], (16, 1, 1), lanes)
        assert y.tolist() == [len(range(i, n, 16)) if x[i] > 0 else -1 for i in range(16)], n


CHEAP_SIDES = """kernel k(%x: array<i64[?], global> from 0) {
  %i: i64 = local_id axis=0
  %b: i64 = const 5
  %c: bool = lt %i, %b
  %r: i64 = if %c {
    %t: i64 = add %i, %b
    yield %t
  } else {
    %e: i64 = mul %i, %b
    yield %e
  }
  store %x, %i, %r
  return
}
"""


@pytest.mark.parametrize("lanes", [0, 4, 8])
def test_cheap_sides_of_a_branch(lanes):
    x, i = np.zeros(8, np.int64), np.arange(8)
    kernel = parse_kernel(CHEAP_SIDES)
    testing.on_cpu(lanes=lanes, simplified=False)(kernel, [x], (1, 1, 1), (8, 1, 1))
    assert (x == np.where(i < 5, i + 5, 5 * i)).all()


CHOSEN = """kernel k(%x: array<{t}[?], global> from 0, %y: array<{t}[?], global> from 1) {{
  %i: i64 = local_id axis=0
  %a: {t} = load %x, %i
  %nought: {t} = const 0
  %c: bool = gt %a, %nought
  if %c {{
    %n: i64 = cast %a to=i64
    return
  }} else {{
    yield
  }}
  %d: bool = lt %a, %nought
  %b: {t} = if %d {{
    %j: i64 = neg %i
    %k: i64 = add %i, %j
    %e: {t} = load %y, %k
    yield %e
  }} else {{
    yield %a
  }}
  %q: {t} = div %a, %b
  store %y, %i, %q
  return
}}
"""


@pytest.mark.parametrize(("kind", "zeros"), [("i32", True), ("i64", True), ("f32", False)])
def test_values_of_lanes_that_are_off_are_numbers_where_the_kernel_divides(kind, zeros):
    """LLVM may take an element that nobody stored for two numbers: one tested, one divided by."""
    text = cpu.emit_ir(parse_kernel(CHOSEN.format(t=kind)), workgroup=(64, 1, 1), lanes=16)
    slots = re.findall(r"(%\S+) = alloca (?!\[)", text)
    assert slots
    head = text[: text.index("br i1")]
    stored = [slot for slot in slots if re.search(rf"zeroinitializer, ptr {slot},", head)]
    assert stored == (slots if zeros else [])
