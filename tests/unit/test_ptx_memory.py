"""Atomics, fences, barriers and records as PTX: the instructions written, and what they do."""

from __future__ import annotations

import functools
import re
import struct
from typing import Any

import numpy as np
import pytest

from hetir.backends.ptx import compile_kernel
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Value
from hetir.ir.types import F32, I32, I64, SCALARS, U32, ArrayType, Scalar, array, static_array
from hetir.target import Assumptions
from tests.unit import test_cpu_memory
from tests.unit.cpu_support import kernel_of
from tests.unit.ptx_support import (
    CHIPS,
    assemble_together,
    launch,
    promised,
    run,
)
from tests.unit.test_cpu_memory import LAYOUTS, check_updates

WORDS = [n for n, t in SCALARS.items() if t.is_int or t.is_float]


def written(text: str) -> list[str]:
    """The opcodes that synchronise, in order."""
    access = r"(?:ld|st|atom|red)\.(?:relaxed|acquire|release|acq_rel)\.[\w.]+"
    return re.findall(rf"\b({access}|fence\.[\w.]+|bar\.[\w.]+)", text)


def atomics(element: Scalar, order: str, scope: str, *kinds: str, used: bool = True) -> Any:
    """A kernel with one operation of each of `kinds` on x[0]."""

    def build(b: Builder, x: Value, out: Value) -> None:
        zero = b.const(I64, 0)
        value = b.value(ops.LOAD, out, zero)
        attrs: Any = {"order": order, "scope": scope}
        for kind in kinds:
            if kind == "load":
                result = b.emit(ops.ATOMIC_LOAD, x, zero, attrs=attrs).result
            elif kind == "store":
                b.emit(ops.ATOMIC_STORE, x, zero, value, attrs=attrs)
                continue
            elif kind == "cas":
                result = b.emit(ops.ATOMIC_CAS, x, zero, value, value, attrs=attrs).result
            else:
                made = b.emit(ops.ATOMIC_RMW, x, zero, value, attrs={**attrs, "kind": kind})
                result = made.result
            if used:
                b.emit(ops.STORE, out, zero, result)

    return kernel_of(build, [array(element, 1)] * 2)


def opcodes(kernel: Any, chip: str = "sm_90") -> list[str]:
    return written(compile_kernel(kernel, target=f"ptx:{chip}", binary=False).text)


# "PTX Writer's Guide to Interoperability", Atomics ABI; PTX ISA, sections 8 and 9.7.13
@pytest.mark.parametrize(
    ("order", "scope", "kind", "expected"),
    [
        ("relaxed", "device", "load", ["ld.relaxed.gpu.global.b32"]),
        ("acquire", "device", "load", ["ld.acquire.gpu.global.b32"]),
        ("acquire", "workgroup", "load", ["ld.acquire.cta.global.b32"]),
        ("acquire", "subgroup", "load", ["ld.acquire.cta.global.b32"]),
        ("seq_cst", "device", "load", ["fence.sc.gpu", "ld.acquire.gpu.global.b32"]),
        ("release", "system", "store", ["st.release.sys.global.b32"]),
        ("seq_cst", "system", "store", ["fence.sc.sys", "st.relaxed.sys.global.b32"]),
        ("acq_rel", "device", "add", ["atom.acq_rel.gpu.global.add.u32"]),
        ("seq_cst", "workgroup", "max", ["fence.sc.cta", "atom.acquire.cta.global.max.s32"]),
        ("release", "device", "exchange", ["atom.release.gpu.global.exch.b32"]),
        ("acquire", "device", "xor", ["atom.acquire.gpu.global.xor.b32"]),
        ("acq_rel", "device", "cas", ["atom.acq_rel.gpu.global.cas.b32"]),
        ("relaxed", "workgroup", "sub", ["atom.relaxed.cta.global.add.u32"]),
    ],
)
def test_orders_and_scopes(order: str, scope: str, kind: str, expected: list[str]) -> None:
    assert opcodes(atomics(I32, order, scope, kind)) == expected
    assert opcodes(atomics(I32, order, scope, kind), "sm_75") == expected


