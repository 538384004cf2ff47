"""Kernels for the C++ example."""

import hetir
import hetir.lang as hl


@hetir.kernel(workgroup=256)
def saxpy(a: hl.f32, x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    """Add a multiple of x to y."""
    i = hl.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


@hetir.kernel(workgroup=64)
def group_sums(x: hl.Array[hl.i32, 1], sums: hl.Array[hl.i64, 1]):
    """Sum 64 elements a workgroup through shared memory."""
    held = hl.shared((64,), hl.i64)
    me = hl.local_id(0)
    held[me] = hl.i64(x[hl.global_id(0)]) if hl.global_id(0) < x.shape[0] else hl.i64(0)
    hl.barrier()
    step = 32
    while step > 0:
        if me < step:
            held[me] = held[me] + held[me + step]
        hl.barrier()
        step = step // 2
    if me == 0:
        sums[hl.group_id(0)] = held[0]


@hetir.kernel
def checked_sqrt(x: hl.Array[hl.f64, 1]):
    """Take square roots, of what has one."""
    i = hl.global_id(0)
    hl.assert_(x[i] >= 0.0, "a negative number has no square root")  # noqa: PT009
    x[i] = hl.sqrt(x[i])
