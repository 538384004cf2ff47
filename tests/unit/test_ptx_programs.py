"""Control flow, barriers, subgroups, shared memory and limits as PTX, on the emulator."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from hetir import limits
from hetir.backends.ptx import compile_kernel
from hetir.backends.ptx.frame import ParameterBytesError
from hetir.backends.ptx.targets import UnknownPtxTargetError, WidthError
from hetir.compiler import check_limits
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Value
from hetir.ir.text import parse_kernel
from hetir.ir.types import F32, I32, I64, SCALARS, U64, array, static_array
from hetir.passes.simplify import simplify
from hetir.target import UnsupportedError
from tests.unit import test_cpu_programs
from tests.unit.cpu_support import kernel_of
from tests.unit.ptx_support import (
    CHIPS,
    assemble_together,
    run,
)

CHIP_CASES = [pytest.param(c, marks=() if c == "sm_75" else pytest.mark.slow) for c in CHIPS]
POWERS = (1, 2, 4, 8, 16, 32, 64, 128)


def programs() -> Iterator[Any]:
    """The CPU's tests of whole programs, each with its parameters; widths as hardware has them."""
    for name, test in inspect.getmembers(test_cpu_programs, inspect.isfunction):
        if not name.startswith("test_"):
            continue
        chosen: list[dict[str, Any]] = [{}]
        for mark in getattr(test, "pytestmark", []):
            names, values = mark.args
            names = [names] if isinstance(names, str) else list(names)
            rows = [v if isinstance(v, tuple) else (v,) for v in values]
            chosen = [{**c, **dict(zip(names, r, strict=True))} for c in chosen for r in rows]
        for kept in chosen:
            if set(kept) == set(inspect.signature(test).parameters) and (
                kept.get("width", 1) in POWERS
            ):
                shown = "-".join(map(str, kept.values()))
                yield pytest.param(test, kept, id=f"{name.removeprefix('test_')}-{shown}")


