"""The ACL driver against the fake libascendcl: calls, packing, failures, what is absent."""

import gc
from dataclasses import replace

import cffi
import numpy as np
import pytest
from test_driver import get, put, saxpy_task

from hetir.runtime import DeviceError, DriverAbsentError, DriverError, LaunchFailedError
from hetir.runtime.device import Device
from hetir.runtime.driver import Task
from hetir.runtime.drivers import acl, libascendcl
from hetir.runtime.registry import Registry

DECLARATIONS = """
const char *fnTakeCalls(void);
void fnFailNext(const char *call, int code);
uint64_t fnLiveBytes(void);
void fakeSetChip(const char *name);
void fakeSetDevices(int count);
int fakeMarks(void);
int fakeBinaries(void);
int fakeBlocks(void);
int aclrtSetCurrentContext(void *context);
int aclrtGetCurrentContext(void **context);
"""
QUIET = {"aclrtQueryEventStatus", "aclrtEventElapsedTime", "aclrtStreamQuery", "aclrtDestroyEvent"}
MARK = ["aclrtCreateEventWithFlag", "aclrtRecordEvent"]
COPY = ["aclrtMemcpyAsync"]


class Fake:
    """What the make-believe library tells a test."""

    def __init__(self, opened):
        self.ffi = cffi.FFI()
        self.ffi.cdef(DECLARATIONS)
        self.raw = self.ffi.dlopen(opened)

    def calls(self):
        """The calls since the last time, but those that may come at any moment."""
        taken = self.ffi.string(self.raw.fnTakeCalls()).decode().split()
        return [name for name in taken if name.startswith("acl") and name not in QUIET]

    def fail(self, call, code):
        self.raw.fnFailNext(call.encode(), code)


@pytest.fixture(scope="module")
def fake(acl_library, ascend_bench):
    yield Fake(acl_library.path)
    ascend_bench.device.wait()


def values(n=8):
    return 2.0, np.ones(n, np.float32), np.zeros(n, np.float32)


def test_a_launch_copies_the_block_appends_addresses_and_launches(fake, ascend_bench):
    program = ascend_bench.program("saxpy")
    for _ in range(3):  # makes what is kept for later
        program.launch(values(), grid=1, workgroup=8).wait()
    ascend_bench.device.wait()  # other tests' launches, on all queues
    gc.collect()
    fake.calls()
    launch = program.launch(values(), grid=3, workgroup=8)
    launched = fake.calls()
    array = ["aclrtMalloc", *COPY, *MARK]
    packed = ["aclrtKernelArgsInit", *["aclrtKernelArgsAppend"] * 3, "aclrtKernelArgsFinalize"]
    run = [*MARK, *COPY, *packed, "aclrtLaunchKernelWithConfig", *MARK, *MARK]
    assert launched == [*array, *array, *run]
    launch.wait()
    assert fake.calls() == ["aclrtSynchronizeStream", "aclrtMemcpy", "aclrtFree", "aclrtFree"]
    assert fake.raw.fakeBlocks() == 3


def test_no_more_blocks_than_cores_run_a_large_grid(fake, ascend_bench):
    a, x, y = values(1000)
    ascend_bench.program("saxpy").launch((a, x, y), grid=(50, 5, 1), workgroup=8).wait()
    assert (y == 2).all()
    assert fake.raw.fakeBlocks() == ascend_bench.driver.portrait.units == 48


def test_the_source_is_compiled_for_the_chip_and_loaded(fake, ascend_bench):
    fake.calls()
    ascend_bench.device.load(replace(ascend_bench.artifact("saxpy"), binary=b"\x7fELF unused"))
    compiled = ["aclrtcCreateProg", "aclrtcCompileProg", "aclrtBinaryLoadFromData"]
    assert fake.calls()[:4] == [*compiled, "aclrtBinaryGetFunction"]


def test_what_the_compiler_says_is_in_the_error(fake, ascend_bench):
    before = fake.raw.fakeBinaries()
    with pytest.raises(DeviceError, match=r"kernel\.asc:1:1: error: no Ascend C"):
        ascend_bench.device.load(replace(ascend_bench.artifact("saxpy"), text="no code"))
    with pytest.raises(DeviceError, match="there is no entry `absent`"):
        ascend_bench.device.load(replace(ascend_bench.artifact("saxpy"), entry="absent"))
    gc.collect()
    assert fake.raw.fakeBinaries() <= before


