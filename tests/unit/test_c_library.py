"""The C library: built and run under sanitizers, in a C++ project, and on devices."""

import ctypes
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from hetir import hetbin, library
from hetir.emulator.ptx import Machine, Memory, parse
from hetir.runtime.hostmemory import host_bytes

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "native"
CPUS = ("cpu:x86-64", "cpu:x86-64-v3", "cpu:aarch64")


def run(*command, **environment):
    """What a command printed; its output is the message when it fails."""
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The `hetir` command of this source tree."""
    path = tmp_path_factory.mktemp("bin") / "hetir"
    path.write_text(
        f"#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -c "
        "'from hetir.cli.main import main; main()' \"$@\"\n"
    )
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The library, installed without Python."""
    build, prefix = tmp_path_factory.mktemp("build"), tmp_path_factory.mktemp("prefix")
    options = (
        "-DHETIR_PYTHON=OFF",
        f"-DCMAKE_INSTALL_PREFIX={prefix}",
        "-DCMAKE_INSTALL_LIBDIR=lib",
    )
    run("cmake", "-S", ROOT, "-B", build, *options)
    run("cmake", "--build", build)
    run("cmake", "--install", build)
    return prefix


def test_the_library_under_sanitizers(tmp_path):
    """native/tests/test_library.c has the expected values."""
    file = tmp_path / "library_kernels.hetbin"
    kernels = library.load(NATIVE / "tests" / "library_kernels.py")
    entries = []
    for name in ("saxpy", "scalars", "transpose", "scaled", "shifted", "told"):
        sizes = ((64, 1, 1), None) if name == "saxpy" else (None,)
        constants = (3, 0.5) if name == "scaled" else ()
        for signature in [f"{value}, f32[::1]" for value in constants] or [None]:
            kernel = getattr(kernels, name)
            entries += hetbin.specialise(kernel, signature, CPUS, sizes, NATIVE / "tests")
    file.write_bytes(hetbin.encode(entries))
    out = run(NATIVE / "tests" / "library.sh", file, "address,undefined", 1000)
    assert out.count("the C library's tests pass") == 2
    # what is printed is spelled as Python does, in the order of the work-items
    assert "element 0 is 0.1\nelement 1 is 2.0\nelement 2 is -1.5\n" in out


def test_a_cpp_project(installed, command, tmp_path):
    """examples/cpp: found, built with its kernels, right under ctest, built anew after a change."""
    source, build = tmp_path / "a project", tmp_path / "build"
    shutil.copytree(ROOT / "examples" / "cpp", source)
    options = (f"-DCMAKE_PREFIX_PATH={installed}", f"-DHETIR_EXECUTABLE={command}")
    run("cmake", "-S", source, "-B", build, *options)
    run("cmake", "--build", build)
    assert "100% tests passed" in run("ctest", "--test-dir", build)
    assert "cpu (CPU" in run(build / "example")
    assert "Building the kernels" not in run("cmake", "--build", build)
    kernels = source / "kernels.py"
    kernels.write_text(kernels.read_text().replace("a * x[i] + y[i]", "a * x[i] - y[i]"))
    run("cmake", "--build", build)
    failed = subprocess.run([build / "example"], capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "wrong: saxpy" in failed.stderr


EXAMPLE = """
import ctypes, sys
import numpy as np
sys.path.insert(0, {tests!r})
from tests.unit.test_c_library import Launcher
x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
with open({file!r}, "rb") as file:
    launcher = Launcher({library!r}, file.read(), {device!r})
launcher.saxpy(2.0, x, y, 4, 256)
assert (y == 2 * x + 1).all()
print(launcher.title)
"""


class Argument(ctypes.Structure):
    """`hetir_argument`."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("type", ctypes.c_int),
        ("integer", ctypes.c_int64),
        ("number", ctypes.c_double),
        ("host", ctypes.c_void_p),
        ("buffer", ctypes.c_void_p),
        ("offset", ctypes.c_int64),
        ("ndim", ctypes.c_int32),
        ("extent", ctypes.c_int64),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
    )


class Launcher:
    """A module opened by the C library, and a device."""

    def __init__(self, path, data, device):
        self.lib = ctypes.CDLL(path)
        self.lib.hetir_error.restype = self.lib.hetir_device_title.restype = ctypes.c_char_p
        self.data, self.module = data, ctypes.c_void_p()
        self.device = ctypes.c_void_p()
        size = ctypes.c_size_t(len(data))
        self.check(self.lib.hetir_module_from_memory(data, size, ctypes.byref(self.module)))
        self.check(self.lib.hetir_device_open(device.encode(), ctypes.byref(self.device)))
        self.title = self.lib.hetir_device_title(self.device).decode()

    def check(self, result):
        assert result == 0, self.lib.hetir_error().decode()

    def buffer(self, array):
        made = ctypes.c_void_p()
        size = ctypes.c_size_t(array.nbytes)
        self.check(self.lib.hetir_allocate(self.device, size, ctypes.byref(made)))
        place = ctypes.c_void_p(array.ctypes.data)
        self.check(self.lib.hetir_write(made, ctypes.c_size_t(0), place, size))
        return made

    def saxpy(self, a, x, y, groups, items):
        """Launch, and copy y back."""
        kernel = ctypes.c_void_p()
        self.check(self.lib.hetir_module_kernel(self.module, b"saxpy", ctypes.byref(kernel)))
        buffers = [self.buffer(array) for array in (x, y)]
        given = (Argument * 3)(
            Argument(kind=1, number=a),
            *(Argument(kind=4, type=11, buffer=b.value, ndim=1, extent=x.size) for b in buffers),
        )
        shape = ctypes.c_int64(groups), ctypes.c_int64(items)
        count = ctypes.c_size_t(3)
        self.check(self.lib.hetir_launch_1d(kernel, self.device, *shape, given, count))
        size, place = ctypes.c_size_t(y.nbytes), ctypes.c_void_p(y.ctypes.data)
        self.check(self.lib.hetir_read(buffers[1], ctypes.c_size_t(0), place, size))
        for buffer in buffers:
            self.lib.hetir_free(buffer)


@pytest.fixture(scope="module")
def saxpy_file(tmp_path_factory):
    kernel = library.load(ROOT / "examples" / "cpp" / "kernels.py").saxpy
    file = tmp_path_factory.mktemp("hetbin") / "saxpy.hetbin"
    targets = ("cpu:x86-64", "cpu:aarch64", "ptx:sm_80", "spirv:opencl")
    file.write_bytes(hetbin.encode(hetbin.specialise(kernel, None, targets, (None,), ROOT)))
    return file


def test_the_opencl_device(installed, saxpy_file, tmp_path):
    """In a process of its own: vendors' runtimes do not like a second loader."""
    runtime = next(iter(_files("intel-opencl-rt", "libintelocl.so")), None)
    loader = next(iter(_files("pyopencl", "libOpenCL*")), None)
    assert runtime is not None
    assert loader is not None
    (tmp_path / "intel.icd").write_text(f"{runtime}\n")
    names = {"file": str(saxpy_file), "library": str(installed / "lib" / "libhetir.so")}
    script = EXAMPLE.format(tests=str(ROOT), device="opencl", **names)
    environment = {"OCL_ICD_VENDORS": str(tmp_path), "HETIR_LIBOPENCL": str(loader)}
    environment["PYOPENCL_HOME"] = str(tmp_path)  # its loader crashes without it
    assert run(sys.executable, "-c", script, HETIR_LIBCUDA="none", **environment).strip()


def test_a_device_without_code(installed, monkeypatch):
    """Code for AVX2 alone on a machine without it, and a file for other devices."""
    kernel = library.load(ROOT / "examples" / "cpp" / "kernels.py").saxpy
    x = np.ones(4, np.float32)
    for targets in (("cpu:x86-64-v3",), ("spirv:opencl",), ()):
        data = hetbin.encode(hetbin.specialise(kernel, None, targets, (None,), ROOT))
        monkeypatch.setenv("HETIR_CPU_LEVEL", "2")
        launcher = Launcher(str(installed / "lib" / "libhetir.so"), data, "cpu")
        with pytest.raises(AssertionError, match=r"no code of `saxpy` .* that cpu runs"):
            launcher.saxpy(1.0, x, x.copy(), 1, 4)
        launcher.lib.hetir_module_close(launcher.module)


def _files(package, pattern):
    try:
        found = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        return []
    paths = [Path(str(f.locate())).resolve() for f in found if f.match(pattern)]
    return [path for path in paths if path.exists()]


EXECUTOR = ctypes.CFUNCTYPE(
    ctypes.c_int,
    *(ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64)),
    *(ctypes.POINTER(ctypes.c_int64), ctypes.c_uint, ctypes.c_void_p, ctypes.c_size_t),
)


