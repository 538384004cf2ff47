"""Products of converted numbers, at every width of the result."""

import numpy as np
import pytest

import hetir
import hetir.lang as hl

TYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u16": np.uint16,
         "u32": np.uint32, "u64": np.uint64}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_a_product_of_two_conversions_has_its_own_width(name):
    kind = getattr(hl, name)

    @hetir.kernel
    def product(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1], z):
        i = hl.global_id(0)
        z[i] = hl.cast(x[i], kind) * hl.cast(y[i], kind)

    x = np.array([0, 1, -1, 70_000, -70_000, 2**31 - 1, -(2**31), 255], np.int32)
    y = x[::-1].copy()
    z = np.zeros(8, TYPES[name])
    product.launch((x, y, z), grid=1, workgroup=8, device="ptx-emulator").wait()
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(z, x.astype(TYPES[name]) * y.astype(TYPES[name]))
