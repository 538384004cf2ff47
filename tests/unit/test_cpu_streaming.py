"""Stores past the caches: which they are, that they write what others do, and the fence."""

import random
from dataclasses import replace

import numpy as np
import pytest

from hetir import compiler, library, runtime, testing
from hetir.backends import cpu
from hetir.backends.cpu.streaming import streaming
from hetir.ir import ops
from hetir.ir.core import walk
from hetir.ir.text import parse_kernel
from hetir.passes.expand_arrays import expand_arrays
from hetir.passes.simplify import simplify
from tests.unit.test_cpu_vectors import run_at


@pytest.fixture
def every_array_is_large(monkeypatch):
    real = cpu.resolve

    def resolve(name):
        target, machine = real(name)
        return replace(target, limits={"cache_bytes": 4}), machine

    monkeypatch.setattr(cpu, "resolve", resolve)


def kernel_of(name):
    (step, *_) = library.case(name, size=library.SMALL[name]).steps
    traced = compiler.record(step.kernel, step.kernel.specialise(step.arguments))
    return simplify(compiler.prepare(traced.module))


@pytest.mark.parametrize(
    ("name", "some"),
    [
        ("vector_add", True),
        ("transpose", True),
        ("black_scholes", True),
        ("saxpy", False),  # y is read
        ("histogram", False),  # atomics
    ],
)
def test_which_stores_stream(name, some):
    assert bool(streaming(expand_arrays(kernel_of(name)))) == some


LOOP = """kernel k(%x: array<u32[?], global> from 0, %n: i64 from 1) {{
  %i: i64 = global_id axis=0
  %nought: i64 = const 0
  %one: i64 = const 1
  %b: u32 = const 2
  for %nought, %n, %one (%j: i64) {{
    %k: i64 = add %i, {what}
    store %x, %k, %b
    yield
  }}
  return
}}
"""


@pytest.mark.parametrize(("what", "some"), [("%j", True), ("%one", False)])
def test_a_loop_that_writes_one_place_again_and_again_does_not_stream(what, some):
    kernel = expand_arrays(parse_kernel(LOOP.format(what=what)))
    assert any(op.spec is ops.STORE for op in walk(kernel.body))
    assert bool(streaming(kernel)) == some


@pytest.mark.usefixtures("every_array_is_large")
@pytest.mark.parametrize("name", ["vector_add", "transpose", "softmax", "scan", "jacobi", "sobel"])
def test_library_kernels_give_the_same_bits(name):
    one = run_at(name, 0)
    for lanes in (4, 16, None):
        assert run_at(name, lanes) == one, lanes


@pytest.mark.usefixtures("every_array_is_large")
def test_generated_kernels_give_the_same_bits(monkeypatch):
    monkeypatch.setattr(cpu, "vector_lanes", lambda _: 2)
    for seed in range(7000, 7012):
        case = testing.generate(random.Random(seed).randrange)
        got = case.run(testing.on_cpu(optimise=0))
        assert not testing.differences(case.run(testing.evaluator), got), seed


@pytest.mark.usefixtures("every_array_is_large")
@pytest.mark.parametrize("offset", [0, 1, 4, 16])
@pytest.mark.parametrize("count", [0, 1, 255, 256, 1000])
def test_arrays_at_every_alignment_and_their_neighbours(offset, count):
    kernel = kernel_of("vector_add")
    artifact = cpu.compile_kernel(kernel, workgroup=(256, 1, 1))
    program = runtime.device("cpu").load(artifact, names=("x", "y", "z"))
    raw = np.full(count + 64, np.float32(-1))
    start = -raw.ctypes.data % 64 // 4 + offset
    z = raw[start : start + count]
    x = np.arange(count, dtype=np.float32)
    program.run((x, x, z), (-(-count // 256), 1, 1), (256, 1, 1))
    assert (z == 2 * x).all()
    assert (raw[:start] == -1).all()
    assert (raw[start + count :] == -1).all()


def test_a_fence_follows_them():
    kernel = kernel_of("vector_add")
    artifact = cpu.compile_kernel(kernel, target="cpu:x86-64-v3", workgroup=(256, 1, 1))
    code = cpu.disassemble(artifact)
    assert code.rindex("movnt") < code.rindex("sfence") < code.rindex("ret")


def test_other_processors_and_other_kernels_have_none():
    for name, target in (("saxpy", "cpu:x86-64-v3"), ("vector_add", "cpu:neoverse-v1")):
        text = cpu.emit_ir(kernel_of(name), target=target, workgroup=(256, 1, 1))
        assert "nontemporal" not in text
        assert "sfence" not in text
