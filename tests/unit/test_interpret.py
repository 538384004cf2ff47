"""The plain interpreter: meetings of work-items, against values that NumPy or hand gives."""

import numpy as np
import pytest

from hetir import testing
from hetir.ir.text import parse_kernel
from hetir.testing.lockstep import DivergenceError

WIDTH, ITEMS = 8, 13
X = np.arange(ITEMS, dtype=np.int32) * 3 - 7
ROWS = [X[:8], X[8:]]  # the second subgroup is not full


def exchanged(op, result="i32", x=X):
    """What each work-item of one workgroup gets from an op on `%v` (its x), `%i` and `%all`."""
    kernel = parse_kernel(f"""kernel k(%x: array<i32[?], global> from 0, \
%y: array<{result}[?], global> from 1) subgroup_size={WIDTH} {{
  %i: i64 = local_id axis=0
  %one: i64 = const 1
  %zero: i32 = const 0
  %all: bool = const true
  %v: i32 = load %x, %i
  %low: bool = lt %v, %zero
  %r: {result} = {op}
  store %y, %i, %r
  return
}}
""")
    y = np.zeros(ITEMS, {"i32": np.int32, "u64": np.uint64, "bool": np.bool_}[result])
    testing.interpret(kernel, [x, y], (1, 1, 1), (ITEMS, 1, 1))
    return y


def joined(*rows):
    return np.concatenate(rows)


def test_reductions_and_scans():
    total = exchanged("subgroup_reduce %v, %all kind=add")
    assert np.array_equal(total, joined(*(np.full(len(r), r.sum()) for r in ROWS)))
    some = exchanged("subgroup_reduce %v, %low kind=max")  # nobody takes part in the second
    low = np.iinfo(np.int32).min
    assert np.array_equal(some, joined(np.full(8, -1), np.full(5, low)))
    scan = exchanged("subgroup_scan %v, %all kind=add inclusive=true")
    assert np.array_equal(scan, joined(*map(np.cumsum, ROWS)))
    before = exchanged("subgroup_scan %v, %all kind=add inclusive=false")
    assert np.array_equal(before, scan - X)
    every = exchanged("subgroup_scan %v, %all kind=and inclusive=false")
    assert every[0] == -1
    assert every[1] == X[0]


def test_shuffles_votes_and_ballots():
    assert np.array_equal(
        exchanged("shuffle %v, %one, %all mode=down"),
        joined(ROWS[0][1:], [0], ROWS[1][1:], [0]),
    )
    assert np.array_equal(
        exchanged("shuffle %v, %one, %low mode=up"),
        joined([0], np.where(ROWS[0] < 0, ROWS[0], 0)[:-1], np.zeros(5)),
    )
    assert np.array_equal(
        exchanged("shuffle %v, %one, %all mode=xor"),
        joined(ROWS[0].reshape(4, 2)[:, ::-1].ravel(), ROWS[1][[1, 0, 3, 2]], [0]),
    )
    assert exchanged("vote %low, %all mode=any", "bool").tolist() == [True] * 8 + [False] * 5
    assert not exchanged("vote %low, %all mode=all", "bool").any()
    assert exchanged("vote %low, %low mode=all", "bool").all()
    assert exchanged("ballot %low, %all", "u64").tolist() == [0b111] * 8 + [0] * 5


def test_work_items_that_do_not_meet_are_found():
    kernel = parse_kernel("""kernel k() {
  %i: i64 = local_id axis=0
  %c: bool = cast %i
  if %c {
    barrier scope=workgroup
    yield
  } else {
    yield
  }
  return
}
""")
    testing.interpret(kernel, [], (3, 1, 1), (1, 1, 1))
    with pytest.raises(DivergenceError, match="1 of 2"):
        testing.interpret(kernel, [], (3, 1, 1), (2, 1, 1))


REPORTING = """kernel k(%x: array<f32[?], global> from 0) {
  %i: i64 = global_id axis=0
  %v: f32 = load %x, %i
  %zero: f32 = const 0.0
  %good: bool = ge %v, %zero
  print %i, %v format="{{{}}} is {}"
  assert %good message="sign"
  return
}
"""


def test_what_was_said_is_compared():
    kernel, x = parse_kernel(REPORTING), np.array([0.5, -1, np.nan, 3], np.float32)
    said = testing.interpret(kernel, [x], (2, 1, 1), (2, 1, 1))
    assert said.lines == [
        (0, 0, "{0} is 0.5"),
        (0, 1, "{1} is -1.0"),
        (1, 0, "{2} is nan"),
        (1, 1, "{3} is 3.0"),
    ]
    assert said.failed == {"sign": 2}
    runners = {"interpret": testing.interpret, **testing.RUNNERS}
    testing.run_differential(kernel, [x], (2, 1, 1), (2, 1, 1), runners=runners)
    louder = parse_kernel(REPORTING.replace(" is ", " = "))
    other = testing.interpret(louder, [x], (2, 1, 1), (2, 1, 1))
    assert said.differences(other)[0] == "printed (0, 0, '{0} is 0.5') and (0, 0, '{0} = 0.5')"
    silent = testing.interpret(kernel, [np.abs(x)], (1, 1, 1), (2, 1, 1))
    assert said.differences(silent)[0] == "4 and 2 printed lines"
    assert "failed checks {'sign': 2} and {}" in said.differences(silent)
