"""Arrays to and from other libraries: DLPack 1.x by torch, NumPy and hand-made capsules."""

import ctypes
import gc
import threading
import weakref
from typing import ClassVar

import numpy as np
import pytest
import torch

import hetir
import hetir.lang as hl
from hetir.runtime import ArgumentError, interchange
from hetir.runtime.dtypes import NUMPY
from hetir.runtime.native import extension

READ_ONLY, COPIED = 1, 2


class Exporter:
    """A library's array: DLPack and nothing else, by a protocol of before 1.0 where `old`."""

    def __init__(self, array, *, old=False):
        self.array, self.old = array, old

    def __dlpack__(self, **options):
        if self.old and "max_version" in options:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def name_of(capsule):
    get = ctypes.pythonapi.PyCapsule_GetName
    get.restype, get.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return get(capsule)


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("dtype", NUMPY)
def test_every_type_goes_out_and_in_without_a_copy(dtype, old):
    made = hetir.array(np.arange(24).reshape(2, 3, 4).astype(NUMPY[dtype]))
    view = made[::-1, :, 1::2]
    back = hetir.from_dlpack(Exporter(view, old=old))
    assert back.address == view.address
    assert (back.shape, back.strides, back.dtype) == (view.shape, view.strides, view.dtype)
    assert back.numpy().tobytes() == made.numpy()[::-1, :, 1::2].tobytes()


@pytest.mark.parametrize("dtype", ["bool", "i8", "u8", "i16", "i64", "f16", "bf16", "f32", "f64"])
def test_torch_shares_the_memory(dtype):
    host = np.array([[0, 1, 2], [3, 4, 5]]).astype(NUMPY[dtype])
    made = hetir.array(host)
    there = torch.from_dlpack(made)
    assert there.data_ptr() == made.address
    assert there.double().tolist() == host.astype(float).tolist()
    there[0, 0] = 1
    assert made.numpy()[0, 0] == 1
    back = hetir.from_dlpack(there.T)
    assert (back.address, back.shape, back.strides) == (
        made.address,
        (3, 2),
        (host.itemsize, 3 * host.itemsize),
    )


def test_capsules_are_versioned_where_the_consumer_reads_that():
    made = hetir.zeros(3)
    assert name_of(made.__dlpack__()) == b"dltensor"
    assert name_of(made.__dlpack__(max_version=(0, 8))) == b"dltensor"
    assert name_of(made.__dlpack__(max_version=(1, 0))) == b"dltensor_versioned"
    assert np.from_dlpack(made).ctypes.data == made.address


def test_read_only_memory_stays_so():
    frozen = np.arange(4, dtype=np.float32)
    frozen.flags.writeable = False
    seen = hetir.from_dlpack(frozen)
    assert seen.address == frozen.ctypes.data
    assert not seen.flags.writeable
    assert not seen[1:].numpy().flags.writeable
    capsule = seen.__dlpack__(max_version=(1, 1))
    assert extension().from_dlpack(capsule)[-1] == READ_ONLY
    with pytest.raises(BufferError, match="cannot say"):
        seen.__dlpack__()

    @hetir.kernel
    def fill(x: hl.Array[hl.f32, 1]):
        x[hl.global_id(0)] = 1.0

    with pytest.raises(ArgumentError, match="read-only"):
        fill[1, 4](seen)
    with pytest.raises(ArgumentError, match="read-only"):
        seen.copy_from(np.zeros(4, np.float32))


def test_copies_on_request():
    made = hetir.array(np.arange(6, dtype=np.float32))[::2]
    owner, address, *_, flags = extension().from_dlpack(
        made.__dlpack__(max_version=(1, 0), copy=True)
    )
    assert address != made.address
    assert flags == COPIED
    assert np.from_dlpack(Exporter(made), copy=True).tolist() == [0, 2, 4]
    assert np.from_dlpack(made, device="cpu").ctypes.data == made.address
    del owner


def test_a_device_that_it_is_not_on_is_refused():
    made = hetir.zeros(3)
    with pytest.raises(BufferError, match="not on"):
        made.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="no streams"):
        made.__dlpack__(stream=7)
    assert name_of(made.__dlpack__(stream=-1)) == b"dltensor"


def test_a_capsule_is_used_once():
    capsule = hetir.zeros(3).__dlpack__(max_version=(1, 0))
    extension().from_dlpack(capsule)
    with pytest.raises(BufferError, match="used before"):
        extension().from_dlpack(capsule)
    with pytest.raises(BufferError, match="no DLPack capsule"):
        extension().from_dlpack("capsule")


