"""Several rows of work-items as one vector: what they share is loaded once, results stay put."""

import random
from contextlib import contextmanager

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import compiler, runtime, testing
from hetir.backends import cpu
from hetir.backends.cpu import compile_kernel, tiles
from hetir.backends.cpu.targets import resolve
from hetir.ir.text import parse_kernel, print_kernel
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


@hetir.kernel
def by_rows(x: hl.Array[hl.i32, 2], y: hl.Array[hl.i32, 2], one: hl.i64):
    """Branches, trips and elements that are alike in a row, and unlike from row to row."""
    tx, ty = hl.local_id(0), hl.local_id(1)
    tile = hl.shared((16, 64), hl.i32)
    total = x[ty, tx]
    for k in range(ty):
        total += x[k, 0] * 3 + x[k, tx]
    if ty % 2 == 1:
        total = total * 5 + hl.i32(ty)
    some = hl.i32(7)
    if ty < one:
        some = x[ty << 40, ty << 40]  # of the first row alone
    if ty >= 1 and tx < 3:
        total += x[ty, tx] - x[ty - 1, tx]
    tile[ty, tx] = total + some
    hl.barrier()
    last = tile[hl.group_size(1) - 1 - ty, tx]
    if ty >= 2:
        y[ty, tx] = last + total


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