def test_the_cuda_device(installed, saxpy_file, tmp_path, monkeypatch):
    """Over a make-believe libcuda whose launches run on the PTX emulator."""
    fake = tmp_path / "libcuda.so.1"
    source = ROOT / "tests" / "conformance" / "fake_cuda.c"
    run("gcc", "-O1", "-shared", "-fPIC", "-pthread", source, "-o", fake)
    library = ctypes.CDLL(str(fake))
    launches = []

    def execute(text, entry, grid, group, shared, params, size):
        memory = Memory()
        address, length, place = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_void_p()
        index = 0
        told = tuple(map(ctypes.byref, (address, length, place)))
        while (index := library.fakeAllocation(index, *told)) > 0:
            block = host_bytes(place.value, -(-length.value // 4) * 4)
            memory.add(block, f"allocation {index}", address=address.value)
        launches.append((entry.decode(), tuple(grid[:3]), tuple(group[:3])))
        given = ctypes.string_at(params, size)
        machine = Machine(parse(text.decode()))
        machine.launch(entry.decode(), tuple(grid[:3]), tuple(group[:3]), given, shared, memory,
                       cooperative=True)  # fmt: skip
        return 0

    executor = EXECUTOR(execute)
    library.fakeSetExecutor(executor)
    monkeypatch.setenv("HETIR_LIBCUDA", str(fake))
    monkeypatch.setenv("HETIR_LIBOPENCL", "none")
    # a copy: the library looks for devices once, and other tests may have had it do so
    copy = shutil.copy(installed / "lib" / "libhetir.so", tmp_path / "libhetir-cuda.so")
    launcher = Launcher(str(copy), saxpy_file.read_bytes(), "cuda:0")
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    launcher.saxpy(2.0, x, y, 4, 256)
    assert (y == 2 * x + 1).all()
    assert launches == [("hetir_kernel_saxpy", (4, 1, 1), (256, 1, 1))]
    library.fnFailNext(b"cuLaunchKernel", 720)
    with pytest.raises(AssertionError, match="CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"):
        launcher.saxpy(2.0, x, y, 4, 256)
    launcher.saxpy(2.0, x, y, 4, 256)
    assert library.fakeDepth() == 0
    launcher.lib.hetir_module_close(launcher.module)
    assert library.fakeModules() == 0
