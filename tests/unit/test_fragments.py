"""Matrix fragments: products in the documented order, on every device, against NumPy."""

import numpy as np
import pytest
from frontend_tools import run

import hetir
import hetir.lang as hl
from hetir.diagnostics import HetirError

ACCUMULATED = {hl.f16: hl.f32, hl.bf16: hl.f32, hl.f32: hl.f32, hl.f64: hl.f64}
ACCUMULATED |= {hl.i8: hl.i32, hl.u8: hl.i32}


def product(a, b, c):
    """`c + a @ b`, one product after the other in the order of the inner axis."""
    total = c.copy()
    for k in range(a.shape[1]):
        term = a[:, k : k + 1].astype(c.dtype) * b[k : k + 1].astype(c.dtype)
        total = total + term
    return total


def matrix(kind, shape, seed):
    rng = np.random.default_rng(seed)
    if kind.is_int:
        info = np.iinfo(kind.numpy)
        return rng.integers(info.min, info.max, shape, kind.numpy, endpoint=True)
    # magnitudes far apart, so that another order or rounding shows
    values = rng.normal(size=shape) * 2.0 ** rng.integers(-8, 8, shape)
    return values.astype(kind.numpy)


def multiply(a, b, c, m: hl.static, n: hl.static, k: hl.static):
    tile_a = hl.load_fragment(hl.fragment("a", m, k, a.dtype), a, (0, 0))
    tile_b = hl.load_fragment(hl.fragment("b", k, n, b.dtype), b, (0, 0))
    tile_c = hl.load_fragment(hl.fragment("acc", m, n, c.dtype), c, (0, 0))
    hl.store_fragment(c, (0, 0), hl.mma(tile_a, tile_b, tile_c))


def check(kind, shape, width, device):
    m, n, k = shape
    a, b = matrix(kind, (m, k), 1), matrix(kind, (k, n), 2)
    c = matrix(ACCUMULATED[kind], (m, n), 3)
    wanted = product(a, b, c)
    kernel = hetir.kernel(subgroup_size=width)(multiply)
    kernel.launch((a, b, c, m, n, k), grid=1, workgroup=width, device=device).wait()
    np.testing.assert_array_equal(c.view(np.uint8), wanted.view(np.uint8))


