"""Launches on OpenCL and Vulkan devices that must be right or refused, and absent drivers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import runtime
from hetir.artifact import BLOCK_BY_VALUE_BYTES
from hetir.backends.spirv import compile_kernel
from hetir.cli.main import main
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Region, Value
from hetir.ir.text import parse_kernel
from hetir.ir.types import BOOL, F16, F32, F64, I32, I64, U8, Scalar, array, static_array
from hetir.limits import WorkgroupSizeError
from hetir.runtime.drivers import opencl, vulkan, vulkan_api
from tests.unit.cpu_support import kernel_of
from tests.unit.spirv_support import HERE, device_of, run

targets = pytest.mark.parametrize("target", HERE)


def device_name(target: str) -> str:
    device = device_of(target)
    assert device is not None
    return device.name


@targets
def test_forty_arrays(target: str) -> None:
    """Their block is past what OpenCL kernels take by value."""
    count = 40

    def build(b: Builder, *arrays: Value) -> None:
        i = b.value(ops.GLOBAL_ID, axis=0)
        total = b.value(ops.LOAD, arrays[0], i)
        for other in arrays[1:-1]:
            total = b.value(ops.ADD, total, b.value(ops.LOAD, other, i))
        b.emit(ops.STORE, arrays[-1], i, total)

    kernel = kernel_of(build, [array(I32, 1)] * count)
    assert compile_kernel(kernel, target=target).layout.size > BLOCK_BY_VALUE_BYTES
    arrays = [np.arange(7, dtype=np.int32) * n for n in range(count)]
    run(kernel, arrays, (1, 1, 1), (7, 1, 1), target=target)
    assert (arrays[-1] == np.arange(7) * sum(range(count - 1))).all()


@targets
@pytest.mark.parametrize("kind", [F32, F64], ids=str)
def test_zeros_have_signs_and_infinities_no_difference(kind: Scalar, target: str) -> None:
    """Constant zeros and `x - x`, which compilers like to simplify; the loop may be unrolled."""

    def build(b: Builder, x: Value, y: Value) -> None:
        i, zero = b.value(ops.GLOBAL_ID, axis=0), b.const(kind, 0)
        v = b.value(ops.LOAD, x, i)
        found = [b.value(spec, zero, v) for spec in (ops.ADD, ops.SUB, ops.MUL, ops.DIV)]
        found += [b.value(ops.DIV, v, zero), b.value(ops.SUB, v, v)]
        for place, result in enumerate(found):
            b.emit(ops.STORE, y, i, b.const(I64, place), result)
        index, body = Value(I64), Builder()
        scaled = body.value(ops.MUL, body.value(ops.CAST, index, to=kind), v)
        body.emit(ops.STORE, y, i, body.value(ops.ADD, index, body.const(I64, 6)), scaled)
        body.emit(ops.YIELD)
        bounds = (b.const(I64, n) for n in (0, 2, 1))
        b.emit(ops.FOR, *bounds, types=(), regions=(Region((index,), tuple(body.body)),))

    x = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan], kind.numpy)
    y, zero = np.ones((7, 8), kind.numpy), kind.numpy.type(0)
    run(
        kernel_of(build, [array(kind, 1), array(kind, 2)]),
        [x, y],
        (7, 1, 1),
        (1, 1, 1),
        target=target,
    )
    with np.errstate(all="ignore"):
        want = (zero + x, zero - x, zero * x, zero / x, x / zero, x - x, zero * x, x)
    np.testing.assert_array_equal(y, np.stack(want, axis=1))
    numbers = ~np.isnan(y)
    np.testing.assert_array_equal(
        np.signbit(y)[numbers], np.signbit(np.stack(want, axis=1))[numbers]
    )


@targets
@pytest.mark.parametrize("kind", [U8, F16], ids=str)
def test_arrays_at_odd_byte_offsets(kind: Scalar, target: str) -> None:
    def build(b: Builder, x: Value, y: Value) -> None:
        i = b.value(ops.GLOBAL_ID, axis=0)
        b.emit(ops.STORE, y, i, b.value(ops.LOAD, x, i))

    kernel = kernel_of(build, [array(kind, 1)] * 2)
    device = device_of(target)
    assert device is not None
    program = device.load(compile_kernel(kernel, target=target))
    source = np.arange(30).astype(kind.numpy)
    for start in (1, 3):
        out = np.zeros(30, kind.numpy)
        program.run((source[start : start + 20], out[5:25]), 1, 20)
        assert (out[5:25] == source[start : start + 20]).all()
        there, back = device.array(source), device.array(np.zeros(30, kind.numpy))
        program.run((there[start : start + 20], back[5:25]), 1, 20)
        assert (back.numpy() == out).all()


@targets
def test_workgroups_at_the_device_s_limit(target: str) -> None:
    def build(b: Builder, x: Value) -> None:
        b.emit(ops.STORE, x, b.value(ops.GLOBAL_ID, axis=0), b.value(ops.GROUP_SIZE, axis=0))

    kernel = kernel_of(build, [array(I64, 1)])
    device = device_of(target)
    assert device is not None
    most = device.portrait.limits.max_workgroup_size
    x = np.zeros(most, np.int64)
    run(kernel, [x], (1, 1, 1), (most, 1, 1), target=target)
    assert (x == most).all()
    with pytest.raises(WorkgroupSizeError, match=f"at most {most}"):
        run(kernel, [x], (1, 1, 1), (most + 1, 1, 1), target=target)


@targets
def test_shared_memory_at_the_device_s_limit_and_past_it(target: str) -> None:
    device = device_of(target)
    assert device is not None
    most = device.portrait.limits.shared_bytes_optin

    def kernel(size: int) -> Kernel:
        def build(b: Builder, x: Value) -> None:
            tile = b.value(ops.ALLOC, type=static_array(U8, (size,), "shared"))
            i, last = b.value(ops.LOCAL_ID, axis=0), b.const(I64, size - 1)
            b.emit(ops.STORE, tile, b.value(ops.SUB, last, i), b.value(ops.LOAD, x, i))
            b.emit(ops.BARRIER, attrs={"scope": "workgroup"})
            other = b.value(ops.SUB, b.const(I64, 7), i)
            there = b.value(ops.LOAD, tile, b.value(ops.SUB, last, other))
            b.emit(ops.STORE, x, i, there)

        return kernel_of(build, [array(U8, 1)])

    x = np.arange(8, dtype=np.uint8)
    run(kernel(most), [x], (1, 1, 1), (8, 1, 1), target=target)
    assert x.tolist() == list(range(8))[::-1]
    with pytest.raises((runtime.LaunchFailedError, runtime.DeviceError)):
        run(kernel(most + 64), [x], (1, 1, 1), (8, 1, 1), target=target)
    run(kernel(64), [x], (1, 1, 1), (8, 1, 1), target=target)
    assert x.tolist() == list(range(8))


@targets
def test_grids_past_what_one_dispatch_takes(target: str) -> None:
    """Vulkan devices take 65,535 workgroups an axis; the ids go on over the pieces."""

    def build(b: Builder, x: Value) -> None:
        gx, gy = (b.value(ops.GROUP_ID, axis=a) for a in (0, 1))
        nx = b.value(ops.NUM_GROUPS, axis=0)
        place = b.value(ops.ADD, b.value(ops.MUL, gy, nx), gx)
        b.emit(ops.STORE, x, place, b.value(ops.ADD, place, nx))

    x = np.zeros(70_000 * 2, np.int64)
    run(kernel_of(build, [array(I64, 1)]), [x], (70_000, 2, 1), (1, 1, 1), target=target)
    assert (x == np.arange(140_000) + 70_000).all()


@targets
def test_a_value_that_is_one_of_two_arrays(target: str) -> None:
    """A phi and a select of pointers; shape and strides go with the array."""
    kind = array(F32, 1)

    def build(b: Builder, x: Value, y: Value, out: Value, flag: Value) -> None:
        i = b.value(ops.GLOBAL_ID, axis=0)
        chosen = b.value(ops.SELECT, flag, x, y)
        arms = []
        for which in (chosen, y):
            arm = Builder()
            arm.emit(ops.YIELD, which)
            arms.append(arm.region())
        odd = b.value(ops.EQ, b.value(ops.AND, i, b.const(I64, 1)), b.const(I64, 1))
        met = b.emit(ops.IF, odd, types=(kind,), regions=tuple(arms)).result
        b.emit(ops.STORE, out, i, b.value(ops.LOAD, met, i))

    kernel = kernel_of(build, [kind, kind, kind, BOOL])
    x, y = np.arange(8, dtype=np.float32)[::-1], -np.arange(16, dtype=np.float32)[::2]
    for flag in (False, True):
        out = np.zeros(8, np.float32)
        run(kernel, [x, y, out, np.bool_(flag)], (1, 1, 1), (8, 1, 1), target=target)
        assert (out == np.where((np.arange(8) % 2 == 1) & flag, x, y)).all()


@targets
def test_a_loop_whose_body_always_breaks_and_one_that_returns(target: str) -> None:
    def build(b: Builder, x: Value) -> None:
        i = b.value(ops.GLOBAL_ID, axis=0)
        argument, body = Value(I32), Builder()
        body.emit(ops.BREAK, body.value(ops.ADD, argument, argument))
        first = b.value(ops.LOAD, x, i)
        region = Region((argument,), tuple(body.body))
        doubled = b.emit(ops.LOOP, first, types=(I32,), regions=(region,)).result
        b.emit(ops.STORE, x, i, doubled)
        index, leaves = Value(I64), Builder()
        leaves.emit(ops.RETURN)
        bounds = b.const(I64, 0), b.const(I64, 3), b.const(I64, 1)
        ends = Region((index,), tuple(leaves.body))
        b.emit(ops.FOR, *bounds, types=(), regions=(ends,))
        b.emit(ops.STORE, x, i, b.const(I32, -1))

    x = np.arange(5, dtype=np.int32)
    run(kernel_of(build, [array(I32, 1)]), [x], (1, 1, 1), (5, 1, 1), target=target)
    assert x.tolist() == [0, 2, 4, 6, 8]


@hetir.kernel
def row_sums(x: hl.Array[hl.f32, 2], y: hl.Array[hl.f32, 1]):
    row = hl.global_id(0)
    if row < y.shape[0]:
        parts = hl.private((4,), hl.f32)
        for k in hl.static_range(4):
            parts[k] = 0
        total = hl.f32(0)
        for k in range(x.shape[1]):
            total += x[row, k]
            parts[k % 4] += x[row, k]
        y[row] = total + parts[3]


@targets
@pytest.mark.parametrize("workgroup", [1, 16])
def test_sums_are_in_order(workgroup: int, target: str) -> None:
    """A compiler that makes four sums of one gives other bits."""
    x = np.random.default_rng(1).random((50, 37), np.float32) * 2 - 1
    want = np.zeros(50, np.float32)
    for row, values in enumerate(x):
        total = part = np.float32(0)
        for k, value in enumerate(values):
            total += value
            part += value if k % 4 == 3 else np.float32(0)
        want[row] = total + part
    y = np.zeros(50, np.float32)
    grid = hetir.cdiv(50, workgroup)
    row_sums.launch((x, y), grid=grid, workgroup=workgroup, device=device_name(target)).wait()
    assert y.tobytes() == want.tobytes()


@hetir.kernel
def chatty(x: hl.Array[hl.i32, 1]):
    i = hl.global_id(0)
    hl.print("{} is {}", i, x[i])
    hl.assert_(x[i] < 3, "too large")  # noqa: PT009 (the kernel language's)


@targets
def test_prints_and_failed_assertions_reach_the_host(
    target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.arange(4, dtype=np.int32)
    launch = chatty.launch((x,), grid=2, workgroup=2, device=device_name(target))
    with pytest.raises(Exception, match="assertion failed in `chatty`: too large"):
        launch.wait()
    assert capsys.readouterr().out.splitlines() == [f"{i} is {i}" for i in range(4)]


@targets
def test_run_from_the_command_line(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    x = np.random.default_rng(0).random((5, 9), np.float32)
    np.save(tmp_path / "x.npy", x)
    name, out = device_name(target), tmp_path / "y.npy"
    shape = ["--grid", "5", "--workgroup", "64"]
    given = ["kernels/softmax.py:softmax", f"x={tmp_path}/x.npy", "--out", f"y={out}"]
    monkeypatch.setattr(sys, "argv", ["hetir", "run", *given, *shape, "--device", name])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert f"softmax on {name}" in capsys.readouterr().out
    powers = np.exp(x.astype(np.float64))
    want = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(np.load(out), want, rtol=1e-5)


def test_inspect_and_build(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    out, kernel = tmp_path / "saxpy.spv", "kernels/saxpy.py:saxpy"
    for words in (
        ["inspect", kernel, "--stage", "spirv"],
        ["build", kernel, "--target", "spirv:vulkan", "-o", str(out)],
    ):
        signature = ["--signature", "f32, f32[::1], f32[::1]"]
        monkeypatch.setattr(sys, "argv", ["hetir", *words, *signature])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
    shown = capsys.readouterr().out
    assert "OpEntryPoint Kernel %" in shown
    assert "saxpy for spirv:vulkan, entry `hetir_kernel_saxpy`" in shown
    assert out.read_bytes()[:4] == bytes.fromhex("03022307")


# ---- drivers that are absent or broken ---------------------------------------------------


def child(code: str, **environment: str) -> str:
    """What a Python process of its own prints; a crash of a vendor's library stays there."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


