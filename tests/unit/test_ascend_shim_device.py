"""The shim as devices: hand-written artifacts through the runtime."""

import os

import numpy as np
import pytest

from hetir import runtime
from hetir.artifact import Artifact, Layout, Resources, Slot
from hetir.compiler import shim_devices
from hetir.emulator.ascend import build
from hetir.emulator.ascend.device import ORDER_VARIABLE
from tests.unit.ascend_shim_support import needs_compiler

pytestmark = needs_compiler

LAYOUT = Layout(
    slots=(
        Slot(offset=0, source=(0,), dtype="i32", ndim=1, reads=True, writes=True),
        Slot(offset=24, source=(1,), dtype="i32", ndim=None, reads=True, writes=False),
    ),
    size=32,
)
SIMT = """#include "simt_api/asc_simt.h"

__global__ __launch_bounds__(128) void number(int32_t *out, __gm__ uint8_t *launch) {
    const int64_t *words = reinterpret_cast<const int64_t *>(launch);
    const int64_t groups = words[0] * words[1] * words[2];
    const int32_t add = *reinterpret_cast<const int32_t *>(launch + 48 + 24);
    for (int64_t group = blockIdx.x; group < groups; group += gridDim.x) {
        const int64_t i = group * blockDim.x * blockDim.y + threadIdx.y * blockDim.x + threadIdx.x;
        if (i < words[7]) {
            out[i] = int32_t(i) + add;
        }
    }
}
"""
SIMD = """#include "kernel_operator.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void number(GM_ADDR out, GM_ADDR launch) {
    GlobalTensor<int32_t> z;
    z.SetGlobalBuffer((__gm__ int32_t *)out);
    LocalTensor<int32_t> t(TPosition::VECCALC, 0, 64);
    Duplicate(t, 7, 64);
    DataCopy(z, t, 64);
    (void)launch;
}
"""


def artifact(target, text):
    return Artifact(
        kernel="number",
        target=target,
        entry="number",
        text=text,
        binary=None,
        layout=LAYOUT,
        resources=Resources(),
    )


def test_there_are_three_chips():
    found = {driver.portrait.name: driver.portrait for driver in shim_devices()}
    assert list(found) == ["ascend-shim", "ascend-shim:310p", "ascend-shim:950"]
    assert found["ascend-shim"].targets == ("ascend:910b", "ascend:910c")
    assert all(portrait.emulated for portrait in found.values())
    for name in found:
        assert runtime.device(name).name == name


@pytest.mark.parametrize("order", ["newest", "random:5"])
def test_simt_code_runs_on_the_950(order, monkeypatch):
    monkeypatch.setenv(ORDER_VARIABLE, order)
    program = runtime.device("ascend-shim:950").load(artifact("ascend:950", SIMT), ("out", "add"))
    out = np.zeros(400, np.int32)
    program.launch((out, 1000), grid=(2, 3, 1), workgroup=(16, 4, 1)).wait()
    assert out[:384].tolist() == list(range(1000, 1384))
    assert not out[384:].any()


def test_a_fault_names_the_kernel_the_line_and_the_rule():
    program = runtime.device("ascend-shim").load(artifact("ascend:910b", SIMD), ("out", "add"))
    launch = program.launch((np.zeros(64, np.int32), 0), grid=1, workgroup=64)
    with pytest.raises(runtime.LaunchFailedError, match="kernel `number` failed") as caught:
        launch.wait()
    assert "line 10, core 0: hazard: pipe MTE3 reads a part of the Unified Buffer" in str(
        caught.value
    )


def test_source_that_does_not_compile_does_not_load():
    device = runtime.device("ascend-shim")
    with pytest.raises(Exception, match="no_such_call"):
        device.load(artifact("ascend:910b", SIMD.replace("Duplicate(t", "no_such_call(t")))


def test_old_libraries_make_room(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "_MOST_LIBRARIES", 3)
    for age in range(5):
        path = tmp_path / f"{age}.so"
        path.touch()
        os.utime(path, (age, age))
    build._prune(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2.so", "3.so", "4.so"]
