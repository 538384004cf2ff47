"""Several rows of work-items as one vector: what they share is loaded once, results stay put."""

import random

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import compiler, runtime, testing
from hetir.backends import cpu
from hetir.backends.cpu import compile_kernel, tiles
from hetir.ir.text import print_kernel
from hetir.passes.simplify import simplify


@hetir.kernel
def matmul_16(a: hl.Array[hl.f32, 2], b: hl.Array[hl.f32, 2], c: hl.Array[hl.f32, 2]):
    """Tiles of 16 x 16; the loop over k is unrolled."""
    tx, ty, row, col = hl.local_id(0), hl.local_id(1), hl.global_id(1), hl.global_id(0)
    tile_a, tile_b = hl.shared((16, 16), hl.f32), hl.shared((16, 16), hl.f32)
    depth = a.shape[1]
    total = hl.f32(0.0)
    for start in range(0, depth, 16):
        tile_a[ty, tx] = a[row, start + tx] if row < a.shape[0] and start + tx < depth else 0.0
        tile_b[ty, tx] = b[start + ty, col] if start + ty < depth and col < b.shape[1] else 0.0
        hl.barrier()
        for k in range(16):
            total += tile_a[ty, k] * tile_b[k, tx]
        hl.barrier()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = total


@hetir.kernel
def matmul_32(a: hl.Array[hl.f32, 2], b: hl.Array[hl.f32, 2], c: hl.Array[hl.f32, 2]):
    """Tiles of 32 columns, for groups of 32 x 8 and 32 x 32."""
    tx, ty, row, col = hl.local_id(0), hl.local_id(1), hl.global_id(1), hl.global_id(0)
    tile_a, tile_b = hl.shared((32, 32), hl.f32), hl.shared((32, 32), hl.f32)
    depth = a.shape[1]
    total = hl.f32(0.0)
    for start in range(0, depth, 32):
        tile_a[ty, tx] = a[row, start + tx] if row < a.shape[0] and start + tx < depth else 0.0
        for k in range(ty, 32, hl.group_size(1)):
            inside = start + k < depth and col < b.shape[1]
            tile_b[k, tx] = b[start + k, col] if inside else 0.0
        hl.barrier()
        for k in range(32):
            total += tile_a[ty, k] * tile_b[k, tx]
        hl.barrier()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = total


@hetir.kernel
def matmul_free(a: hl.Array[hl.f32, 2], b: hl.Array[hl.f32, 2], c: hl.Array[hl.f32, 2]):
    """No tiles: each item walks a row and a column."""
    row, col = hl.global_id(1), hl.global_id(0)
    if row < c.shape[0] and col < c.shape[1]:
        total = hl.f32(0.0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, col]
        c[row, col] = total


@hetir.kernel
def transpose(a: hl.Array[hl.f32, 2], b: hl.Array[hl.f32, 2], c: hl.Array[hl.f32, 2]):
    """c is a's transpose, and b is not looked at."""
    tx, ty = hl.local_id(0), hl.local_id(1)
    tile = hl.shared((32, 33), hl.f32)
    col, top = hl.group_id(0) * 32 + tx, hl.group_id(1) * 32
    for k in range(ty, 32, 8):
        if top + k < a.shape[0] and col < a.shape[1]:
            tile[k, tx] = a[top + k, col]
    hl.barrier()
    col, top = top + tx, hl.group_id(0) * 32
    for k in range(ty, 32, 8):
        if top + k < c.shape[0] and col < c.shape[1]:
            c[top + k, col] = tile[tx, k]


PRODUCTS = [
    (matmul_16, (16, 16)),
    (matmul_32, (32, 8)),
    (matmul_32, (32, 32)),
    (matmul_free, (16, 16)),
    (matmul_free, (32, 8)),
    (matmul_free, (8, 8)),
    (matmul_free, (64, 4)),
    (matmul_free, (16, 3)),
]
APART = (20, 30, 40)  # the elements of b's rows are not neighbours
SIZES = [APART, (64, 64, 64), (1, 1, 1), (33, 17, 50), (16, 40, 31), (70, 5, 97), (3, 0, 20)]


def compiled(kernel, arguments, group, **options):
    traced = compiler.record(kernel, kernel.specialise(arguments))
    ready = simplify(compiler.prepare(traced.module))
    return compile_kernel(ready, workgroup=compiler.dims(group), **options)


def launch(kernel, arguments, grid, group, **options):
    artifact = compiled(kernel, arguments, group, **options)
    program = runtime.device("cpu").load(artifact, names=kernel.parameters)
    program.run(arguments, compiler.dims(grid), compiler.dims(group))


def in_order(a, b):
    """The product whose sums run over k from 0 on, each step rounded twice, as the kernels say."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        total += a[:, k, None] * b[None, k]
    return total


@pytest.mark.parametrize(("kernel", "group"), PRODUCTS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_products_of_any_size(kernel, group, size):
    rows, depth, columns = size
    rng = np.random.default_rng(rows)
    a = (rng.random((rows, depth), np.float32) - 0.5)[::-1]
    b = rng.random((depth, columns), np.float32) - 0.5
    if size == APART:
        b = np.repeat(b, 2, 1)[:, ::2]
    whole = np.full((rows + 2, columns + 2), 7, np.float32)
    c = whole[1:-1, 1:-1]
    launch(kernel, (a, b, c), (-(-columns // group[0]), -(-rows // group[1])), group)
    assert c.tobytes() == in_order(a, b).tobytes()
    c[:] = 7
    assert (whole == 7).all()


@pytest.mark.parametrize("size", [(64, 96), (1, 1), (33, 70), (31, 32)], ids=str)
def test_transposes_of_any_size(size):
    a = np.arange(np.prod(size), dtype=np.float32).reshape(size)
    c = np.zeros(size[::-1], np.float32)
    launch(transpose, (a, a, c), (-(-size[1] // 32), -(-size[0] // 32)), (32, 8))
    assert (c == a.T).all()


def shapes(random):
    """Chooses launches of groups of even numbers of short rows."""
    given = [random.choice((1, 3, 7, 15)), random.choice((1, 3, 7)), random.randrange(2)]
    return lambda count: given.pop(0) if given else min(1, count - 1)


@pytest.mark.parametrize("part", range(4))
def test_generated_kernels_whose_leaves_all_run_rows(part, monkeypatch):
    """As many rows as registers hold, whether or not that pays."""
    monkeypatch.setattr(cpu, "vector_lanes", lambda _: 2)
    monkeypatch.setattr(tiles.Tiles, "_shares", lambda *_: True)
    for seed in range(part * 1000, part * 1000 + 15):
        choose = random.Random(seed)
        case = testing.generate(choose.randrange, launch=shapes(choose))
        assert case.workgroup[0] % 2 == case.workgroup[1] % 2 == 0
        runner = testing.on_cpu(optimise=3 if seed % 8 == 0 else 0, lanes=None)
        expected = case.run(testing.evaluator)
        wrong = testing.differences(expected, case.run(runner))
        assert not wrong, f"seed {seed}\n{print_kernel(case.kernel)}\n{wrong}"
