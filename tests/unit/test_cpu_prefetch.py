"""Memory that is asked for ahead of time: by which accesses, and how far."""

import ctypes
import mmap
import re

import numpy as np
import pytest

from hetir import runtime
from hetir.backends import cpu
from hetir.backends.cpu.prefetch import Prefetches, leaders
from hetir.ir import ops
from hetir.ir.text import parse_kernel
from hetir.passes.access import Addresses
from hetir.passes.expand_arrays import expand_arrays
from hetir.passes.uniformity import uniformity
from tests.unit.test_cpu_streaming import kernel_of


def leading(kernel, *, in_rows=True, width=1):
    """For each leader: load or store, its parameter's position, and its access."""
    kernel = expand_arrays(kernel)
    places = [p.value for p in kernel.params]
    addresses, known = Addresses(kernel), uniformity(kernel, lockstep=True)
    found = leaders(kernel, addresses, known, in_rows=in_rows, width=width)
    return [(op.name, places.index(root), addresses.of(op).offset) for op, root in found.items()]


def strides(offset):
    """How many rows down an offset lies, apart from the work-item's own."""
    return sum(
        factor
        for term, factor in offset.terms.items()
        if len(term) == 1 and term[0].kind == "stride"
    )


def test_jacobi_asks_for_the_row_below_and_for_what_it_writes():
    (read, written) = leading(kernel_of("jacobi"))
    assert (read[:2], strides(read[2])) == (("load", 0), 1)
    assert (written[:2], strides(written[2])) == (("store", 1), 0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vector_add", [("load", 0), ("load", 1), ("store", 2)]),
        ("saxpy", [("load", 1), ("load", 2)]),  # y is read before it is written
        ("sum", [("load", 0)]),
        ("softmax", [("load", 0), ("store", 1)]),  # the first loop over x, the first over out
        ("layer_norm", [("load", 0), ("store", 3)]),  # every row needs the weights
        ("transpose", []),  # tiles have no direction
    ],
)
def test_which_accesses_lead(name, expected):
    in_rows = name in ("vector_add", "saxpy")
    assert [found[:2] for found in leading(kernel_of(name), in_rows=in_rows)] == expected


LOOP = """kernel k(
  %x: array<f32[?:1], global> from 0, %y: array<f32[?:1], global> from 1, %n: i64 from 2
) {{
  %i: i64 = {place}_id axis=0
  %nought: i64 = const 0
  %one: i64 = const 1
  %step: i64 = const {step}
  for %nought, %n, %one (%j: i64) {{
    %m: i64 = mul %j, %step
    %k: i64 = add %i, %m
    %b: f32 = load %x, %k
    store %y, %i, %b
    yield
  }}
  return
}}
"""


@pytest.mark.parametrize(
    ("step", "width", "leads"),
    [
        (64, 64, 1),
        (64, 16, 1),  # with gaps, but some turn comes by 8 KiB from here
        (48, 48, 1),
        (48, 47, 0),  # no turn does
        (2048, 64, 1),
        (2047, 64, 0),
        (4096, 64, 0),
        (0, 64, 0),
        (-64, 64, 0),
    ],
)
def test_a_loop_must_go_on_in_memory(step, width, leads):
    found = leading(parse_kernel(LOOP.format(place="global", step=step)), width=width)
    assert [f[:2] for f in found] == [("load", 0)] * leads


def test_what_every_workgroup_reads_is_not_asked_for():
    assert not leading(parse_kernel(LOOP.format(place="local", step=64)))


BESIDE = """kernel k(%x: array<f32[?:1], global> from 0, %y: array<f32[?:1], global> from 1) {{
  %i: i64 = global_id axis=0
  %a: i64 = const {first}
  %b: i64 = const {second}
  %p: i64 = add %i, %a
  %q: i64 = add %i, %b
  %f: f32 = load %x, %p
  %g: f32 = load %x, %q
  %h: f32 = add %f, %g
  store %y, %i, %h
  return
}}
"""