@pytest.mark.parametrize(
    ("call", "code", "error", "text"),
    [
        ("aclrtMalloc", 207001, Exception, "has no memory for 32 bytes"),
        (
            "aclrtLaunchKernelWithConfig",
            107000,
            LaunchFailedError,
            "ACL_ERROR_RT_PARAM_INVALID, EZ9999: the fake says why (107000)",
        ),
        ("aclrtKernelArgsAppend", 107017, LaunchFailedError, "ACL_ERROR_RT_INVALID_HANDLE"),
        ("aclrtStreamQuery", 507015, LaunchFailedError, "ACL_ERROR_RT_AICORE_EXCEPTION"),
        ("aclrtSynchronizeStream", 999999, LaunchFailedError, "an ACL error, EZ9999"),
        ("aclrtMemcpy", 107000, LaunchFailedError, "ACL_ERROR_RT_PARAM_INVALID"),
    ],
)
def test_each_failing_call_is_named_and_the_device_goes_on(
    fake, ascend_bench, call, code, error, text
):
    program = ascend_bench.program("saxpy")
    program.launch(values(), grid=1, workgroup=8).wait()
    gc.collect()
    fake.fail(call, code)
    with pytest.raises(error) as caught:
        program.launch(values(), grid=1, workgroup=8).wait()
    assert text in str(caught.value)
    if call != "aclrtMalloc":
        assert f"`{call}`" in str(caught.value)
    again = values()
    program.launch(again, grid=1, workgroup=8).wait()
    assert (again[2] == 2).all()


def test_a_kernels_fault_reaches_whoever_waits_for_it(ascend_bench):
    driver = ascend_bench.driver
    queue = driver.make_queue()
    program = driver.load(ascend_bench.artifact("saxpy"))
    x, y = (put(driver, queue, np.ones(100, np.float32)) for _ in range(2))
    task = saxpy_task(ascend_bench, program, x, y, 100)
    wrong = bytearray(task.block)
    wrong[16:24] = np.int64(1 << 20).tobytes()  # more elements than the array has
    wrong[40:48] = wrong[16:24]
    bad = replace(task, block=bytes(wrong), grid=(1 << 14, 1, 1))
    event = driver.launch(queue, bad)
    for _ in range(2):
        with pytest.raises(DriverError, match="AICORE_EXCEPTION"):
            event.wait(20)
    x, y = (put(driver, queue, np.ones(100, np.float32)) for _ in range(2))
    assert driver.launch(queue, saxpy_task(ascend_bench, program, x, y, 100)).wait(20)
    assert (get(driver, queue, y, np.float32, 100) == 3).all()
    driver.free_queue(queue)


def test_nothing_leaks_over_many_launches(fake, ascend_bench):
    program = ascend_bench.program("saxpy")
    for _ in range(20):
        program.launch(values(), grid=1, workgroup=8).wait()
    gc.collect()
    before = fake.raw.fnLiveBytes(), fake.raw.fakeMarks(), fake.raw.fakeBinaries()
    for _ in range(100):
        program.launch(values(), grid=1, workgroup=8).wait()
    gc.collect()
    assert fake.raw.fakeMarks() <= before[1] + 8
    assert fake.raw.fakeBinaries() == before[2]
    # blocks are kept for later: more exist only where more were in flight at once
    assert fake.raw.fnLiveBytes() <= before[0] + 4096


def test_many_launches_in_flight_keep_their_own_blocks(ascend_bench):
    driver = ascend_bench.driver
    queue = driver.make_queue()
    spin = driver.load(ascend_bench.artifact("spin"))
    program = driver.load(ascend_bench.artifact("saxpy"))
    x, y = put(driver, queue, np.ones(64, np.float32)), put(driver, queue, np.zeros(64, np.float32))
    driver.launch(queue, Task(program=spin, grid=(1, 1, 1), workgroup=(1, 1, 1), block=b""))
    for factor in (1.0, 10.0, 100.0):
        driver.launch(queue, saxpy_task(ascend_bench, program, x, y, 64, factor))
    assert (get(driver, queue, y, np.float32, 64) == 111).all()
    driver.free_queue(queue)


def test_a_thousand_launches_in_flight_take_few_blocks(fake, ascend_bench):
    driver = ascend_bench.driver
    queue = driver.make_queue()
    spin = driver.load(ascend_bench.artifact("spin"))
    program = driver.load(ascend_bench.artifact("saxpy"))
    x, y = put(driver, queue, np.ones(64, np.float32)), put(driver, queue, np.zeros(64, np.float32))
    before = fake.raw.fnLiveBytes()
    driver.launch(queue, Task(program=spin, grid=(1, 1, 1), workgroup=(1, 1, 1), block=b""))
    for _ in range(1000):
        driver.launch(queue, saxpy_task(ascend_bench, program, x, y, 64, 1.0))
    assert (get(driver, queue, y, np.float32, 64) == 1000).all()
    assert fake.raw.fnLiveBytes() - before <= 256 * 1024
    driver.free_queue(queue)


def test_the_callers_context_is_left_as_it_was(fake, ascend_bench):
    mine = fake.ffi.new("char *")
    fake.raw.aclrtSetCurrentContext(mine)
    ascend_bench.driver.free(ascend_bench.driver.allocate(64))
    out = fake.ffi.new("void **")
    assert fake.raw.aclrtGetCurrentContext(out) == 0
    assert out[0] == mine