ASK = """
import hetir
try:
    hetir.device(NAME)
except Exception as error:
    print(error)
print([d.name for d in hetir.devices()][0])
"""


def test_without_pyopencl() -> None:
    code = "import sys; sys.modules['pyopencl'] = None\n" + ASK.replace("NAME", "'opencl:0'")
    shown = child(code)
    assert "there is no device `opencl:0`: pyopencl cannot be imported" in shown
    assert "pip install 'hetir[opencl]'" in shown
    assert shown.endswith("cpu\n")


def test_an_opencl_runtime_that_is_listed_but_broken(tmp_path: Path) -> None:
    (tmp_path / "broken.icd").write_text("/no/such/library.so\n")
    shown = child(ASK.replace("NAME", "'opencl:0'"), OCL_ICD_VENDORS=str(tmp_path))
    assert "no OpenCL device takes SPIR-V (platforms: none)" in shown
    assert shown.endswith("cpu\n")


def test_without_the_vulkan_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vulkan_api, "LIBRARY", "libno-such-vulkan.so.1")
    vulkan_api.api.cache_clear()
    try:
        with pytest.raises(runtime.DriverAbsentError, match=r"there is no libno-such-vulkan\.so"):
            vulkan.probe()
    finally:
        vulkan_api.api.cache_clear()


