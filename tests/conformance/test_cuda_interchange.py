"""Arrays of CUDA to and from other libraries, over the make-believe libcuda."""

import numpy as np
import pytest

from hetir.runtime import ArgumentError, Array, as_operand, operands, registry
from hetir.runtime.native import extension

CUDA = (2, 0)


@pytest.fixture
def there(cuda_bench, monkeypatch):
    """The device, as the one that `cuda:0` names."""
    find = registry.device
    monkeypatch.setattr(
        operands._DEVICES,
        "find",
        lambda name: cuda_bench.device if name == "cuda:0" else find(name),
    )
    return cuda_bench.device


class Foreign:
    """Another library's array on the GPU."""

    def __init__(self, array):
        self.array, self.streams = array, []

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        self.streams.append(options.get("stream"))
        return self.array.__dlpack__(**options)


class Interface:
    """An array that shows `__cuda_array_interface__` and nothing else."""

    def __init__(self, shown):
        self.__cuda_array_interface__ = shown


def test_dlpack_of_a_gpu_array_shares_its_memory(there, cuda_bench):
    made = there.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert made.__dlpack_device__() == CUDA
    foreign = Foreign(made[:, ::-1])
    seen = as_operand(foreign)
    assert isinstance(seen, Array)
    assert seen.device is there
    assert seen.address == made[:, ::-1].address
    assert seen.numpy().tolist() == [[2, 1, 0], [5, 4, 3]]
    # the producer was told our stream, as CUDA names it
    assert foreign.streams == [there.driver.stream(there.default_queue.handle)]
    assert foreign.streams[0] > 0


def test_a_launch_takes_foreign_memory_and_the_consumer_sees_what_it_wrote(there, cuda_bench):
    y = there.zeros(8) if hasattr(there, "zeros") else there.array(np.zeros(8, np.float32))
    x = there.array(np.ones(8, np.float32))
    launch = cuda_bench.program("saxpy", ("a", "x", "y")).launch(
        (2.0, as_operand(Foreign(x)), y), grid=1, workgroup=8
    )
    owner, address, *_ = extension().from_dlpack(y.__dlpack__(max_version=(1, 0), stream=1))
    assert launch.done, "export on a stream waits for the launch that writes the array"
    assert address == y.address
    assert y.numpy().tolist() == [2] * 8
    launch.wait()
    del owner


def test_a_copy_on_the_host(there):
    made = there.array(np.arange(3, dtype=np.float32))
    capsule = made.__dlpack__(max_version=(1, 0), dl_device=(1, 0))
    *_, device, flags = extension().from_dlpack(capsule)
    assert device == (1, 0)
    assert flags == 2
    assert np.from_dlpack(made, device="cpu").tolist() == [0, 1, 2]
    with pytest.raises(BufferError):
        made.__dlpack__(dl_device=(1, 0), copy=False)


def test_the_cuda_array_interface_both_ways(there, fake_calls):
    made = there.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    shown = made[:, 1:].__cuda_array_interface__
    assert shown == {
        "shape": (2, 2),
        "typestr": "<f4",
        "data": (made.address + 4, False),
        "strides": (12, 4),
        "version": 3,
        "stream": None,
    }
    seen = as_operand(Interface(shown))
    assert seen.numpy().tolist() == [[1, 2], [4, 5]]
    assert not hasattr(made, "__array_interface__")
    contiguous = {**made.__cuda_array_interface__, "stream": 1}
    assert contiguous["strides"] is None
    before = fake_calls("cuStreamSynchronize")
    assert as_operand(Interface(contiguous)).numpy().tolist() == made.numpy().tolist()
    assert fake_calls("cuStreamSynchronize") > before
    with pytest.raises(ArgumentError, match="mask"):
        as_operand(Interface({**shown, "mask": object()}))


@pytest.fixture
def fake_calls(there, monkeypatch):
    """How often a function of the library was called."""
    counts = {}
    call = there.driver.library.call

    def counted(name, *arguments):
        counts[name] = counts.get(name, 0) + 1
        return call(name, *arguments)

    monkeypatch.setattr(there.driver.library, "call", counted)
    return lambda name: counts.get(name, 0)