@pytest.mark.parametrize(
    ("order", "old", "new"),
    [
        ("acquire", "fence.acq_rel.gpu", "fence.acquire.gpu"),
        ("release", "fence.acq_rel.gpu", "fence.release.gpu"),
        ("acq_rel", "fence.acq_rel.gpu", "fence.acq_rel.gpu"),
        ("seq_cst", "fence.sc.gpu", "fence.sc.gpu"),
    ],
)
def test_fences(order: str, old: str, new: str) -> None:
    """One-way fences need sm_90: assemblers emit nothing for them below."""

    def build(b: Builder, x: Value) -> None:
        zero = b.const(I64, 0)
        b.emit(ops.STORE, x, zero, b.const(I32, 2))
        b.emit(ops.FENCE, attrs={"order": order, "scope": "device"})
        b.emit(ops.STORE, x, zero, b.const(I32, 3))

    kernel = kernel_of(build, [array(I32, 1)])
    for chip, fence in (("sm_75", old), ("sm_89", old), ("sm_90", new), ("sm_120", new)):
        made = compile_kernel(kernel, target=f"ptx:{chip}", binary=False)
        assert written(made.text) == [fence]
        # both stores stay, one on each side
        first, second = made.text.split(fence)
        assert first.count("st.global") == second.count("st.global") == 1


def test_one_way_fences_raise_the_version() -> None:
    def build(b: Builder) -> None:
        b.emit(ops.FENCE, attrs={"order": "acquire", "scope": "device"})

    made = compile_kernel(kernel_of(build, []), target="ptx:sm_90", binary=False)
    assert ".version 8.6\n" in made.text


def test_reductions_where_no_fence_acquires_later() -> None:
    """`red` reads nothing that a later fence could acquire (PTX ISA 8.8)."""
    alone = atomics(U32, "relaxed", "device", "add", used=False)
    assert opcodes(alone) == ["red.relaxed.gpu.global.add.u32"]
    released = atomics(U32, "release", "device", "max", used=False)
    assert opcodes(released) == ["red.release.gpu.global.max.u32"]
    acquired = atomics(U32, "acquire", "device", "add", used=False)
    assert opcodes(acquired) == ["atom.acquire.gpu.global.add.u32"]
    exchanged = atomics(U32, "relaxed", "device", "exchange", used=False)
    assert opcodes(exchanged) == ["atom.relaxed.gpu.global.exch.b32"]

    def build(b: Builder, x: Value) -> None:
        attrs: Any = {"kind": "add", "order": "relaxed", "scope": "device"}
        b.emit(ops.ATOMIC_RMW, x, b.const(I64, 0), b.const(U32, 1), attrs=attrs)
        b.emit(ops.FENCE, attrs={"order": "acquire", "scope": "device"})

    fenced = opcodes(kernel_of(build, [array(U32, 1)]))
    assert fenced == ["atom.relaxed.gpu.global.add.u32", "fence.acquire.gpu"]


@pytest.mark.parametrize(
    ("element", "chip", "expected"),
    [
        ("f64", "sm_75", "atom.relaxed.gpu.global.add.f64"),
        ("f16", "sm_75", "atom.relaxed.gpu.global.add.noftz.f16"),
        ("bf16", "sm_89", "atom.relaxed.gpu.global.cas.b16"),
        ("bf16", "sm_90", "atom.relaxed.gpu.global.add.noftz.bf16"),
        # PTX ISA, atom: `.add.f32` on global memory flushes subnormals
        ("f32", "sm_90", "atom.relaxed.gpu.global.cas.b32"),
        ("i64", "sm_90", "atom.relaxed.gpu.global.add.u64"),
        ("i16", "sm_90", "atom.relaxed.gpu.global.cas.b16"),
        ("u8", "sm_90", "atom.relaxed.gpu.global.cas.b32"),
    ],
)
def test_sums_are_native_where_their_bits_are_right(element: str, chip: str, expected: str) -> None:
    found = opcodes(atomics(SCALARS[element], "relaxed", "device", "add"), chip)
    assert found[-1] == expected
    assert sum(word.startswith("atom") for word in found) == 1