@pytest.mark.skipif(device_of(vulkan.TARGET) is None, reason="no Vulkan device")
def test_a_vulkan_driver_that_is_listed_but_broken(tmp_path: Path) -> None:
    file = tmp_path / "broken.json"
    file.write_text('{"file_format_version": "1.0.0", "ICD": {"library_path": "/no.so"}}')
    ask = ASK.replace("NAME", "'vulkan:0'")
    shown = child(ask, VK_ICD_FILENAMES=str(file), VK_DRIVER_FILES=str(file))
    assert "there is no device `vulkan:0`" in shown
    assert shown.endswith("cpu\n")


@targets
def test_a_malformed_module_is_refused_before_the_vendor_sees_it(target: str) -> None:
    code = f"""
from dataclasses import replace
from hetir import runtime
from hetir.backends.spirv import compile_kernel
from hetir.ir.text import parse_kernel
from tests.unit.spirv_support import device_of
artifact = compile_kernel(parse_kernel("hetir 1\\nkernel k() {{\\n return\\n}}"), target="{target}")
device, data = device_of("{target}"), artifact.binary
for bad in (data[:-4], data[:30], b"", b"\\0" * 64, data[:200] + data[204:]):
    try:
        device.load(replace(artifact, binary=bad))
    except runtime.DeviceError as error:
        print("refused")
device.load(artifact).run((), 1, 1)
"""
    assert child(code).splitlines() == ["refused"] * 5


