"""The functions of `hl` on the evaluator, against NumPy."""

import inspect
import math

import numpy as np
import pytest
from frontend_tools import run, traced

import hetir.lang as hl
from hetir.frontend import Static
from hetir.frontend.errors import CallError, StaticAssertError
from hetir.ir import ops
from hetir.ir.core import walk

HOSTILE = np.array([0.0, -0.0, 1.5, -2.5, math.inf, -math.inf, math.nan, 0.5, 3e38, -7.0])


def test_every_public_function_has_a_docstring():
    for name in hl.__all__:
        value = getattr(hl, name)
        if inspect.isroutine(value) or hasattr(value, "function"):
            assert value.__doc__, name


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rounding_and_roots(dtype):
    def kernel(x, y):
        i = hl.global_id(0)
        y[i, 0] = hl.sqrt(x[i])
        y[i, 1] = hl.floor(x[i])
        y[i, 2] = hl.ceil(x[i])
        y[i, 3] = hl.trunc(x[i])
        y[i, 4] = hl.rint(x[i])
        y[i, 5] = abs(x[i])
        y[i, 6] = hl.fma(x[i], x[i], 1)
        y[i, 7] = hl.sign(x[i])

    with np.errstate(all="ignore"):
        x = HOSTILE.astype(dtype)
        y = np.zeros((10, 8), dtype)
        run(kernel, x, y, workgroup=10)
        wide = x.astype(np.longdouble)
        fma = (wide * wide + 1).astype(dtype)
        wanted = [np.sqrt(x), np.floor(x), np.ceil(x), np.trunc(x), np.rint(x), np.abs(x), fma]
    for column, values in enumerate(wanted):
        np.testing.assert_array_equal(y[:, column], values)
    np.testing.assert_array_equal(y[:, 7], [0, 0, 1, -1, 1, -1, 0, 1, 1, -1])


def test_min_max_and_clamp_propagate_nan_and_order_zeros():
    def kernel(x, y):
        y[0] = hl.min(x[0], x[6])
        y[1] = hl.maximum(x[6], 1)
        y[2] = 1 / hl.min(x[0], x[1])
        y[3] = 1 / hl.max(x[1], x[0], x[1])
        y[4] = hl.minimum_number(x[6], x[2])
        y[5] = hl.maximum_number(x[2], x[6])
        y[6] = hl.clamp(x[8], -1, 2)
        y[7] = hl.clamp(x[6], 0, 1)
        y[8] = hl.min(hl.i32(3), hl.i64(-3))
        y[9] = hl.max(2, 5)

    y = np.zeros(10)
    run(kernel, HOSTILE, y)
    inf, nan = math.inf, math.nan
    np.testing.assert_array_equal(y, [nan, nan, -inf, inf, 1.5, 1.5, 2, nan, -3, 5])


def test_classification_and_selection():
    def kernel(x, y):
        i = hl.global_id(0)
        y[i, 0] = hl.isnan(x[i])
        y[i, 1] = hl.isinf(x[i])
        y[i, 2] = hl.isfinite(x[i])
        y[i, 3] = hl.where(x[i] > 0, 1, 2)

    y = np.zeros((10, 4))
    run(kernel, HOSTILE, y, workgroup=10)
    wanted = [
        np.isnan(HOSTILE),
        np.isinf(HOSTILE),
        np.isfinite(HOSTILE),
        np.where(HOSTILE > 0, 1, 2),
    ]
    np.testing.assert_array_equal(y, np.stack(wanted, 1))


def test_bits():
    def kernel(x, y):
        i = hl.global_id(0)
        y[i, 0] = hl.popcount(x[i])
        y[i, 1] = hl.clz(x[i])
        y[i, 2] = hl.mul_hi(x[i], x[i])
        y[i, 3] = hl.bitcast(hl.bitcast(x[i], hl.f32), hl.u32)

    x = np.array([0, 1, 0x80000000, 0xFFFFFFFF, 0x12345678], np.uint32)
    y = np.zeros((5, 4), np.uint32)
    run(kernel, x, y, workgroup=5)
    for value, row in zip(map(int, x), y.tolist(), strict=True):
        nan = 0x7FC00000
        bits = nan if np.isnan(np.array(value, np.uint32).view(np.float32)) else value
        assert row == [value.bit_count(), 32 - value.bit_length(), value * value >> 32, bits]


def test_numbers_without_a_type_wait_for_one():
    def kernel(x, h, a):
        x[0] = x[0] + hl.sqrt(2.0) * hl.max(a, 0.1)
        h[0] = h[0] * hl.where(x[0] > 0, 0.1, 3)

    x, h = np.zeros(1), np.ones(1, np.float16)
    run(kernel, x, h, 0.05)
    assert x[0] == math.sqrt(2) * 0.1
    assert h[0] == np.float16(0.1)


