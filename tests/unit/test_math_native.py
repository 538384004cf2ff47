"""`math="native"`: the device's functions where it has them, the reproducible ones elsewhere."""

import math

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir.ir import ops
from hetir.ir.core import walk
from hetir.ir.text import parse_kernel
from hetir.passes.expand_arrays import expand_arrays
from hetir.passes.legalize import legalize
from hetir.target import Target, instances

GPUS = tuple(device.name for device in hetir.devices() if device.name != "cpu")
RULES = {i.key: True for i in instances()}


def _everything(x, y):
    i = hl.global_id(0)
    v = x[i]
    y[i, 0] = hl.exp(v)
    y[i, 1] = hl.exp2(v)
    y[i, 2] = hl.log(v)
    y[i, 3] = hl.log2(v)
    y[i, 4] = hl.sin(v)
    y[i, 5] = hl.cos(v)
    y[i, 6] = hl.rsqrt(v)
    y[i, 7] = hl.tanh(v)
    y[i, 8] = hl.sqrt(v)
    y[i, 9] = 1 / v
    y[i, 10] = v / 3.0


WANT = (np.exp, np.exp2, np.log, np.log2, np.sin, np.cos, lambda v: 1 / np.sqrt(v), np.tanh,
        np.sqrt, np.reciprocal, lambda v: v / 3)  # fmt: skip
native = hetir.kernel(math="native")(_everything)
reproducible = hetir.kernel(_everything)


def run(kernel, device, x):
    y = np.zeros((x.size, 11), x.dtype)
    kernel.launch((x, y), grid=x.size // 64, workgroup=64, device=device).wait()
    return y


def kinds(kernel, signature="f32[:], f32[:, :]"):
    """The native ops of a kernel, by kind."""
    text = hetir.compile(kernel, signature, target="hetir").text
    return [o.attrs["kind"] for o in walk(parse_kernel(text).body) if o.spec is ops.NATIVE]


def test_every_kind_has_its_op():
    assert sorted(kinds(native)) == sorted(ops.NATIVE_KINDS)
    assert kinds(reproducible) == []


def test_only_f32_has_native_functions():
    assert kinds(native, "f64[:], f64[:, :]") == []
    # f16 goes through f32; its root and quotients are f16's own, correctly rounded
    assert {"exp", "sin"} <= set(kinds(native, "f16[:], f16[:, :]")) <= set(ops.NATIVE_KINDS)


@hetir.kernel(math="native")
def others(x, y):
    i = hl.global_id(0)
    y[i, 0] = hl.tan(x[i]) + hl.sigmoid(x[i]) + x[i] / 4.0 + hl.pow(x[i], x[i])


def test_what_other_functions_use_inside_stays_reproducible():
    assert kinds(others) == []


@pytest.mark.parametrize("device", ["cpu", "emulator"])
def test_without_a_function_of_its_own_the_bits_are_the_reproducible_ones(device):
    x = np.linspace(0.01, 30, 64 if device == "emulator" else 6400, dtype=np.float32)
    assert run(native, device, x).tobytes() == run(reproducible, "cpu", x).tobytes()


def test_a_target_that_has_the_functions_computes_nothing_else():
    kernel = parse_kernel(hetir.compile(native, "f32[:], f32[:, :]", target="hetir").text)
    able = Target(name="able", fingerprint="", rules={**RULES, ("select", "ref"): True})
    body = list(walk(legalize(expand_arrays(kernel), able).body))
    own = [op for op in body if op.spec is ops.NATIVE]
    assert len(own) == 11
    assert all(len(op.operands) == 1 + (op.attrs["kind"] == "divide") for op in own)
    assert not any(op.name in ("fma", "select", "bitcast") for op in body)


def test_without_the_option_no_target_takes_the_op():
    text = hetir.compile(native, "f32[:], f32[:, :]", target="hetir").text
    kernel = parse_kernel(text.replace(" math=native", ""))
    able = Target(name="able", fingerprint="", rules={**RULES, ("select", "ref"): True})
    assert not any(o.spec is ops.NATIVE for o in walk(legalize(expand_arrays(kernel), able).body))


@pytest.mark.parametrize("target", ["spirv:opencl", "spirv:vulkan"])
def test_spirv_calls_the_devices_functions(target):
    text = hetir.compile(native, "f32[:], f32[:, :]", target=target).text
    names = {
        "spirv:opencl": ("native_exp", "native_exp2", "native_log", "native_log2", "native_sin",
                         "native_cos", "native_rsqrt", "native_sqrt", "native_recip",
                         "native_divide"),
        "spirv:vulkan": ("Exp", "Exp2", "Log", "Log2", "Sin", "Cos", "InverseSqrt", "Sqrt",
                         "Tanh"),
    }  # fmt: skip
    for name in names[target]:
        assert f" {name} " in text, name


@pytest.mark.parametrize("device", GPUS)
def test_native_values_are_near(device):
    """Within 2^-10 of the value, or of 1: OpenCL leaves the error to the device."""
    x = np.random.default_rng(7).uniform(0.01, math.pi, 6400).astype(np.float32)
    got = run(native, device, x).astype(np.float64)
    for column, want in enumerate(WANT):
        exact = want(x.astype(np.float64))
        worst = np.max(np.abs(got[:, column] - exact) / np.maximum(1, np.abs(exact)))
        assert worst < 2**-10, column
