"""The CUDA driver over a make-believe libcuda: its calls, its errors, and kernels end to end.

Kernels run as PTX on the emulator, started by `cuLaunchKernel` with the parameters that the
driver passed and in the memory that it allocated.
"""

import gc
from dataclasses import replace

import cffi
import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import compiler, library
from hetir.artifact import Resources
from hetir.emulator.ptx import Machine, Memory, parse
from hetir.runtime import DeviceError, DriverAbsentError, DriverError, LaunchFailedError
from hetir.runtime.device import Device
from hetir.runtime.drivers import cuda, libcuda
from hetir.runtime.hostmemory import host_bytes
from hetir.testing import differences

DECLARATIONS = """
const char *fnTakeCalls(void);
void fnFailNext(const char *call, int code);
uint64_t fnLiveBytes(void);
void fakeSetExecutor(int (*run)(const char *, const char *, const int64_t *, const int64_t *,
                                unsigned, const void *, size_t));
void fakeSetDevices(int count);
int fakeMarks(void);
int fakeDepth(void);
int fakeModules(void);
int fakeAllocation(int index, uint64_t *address, uint64_t *size, void **bytes);
"""
QUIET = {"cuEventQuery", "cuEventElapsedTime"}


class Fake:
    """What the make-believe library tells a test."""

    def __init__(self, opened):
        self.ffi = cffi.FFI()
        self.ffi.cdef(DECLARATIONS)
        self.raw = self.ffi.dlopen(opened)
        self.launches = []
        self._run = self.ffi.callback(
            "int(const char *, const char *, const int64_t *, const int64_t *, unsigned, "
            "const void *, size_t)",
            self._execute,
            error=719,
        )
        self.raw.fakeSetExecutor(self._run)

    def _execute(self, text, entry, grid, group, shared, params, size):
        memory = Memory()
        for number, (address, length, place) in enumerate(self.allocations()):
            block = host_bytes(place, -(-length // 4) * 4)
            memory.add(block, f"allocation {number}", address=address)
        grid, group = tuple(grid[0:3]), tuple(group[0:3])
        self.launches.append((grid, group, shared))
        machine = Machine(parse(self.ffi.string(text).decode()))
        name = self.ffi.string(entry).decode()
        machine.launch(
            name,
            grid,
            group,
            bytes(self.ffi.buffer(params, size)),
            shared,
            memory,
            cooperative=True,
        )
        return 0

    def allocations(self):
        address, size = self.ffi.new("uint64_t *"), self.ffi.new("uint64_t *")
        place, index = self.ffi.new("void **"), 0
        while (index := self.raw.fakeAllocation(index, address, size, place)) > 0:
            yield address[0], size[0], int(self.ffi.cast("uintptr_t", place[0]))

    def calls(self):
        """The calls since the last time, but those that may come at any moment."""
        taken = self.ffi.string(self.raw.fnTakeCalls()).decode().split()
        return [name for name in taken if name.startswith("cu") and name not in QUIET]

    def fail(self, call, code):
        self.raw.fnFailNext(call.encode(), code)


@pytest.fixture(scope="module")
def fake(cuda_library, cuda_bench):
    made = Fake(cuda_library.path)
    yield made
    cuda_bench.device.wait()
    assert made.raw.fakeDepth() == 0


def values(n=8):
    return 2.0, np.ones(n, np.float32), np.zeros(n, np.float32)


def test_a_launch_copies_in_runs_and_copies_back(fake, cuda_bench):
    program = cuda_bench.program("saxpy")
    for _ in range(3):  # makes what is kept for later
        program.launch(values(), grid=1, workgroup=8).wait()
    cuda_bench.device.wait()  # other tests' launches, on all queues
    gc.collect()
    fake.calls()
    launch = program.launch(values(), grid=1, workgroup=8)
    # one more staging buffer, where both were in use at once for the first time
    launched = [c for c in fake.calls() if c not in ("cuMemHostAlloc", "cuEventCreate")]
    copied = ["cuMemAlloc", "cuMemcpyHtoDAsync", "cuEventRecord"]
    assert launched == [*copied, *copied, "cuEventRecord", "cuLaunchKernel", "cuEventRecord"]
    launch.wait()
    assert fake.calls() == ["cuMemcpyDtoHAsync", "cuStreamSynchronize", "cuMemFree", "cuMemFree"]
    assert fake.raw.fakeDepth() == 0


def test_small_writes_wait_for_nothing_and_large_ones_for_themselves(fake, cuda_bench):
    driver = cuda_bench.driver
    queue = driver.make_queue()
    for size, waits in ((100, False), ((1 << 20) + 1, True)):
        memory, source = driver.allocate(size), np.arange(size, dtype=np.uint32).view(np.uint8)
        source = source[:size].copy()
        expected = source.copy()
        fake.calls()
        driver.write(queue, memory, 0, source)
        assert ("cuStreamSynchronize" in fake.calls()) == waits
        source[:] = 0
        back = np.empty(size, np.uint8)
        driver.read(queue, memory, 0, back)
        assert (back == expected).all()
        driver.free(memory)
    driver.free_queue(queue)


@pytest.mark.parametrize(
    ("call", "code", "error", "text"),
    [
        ("cuMemAlloc", 2, Exception, "has no memory for 32 bytes"),
        ("cuLaunchKernel", 400, LaunchFailedError, "CUDA_ERROR_INVALID_HANDLE (400)"),
        (
            "cuEventQuery",
            700,
            LaunchFailedError,
            "CUDA_ERROR_ILLEGAL_ADDRESS, the GPU's context is lost",
        ),
        ("cuMemcpyHtoDAsync", 1, DriverError, "CUDA_ERROR_INVALID_VALUE (1)"),
        ("cuMemcpyDtoHAsync", 1, LaunchFailedError, "CUDA_ERROR_INVALID_VALUE (1)"),
        ("cuStreamSynchronize", 9999, LaunchFailedError, "an unknown error (9999)"),
    ],
)
def test_each_failing_call_is_named_and_the_device_goes_on(
    fake, cuda_bench, call, code, error, text
):
    program = cuda_bench.program("saxpy")
    program.launch(values(), grid=1, workgroup=8).wait()
    gc.collect()
    launch = program.launch(values(), grid=1, workgroup=8) if call == "cuEventQuery" else None
    fake.fail(call, code)
    with pytest.raises(error) as caught:
        (launch or program.launch(values(), grid=1, workgroup=8)).wait()
    assert text in str(caught.value)
    if call != "cuMemAlloc":
        assert f"`{call}`" in str(caught.value)
    again = values()
    program.launch(again, grid=1, workgroup=8).wait()
    assert (again[2] == 2).all()
    assert fake.raw.fakeDepth() == 0


def test_the_log_of_the_drivers_compiler_is_in_the_error(fake, cuda_bench):
    artifact = replace(cuda_bench.artifact("saxpy"), text="no PTX at all")
    with pytest.raises(DeviceError) as caught:
        cuda_bench.device.load(artifact)
    assert "CUDA_ERROR_INVALID_PTX" in str(caught.value)
    assert "line 1; fatal: no PTX" in str(caught.value)


def test_a_missing_entry_is_named_and_its_module_unloaded(fake, cuda_bench):
    gc.collect()
    before = fake.raw.fakeModules()
    with pytest.raises(DeviceError, match="there is no entry `absent`"):
        cuda_bench.device.load(replace(cuda_bench.artifact("saxpy"), entry="absent"))
    assert fake.raw.fakeModules() == before


def test_nothing_leaks_over_many_launches(fake, cuda_bench):
    program = cuda_bench.program("saxpy")
    for _ in range(8):
        program.launch(values(), grid=1, workgroup=8).wait()
    gc.collect()
    before = fake.raw.fnLiveBytes(), fake.raw.fakeMarks(), fake.raw.fakeModules()
    for _ in range(100):
        program.launch(values(), grid=1, workgroup=8).wait()
    gc.collect()
    # events are kept for later: more exist only where more were in flight at once
    assert fake.raw.fakeMarks() <= before[1] + 4
    assert (fake.raw.fnLiveBytes(), fake.raw.fakeModules()) == (before[0], before[2])
    del program
    gc.collect()
    assert fake.raw.fakeModules() == before[2] - 1


def test_the_loaded_image_is_the_cubin_only_where_it_fits(cuda_bench):
    driver = cuda_bench.driver
    assert driver.loads_binary("ptx:sm_90")
    assert driver.loads_binary("ptx:sm_90a")
    assert not driver.loads_binary("ptx:sm_80")
    assert driver.can_run("ptx:sm_80")
    assert driver.can_run("ptx:sm_75")
    for newer in ("ptx:sm_100", "ptx:sm_100f", "ptx:sm_120a", "cpu", "ptx:sm_x"):
        assert not driver.can_run(newer)
    assert driver.portrait.targets[:2] == ("ptx:sm_90", "ptx:sm_90a")
    assert driver.portrait.limits.shared_bytes_optin == 232448


def test_what_is_absent_says_why(cuda_library, fake):
    with pytest.raises(DriverAbsentError) as caught:
        libcuda.Library("/there/is/no/libcuda.so.1")
    assert caught.value.reason == "/there/is/no/libcuda.so.1 is not here"
    with pytest.raises(DriverAbsentError) as caught:
        libcuda.Library("libm.so.6")
    assert caught.value.reason == "libm.so.6 has no `cuInit`"
    fake.raw.fakeSetDevices(0)
    try:
        with pytest.raises(DriverAbsentError) as caught:
            cuda_library.start()
    finally:
        fake.raw.fakeSetDevices(1)
        cuda_library.start()
    assert "CUDA_ERROR_NO_DEVICE" in caught.value.reason


def test_the_probe_takes_the_library_that_is_named(cuda_library, monkeypatch):
    monkeypatch.setenv("HETIR_LIBCUDA", cuda_library.path)
    (found,) = cuda.probe()
    assert found.portrait.title == "Fake GPU 0"
    assert found.portrait.units == 4


@pytest.fixture
def two_gpus(fake, cuda_library):
    fake.raw.fakeSetDevices(2)
    found = {}
    for ordinal in range(cuda_library.start()):
        driver = cuda.CudaDriver(cuda_library, ordinal)
        found[driver.portrait.name] = Device(driver, found.__getitem__)
    yield found
    for one in found.values():
        one.wait()
    gc.collect()
    fake.raw.fakeSetDevices(1)


def test_arrays_go_from_one_gpu_to_another_without_the_host(fake, two_gpus):
    first, second = two_gpus["cuda:0"], two_gpus["cuda:1"]
    assert second.portrait.title == "Fake GPU 1"
    x = np.arange(100_000, dtype=np.float32).reshape(100, 1000)
    here = first.array(x)
    fake.calls()
    there = here.to("cuda:1")
    assert "cuMemcpyPeerAsync" in (calls := fake.calls())
    assert not {"cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync"} & set(calls)
    assert there.device is second
    np.testing.assert_array_equal(there.numpy(), x)
    part = here[10:20]  # a view that is contiguous goes the same way, another one by the host
    np.testing.assert_array_equal(part.to("cuda:1").numpy(), x[10:20])
    assert "cuMemcpyPeerAsync" in fake.calls()
    np.testing.assert_array_equal(here[:, 3].to("cuda:1").numpy(), x[:, 3])
    assert "cuMemcpyPeerAsync" not in fake.calls()
    assert here.to("cuda:0") is here


def test_a_failing_copy_between_gpus_is_named(fake, two_gpus):
    here = two_gpus["cuda:0"].array(np.ones(64, np.float32))
    fake.fail("cuMemcpyPeerAsync", 1)
    with pytest.raises(DriverError, match=r"`cuMemcpyPeerAsync` failed with CUDA_ERROR_INVALID"):
        here.to("cuda:1")
    np.testing.assert_array_equal(here.to("cuda:1").numpy(), np.ones(64))


# ---- kernels, end to end -----------------------------------------------------------------


def launch(step, bench):
    """One launch of a library case as the decorator does it, for this device."""
    found = compiler.prepare(
        compiler.record(step.kernel, step.kernel.specialise(step.arguments)).module
    )
    artifact = replace(compiler.lower(found, "ptx:sm_90"), binary=None)
    program = bench.device.load(artifact, step.kernel.parameters)
    program.launch(step.arguments, grid=step.grid, workgroup=step.workgroup).wait()


@pytest.mark.parametrize("name", ["saxpy", "histogram", "sobel", "scan", "transpose"])
def test_library_kernels_give_the_evaluators_bits(fake, cuda_bench, name):
    results = []
    for on in ("cuda", "emulator"):
        case = library.case(name, size=library.SMALL[name])
        if on == "cuda":
            for step in case.steps:
                launch(step, cuda_bench)
        else:
            case.run(on)
        results.append([np.array(v) for v in case.results.values()])
    assert not differences(*results)


def entry(name, *, body="ret;", shared=0, bench=None):
    """An artifact that the executor runs."""
    static = f".shared .align 16 .b8 hetir_shared[{shared}];" if 0 < shared <= 49152 else ""
    text = f"{static}\n.visible .entry {name}(.param .align 8 .b8 launch[88]) {{ {body} }}"
    artifact = replace(bench.artifact("spin"), entry=name)
    return replace(
        artifact,
        text=f".version 7.8\n.target sm_90\n.address_size 64\n{text}\n",
        resources=Resources(shared_bytes=shared),
    )


def test_grids_past_the_limits_run_in_pieces(fake, cuda_bench):
    program = cuda_bench.device.load(entry("pieces", bench=cuda_bench))
    fake.launches.clear()
    program.launch((), grid=(1, 65536, 2), workgroup=1).wait()
    assert [grid for grid, _, _ in fake.launches] == [(1, 65535, 2), (1, 1, 2)]


def test_large_shared_memory_is_asked_for_once(fake, cuda_bench):
    program = cuda_bench.device.load(entry("large", shared=100_000, bench=cuda_bench))
    fake.calls()
    fake.launches.clear()
    for _ in range(2):
        program.launch((), grid=1, workgroup=32).wait()
    assert fake.calls().count("cuFuncSetAttribute") == 1
    assert fake.launches == [((1, 1, 1), (32, 1, 1), 100_000)] * 2
    small = cuda_bench.device.load(entry("small", shared=1000, bench=cuda_bench))
    small.launch((), grid=1, workgroup=32).wait()
    assert fake.launches[-1] == ((1, 1, 1), (32, 1, 1), 0)
    assert "cuFuncSetAttribute" not in fake.calls()


@hetir.kernel(cooperative=True)
def neighbours(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1], rounds: hl.i32):
    i = hl.global_id(0)
    n = x.shape[0]
    for _ in range(rounds):
        y[i] = x[(i + 1) % n] + x[i]
        hl.barrier(scope="device")
        x[i] = y[(i + 1) % n] + y[i]
        hl.barrier(scope="device")


def test_a_cooperative_kernel_waits_for_the_grid(fake, cuda_bench):
    x = np.arange(24, dtype=np.int32)
    want = x.copy()
    for _ in range(4):
        want = np.roll(want, -1) + want
    arguments = (x, np.zeros_like(x), 2)
    found = compiler.prepare(compiler.record(neighbours, neighbours.specialise(arguments)).module)
    artifact = replace(compiler.lower(found, "ptx:sm_90"), binary=None)
    program = cuda_bench.device.load(artifact, neighbours.parameters)
    fake.calls()
    program.launch(arguments, grid=3, workgroup=8).wait()
    calls = fake.calls()
    assert (x == want).all()
    assert calls.index("cuMemsetD8Async") < calls.index("cuLaunchKernel")
    program.launch(arguments, grid=3, workgroup=8).wait()  # the word is cleared again
    with pytest.raises(LaunchFailedError, match="CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"):
        program.launch(arguments, grid=9, workgroup=8).wait()


def test_the_drivers_own_occupancy_is_hetirs(fake, cuda_bench):
    """The make-believe library counts as CUDA does for a kernel of few registers on sm_90."""
    for shared in (0, 1000, 40_000, 100_000, 232_448):
        program = cuda_bench.device.load(
            entry(f"occupied{shared}", shared=shared, bench=cuda_bench)
        )
        for items in (1, 32, 33, 96, 128, 256, 1000, 1024):
            own = hetir.occupancy(
                "ptx:sm_90", workgroup_size=items, registers=16, shared_bytes=shared
            )
            theirs = cuda_bench.driver.resident_groups(program.handle, items)
            assert theirs == own.groups_per_unit, (shared, items)
