"""Vectors in kernels: every element type and length, against NumPy and on every device."""

from typing import NamedTuple

import numpy as np
import pytest
from frontend_tools import run, traced

import hetir
import hetir.lang as hl
from hetir.diagnostics import HetirError
from hetir.frontend import Static
from hetir.ir.types import SCALARS

LENGTHS = (2, 3, 4, 8, 16)
ARITHMETIC = [k for k in SCALARS.values() if k.is_int or k.is_float]
f2, f3, f4 = (hl.vector(hl.f32, n) for n in (2, 3, 4))


def present(device):
    try:
        hetir.device(device)
    except HetirError as error:
        pytest.skip(str(error))


def numbers(kind, shape, seed=0):
    """Values of a type: of all bits for integers, of moderate size for floats."""
    rng = np.random.default_rng(seed)
    if kind.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if kind.is_int:
        low, high = np.iinfo(kind.numpy).min, np.iinfo(kind.numpy).max
        return rng.integers(low, high, shape, kind.numpy, endpoint=True)
    return rng.normal(scale=4, size=shape).astype(kind.numpy)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("kind", SCALARS.values(), ids=str)
def test_every_type_and_length_moves_and_reverses(kind, length):
    @hetir.kernel
    def kernel(x, y, n: hl.static):
        i = hl.global_id(0)
        v = hl.load_vector(x, (i, 1), n)
        hl.store_vector(y, (i, 0), v[::-1])

    # an offset of one element: no alignment beyond the element's
    x = numbers(kind, (5, length + 1))
    # compiling takes its time: one odd length of each type
    for device in ("emulator", "cpu") if length == 3 else ("emulator",):
        y = np.zeros((5, length), kind.numpy)
        kernel.launch((x, y, length), grid=5, workgroup=1, device=device).wait()
        np.testing.assert_array_equal(y.view(np.uint8), x[:, :0:-1].copy().view(np.uint8))


@pytest.mark.parametrize("kind", ARITHMETIC, ids=str)
def test_arithmetic_is_that_of_the_elements(kind):
    @hetir.kernel
    def kernel(x, y, z):
        i = hl.global_id(0)
        a, b = hl.load_vector(x, (i, 0), 4), hl.load_vector(x, (i, 4), 4)
        hl.store_vector(y, (i, 0), a + b * 3)
        hl.store_vector(y, (i, 4), -a - a[2])
        hl.store_vector(y, (i, 8), hl.where(a < b, hl.max(a, b), hl.abs(b)))
        hl.store_vector(z, (i, 0), (a >= b) & (a != a.x) | (b > 2))

    x = numbers(kind, (9, 8))
    y, z = np.zeros((9, 12), kind.numpy), np.zeros((9, 4), bool)
    kernel[9, 1](x, y, z)
    a, b, three = x[:, :4], x[:, 4:], kind.numpy.type(3)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y[:, :4], a + (b * three).astype(kind.numpy))
        np.testing.assert_array_equal(y[:, 4:8], -a - a[:, 2:3])
        chosen = np.where(a < b, np.maximum(a, b), np.abs(b))
    np.testing.assert_array_equal(y[:, 8:], chosen)
    np.testing.assert_array_equal(z, (a >= b) & (a != a[:, :1]) | (b > 2))


