"""How many work-items a leaf runs side by side, by what its values and its chains need."""

import re

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import compiler
from hetir.backends import cpu


@hetir.kernel
def chain(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    if i < y.shape[0]:
        y[i] = hl.erf(x[i])


@hetir.kernel
def loop(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1], n: hl.i32):
    i = hl.global_id(0)
    if i < y.shape[0]:
        v = x[i]
        for _ in range(n):
            v = hl.erf(v)
        y[i] = v


@hetir.kernel
def long(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    if i < y.shape[0]:
        y[i] = hl.tgamma(x[i])


def widest(kernel, target):
    """The most floats that are added at once in a kernel's code for workgroups of 256."""
    traced = compiler.record(kernel, kernel.annotated())
    text = cpu.emit_ir(compiler.prepare(traced.module), target=target, workgroup=(256, 1, 1))
    return max(int(n) for n in re.findall(r"fadd <(\d+) x float>", text))


@pytest.mark.parametrize(("target", "one"), [("cpu:x86-64-v4", 16), ("cpu:x86-64-v3", 8)])
def test_chains_of_arithmetic_run_in_more_than_the_registers(target, one):
    assert widest(chain, target) >= 2 * widest(loop, target)
    assert widest(chain, target) <= 8 * one
    assert widest(long, target) == one  # not worth LLVM's time


def sums_of(count):
    @hetir.kernel
    def sums(x: hl.Array[hl.f32, 2], y: hl.Array[hl.f32, 2]):
        """What LLVM's time grows with the square of, where a value takes several registers."""
        tx, ty = hl.local_id(0), hl.local_id(1)
        total = hl.f32(0.0)
        for k in hl.static_range(count):
            total += x[k, tx] * x[ty, k]
        y[ty, tx] = total

    return sums


@pytest.mark.parametrize("group", [(64, 1, 1), (16, 16, 1)])
def test_long_leaves_have_one_register_a_value(group):
    def lanes(count):
        kernel, x = sums_of(count), np.zeros((64, 64), np.float32)
        ready = compiler.prepare(compiler.record(kernel, kernel.specialise((x, x))).module)
        text = cpu.emit_ir(ready, target="cpu:x86-64-v4", workgroup=group)
        return max(int(n) for n in re.findall(r"fadd <(\d+) x float>", text))

    assert lanes(8) >= 64
    assert lanes(200) == 16