@pytest.mark.parametrize("version", [None, (1, 0)])
@pytest.mark.parametrize("taken", [False, True])
def test_memory_lives_as_long_as_somebody_uses_it(version, taken):
    made = hetir.array(np.arange(4.0))
    last = weakref.ref(made.buffer.memory.token)
    held = made.__dlpack__(max_version=version)
    if taken:
        held = extension().from_dlpack(held)
    del made
    gc.collect()
    assert last() is not None
    thread = threading.Thread(target=lambda value: None, args=(held,))
    del held
    thread.start()
    thread.join()
    del thread
    gc.collect()
    assert last() is None


def test_the_exporter_lives_as_long_as_its_array():
    host = np.arange(4.0)
    last = weakref.ref(host)
    seen = hetir.from_dlpack(Exporter(host))[1:]
    del host
    gc.collect()
    assert last() is not None
    assert seen.numpy().tolist() == [1, 2, 3]
    del seen
    gc.collect()
    assert last() is None


class Tensor(ctypes.Structure):
    """DLTensor of dlpack.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned of dlpack.h."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


NAME = b"dltensor_versioned"


class HandMade:
    """A capsule written field by field, as another library's C would; it is never freed."""

    kept: ClassVar = []

    def __init__(self, **fields):
        self.kept.append(self)
        self.data = np.arange(8, dtype=np.float32)
        self.shape = (ctypes.c_int64 * 2)(2, 3)
        values = {"data": self.data.ctypes.data, "device_type": 1, "ndim": 2, "code": 2,
                  "bits": 32, "lanes": 1, "shape": self.shape, "byte_offset": 8}  # fmt: skip
        major = fields.pop("major", 1)
        self.managed = Versioned(major=major, tensor=Tensor(**{**values, **fields}))

    def __dlpack__(self, **options):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.managed), NAME, None)

    def __dlpack_device__(self):
        return (self.managed.tensor.device_type, 0)


def test_capsules_of_others_are_read_by_the_specification():
    seen = hetir.from_dlpack(HandMade())  # no strides: contiguous; and a byte offset
    assert seen.numpy().tolist() == [[2, 3, 4], [5, 6, 7]]
    strides = (ctypes.c_int64 * 2)(1, 2)
    assert hetir.from_dlpack(HandMade(strides=strides)).numpy().tolist() == [[2, 4, 6], [3, 5, 7]]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"major": 2}, "DLPack 2, this reads 1"),
        ({"lanes": 4}, "has no type in a kernel"),
        ({"code": 5, "bits": 64}, "has no type in a kernel"),
        ({"ndim": -1}, "malformed"),
        ({"ndim": 1000}, "malformed"),
        ({"device_type": 10}, "device 10 has no driver"),
        ({"device_type": 2}, "CUDA device"),
    ],
)
def test_capsules_that_cannot_be_read_are_refused(fields, message, monkeypatch):
    monkeypatch.setattr(interchange, "CUDA", 2)
    with pytest.raises(ArgumentError, match=message):
        hetir.from_dlpack(HandMade(**fields))


def test_the_array_interface_shares_and_keeps_the_memory():
    made = hetir.array(np.arange(6.0).reshape(2, 3))
    view = made[:, ::2]
    seen = np.asarray(view)
    assert seen.ctypes.data == view.address
    assert seen.tolist() == [[0, 2], [3, 5]]
    assert view.__array_interface__["strides"] == (24, 16)
    assert made.__array_interface__["strides"] is None
    made.free()
    hetir.zeros((2, 3), "f64")
    assert seen.tolist() == [[0, 2], [3, 5]]
    with pytest.raises(AttributeError):
        hetir.zeros(3).__cuda_array_interface__  # noqa: B018
    assert not hasattr(hetir.zeros(3, "bf16"), "__array_interface__")
    assert np.asarray(hetir.zeros(3, "bf16")).dtype == NUMPY["bf16"]


def test_a_freed_array_and_its_views_are_refused():
    made = hetir.array(np.arange(6.0))
    view = made[1:]
    made.free()
    assert "freed" in repr(view)
    for use in (view.numpy, view.__dlpack__, lambda: view.address, lambda: made[1:]):
        with pytest.raises(ArgumentError, match="freed"):
            use()

    @hetir.kernel
    def copy(x, y):
        i = hl.global_id(0)
        y[i] = x[i]

    with pytest.raises(ArgumentError, match="freed"):
        copy[1, 4](view, np.zeros(5))


def test_arrays_are_written_from_the_host():
    made = hetir.zeros((2, 3))
    made.copy_from(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert made.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    made[1].copy_from(np.zeros(3, np.float32))
    assert made.numpy().tolist() == [[0, 1, 2], [0, 0, 0]]
    for wrong in (np.zeros((2, 3)), np.zeros(3, np.float32)):
        with pytest.raises(ArgumentError, match="does not fit"):
            made.copy_from(wrong)
    with pytest.raises(ArgumentError, match="strided"):
        made[:, 1].copy_from(np.zeros(2, np.float32))
