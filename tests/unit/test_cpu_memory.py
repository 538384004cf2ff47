"""Atomics, records, bounds checks, layouts and grids of the CPU backend."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetir import emulator
from hetir.backends.cpu import compile_kernel
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Value
from hetir.ir.types import BOOL, F32, I64, SCALARS, ArrayType, array, static_array
from hetir.source import Loc
from hetir.target import Assumptions
from hetir.testing.differential import differences
from tests.unit.cpu_support import enter, kernel_of, run


def rmw(element: str, kind: str, space: str, scope: str = "device") -> Kernel:
    """Every item updates one element with its own value; through shared memory or not."""
    scalar = SCALARS[element]

    def build(b: Builder, x: Value, y: Value, old: Value) -> None:
        i, zero = b.value(ops.GLOBAL_ID, axis=0), b.const(I64, 0)
        value = b.value(ops.LOAD, x, i)
        attrs: Any = {"kind": kind, "order": "relaxed", "scope": scope}
        target = y
        if space == "shared":
            target = b.value(ops.ALLOC, type=static_array(scalar, (1,), "shared"))
            b.emit(ops.STORE, target, zero, b.value(ops.LOAD, y, zero))
        was = b.emit(ops.ATOMIC_RMW, target, zero, value, attrs=attrs).result
        b.emit(ops.STORE, old, i, was)
        if space == "shared":
            b.emit(ops.STORE, y, zero, b.value(ops.LOAD, target, zero))

    one = array(scalar, 1)
    return kernel_of(build, [one, one, one])


COMBINE = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "exchange": lambda a, b: b,
    "min": np.minimum,
    "max": np.maximum,
}


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("element", [n for n, t in SCALARS.items() if t.is_int or t.is_float])
def test_read_modify_writes(element: str, space: str) -> None:
    check_updates(element, space, lambda *args: run(*args, optimise=1))


def check_updates(element: str, space: str, runner: Callable[..., object]) -> None:
    """One item after another, so that the old values are known too."""
    kinds = [k for k in COMBINE if SCALARS[element].is_int or k not in ("and", "or", "xor")]
    dtype = SCALARS[element].numpy
    for kind in kinds:
        x = np.array([3, 250, 7, -2, 100], np.int64).astype(dtype)
        y, old = np.array([5]).astype(dtype), np.zeros(5, dtype)
        workgroup = (1, 1, 1) if space == "shared" else (5, 1, 1)
        grid = (5, 1, 1) if space == "shared" else (1, 1, 1)
        runner(rmw(element, kind, space), [x, y, old], grid, workgroup)
        now = np.array([5]).astype(dtype)
        for index in range(5):
            assert old[index] == now[0], (kind, index)
            with np.errstate(over="ignore"):
                now = COMBINE[kind](now, x[index : index + 1]).astype(dtype)
        assert y[0] == now[0], kind


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("kind", ["add", "min", "max"])
def test_float_atomics_end_on_nan(element: str, kind: str) -> None:
    """A NaN of any payload in memory: compared as bits, so the loop ends."""
    scalar = SCALARS[element]
    raw = f"u{scalar.bytes}"
    quiet = (1 << scalar.bits) - 1
    y = np.array([quiet], raw).view(scalar.numpy)
    x = np.ones(4, scalar.numpy)
    run(rmw(element, kind, "global"), [x, y, np.zeros(4, scalar.numpy)], (1, 1, 1), (4, 1, 1))
    assert np.isnan(y.astype(np.float32))[0]


@pytest.mark.parametrize(
    ("element", "count"),
    [
        ("f16", 1000),
        ("u8", 100),
        ("f32", 300000),
        ("f64", 300000),
        ("i32", 300000),
        ("u64", 300000),
    ],
)
def test_atomic_adds_of_two_threads(element: str, count: int) -> None:
    dtype = SCALARS[element].numpy
    x, y, old = np.ones(count, dtype), np.zeros(1, dtype), np.zeros(count, dtype)
    go = enter(compile_kernel(rmw(element, "add", "global")), [x, y, old], (count, 1, 1), (1, 1, 1))
    threads = [threading.Thread(target=go, args=(0, count)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert y[0] == 2 * count


def test_orders_reach_llvm_only_where_another_thread_can_see() -> None:
    def build(b: Builder, y: Value) -> None:
        zero, v = b.const(I64, 0), b.const(I64, 1)
        for scope in ("workgroup", "device"):
            attrs: Any = {"kind": "add", "order": "acq_rel", "scope": scope}
            b.emit(ops.ATOMIC_RMW, y, zero, v, attrs=attrs)
            b.emit(ops.FENCE, attrs={"order": "seq_cst", "scope": scope})
            b.emit(ops.ATOMIC_STORE, y, zero, v, attrs={"order": "release", "scope": scope})
            b.emit(ops.ATOMIC_LOAD, y, zero, attrs={"order": "acquire", "scope": scope})

    text = compile_kernel(kernel_of(build, [array(I64, 1)]), optimise=0).text
    assert text.count("atomicrmw add") == 1
    assert text.count(" acq_rel,") == 1
    assert text.count("fence seq_cst") == 1
    assert text.count("store atomic i64") == 1
    assert text.count("load atomic i64") == 1


def _lines(data: bytes, artifact: Any) -> list[tuple[Any, ...]]:
    """The records: site, group, item, operands' bits."""
    used = struct.unpack_from("<Q", data, 8)[0]
    found, at = [], 16
    while at < 16 + used:
        size, site, group, item = struct.unpack_from("<IIqq", data, at)
        words = struct.unpack_from(f"<{(size - 24) // 8}Q", data, at + 24)
        assert len(words) == len(artifact.sites[site].dtypes)
        found.append((artifact.sites[site].kind, group, item, *words))
        at += size
    return found


