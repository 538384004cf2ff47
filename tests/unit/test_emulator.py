"""What a run computes: control flow, arrays, atomics, subgroups, grids."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from hetir.emulator import run
from hetir.ir import ops
from hetir.ir.core import Value
from hetir.ir.types import (
    BF16,
    BOOL,
    F8E4M3,
    F16,
    F32,
    F64,
    I8,
    I32,
    I64,
    SCALARS,
    U32,
    U64,
    Scalar,
    array,
)
from tests.unit.emulator_support import Maker


def ids_kernel(*names: str, grid: tuple[int, ...], size: tuple[int, ...]) -> list[np.ndarray]:
    """One array an id, by global linear work-item."""
    m = Maker(**{f"a{n}": array(I64, 1) for n in range(len(names))})
    x, y, z = (m.op("global_id", axis=a) for a in range(3))
    width, height = (
        m.op("mul", m.op("num_groups", axis=a), m.op("group_size", axis=a)) for a in range(2)
    )
    at = m.op("add", x, m.op("mul", width, m.op("add", y, m.op("mul", z, height))))
    for n, name in enumerate(names):
        op, _, axis = name.partition(".")
        attrs = {"axis": int(axis)} if axis else {}
        m.store(getattr(m, f"a{n}"), at, m.op(op, **attrs))
    count = math.prod(grid) * math.prod(size)
    arrays = [np.full(count, -1, np.int64) for _ in names]
    report = run(m.kernel(), arrays, grid, size, checks=True)
    assert not report.faults
    return arrays


# ---- grids ---------------------------------------------------------------------------------


def test_ids_in_three_dimensions() -> None:
    grid, size = (3, 2, 2), (5, 3, 2)
    names = [f"{op}.{a}" for op in ("global_id", "local_id", "group_id") for a in range(3)]
    got = ids_kernel(*names, "lane_id", "subgroup_id", "subgroup_size", grid=grid, size=size)
    extents = [g * s for g, s in zip(grid, size, strict=True)]
    z, y, x = np.unravel_index(np.arange(math.prod(extents)), extents[::-1])
    globals_ = [x, y, z]
    locals_ = [v % s for v, s in zip(globals_, size, strict=True)]
    groups = [v // s for v, s in zip(globals_, size, strict=True)]
    linear = locals_[0] + 5 * (locals_[1] + 3 * locals_[2])
    expected = [*globals_, *locals_, *groups, linear % 32, linear // 32, np.full(len(x), 32)]
    for name, one, want in zip(names + ["lane"] * 3, got, expected, strict=True):
        assert (one == want).all(), name


@pytest.mark.parametrize("grid", [(0,), (4, 0), (2, 3, 0)])
def test_an_empty_grid_does_nothing(grid: tuple[int, ...]) -> None:
    m = Maker(y=array(F32, 1))
    m.store(m.y, 99, 1.0)
    assert not run(m.kernel(), [np.zeros(1, np.float32)], grid, (32,)).faults


def test_extents_past_a_vendors_limit() -> None:
    for grid in ((1, 70000, 1), (1, 1, 70000)):
        axis = grid.index(70000)
        (got,) = ids_kernel(f"group_id.{axis}", grid=grid, size=(1, 1, 1))
        assert (got == np.arange(70000)).all()


def test_ids_past_two_to_the_31() -> None:
    """A grid of 2^40 work-items, of which some groups run."""
    m = Maker(y=array(I64, 1))
    slot = m.op("sub", m.group(), (1 << 32) - 3)
    m.store(m.y, m.op("add", m.op("mul", slot, 4), m.local()), m.id())
    y = np.zeros(12, np.int64)
    groups = [(1 << 32) - 3 + k for k in range(3)]
    report = run(m.kernel(), [y], (1 << 33, 2, 2), (4,), groups=groups, checks=True)
    assert not report.faults
    assert y.tolist() == [((1 << 32) - 3) * 4 + k for k in range(12)]


def test_linear_groups_past_two_to_the_31_fold_into_axes() -> None:
    m = Maker(y=array(I64, 2))
    for axis in range(3):
        m.store(m.y, 0, axis, m.group(axis))
    y = np.zeros((1, 3), np.int64)
    linear = 123 + (1 << 20) * (70001 + (1 << 17) * 5)
    run(m.kernel(), [y], (1 << 20, 1 << 17, 9), (1,), groups=[linear])
    assert y.tolist() == [[123, 70001, 5]]


def test_a_large_launch_takes_a_moment() -> None:
    m = Maker(a=F32, x=array(F32, 1), y=array(F32, 1))
    i = m.id()
    with m.if_(m.op("lt", i, m.dim(m.x))):
        v = m.load(m.x, i)
        for _ in range(10):
            v = m.op("add", m.op("mul", v, m.a), m.load(m.y, i))
        m.store(m.y, i, v)
    n = 1_000_003
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    want = x
    for _ in range(10):
        want = want * np.float32(0.5) + y
    start = time.perf_counter()
    run(m.kernel(), [np.float32(0.5), x, y], (-(-n // 256),), (256,))
    assert time.perf_counter() - start < 4
    assert (y == want).all()


# ---- loops ---------------------------------------------------------------------------------

LIMIT = 1 << 63
RANGES = [
    (0, 5, 1), (5, 0, -1), (0, 5, 2), (0, 6, 2), (7, -8, -3), (0, 0, 1), (3, 3, -1), (0, -1, 1),
    (0, 5, 0), (LIMIT - 3, LIMIT - 1, 1), (-LIMIT + 2, -LIMIT, -1), (-LIMIT, LIMIT - 1, LIMIT - 1),
    (LIMIT - 1, -LIMIT, -LIMIT), (-LIMIT, LIMIT - 1, 1 << 61), (2, 3, LIMIT - 1),
]  # fmt: skip


def test_for_is_pythons_range_in_every_lane() -> None:
    """Unlike bounds in every lane, and the same bounds as uniform values."""
    m = Maker(bounds=array(I64, 2), y=array(I64, 2), n=array(I64, 1), at=I64)
    lane, space = m.local(), m.alloc(I64, 1, space="private")
    start, stop, step = (m.load(m.bounds, lane, k) for k in range(3))
    m.store(space, 0, 0)
    with m.for_(start, stop, step) as index:
        count = m.load(space, 0)
        m.store(m.y, lane, count, index)
        m.store(space, 0, m.op("add", count, 1))
    m.store(m.n, lane, m.load(space, 0))
    bounds = np.array(RANGES, np.int64)
    y, n = np.zeros((len(RANGES), 20), np.int64), np.zeros(len(RANGES), np.int64)
    assert not run(
        m.kernel(), [bounds, y, n, np.int64(0)], (1,), (len(RANGES),), checks=True
    ).faults
    for at, (start, stop, step) in enumerate(RANGES):
        want = list(range(start, stop, step)) if step else []
        assert y[at, : n[at]].tolist() == want


@pytest.mark.parametrize("bounds", RANGES)
def test_for_with_uniform_bounds(bounds: tuple[int, int, int]) -> None:
    m = Maker(start=I64, stop=I64, step=I64, y=array(I64, 1), n=array(I64, 1))
    with m.for_(m.start, m.stop, m.step) as index:
        m.store(m.y, m.load(m.n, 0), index)
        m.store(m.n, 0, m.op("add", m.load(m.n, 0), 1))
    y, n = np.zeros(20, np.int64), np.zeros(1, np.int64)
    run(m.kernel(), [*map(np.int64, bounds), y, n], (1,), (1,))
    assert y[: n[0]].tolist() == (list(range(*bounds)) if bounds[2] else [])


def test_trip_counts_past_two_to_the_32() -> None:
    """The loop is left early, but counts as one of 2^62 trips."""
    m = Maker(y=array(I64, 1), stop=I64)
    with m.for_(0, m.stop) as index:
        m.store(m.y, m.local(), index)
        m.break_if(m.op("ge", index, m.local()))
    y = np.zeros(8, np.int64)
    run(m.kernel(), [y, np.int64(1 << 62)], (1,), (8,))
    assert y.tolist() == list(range(8))


# ---- arrays --------------------------------------------------------------------------------


def copy_kernel(kind: Scalar, ndim: int) -> Maker:
    """y[linear] = x[multi-index] for every element, one a work-item."""
    m = Maker(x=array(kind, ndim), y=array(kind, 1))
    i = m.id()
    index, rest = [], i
    for axis in reversed(range(ndim)):
        extent = m.dim(m.x, axis)
        index.append(m.op("mod", rest, extent))
        rest = m.op("floordiv", rest, extent)
    with m.if_(m.op("lt", i, m.dim(m.y))):
        m.store(m.y, i, m.load(m.x, *reversed(index)))
    return m


def layouts() -> list[np.ndarray]:
    base = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
    records = np.zeros(40, np.dtype([("tag", "u1"), ("v", "<f4")]))
    records["v"] = np.arange(40)
    return [
        base, base.T, base[::-1, :, ::-2], base[1:3, ::2, 1], base[2], base[1, 2, 3:3],
        np.broadcast_to(base[0, 0], (3, 6)), base.transpose(1, 2, 0)[::-1], records["v"],
        records["v"][::-3], base[0, 0, 0:1].reshape(()), base[..., ::6],
    ]  # fmt: skip


@pytest.mark.parametrize("at", range(len(layouts())))
def test_arrays_of_any_layout(at: int) -> None:
    x = layouts()[at]
    y = np.full(x.size, -1, np.float32)
    report = run(copy_kernel(F32, x.ndim).kernel(), [x, y], (4,), (32,), checks=True)
    assert not report.faults
    assert (y == x.ravel()).all()


@pytest.mark.parametrize("kind", SCALARS.values(), ids=str)
def test_every_type_moves_bits_unchanged(kind: Scalar) -> None:
    raw = np.random.default_rng(1).integers(0, 256, 64 * kind.bytes, dtype=np.uint8)
    raw = raw % 2 if kind is BOOL else raw
    x = raw.view(kind.numpy)[::-1]
    y = np.zeros(64, kind.numpy)
    run(copy_kernel(kind, 1).kernel(), [x, y], (2,), (32,))
    assert y.tobytes() == np.ascontiguousarray(x).tobytes()


def test_stores_through_negative_and_gapped_strides() -> None:
    m = Maker(y=array(I32, 2))
    m.store(m.y, m.local(1), m.local(0), m.cast(m.op("add", m.local(0), m.local(1)), I32))
    memory = np.full((10, 12), -7, np.int32)
    y = memory[8:1:-2, ::-3]
    assert not run(m.kernel(), [y], (1,), (4, 4), checks=True).faults
    want = np.full((10, 12), -7, np.int32)
    want[8:1:-2, ::-3] = np.add.outer(np.arange(4), np.arange(4))
    assert (memory == want).all()


def test_views_are_numpys_basic_slices() -> None:
    x = np.arange(7 * 9, dtype=np.int64).reshape(7, 9)[::-1]
    for (row, start, count, step), inner in itertools.product(
        [(2, 1, 4, 2), (5, 7, 3, -3), (0, 0, 9, 1)], [0, 1]
    ):
        m = Maker(x=array(I64, 2), y=array(I64, 1), row=I64, start=I64, count=I64)
        if inner:
            whole = m.op("view", m.x, 6, 7, m.start, m.count, steps=(-1, step))
            view = m.op("view", whole, m.op("sub", 6, m.row), 0, m.count, steps=(0, 1))
        else:
            view = m.op("view", m.x, m.row, m.start, m.count, steps=(0, step))
        with m.if_(m.op("lt", m.local(), m.dim(view))):
            m.store(m.y, m.local(), m.load(view, m.local()))
        m.store(m.y, 31, m.op("stride", view, axis=0))
        y = np.full(32, -1, np.int64)
        report = run(m.kernel(), [x, y, *map(np.int64, (row, start, count))], (1,), (32,))
        assert not report.faults
        want = x[row][start::step][:count]
        assert y[: len(want)].tolist() == want.tolist()
        assert y[len(want)] == -1
        assert y[31] == want.strides[0]


def test_arrays_as_values() -> None:
    """A lane chooses its array by `select`, and by a loop that swaps two."""
    kind = array(F32, 1)
    m = Maker(a=kind, b=kind, y=array(F32, 2))
    lane = m.local()
    odd = m.op("eq", m.op("mod", lane, 2), 1)
    m.store(m.y, 0, lane, m.load(m.op("select", odd, m.a, m.b), lane))
    one, other, index = Value(kind, "one"), Value(kind, "other"), Value(I64, "i")
    body = type(m.builders[0])()
    body.emit(ops.YIELD, other, one)
    ends = m.builders[-1].emit(
        ops.FOR, m.value(0), lane, m.value(1), m.a, m.b,
        types=(kind, kind), regions=(body.region(index, one, other),),
    )  # fmt: skip
    m.store(m.y, 1, lane, m.load(ends.results[0], lane))
    a, b = np.arange(8, dtype=np.float32), np.arange(8, dtype=np.float32) + 100
    y = np.zeros((2, 8), np.float32)
    assert not run(m.kernel(), [a, b, y], (1,), (8,), checks=True).faults
    odd_lanes = np.arange(8) % 2 == 1
    assert (y[0] == np.where(odd_lanes, a, b)).all()
    assert (y[1] == np.where(odd_lanes, b, a)).all()


def test_references_and_byte_offsets() -> None:
    """The form after array expansion: y[i] = x[i] + tile[i], by bytes."""
    m = Maker(x=array(F32, 1), y=array(F32, 1))
    tile, lane = m.alloc(F32, 8), m.local()
    i = m.id()
    x, y, t = (m.op("base", v) for v in (m.x, m.y, tile))
    m.emit("store", t, m.op("mul", lane, 4), m.const(F32, 0.5), element=F32)
    m.barrier()
    v = m.op("load", x, m.op("mul", i, m.op("stride", m.x, axis=0)), element=F32)
    w = m.op("load", t, m.op("mul", lane, 4), element=F32)
    m.emit("store", y, m.op("mul", i, 4), m.op("add", v, w), element=F32)
    source = np.arange(16, dtype=np.float32)[::-1]
    y_ = np.zeros(16, np.float32)
    assert not run(m.kernel(), [source, y_], (2,), (8,), checks=True).faults
    assert (y_ == source + 0.5).all()
    short = source[:12]
    faults = run(m.kernel(), [short, y_], (2,), (8,), checks=True).faults
    assert [(f.code, f.array, f.count) for f in faults] == [("HET600", "x", 4)]


def test_private_and_shared_arrays_of_many_groups() -> None:
    m = Maker(y=array(I64, 1))
    mine, ours = m.alloc(I64, 3, space="private"), m.alloc(I64, 2, 4)
    with m.for_(0, 3) as k:
        m.store(mine, k, m.op("mul", m.id(), k))
    m.store(ours, m.op("mod", m.local(), 2), m.op("floordiv", m.local(), 2), m.id())
    m.barrier()
    other = m.op("xor", m.local(), 7)
    seen = m.load(ours, m.op("mod", other, 2), m.op("floordiv", other, 2))
    m.store(m.y, m.id(), m.op("add", m.op("mul", seen, 1000), m.load(mine, 2)))
    y = np.zeros(80, np.int64)
    assert not run(m.kernel(), [y], (10,), (8,), checks=True).faults
    i = np.arange(80)
    assert (y == (i ^ 7) * 1000 + i * 2).all()


# ---- atomics -------------------------------------------------------------------------------

INTEGER_TOTALS: dict[str, Callable[[np.ndarray], int]] = {
    "add": lambda v: int(v.sum()),
    "sub": lambda v: -int(v.sum()),
    "min": lambda v: int(min(0, v.min())),
    "max": lambda v: int(max(0, v.max())),
    "and": lambda v: 0,
    "or": lambda v: int(np.bitwise_or.reduce(v)),
    "xor": lambda v: int(np.bitwise_xor.reduce(v)),
}


@pytest.mark.parametrize("kind", [I8, I32, I64, U32, U64], ids=str)
@pytest.mark.parametrize("op", INTEGER_TOTALS)
def test_integer_atomics(op: str, kind: Scalar) -> None:
    """Few addresses and many, so that both ways of applying them are taken."""
    m = Maker(x=array(kind, 1), at=array(I64, 1), y=array(kind, 1))
    m.rmw(op, m.y, m.load(m.at, m.id()), m.load(m.x, m.id()))
    rng = np.random.default_rng(2)
    for places in (1, 3, 100):
        x = rng.integers(-50 if kind.signed else 0, 60, 256).astype(kind.numpy)
        at, y = rng.integers(0, places, 256), np.zeros(places, kind.numpy)
        run(m.kernel(), [x, at, y], (8,), (32,))
        for place in range(places):
            mine = x[at == place]
            want = INTEGER_TOTALS[op](mine.astype(object)) if len(mine) else 0
            assert int(y[place]) == (want + (1 << kind.bits - 1)) % (1 << kind.bits) - (
                1 << kind.bits - 1
            ) or int(y[place]) == want % (1 << kind.bits)


@pytest.mark.parametrize("kind", [F16, BF16, F32, F64], ids=str)
@pytest.mark.parametrize("places", [1, 40])
def test_float_atomics_happen_one_after_the_other(kind: Scalar, places: int) -> None:
    """The old values order the lanes; replaying them one by one gives the same."""
    m = Maker(x=array(kind, 1), at=array(I64, 1), y=array(kind, 1), old=array(kind, 1))
    m.store(m.old, m.id(), m.rmw("add", m.y, m.load(m.at, m.id()), m.load(m.x, m.id())))
    rng = np.random.default_rng(3)
    x = (rng.random(40) + 1).astype(kind.numpy)
    at, y, old = rng.integers(0, places, 40), np.zeros(places, kind.numpy), x.copy()
    run(m.kernel(), [x, at, y, old], (5,), (8,), seed=4)
    for place in range(places):
        total = kind.numpy.type(0)
        mine = np.flatnonzero(at == place)
        for lane in mine[np.argsort(old[mine].astype(np.float64), kind="stable")]:
            assert old[lane] == total
            total = kind.numpy.type(total + x[lane])
        assert y[place] == total


def test_atomic_minimum_and_maximum_of_floats() -> None:
    for values, least, greatest in (
        ([1.0, -0.0, 0.0, 5.0], -0.0, 5.0),
        ([0.0, -0.0], -0.0, 0.0),
        ([1.0, math.nan, 2.0], math.nan, math.nan),
    ):
        m = Maker(x=array(F32, 1), y=array(F32, 1))
        m.rmw("min", m.y, 0, m.load(m.x, m.id()))
        m.rmw("max", m.y, 1, m.load(m.x, m.id()))
        x, y = np.array(values, np.float32), np.array([math.inf, -math.inf], np.float32)
        run(m.kernel(), [x, y], (1,), (len(values),))
        assert y.tobytes() == np.array([least, greatest], np.float32).tobytes()


def test_exchange_hands_every_value_on() -> None:
    m = Maker(y=array(I64, 1), old=array(I64, 1))
    m.store(m.old, m.id(), m.rmw("exchange", m.y, 0, m.op("add", m.id(), 1)))
    y, old = np.zeros(1, np.int64), np.zeros(200, np.int64)
    run(m.kernel(), [y, old], (5,), (40,))
    assert sorted([*old.tolist(), int(y[0])]) == list(range(201))


@pytest.mark.parametrize("kind", [F16, F64], ids=str)
def test_addition_by_compare_and_exchange(kind: Scalar) -> None:
    """The usual loop, in groups that contend for two elements."""
    m = Maker(y=array(kind, 1))
    where = m.op("mod", m.id(), 2)
    with m.loop():
        old = m.op("atomic.load", m.y, where, order="relaxed", scope="device")
        new = m.op("add", old, m.const(kind, 1))
        seen = m.op("atomic.cas", m.y, where, old, new, order="relaxed", scope="device")
        m.break_if(m.op("eq", seen, old))
    y = np.zeros(2, kind.numpy)
    report = run(m.kernel(), [y], (3,), (32,), checks=True)
    assert not report.faults
    assert y.tolist() == [48, 48]


def test_compare_exchange_compares_bits() -> None:
    """-0 equals +0 but has other bits; a NaN has its own."""
    m = Maker(y=array(F32, 1), old=array(F32, 1), expected=array(F32, 1))
    seen = m.op(
        "atomic.cas", m.y, m.id(), m.load(m.expected, m.id()), m.const(F32, 9), order="relaxed",
        scope="device",
    )  # fmt: skip
    m.store(m.old, m.id(), seen)
    y = np.array([0.0, math.nan, 1.0], np.float32)
    old = np.zeros(3, np.float32)
    run(m.kernel(), [y, old, np.array([-0.0, math.nan, 1.0], np.float32)], (1,), (3,))
    assert y.tolist() == [0.0, 9.0, 9.0]
    assert old.tobytes() == np.array([0.0, math.nan, 1.0], np.float32).tobytes()


# ---- subgroups -----------------------------------------------------------------------------

WIDTHS = [1, 2, 3, 4, 7, 8, 16, 31, 32, 64, 100, 128]


def rows(values: np.ndarray, where: np.ndarray, width: int, empty: object) -> list[list[object]]:
    """The subgroups, padded to a power of two with what an absent lane counts as."""
    columns = 1
    while columns < width:
        columns *= 2
    found = []
    for start in range(0, len(values), width):
        part = range(start, min(start + width, len(values)))
        row = [values[i] if where[i] else empty for i in part]
        found.append(row + [empty] * (columns - len(row)))
    return found


def tree(row: list[object], combine: Callable[[object, object], object]) -> list[object]:
    """As the op table says: distances down to 1, lane i combines i and i xor distance."""
    distance = len(row) // 2
    while distance:
        row = [combine(row[i], row[i ^ distance]) for i in range(len(row))]
        distance //= 2
    return row


def ladder(row: list[object], combine: Callable[[object, object], object]) -> list[object]:
    """As the op table says: distances 1, 2, 4, ...; lane i combines i - distance and i."""
    distance = 1
    while distance < len(row):
        row = [
            combine(row[i - distance], row[i]) if i >= distance else row[i] for i in range(len(row))
        ]
        distance *= 2
    return row


def subgroup_run(
    width: int, items: int, kind: Scalar, build: Callable[..., Value]
) -> list[np.ndarray]:
    """Values, participation and results of one op, over three groups of `items`."""
    rng = np.random.default_rng(width * 1000 + items)
    x = (rng.integers(-90, 90, 3 * items) / 7).astype(kind.numpy)
    where = rng.random(3 * items) < 0.7
    m = Maker(x=array(kind, 1), w=array(BOOL, 1), y=array(kind, 1))
    m.store(m.y, m.id(), build(m, m.load(m.x, m.id()), m.load(m.w, m.id())))
    y = np.zeros(3 * items, kind.numpy)
    report = run(m.kernel(subgroup_size=width), [x, where, y], (3,), (items,), checks=True)
    assert not report.faults
    return [a.reshape(3, items) for a in (x, where, y)]


@pytest.mark.parametrize("width", WIDTHS)
def test_reduce_and_scan_in_their_trees(width: int) -> None:
    """Float sums, whose bits show the order; with a partial last subgroup."""
    add = lambda a, b: np.float32(a) + np.float32(b)  # noqa: E731
    for items in (width, width + 3, 70):
        for scan, inclusive in ((False, True), (True, True), (True, False)):
            name = "subgroup_scan" if scan else "subgroup_reduce"
            attrs = {"kind": "add"} | ({"inclusive": inclusive} if scan else {})
            groups = subgroup_run(
                width, items, F32, lambda m, v, w, n=name, a=attrs: m.op(n, v, w, **a)
            )
            for x, where, y in zip(*groups, strict=True):
                want: list[object] = []
                for row in rows(x, where, width, np.float32(0)):
                    done = ladder(row, add) if scan else tree(row, add)
                    want += ([np.float32(0), *done] if not inclusive else done)[:width]
                assert y.tobytes() == np.array(want[: len(y)], np.float32).tobytes()


@pytest.mark.parametrize("kind", ["mul", "min", "max", "and", "or", "xor"])
def test_integer_reductions(kind: str) -> None:
    empty = {"mul": 1, "min": (1 << 31) - 1, "max": -(1 << 31), "and": -1, "or": 0, "xor": 0}[kind]
    combine = {
        "mul": lambda a, b: (a * b + (1 << 31)) % (1 << 32) - (1 << 31), "min": min, "max": max,
        "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    }[kind]  # fmt: skip
    groups = subgroup_run(16, 40, I32, lambda m, v, w: m.op("subgroup_reduce", v, w, kind=kind))
    for x, where, y in zip(*groups, strict=True):
        lists = rows([int(v) for v in x], where, 16, empty)
        want = [v for row in lists for v in tree(row, combine)]
        assert y.tolist() == want[: len(y)]


def test_float_identities() -> None:
    for kind, want in (("add", 0.0), ("mul", 1.0), ("min", math.inf), ("max", -math.inf)):
        m = Maker(y=array(BF16, 1))
        v = m.op("subgroup_reduce", m.const(BF16, 3), m.const(BOOL, 0), kind=kind)
        m.store(m.y, m.id(), v)
        y = np.zeros(5, ml_dtypes.bfloat16)
        run(m.kernel(), [y], (1,), (5,))
        assert y.astype(float).tolist() == [want] * 5


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("mode", ["index", "xor", "up", "down"])
def test_shuffles(mode: str, width: int) -> None:
    items = width + width // 2 + 1
    for amount in {0, min(1, width - 1), width - 1, width // 2}:
        groups = subgroup_run(
            width, items, I32,
            lambda m, v, w, n=amount: m.op("shuffle", v, n, w, mode=mode),
        )  # fmt: skip
        for x, where, y in zip(*groups, strict=True):
            for i in range(items):
                start, lane = i // width * width, i % width
                source = {
                    "index": amount, "xor": lane ^ amount, "up": lane - amount,
                    "down": lane + amount,
                }[mode]  # fmt: skip
                there = 0 <= source < width and start + source < items and where[start + source]
                assert y[i] == (x[start + source] if there else 0)


def test_shuffle_by_amounts_far_outside() -> None:
    for mode in ("index", "xor", "up", "down"):
        m = Maker(y=array(I64, 1), by=I64)
        v = m.op("shuffle", m.op("add", m.id(), 1), m.by, m.const(BOOL, 1), mode=mode)
        m.store(m.y, m.id(), v)
        for by in (1 << 62, -(1 << 63), (1 << 63) - 1, 1 << 32):
            y = np.full(32, -1, np.int64)
            run(m.kernel(), [y, np.int64(by)], (1,), (32,))
            assert not y.any()


@pytest.mark.parametrize("width", [1, 5, 32, 64])
def test_ballots_and_votes(width: int) -> None:
    items = 70
    rng = np.random.default_rng(width)
    p, where = rng.random(items) < 0.6, rng.random(items) < 0.7
    m = Maker(p=array(BOOL, 1), w=array(BOOL, 1), b=array(U64, 1), v=array(BOOL, 2))
    i = m.id()
    p_, w_ = m.load(m.p, i), m.load(m.w, i)
    m.store(m.b, i, m.op("ballot", p_, w_))
    m.store(m.v, 0, i, m.op("vote", p_, w_, mode="any"))
    m.store(m.v, 1, i, m.op("vote", p_, w_, mode="all"))
    b, v = np.zeros(items, np.uint64), np.zeros((2, items), bool)
    run(m.kernel(subgroup_size=width), [p, where, b, v], (1,), (items,))
    for i in range(items):
        part = range(i // width * width, min(i // width * width + width, items))
        assert int(b[i]) == sum(1 << k for k, j in enumerate(part) if p[j] and where[j])
        assert v[0, i] == any(p[j] for j in part if where[j])
        assert v[1, i] == all(p[j] for j in part if where[j])


# ---- barriers, output ----------------------------------------------------------------------


def test_barriers_in_loops_whose_trips_differ_between_groups() -> None:
    m = Maker(y=array(I64, 1))
    tile = m.alloc(I64, 8)
    m.store(tile, m.local(), m.id())
    with m.for_(0, m.group()):
        m.barrier()
        v = m.load(tile, m.op("mod", m.op("add", m.local(), 1), 8))
        m.barrier()
        m.store(tile, m.local(), v)
    m.store(m.y, m.id(), m.load(tile, m.local()))
    y = np.zeros(48, np.int64)
    assert not run(m.kernel(), [y], (6,), (8,), checks=True).faults
    want = [g * 8 + (i + g) % 8 for g in range(6) for i in range(8)]
    assert y.tolist() == want


def test_a_barrier_over_the_grid() -> None:
    m = Maker(x=array(I64, 1), y=array(I64, 1))
    m.store(m.x, m.id(), m.id())
    m.barrier("device")
    n = m.op("mul", m.op("num_groups", axis=0), m.op("group_size", axis=0))
    m.store(m.y, m.id(), m.load(m.x, m.op("sub", m.op("sub", n, 1), m.id())))
    x, y = np.zeros(96, np.int64), np.zeros(96, np.int64)
    assert not run(m.kernel(cooperative=True), [x, y], (6,), (16,), checks=True).faults
    assert (y == np.arange(96)[::-1]).all()


def test_subgroup_barriers_order_a_subgroup_only() -> None:
    def kernel(distance: int) -> Maker:
        m = Maker(y=array(I64, 1))
        tile = m.alloc(I64, 32)
        m.store(tile, m.local(), m.id())
        m.barrier("subgroup")
        m.store(m.y, m.id(), m.load(tile, m.op("xor", m.local(), distance)))
        return m

    y = np.zeros(32, np.int64)
    near = kernel(1).kernel(subgroup_size=8)
    assert not run(near, [y], (1,), (32,), checks=True).faults
    far = kernel(8).kernel(subgroup_size=8)
    assert [f.code for f in run(far, [y], (1,), (32,), checks=True).faults] == ["HET602"]


def test_printed_lines_come_in_the_order_of_work_items() -> None:
    m = Maker(x=array(F64, 1))
    i = m.id()
    m.emit("print", i, format="a {}")
    with m.if_(m.op("eq", m.op("mod", i, 2), 1)):
        m.emit("print", m.op("lt", i, 3), m.load(m.x, 0), format="{{odd}} {} {}")
    m.emit("print", format="end")
    report = run(m.kernel(), [np.array([0.1])], (2,), (2,), seed=1)
    odd = {1: ["{odd} True 0.1"], 3: ["{odd} False 0.1"]}
    want = [line for i in range(4) for line in (f"a {i}", *odd.get(i, []), "end")]
    assert list(report.output) == want


def test_f8_arrays_store_and_load() -> None:
    m = Maker(x=array(F32, 1), y=array(F8E4M3, 1), z=array(F32, 1))
    m.store(m.y, m.id(), m.cast(m.load(m.x, m.id()), F8E4M3))
    m.store(m.z, m.id(), m.cast(m.load(m.y, m.id()), F32))
    x = np.array([1.0, 1e9, -1e9, 0.3], np.float32)
    y, z = np.zeros(4, ml_dtypes.float8_e4m3fn), np.zeros(4, np.float32)
    run(m.kernel(), [x, y, z], (1,), (4,))
    assert z.tolist() == [1.0, 448.0, -448.0, 0.3125]


def test_runs_leave_nothing_behind() -> None:
    """One kernel object, run twice and with other arguments."""
    m = Maker(y=array(I64, 1))
    tile = m.alloc(I64, 4)
    m.rmw("add", m.y, 0, 1)
    with m.if_(m.op("lt", m.local(), 4)):
        m.store(tile, m.local(), m.load(m.y, m.op("add", m.local(), 1)))
    kernel = m.kernel()
    for _ in range(2):
        y = np.zeros(8, np.int64)
        assert not run(kernel, [y], (3,), (4,), checks=True).faults
        assert y[0] == 12
