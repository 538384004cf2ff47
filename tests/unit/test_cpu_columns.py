"""Rows of a table that lanes access column by column: transposed in registers, at every width."""

import re

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import compiler
from hetir.backends.cpu import emit_ir
from hetir.backends.cpu.columns import transpose
from tests.unit.test_cpu_clamps import LANES, prepared, runner

TYPES = {
    "i8": np.int8,
    "u16": np.uint16,
    "f16": np.float16,
    "i32": np.int32,
    "f32": np.float32,
    "i64": np.int64,
    "f64": np.float64,
}
ORDER = (5, 0, 11, 3, 7, 1, 2, 10, 4, 9, 8, 6)


class Shuffles:
    """Does shuffles where code would be written."""

    def __init__(self, count):
        self.vectors = {f"row{r}": [(r, c) for c in range(count)] for r in range(count)}

    def add(self, text):
        pattern = r"shufflevector <\d+ x \w+> (\w+), <\d+ x \w+> (\w+), <\d+ x i32> <(.*)>"
        a, b, order = re.fullmatch(pattern, text).groups()
        both = self.vectors[a] + self.vectors[b]
        name = f"made{len(self.vectors)}"
        self.vectors[name] = [both[int(n.removeprefix("i32 "))] for n in order.split(", ")]
        return name


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("count", [2, 4, 8, 16, 32])
def test_a_transpose(count, size):
    code = Shuffles(count)
    columns = transpose(code, [f"row{r}" for r in range(count)], "i32", size)
    made = [code.vectors[name] for name in columns]
    assert made == [[(r, c) for r in range(count)] for c in range(count)]


def table(kind, count, step):
    @hetir.kernel
    def turns(x: hl.Array[kind, 1], y: hl.Array[kind, 1]):
        """Reads `count` elements of each row of `step`, and writes them the other way round."""
        i = hl.global_id(0)
        if i < 100:
            v = hl.private(count, kind)
            for k in hl.static_range(count):
                c = ORDER[k] if count == len(ORDER) else k
                v[c] = x[step * i + c + 1]
            for k in hl.static_range(count):
                c = ORDER[k] if count == len(ORDER) else k
                y[step * (99 - i) + c] = v[count - 1 - c]

    return turns


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("count", "step"), [(4, 9), (8, 8), (12, 16), (16, 16), (23, 40)])
def test_rows_become_columns_and_rows_again(kind, count, step):
    x = np.random.default_rng(1).integers(0, 99, 100 * step + 1).astype(TYPES[kind])
    want = np.full(100 * step, 77, TYPES[kind])
    rows = x[1:].reshape(100, step)[:, :count]
    want.reshape(100, step)[::-1, :count] = rows[:, ::-1]
    for lanes in (4, 16, None):
        y = np.full(100 * step, 77, TYPES[kind])
        runner(table(getattr(hl, kind), count, step), (x, y), (64,), lanes)((x, y), (2,))
        assert (y == want).all(), lanes


@hetir.kernel
def any_strides(x: hl.Array[hl.f32, 2], y: hl.Array[hl.f32, 2], start: hl.Array[hl.i64, 1]):
    """Rows anywhere, of arrays whose strides are known at run time only."""
    i = hl.global_id(0)
    total = hl.f32(0)
    for c in hl.static_range(8):
        total = 3.0 * total + x[start[i], c]
    for c in hl.static_range(8):
        y[i, c] = total + c


@pytest.mark.parametrize("lanes", LANES)
def test_rows_anywhere_in_memory(lanes):
    choose = np.random.default_rng(2)
    raw, out = choose.integers(0, 3, (70, 24)).astype(np.float32), np.zeros((64, 20), np.float32)
    start = choose.integers(0, 70, 64)
    for x, y in ((raw[:, 4:12], out[:, 3:11]), (raw[::-1, 4:12], out[::-1, 3:11])):
        run = runner(any_strides, (x, y, start), (64,), lanes)
        out[:] = 0
        run((x, y, start), (1,))
        total = np.zeros(64, np.float32)
        for c in range(8):
            total = 3 * total + x[start, c]
        assert (y == total[:, None] + np.arange(8)).all()
        assert not out[:, :3].any()
        assert not out[:, 11:].any()


@hetir.kernel
def told_apart(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1], z: hl.Array[hl.i32, 1], n: hl.i64):
    """With an n of 0 rows meet of which only the run knows that they are the same."""
    i = 8 * hl.global_id(0)
    v = hl.private(8, hl.i32)
    for c in hl.static_range(4):
        v[c] = x[i + c]
    for c in hl.static_range(8):
        x[n + i + c] = c + 10
        if c == 5:
            early = x[i + 3] + x[i + 6]
    y[i] = early
    for c in hl.static_range(4, 8):
        v[c] = x[i + c]
    for c in hl.static_range(7):
        y[i + c + 1] = v[c]
    for c in hl.static_range(8):
        z[i + c] = v[c]