def test_print_and_assert_write_records() -> None:
    def build(b: Builder, x: Value) -> None:
        i = b.value(ops.GLOBAL_ID, axis=0)
        v = b.value(ops.LOAD, x, i)
        b.emit(ops.ASSERT, b.value(ops.LT, v, b.const(F32, 3)), attrs={"message": "too big"})
        flag = b.value(ops.EQ, i, b.const(I64, 2))
        b.emit(ops.PRINT, v, i, flag, attrs={"format": "{} at {}: {}"})

    x = np.array([1, 2, 3, 4], np.float32)
    result = run(kernel_of(build, [array(F32, 1)]), [x], (2, 1, 1), (2, 1, 1), records=4096)
    kinds = [(s.kind, s.format, s.dtypes) for s in result.artifact.sites]
    assert kinds == [("assert", "too big", ()), ("print", "{} at {}: {}", ("f32", "i64", "bool"))]
    bits = [int(b) for b in x.view(np.uint32)]
    assert _lines(result.records, result.artifact) == [
        ("print", 0, 0, bits[0], 0, 0),
        ("print", 0, 1, bits[1], 1, 0),
        ("assert", 1, 0),
        ("print", 1, 0, bits[2], 2, 1),
        ("assert", 1, 1),
        ("print", 1, 1, bits[3], 3, 0),
    ]


def test_records_past_the_capacity_are_counted_and_dropped() -> None:
    def build(b: Builder) -> None:
        b.emit(ops.PRINT, b.value(ops.GLOBAL_ID, axis=0), attrs={"format": "{}"})

    kernel = kernel_of(build, [])
    exact = run(kernel, [], (1, 1, 1), (10, 1, 1), records=96)
    assert struct.unpack_from("<QQ", exact.records) == (96, 320)
    assert struct.unpack_from("<IIqqQ", exact.records, 16 + 64) == (32, 0, 0, 2, 2)
    result = run(kernel, [], (1, 1, 1), (10, 1, 1), records=100)
    assert struct.unpack_from("<QQ", result.records) == (100, 320)
    # three records of 32 bytes fit; the fourth would not, and bytes 96 to 100 stay untouched
    for index in range(3):
        assert struct.unpack_from("<IIqqQ", result.records, 16 + 32 * index) == (
            32,
            0,
            0,
            index,
            index,
        )
    assert result.records[16 + 96 :] == bytes(4)


def test_without_a_buffer_nothing_is_written() -> None:
    def build(b: Builder) -> None:
        b.emit(ops.PRINT, b.value(ops.GLOBAL_ID, axis=0), attrs={"format": "{}"})

    assert run(kernel_of(build, []), [], (1, 1, 1), (10, 1, 1)).records == bytes(16)


