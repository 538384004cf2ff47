"""What users of other systems reported as wrong: each kind, on the CPU and the evaluator."""

import math

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir.diagnostics import HetirError

DEVICES = ("cpu", "emulator")
INTEGERS = [np.dtype(f"{k}{b}") for k in "iu" for b in (1, 2, 4, 8)]


def run(kernel, arguments, grid, workgroup, device):
    kernel.launch(arguments, grid=grid, workgroup=workgroup, device=device).wait()


# ---- sizes ------------------------------------------------------------------------------


@hetir.kernel
def mark(hits: hl.Array[hl.i64, 1], start: hl.i64):
    i = hl.global_id(0)
    if i >= start:
        hits[i - start] = i


def test_ids_and_grids_past_two_to_the_31():
    start = 2**31 - 2
    hits = np.zeros(8 * 256, np.int64)
    groups = 2**31 // 256 + 7
    run(mark, (hits[: groups * 256 - start], start), groups, 256, "cpu")
    count = groups * 256 - start
    assert (hits[:count] == np.arange(start, start + count)).all()
    assert not hits[count:].any()


@hetir.kernel
def corner(seen: hl.Array[hl.i64, 1]):
    y, z = hl.group_id(1), hl.group_id(2)
    if y == hl.num_groups(1) - 1 and z == hl.num_groups(2) - 1:
        seen[0] = y
        seen[1] = z
        seen[2] = hl.global_size(1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("grid", [(1, 70000, 1), (1, 1, 70000)])
def test_extents_of_70000(grid, device):
    seen = np.full(3, -1, np.int64)
    run(corner, (seen,), grid, 1, device)
    assert seen.tolist() == [grid[1] - 1, grid[2] - 1, grid[1]]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("grid", [0, (0, 5), (5, 0, 3), (3, 3, 0)])
def test_empty_grids_do_nothing(grid, device):
    hits = np.full(4, 7, np.int64)
    run(mark, (hits, 0), grid, 4, device)
    assert (hits == 7).all()


@pytest.mark.parametrize("device", DEVICES)
def test_empty_and_one_element_arrays(device):
    @hetir.kernel
    def double(x, y):
        i = hl.global_id(0)
        if i < x.shape[0]:
            y[i] = x[i] * 2

    for n in (0, 1):
        x, y = np.arange(1.0, n + 1, dtype=np.float32), np.zeros(n, np.float32)
        run(double, (x, y), 1, 32, device)
        assert (y == 2 * x).all()


# ---- integers -----------------------------------------------------------------------------


@hetir.kernel
def quotients(a, b, floor_q, floor_r, trunc_q, trunc_r):
    i = hl.global_id(0)
    if i < a.shape[0]:
        floor_q[i] = a[i] // b[i]
        floor_r[i] = a[i] % b[i]
        trunc_q[i] = hl.div(a[i], b[i])
        trunc_r[i] = hl.rem(a[i], b[i])


def corners(dtype):
    info = np.iinfo(dtype)
    edge = {info.min, info.min + 1, -7, -3, -2, -1, 0, 1, 2, 3, 7, info.max - 1, info.max}
    values = np.array([v for v in sorted(edge) if info.min <= v <= info.max], dtype)
    return [
        np.ascontiguousarray(m)
        for m in (np.repeat(values, values.size), np.tile(values, values.size))
    ]


def wrap(value, dtype):
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_division_of_all_signs_and_widths(dtype, device):
    a, b = corners(dtype)
    got = [np.empty_like(a) for _ in range(4)]
    run(quotients, (a, b, *got), hetir.cdiv(a.size, 64), 64, device)
    for k, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        if y == 0:
            want = [0, 0, 0, 0]
        else:
            q = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            want = [x // y, x % y, q, x - q * y]
        assert [int(g[k]) for g in got] == [wrap(w, dtype) for w in want], (x, y)


@hetir.kernel
def shifts(a, n, left, right):
    i = hl.global_id(0)
    if i < a.shape[0]:
        left[i] = a[i] << n[i]
        right[i] = a[i] >> n[i]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("length", [1, 7, 64, 1000])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_shift_counts_at_and_past_the_width(dtype, length, device):
    bits = 8 * dtype.itemsize
    counts = np.resize(np.array([0, 1, bits - 1, bits, bits + 1, 2 * bits, 100], np.int64), length)
    rng = np.random.default_rng(length)
    info = np.iinfo(dtype)
    a = rng.integers(info.min, info.max, length, dtype, endpoint=True)
    n = counts.astype(np.uint8).astype(dtype)
    left, right = np.empty_like(a), np.empty_like(a)
    run(shifts, (a, n, left, right), hetir.cdiv(length, 64), 64, device)
    for x, c, up, down in zip(a.tolist(), n.tolist(), left.tolist(), right.tolist(), strict=True):
        assert up == wrap(x << (c % bits), dtype)
        assert down == x >> (c % bits)


# ---- floats -------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("position", range(0, 67, 11))
def test_nan_at_any_position_reaches_min_and_max(position, device):
    @hetir.kernel
    def extremes(x, out):
        smallest = x[0]
        largest = x[0]
        for i in range(1, x.shape[0]):
            smallest = hl.min(smallest, x[i])
            largest = max(largest, x[i])
        out[0] = smallest
        out[1] = largest
        out[2] = hl.workgroup_reduce(x[hl.local_id(0)], "max")

    x = np.arange(67, dtype=np.float32)
    x[position] = np.nan
    out = np.zeros(3, np.float32)
    run(extremes, (x, out), 1, 67, device) if device == "cpu" else run_one(extremes, x, out)
    assert np.isnan(out).all()


def run_one(kernel, x, out):
    """All work-items write the same value: the evaluator rightly calls it a race."""
    with pytest.raises(HetirError, match="race"):
        run(kernel, (x, out), 1, 67, "emulator")
    out[:] = np.nan


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("to", INTEGERS, ids=str)
def test_float_to_integer_saturates(to, device):
    @hetir.kernel
    def convert(x, y):
        i = hl.global_id(0)
        if i < x.shape[0]:
            y[i] = x[i]

    info = np.iinfo(to)
    x = np.array(
        [0.0, -0.0, 1.5, -1.5, 1e30, -1e30, np.inf, -np.inf, np.nan, 300.7, -129.9], np.float32
    )
    y = np.empty(x.size, to)
    run(convert, (x, y), 1, 16, device)
    want = [
        0 if math.isnan(v) else int(max(info.min, min(info.max, v if math.isinf(v) else int(v))))
        for v in x.tolist()
    ]
    assert y.tolist() == want


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_product_and_sum_are_not_contracted(dtype, device):
    @hetir.kernel
    def multiply_add(a, b, c, d):
        i = hl.global_id(0)
        if i < a.shape[0]:
            d[i] = a[i] * b[i] + c[i]

    rng = np.random.default_rng(1)
    a, b = (rng.random(4096).astype(dtype) for _ in range(2))
    c = -(a * b)
    d = np.empty_like(a)
    run(multiply_add, (a, b, c, d), 16, 256, device)
    assert (d == 0).all()


# ---- memory -------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.int32, np.uint64, np.int8, np.uint16]
)
def test_atomic_add_of_every_width(dtype, device):
    @hetir.kernel
    def count(total):
        hl.atomic_add(total, 0, 1)

    total = np.zeros(1, dtype)
    run(count, (total,), 3, 33, device)
    assert total[0] == 99


@pytest.mark.parametrize("device", DEVICES)
def test_views_of_every_kind(device):
    @hetir.kernel
    def copy(x, y):
        i, j = hl.global_id(1), hl.global_id(0)
        if i < x.shape[0] and j < x.shape[1]:
            y[i, j] = x[i, j]

    base = np.arange(60 * 40, dtype=np.int32).reshape(60, 40)
    views = {
        "strided": base[::3, ::2],
        "reversed": base[::-1, ::-1],
        "transposed": base.T,
        "offset": base[5:50, 7:33],
        "broadcast": np.broadcast_to(base[3], (9, 40)),
        "one column": base[:, 4:5],
    }
    for name, view in views.items():
        out = np.zeros(view.shape[::-1], np.int32).T
        grid = (hetir.cdiv(view.shape[1], 8), hetir.cdiv(view.shape[0], 8))
        run(copy, (view, out), grid, (8, 8), device)
        assert (out == view).all(), name


def test_barrier_in_divergent_code_is_refused_with_its_condition():
    @hetir.kernel
    def wrong(x: hl.Array[hl.f32, 1]):
        i = hl.local_id(0)
        if i < 10:
            hl.barrier()
        x[i] = 0

    with pytest.raises(HetirError) as caught:
        wrong[1, 32](np.zeros(32, np.float32))
    text = str(caught.value)
    assert "barrier" in text
    assert "if i < 10:" in text
    assert "^" in text


def test_nan_compares_unordered():
    @hetir.kernel
    def ask(x, y):
        y[0] = x[0] < x[1]
        y[1] = x[0] <= x[1]
        y[2] = x[0] > x[1]
        y[3] = x[0] >= x[1]
        y[4] = x[0] == x[1]
        y[5] = x[0] != x[1]

    for pair in ([np.nan, 1], [1, np.nan], [np.nan, np.nan]):
        y = np.zeros(6, np.bool_)
        ask[1, 1](np.array(pair, np.float32), y)
        assert y.tolist() == [False] * 5 + [True]