def test_integers_divide_shift_and_combine():
    def kernel(x, y):
        v, w = hl.load_vector(x, 0, 4), hl.load_vector(x, 4, 4)
        hl.store_vector(y, (0, 0), v // 3)
        hl.store_vector(y, (1, 0), v % w)
        hl.store_vector(y, (2, 0), (v << 2) ^ ~w)
        hl.store_vector(y, (3, 0), hl.popcount(v) + v**2)
        hl.store_vector(y, (4, 0), 100 >> hl.abs(v))

    x = np.array([-7, 8, -9, 10, 3, -4, 5, -6], np.int32)
    y = np.zeros((5, 4), np.int32)
    run(kernel, x, y)
    v, w = x[:4], x[4:]
    ones = [(int(n) & 0xFFFFFFFF).bit_count() for n in v]
    wanted = [v // 3, v % w, (v << 2) ^ ~w, ones + v**2, 100 >> np.abs(v)]
    np.testing.assert_array_equal(y, wanted)


def test_types_promote_as_scalars_do():
    def kernel(x, n, y):
        v, k = hl.load_vector(x, 0, 2), hl.load_vector(n, 0, 2)
        hl.static_assert((v + k).dtype == hl.f16)
        hl.static_assert((k * 2).dtype == hl.i16)
        hl.static_assert((k / k).dtype == hl.f32)
        hl.static_assert((k * 2.5).dtype == hl.f32)
        hl.static_assert((v + y[0]).dtype == hl.f64)
        hl.static_assert((v < k).dtype == hl.bool_)
        hl.static_assert(len(v.xyx) == 3)
        hl.static_assert(hl.where(v < k, 1, 0).dtype == hl.i64)
        y[0] = hl.dot(k, k / 2)

    run(kernel, np.ones(2, np.float16), np.array([3, 4], np.int16), y := np.zeros(1))
    assert y[0] == 12.5


def test_making_and_reading_elements():
    def kernel(y, i):
        v = f4(1, f2(2.5, 3), True)
        hl.store_vector(y, 0, v.wzyx)
        hl.store_vector(y, 4, f4(v.xx, v[1:3]))
        hl.store_vector(y, 8, f3(7))
        hl.store_vector(y, 11, f4((v.y, v[-1], v[i], v[i - 2])))
        w = hl.vector(hl.i8, 8)(v, v.wzyx)
        hl.store_vector(y, 15, hl.insert(hl.insert(w, 7, 100), i, -1))
        a, *rest = v
        y[23] = a + len(rest) + sum(v) + max(v) - min(v) + len(w)
        for at, item in enumerate(v):
            y[24 + at] = item * at
        y[28], y[29] = any(v > 2), all(v > 2)

    y = np.zeros(30)
    run(kernel, y, np.int32(2))
    wanted = [1, 3, 2.5, 1, 1, 1, 2.5, 3, 7, 7, 7, 2.5, 1, 3, 1]
    wanted += [1, 2, -1, 1, 1, 3, 2, 100, 1 + 3 + 7.5 + 3 - 1 + 8, 0, 2.5, 6, 3, 1, 0]
    np.testing.assert_array_equal(y, wanted)


def test_conversions_are_those_of_the_elements():
    def kernel(x, y, z, b):
        v = hl.load_vector(x, 0, 8)
        hl.store_vector(y, 0, v.to(hl.i8))
        hl.store_vector(z, 0, hl.bitcast(v, hl.u32))
        w = hl.cast(v, hl.vector(hl.f8e4m3, 8))
        hl.store_vector(x, 0, hl.f32(w))
        hl.store_vector(b, 0, hl.isnan(v) | hl.isinf(v))

    x = np.array([1.75, -300, 300, np.nan, np.inf, -0.0, 0.3, -7.9], np.float32)
    y, z, b = np.zeros(8, np.int8), np.zeros(8, np.uint32), np.zeros(8, bool)
    stored = x.copy()
    run(kernel, stored, y, z, b)
    np.testing.assert_array_equal(y, [1, -128, 127, 0, 127, 0, 0, -7])
    np.testing.assert_array_equal(z, x.view(np.uint32))
    np.testing.assert_array_equal(stored, [1.75, -288, 288, np.nan, 448, -0.0, 0.3125, -8])
    np.testing.assert_array_equal(b, [0, 0, 0, 1, 1, 0, 0, 0])


@pytest.mark.parametrize("kind", [hl.bf16, hl.f32], ids=str)
def test_functions_give_each_element_what_a_scalar_gets(kind):
    @hetir.kernel
    def vectors(x, y):
        v, w = hl.load_vector(x, 0, 3), hl.load_vector(x, 3, 3)
        hl.store_vector(y, (0, 0), hl.exp(v))
        hl.store_vector(y, (1, 0), hl.atan2(v, 2.0))
        hl.store_vector(y, (2, 0), hl.fma(v, w, 0.5))
        hl.store_vector(y, (3, 0), hl.sqrt(hl.clamp(v, 0, 2)))
        hl.store_vector(y, (4, 0), hl.gelu(w, "tanh") + hl.sincos(v)[1])

    @hetir.kernel
    def scalars(x, y):
        i = hl.global_id(0)
        v, w = x[i], x[i + 3]
        y[0, i] = hl.exp(v)
        y[1, i] = hl.atan2(v, 2.0)
        y[2, i] = hl.fma(v, w, 0.5)
        y[3, i] = hl.sqrt(hl.clamp(v, 0, 2))
        y[4, i] = hl.gelu(w, "tanh") + hl.sincos(v)[1]

    x = np.array([0.3, -1.7, 2.9, 1.0, -0.2, 5.5]).astype(kind.numpy)
    y, z = np.zeros((5, 3), kind.numpy), np.zeros((5, 3), kind.numpy)
    vectors[1, 1](x, y)
    scalars[1, 3](x, z)
    np.testing.assert_array_equal(y.view(np.uint8), z.view(np.uint8))


def longest(v, least):
    """Returns early, out of a loop."""
    for _ in range(8):
        if hl.dot(v, v) > least:
            return v
        v = v * 2
    return f2(0)


def control(x, y, n):
    i = hl.global_id(0)
    v = hl.load_vector(x, (i, 0), 2)
    total = 0
    last = v
    for k in range(n):
        if k == 3:
            continue
        total = total + v * k
        if total.x > 20:
            break
        last, v = v, last + 1
    while all(v < 10):
        v += f2(1, i + 1)
    w = last.yx if v.y > v.x else total
    if i % 2 == 0:
        w = longest(w, 50.0)
    hl.store_vector(y, (i, 0), total)
    hl.store_vector(y, (i, 2), v)
    hl.store_vector(y, (i, 4), w if any(w > 3) else 0)


def control_in_numpy(x, n):
    rows = []
    for i, row in enumerate(x):
        total, v, last = np.zeros(2, np.float32), row, row
        for k in range(n):
            if k == 3:
                continue
            total = total + v * np.float32(k)
            if total[0] > 20:
                break
            last, v = v, last + np.float32(1)
        while (v < 10).all():
            v = v + np.array([1, i + 1], np.float32)
        w = last[::-1] if v[1] > v[0] else total
        if i % 2 == 0:
            for _ in range(8):
                if w[0] * w[0] + w[1] * w[1] > 50:
                    break
                w = w * np.float32(2)
            else:
                w = np.zeros(2, np.float32)
        rows.append([*total, *v, *(w if (w > 3).any() else (0, 0))])
    return np.array(rows, np.float32)


@pytest.mark.parametrize("device", ["emulator", "cpu", "opencl:0", "ptx-emulator"])
def test_vectors_go_through_control_flow_and_helpers(device):
    present(device)
    x = numbers(hl.f32, (7, 2), seed=3)
    y = np.zeros((7, 6), np.float32)
    hetir.kernel(control).launch((x, y, 9), grid=7, workgroup=1, device=device).wait()
    np.testing.assert_array_equal(y, control_in_numpy(x, 9))


class Camera(NamedTuple):
    """By value, a vector within."""

    at: hl.vector(hl.f32, 3)
    zoom: float


@pytest.mark.parametrize("device", ["emulator", "cpu", "opencl:0", "ptx-emulator"])
def test_vectors_are_passed_by_value(device):
    present(device)

    @hetir.kernel
    def kernel(scale: hl.vector(hl.i16, 3), camera, y):
        hl.store_vector(y, 0, camera.at * scale + camera.zoom)

    for scale, at in (((1, 2, 3), (0.5, 1, 2)), (np.array([1, 2, 3]), np.array([0.5, 1, 2]))):
        y = np.zeros(3, np.float32)
        kernel.launch((scale, Camera(at, 0.25), y), grid=1, workgroup=1, device=device).wait()
        np.testing.assert_array_equal(y, [0.75, 2.25, 6.25])


def test_what_is_no_vector_is_refused_at_the_launch():
    @hetir.kernel
    def kernel(v: hl.vector(hl.f32, 3), y):
        y[0] = v.x

    y = np.zeros(1)
    kernel[1, 1]((1, 2, 3), y)
    for wrong, shown in (
        ((1, 2), "got 2 values"),
        (np.zeros((3, 1)), r"got an array of shape \(3, 1\)"),
        (1.0, "got a `float`"),
    ):
        with pytest.raises(HetirError, match=shown):
            kernel[1, 1](wrong, y)
    with pytest.raises(HetirError, match=r"`v\.2` must be a number"):
        kernel[1, 1]((1, 2, "three"), y)


def test_signatures_and_annotations_name_vectors():
    @hetir.kernel
    def kernel(v: hl.vector(hl.f32, 3), y: hl.Array[hl.f32, 1]):
        w: f3 = (v.z, v.y, v.x)
        hl.store_vector(y, 0, w)

    assert kernel.hir() == kernel.hir("f32x3, f32[:]")
    assert str(hetir.parse(kernel.hir()).kernels[0].params[2].source) == "(0, '2')"
    with pytest.raises(HetirError, match="declared `f32x3`, got `f32x4`"):
        kernel.hir("f32x4, f32[:]")
    with pytest.raises(HetirError, match="a vector has 2, 3, 4, 8 or 16 elements, got 5"):
        hl.vector(hl.f32, 5)
    with pytest.raises(HetirError, match="element is a scalar type"):
        hl.vector(float, 4)
    with pytest.raises(HetirError, match="works only inside a kernel"):
        f4(1)
    with pytest.raises(HetirError, match="an array holds scalars, not `f32x4`"):
        hl.Array[f4, 1]


def test_a_vector_is_its_scalars_in_hetir():
    def kernel(x, y):
        hl.store_vector(y, 0, hl.load_vector(x, 0, 2) + 1)

    text = str(hetir.kernel(kernel).hir("f32[:], f32[:]"))
    assert text.count(" load ") == text.count(" add ") == 2
    assert text.count("store ") == 2


def test_lanes_exchange_and_reduce_vectors():
    def kernel(x, y):
        lane = hl.lane_id()
        v = hl.load_vector(x, (lane, 0), 2)
        hl.store_vector(y, (lane, 0), hl.shuffle_xor(v, 1))
        hl.store_vector(y, (lane, 2), hl.subgroup_reduce(v, "add"))
        hl.store_vector(y, (lane, 4), hl.subgroup_scan(v, "max"))

    x = numbers(hl.i32, (8, 2)) >> 8
    y = np.zeros((8, 6), np.int32)
    run(kernel, x, y, workgroup=8, subgroup_size=8)
    np.testing.assert_array_equal(y[:, :2], x[np.arange(8) ^ 1])
    np.testing.assert_array_equal(y[:, 2:4], np.broadcast_to(x.sum(0), (8, 2)))
    np.testing.assert_array_equal(y[:, 4:], np.maximum.accumulate(x))


def test_tiles_of_shared_and_private_arrays_are_loaded_as_vectors():
    def kernel(x, y):
        i = hl.local_id(0)
        tile = hl.shared((4, 8), hl.f32)
        mine = hl.private(4, hl.f32)
        hl.store_vector(tile, (i, 0), hl.load_vector(x, (i, 0), 8))
        hl.barrier()
        for k in hl.static_range(4):
            mine[k] = tile[k, i]
        hl.store_vector(y, (i, 0), hl.load_vector(mine, 0, 4) * hl.load_vector(tile, (i, 1), 4))

    x, y = numbers(hl.f32, (4, 8)), np.zeros((4, 4), np.float32)
    run(kernel, x, y, workgroup=4)
    np.testing.assert_array_equal(y, x[:, :4].T * x[:, 1:5])


def test_vectors_print_as_their_elements():
    def kernel(x):
        v = hl.load_vector(x, 0, 2)
        hl.print("{{{}}} and {}", v, v.x)
        hl.print(f"i = {v.yx}")
        hl.print(v)

    report = run(kernel, np.array([1, 2], np.int32))
    assert report.output == ("{(1, 2)} and 1", "i = (2, 1)", "(1, 2)")


def test_bounds_are_checked():
    @hetir.kernel
    def past(x, y):
        hl.store_vector(y, 0, hl.load_vector(x, hl.global_id(0) + 2, 4))

    report = hetir.check(past, (np.zeros(5), np.zeros(4)), 1, 1)
    assert "out of bounds" in str(report)
    assert "index 5" in str(report)

    @hetir.kernel(debug=True)
    def picks(x, y):
        y[0] = hl.load_vector(x, 0, 4)[hl.global_id(0) + 4]

    report = hetir.check(picks, (np.zeros(4), np.zeros(4)), 1, 1)
    assert "the index of a vector of 4 is out of bounds" in str(report)


def test_static_lengths_come_from_parameters():
    def kernel(x, y, n: hl.static):
        kind = hl.vector(x.dtype, n)
        hl.store_vector(y, 0, hl.load_vector(x, 0, n) + kind(1))

    y = np.zeros(8)
    run(kernel, np.arange(8.0), y, Static(8))
    np.testing.assert_array_equal(y, np.arange(1.0, 9))
    assert traced(kernel, np.zeros(2), np.zeros(2), Static(2))


@pytest.mark.parametrize("device", ["emulator", "cpu", "opencl:0", "ptx-emulator"])
@pytest.mark.parametrize("items", [40, 100, 128, 200])
def test_ballots_of_128_lanes_are_two_words(items, device):
    present(device)

    @hetir.kernel(subgroup_size=128)
    def kernel(x, y):
        i = hl.local_id(0)
        both = hl.ballot(x[i] > 0, where=i % 5 != 0)
        y[i, 0], y[i, 1] = both

    rng = np.random.default_rng(items)
    x = rng.integers(-1, 2, items).astype(np.int32)
    y = np.zeros((items, 2), np.uint64)
    kernel.launch((x, y), grid=1, workgroup=items, device=device).wait()
    holds = (x > 0) & (np.arange(items) % 5 != 0)
    for i in range(items):
        lanes = holds[i // 128 * 128 :][:128]
        words = [sum(1 << n for n in range(64) if n + at < len(lanes) and lanes[n + at])
                 for at in (0, 64)]  # fmt: skip
        assert y[i].tolist() == words