@pytest.mark.parametrize("lanes", LANES)
def test_loads_and_stores_keep_their_order(lanes):
    x = np.arange(512, dtype=np.int32).reshape(64, 8)
    y, z = np.zeros_like(x), np.zeros_like(x)
    v = np.concatenate([x[:, :4], np.tile([14, 15, 16, 17], (64, 1))], 1)
    arguments = x.ravel(), y.ravel(), z.ravel(), np.int64(0)
    runner(told_apart, arguments, (64,), lanes)(arguments, (1,))
    assert (x == np.arange(10, 18)).all()
    assert (y[:, 0] == 13 + np.arange(6, 512, 8)).all()
    assert (y[:, 1:] == v[:, :7]).all()
    assert (z == v).all()


@hetir.kernel
def overwritten(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1], n: hl.i64):
    """Stores to one place, and to rows that are the same one when n is 0."""
    i = 8 * hl.global_id(0)
    for c in hl.static_range(7):
        x[i + c] = c
    for c in hl.static_range(8):
        x[i + n + c] = c + 100
    x[i + 7] = 7
    for c in hl.static_range(8):
        y[i + c // 2] = c
        y[i + 7 - c // 2] = c + 10


@pytest.mark.parametrize("lanes", LANES)
def test_the_last_of_stores_stays(lanes):
    x, y = np.zeros((65, 8), np.int32), np.zeros((64, 8), np.int32)
    run = runner(overwritten, (x.ravel(), y.ravel(), np.int64(0)), (64,), lanes)
    run((x.ravel(), y.ravel(), np.int64(0)), (1,))
    assert (x[:64] == [100, 101, 102, 103, 104, 105, 106, 7]).all()
    assert (y == [1, 3, 5, 7, 17, 15, 13, 11]).all()
    run((x.ravel(), y.ravel(), np.int64(8)), (1,))
    assert (x[0] == np.arange(8)).all()
    assert (x[64] == np.arange(100, 108)).all()


@hetir.kernel
def sometimes(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1], limit: hl.i64):
    """Lanes that are off touch nothing: their rows may lie outside."""
    i = hl.local_id(0)
    total = hl.i32(0)
    if i % 3 == 1:
        for c in hl.static_range(8):
            total += x[limit * i + c]
        for c in hl.static_range(8):
            y[8 * i + c] = total
    else:
        y[8 * i] = -5


@pytest.mark.parametrize("lanes", LANES)
def test_lanes_that_are_off_touch_nothing(lanes):
    x, y = np.arange(64 * 8, dtype=np.int32), np.zeros((64, 8), np.int32)
    runner(sometimes, (x, y.ravel(), np.int64(8)), (64,), lanes)((x, y.ravel(), np.int64(8)), (1,))
    want = np.zeros((64, 8), np.int32)
    want[:, 0] = -5
    want[1::3] = x.reshape(64, 8)[1::3].sum(1, keepdims=True)
    assert (y == want).all()


@hetir.kernel
def rows_of_some(x: hl.Array[hl.i32, 1], start: hl.Array[hl.i64, 1], y: hl.Array[hl.i32, 1]):
    """Sums in rows of unlike lengths, by fours; items without a row have no place in memory."""
    i = hl.local_id(0)
    total = hl.i32(0)
    for k in range(start[2 * i], start[2 * i + 1], 4):
        v = hl.private(4, hl.i32)
        for c in hl.static_range(4):
            total += x[k + c]
            v[c] = total
        for c in hl.static_range(4):
            y[k + c] = v[c]


@pytest.mark.parametrize("lanes", LANES)
def test_rows_of_lanes_that_are_on_need_no_gather(lanes):
    choose = np.random.default_rng(3)
    x, y = choose.integers(0, 99, 800).astype(np.int32), np.full(800, -1, np.int32)
    length = choose.integers(0, 4, 64) * 4
    first = np.where(length > 0, choose.permutation(64) * 12 + 5, 1 << 44)
    arguments = x, np.stack([first, first + length], 1).ravel(), y
    runner(rows_of_some, arguments, (64,), lanes)(arguments, (1,))
    want = np.full(800, -1, np.int32)
    for low, count in zip(first, length, strict=True):
        want[low : low + count] = np.cumsum(x[low : low + count])
    assert (y == want).all()
    if lanes:
        text = emit_ir(prepared(rows_of_some, arguments), workgroup=(64, 1, 1), lanes=16)
        assert "llvm.masked.gather.v16i32" not in text


def test_whole_rows_need_no_gather():
    x = np.zeros(1700, np.float32)
    text = emit_ir(prepared(table(hl.f32, 16, 16), (x, x)), workgroup=compiler.dims(64), lanes=16)
    whole = text[text.index("\nall") : text.index("\npart")]
    assert "masked" not in whole
    assert whole.count("load <16 x float>") == whole.count("store <16 x float>") == 16
