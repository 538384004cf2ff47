"""Divided indices at every width: lines within a row, and the right elements where rows meet."""

import re

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir.backends.cpu import emit_ir
from hetir.target import Assumptions
from tests.unit.test_cpu_clamps import LANES, prepared, runner

MOST = 2**63 - 1


@hetir.kernel
def divided(floors: hl.Array[hl.i64, 2], truncated: hl.Array[hl.i64, 2], start: hl.i64, by: hl.i64):
    """Quotients and remainders of a line, by both kinds of division."""
    i = hl.global_id(0)
    a = hl.clamp(start, -(1 << 60), 1 << 60) + i  # the compiler sees that it does not wrap
    floors[0, i], floors[1, i] = a // by, a % by
    truncated[0, i], truncated[1, i] = hl.div(a, by), hl.rem(a, by)


def quotient(a, by):
    """Of Python's integers, truncated."""
    return 0 if by == 0 else abs(a) // abs(by) * (1 if (a < 0) == (by < 0) else -1)


@pytest.mark.parametrize("lanes", LANES)
def test_divisions_by_any_number(lanes):
    floors, truncated = np.zeros((2, 64), np.int64), np.zeros((2, 64), np.int64)
    run = runner(divided, (floors, truncated, np.int64(0), np.int64(0)), (64,), lanes)
    divisors = (*range(1, 70), 127, 1000, 2**31, 2**40 + 1, MOST, 0, -1, -5, -64, -MOST - 1)
    for by in divisors:
        for start in (0, 1, by - 1, by - 40, 5 * by - 63, -1, -40, -64, 2**59, -(2**60), 2**60):
            if not -(2**60) <= start <= 2**60:
                continue
            run((floors, truncated, np.int64(start), np.int64(by)), (1,))
            numbers = range(start, start + 64)
            assert floors[0].tolist() == [a // by if by else 0 for a in numbers], (start, by)
            assert floors[1].tolist() == [a % by if by else 0 for a in numbers], (start, by)
            cut = [quotient(a, by) for a in numbers]
            assert truncated[0].tolist() == cut, (start, by)
            rest = [a - q * by if by else 0 for a, q in zip(numbers, cut, strict=True)]
            assert truncated[1].tolist() == rest, (start, by)


@hetir.kernel
def thirds(y: hl.Array[hl.i64, 2]):
    i = hl.global_id(0)
    y[0, i], y[1, i], y[2, i], y[3, i] = i // 3, i % 3, (2 * i + 5) // 7, (2 * i + 5) % 100


@pytest.mark.parametrize("lanes", LANES)
def test_divisions_by_constants(lanes):
    """At each place that an array can have in a line of memory."""
    memory, i = np.zeros(4 * 256 + 8, np.int64), np.arange(256)
    run = runner(thirds, (memory[:1024].reshape(4, 256),), (64,), lanes)
    for start in range(8):
        y = memory[start : start + 1024].reshape(4, 256)
        run((y,), (4,))
        assert (y == [i // 3, i % 3, (2 * i + 5) // 7, (2 * i + 5) % 100]).all(), start


@hetir.kernel
def negative(y: hl.Array[hl.i64, 2]):
    i = hl.global_id(0)
    y[0, i], y[1, i], y[2, i], y[3, i] = i // -3, i % -100, hl.div(i, -7), hl.rem(i, -1000)


@pytest.mark.parametrize("lanes", LANES)
def test_divisions_by_negative_constants(lanes):
    y, i = np.zeros((4, 256), np.int64), np.arange(256)
    runner(negative, (y,), (64,), lanes)((y,), (4,))
    assert (y == [i // -3, i % -100, -(i // 7), i]).all()


@hetir.kernel
def wrapped(y: hl.Array[hl.i64, 1], start: hl.i64, by: hl.i64):
    y[hl.global_id(0)] = (start + hl.global_id(0)) % by


@pytest.mark.parametrize("lanes", LANES)
def test_lines_that_wrap(lanes):
    y, i = np.zeros(64, np.int64), np.arange(64)
    run = runner(wrapped, (y, np.int64(0), np.int64(0)), (64,), lanes)
    for start in (MOST, MOST - 20, -MOST - 1):
        for by in (3, 60, 2**40, MOST):
            run((y, np.int64(start), np.int64(by)), (1,))
            with np.errstate(over="ignore"):
                assert (y == (np.int64(start) + i) % by).all(), (start, by)


@hetir.kernel
def biased(x: hl.Array[hl.f32, 2], bias: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 2]):
    """A flat launch over a matrix, as people write it."""
    i = hl.global_id(0)
    if i < x.size:
        row, col = i // x.shape[1], i % x.shape[1]
        y[row, col] = x[row, col] + bias[col]


@hetir.kernel
def permuted(x: hl.Array[hl.f32, 4], y: hl.Array[hl.f32, 4]):
    """(b, s, h, d) to (b, h, s, d), indices peeled from the inside out."""
    i = hl.global_id(0)
    if i < y.size:
        d, rest = i % y.shape[3], i // y.shape[3]
        s, rest = rest % y.shape[2], rest // y.shape[2]
        h, b = rest % y.shape[1], rest // y.shape[1]
        y[b, h, s, d] = x[b, s, h, d]


@hetir.kernel
def lived(a: hl.Array[hl.u8, 2], b: hl.Array[hl.u8, 2]):
    """Game of Life on a torus."""
    x, y = hl.global_id(0), hl.global_id(1)
    h, w = a.shape[0], a.shape[1]
    if x < w and y < h:
        n = 0
        for dy in hl.static_range(-1, 2):
            for dx in hl.static_range(-1, 2):
                if dx != 0 or dy != 0:
                    n += hl.i32(a[(y + dy + h) % h, (x + dx + w) % w])
        b[y, x] = hl.where(n == 3 or (n == 2 and a[y, x] == 1), 1, 0)


@hetir.kernel
def product(a: hl.Array[hl.f32, 2], b: hl.Array[hl.f32, 2], c: hl.Array[hl.f32, 2]):
    i = hl.global_id(0)
    row, col = i // c.shape[1], i % c.shape[1]
    if row < c.shape[0]:
        total = hl.f32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, col]
        c[row, col] = total


@hetir.kernel
def strided(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1], width: hl.i32):
    """A loop over the grid; a barrier, a division before it and one behind it."""
    tile = hl.shared(64, hl.f32)
    lane = hl.local_id(0)
    for i in range(hl.global_id(0), x.shape[0], hl.global_size(0)):
        y[i] = x[i // width * width] + 10.0 * hl.f32(i % width)
    row = lane // width
    tile[lane] = hl.f32(row)
    hl.barrier()
    y[hl.global_id(0)] += tile[lane % width * width % 64]


def neighbours(a):
    return sum(np.roll(np.roll(a, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("columns", [1, 3, 50, 64, 200])
def test_flat_launches_over_rows_of_any_length(lanes, columns):
    rng = np.random.default_rng(columns)
    x, bias = rng.random((7, columns), np.float32), rng.random(columns, np.float32)
    y = np.zeros_like(x)
    groups = (-(-x.size // 64),)
    runner(biased, (x, bias, y), (64,), lanes)((x, bias, y), groups)
    assert (y == x + bias).all()
    x = rng.random((2, 3, 5, columns), np.float32)
    y = np.zeros((2, 5, 3, columns), np.float32)
    runner(permuted, (x, y), (64,), lanes)((x, y), (-(-x.size // 64),))
    assert (y == x.transpose(0, 2, 1, 3)).all()
    a, b = rng.integers(0, 4, (5, 6)), rng.integers(0, 4, (6, columns))
    a, b, c = a.astype(np.float32), b.astype(np.float32), np.zeros((5, columns), np.float32)
    runner(product, (a, b, c), (64,), lanes)((a, b, c), (-(-c.size // 64),))
    assert (c == a @ b).all()


@pytest.mark.parametrize("lanes", LANES)
def test_a_torus_and_loops_and_barriers(lanes):
    rng = np.random.default_rng(0)
    for shape in ((5, 7), (3, 64), (4, 65), (9, 130)):
        a = rng.integers(0, 2, shape, np.uint8)
        b, n = np.zeros_like(a), neighbours(a)
        grid = (-(-shape[1] // 64), shape[0])
        runner(lived, (a, b), (64,), lanes)((a, b), grid)
        assert (b == ((n == 3) | ((n == 2) & (a == 1)))).all(), shape
    x = rng.random(1000, np.float32)
    for width in (1, 7, 16, 100):
        y, i = np.zeros_like(x), np.arange(1000)
        runner(strided, (x, y, np.int32(0)), (64,), lanes)((x, y, np.int32(width)), (2,))
        expected = x[i // width * width] + np.float32(10) * (i % width).astype(np.float32)
        lane = np.arange(64)
        expected[:128] += np.tile((lane % width * width % 64) // width, 2).astype(np.float32)
        assert (y == expected).all(), width


def before_gathers(kernel, arguments, workgroup=(64, 1, 1)):
    """The code of a kernel up to its first gather or scatter."""
    promised = Assumptions(index_bits=32)
    text = emit_ir(prepared(kernel, arguments), workgroup=workgroup, assumptions=promised)
    return text.split("define", 1)[1].split("llvm.masked.", 1)[0]


def test_within_a_row_accesses_are_lines():
    """The first version of the code has the whole body, and no gather in it."""
    x, bias = np.zeros((7, 100), np.float32), np.zeros(100, np.float32)
    text = before_gathers(biased, (x, bias, x))
    assert re.search(r"store <\d+ x float>", text)
    assert len(re.findall(r"load <\d+ x float>", text)) == 2
    x = np.zeros((2, 3, 4, 5), np.float32)
    assert re.search(r"store <\d+ x float>", before_gathers(permuted, (x, x)))


def test_no_division_of_lanes_by_small_constants():
    """A vector of which all lanes are on has one scalar division for all of them."""
    y = np.zeros((4, 64), np.int64)
    promised = Assumptions(index_bits=32)
    text = emit_ir(prepared(thirds, (y,)), workgroup=(64, 1, 1), assumptions=promised)
    whole = text.split("\nall", 1)[1].split("\npart", 1)[0]
    assert " udiv i64 " in whole
    assert not re.search(r"[us](div|rem) <", whole)