def test_native_mathematics_takes_the_native_sum() -> None:
    kernel = atomics(F32, "relaxed", "device", "add", used=False)
    changed = kernel_of(lambda *_: None, [], math="native")
    kernel = type(kernel)(name="k", params=kernel.params, body=kernel.body, options=changed.options)
    assert opcodes(kernel) == ["red.relaxed.gpu.global.add.f32"]


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("element", WORDS)
def test_read_modify_writes(element: str, space: str) -> None:
    """Every kind; blocks one after another, so that the old values are known too."""
    checks = {"batch_lanes": 1} if space == "shared" else {}
    chip = "sm_75" if space == "shared" else "sm_90"
    check_updates(element, space, functools.partial(run, target=f"ptx:{chip}", checks=checks))


@pytest.mark.parametrize("element", WORDS)
def test_many_work_items_update_one_element(element: str) -> None:
    dtype = SCALARS[element].numpy
    x, y, old = np.ones(96, dtype), np.zeros(4, dtype), np.zeros(96, dtype)
    run(test_cpu_memory.rmw(element, "add", "global"), [x, y, old], (3, 1, 1), (32, 1, 1))
    assert y[0] == 96
    assert not y[1:].any()
    assert sorted(old.astype(int)) == list(range(96))


@pytest.mark.parametrize("element", WORDS)
def test_compare_and_swap_compares_bits(element: str) -> None:
    kind = SCALARS[element]

    def build(b: Builder, x: Value, want: Value, new: Value, old: Value) -> None:
        i = b.value(ops.GLOBAL_ID, axis=0)
        values = [b.value(ops.LOAD, a, i) for a in (want, new)]
        attrs: Any = {"order": "relaxed", "scope": "device"}
        b.emit(ops.STORE, old, i, b.emit(ops.ATOMIC_CAS, x, i, *values, attrs=attrs).result)

    raw = np.dtype(f"u{kind.bytes}")
    top = 1 << (kind.bits - 1)
    # a zero beside a negative zero, a NaN beside itself: bits decide
    before = np.array([0, 5, top, 2 * top - 1, 7, 7, 0, 1], np.uint64).astype(raw)
    expected = np.array([top, 5, top, 2 * top - 1, 6, 7, 0, 1], np.uint64).astype(raw)
    desired = np.arange(100, 108, dtype=np.uint64).astype(raw)
    x, old = before.copy(), np.zeros(8, raw)
    views = [a.view(kind.numpy) for a in (x, expected, desired, old)]
    run(kernel_of(build, [array(kind, 1)] * 4), views, (1, 1, 1), (8, 1, 1))
    assert (old == before).all()
    assert (x == np.where(before == expected, desired, before)).all()


@pytest.mark.parametrize("kind", ["add", "sub", "min", "max", "exchange", "cas", "load", "store"])
def test_atomics_on_private_memory_are_plain(kind: str) -> None:
    """No instruction of PTX reaches another thread's local memory."""
    for element in ("f16", "i32", "u8", "f64"):
        scalar = SCALARS[element]

        def build(b: Builder, x: Value, out: Value, *, scalar: Scalar = scalar) -> None:
            i, zero = b.value(ops.GLOBAL_ID, axis=0), b.const(I64, 0)
            mine = b.value(ops.ALLOC, type=static_array(scalar, (2,), "private"))
            value = b.value(ops.LOAD, x, i)
            three = b.const(scalar, 3)
            b.emit(ops.STORE, mine, zero, three)
            attrs: Any = {"order": "acquire", "scope": "device"}
            match kind:
                case "load":
                    old = b.emit(ops.ATOMIC_LOAD, mine, zero, attrs=attrs).result
                case "store":
                    attrs["order"] = "release"
                    b.emit(ops.ATOMIC_STORE, mine, zero, value, attrs=attrs)
                    old = three
                case "cas":
                    old = b.emit(ops.ATOMIC_CAS, mine, zero, three, value, attrs=attrs).result
                case _:
                    attrs["kind"] = kind
                    old = b.emit(ops.ATOMIC_RMW, mine, zero, value, attrs=attrs).result
            now = b.value(ops.LOAD, mine, zero)
            b.emit(ops.STORE, out, i, b.value(ops.ADD, b.value(ops.ADD, old, old), now))

        x = np.array([1, 2, 5, 9], scalar.numpy)
        out = np.zeros(4, scalar.numpy)
        made = run(kernel_of(build, [array(scalar, 1)] * 2), [x, out], (1, 1, 1), (4, 1, 1))
        after = {
            "add": 3 + x, "sub": (3 - x.astype(np.float64)), "min": np.minimum(3, x),
            "max": np.maximum(3, x), "load": 3 + 0 * x,
        }.get(kind, x)  # fmt: skip
        want = (6 + np.asarray(after).astype(np.int64)).astype(scalar.numpy)
        assert (out == want).all(), element
        assert written(made.artifact.text) == []


