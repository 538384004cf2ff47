"""Kernels for the tests of the C library."""

import hetir
import hetir.lang as hl


@hetir.kernel(workgroup=64)
def saxpy(a: hl.f32, x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    """Add a multiple of x to y."""
    i = hl.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


@hetir.kernel
def scalars(
    b: hl.bool_,
    i8: hl.i8,
    u8: hl.u8,
    i64: hl.i64,
    u64: hl.u64,
    f16: hl.f16,
    bf16: hl.bf16,
    f64: hl.f64,
    v: hl.vector(hl.i32, 3),
    out: hl.Array[hl.f64, 1],
):
    """Write every scalar as a double."""
    out[0] = hl.f64(1) if b else hl.f64(0)
    out[1] = hl.f64(i8)
    out[2] = hl.f64(u8)
    out[3] = hl.f64(i64)
    out[4] = hl.f64(u64)
    out[5] = hl.f64(f16)
    out[6] = hl.f64(bf16)
    out[7] = f64
    out[8] = hl.f64(v[0] + 10 * v[1] + 100 * v[2])


@hetir.kernel
def transpose(x: hl.Array[hl.i32, 2], y: hl.Array[hl.i32, 2]):
    """Write x to y with its axes exchanged."""
    i, j = hl.global_id(1), hl.global_id(0)
    if i < x.shape[0] and j < x.shape[1]:
        y[j, i] = x[i, j]


@hetir.kernel
def scaled(factor: hl.static, x: hl.Array[hl.f32, 1]):
    """Multiply by a compile-time constant."""
    x[hl.global_id(0)] *= factor


@hetir.kernel(debug=True)
def shifted(x: hl.Array[hl.f32, 2]):
    """Write past the last column, where that is checked."""
    x[0, hl.global_id(0) + 1] = 5.0


@hetir.kernel
def told(x: hl.Array[hl.f32, 1]):
    """Print what is found and refuse what is negative."""
    i = hl.global_id(0)
    hl.print("element {} is {}", i, x[i])
    hl.assert_(x[i] >= 0.0, "negative")  # noqa: PT009
