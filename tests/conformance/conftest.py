"""The devices that the conformance suite runs over, each with the same few kernels."""

import subprocess
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from ascend_kernels import SOURCE as ASCEND_SOURCE
from fake_driver import FakeDriver
from spirv_kernels import module

from hetir.artifact import Artifact, Layout, Resources, Slot
from hetir.compiler import shim_devices
from hetir.emulator.ascend import compilers
from hetir.runtime import EmulatorDriver, device, devices
from hetir.runtime.device import Device
from hetir.runtime.drivers import libascendcl, opencl, vulkan
from hetir.runtime.drivers.acl import AclDriver
from hetir.runtime.drivers.cpu import CpuDriver
from hetir.runtime.drivers.cuda import CudaDriver
from hetir.runtime.drivers.libcuda import Library

HERE = Path(__file__).parent
NATIVE = HERE.parents[1] / "native"


def here(driver):
    """Whether this machine has a device of a driver."""
    return any(d.portrait.driver == driver for d in devices())


def slot(offset, position, dtype, ndim=None, *, writes=False):
    return Slot(
        offset=offset, source=(position,), dtype=dtype, ndim=ndim, reads=True, writes=writes
    )


LAYOUTS = {
    "saxpy": Layout(
        slots=(slot(0, 0, "f32"), slot(8, 1, "f32", 1), slot(32, 2, "f32", 1, writes=True)),
        size=64,
    ),
    "dump": Layout(
        slots=(
            slot(0, 0, "u8", 1, writes=True),
            slot(24, 1, "bool"),
            slot(25, 2, "i8"),
            slot(26, 3, "u16"),
            slot(28, 4, "f32"),
            slot(32, 5, "f64"),
            slot(40, 6, "i64"),
            slot(48, 7, "f16"),
            slot(50, 8, "bf16"),
            slot(56, 9, "f32", 2),
        ),
        size=96,
    ),
    "scale2d": Layout(slots=(slot(0, 0, "f32", 2, writes=True),), size=48),
    "fails": Layout(slots=(), size=0),
    "spin": Layout(slots=(), size=0),
    "writes_record": Layout(slots=(), size=0),
}


def saxpy(values, grid, workgroup):
    a, x, y = values
    n = min(len(y), int(np.prod(grid) * np.prod(workgroup)))
    y[:n] += a * x[:n]


def scale2d(values, grid, workgroup):
    del grid, workgroup
    values[0][...] *= np.float32(2)


def evaluate(artifact, values, grid, workgroup, records, stop):
    """A stand-in for the evaluator that knows these kernels by name."""
    match artifact.entry:
        case "saxpy" | "scale2d":
            {"saxpy": saxpy, "scale2d": scale2d}[artifact.entry](values, grid, workgroup)
        case "dump":
            size = artifact.layout.size
            values[0][size:] = np.array((*grid, *workgroup), np.int64).view(np.uint8)
            values[0][:size] = 0
        case "spin":
            while not stop():
                pass
        case "writes_record":
            records[8:24] = np.array((8, 0x1122334455667788), np.uint64).view(np.uint8)
        case _:
            raise ArithmeticError("the evaluator found a fault")


def ptx_of(kernel):
    """A module that declares an entry with hetir's parameters; the fake libcuda knows its code."""
    size = LAYOUTS[kernel].size
    block = f".param .align 16 .b8 args[{size}], " if size else ""
    entry = f".visible .entry {kernel}({block}.param .align 8 .b8 launch[88])"
    return f".version 7.8\n.target sm_90\n.address_size 64\n{entry} {{ ret; }}\n"


def ascend_of(kernel, *, simt=False):
    """A source that declares a kernel with hetir's parameters; the fake libascendcl knows its code.

    The comment tells the fake where the block has the addresses of arrays.
    """
    layout = LAYOUTS[kernel]
    arrays = [slot.offset for slot in layout.slots if slot.ndim is not None]
    places = "".join(f" {offset}" for offset in arrays)
    parameters = ", ".join([f"GM_ADDR a{i}" for i in range(len(arrays))] + ["GM_ADDR launch"])
    if simt:
        parameters = parameters.replace("GM_ADDR", "uint8_t *")
        start = f"__global__ __launch_bounds__(1024) void {kernel}({parameters}) {{}}\n"
        return f"// arrays{places}, block {layout.size}\n{start}"
    return (
        f"// arrays{places}, block {layout.size}\n"
        f'extern "C" __global__ __aicore__ void {kernel}({parameters}) {{}}\n'
    )


