"""What only some devices can do: native subgroups, float atomics, memory that the host lacks."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import runtime
from hetir.artifact import Artifact
from hetir.backends.spirv import compile_kernel, disassemble
from hetir.backends.spirv.targets import NAMES
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Options, Param, Value
from hetir.ir.text import parse_kernel
from hetir.ir.types import BOOL, F32, I64, U64, array, static_array
from hetir.runtime.device import Device
from hetir.runtime.drivers import opencl, trial, vulkan
from hetir.runtime.drivers.opencl_device import lacks
from hetir.runtime.drivers.vulkan_device import chosen
from tests.unit.cpu_support import elementwise, kernel_of
from tests.unit.spirv_support import HERE, device_of

targets = pytest.mark.parametrize("target", HERE)
WIDTHS = {"spirv:opencl": 32, "spirv:vulkan": 8}  # what Intel's runtime and lavapipe have


def rotated(width: int) -> Kernel:
    """x[i] becomes the value of the lane three further on, or 0 where there is none."""
    x, b = Value(array(U64, 1)), Builder()
    size = [b.value(ops.GROUP_SIZE, axis=a) for a in (0, 1)]
    place = [b.value(ops.LOCAL_ID, axis=a) for a in (0, 1)]
    item = b.value(ops.ADD, b.value(ops.MUL, place[1], size[0]), place[0])
    value = b.value(ops.LOAD, x, item)
    by, everyone = b.const(I64, 3), b.const(BOOL, True)
    b.emit(ops.STORE, x, item, b.value(ops.SHUFFLE, value, by, everyone, mode="down"))
    b.emit(ops.RETURN)
    options = Options(subgroup_size=width)
    return Kernel(name="rotated", params=(Param(x, (0,)),), body=b.region(), options=options)


def adds(space: str) -> Kernel:
    def build(b: Builder, x: Value, y: Value) -> None:
        tile = b.value(ops.ALLOC, type=static_array(F32, (1,), "shared"))
        attrs = {"kind": "add", "order": "relaxed", "scope": "device"}
        value = b.value(ops.LOAD, x, b.value(ops.GLOBAL_ID, axis=0))
        b.emit(
            ops.ATOMIC_RMW, y if space == "global" else tile, b.const(I64, 0), value, attrs=attrs
        )

    return kernel_of(build, [array(F32, 1)] * 2)


def driver_of(target: str) -> Any:
    device = device_of(target)
    assert device is not None
    return device.driver


def use(driver: Any, monkeypatch: pytest.MonkeyPatch, *, native: bool) -> None:
    """Let a driver use all the options that its device has, or none."""
    monkeypatch.setattr(driver.options, "avoided", frozenset())
    if not native:
        monkeypatch.setattr(driver.options, "form", lambda *_: None)


def text_of(artifact: Artifact, *needs: str) -> str:
    (found,) = (v.binary for v in artifact.variants if v.needs == needs)
    return disassemble(found)


# ---- what is compiled --------------------------------------------------------------------


@pytest.mark.parametrize("target", NAMES)
def test_kernels_that_exchange_values_have_a_form_for_pinned_subgroups(target: str) -> None:
    artifact = compile_kernel(rotated(32), target=target)
    text = text_of(artifact, "subgroups")
    assert "OpGroupNonUniformShuffle" in text
    assert "OpControlBarrier" not in text
    assert "GroupNonUniform" not in artifact.text
    assert artifact.text.count("OpControlBarrier") == 2
    if target == "spirv:opencl":
        assert re.search(r"OpExecutionMode %\d+ SubgroupSize 32", text)
        assert "; Version: 1.3" in text
        assert "; Version: 1.2" in artifact.text


def test_widths_that_no_trial_knows_have_only_the_plain_form() -> None:
    assert compile_kernel(rotated(2)).variants == ()
    assert compile_kernel(kernel_of(lambda _: None, [])).variants == ()


@pytest.mark.parametrize("target", NAMES)
def test_float_additions_have_a_form_by_the_extension(target: str) -> None:
    artifact = compile_kernel(adds("global"), target=target)
    text = text_of(artifact, "atomic_f32_add")
    assert "OpAtomicFAddEXT" in text
    assert "OpCapability AtomicFloat32AddEXT" in text
    assert 'OpExtension "SPV_EXT_shader_atomic_float_add"' in text
    assert "OpAtomicCompareExchange" not in text
    assert "AtomicFloat" not in artifact.text


def test_vulkan_s_shared_arrays_are_integers_and_keep_to_compare_and_swap() -> None:
    assert compile_kernel(adds("shared"), target="spirv:vulkan").variants == ()
    assert len(compile_kernel(adds("shared"), target="spirv:opencl").variants) == 1


def test_variants_outlive_the_cache() -> None:
    artifact = compile_kernel(rotated(32))
    assert runtime.decode(runtime.encode(artifact)) == artifact
    assert len(artifact.variants[0].binary) > 400


# ---- on devices --------------------------------------------------------------------------


@targets
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (1.5, 1), (2, 1), (0.5, 4)])
def test_both_forms_give_the_same_bits(
    shape: tuple[float, int], native: bool, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whole and partial subgroups, and in workgroups of two dimensions."""
    driver, width = driver_of(target), WIDTHS[target]
    use(driver, monkeypatch, native=native)
    sizes = int(shape[0] * width), shape[1]
    items = sizes[0] * sizes[1]
    device = device_of(target)
    assert device is not None
    program = device.load(compile_kernel(rotated(width), target=target))
    x = np.arange(1, items + 1, dtype=np.uint64)
    want = np.zeros_like(x)
    for i in range(items):
        if i % width + 3 < width and i + 3 < items:
            want[i] = x[i + 3]
    program.launch((x,), grid=1, workgroup=sizes).wait()
    assert (x == want).all()


