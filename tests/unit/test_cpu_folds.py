"""Indices folded at a power of two, and accesses at constant distances, at every width."""

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import compiler
from hetir.backends.cpu import emit_ir
from hetir.backends.cpu.windows import window
from tests.unit.test_cpu_clamps import LANES, prepared, runner

FOLDS = (0, 1, 2, 3, 4, 6, 7, 8, 15, 16, 31, 63, 64, 127, 128, 2**40 - 1, 2**63 - 1, -1, -2, -8)


@hetir.kernel
def folded(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1], z: hl.Array[hl.i64, 1], limit: hl.i64):
    i = hl.local_id(0)
    j = i & limit
    z[i] = 1000 * j + ((i + 1) & limit)
    k = 2 * i - (i & limit) if 0 <= limit < 64 else i
    y[k] = 3 * x[k] + x[k + 5]


@pytest.mark.parametrize("lanes", LANES)
def test_folds_at_every_distance(lanes):
    x, i = np.arange(300, dtype=np.int32) ** 2, np.arange(64)
    z = np.zeros(64, np.int64)
    run = runner(folded, (x, x, z, np.int64(0)), (64,), lanes)
    for limit in FOLDS:
        y, want = np.full(300, -1, np.int32), np.full(300, -1, np.int32)
        run((x, y, z, np.int64(limit)), (1,))
        assert (z == 1000 * (i & limit) + ((i + 1) & limit)).all(), limit
        k = 2 * i - (i & limit) if 0 <= limit < 64 else i
        want[k] = 3 * x[k] + x[k + 5]
        assert (y == want).all(), limit


@hetir.kernel
def hopping(y: hl.Array[hl.i64, 1], limit: hl.i64):
    lane = hl.local_id(0)
    total = hl.i64(0)
    for i in range(lane, 200, 35):
        total = 5 * total + (i & limit)
    y[lane] = total


@pytest.mark.parametrize("lanes", LANES)
def test_folds_of_an_index_that_starts_anywhere(lanes):
    y = np.zeros(64, np.int64)
    run = runner(hopping, (y, np.int64(0)), (64,), lanes)
    for limit in (1, 3, 7, 12, 127):
        run((y, np.int64(limit)), (1,))
        want = np.zeros(64, np.int64)
        for k in range(6):
            i = np.arange(64) + 35 * k
            want = np.where(i < 200, 5 * want + (i & limit), want)
        assert (y == want).all(), limit


@hetir.kernel
def exchanged(x: hl.Array[hl.i32, 1], distance: hl.i64):
    i = hl.global_id(0)
    low = 2 * i - (i & (distance - 1))
    a, b = x[low], x[low + distance]
    x[low] = hl.min(a, b)
    x[low + distance] = hl.max(a, b)


@hetir.kernel
def butterflies(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1]):
    """Steps of a loop, in shared memory, by work-items that each take several."""
    lane, size = hl.local_id(0), hl.group_size(0)
    tile = hl.shared(512, hl.i32)
    for i in range(lane, 512, size):
        tile[i] = x[i]
    hl.barrier()
    distance = 1
    while distance < 512:
        for i in range(lane, 256, size):
            low = 2 * i - (i & (distance - 1))
            a, b = tile[low], tile[low + distance]
            tile[low] = a + 3 * b
            tile[low + distance] = a - b
        hl.barrier()
        distance *= 2
    for i in range(lane, 512, size):
        y[i] = tile[i]


def pairs(count, distance):
    i = np.arange(count)
    return 2 * i - (i & (distance - 1))


@pytest.mark.parametrize("lanes", LANES)
def test_exchanges_at_every_distance_and_alignment(lanes):
    raw = np.random.default_rng(1).integers(-999, 999, 520).astype(np.int32)
    run = runner(exchanged, (raw, np.int64(1)), (64,), lanes)
    for distance in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        for start in (0, 1, 4):
            x = raw.copy()
            run((x[start : start + 512], np.int64(distance)), (4,))
            want = raw.copy()
            low = start + pairs(256, distance)
            want[low] = np.minimum(raw[low], raw[low + distance])
            want[low + distance] = np.maximum(raw[low], raw[low + distance])
            assert (x == want).all(), (distance, start)


@pytest.mark.parametrize("lanes", LANES)
def test_butterflies_in_a_loop(lanes):
    x = np.random.default_rng(2).integers(-9, 9, 512).astype(np.int32)
    y = np.zeros_like(x)
    runner(butterflies, (x, y), (64,), lanes)((x, y), (1,))
    want, distance = x.copy(), 1
    while distance < 512:
        low = pairs(256, distance)
        a, b = want[low], want[low + distance]
        want[low], want[low + distance] = a + 3 * b, a - b
        distance *= 2
    assert (y == want).all()


def strided(kind, step):
    @hetir.kernel
    def copies(x: hl.Array[kind, 1], y: hl.Array[kind, 1]):
        i = hl.global_id(0)
        if i < 100:
            y[step * i + 1] = x[step * (99 - i) + 2] + x[step * i]

    return copies