def test_what_is_absent_says_why(acl_library, fake, monkeypatch):
    with pytest.raises(DriverAbsentError) as caught:
        libascendcl.Library("/there/is/no/libascendcl.so")
    assert caught.value.reason == "/there/is/no/libascendcl.so is not here"
    assert "CANN" in caught.value.remedy
    with pytest.raises(DriverAbsentError, match=r"libm\.so\.6 has no `aclInit`"):
        libascendcl.Library("libm.so.6")
    fake.raw.fakeSetDevices(0)
    try:
        with pytest.raises(DriverAbsentError, match="ACL_ERROR_RT_NO_DEVICE"):
            acl_library.start()
    finally:
        fake.raw.fakeSetDevices(1)
    monkeypatch.setenv("HETIR_LIBASCENDCL", "/there/is/no/libascendcl.so")
    registry = Registry()
    registry.register("ascend", acl.probe)
    (gap,) = registry.absent()
    assert (gap.driver, gap.reason) == ("ascend", "/there/is/no/libascendcl.so is not here")
    with pytest.raises(DeviceError, match="there is no device `ascend:0`"):
        registry.device("ascend:0")


def test_a_missing_compiler_is_told_at_the_load(fake, ascend_bench, monkeypatch):
    library = ascend_bench.driver.library
    monkeypatch.setattr(library, "_compiler", None)
    monkeypatch.setattr(library, "path", "libm.so.6")
    with pytest.raises(DeviceError, match=r"no libacl_rtc\.so: install CANN's toolkit"):
        ascend_bench.device.load(ascend_bench.artifact("saxpy"))


@pytest.mark.parametrize(
    ("chip", "targets"),
    [
        ("Ascend910B2", ("ascend:910b", "ascend:910c")),
        ("Ascend910_9392", ("ascend:910c", "ascend:910b")),
    ],
)
def test_the_probe_takes_the_named_library_and_tells_chips_apart(
    acl_library, fake, monkeypatch, chip, targets
):
    monkeypatch.setenv("HETIR_LIBASCENDCL", acl_library.path)
    fake.raw.fakeSetChip(chip.encode())
    try:
        (found,) = acl.probe()
    finally:
        fake.raw.fakeSetChip(b"Ascend910B2")
    assert found.portrait.name == "ascend:0"
    assert found.portrait.title == chip
    assert found.portrait.targets == targets
    assert not found.can_run("ascend:310p")
    assert not found.can_run("ascend:950")
    assert found.portrait.memory_bytes == 1 << 28


def test_simt_code_is_launched_with_its_work_items(fake, ascend_950_bench):
    """As many blocks as workgroups, up to 65535; the fake compares the block with the launch's."""
    portrait = ascend_950_bench.driver.portrait
    assert (portrait.title, portrait.targets) == ("Ascend950PR", ("ascend:950",))
    assert not ascend_950_bench.driver.can_run("ascend:910b")
    program = ascend_950_bench.program("saxpy")
    program.launch(values(), grid=1, workgroup=8).wait()
    gc.collect()
    fake.calls()
    launch = program.launch(values(64), grid=(4, 2, 1), workgroup=(2, 2, 2))
    run = [*MARK, *COPY, libascendcl.SIMT_LAUNCH, *MARK, *MARK]
    assert fake.calls()[-len(run) :] == run
    launch.wait()
    assert fake.raw.fakeBlocks() == 8
    a, x, y = values(70_000)
    program.launch((a, x, y), grid=70_000, workgroup=1).wait()
    assert fake.raw.fakeBlocks() == 65535
    assert (y == 2).all()


@pytest.mark.parametrize(
    ("chip", "launch", "reason", "remedy"),
    [
        ("Ascend310B1", libascendcl.SIMT_LAUNCH, "the chip `Ascend310B1`", "910B, 910C, 310P"),
        ("Ascend950PR", "aclrtAbsent", "has no `aclrtAbsent`", "install CANN 9.2 or newer"),
    ],
)
def test_a_chip_that_cannot_be_driven_is_absent_with_a_remedy(
    acl_library, fake, monkeypatch, chip, launch, reason, remedy
):
    monkeypatch.setattr(acl, "SIMT_LAUNCH", launch)
    fake.raw.fakeSetChip(chip.encode())
    try:
        with pytest.raises(DriverAbsentError) as caught:
            acl.AclDriver(acl_library, 0)
    finally:
        fake.raw.fakeSetChip(b"Ascend910B2")
    assert reason in caught.value.reason
    assert remedy in caught.value.remedy


def test_two_npus_copy_by_the_host(acl_library, fake):
    fake.raw.fakeSetDevices(2)
    try:
        found = {}
        for ordinal in range(acl_library.start()):
            driver = acl.AclDriver(acl_library, ordinal)
            found[driver.portrait.name] = Device(driver, found.__getitem__)
        x = np.arange(100_000, dtype=np.float32)
        there = found["ascend:0"].array(x).to("ascend:1")
        assert there.device is found["ascend:1"]
        np.testing.assert_array_equal(there.numpy(), x)
    finally:
        fake.raw.fakeSetDevices(1)