@pytest.mark.parametrize("chip", ["sm_90", pytest.param("sm_75", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("test", "given"), tuple(programs()))
def test_as_on_the_cpu(
    test: Any, given: dict[str, Any], chip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_ptx(*args: Any, lanes: int = 0, pieces: int = 1, **options: Any) -> Any:
        del lanes, pieces
        return run(*args, target=f"ptx:{chip}", **options)

    monkeypatch.setattr(test_cpu_programs, "run", as_ptx)
    test(**given)


# ---- subgroups ---------------------------------------------------------------------------


def subgroup_kernel(width: int) -> Kernel:
    def build(b: Builder, x: Value, y: Value) -> None:
        i, yes = b.value(ops.GLOBAL_ID, axis=0), b.const(SCALARS["bool"], True)
        v = b.value(ops.LOAD, x, i)
        total = b.emit(ops.SUBGROUP_REDUCE, v, yes, attrs={"kind": "add"}).result
        b.emit(ops.BARRIER, attrs={"scope": "subgroup"})
        far = b.emit(ops.SHUFFLE, v, b.const(I64, 1), yes, attrs={"mode": "down"}).result
        b.emit(ops.STORE, y, i, b.value(ops.ADD, total, far))

    return kernel_of(build, [array(I32, 1)] * 2, subgroup_size=width)


@pytest.mark.parametrize("width", POWERS)
@pytest.mark.parametrize("items", [1, 33, 200])
@pytest.mark.parametrize("fixed", [False, True])
def test_partial_subgroups(width: int, items: int, fixed: bool) -> None:
    """The sums that NumPy has, in groups whose last warp is not whole."""
    x = np.random.default_rng(items).integers(-(2**31), 2**31, 2 * items).astype(np.int32)
    y = np.zeros(2 * items, np.int32)
    run(subgroup_kernel(width), [x, y], (2, 1, 1), (items, 1, 1), fixed=fixed)
    want = np.zeros(2 * items, np.int32)
    for group in (0, items):
        for first in range(group, group + items, width):
            lanes = slice(first, min(first + width, group + items))
            with np.errstate(over="ignore"):
                moved = np.append(x[lanes][1:], np.int32(0))
                want[lanes] = x[lanes].sum(dtype=np.int32) + moved
    np.testing.assert_array_equal(y, want)


def test_warp_instructions_of_each_generation() -> None:
    """`redux.sync` from sm_80; whole warps need no mask; 64 lanes go through shared memory."""
    texts = {
        (chip, width): compile_kernel(
            subgroup_kernel(width), target=f"ptx:{chip}", binary=False, workgroup=(64, 1, 1)
        ).text
        for chip in ("sm_75", "sm_80")
        for width in (32, 64)
    }
    assert "redux.sync.add.u32" in texts["sm_80", 32]
    assert "redux" not in texts["sm_75", 32]
    assert texts["sm_75", 32].count("shfl.sync.idx.b32") == 7  # five steps, one to all, one down
    assert texts["sm_80", 32].count("bar.warp.sync") == 1
    assert "shfl" not in texts["sm_80", 64]
    assert texts["sm_80", 64].count("bar.sync 0") == 1 + 2 * 8
    assert ".shared .align" in texts["sm_80", 64]


def test_wide_subgroups_need_uniform_control_flow() -> None:
    def build(b: Builder, x: Value) -> None:
        i = b.value(ops.SUBGROUP_ID)
        then, other = Builder(), Builder()
        yes = then.const(SCALARS["bool"], True)
        v = then.emit(ops.SHUFFLE, i, then.const(I64, 0), yes, attrs={"mode": "index"}).result
        then.emit(ops.STORE, x, v, v)
        then.emit(ops.YIELD)
        other.emit(ops.YIELD)
        first = b.value(ops.EQ, i, b.const(I64, 0))
        b.emit(ops.IF, first, types=(), regions=(then.region(), other.region()))

    with pytest.raises(UnsupportedError, match="64 work-items in control flow that differs"):
        compile_kernel(kernel_of(build, [array(I64, 1)], subgroup_size=64), target="ptx:sm_90")
    kernel = kernel_of(build, [array(I64, 1)], subgroup_size=32)
    assert "shfl" in compile_kernel(kernel, target="ptx:sm_90", binary=False).text


def test_widths_and_names_that_are_not_there() -> None:
    with pytest.raises(WidthError, match="subgroup of 3 work-items"):
        compile_kernel(subgroup_kernel(3), target="ptx:sm_90")
    for name in ("ptx:sm_70", "ptx:sm_90f", "ptx:sm_9", "ptx:90", "ptx"):
        with pytest.raises(UnknownPtxTargetError):
            compile_kernel(subgroup_kernel(32), target=name)


# ---- must be right -----------------------------------------------------------------------


def test_three_hundred_parameters() -> None:
    """150 arrays and 150 scalars: 4.8 KB, which needs PTX 8.1."""

    def build(b: Builder, *values: Value) -> None:
        zero = b.const(I64, 0)
        for number, (x, a) in enumerate(zip(values[:150], values[150:], strict=True)):
            if number % 7 == 0:
                b.emit(ops.STORE, x, zero, a)

    kinds = [array(I64, 1)] * 150 + [(I64, F32)[k % 2] for k in range(150)]
    kinds[1::2] = [array(F32, 1) if k < 75 else t for k, t in enumerate(kinds[1::2])]
    kernel = kernel_of(build, kinds)
    arrays = [np.zeros(1, (np.int64, np.float32)[k % 2]) for k in range(150)]
    scalars = [(np.int64, np.float32)[k % 2](3 * k - 100) for k in range(150)]
    made = run(kernel, [*arrays, *scalars], (1, 1, 1), (1, 1, 1))
    assert made.artifact.layout.size > 4096
    assert ".version 8.1\n" in made.artifact.text
    for k, x in enumerate(arrays):
        assert x[0] == (3 * k - 100 if k % 7 == 0 else 0)


def test_more_parameters_than_a_launch_passes() -> None:
    kernel = kernel_of(lambda *_: None, [array(I64, 4)] * 460)
    with pytest.raises(ParameterBytesError, match="the arguments take 33120 bytes"):
        compile_kernel(kernel, target="ptx:sm_90")


def test_a_loop_of_more_than_2_to_the_32_turns_counts_in_64_bits() -> None:
    """Left early at run time, so that it ends; index and count past 32 bits."""

    def build(b: Builder, out: Value, stop: Value, leave: Value) -> None:
        index, body = Value(I64), Builder()
        then, other = Builder(), Builder()
        then.emit(ops.BREAK, index)
        other.emit(ops.YIELD)
        carried = Value(I64)
        at = body.value(ops.GE, index, leave)
        body.emit(ops.IF, at, types=(), regions=(then.region(), other.region()))
        body.emit(ops.YIELD, carried)
        step = b.const(I64, (1 << 33) + 1)
        region = body.region(index, carried)
        loop = b.emit(
            ops.FOR, b.const(I64, -5), stop, step, b.const(I64, -1), types=(I64,), regions=(region,)
        )
        b.emit(ops.STORE, out, b.const(I64, 0), loop.result)

    kernel = kernel_of(build, [array(I64, 1), I64, I64])
    for stop, leave in ((1 << 62, 1 << 40), (10, 1 << 40), (-5, 0), ((1 << 63) - 1, 1 << 43)):
        step = (1 << 33) + 1
        want = next((i for i in range(-5, stop, step) if i >= leave), -1)
        out = np.zeros(1, np.int64)
        run(kernel, [out, np.int64(stop), np.int64(leave)], (1, 1, 1), (1, 1, 1))
        assert out[0] == want


def test_the_trip_count_is_not_cut_to_32_bits() -> None:
    def build(b: Builder, out: Value, stop: Value) -> None:
        index, carried, body = Value(I64), Value(U64), Builder()
        body.emit(ops.YIELD, body.value(ops.ADD, carried, body.const(U64, 3)))
        zero, one = b.const(I64, 0), b.const(I64, 1)
        region = body.region(index, carried)
        loop = b.emit(ops.FOR, zero, stop, one, b.const(U64, 0), types=(U64,), regions=(region,))
        b.emit(ops.STORE, out, zero, loop.result)

    kernel = kernel_of(build, [array(U64, 1), I64])
    out = np.zeros(1, np.uint64)
    # LLVM closes the sum: 2^33 turns of adding 3
    run(kernel, [out, np.int64(1 << 33)], (1, 1, 1), (1, 1, 1))
    assert out[0] == 3 << 33


def test_switch_like_code() -> None:
    """Forty arms that LLVM may make a table of."""
    lines = ["%g: i64 = global_id axis=0", "%v: i64 = load %x, %g"]
    for k in range(40):
        lines += [f"%k{k}: i64 = const {k}", f"%c{k}: i64 = const {(k * k * 7919) % 1009}"]
    depth = 0
    for k in range(40):
        lines += [f"%is{k}: bool = eq %v, %k{k}", f"%r{k}: i64 = if %is{k} {{", f"yield %c{k}"]
        lines.append("} else {")
        depth += 1
    lines += ["%minus: i64 = const -1", "yield %minus"]
    for k in range(depth - 1, -1, -1):
        lines += ["}", f"yield %r{k}" if k else ""]
    lines = [line for line in lines if line] + ["store %y, %g, %r0", "return"]
    params = "%x: array<i64[?], global> from 0, %y: array<i64[?], global> from 1"
    text = f"hetir 1\nkernel k({params}) {{\n" + "\n".join(lines) + "\n}\n"
    kernel = parse_kernel(text)
    x = np.arange(-3, 61)
    y = np.zeros(64, np.int64)
    for form in (kernel, simplify(kernel)):
        run(form, [x, y], (2, 1, 1), (32, 1, 1))
        want = [(k * k * 7919) % 1009 if 0 <= k < 40 else -1 for k in x]
        np.testing.assert_array_equal(y, want)


def shared_kernel(size: int) -> Kernel:
    """Writes the last byte of shared memory from the first work-item, reads it from another."""

    def build(b: Builder, out: Value) -> None:
        kind = SCALARS["u8"]
        block = b.value(ops.ALLOC, type=static_array(kind, (size,), "shared"))
        i, last = b.value(ops.LOCAL_ID, axis=0), b.const(I64, size - 1)
        then, other = Builder(), Builder()
        then.emit(ops.STORE, block, last, then.const(kind, 77))
        then.emit(ops.YIELD)
        other.emit(ops.YIELD)
        first = b.value(ops.EQ, i, b.const(I64, 0))
        b.emit(ops.IF, first, types=(), regions=(then.region(), other.region()))
        b.emit(ops.BARRIER, attrs={"scope": "workgroup"})
        b.emit(ops.STORE, out, i, b.value(ops.LOAD, block, last))

    return kernel_of(build, [array(SCALARS["u8"], 1)])


@pytest.mark.parametrize(
    ("chip", "most"), [("sm_75", 64), ("sm_80", 163), ("sm_86", 99), ("sm_90", 227)]
)
def test_shared_memory_up_to_the_limit_and_one_byte_past(chip: str, most: int) -> None:
    """48 KiB are static; above, the launch gives the memory, up to the opt-in limit."""
    target = f"ptx:{chip}"
    for size, static in ((48 * 1024, True), (48 * 1024 + 1, False), (most * 1024, False)):
        kernel, out = shared_kernel(size), np.zeros(64, np.uint8)
        check_limits(kernel, target, None)
        made = run(kernel, [out], (1, 1, 1), (64, 1, 1), target=target)
        assert (out == 77).all()
        assert (".extern .shared" in made.artifact.text) != static
        assert size <= made.artifact.resources.shared_bytes < size + 4
    with pytest.raises(limits.SharedMemoryError, match=f"{most * 1024 + 1} bytes"):
        check_limits(shared_kernel(most * 1024 + 1), target, None)


@pytest.mark.parametrize("items", [1, 31, 33, 1024])
@pytest.mark.parametrize("fixed", [False, True])
def test_group_sizes(items: int, fixed: bool) -> None:
    def build(b: Builder, x: Value) -> None:
        i, local = b.value(ops.GLOBAL_ID, axis=0), b.value(ops.LOCAL_ID, axis=0)
        tile = b.value(ops.ALLOC, type=static_array(I64, (1024,), "shared"))
        b.emit(ops.STORE, tile, local, i)
        b.emit(ops.BARRIER, attrs={"scope": "workgroup"})
        last = b.value(ops.SUB, b.value(ops.GROUP_SIZE, axis=0), b.const(I64, 1))
        b.emit(ops.STORE, x, i, b.value(ops.LOAD, tile, b.value(ops.SUB, last, local)))

    x = np.zeros(3 * items, np.int64)
    made = run(kernel_of(build, [array(I64, 1)]), [x], (3, 1, 1), (items, 1, 1), fixed=fixed)
    np.testing.assert_array_equal(x, np.arange(3 * items).reshape(3, items)[:, ::-1].ravel())
    bound = f".reqntid {items}, 1, 1" if fixed else ".maxntid 1024"
    assert bound in made.artifact.text


def test_1025_work_items_are_too_many() -> None:
    with pytest.raises(limits.WorkgroupSizeError, match="1025 work-items"):
        check_limits(shared_kernel(4), "ptx:sm_90", (1025, 1, 1))


@pytest.mark.parametrize("chip", CHIP_CASES)
def test_the_assembler_takes_every_subgroup_operation(chip: str) -> None:
    """Reductions and scans of every kind and type, at a native and an emulated width."""
    kernels = [
        kernel_of(
            functools.partial(_trees, name=name), [array(SCALARS[name], 1)], subgroup_size=width
        )
        for width in (8, 32, 64)
        for name in ("i8", "i32", "u64", "f16", "f32", "f64")
    ]
    target = f"ptx:{chip}"
    texts = [compile_kernel(k, target=target, binary=False, optimise=1).text for k in kernels]
    log = assemble_together(texts, chip)
    assert len(re.findall("Compiling entry function", log)) == len(kernels)


def _trees(b: Builder, x: Value, *, name: str) -> None:
    i, yes = b.value(ops.GLOBAL_ID, axis=0), b.const(SCALARS["bool"], True)
    v = b.value(ops.LOAD, x, i)
    for kind in ("add", "min") if "f" in name else ("add", "max", "xor"):
        v = b.emit(ops.SUBGROUP_REDUCE, v, yes, attrs={"kind": kind}).result
    v = b.emit(ops.SUBGROUP_SCAN, v, yes, attrs={"kind": "add", "inclusive": True}).result
    where = b.value(ops.LT, v, b.value(ops.ADD, v, v))
    bits = b.value(ops.CAST, b.emit(ops.BALLOT, where, yes).result, to=SCALARS[name])
    vote = b.emit(ops.VOTE, where, where, attrs={"mode": "any"}).result
    b.emit(ops.STORE, x, i, b.value(ops.SELECT, vote, bits, v))