@pytest.mark.parametrize("kind", [hl.i8, hl.u16, hl.f32, hl.f64])
@pytest.mark.parametrize("step", [2, 3, 4, 7])
def test_strided_accesses_and_what_lies_between(kind, step):
    dtype = {"i8": np.int8, "u16": np.uint16, "f32": np.float32, "f64": np.float64}[kind.name]
    x = np.random.default_rng(3).integers(0, 50, 99 * step + 3).astype(dtype)
    i = np.arange(100)
    want = np.full(99 * step + 2, 77, dtype)
    want[step * i + 1] = x[step * (99 - i) + 2] + x[step * i]
    for lanes in (8, 16, None):
        y = np.full(99 * step + 2, 77, dtype)
        runner(strided(kind, step), (x, y), (64,), lanes)((x, y), (2,))
        assert (y == want).all(), lanes


def test_windows():
    assert window([0, 8, 16, 24], 4).order == (0, 2, 4, 6)
    assert window([0, 8, 16, 24], 4).mask() == "<i1 1, i1 0, i1 1, i1 0, i1 1, i1 0, i1 1, i1 0>"
    assert window([0, 4, 0, 4], 4).order == (0, 1, 0, 1)
    assert window([12, 8, 4, 0], 4).order == (3, 2, 1, 0)
    assert window([2**64 - 4, 0, 4, 8], 4).low == -4
    assert window([0, 2, 4, 6], 4) is None
    assert window([0, 4, 8, 64], 4) is None


def test_short_and_long_distances_need_no_gather():
    x = np.zeros(8, np.int32)
    text = emit_ir(prepared(butterflies, (x, x)), workgroup=compiler.dims(64), lanes=16)
    for piece in text.split("\ndistance")[1:]:
        assert "llvm.masked.gather" not in piece[: piece.index("\nothers")]


@hetir.kernel
def halves(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1]):
    i = hl.local_id(0)
    low = i & 127
    y[i] = x[2 * (i - low) + low] + x[2 * (i - low) + low + 128]


def test_many_low_bits_of_an_index_are_a_line():
    x, y = np.arange(512, dtype=np.int32) ** 2, np.zeros(256, np.int32)
    for lanes in LANES:
        runner(halves, (x, y), (256,), lanes)((x, y), (1,))
        assert (y.reshape(2, 128) == x.reshape(2, 2, 128).sum(1)).all()
    text = emit_ir(prepared(halves, (x, y)), workgroup=compiler.dims(256), lanes=16)
    assert "gather" not in text


@hetir.kernel
def added(y: hl.Array[hl.i64, 1], z: hl.Array[hl.i64, 1], n: hl.i64):
    """Low bits of indices that start at a multiple of the width, or not."""
    lane = hl.local_id(0)
    for start in range(0, 256, 64):
        i = start + lane
        y[i] = 2 * i - (i & 31)
    total = hl.i64(0)
    for start in range(4, n, 64):
        total = 3 * total + ((start + lane) & 31)
    for start in range(0, n, 36):
        total = 3 * total + ((start + lane) & 31) + ((lane + 5) & 31)
    z[lane] = total


@pytest.mark.parametrize("lanes", LANES)
def test_low_bits_of_sums(lanes):
    y, z = np.zeros(256, np.int64), np.zeros(64, np.int64)
    runner(added, (y, z, np.int64(0)), (64,), lanes)((y, z, np.int64(100)), (1,))
    i, lane, want = np.arange(256), np.arange(64), np.zeros(64, np.int64)
    for start in range(4, 100, 64):
        want = 3 * want + (start + lane) % 32
    for start in range(0, 100, 36):
        want = 3 * want + (start + lane) % 32 + (lane + 5) % 32
    assert (y == 2 * i - i % 32).all()
    assert (z == want).all()


@hetir.kernel
def halves_of_more(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1]):
    for start in range(0, 1024, 64):
        i = start + hl.local_id(0)
        y[i] = x[2 * i - (i & 31)]


def test_a_uniform_loop_keeps_low_bits_lines():
    x, y = np.arange(2048, dtype=np.int32), np.zeros(1024, np.int32)
    text = emit_ir(prepared(halves_of_more, (x, y)), workgroup=compiler.dims(64), lanes=16)
    assert "gather" not in text
    assert "load <16 x i32>" in text


@hetir.kernel
def by_lines(y: hl.Array[hl.i64, 2]):
    """Masks and distances that grow with the index, as numbers of a first lane 0."""
    x, i = hl.local_id(0), hl.global_id(0)
    y[0, i] = x & (x + 7)
    y[1, i] = i & (x + 15)
    y[2, i] = i >> (x + 2)


@pytest.mark.parametrize("lanes", LANES)
def test_lines_are_no_masks(lanes):
    group = lanes or 16
    y, i = np.zeros((3, 2 * group), np.int64), np.arange(2 * group)
    runner(by_lines, (y,), (group,), lanes)((y,), (2,))
    x = i % group
    assert (y == [x & (x + 7), i & (x + 15), i >> (x + 2)]).all()
