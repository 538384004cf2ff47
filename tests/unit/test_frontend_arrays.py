"""Arrays: indices, slices, shapes, shared and private memory, NumPy as the reference."""

from typing import NamedTuple

import numpy as np
import pytest
from frontend_tools import run, same_as_python, traced

import hetir.lang as hl
from hetir.frontend import trace
from hetir.frontend.errors import IndexingError, NotStaticError
from hetir.ir import ops
from hetir.ir.core import walk
from hetir.ir.types import SCALARS, ArrayType

A = np.arange(24.0).reshape(4, 6)


def rows(a, y):
    for i in range(4):
        row = a[i]
        total = 0.0
        for j in range(len(row)):
            total += row[j]
        y[i] = total


def slices(a, y):
    b = a[1:3, 2:]
    y[0] = b[0, 0]
    y[1] = b[1, 3]
    y[2] = b.shape[0] * 10 + b.shape[1]
    c = a[::2, ::-1]
    y[3] = c[1, 0]
    y[4] = c.shape[0] * 10 + c.shape[1]
    d = a[:, 4]
    y[5] = d[2]
    e = a[2, 1:6:2]
    y[6] = e[2]
    y[7] = e.shape[0]


def clamped_slices(a, y):
    n = int(a[0, 3])
    b = a[n:100, :n]
    y[0] = b.shape[0]
    y[1] = b.shape[1]
    y[2] = b[0, 2]
    c = a[n:2]
    y[3] = c.shape[0]
    d = a[0, 5:n:-1]
    y[4] = d.shape[0]
    y[5] = d[0] + d[1]
    e = a[3:0:-2, 0]
    y[6] = e.shape[0]
    y[7] = e[1]


def stores_through_views(a, y):
    b = a[1:, ::3]
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            b[i, j] = -1
    b[0, 0] += 5
    y[0] = a[1, 0]


def ellipsis_and_tuples(a, y):
    index = (2, 3)
    y[0] = a[index]
    y[1] = a[..., 1][3]
    y[2] = a[2, ...][1]
    y[3] = a[(1, 2)]


def attributes(a, y):
    m, n = a.shape
    y[0] = m * 100 + n
    y[1] = a.strides[0]
    y[2] = a.strides[1]
    y[3] = a.size
    y[4] = a.ndim
    y[5] = len(a.shape) + a.shape[-1]
    y[6] = a[1:3, ::2].strides[1]
    y[7] = a[:, 2].strides[0]


@pytest.mark.parametrize("kernel", [
    rows, slices, clamped_slices, stores_through_views, ellipsis_and_tuples, attributes,
], ids=lambda k: k.__name__)  # fmt: skip
def test_like_numpy(kernel):
    same_as_python(kernel, A, np.zeros(8))


@pytest.mark.parametrize("array", [
    A, A.T, A[::-1], A[:, ::-2], A[1:3, 1:4], np.broadcast_to(A[:1], (4, 6)).copy(),
])  # fmt: skip
def test_any_layout(array):
    def kernel(a, y):
        i, j = hl.global_id(0), hl.global_id(1)
        if i < a.shape[0] and j < a.shape[1]:
            hl.atomic_add(y, 0, a[i, j] * (i * 100 + j))

    y = np.zeros(1)
    run(kernel, array, y, grid=(2, 2), workgroup=(3, 4))
    i, j = np.indices(array.shape)
    assert y[0] == (array * (i * 100 + j)).sum()


def test_known_strides_survive_slicing():
    def kernel(x, y):
        y[0] = x[1:, 2:][0, 0] + x[:, ::2][1, 1]

    kind = ArrayType(SCALARS["f32"], 2, strides=(None, 1))
    module = traced(kernel, kind, ArrayType(SCALARS["f32"], 1))
    views = [op.result.type.strides for op in walk(module.kernels[0].body) if op.spec is ops.VIEW]
    assert views == [(None, 1), None]


def test_a_whole_slice_is_the_array():
    def kernel(x, y):
        y[0] = x[:, :][0, 0]

    module = traced(kernel, A, np.zeros(1))
    assert not [op for op in walk(module.kernels[0].body) if op.spec is ops.VIEW]


def test_no_dimensions_and_six():
    def kernel(x, y, z):
        x[()] = y[1, 0, 1, 0, 1, 1]
        z[0] = x[()]

    x, y, z = np.zeros(()), np.arange(64.0).reshape((2,) * 6), np.zeros(1)
    run(kernel, x, y, z)
    assert x[()] == z[0] == y[1, 0, 1, 0, 1, 1]


