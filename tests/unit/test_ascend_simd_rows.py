"""Rows of lanes: what a row shares is made once, and rows go from place to place whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir.backends.ascend.simd import build
from hetir.backends.ascend.simd_program import instructions
from hetir.backends.ascend.simd_sync_check import Checker, check
from hetir.emulator import ascend as shim
from tests.unit.ascend_support import run
from tests.unit.test_ascend_simd import ORDERS, TARGETS, kernel_of

pytestmark = pytest.mark.skipif(not shim.compilers(), reason="no C++ compiler is here")

Grid = tuple[int, int, int]


def ran(source: Any, arguments: Any, grid: Grid, workgroup: Grid, target: str = TARGETS[0]) -> str:
    """Run in every hostile order on arrays of its own, the last run's in place; the loop's text."""
    kernel, slots = kernel_of(source, *arguments)
    made = build(kernel, target, workgroup, disjoint=True)
    assert check(made.program) == []
    checker = Checker(made.program)
    assert all(checker.needs(s) for i in instructions(made.program) for s in i.syncs)
    results = []
    for order in ORDERS:
        own = [v.copy() if isinstance(v, np.ndarray) else v for v in slots]
        run(kernel, own, grid, workgroup, target=target, order=order, source=made.text)
        results.append([v for v in own if isinstance(v, np.ndarray)])
    for one in results[1:]:
        for a, b in zip(one, results[0], strict=True):
            np.testing.assert_array_equal(a, b)
    arrays = [v for v in arguments if isinstance(v, np.ndarray)]
    for array, value in zip(arrays, results[0], strict=True):
        array[...] = value
    return made.text[made.text.index("for (int64_t group") :]


def groups(shape: tuple[int, int], tall: int, wide: int) -> Grid:
    return (hetir.cdiv(shape[1], wide), hetir.cdiv(shape[0], tall), 1)


# ---- a product with a tile of one matrix -----------------------------------------------------


def fill(tile: Any, source: Any, top: Any, left: Any) -> None:
    tx, ty = hl.local_id(0), hl.local_id(1)
    for r in range(ty, 8, 4):
        for q in hl.static_range(0, 32, 16):
            inside = top + r < source.shape[0] and left + tx + q < source.shape[1]
            tile[r, tx + q] = source[top + r, left + tx + q] if inside else 0.0


@hetir.kernel
def product(a: hl.Array[hl.f32, 2], b: hl.Array[hl.f32, 2], c: hl.Array[hl.f32, 2]):
    """32 columns and 8 rows of c a workgroup of 16 x 4; a is read directly."""
    tx, ty = hl.local_id(0), hl.local_id(1)
    top, left = hl.group_id(1) * 8 + ty * 2, hl.group_id(0) * 32
    tile = hl.shared((8, 32), hl.f32)
    total = hl.private((2, 2), hl.f32)
    for r in hl.static_range(2):
        for q in hl.static_range(2):
            total[r, q] = 0.0
    for start in range(0, a.shape[1], 8):
        fill(tile, b, start, left)
        hl.barrier()
        if top < a.shape[0]:
            for k in range(min(8, a.shape[1] - start)):
                for r in hl.static_range(2):
                    factor = a[min(top + r, a.shape[0] - 1), start + k]
                    for q in hl.static_range(2):
                        total[r, q] += factor * tile[k, tx + q * 16]
        hl.barrier()
    for r in hl.static_range(2):
        for q in hl.static_range(2):
            column = left + tx + q * 16
            if top + r < c.shape[0] and column < c.shape[1]:
                c[top + r, column] = total[r, q]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [(13, 11, 45), (1, 1, 1), (8, 16, 32), (9, 3, 33)])
def test_a_product_has_no_loop_over_lanes(size: tuple[int, int, int], target: str) -> None:
    """One load of a for each row, and its tile is written and read by rows."""
    rows, depth, columns = size
    random = np.random.default_rng(7)
    a = random.random((rows, depth), np.float32) - np.float32(0.5)
    b = random.random((depth, columns), np.float32) - np.float32(0.5)
    c, want = np.zeros((rows, columns), np.float32), np.zeros((rows, columns), np.float32)
    text = ran(product, (a, b, c), groups(c.shape, 8, 32), (16, 4, 1), target)
    for k in range(depth):
        want += a[:, k : k + 1] * b[k]
    np.testing.assert_array_equal(c, want)
    inner = text[text.index("for (int64_t k ") :]
    inner = inner[: inner.index("\n                }\n")]
    assert "item_x" not in text.partition("StoreTail")[0]
    assert "SetValue" not in text
    assert inner.count("LoadGlobal<float>(a,") == inner.count("Duplicate(") == 2
    assert inner.count("CopyRows(") == 2
    assert "Flag" not in inner
    assert "Value(" not in inner


def test_what_an_if_leaves_alone_stays_where_it_is() -> None:
    """Of the values around the loop under `if`, one copy goes in and one choice comes out."""
    arrays = [np.zeros((4, 4), np.float32) for _ in range(3)]
    text = ran(product, arrays, (1, 1, 1), (16, 4, 1))
    assert text.count("CopyLanes(total") == 4
    assert text.count("Select(total") == 4


# ---- numbers of rows -------------------------------------------------------------------------


@hetir.kernel
def picked(
    rows: hl.Array[hl.i32, 1],
    x: hl.Array[hl.f32, 2],
    s: hl.Array[hl.f32, 1],
    y: hl.Array[hl.f32, 2],
):
    i, j = hl.global_id(1), hl.global_id(0)
    if i < y.shape[0] and j < y.shape[1]:
        row = rows[i]
        y[i, j] = x[row, j] * s[i // 2] + s[min(i + 2, s.shape[0] - 1)] + hl.f32(row)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("workgroup", [(16, 4, 1), (32, 2, 1), (5, 4, 1), (1, 8, 1), (64, 1, 1)])
def test_rows_that_are_looked_up(workgroup: Grid, target: str) -> None:
    """Also where a row fills no whole blocks."""
    random = np.random.default_rng(3)
    x, s = random.random((21, 37), np.float32), random.random(21, np.float32)
    rows = random.integers(0, 21, 21).astype(np.int32)
    y = np.zeros((21, 37), np.float32)
    grid = groups(y.shape, workgroup[1], workgroup[0])
    text = ran(picked, (rows, x, s, y), grid, workgroup, target)
    i = np.arange(21)
    want = x[rows] * s[i // 2, None] + s[np.minimum(i + 2, 20), None]
    np.testing.assert_array_equal(y, want + rows[:, None].astype(np.float32))
    if workgroup in ((16, 4, 1), (32, 2, 1)):
        assert "item_x" not in text
        assert text.count("CopyIn(x_lanes" if target == TARGETS[0] else "CopyBlocksIn(") == 1


@hetir.kernel
def where_positive(x: hl.Array[hl.f32, 2], s: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 2]):
    i, j = hl.global_id(1), hl.global_id(0)
    if i < y.shape[0] and j < y.shape[1] and x[i, j] > 0.5:
        y[i, j] = s[min(i, 3) * 2] - x[i, j]


def test_rows_of_lanes_that_are_on_one_by_one() -> None:
    random = np.random.default_rng(4)
    x, s = random.random((7, 19), np.float32), random.random(7, np.float32)
    y = np.zeros_like(x)
    ran(where_positive, (x, s, y), groups(y.shape, 4, 16), (16, 4, 1))
    picks = s[np.minimum(np.arange(7), 3) * 2, None]
    np.testing.assert_array_equal(y, np.where(x > 0.5, picks - x, 0).astype(np.float32))


@hetir.kernel
def row_arithmetic(y: hl.Array[hl.i64, 2], z: hl.Array[hl.i32, 2], n: hl.i64):
    i, j = hl.local_id(1), hl.local_id(0)
    low = max(i - 2, n & 3) * (i + 1)
    y[i, j] = low * low // 5 + (low % 3 if i > 1 else low) * n - j
    z[i, j] = hl.i32(low) * 7 + hl.i32(j)


@pytest.mark.parametrize("workgroup", [(8, 6, 1), (3, 7, 1)])
@pytest.mark.parametrize("n", [-9, 6])
def test_integers_of_rows(workgroup: Grid, n: int) -> None:
    y, z = np.zeros(workgroup[1::-1], np.int64), np.zeros(workgroup[1::-1], np.int32)
    ran(row_arithmetic, (y, z, n), (1, 1, 1), workgroup)
    i, j = np.indices(y.shape)
    low = np.maximum(i - 2, n & 3) * (i + 1)
    np.testing.assert_array_equal(y, low * low // 5 + np.where(i > 1, low % 3, low) * n - j)
    np.testing.assert_array_equal(z, low * 7 + j)


@hetir.kernel
def exchanged(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 2], z: hl.Array[hl.i64, 2]):
    i, j = hl.local_id(1), hl.local_id(0)
    y[i, j] = hl.shuffle_xor(min(x[i] * 3, 16), 9)
    z[i, j] = hl.shuffle_xor(max(i, 2) * 5, 8)


def test_a_lane_takes_the_number_of_another_row() -> None:
    """A subgroup is four rows of eight."""
    x = np.arange(8, dtype=np.int32)
    y, z = np.zeros((8, 8), np.int32), np.zeros((8, 8), np.int64)
    ran(exchanged, (x, y, z), (1, 1, 1), (8, 8, 1))
    lanes = np.arange(64).reshape(8, 8)
    np.testing.assert_array_equal(y, np.minimum((lanes ^ 9) // 8 * 3, 16))
    np.testing.assert_array_equal(z, np.maximum((lanes ^ 8) // 8, 2) * 5)


# ---- rows of shared arrays -------------------------------------------------------------------


@hetir.kernel
def through_tile(x: hl.Array[hl.f32, 3], y: hl.Array[hl.f32, 3], last: hl.i64):
    """Rows of a tile of 64 columns: written apart, read back turned round and from one row."""
    i, j, k = hl.local_id(0), hl.local_id(1), hl.local_id(2)
    tile = hl.shared((2, 4, 64), hl.f32)
    for q in hl.static_range(0, 64, 16):
        tile[k, j, i + q] = x[k, j, i + q]
    hl.barrier()
    for q in hl.static_range(0, 64, 16):
        y[k, j, i + q] = tile[k, 3, i + (48 - q)] - tile[1 - k, j, i + q]
    hl.barrier()
    if j < last:
        tile[k, j, i + 16] = 0.5
    hl.barrier()
    y[k, j, i] = tile[k, min(j, 2), 20] + tile[k, j, i + 16]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("last", [0, 3, 9])
def test_rows_that_lie_apart_in_a_tile(last: int, target: str) -> None:
    x = np.random.default_rng(5).random((2, 4, 64), np.float32)
    y = np.zeros_like(x)
    text = ran(through_tile, (x, y, last), (1, 1, 1), (16, 4, 2), target)
    want = np.empty_like(x)
    for q in range(0, 64, 16):
        want[:, :, q : q + 16] = x[:, 3:, 48 - q : 64 - q] - x[::-1, :, q : q + 16]
    tile = x[:, :, 16:32].copy()
    tile[:, :last] = 0.5
    want[:, :, :16] = tile[:, [0, 1, 2, 2], 4:5] + tile
    np.testing.assert_array_equal(y, want)
    assert "item_x" not in text
    assert text.count("CopyRows(tile[") + text.count("CopyRows(tile,") == 5


@hetir.kernel
def halves(x: hl.Array[hl.f16, 2], y: hl.Array[hl.f16, 2], n: hl.i64):
    """Rows of 128 lanes are two repeats; those of 16 columns that lie over each other are none."""
    i, j = hl.local_id(0), hl.local_id(1)
    tile = hl.shared((2, 160), hl.f16)
    near = hl.shared(160, hl.f16)
    if i < n:
        tile[j, i + 16] = x[j, i]
    near[j * 16 + i] = hl.f16(hl.i32(j * 16 + i))
    hl.barrier()
    if i < n:
        y[j, i] = tile[j, i + 16] + near[i]


@pytest.mark.parametrize("n", [0, 1, 127, 128])
def test_halves_and_rows_over_each_other(n: int) -> None:
    x = np.random.default_rng(6).random((2, 128)).astype(np.float16)
    y = np.zeros_like(x)
    text = ran(halves, (x, y, n), (1, 1, 1), (128, 2, 1))
    want = np.zeros_like(x)
    want[:, :n] = (x + np.arange(128).astype(np.float16))[:, :n]
    np.testing.assert_array_equal(y, want)
    assert "CopyRows(tile[16]" in text
    assert "CopyRows(near[" not in text


# ---- scalars beside lanes --------------------------------------------------------------------


@hetir.kernel
def carried_together(y: hl.Array[hl.i64, 2], n: hl.i64):
    """The lanes of a round are of the scalar before it changes."""
    i, j = hl.local_id(1), hl.local_id(0)
    low, line, row = hl.i64(0), hl.i64(0), hl.i64(0)
    for _ in range(n):
        line, row = low + j, min(low, i)
        low += 3
    y[i, j] = line * 100 + row


def test_lanes_are_carried_before_the_scalars_that_they_name() -> None:
    y = np.zeros((4, 16), np.int64)
    ran(carried_together, (y, 5), (1, 1, 1), (16, 4, 1))
    i, j = np.indices(y.shape)
    np.testing.assert_array_equal(y, (12 + j) * 100 + np.minimum(12, i))


@hetir.kernel
def loose(y: hl.Array[hl.i64, 2], n: hl.i64):
    i, j = hl.local_id(1), hl.local_id(0)
    y[i, j] = (n & 3) + j - (n | 8) + (1 if n > 4 else n) * i


@pytest.mark.parametrize("n", [2, 7])
def test_operators_that_bind_looser_than_sums_keep_their_parentheses(n: int) -> None:
    y = np.zeros((4, 16), np.int64)
    ran(loose, (y, n), (1, 1, 1), (16, 4, 1))
    i, j = np.indices(y.shape)
    np.testing.assert_array_equal(y, (n & 3) + j - (n | 8) + (1 if n > 4 else n) * i)