@pytest.mark.skipif("avx2" not in resolve("cpu")[0].features, reason="code for AVX2")
@pytest.mark.parametrize(("kernel", "group"), PRODUCTS)
def test_products_in_fewer_registers(kernel, group):
    rng = np.random.default_rng(4)
    a, b = rng.random((33, 20), np.float32), rng.random((20, 50), np.float32)
    c = np.zeros((33, 50), np.float32)
    grid = (-(-50 // group[0]), -(-33 // group[1]))
    launch(kernel, (a, b, c), grid, group, target="cpu:x86-64-v3")
    assert c.tobytes() == in_order(a, b).tobytes()


@pytest.mark.parametrize("size", [(64, 96), (1, 1), (33, 70), (31, 32)], ids=str)
def test_transposes_of_any_size(size):
    a = np.arange(np.prod(size), dtype=np.float32).reshape(size)
    c = np.zeros(size[::-1], np.float32)
    launch(transpose, (a, a, c), (-(-size[1] // 32), -(-size[0] // 32)), (32, 8))
    assert (c == a.T).all()


@pytest.mark.parametrize("group", [(16, 4), (4, 4), (8, 8), (32, 2), (64, 4), (16, 3)], ids=str)
@pytest.mark.parametrize("lanes", [None, 8, 64])
def test_what_is_alike_in_rows_only(group, lanes):
    sx, sy = group
    x = np.random.default_rng(sx).integers(-99, 99, (sy, sx)).astype(np.int32)
    total = x.copy()
    for row in range(sy):
        total[row] += (x[:row, :1] * 3 + x[:row]).sum(0, dtype=np.int32)
    total[1::2] = total[1::2] * 5 + np.arange(1, sy, 2)[:, None]
    some = np.where(np.arange(sy)[:, None] < 1, x[0, 0], 7)
    total[1:, :3] += x[1:, :3] - x[:-1, :3]
    want = np.full((sy, sx), -1, np.int32)
    want[2:] = ((total + some)[::-1] + total)[2:]
    y = np.full((sy, sx), -1, np.int32)
    with everywhere():
        launch(by_rows, (x, y, np.int64(1)), (1, 1), group, lanes=lanes, optimise=0 if lanes else 3)
    assert (y == want).all()


IDS = """kernel k(%out: array<i64[?, ?], global> from 0, %base: i64 from 1, %limit: i64 from 2) {
  %x: i64 = local_id axis=0
  %y: i64 = local_id axis=1
  %z: i64 = local_id axis=2
  %lane: i64 = lane_id
  %sx: i64 = group_size axis=0
  %sy: i64 = group_size axis=1
  %zy: i64 = mul %z, %sy
  %row: i64 = add %zy, %y
  %start: i64 = mul %row, %sx
  %i: i64 = add %start, %x
  %0: i64 = const 0
  %1: i64 = const 1
  %2: i64 = const 2
  %3: i64 = const 3
  %4: i64 = const 4
  %5: i64 = const 5
  store %out, %0, %i, %x
  store %out, %1, %i, %row
  %apart: i64 = sub %lane, %x
  store %out, %2, %i, %apart
  %thrice: i64 = mul %x, %3
  %odd: bool = lt %y, %1
  %one: i64 = add %x, %5
  %alike: i64 = select %odd, %one, %x
  %unlike: i64 = select %odd, %thrice, %x
  %both: i64 = add %alike, %unlike
  store %out, %3, %i, %both
  %far: i64 = add %base, %x
  %less: bool = lt %far, %limit
  %flag: i64 = select %less, %1, %0
  store %out, %4, %i, %flag
  %back: i64 = sub %y, %x
  %order: bool = ge %back, %0
  %sign: i64 = select %order, %i, %back
  store %out, %5, %i, %sign
  return
}
"""


@contextmanager
def everywhere(lanes=None):
    """All leaves run as many rows as registers hold, if they pay or not; `lanes` fill one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles.Tiles, "_shares", lambda *_: True)
        if lanes:
            patch.setattr(cpu, "vector_lanes", lambda _: lanes)
        yield


GROUPS = [(16, 4, 2), (4, 4, 2), (32, 8, 1), (8, 2, 1), (64, 2, 1), (4, 6, 2), (2, 16, 1)]


@pytest.mark.parametrize("group", GROUPS, ids=str)
@pytest.mark.parametrize("base", [0, 2**63 - 3])
def test_ids_of_several_rows(group, base):
    sx, sy, sz = group
    i = np.arange(sx * sy * sz)
    x, row = i % sx, i // sx
    y = row % sy
    less = (np.int64(base) + x) < 5  # wraps
    want = [x, row, i % 32 - x, np.where(y < 1, 4 * x + 5, 2 * x), less, np.where(y < x, y - x, i)]
    for lanes in (None, 8, 16, 64):
        given = [np.full((6, i.size), -9, np.int64), np.int64(base), np.int64(5)]
        with everywhere():
            testing.on_cpu(lanes=lanes)(parse_kernel(IDS), given, (1, 1, 1), group)
        assert (given[0] == np.stack(want)).all(), lanes


def test_an_index_at_the_end_of_a_long_chain():
    count = 3000
    chain = "".join(f"  %c{n + 1}: i64 = add %c{n}, %1\n" for n in range(count))
    text = IDS[: IDS.index("  store")] + f"  %c0: i64 = add %i, %1\n{chain}"
    text += f"  %j: i64 = sub %c{count}, %far\n  store %out, %0, %j, %x\n  return\n}}\n"
    text = text.replace("  %2:", f"  %far: i64 = const {count + 1}\n  %2:")
    out = np.zeros((1, 64), np.int64)
    run = testing.on_cpu(lanes=None, optimise=0, simplified=False)
    run(parse_kernel(text), [out, np.int64(0), np.int64(0)], (1, 1, 1), (16, 4, 1))
    assert (out[0] == np.arange(64) % 16).all()


def shapes(random):
    """Chooses launches of groups of even numbers of short rows."""
    given = [random.choice((1, 3, 7, 15)), random.choice((1, 3, 7)), random.randrange(2)]
    return lambda count: given.pop(0) if given else min(1, count - 1)


def rows_everywhere(lanes, seeds):
    """Generated kernels of groups of several rows."""
    with everywhere(lanes):
        for seed in seeds:
            choose = random.Random(seed)
            case = testing.generate(choose.randrange, launch=shapes(choose))
            runner = testing.on_cpu(optimise=3 if seed % 8 == 0 else 0, lanes=None)
            wrong = testing.differences(case.run(testing.evaluator), case.run(runner))
            assert not wrong, f"seed {seed}\n{print_kernel(case.kernel)}\n{wrong}"


@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("lanes", [2, 16])
def test_generated_kernels_whose_leaves_all_run_rows(lanes, part):
    rows_everywhere(lanes, range(part * 1000, part * 1000 + 15))


def everything():
    """One of each of these, for those who break the backend."""
    for kernel, group in PRODUCTS:
        test_products_of_any_size(kernel, group, (33, 17, 50))
    for group in GROUPS:
        test_ids_of_several_rows(group, 2**63 - 3)
    for lanes in (None, 64):
        test_what_is_alike_in_rows_only((16, 4), lanes)
    for lanes in (2, 16):
        rows_everywhere(lanes, range(25))


def innermost(assembly):
    """The lines of the block with the most products."""
    blocks, lines = [], []
    for line in assembly.splitlines():
        if line.startswith(".LBB"):
            blocks.append(lines)
            lines = []
        lines.append(line.split("#")[0].split(None, 1))
    return max([*blocks, lines], key=lambda b: sum(line[:1] == ["vmulps"] for line in b))


@pytest.mark.parametrize(
    ("kernel", "group", "lines"),
    [(matmul_16, (16, 16), 1), (matmul_32, (32, 8), 2), (matmul_free, (32, 8), 2)],
)
def test_results_stay_in_registers_and_lines_are_loaded_once(kernel, group, lines):
    """Sixteen registers of results: one of b's `lines` serves 16 or 8 of them at each k."""
    given = tuple(np.zeros((64, 64), np.float32) for _ in range(3))
    made = compiled(kernel, given, group, target="cpu:x86-64-v4")
    loop = innermost(cpu.disassemble(made))
    names = [line[0] for line in loop if line]
    products, turns = names.count("vmulps"), names.count("vmulps") // 16
    assert turns * 16 == products == names.count("vaddps")
    pairs = [line for line in loop if len(line) == 2]
    whole = [rest for name, rest in pairs if "vmovup" in name]
    assert sum(rest[0] in "(-0123456789" for rest in whole) == lines * turns
    last = [rest.split(", ")[-1] for name, rest in pairs if name.startswith("v")]
    assert not any("(" in place for place in last if place), "a store"