@pytest.mark.parametrize("name", ["memcpy", "fma", "add", "größe", "κ", "hetir_record"])
def test_any_python_name_names_a_kernel(name: str) -> None:
    y = np.zeros(1, np.int64)

    def build(b: Builder, out: Value) -> None:
        b.emit(ops.STORE, out, b.const(I64, 0), b.const(I64, 7))
        b.emit(ops.PRINT, attrs={"format": "x"})

    made = run(kernel_of(build, [array(I64, 1)], name=name), [y], (1, 1, 1), (1, 1, 1))
    assert y[0] == 7
    assert f".entry {made.artifact.entry}(" in made.artifact.text


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
    lines = test_cpu_memory._lines(result.records, result.artifact)
    assert sorted(lines, key=lambda line: line[1:3]) == [
        ("print", 0, 0, bits[0], 0, 0),
        ("print", 0, 1, bits[1], 1, 0),
        ("assert", 1, 0),
        ("print", 1, 0, bits[2], 2, 1),
        ("assert", 1, 1),
        ("print", 1, 1, bits[3], 3, 0),
    ]  # fmt: skip


def test_records_past_the_capacity_are_counted_and_dropped() -> None:
    def build(b: Builder) -> None:
        b.emit(ops.PRINT, b.value(ops.GLOBAL_ID, axis=0), attrs={"format": "{}"})

    result = run(kernel_of(build, []), [], (1, 1, 1), (10, 1, 1), records=100)
    assert struct.unpack_from("<QQ", result.records) == (100, 320)
    found = [struct.unpack_from("<IIqqQ", result.records, 16 + 32 * k) for k in range(3)]
    assert all(size == 32 and site == 0 and item == value for size, site, _, item, value in found)
    assert result.records[16 + 96 :] == bytes(4)


@pytest.mark.parametrize(
    "name",
    [
        "test_debug_skips_and_reports_accesses_out_of_bounds",
        "test_debug_reports_a_step_of_zero",
        "test_without_a_buffer_nothing_is_written",
    ],
)
def test_as_on_the_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_cpu_memory, "run", run)
    getattr(test_cpu_memory, name)()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_strided_arguments(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_cpu_memory, "run", run)
    test_cpu_memory.test_strided_arguments(layout)


@pytest.mark.parametrize("odd", [0, 1])
def test_disjoint_arrays_and_one_that_is_either(odd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_cpu_memory, "run", run)
    test_cpu_memory.test_disjoint_arrays_and_one_that_is_either(odd)


def test_read_only_arrays_that_nothing_writes_go_the_read_only_way() -> None:
    """`ld.global.nc` needs the promise that arrays are apart, and no synchronisation."""

    def build(b: Builder, x: Value, y: Value, *, waits: bool) -> None:
        i = b.value(ops.GLOBAL_ID, axis=0)
        if waits:
            b.emit(ops.BARRIER, attrs={"scope": "workgroup"})
        b.emit(ops.STORE, y, i, b.value(ops.LOAD, x, i))

    for waits, disjoint, expected in ((0, 1, True), (0, 0, False), (1, 1, False)):
        kernel = kernel_of(functools.partial(build, waits=bool(waits)), [array(F32, 1)] * 2)
        assumptions = Assumptions(disjoint=bool(disjoint))
        text = compile_kernel(
            kernel, target="ptx:sm_90", binary=False, assumptions=assumptions
        ).text
        assert ("ld.global.nc" in text) == expected