def test_every_integer_type_indexes_and_the_index_is_computed_once():
    def kernel(x, i, y):
        x[i[0]] += 1
        x[hl.u8(3)] = i.size
        x[hl.i64(2)] -= 2
        y[0] = x[i[1].to(hl.u64)]

    x, y = np.zeros(4), np.zeros(1)
    module = traced(kernel, x, np.array([1, 3], np.int16), y)
    loads = [op for op in walk(module.kernels[0].body) if op.spec is ops.LOAD]
    assert len(loads) == 5
    run(kernel, x, np.array([1, 3], np.int16), y)
    np.testing.assert_array_equal(x, [0, 1, -2, 2])
    assert y[0] == 2


class Grid(NamedTuple):
    data: object
    scale: object


class Nested(NamedTuple):
    inner: Grid
    offset: object


def test_named_tuple_arguments_and_values():
    def kernel(args, y):
        moved = args.inner._replace(scale=args.inner.scale * 2)
        pair = Grid(y, moved.scale)
        for i in range(len(y)):
            pair.data[i] = moved.data[i] * pair.scale + args.offset

    args = Nested(Grid(np.arange(3.0), np.float32(0.5)), 7)
    y = np.zeros(3)
    kernel_ir = traced(kernel, args, y).kernels[0]
    assert [p.source for p in kernel_ir.params] == [
        (0, "inner", "data"), (0, "inner", "scale"), (0, "offset"), (1,),
    ]  # fmt: skip
    run(kernel, args, y)
    np.testing.assert_array_equal(y, np.arange(3.0) + 7)


def test_arrays_swap_in_loops_and_are_chosen():
    def kernel(x, y, n, z):
        a, b = x, y
        for _ in range(n):
            for i in range(4):
                b[i] = a[i] * 2
            a, b = b, a
        c = x if n > 1 else y
        d = hl.where(n > 100, y, a)
        for i in range(4):
            z[i] = c[i] + d[i]

    x, y, z = np.arange(4.0), np.zeros(4), np.zeros(4)
    run(kernel, x, y, 3, z)
    np.testing.assert_array_equal(z, np.arange(4) * (4 + 8))


def test_shared_memory_reverses_a_workgroup():
    def kernel(x):
        tile = hl.shared((2, 8), x.dtype)
        i = hl.local_id(0)
        hl.static_assert(tile.shape == (2, 8))
        hl.static_assert(tile.strides == (64, 8))
        hl.static_assert(tile.size == 16)
        tile[1, i] = x[hl.global_id(0)]
        hl.barrier()
        x[hl.global_id(0)] = tile[1, 7 - i]

    x = np.arange(16.0)
    run(kernel, x, grid=2, workgroup=8)
    np.testing.assert_array_equal(x, np.arange(16).reshape(2, 8)[:, ::-1].ravel())


def test_private_memory_is_each_work_items_own():
    def kernel(x):
        mine = hl.private(4, hl.i32)
        i = hl.global_id(0)
        for k in range(4):
            mine[k] = i * k
        x[i] = mine[1] + mine[3]

    x = np.zeros(8, np.int64)
    run(kernel, x, grid=2, workgroup=4)
    np.testing.assert_array_equal(x, np.arange(8) * 4)


def test_constant_indices_are_checked_and_run_time_ones_are_not():
    def past(x):
        t = hl.shared(4, hl.f32)
        t[4] = 1

    def negative(x):
        x[-1] = 1

    def negative_bound(x):
        x[-2:][0] = 1

    def too_many(x):
        x[0, 0] = 1

    def too_few(x):
        x[0] = 1

    def whole(x):
        x[:] = 1

    one, two = np.zeros(1), np.zeros((2, 2))
    for kernel, x, text in [
        (past, one, "index 4 is out of bounds for axis 0 of extent 4"),
        (negative, one, "indices do not count from the end"),
        (negative_bound, one, "indices do not count from the end"),
        (too_many, one, "2 indices for an array of 1 dimension"),
        (too_few, two, "a sub-array cannot be assigned"),
        (whole, one, "a sub-array cannot be assigned"),
    ]:
        with pytest.raises(IndexingError, match=text):
            traced(kernel, x)


def test_shapes_must_be_constants():
    def kernel(x, n):
        hl.shared(n, hl.f32)

    with pytest.raises(NotStaticError, match="the shape of a shared array must be constant"):
        traced(kernel, np.zeros(1), 4)


def test_writing_constant_memory_is_refused():
    def kernel(x):
        x[0] = 1

    with pytest.raises(IndexingError, match="constant memory"):
        trace(kernel, (ArrayType(SCALARS["f32"], 1, "constant"),))