def test_modes_that_a_device_lacks_are_taken_out() -> None:
    from hetir import spirv_tools
    from hetir.backends.spirv.disassemble import disassemble
    from hetir.runtime.drivers.spirv import switched_on, without

    def build(b: Builder, x: Value) -> None:
        zero = b.const(I64, 0)
        b.emit(ops.STORE, x, zero, b.value(ops.LOAD, x, zero))

    binary = compile_kernel(kernel_of(build, [array(F32, 1)]), target="spirv:vulkan").binary
    assert binary is not None
    assert without(binary, set()) == binary
    left = without(binary, {("DenormPreserve", 32)})
    assert "DenormPreserve" in disassemble(binary)
    assert "DenormPreserve" not in disassemble(left)
    assert "RoundingModeRTE" in disassemble(left)
    assert spirv_tools.complaint(left, "vulkan1.3") == ""
    assert switched_on(binary) == binary


@pytest.mark.skipif(device_of(opencl.TARGET) is None, reason="no OpenCL device")
def test_a_device_that_is_not_ieee_s_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = opencl.probe()[0]
    kernel = kernel_of(lambda _: None, [])
    monkeypatch.setattr(opencl, "passes", lambda *_: False)
    with pytest.raises(runtime.DriverError, match="not reproducible: its division"):
        driver.load(compile_kernel(kernel))


@pytest.mark.skipif(device_of(vulkan.TARGET) is None, reason="no Vulkan device")
def test_a_device_that_ends_loops_early_is_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = vulkan.probe()[0]
    kernel = compile_kernel(
        parse_kernel(
            "hetir 1\nkernel k() {\n%n: i64 = const 3\n%z: i64 = const 0\n%o: i64 = const 1\n"
            "for %z, %n, %o (%i: i64) {\nyield\n}\nreturn\n}\n"
        ),
        target="spirv:vulkan",
    )
    monkeypatch.setattr(vulkan, "loops_end_early", lambda *_: True)
    with pytest.warns(RuntimeWarning, match="ends loops after 65,535 rounds"):
        driver.load(kernel)
    driver.load(kernel)
