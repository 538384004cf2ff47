"""The op `ctz`, from Python to every device, against Python's integers."""

import numpy as np
import pytest

import hetir
import hetir.lang as hl


@hetir.kernel
def count(x, y):
    i = hl.global_id(0)
    if i < x.shape[0]:
        y[i] = hl.ctz(x[i])


@pytest.mark.parametrize("device", ["cpu", "emulator"])
@pytest.mark.parametrize("dtype", [f"{k}{b}" for k in "iu" for b in (1, 2, 4, 8)])
def test_ctz_counts_trailing_zeros(dtype, device):
    bits = 8 * np.dtype(dtype).itemsize
    info = np.iinfo(dtype)
    edge = [0, 1, 2, 3, 8, 12, info.min, info.max, info.max - 1]
    x = np.array([*edge, *(1 << k for k in range(bits - 1))], dtype)
    y = np.empty_like(x)
    count.launch((x, y), grid=hetir.cdiv(x.size, 64), workgroup=64, device=device).wait()
    want = [(v & -v).bit_length() - 1 if v else bits for v in x.tolist()]
    assert y.tolist() == want
