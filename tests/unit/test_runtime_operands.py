"""Arrays of other libraries are taken over their own memory, or refused with what to do."""

import array
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest
import torch

import hetir
import hetir.runtime as rt
from hetir.runtime import ArgumentError, as_operand


def test_what_fits_is_given_back_unchanged():
    for value in (np.zeros(3), rt.zeros(3), 1, 2.5, np.float32(1), (1, 2)):
        assert as_operand(value) is value


def test_subclasses_become_arrays_over_the_same_memory(tmp_path):
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=4)
    seen = as_operand((mapped,))[0]
    assert type(seen) is np.ndarray
    seen[1] = 5
    assert mapped[1] == 5


def test_masked_arrays_are_refused():
    masked = np.ma.masked_array([1.0, 2.0], [True, False])
    for value in (masked, (1, masked)):
        with pytest.raises(ArgumentError, match="would not see its mask") as caught:
            as_operand(value)
        assert "x.filled" in str(caught.value)

    @hetir.kernel
    def kernel(x):
        x[0] = 1

    # also where a plain array of the same type was passed before
    kernel[1, 1](np.zeros(2))
    with pytest.raises(ArgumentError, match="would not see its mask"):
        kernel[1, 1](masked)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.float32, np.float32),
        (torch.float16, np.float16),
        (torch.float64, np.float64),
        (torch.bfloat16, ml_dtypes.bfloat16),
        (torch.float8_e4m3fn, ml_dtypes.float8_e4m3fn),
        (torch.float8_e5m2, ml_dtypes.float8_e5m2),
        (torch.int64, np.int64),
        (torch.uint8, np.uint8),
        (torch.bool, np.bool_),
    ],
    ids=str,
)
def test_tensors_share_their_memory(dtype, expected):
    tensor = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(dtype)
    seen = as_operand(tensor)
    assert seen.dtype == expected
    assert seen.shape == (2, 3)
    assert seen.ctypes.data == tensor.data_ptr()
    seen[0, 0] = 1
    assert float(tensor[0, 0]) == 1


def test_strides_and_offsets_of_tensors_are_kept():
    tensor = torch.arange(24, dtype=torch.bfloat16).reshape(4, 6)
    part = tensor.t()[1::2, 2:]
    seen = as_operand(part)
    assert seen.ctypes.data == part.data_ptr()
    assert seen.strides == tuple(2 * s for s in part.stride())
    assert seen.astype(np.float32).tolist() == part.float().tolist()


def test_tensors_that_cannot_be_shared_are_refused():
    with pytest.raises(ArgumentError, match=r"x\.detach\(\)"):
        as_operand(torch.ones(3, requires_grad=True))
    with pytest.raises(ArgumentError, match="to_dense"):
        as_operand(torch.ones(3).to_sparse())
    with pytest.raises(ArgumentError, match="`meta`"):
        as_operand(torch.ones(3, device="meta"))


def test_named_tuples_keep_their_type_and_take_what_is_inside():
    class Pair(NamedTuple):
        x: object
        n: object

    tensor = torch.ones(3)
    seen = as_operand(Pair(Pair(tensor, 1), 2))
    assert type(seen) is type(seen.x) is Pair
    assert seen.x.x.ctypes.data == tensor.data_ptr()
    plain = Pair(np.ones(3), 2)
    assert as_operand(plain) is plain


def test_dlpack_both_ways():
    class Exporter:
        """Any library's array: DLPack and nothing else."""

        def __init__(self, host):
            self.host = host

        def __dlpack__(self, **options):
            return self.host.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.host.__dlpack_device__()

    host = np.arange(6.0).reshape(2, 3)
    seen = as_operand(Exporter(host))
    assert seen.ctypes.data == host.ctypes.data
    made = rt.array(host)
    there = torch.from_dlpack(made)
    assert there.tolist() == host.tolist()
    there[0, 0] = 42
    assert made.numpy()[0, 0] == 42
    back = as_operand(rt.array(there))
    assert back.numpy()[0, 0] == 42


def test_memory_of_an_exported_array_outlives_it():
    exported = torch.from_dlpack(rt.array(np.full(1000, 7.0)))
    viewed = rt.array(np.full(1000, 8.0)).numpy()
    for _ in range(10):
        rt.array(np.zeros(1000))
    assert (exported == 7).all()
    assert (viewed == 8).all()


def test_buffers_and_array_interfaces():
    raw = array.array("f", [1, 2, 3])
    seen = as_operand(raw)
    seen[0] = 9
    assert raw[0] == 9
    assert as_operand(bytes(4)).flags.writeable is False
    text = "text"
    assert as_operand(text) is text

    class OnCuda:
        @property
        def __cuda_array_interface__(self):
            return {"version": 3}

    with pytest.raises(ArgumentError, match="CUDA"):
        as_operand(OnCuda())


def test_array_types_and_errors():
    for dtype in ("bf16", "f8e4m3", "u16", "bool"):
        assert rt.zeros((2, 2), dtype).numpy().astype(np.float32).tolist() == [[0, 0], [0, 0]]
    with pytest.raises(ArgumentError, match="complex128"):
        rt.empty(3, complex)
    with pytest.raises(ArgumentError, match="negative"):
        rt.empty((2, -1))
    with pytest.raises(ArgumentError, match="integers and slices"):
        rt.zeros(4)[np.array([1, 2])]
    with pytest.raises(IndexError):
        rt.zeros(4)[4]
    with pytest.raises(rt.DeviceError, match="no device `warp`"):
        rt.array([1.0], device="warp")


@pytest.mark.parametrize("index", [1, (slice(None), 2), (..., -1), (slice(None, None, -2), None)])
def test_views_follow_numpy(index):
    host = np.arange(60).reshape(3, 4, 5)
    assert rt.array(host)[index].numpy().tolist() == host[index].tolist()
    assert rt.array(host)[1, 2, 3].numpy() == host[1, 2, 3]