@pytest.mark.parametrize(
    ("first", "second", "leader"),
    [(0, 1, 0), (1, 0, 1), (0, 15, 0), (0, 16, 16), (16, 0, 16), (-1000, 1000, 1000)],
)
def test_of_neighbours_the_one_whose_line_comes_first_leads(first, second, leader):
    found = leading(parse_kernel(BESIDE.format(first=first, second=second)))
    assert [f[:2] for f in found] == [("load", 0), ("store", 1)]
    assert found[0][2].terms.get((), 0) == 4 * leader


def calls(text):
    """Each prefetch: whether to write."""
    return [int(w) for w in re.findall(r"call void @llvm.prefetch.p0\(ptr %\S+, i32 ([01])", text)]


def test_every_line_of_a_vector_is_asked_for():
    text = cpu.emit_ir(kernel_of("saxpy"), target="cpu:x86-64-v3", workgroup=(256, 1, 1))
    bytes_a_vector = 4 * int(re.search(r"load <(\d+) x float>", text)[1])
    loads = len(re.findall(r"load <\d+ x float>", text))
    assert len(calls(text)) == loads * max(1, bytes_a_vector // 64)
    assert not any(calls(text))
    assert 1 in calls(cpu.emit_ir(kernel_of("jacobi"), workgroup=(64, 4, 1)))


COPY = """kernel k(%x: array<i64[?, ?:1], global> from 0, %y: array<i64[?, ?:1], global> from 1) {
  %c: i64 = global_id axis=0
  %r: i64 = global_id axis=1
  %v: i64 = load %x, %r, %c
  store %y, %r, %c, %v
  return
}
"""


@pytest.mark.parametrize(
    ("rows", "columns", "stride", "far"),
    [
        (127, 1024, 1024, False),  # less than 1 MiB
        (128, 1024, 1024, True),
        (128, 1024, 1032, True),  # a line between two rows
        (128, 1024, 1033, False),
        (256, 512, 4096, False),  # a few columns of a wide array
        (32, 4096, 5000, True),  # long rows
        (128, 1024, -1024, False),  # upside down
    ],
)
def test_small_arrays_and_rows_that_lie_apart_have_nothing_ahead(
    rows, columns, stride, far, monkeypatch
):
    """What is loaded is made to be the distance at which the emitted code would look ahead."""

    def show(self, code, op, where, _):
        if op.spec is ops.LOAD:
            distance = self._distance(self._params[self._arrays[op]], 8)
            code.put(f"store i64 {distance}, ptr {where}")

    monkeypatch.setattr(Prefetches, "emit", show)
    artifact = cpu.compile_kernel(parse_kernel(COPY), workgroup=(64, 1, 1))
    program = runtime.device("cpu").load(artifact, names=("x", "y"))
    memory = np.zeros(rows * abs(stride), np.int64)
    x = memory.reshape(rows, -1)[:: -1 if stride < 0 else 1, :columns]
    y = np.zeros((rows, columns), np.int64)
    program.run((x, y), (columns // 64, rows, 1), (64, 1, 1))
    assert y.max() == (8192 if far else 0)


def guarded(count):
    """An array of floats whose last byte is the last of the memory that may be touched."""
    size = 4 * count
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    array = np.frombuffer(memory, np.float32, count)
    end = ctypes.c_void_p(array.ctypes.data + size)
    assert ctypes.CDLL(None).mprotect(end, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    return array


def test_ahead_of_the_end_of_memory_lies_nothing_and_nothing_happens():
    """A prefetch is no access, whatever lies where it looks."""
    count = 1 << 18
    artifact = cpu.compile_kernel(kernel_of("vector_add"), workgroup=(256, 1, 1))
    program = runtime.device("cpu").load(artifact, names=("x", "y", "z"))
    x, y, z = guarded(count), guarded(count), guarded(count)
    x[:] = np.arange(count)
    y[:] = 1
    program.run((x, y, z), (count // 256, 1, 1), (256, 1, 1))
    assert (z == np.arange(count, dtype=np.float32) + 1).all()


def test_atomics_do_not_lead():
    kernel = expand_arrays(kernel_of("histogram"))
    known = uniformity(kernel, lockstep=True)
    found = leaders(kernel, Addresses(kernel), known, in_rows=True, width=1)
    assert found
    assert all(op.spec in (ops.LOAD, ops.STORE) for op in found)