class Bench:
    """A device and its conformance kernels.

    `overlaps` says that launches of two queues run at the same time; OpenCL leaves that to
    the implementation, and Intel's for CPUs runs one after the other. `many_items` is a
    workgroup that the device takes and the kernel `fails` does not.
    """

    def __init__(self, name, driver, target, binary, *, overlaps=True):
        self.overlaps = overlaps
        self.loaded = {}
        self.many_items = 4096 if name in ("cpu", "emulator", "fake", "opencl") else 512
        self.name, self.driver, self.target = name, driver, target
        self.binary = binary if callable(binary) else lambda _: binary
        self.device = Device(driver, device)

    def artifact(self, kernel):
        big = 1 << 30 if kernel == "fails" else 0
        return Artifact(
            kernel=kernel,
            target=self.target,
            entry=f"hetir_kernel_{kernel}" if self.target.startswith("spirv") else kernel,
            text=self.text(kernel),
            binary=self.binary(kernel),
            layout=LAYOUTS[kernel],
            resources=Resources(
                item_bytes=big if self.name == "cpu" else 0,
                shared_bytes=big if self.name in ("vulkan", "cuda") else 0,
            ),
        )

    def text(self, kernel):
        if self.name == "ascend-shim":
            return ASCEND_SOURCE
        if self.name.startswith("ascend"):
            return ascend_of(kernel, simt=self.target == "ascend:950")
        return ptx_of(kernel) if self.name == "cuda" else ""

    def program(self, kernel, names=()):
        """Loaded once where loading takes as long as `spin` does."""
        if not self.target.startswith("spirv"):
            return self.device.load(self.artifact(kernel), names)
        if (kernel, names) not in self.loaded:
            self.loaded[kernel, names] = self.device.load(self.artifact(kernel), names)
        return self.loaded[kernel, names]


@pytest.fixture(scope="session")
def cpu_object(tmp_path_factory):
    out = tmp_path_factory.mktemp("kernels") / "kernels.o"
    command = ["gcc", "-O1", "-fPIC", f"-I{NATIVE}", "-c", HERE / "cpu_kernels.c", "-o", out]
    subprocess.run(command, check=True)
    return out.read_bytes()


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory):
    out = tmp_path_factory.mktemp("fake") / "libfake_npu.so"
    source = HERE / "fake_npu.c"
    subprocess.run(
        ["gcc", "-O1", "-Wall", "-shared", "-fPIC", "-pthread", source, "-o", out], check=True
    )
    return out


@pytest.fixture(scope="session")
def cpu_bench(cpu_object):
    return Bench("cpu", CpuDriver(), "cpu", cpu_object)


@pytest.fixture(scope="session")
def fake_bench(fake_library):
    return Bench("fake", FakeDriver(fake_library), "fake", b"FNPU1")


@pytest.fixture(scope="session")
def emulator_bench():
    return Bench("emulator", EmulatorDriver(evaluate), "hetir", None)


@pytest.fixture(scope="session")
def cuda_library(tmp_path_factory):
    out = tmp_path_factory.mktemp("cuda") / "libcuda.so.1"
    command = ["gcc", "-O1", "-Wall", "-shared", "-fPIC", "-pthread", HERE / "fake_cuda.c"]
    subprocess.run([*command, "-o", out], check=True)
    library = Library(str(out))
    library.ffi.dlopen(str(out), library.ffi.RTLD_NOW | library.ffi.RTLD_NODELETE)  # its threads
    assert library.start() == 1
    return library


@pytest.fixture(scope="session")
def cuda_bench(cuda_library):
    return Bench("cuda", CudaDriver(cuda_library, 0), "ptx:sm_90", None)


@pytest.fixture(scope="session")
def acl_library(tmp_path_factory):
    out = tmp_path_factory.mktemp("ascendcl") / "libascendcl.so"
    command = ["gcc", "-O1", "-Wall", "-shared", "-fPIC", "-pthread", HERE / "fake_ascendcl.c"]
    subprocess.run([*command, "-o", out], check=True)
    library = libascendcl.Library(str(out))
    library.ffi.dlopen(str(out), library.ffi.RTLD_NOW | library.ffi.RTLD_NODELETE)  # its threads
    assert library.start() == 1
    return library


@pytest.fixture(scope="session")
def ascend_bench(acl_library):
    return Bench("ascend", AclDriver(acl_library, 0), "ascend:910b", None)


@pytest.fixture(scope="session")
def ascend_950_bench(acl_library):
    """The same library on a chip of the SIMT generation."""
    acl_library.ffi.cdef("void fakeSetChip(const char *name);")
    acl_library.raw.fakeSetChip(b"Ascend950PR")
    driver = AclDriver(acl_library, 0)
    acl_library.raw.fakeSetChip(b"Ascend910B2")
    return Bench("ascend-950", driver, "ascend:950", None)


@pytest.fixture(scope="session")
def opencl_bench():
    driver = opencl.probe()[0]
    binary = cache(lambda kernel: module(kernel, opencl.TARGET))
    return Bench("opencl", driver, opencl.TARGET, binary, overlaps=False)


@pytest.fixture(scope="session")
def vulkan_bench():
    driver = vulkan.probe()[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lavapipe ends long loops
        driver.warn_of_loops()
    binary = cache(lambda kernel: module(kernel, vulkan.TARGET))
    return Bench("vulkan", driver, vulkan.TARGET, binary, overlaps=False)


@pytest.fixture(scope="session")
def ascend_shim_bench():
    return Bench("ascend-shim", shim_devices()[0], "ascend:910b", None)


BENCHES = [
    "cpu",
    "emulator",
    "fake",
    "cuda",
    "ascend",
    "ascend_950",
    pytest.param("ascend_shim", marks=pytest.mark.skipif(not compilers(), reason="no compiler")),
    "opencl",
    pytest.param("vulkan", marks=pytest.mark.skipif(not here("vulkan"), reason="no device")),
]


@pytest.fixture(params=BENCHES)
def bench(request):
    return request.getfixturevalue(f"{request.param}_bench")