def neighbours(b: Builder, x: Value, y: Value) -> None:
    """Four elements a work-item of a row, each read and written by itself."""
    ndim = x.type.ndim  # type: ignore[union-attr]
    i, four = b.value(ops.GLOBAL_ID, axis=0), b.const(I64, 4)
    for k in range(4):
        at = b.value(ops.ADD, b.value(ops.MUL, i, four), b.const(I64, k))
        place = (b.value(ops.GLOBAL_ID, axis=1), at)[2 - ndim :]
        b.emit(ops.STORE, y, *place, b.value(ops.NEG, b.value(ops.LOAD, x, *place)))


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("ndim", [1, 2])
def test_neighbours_of_aligned_arrays_are_read_and_written_together(ndim: int, bits: Any) -> None:
    kinds = [ArrayType(F32, ndim, strides=(None,) * (ndim - 1) + (1,))] * 2
    kernel = kernel_of(neighbours, kinds)
    expected = ["ld.global.nc.v4.b32", "st.global.v4.b32"]
    for aligned in ((True, True), (True, False), ()):
        text = compile_kernel(
            kernel,
            target="ptx:sm_80",
            binary=False,
            assumptions=Assumptions(index_bits=bits, disjoint=True, aligned=aligned),
        ).text
        found = re.findall(r"[ls][dt]\.global\S*", text)
        for at, instruction in enumerate(expected):
            together = at < len(aligned) and aligned[at]
            assert (instruction in found) == together, (aligned, found)
    x = np.arange(64, dtype=np.float32).reshape((64,) if ndim == 1 else (2, 32))
    x, y = (at_16(a) for a in (x, np.zeros_like(x)))
    given = promised(kernel, [x, y], disjoint=True)
    assert given.aligned == (True, True)
    run(kernel, [x, y], (1, ndim, 1), (16 // ndim, 1, 1), assumptions=given)
    np.testing.assert_array_equal(y, -x)


def at_16(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy at a multiple of 16."""
    room = np.zeros(array.nbytes + 16, np.uint8)
    start = -room.ctypes.data % 16
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


@pytest.mark.parametrize("most", [(2, 3, 2), (5, 1, 4)])
def test_grids_past_the_hardware_limits_run_in_pieces(most: tuple[int, int, int]) -> None:
    """Ids and extents are those of the whole grid, whichever launch a group runs in."""

    def build(b: Builder, out: Value) -> None:
        linear = b.const(I64, 0)
        for axis in (2, 1, 0):
            linear = b.value(ops.MUL, linear, b.value(ops.NUM_GROUPS, axis=axis))
            linear = b.value(ops.ADD, linear, b.value(ops.GROUP_ID, axis=axis))
        for axis in range(3):
            b.emit(ops.STORE, out, linear, b.const(I64, axis), b.value(ops.GLOBAL_ID, axis=axis))

    grid = (5, 4, 3)
    out = np.full((60, 3), -1)
    artifact = compile_kernel(kernel_of(build, [array(I64, 2)]), target="ptx:sm_90", binary=False)
    launch(artifact, [out], grid, (1, 1, 1), most=most)
    x, y, z = np.meshgrid(*map(np.arange, grid), indexing="ij")
    want = np.stack([a.transpose(2, 1, 0).ravel() for a in (x, y, z)], axis=1)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize(
    "chip", [pytest.param(c, marks=() if c == "sm_90" else pytest.mark.slow) for c in CHIPS]
)
def test_the_assembler_takes_every_atomic(chip: str) -> None:
    """All kinds at all types, in both spaces and at the strongest orders, as one module."""
    every = ("load", "store", "cas", "add", "sub", "min", "max", "exchange")
    kernels = [atomics(SCALARS[e], "relaxed", "device", *every) for e in WORDS]
    kernels += [atomics(SCALARS[e], "relaxed", "system", *every, used=False) for e in WORDS]
    kernels += [atomics(SCALARS[e], "seq_cst", "workgroup", *every) for e in ("u8", "f16", "i64")]
    kernels += [test_cpu_memory.rmw(e, k, "shared") for e in WORDS for k in ("add", "max")]
    target = f"ptx:{chip}"
    texts = [compile_kernel(k, target=target, binary=False, optimise=1).text for k in kernels]
    log = assemble_together(texts, chip)
    assert log.count("Compiling entry function") == len(kernels)