def test_debug_skips_and_reports_accesses_out_of_bounds() -> None:
    place = Loc("kernel.py", 7, 4, 7, 9)

    def build(b: Builder, x: Value, y: Value) -> None:
        i = b.value(ops.GLOBAL_ID, axis=0)
        b.loc = place
        v = b.value(ops.LOAD, x, b.value(ops.SUB, i, b.const(I64, 1)), i)
        b.loc = None
        b.emit(ops.STORE, y, i, v)

    x = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    y = np.full(6, -1, np.float32)
    kernel = kernel_of(build, [array(F32, 2), array(F32, 1)], debug=True)
    for level in (0, 3):
        y[:] = -1
        result = run(kernel, [x, y], (1, 1, 1), (6, 1, 1), records=4096, optimise=level)
        np.testing.assert_array_equal(y, [0, 2, 7, 12, 0, 0])
        (load, store) = result.artifact.sites
        assert (load.kind, load.format, load.loc, store.format) == ("bounds", "p0", place, "p1")
        minus_one = (1 << 64) - 1
        assert _lines(result.records, result.artifact) == [
            ("bounds", 0, 0, minus_one, 3, 0, 4),
            ("bounds", 0, 4, 3, 3, 4, 4),
            ("bounds", 0, 5, 4, 3, 5, 4),
        ]


def test_debug_reports_a_step_of_zero() -> None:
    def build(b: Builder, y: Value, step: Value) -> None:
        zero, ten = b.const(I64, 0), b.const(I64, 10)
        index, body = Value(I64), Builder()
        body.emit(ops.STORE, y, zero, index)
        body.emit(ops.YIELD)
        b.emit(ops.FOR, zero, ten, step, types=(), regions=(body.region(index),))

    for step, lines in ((0, [("assert", 0, 0)]), (4, [])):
        y = np.full(1, -1)
        kernel = kernel_of(build, [array(I64, 1), I64], debug=True)
        result = run(kernel, [y, np.int64(step)], (1, 1, 1), (1, 1, 1), records=256, optimise=1)
        assert _lines(result.records, result.artifact) == lines
        assert y[0] == (8 if step else -1)


@pytest.mark.parametrize("name", ["memcpy", "fma", "main", "größe", "κ", "record"])
def test_any_python_name_names_a_kernel(name: str, tmp_path: Path) -> None:
    y = np.zeros(1, np.int64)

    def build(b: Builder, out: Value) -> None:
        b.emit(ops.STORE, out, b.const(I64, 0), b.const(I64, 7))
        b.emit(ops.PRINT, attrs={"format": "x"})

    run(kernel_of(build, [array(I64, 1)], name=name), [y], (1, 1, 1), (1, 1, 1), tmp_path)
    assert y[0] == 7