def test_exp_on_every_float_type():
    def kernel(x, h, y):
        y[0] = hl.exp(x[0])
        hl.static_assert(hl.exp(h[0]).dtype == hl.f16)
        y[1] = hl.exp(h[0])
        hl.static_assert(hl.exp(hl.i32(1)).dtype == hl.f32)
        y[2] = x[0] * hl.exp(1)

    x, h, y = np.array([0.3]), np.array([2.5], np.float16), np.zeros(3)
    run(kernel, x, h, y)
    assert abs(y[0] - math.exp(0.3)) <= np.spacing(math.exp(0.3))
    assert y[1] == np.float16(math.exp(2.5))
    assert abs(y[2] - 0.3 * math.e) <= 2 * np.spacing(0.8)


ATOMICS = [
    (hl.atomic_add, np.add), (hl.atomic_sub, np.subtract), (hl.atomic_min, np.minimum),
    (hl.atomic_max, np.maximum), (hl.atomic_and_, np.bitwise_and), (hl.atomic_or_, np.bitwise_or),
    (hl.atomic_xor, np.bitwise_xor),
]  # fmt: skip


@pytest.mark.parametrize(("atomic", "ufunc"), ATOMICS, ids=lambda v: v.__name__)
def test_atomics(atomic, ufunc):
    def kernel(x, y):
        atomic(y, (1, 0), x[hl.global_id(0)])

    x = np.random.default_rng(0).integers(-1000, 1000, 64).astype(np.int32)
    y = np.full((2, 1), 77, np.int32)
    run(kernel, x, y, grid=4, workgroup=16)
    wanted = np.int32(77)
    for v in x:
        wanted = ufunc(wanted, v)
    assert y[1, 0] == wanted
    assert y[0, 0] == 77


def test_exchange_and_compare_exchange_give_the_old_value():
    def kernel(x, y):
        y[0] = hl.atomic_exchange(x, 0, 5, order="acq_rel", scope="system")
        y[1] = hl.atomic_compare_exchange(x, 0, 5, 6)
        y[2] = hl.atomic_compare_exchange(x, 0, 5, 7)
        y[3] = hl.atomic_load(x, 0, order="acquire")
        hl.atomic_store(x, 0, 9, order="release", scope="workgroup")

    x, y = np.array([3], np.int32), np.zeros(4, np.int32)
    run(kernel, x, y)
    np.testing.assert_array_equal(y, [3, 5, 6, 6])
    assert x[0] == 9