SHAPES = [(8, 8, 4), (8, 8, 8), (16, 8, 16), (8, 16, 8), (16, 16, 8), (16, 16, 16)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_of_every_shape(shape):
    check(hl.f16, shape, 32, "emulator")


@pytest.mark.parametrize("kind", ACCUMULATED, ids=str)
def test_products_of_every_type(kind):
    check(kind, (8, 16, 8), 32, "emulator")


@pytest.mark.parametrize("width", [4, 8, 16, 64, 128])
@pytest.mark.parametrize("shape", [(4, 4, 4), (8, 16, 4), (16, 8, 8), (4, 32, 4), (32, 4, 8)])
def test_products_at_every_width(shape, width):
    check(hl.f32, shape, width, "emulator")


def test_products_of_single_lanes():
    check(hl.f32, (8, 8, 8), 1, "emulator")
    check(hl.f64, (4, 8, 8), 2, "emulator")


@pytest.mark.parametrize("kind", ACCUMULATED, ids=str)
@pytest.mark.parametrize("device", ["cpu", "opencl:0", "ptx-emulator"])
def test_products_have_the_same_bits_on_every_device(kind, device):
    check(kind, (16, 8, 4), 32, device)


def test_tiles_load_and_store_in_both_layouts():
    def kernel(x, y):
        kind = hl.fragment("a", 8, 4, hl.f32)
        hl.store_fragment(y, (1, 2), hl.load_fragment(kind, x, (4, 3)))
        hl.store_fragment(y, (9, 2), hl.load_fragment(kind, x, (2, 4), "column"))
        hl.store_fragment(y, (1, 8), hl.load_fragment(kind, x, (4, 3)), layout="column")

    x = np.arange(16 * 16, dtype=np.float32).reshape(16, 16)[:, ::-1]
    y = np.zeros((20, 20), np.float32)
    for width in (32, 128):
        y[:] = 0
        run(kernel, x, y, workgroup=width, subgroup_size=width)
        wanted = np.zeros_like(y)
        wanted[1:9, 2:6] = x[4:12, 3:7]
        wanted[9:17, 2:6] = x[2:6, 4:12].T
        wanted[1:5, 8:16] = x[4:12, 3:7].T
        np.testing.assert_array_equal(y, wanted)


def relu(f, bias):
    return hl.max(f * 0.5 + bias, 0)


def test_elements_are_computed_with():
    def kernel(x, y, z):
        kind = hl.fragment("acc", 8, 8, hl.f32)
        f = hl.load_fragment(kind, x, (0, 0))
        total = kind(1)
        for _ in range(3):
            total = total + f
        hl.store_fragment(y, (0, 0), hl.where(f > 0, relu(total, x[0, 0]), -f))
        hl.store_fragment(z, (0, 0), hl.exp(f).to(hl.f16))

    x = matrix(hl.f32, (8, 8), 5)
    y, z = np.zeros((8, 8), np.float32), np.zeros((8, 8), np.float16)
    run(kernel, x, y, z, workgroup=32)
    total = np.float32(1) + x + x + x
    scaled = np.maximum(total * np.float32(0.5) + x[0, 0], np.float32(0))
    np.testing.assert_array_equal(y, np.where(x > 0, scaled, -x))
    with np.errstate(over="ignore"):
        wanted = np.exp(x.astype(float)).astype(np.float16)
    np.testing.assert_allclose(z, wanted, rtol=1e-3, atol=1e-7)


@hetir.kernel
def matmul(a, b, c):
    """A matrix product, a tile of 16 x 16 a subgroup; extents are multiples of 16."""
    row, column = hl.group_id(1) * 16, (hl.group_id(0) * 2 + hl.subgroup_id()) * 16
    total = hl.fragment("acc", 16, 16, hl.f32)(0)
    for k in range(0, a.shape[1], 16):
        left = hl.load_fragment(hl.fragment("a", 16, 16, hl.f16), a, (row, k))
        right = hl.load_fragment(hl.fragment("b", 16, 16, hl.f16), b, (k, column))
        total = hl.mma(left, right, total)
    hl.store_fragment(c, (row, column), total)


@pytest.mark.parametrize("device", ["emulator", "cpu"])
def test_a_tiled_product(device):
    a, b = matrix(hl.f16, (32, 48), 6), matrix(hl.f16, (48, 64), 7)
    c = np.zeros((32, 64), np.float32)
    matmul.launch((a, b, c), grid=(2, 2), workgroup=64, device=device).wait()
    np.testing.assert_array_equal(c, product(a, b, np.zeros_like(c)))


def test_a_last_subgroup_without_all_lanes_is_reported():
    @hetir.kernel(debug=True)
    def kernel(x):
        f = hl.load_fragment(hl.fragment("acc", 8, 8, hl.f32), x, (hl.subgroup_id() * 8, 0))
        hl.store_fragment(x, (hl.subgroup_id() * 8, 0), f * 2)

    assert not hetir.check(kernel, (np.zeros((16, 8), np.float32),), 1, 64).faults
    report = hetir.check(kernel, (np.zeros((16, 8), np.float32),), 1, 40)
    assert "whole subgroups of 32" in str(report)


def test_types_are_checked():
    for parts, shown in (
        (("c", 8, 8, hl.f32), "used as 'a', 'b', 'acc', got 'c'"),
        (("a", 8, 9, hl.f32), "4, 8, 16, 32 rows and columns, got 9"),
        (("acc", 8, 8, hl.f16), "a fragment 'acc' holds f32, f64, i32, got `f16`"),
        (("a", 8, 8, float), "a fragment 'a' holds f16"),
    ):
        with pytest.raises(HetirError, match=shown):
            hl.fragment(*parts)