@targets
def test_the_native_form_is_used_where_the_trial_passes(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And only there: some runtimes do not form subgroups over two dimensions."""
    driver, width = driver_of(target), WIDTHS[target]
    use(driver, monkeypatch, native=True)
    if not driver.options._offered("subgroups", width):
        pytest.skip("the device does not pin subgroups")
    artifact = compile_kernel(rotated(width), target=target)
    if not driver.options.has("subgroups", width, (width, 1, 1)):
        pytest.skip("the device takes the width and ignores it")
    assert driver.options.form(artifact, (2 * width, 1, 1)) == artifact.variants[0]
    for shape in ((width, 1, 1), (2, width, 1), (5, 3, 2)):
        agrees = driver.options.has("subgroups", width, shape)
        assert driver.options.form(artifact, shape) == (artifact.variants[0] if agrees else None)


@targets
@pytest.mark.parametrize("native", [True, False])
def test_float_additions_by_either_form(
    native: bool, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(driver_of(target), monkeypatch, native=native)
    device = device_of(target)
    assert device is not None
    artifact = compile_kernel(adds("global"), target=target)
    program = device.load(artifact)
    x, y = np.arange(1000, dtype=np.float32), np.zeros(1, np.float32)
    program.launch((x, y), grid=10, workgroup=100).wait()
    assert y[0] == 499_500


@targets
def test_a_device_that_gives_wrong_lanes_is_found_out(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial is of the answers: one lane off, and the plain form is used."""
    driver, width = driver_of(target), WIDTHS[target]
    offered = driver.options._offered
    if not offered("subgroups", width):
        pytest.skip("the device does not pin subgroups")
    kind = type(driver)
    load = driver._alone
    ran = trial._run

    def off(*given: Any) -> list[Any]:
        found = ran(*given)
        found[0][-1] += 1
        return found

    options = trial.Options(driver, load, kind_target(kind), offered)
    if not options.has("subgroups", width, (width, 1, 1)):
        pytest.skip("the device takes the width and ignores it")
    monkeypatch.setattr(trial, "_run", off)
    fresh = trial.Options(driver, load, kind_target(kind), offered)
    assert not fresh.has("subgroups", width, (width, 1, 1))
    assert fresh.form(compile_kernel(rotated(width), target=target), (width, 1, 1)) is None


def kind_target(kind: type) -> str:
    return opencl.TARGET if kind is opencl.OpenClDriver else vulkan.TARGET


@pytest.mark.parametrize(("width", "items"), [(8, 8), (8, 11), (32, 40), (4, 6)])
def test_what_the_trial_expects_is_the_evaluator_s(width: int, items: int) -> None:
    """Lane by lane in plain Python."""
    value = [i * 0x10_0000_0007 for i in range(items)]

    def at(values: list[int], i: int, lane: int) -> int:
        place = i // width * width + lane
        return values[place] if 0 <= lane < width and place < items else 0

    want = []
    looped = value
    for _ in range(3):
        looped = [at(looped, i, i % width ^ 1) + value[i] for i in range(items)]
    for i in range(items):
        lane = i % width
        sources = (lane ^ 1, lane ^ width // 2, lane - 1, lane + 3, 0, (lane * 5 + 3) % width)
        low = at([v & 0xFFFFFFFF for v in value], i, sources[-1])
        want += [*(at(value, i, s) for s in sources), low, looped[i]]
    assert trial._exchanged(width, items).tolist() == want


@hetir.kernel
def normalised(x: hl.Array[hl.f32, 2], y: hl.Array[hl.f32, 2]):
    row, i = hl.group_id(0), hl.local_id(0)
    total = hl.subgroup_reduce(x[row, i], "add")
    y[row, i] = x[row, i] / total


@targets
def test_reductions_have_the_evaluator_s_bits_by_both_forms(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = device_of(target)
    assert device is not None
    x = np.random.default_rng(3).random((4, 64), np.float32)
    found = []
    for name, native in (("emulator", True), (device.name, True), (device.name, False)):
        use(driver_of(target), monkeypatch, native=native)
        y = np.zeros_like(x)
        normalised.launch((x, y), grid=4, workgroup=64, device=name).wait()
        found.append(y.tobytes())
    assert found[0] == found[1] == found[2]


def test_a_device_whose_fma_rounds_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    if device_of(opencl.TARGET) is None:
        pytest.skip("no OpenCL device")
    driver = opencl.probe()[0]
    if not trial.fuses(driver, driver._alone, opencl.TARGET, "f32"):
        pytest.skip("the device's fma is not IEEE's")
    artifact = compile_kernel(elementwise(ops.FMA, [F32] * 3, F32))
    driver.load(artifact)
    ran = trial._run

    def twice(*given: Any) -> list[Any]:
        """As a device would that has no fma: the rounded product plus its negative."""
        *rest, found = ran(*given)
        return [*rest, np.zeros_like(found)]

    driver._tried_fma.clear()
    monkeypatch.setattr(trial, "_run", twice)
    with pytest.raises(runtime.DriverError, match="not reproducible: its fma"):
        driver.load(artifact)
    driver.load(compile_kernel(elementwise(ops.ADD, [F32] * 2, F32)))


def test_a_device_that_loses_branches_after_barriers_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only for kernels with a barrier in a branch; one in a loop is none."""
    if device_of(opencl.TARGET) is None:
        pytest.skip("no OpenCL device")
    driver = opencl.probe()[0]
    if not driver._parts():
        pytest.skip("the device loses branches")
    driver._tried_branches = None
    monkeypatch.setattr(opencl, "parts", lambda *_: False)
    inside = compile_kernel(parse_kernel(CONDITIONAL))
    with pytest.raises(runtime.DriverError, match="part after a barrier that stands in a branch"):
        driver.load(inside)
    driver.load(
        compile_kernel(parse_kernel(CONDITIONAL.replace("if %c {", FOR, 1).replace(ELSE, "")))
    )
    monkeypatch.undo()
    monkeypatch.setattr(driver, "_tried_branches", None)
    assert trial.parts(driver, driver._alone, opencl.TARGET)
    driver.load(inside)


CONDITIONAL = """hetir 1
kernel k(%c: bool from 0) {
  %z: i64 = const 0
  %n: i64 = const 5
  %o: i64 = const 1
  if %c {
    barrier scope=workgroup
    yield
  } else {
    yield
  }
  return
}
"""
FOR = "for %z, %n, %o (%i: i64) {"
ELSE = """ else {
    yield
  }"""


def test_capabilities_that_a_device_does_not_list_are_named() -> None:
    if device_of(opencl.TARGET) is None:
        pytest.skip("no OpenCL device")
    device = driver_of(opencl.TARGET)._device
    assert lacks(device, {4: "Addresses", 6: "Kernel", 11: "Int64"}) == ""
    if "cl_khr_spirv_queries" in device.extensions:
        assert lacks(device, {6: "Kernel", 1: "Shader"}) == "the device takes no SPIR-V with Shader"


@targets
def test_processors_exchange_values_through_memory(target: str) -> None:
    """Their shuffles are slower (docs/spirv.md); GPUs take the native form."""
    driver = driver_of(target)
    processor = "CPU" in driver.portrait.title or "Intel(R) OpenCL" in driver.portrait.title
    if not processor:
        pytest.skip("the device here is no processor")
    artifact = compile_kernel(rotated(WIDTHS[target]), target=target)
    assert driver.options.form(artifact, (WIDTHS[target], 1, 1)) is None
    gpu = trial.Options(driver, driver._alone, target, lambda *_: True)
    gpu._known["subgroups", WIDTHS[target], (64, 1, 1)] = True
    assert gpu.form(artifact, (64, 1, 1)) == artifact.variants[0]


# ---- memory ------------------------------------------------------------------------------

LOCAL, VISIBLE, CACHED = 1, 2 | 4, 8
GIB = 1 << 30


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ([(LOCAL | VISIBLE, 8 * GIB)], (0, 0, 8 * GIB)),
        ([(LOCAL, 8 * GIB), (VISIBLE, 16 * GIB), (LOCAL | VISIBLE, GIB // 4)], (0, 1, 8 * GIB)),
        ([(LOCAL, 8 * GIB), (VISIBLE, 16 * GIB), (LOCAL | VISIBLE, 8 * GIB)], (2, 2, 8 * GIB)),
        ([(VISIBLE | CACHED, GIB)], (0, 0, GIB)),
        ([(LOCAL, GIB)], None),
        ([(LOCAL, GIB), (2, GIB)], None),
    ],
    ids=["integrated", "discrete", "whole window", "host only", "no host", "not coherent"],
)
def test_the_choice_of_memory(kinds: list[tuple[int, int]], expected: Any) -> None:
    found = chosen(kinds)
    assert (found and tuple(found)) == expected


@pytest.fixture(scope="module")
def staged() -> Device:
    """A Vulkan device as if the host did not see its memory."""
    if device_of(vulkan.TARGET) is None:
        pytest.skip("no Vulkan device")
    plain = driver_of(vulkan.TARGET)
    driver = vulkan.VulkanDriver(plain.api, plain._physical._replace(staged=True), 9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        driver.warn_of_loops()
    return Device(driver, runtime.device)


def test_copies_go_through_memory_that_the_host_sees(
    staged: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vulkan, "_STAGED_BYTES", 4096)
    driver: Any = staged.driver
    x = np.arange(5000, dtype=np.int32)  # five parts
    there = staged.array(x)
    assert there.buffer.memory.token.host == 0
    assert (there.numpy() == x).all()
    assert (there[7:4000:3].numpy() == x[7:4000:3]).all()
    queue = driver.make_queue()
    one, two = driver.allocate(1000), driver.allocate(1000)
    data = np.arange(1000).astype(np.uint8)
    driver.write(queue, one, 0, data)
    driver.write(queue, two, 0, np.zeros(1000, np.uint8))
    driver.copy(queue, (two, 13), (one, 600), 77).wait()
    found = np.zeros(1000, np.uint8)
    driver.read(queue, two, 0, found)
    assert (found[13:90] == data[600:677]).all()
    assert not found[:13].any()
    assert not found[90:].any()
    driver.free(one)
    driver.free(two)


def test_kernels_run_on_memory_that_the_host_does_not_see(staged: Device) -> None:
    def build(b: Builder, x: Value, y: Value) -> None:
        i = b.value(ops.GLOBAL_ID, axis=0)
        b.emit(ops.STORE, y, i, b.value(ops.ADD, b.value(ops.LOAD, x, i), b.const(F32, 1)))

    program = staged.load(
        compile_kernel(kernel_of(build, [array(F32, 1)] * 2), target=vulkan.TARGET)
    )
    x = np.arange(600, dtype=np.float32)
    y = np.zeros(1200, np.float32)
    for _ in range(3):
        program.launch((x, y[::2]), grid=6, workgroup=100).wait()
        assert (y[::2] == x + 1).all()
        assert not y[1::2].any()
        y[:] = 0