LAYOUTS = {
    "reversed": lambda a: a[::-1, ::-1],
    "step": lambda a: a[::2, 1::3],
    "transposed": lambda a: a.T,
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "offset": lambda a: a[3:, 2:],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_strided_arguments(layout: str) -> None:
    x = LAYOUTS[layout](np.arange(120, dtype=np.int16).reshape(10, 12))
    y = np.zeros(x.shape, np.int16)

    def build(b: Builder, source: Value, to: Value) -> None:
        i, j = b.value(ops.GLOBAL_ID, axis=1), b.value(ops.GLOBAL_ID, axis=0)
        b.emit(ops.STORE, to, i, j, b.value(ops.LOAD, source, i, j))

    kind = ArrayType(SCALARS["i16"], 2)
    run(kernel_of(build, [kind, kind]), [x, y], (x.shape[1], 1, 1), (1, x.shape[0], 1))
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("odd", [0, 1])
def test_disjoint_arrays_and_one_that_is_either(odd: int) -> None:
    """A store through a chosen array is seen by a load of the array that was chosen."""

    def build(b: Builder, x: Value, y: Value, out: Value, which: Value) -> None:
        i = b.value(ops.GLOBAL_ID, axis=0)
        flag = b.value(ops.CAST, which, to=BOOL)
        b.emit(ops.STORE, x, i, b.const(F32, 1))
        b.emit(ops.STORE, y, i, b.const(F32, 2))
        b.emit(ops.STORE, b.value(ops.SELECT, flag, x, y), i, b.const(F32, 3))
        b.emit(ops.STORE, out, i, b.value(ops.LOAD, x, i))

    x, y, out = (np.zeros(40, np.float32) for _ in range(3))
    kernel = kernel_of(build, [array(F32, 1)] * 3 + [I64])
    run(
        kernel,
        [x, y, out, np.int64(odd)],
        (1, 1, 1),
        (40, 1, 1),
        assumptions=Assumptions(disjoint=True),
    )
    assert (out == (3 if odd else 1)).all()


def _ids(b: Builder, out: Value, base: Value) -> None:
    """out[group - base, :] = global ids."""
    names = [b.value(ops.GLOBAL_ID, axis=a) for a in range(3)]
    linear = b.const(I64, 0)
    for axis in (2, 1, 0):
        linear = b.value(ops.MUL, linear, b.value(ops.NUM_GROUPS, axis=axis))
        linear = b.value(ops.ADD, linear, b.value(ops.GROUP_ID, axis=axis))
    row = b.value(ops.SUB, linear, base)
    for axis, name in enumerate(names):
        b.emit(ops.STORE, out, row, b.const(I64, axis), name)


@pytest.mark.parametrize(
    ("grid", "first"),
    [((1 << 33, 1, 1), (1 << 33) - 3), ((3, 70000, 70000), 70000 * 70000 * 3 - 4), ((2, 3, 4), 5)],
)
def test_ids_of_huge_grids(grid: tuple[int, int, int], first: int) -> None:
    """Ids past 2^31 and y and z extents past 65535: a few groups of a huge grid."""
    last = min(first + 7, grid[0] * grid[1] * grid[2])
    out = np.zeros((7, 3), np.int64)
    kernel = kernel_of(_ids, [array(I64, 2), I64])
    go = enter(compile_kernel(kernel), [out, np.int64(first)], grid, (1, 1, 1))
    go(first, last)
    for row, group in enumerate(range(first, last)):
        x, rest = group % grid[0], group // grid[0]
        assert tuple(out[row]) == (x, rest % grid[1], rest // grid[1])


def test_empty_ranges_run_nothing() -> None:
    out = np.zeros((1, 3), np.int64)
    go = enter(
        compile_kernel(kernel_of(_ids, [array(I64, 2), I64])),
        [out, np.int64(0)],
        (0, 1, 1),
        (1, 1, 1),
    )
    go(0, 0)
    assert not out.any()


RANGES = [
    (0, 5, 1),
    (5, 0, 1),
    (3, -3, 1),
    (5, 0, -2),
    (0, 5, 0),
    (3, 3, 1),
    (-(1 << 63), (1 << 63) - 1, (1 << 62) + 1),
    ((1 << 63) - 1, -(1 << 63), -(1 << 63)),
    ((1 << 63) - 3, (1 << 63) - 1, 1),
    (-(1 << 63) + 1, -(1 << 63), -1),
]


@pytest.mark.parametrize(("start", "stop", "step"), RANGES)
@pytest.mark.parametrize("known", [False, True])
def test_ranges_count_as_python_does(start: int, stop: int, step: int, known: bool) -> None:
    def build(b: Builder, out: Value, *bounds: Value) -> None:
        zero, one = b.const(I64, 0), b.const(I64, 1)
        ends = [b.const(I64, n) for n in (start, stop, step)] if known else bounds
        index, count, last = Value(I64), Value(I64), Value(I64)
        body = Builder()
        body.emit(ops.YIELD, body.value(ops.ADD, count, body.const(I64, 1)), index)
        op = b.emit(
            ops.FOR, *ends, zero, zero, types=(I64, I64), regions=(body.region(index, count, last),)
        )
        b.emit(ops.STORE, out, zero, op.results[0])
        b.emit(ops.STORE, out, one, op.results[1])

    want = list(range(start, stop, step)) if step else []
    out = np.zeros(2, np.int64)
    args = [out, *(np.int64(n) for n in (start, stop, step))]
    run(kernel_of(build, [array(I64, 1), I64, I64, I64]), args, (1, 1, 1), (1, 1, 1), optimise=2)
    assert out.tolist() == [len(want), want[-1] if want else 0]


def test_the_object_links_with_libc_and_libm_alone(tmp_path: Path) -> None:
    """A copy loop may become memcpy, fma a call; `link` refuses anything else."""

    def build(b: Builder, x: Value, y: Value) -> None:
        i = b.value(ops.GLOBAL_ID, axis=0)
        v = b.value(ops.LOAD, x, i)
        b.emit(ops.STORE, y, i, b.value(ops.FMA, v, v, v))

    contiguous = array(F32, 1, strides=(1,))
    x, y = np.arange(9, dtype=np.float32), np.zeros(9, np.float32)
    kernel = kernel_of(build, [contiguous, contiguous])
    run(kernel, [x, y], (1, 1, 1), (9, 1, 1), tmp_path, target="cpu:x86-64")
    np.testing.assert_array_equal(y, x * x + x)
    want = np.zeros_like(y)
    emulator.run(kernel, [x, want], (1, 1, 1), (9, 1, 1))
    assert not differences([want], [y])
