"""Flat ids cut up into rows and columns, and what rows of work-items share: scalars and lines."""

import re

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import compiler
from hetir.backends.cpu import emit_ir
from tests.unit.test_cpu_clamps import LANES, prepared, runner


def turned(columns, *, flat):
    """A transpose through a tile of 64 rows, in groups of 256 or of 16 x 16."""

    @hetir.kernel
    def tile_by_flat_ids(x: hl.Array[hl.f32, 2], y: hl.Array[hl.f32, 2]):
        i = hl.local_id(0) if flat else hl.local_id(1) * 16 + hl.local_id(0)
        tile = hl.shared((64, columns + 1), hl.f32)
        top, left = hl.group_id(1) * 64, hl.group_id(0) * columns
        row, col = i // columns, i % columns
        for r in range(row, 64, 256 // columns):
            if top + r < x.shape[0] and left + col < x.shape[1]:
                tile[r, col] = x[top + r, left + col]
        hl.barrier()
        for c in range(i // 64, columns, 4):
            if left + c < x.shape[1] and top + i % 64 < x.shape[0]:
                y[left + c, top + i % 64] = tile[i % 64, c]

    return tile_by_flat_ids, (256,) if flat else (16, 16)


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("columns", [8, 16, 32, 64])
@pytest.mark.parametrize("lanes", LANES)
def test_tiles_by_flat_ids(lanes, columns, flat):
    kernel, workgroup = turned(columns, flat=flat)
    x = np.random.default_rng(0).random((150, 90), np.float32)
    run = runner(kernel, (x, x), workgroup, lanes)
    for shape in ((150, 90), (64, columns), (65, columns + 1), (1, 1), (3, 90), (150, 2)):
        part = np.ascontiguousarray(x[: shape[0], : shape[1]])
        y = np.full((shape[1] + 1, shape[0]), -1, np.float32)
        groups = -(-shape[1] // columns), -(-shape[0] // 64)
        run((part, y[:-1]), groups)
        assert (y[:-1] == part.T).all(), shape
        assert (y[-1] == -1).all()


@pytest.mark.parametrize("columns", [16, 32, 64])
@pytest.mark.parametrize("flat", [True, False])
def test_copies_by_flat_ids_are_lines(flat, columns):
    """No element is written on its own, as all would be if rows of a tile met in one vector."""
    kernel, workgroup = turned(columns, flat=flat)
    x = np.zeros((8, 8), np.float32)
    made = emit_ir(prepared(kernel, (x, x)), workgroup=compiler.dims(workgroup))
    assert "masked.scatter" not in made
    assert re.search(r"store <\d+ x float>", made)


@hetir.kernel
def clamped(a: hl.Array[hl.f32, 2], b: hl.Array[hl.f32, 2], c: hl.Array[hl.f32, 2]):
    """Rows past the end read the last one; an index of a row waits behind a barrier."""
    tx, ty, row, col = hl.local_id(0), hl.local_id(1), hl.global_id(1), hl.global_id(0)
    tile = hl.shared((16, 16), hl.f32)
    total = hl.f32(0.0)
    for start in range(0, a.shape[1], 16):
        inside = start + ty < b.shape[0] and col < b.shape[1]
        tile[ty, tx] = b[start + ty, col] if inside else 0.0
        hl.barrier()
        for k in range(min(16, a.shape[1] - start)):
            total += a[min(row, a.shape[0] - 1), start + k] * tile[k, tx]
        hl.barrier()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = total


@hetir.kernel
def guarded(a: hl.Array[hl.f32, 2], b: hl.Array[hl.f32, 2], c: hl.Array[hl.f32, 2]):
    """Rows past the end skip the loop: a condition that each row has alike."""
    tx, ty, row, col = hl.local_id(0), hl.local_id(1), hl.global_id(1), hl.global_id(0)
    tile = hl.shared((16, 16), hl.f32)
    total = hl.f32(0.0)
    for start in range(0, a.shape[1], 16):
        inside = start + ty < b.shape[0] and col < b.shape[1]
        tile[ty, tx] = b[start + ty, col] if inside else 0.0
        hl.barrier()
        if row < a.shape[0]:
            for k in range(min(16, a.shape[1] - start)):
                total += a[row, start + k] * tile[k, tx]
        hl.barrier()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = total


@pytest.mark.parametrize("kernel", [clamped, guarded])
@pytest.mark.parametrize("rows", [1, 7, 8, 9, 16, 23, 40])
def test_rows_at_the_end(kernel, rows):
    rng = np.random.default_rng(rows)
    for depth, columns in ((1, 1), (16, 16), (35, 21)):
        a = rng.integers(-9, 9, (rows, depth)).astype(np.float32)
        b = rng.integers(-9, 9, (depth, columns)).astype(np.float32)
        for lanes in (0, 4, 16, None):
            c = np.full((rows + 1, columns), 77, np.float32)
            run = runner(kernel, (a, b, c), (16, 16), lanes)
            run((a, b, c[:rows]), (-(-columns // 16), -(-rows // 16)))
            assert (c[:rows] == a @ b).all(), (depth, columns, lanes)
            assert (c[rows] == 77).all()


def test_what_a_row_shares_is_made_again_and_not_gathered():
    """`min(row, last)` of another leaf would come from the context, as a vector of indices."""
    a = np.zeros((8, 8), np.float32)
    made = emit_ir(prepared(clamped, (a, a, a)), workgroup=(16, 16, 1))
    assert "masked.gather" not in made


def test_masks_of_rows_are_words():
    """Bits side by side, one by one, take LLVM hundreds of instructions."""
    a = np.zeros((8, 8), np.float32)
    made = emit_ir(prepared(guarded, (a, a, a)), workgroup=(16, 16, 1))
    assert re.search(r"bitcast <8 x i16> %v\d+ to <128 x i1>", made)
    assert "<32 x i1> <i32" not in made


@hetir.kernel
def stopped(y: hl.Array[hl.i64, 2], n: hl.i64):
    """Lines that grow by what is alike, in loops that lanes leave one by one."""
    i = hl.global_id(0)
    tile = hl.shared(8, hl.i64)
    if hl.local_id(0) < 8:
        tile[hl.local_id(0)] = hl.local_id(0) * 7
    hl.barrier()
    up, down, read = 3 * i, 3 * i, 3 * i
    for k in range((i + n) % 4):
        up += 5 * k
        read += tile[k + 1]
    for k in range(6, i % 5, -1):
        if k + i == n:
            break
        down -= k
    y[0, i], y[1, i], y[2, i] = up, down, read


@pytest.mark.parametrize("lanes", LANES)
def test_lines_grow_alike_until_each_lane_stops(lanes):
    y = np.zeros((3, 128), np.int64)
    run = runner(stopped, (y, np.int64(0)), (64,), lanes)
    for n in (0, 1, 9, 70):
        run((y, np.int64(n)), (2,))
        for i in range(128):
            turns, ends = range((i + n) % 4), range(6, i % 5, -1)
            taken = ends[: ends.index(n - i)] if n - i in ends else ends
            assert y[0, i] == 3 * i + sum(5 * k for k in turns)
            assert y[1, i] == 3 * i - sum(taken)
            assert y[2, i] == 3 * i + sum(7 * (k + 1) for k in turns)