def test_subgroups():
    def kernel(x, y, b):
        i = hl.global_id(0)
        v = x[i]
        y[i, 0] = hl.shuffle(v, 3)
        y[i, 1] = hl.shuffle_xor(v, 1)
        y[i, 2] = hl.shuffle_up(v, 2)
        y[i, 3] = hl.shuffle_down(v, 2)
        y[i, 4] = hl.subgroup_reduce(v, "add")
        y[i, 5] = hl.subgroup_reduce(v, "max", where=v < 5)
        y[i, 6] = hl.subgroup_scan(v, "add")
        y[i, 7] = hl.subgroup_scan(v, "add", inclusive=False)
        b[i, 0] = hl.ballot(v > 4)
        b[i, 1] = hl.any_(v > 6) * 10 + hl.all_(v >= 0)
        b[i, 2] = hl.lane_id() * 100 + hl.subgroup_id() * 10 + hl.subgroup_size()

    x = np.arange(8, dtype=np.int32)
    y, b = np.zeros((8, 8), np.int32), np.zeros((8, 3), np.int64)
    run(kernel, x, y, b, workgroup=8, subgroup_size=4)
    groups = x.reshape(2, 4)
    up = np.concatenate([np.zeros((2, 2), int), groups[:, :2]], 1)
    down = np.concatenate([groups[:, 2:], np.zeros((2, 2), int)], 1)
    total = np.repeat(groups.sum(1), 4)
    low = np.array([3] * 4 + [4] * 4)
    wanted = [
        np.repeat(groups[:, 3], 4), x ^ 1, up.ravel(), down.ravel(), total, low,
        groups.cumsum(1).ravel(), (groups.cumsum(1) - groups).ravel(),
    ]  # fmt: skip
    np.testing.assert_array_equal(y, np.stack(wanted, 1))
    np.testing.assert_array_equal(b[:, 0], [0] * 4 + [0b1110] * 4)
    np.testing.assert_array_equal(b[:, 1], [1] * 4 + [11] * 4)
    np.testing.assert_array_equal(b[:, 2], [i % 4 * 100 + i // 4 * 10 + 4 for i in range(8)])


@pytest.mark.parametrize("size", [1, 5, 32, 33, 100, 256, 993, 1024])
def test_workgroup_reductions_do_not_depend_on_the_subgroup_width(size):
    def kernel(x, y):
        i = hl.local_id(0) + hl.group_size(0) * hl.local_id(1)
        v = x[i]
        y[i, 0] = hl.workgroup_reduce(v, "add")
        y[i, 1] = hl.workgroup_scan(v, "add")
        y[i, 2] = hl.workgroup_scan(v, "add", inclusive=False)

    x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    found = []
    shape = (size,) if size % 2 else (2, size // 2)
    for width in (None, 8, 64):
        y = np.zeros((size, 3), np.float32)
        run(kernel, x, y, workgroup=shape, subgroup_size=width)
        found.append(y.tobytes())
    assert len(set(found)) == 1
    exact = np.cumsum(x, dtype=np.float64)
    bound = size * 2e-6
    np.testing.assert_allclose(y[:, 0], exact[-1], atol=bound)
    np.testing.assert_allclose(y[:, 1], exact, atol=bound)
    np.testing.assert_allclose(y[:, 2], exact - x, atol=bound)


@pytest.mark.parametrize(("op", "ufunc"), [
    ("add", np.add), ("mul", np.multiply), ("min", np.minimum), ("max", np.maximum),
    ("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.int64])
def test_workgroup_operations_in_a_loop(op, ufunc, dtype):
    def kernel(x, y, op: hl.static):
        i = hl.local_id(0)
        for step in range(3):
            y[step, i] = hl.workgroup_reduce(x[step, i], op)
            y[step + 3, i] = hl.workgroup_scan(x[step, i], op)

    x = np.random.default_rng(1).integers(0, 100, (3, 40)).astype(dtype)
    y = np.zeros((6, 40), dtype)
    run(kernel, x, y, Static(op), workgroup=40)
    whole = ufunc.reduce(x, axis=1, dtype=dtype)
    np.testing.assert_array_equal(y[:3], np.repeat(whole[:, None], 40, 1))
    np.testing.assert_array_equal(y[3:], ufunc.accumulate(x, axis=1, dtype=dtype))


def test_workgroup_reduction_keeps_nan():
    def kernel(x, y):
        y[hl.local_id(0)] = hl.workgroup_reduce(x[hl.local_id(0)], "max")

    for at in (0, 31, 32, 69):
        x, y = np.zeros(70, np.float32), np.zeros(70, np.float32)
        x[at] = math.nan
        run(kernel, x, y, workgroup=70)
        assert np.isnan(y).all()


def test_print_and_assert():
    def kernel(x):
        i = hl.global_id(0)
        if i == 1:
            hl.print("x[{}] = {}", i, x[i])
            hl.print(f"{i}: {x[i]} of {len(x)} {{}} {3:>4} {'text'!r}")
            hl.print(x[i], 2)
            hl.print(f"{i=}")
            hl.print("plain")
        assert x[i] > 0, "must be positive"
        hl.assert_(i < 2)  # noqa: PT009

    x = np.array([1.5, 2.5])
    report = run(kernel, x, workgroup=2)
    assert report.output == ("x[1] = 2.5", "1: 2.5 of 2 {}    3 'text'", "2.5 2", "i=1", "plain")
    messages = [
        op.attrs["message"]
        for op in walk(traced(kernel, x).kernels[0].body)
        if op.spec is ops.ASSERT
    ]
    assert messages == ["must be positive", "assertion failed"]


def test_print_refuses_what_it_cannot():
    def formats(x):
        hl.print("{:.3f}", x[0])

    def names(x):
        hl.print("{a}", x[0])

    def broken(x):
        hl.print("{", x[0])

    def count(x):
        hl.print("{} {}", x[0])

    for kernel in (formats, names, broken, count):
        with pytest.raises(CallError):
            traced(kernel, np.ones(1))


def test_static_checks():
    def kernel(n: hl.static):
        hl.static_assert(n == 4, "n must be 4")

    traced(kernel, Static(4))
    with pytest.raises(StaticAssertError, match="n must be 4"):
        traced(kernel, Static(5))


def test_fences_barriers_and_uniformity_are_emitted_as_written():
    def kernel(x):
        hl.fence("release", "workgroup")
        hl.fence(order="seq_cst")
        hl.barrier()
        hl.subgroup_barrier()
        n = hl.assume_uniform(x[0])
        x[1] = n

    body = traced(kernel, np.ones(2)).kernels[0].body
    found = [(op.name, *op.attrs.values()) for op in body.body]
    assert found[:4] == [
        ("fence", "release", "workgroup"),
        ("fence", "seq_cst", "device"),
        ("barrier", "workgroup"),
        ("barrier", "subgroup"),
    ]
    assert "assume_uniform" in [name for name, *_ in found]


def test_ids_in_three_dimensions():
    def kernel(y):
        x, yy, z = hl.global_id(0), hl.global_id(1), hl.global_id(2)
        at = x + hl.global_size(0) * (yy + hl.global_size(1) * z)
        y[at] = (
            hl.group_id(0) + 10 * hl.group_id(1) + 100 * hl.group_id(2)
            + 1000 * hl.local_id(0) + 10000 * hl.local_id(1) + 100000 * hl.local_id(2)
            + 1000000 * hl.num_groups(0) + 10000000 * hl.group_size(2)
        )  # fmt: skip

    y = np.zeros(2 * 2 * 3 * 2 * 1 * 3, np.int64)
    run(kernel, y, grid=(2, 3, 1), workgroup=(2, 2, 3))
    z, yy, x = (a.ravel() for a in np.indices((3, 6, 4)))
    wanted = x // 2 + 10 * (yy // 2) + 1000 * (x % 2) + 10000 * (yy % 2) + 100000 * z
    np.testing.assert_array_equal(y, wanted + 1000000 * 2 + 10000000 * 3)
