"""SIMD Ascend C on the shim: the evaluator's bits, for every op, the library and odd launches."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import compiler, library
from hetir.backends.ascend import compile_kernel
from hetir.backends.ascend.targets import SIMD, resolve
from hetir.diagnostics import HetirError
from hetir.emulator import ascend as shim
from hetir.ir.core import Kernel
from hetir.passes.expansions import EXPANSIONS
from hetir.passes.simplify import simplify
from hetir.target import instances
from tests.unit.ascend_support import copied, evaluated, run, same_bits
from tests.unit.test_cpu_ops import GROUPS, check
from tools import ascend_table

TARGETS = ("ascend:910b", "ascend:310p")
ORDERS = shim.ORDERS
pytestmark = pytest.mark.skipif(not shim.compilers(), reason="no C++ compiler is here")


def slow(value: Any, when: bool) -> Any:
    return pytest.param(*value, marks=pytest.mark.slow if when else ())


# ---- the table -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", SIMD)
def test_every_instance_has_exactly_one_answer(name: str) -> None:
    target = resolve(name)
    for instance in instances():
        key = instance.key
        covered, refused = key in target.rules, key in target.unsupported
        expanded = not covered and not refused and key in EXPANSIONS
        assert covered + refused + expanded == 1, key


@pytest.mark.parametrize("name", SIMD)
def test_no_rule_is_dead(name: str) -> None:
    known = {i.key for i in instances()} | {("select", "ref")}
    assert set(resolve(name).rules) <= known
    assert set(resolve(name).unsupported) <= known


# ---- ops -----------------------------------------------------------------------------------


def launch(
    kernel: Kernel, arguments: Any, grid: Any, workgroup: Any, folder: object, **options: Any
) -> None:
    """In workgroups of an even size, over several cores."""
    del folder, grid
    count = workgroup[0]
    size = max(n for n in range(1, 513) if count % n == 0)
    run(kernel, arguments, (count // size, 1, 1), (size, 1, 1), **options)


QUICK = ("i32,i32", "u32,u32", "f32,f32", "f32", "i64", "f16", "bool", "bool,f32,f32")
OPS = [(target, key) for target in TARGETS for key in GROUPS]


@pytest.mark.parametrize(
    ("target", "key"),
    [slow(row, row[0] != TARGETS[0] or row[1] not in QUICK) for row in OPS],
)
def test_pure_ops(target: str, key: str) -> None:
    """On corner values; `assume_uniform` of what differs has no meaning."""
    refused = resolve(target).unsupported
    group = [i for i in GROUPS[key] if i.key not in refused and i.spec.name != "assume_uniform"]
    if group:
        check(group, None, functools.partial(launch, target=target))  # pyright: ignore[reportArgumentType]


# ---- the library ---------------------------------------------------------------------------


def lowered(step: Any) -> tuple[Kernel, list[Any]]:
    """A step's kernel as the compiler has it, and a value for each slot."""
    values = step.kernel.operands(step.arguments)
    traced = compiler.prepare(compiler.record(step.kernel, step.kernel.specialise(values)).module)
    layout = compiler.layout_of(traced)
    return traced, hetir.runtime.host_slots(layout, values, step.kernel.parameters)


REFUSED = {"ascend:910b": {"monte_carlo"}, "ascend:310p": {"monte_carlo", "histogram"}}
QUICK_KERNELS = {
    "ascend:910b": ("saxpy", "sum", "histogram", "matmul", "transpose", "jacobi", "softmax"),
    "ascend:310p": ("saxpy", "sum", "matmul"),
}
KERNELS = [(target, name) for target in TARGETS for name in library.NAMES]


@pytest.mark.parametrize(
    ("target", "name"), [slow(row, row[1] not in QUICK_KERNELS[row[0]]) for row in KERNELS]
)
def test_library(target: str, name: str) -> None:
    """Each step from what the evaluator left, in every hostile order."""
    case = library.case(name, size=library.SMALL[name])
    case.reset()
    for step in case.steps:
        kernel, slots = lowered(step)
        grid, workgroup = compiler.dims(step.grid), compiler.dims(step.workgroup)
        if name in REFUSED[target]:
            with pytest.raises(HetirError, match="global atomic"):
                compile_kernel(simplify(kernel), target=target, workgroup=workgroup)
            return
        want = evaluated(kernel, slots, grid, workgroup)
        for order in ORDERS:
            got = copied(slots)
            run(simplify(kernel), got, grid, workgroup, target=target, order=order)
            same_bits(got, want)
        for slot, value in zip(slots, want, strict=True):
            if isinstance(slot, np.ndarray) and slot.flags.writeable:
                slot[...] = value


# ---- launches ------------------------------------------------------------------------------


@hetir.kernel
def scaled(a: hl.f32, x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    if i < x.shape[0]:
        y[i] = a * x[i]


@hetir.kernel
def shifted(x: hl.Array[hl.u8, 1], y: hl.Array[hl.u8, 1], h: hl.Array[hl.f16, 1]):
    i = hl.global_id(0)
    if i > 0 and i < x.shape[0] - 1:
        y[i] = x[i - 1] ^ x[i + 1]
        h[i] = h[i] + 1


@hetir.kernel
def planes(x: hl.Array[hl.i32, 3], y: hl.Array[hl.i32, 3]):
    i, j, k = hl.global_id(0), hl.global_id(1), hl.global_id(2)
    if i < x.shape[2] and j < x.shape[1] and k < x.shape[0]:
        y[k, j, i] = x[k, j, i] * 3 + hl.i32(i - j)


def kernel_of(source: Any, *arguments: Any) -> tuple[Kernel, list[Any]]:
    """A kernel specialised on arguments, and its slots."""
    values = source.operands(arguments)
    traced = compiler.prepare(compiler.record(source, source.specialise(values)).module)
    slots = hetir.runtime.host_slots(compiler.layout_of(traced), values, source.parameters)
    return simplify(traced), slots


def agrees(source: Any, arguments: Any, grid: Any, workgroup: Any, **options: Any) -> None:
    """The shim and the evaluator leave the same bits."""
    kernel, slots = kernel_of(source, *arguments)
    want = evaluated(kernel, slots, grid, workgroup)
    got = copied(slots)
    run(kernel, got, grid, workgroup, **options)
    same_bits(got, want)


@pytest.mark.parametrize("items", [1, 31, 64, 200, 1024])
@pytest.mark.parametrize("target", TARGETS)
def test_ragged_ends(items: int, target: str) -> None:
    x = np.arange(1009, dtype=np.float32)
    groups = -(-x.size // items)
    agrees(scaled, (2.5, x, np.zeros_like(x)), (groups, 1, 1), (items, 1, 1), target=target)


@pytest.mark.parametrize("grid", [(0, 1, 1), (3, 0, 2), (5, 2, 3)])
def test_grids_of_any_extent(grid: Any) -> None:
    x = np.arange(40, dtype=np.float32)
    agrees(scaled, (2.5, x, np.zeros_like(x)), grid, (8, 1, 1), blocks=48)


def test_more_than_65535_workgroups() -> None:
    x = np.arange(70_001, dtype=np.float32)
    agrees(scaled, (2.0, x, np.zeros_like(x)), (70_001, 1, 1), (1, 1, 1), blocks=2)


def test_copies_into_vectors_are_double_buffered() -> None:
    text = hetir.compile(
        scaled, "f32, f32[::1], f32[::1]", target="ascend:910b", workgroup=512
    ).text
    assert "TQue<TPosition::VECIN, 2> x_lanes_queue;" in text
    assert "pipe.InitBuffer(x_lanes_queue, 2, 2048);" in text
    calls = [text.index(f"x_lanes_queue.{c}") for c in ("Alloc", "EnQue", "DeQue", "FreeTensor")]
    assert calls == sorted(calls)


@hetir.kernel
def carried(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1], times: hl.i32):
    i = hl.global_id(0)
    value = x[i]
    for turn in range(times):
        value = value * 0.5 + turn
    y[i] = value


def test_vectors_wait_for_each_other_in_what_a_queue_copies_out() -> None:
    """The queue orders its buffer's vectors and the copy, not the vectors among themselves."""
    x = np.arange(128, dtype=np.float32)
    text = hetir.compile(
        carried, "f32[::1], f32[::1], i32", target="ascend:910b", workgroup=64
    ).text
    assert "TQue<TPosition::VECOUT, 2> value_queue;" in text
    for order in ORDERS:
        agrees(carried, (x, np.zeros_like(x), 3), (2, 1, 1), (64, 1, 1), order=order)


def test_stores_are_double_buffered_so_that_they_overlap_with_vectors() -> None:
    """Only a queue's space makes vectors wait for a copy, and it was freed one iteration before."""
    text = hetir.compile(
        scaled, "f32, f32[::1], f32[::1]", target="ascend:910b", workgroup=512
    ).text
    assert "TQue<TPosition::VECOUT, 2> mul_queue;" in text
    words = ("mul_queue.Alloc", "Muls(mul,", "mul_queue.EnQue", "mul_queue.DeQue", "CopyOut(y")
    calls = [text.index(word) for word in (*words, "mul_queue.Free")]
    assert calls == sorted(calls)
    assert "MTE3_V" not in text
    assert "V_MTE3" not in text


@hetir.kernel
def counted(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1], items: hl.Array[hl.i32, 1]):
    i = hl.global_id(0)
    hl.atomic_add(items, 0, 1)
    if i < x.shape[0]:
        y[i] += x[i]
        if x[i] % 3 == 1:
            y[i] += 7


@pytest.mark.parametrize("target", TARGETS)
def test_a_kernel_for_any_workgroup_runs_in_tiles(target: str) -> None:
    """Each work-item once: a tile's lanes past the workgroup's end are off."""
    x = np.arange(7 * 9 * 210, dtype=np.int32)
    cube = x.reshape(7, 9, 210)
    flat = [(1, 1, 1), (100, 1, 1), (2500, 1, 1)]
    cases = [(planes, (cube, np.zeros_like(cube)), [(64, 3, 2), (100, 2, 1), (2, 1, 7)])]
    if target == "ascend:910b":
        cases.append((counted, (x[:5000], x[:5000] + 3, np.zeros(1, np.int32)), flat))
    for source, arrays, workgroups in cases:
        kernel, slots = kernel_of(source, *arrays)
        made = compile_kernel(kernel, target=target)
        assert made.workgroup is None
        extents = (*arrays[0].shape[::-1], 1, 1)[:3]
        for workgroup in workgroups:
            grid = tuple(-(-n // w) for n, w in zip(extents, workgroup, strict=True))
            want = evaluated(kernel, slots, grid, workgroup)
            got = copied(slots)
            run(kernel, got, grid, workgroup, source=made.text, target=target)
            same_bits(got, want)


@pytest.mark.parametrize("workgroup", [(64, 1, 1), (100, 1, 1)])
def test_bytes_and_halves_at_odd_places(workgroup: Any) -> None:
    random = np.random.default_rng(5)
    x = random.integers(0, 256, 333, np.uint8)
    h = random.random(333).astype(np.float16)
    agrees(shifted, (x, np.zeros_like(x), h), (6, 1, 1), workgroup)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("workgroup", [(8, 4, 2), (16, 4, 1), (3, 5, 2), (1, 32, 1)])
def test_workgroups_of_three_axes(workgroup: Any, target: str) -> None:
    x = np.arange(7 * 9 * 21, dtype=np.int32).reshape(7, 9, 21)
    grid = tuple(-(-n // w) for n, w in zip(x.shape[::-1], workgroup, strict=True))
    agrees(planes, (x, x - 5), grid, workgroup, target=target)


@hetir.kernel
def added_rows(x: hl.Array[hl.i32, 2], y: hl.Array[hl.i32, 2]):
    j, i = hl.global_id(0), hl.global_id(1)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] += x[i, j] * 2


@pytest.mark.parametrize("target", TARGETS)
def test_ragged_rows_that_a_core_reads_and_writes_again(target: str) -> None:
    """Where copies are of whole blocks, a row's last one holds what other workgroups write."""
    x = np.arange(37 * 45, dtype=np.int32).reshape(37, 45)
    agrees(added_rows, (x, x - 5), (2, 19, 1), (32, 2, 1), target=target)


@hetir.kernel
def neighbours(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i, lane = hl.global_id(0), hl.local_id(0)
    value = x[i]
    other = hl.shuffle_xor(value, 5)
    total = hl.subgroup_reduce(value, "add")
    scan = hl.workgroup_scan(value, "add")
    y[i] = other + total * scan + hl.f32(hl.any_(value > 3.0))
    if lane % 3 == 1:
        y[i] = y[i] - value


@pytest.mark.parametrize("items", [32, 96, 70])
def test_subgroups(items: int) -> None:
    x = np.random.default_rng(2).integers(0, 9, 2 * items).astype(np.float32)
    agrees(neighbours, (x, np.zeros_like(x)), (2, 1, 1), (items, 1, 1))


@hetir.kernel
def collatz(x: hl.Array[hl.u32, 1], steps: hl.Array[hl.i32, 1]):
    i = hl.global_id(0)
    n, count = x[i], 0
    while n != 1:
        n = n * 3 + 1 if n % 2 == 1 else n // 2
        count += 1
        if count > 100:
            break
    steps[i] = count


def test_lanes_leave_a_loop_one_after_the_other() -> None:
    x = np.arange(1, 201, dtype=np.uint32)
    agrees(collatz, (x, np.zeros(200, np.int32)), (2, 1, 1), (100, 1, 1))


@hetir.kernel
def own_ranges(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1]):
    i = hl.global_id(0)
    slots = hl.private(4, hl.i32)
    for k in range(4):
        slots[k] = 0
    for j in range(i, x[i], -2 if x[i] < i else 3):
        slots[j % 4] += j
    y[i] = slots[0] + slots[1] * slots[2] - slots[3]


def test_ranges_and_private_arrays_of_each_lane() -> None:
    x = np.random.default_rng(4).integers(-20, 90, 64).astype(np.int32)
    agrees(own_ranges, (x, np.zeros(64, np.int32)), (1, 1, 1), (64, 1, 1))


# ---- what the chip cannot do ---------------------------------------------------------------


@hetir.kernel
def ticket(x: hl.Array[hl.i32, 1]):
    x[hl.atomic_add(x, 0, 1)] = 3


@hetir.kernel
def wide(x: hl.Array[hl.i64, 1]):
    hl.atomic_add(x, 0, hl.i64(1))


@hetir.kernel
def double(x: hl.Array[hl.f64, 1]):
    x[0] = x[0] * 2


@hetir.kernel
def swap(x: hl.Array[hl.i32, 1]):
    hl.atomic_compare_exchange(x, 0, 1, 2)


@hetir.kernel
def spoken(x: hl.Array[hl.i32, 1]):
    hl.print("{}", x[0])


@hetir.kernel
def waits(x: hl.Array[hl.i32, 1]):
    while hl.atomic_load(x, 0) == 0:
        pass


@pytest.mark.parametrize(
    ("source", "signature", "words"),
    [
        (ticket, "i32[:]", "the old value of a global atomic is not available"),
        (wide, "i64[:]", "a global atomic `add` of `i64` is not available"),
        (double, "f64[:]", "`mul` on `f64` is not available (no f64 unit)"),
        (swap, "i32[:]", "a global compare-and-exchange is not available"),
        (spoken, "i32[:]", "printing from a kernel is not available"),
        (waits, "i32[:]", "waiting for other workgroups is not available"),
    ],
)
def test_refusals_name_what_is_missing(source: Any, signature: str, words: str) -> None:
    with pytest.raises(HetirError) as caught:
        hetir.compile(source, signature, target="ascend:910b", workgroup=64)
    assert words in str(caught.value)
    assert "test_ascend_simd.py" in str(caught.value)


@hetir.kernel
def large(x: hl.Array[hl.f32, 1]):
    tile = hl.shared((150, 256), hl.f32)
    own = hl.private(64, hl.f32)
    for k in range(64):
        own[k] = x[k]
    tile[hl.local_id(0), 0] = own[hl.local_id(0) % 64]
    hl.barrier()
    x[hl.global_id(0)] = tile[hl.local_id(0), 0]


def test_the_budget_is_told_with_its_numbers() -> None:
    with pytest.raises(HetirError) as caught:
        hetir.compile(large, "f32[:]", target="ascend:910b", workgroup=256)
    text = str(caught.value)
    assert "256 work-items take" in text
    assert "`ascend:910b` has 188160" in text


@hetir.kernel
def roomy(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    own = hl.private(80, hl.f32)
    for k in range(80):
        own[k] = x[i] + k
    y[i] = own[7] * own[79]


def test_a_workgroup_that_does_not_fit_is_split_where_nothing_ties_it() -> None:
    x = np.arange(1024, dtype=np.float32)
    agrees(roomy, (x, np.zeros_like(x)), (1, 1, 1), (1024, 1, 1))
    text = hetir.compile(roomy, "f32[::1], f32[::1]", target="ascend:910b", workgroup=1024).text
    assert "512 work-items at a time" in text


def test_the_command_line_prints_the_source(tmp_path: Any) -> None:
    text = hetir.compile(scaled, "f32, f32[::1], f32[::1]", target="ascend:910b").text
    assert '#include "kernel_operator.h"' in text
    assert "__global__ __aicore__ void hetir_scaled(GM_ADDR x, GM_ADDR y, GM_ADDR launch)" in text
    assert "// test_ascend_simd.py:" in text
    assert all(len(line) <= 100 for line in text.splitlines())
    del tmp_path


@pytest.mark.parametrize("target", TARGETS)
def test_saxpy_reads_so(target: str, golden: Any) -> None:
    saxpy = library.load(library.folder() / "saxpy.py").saxpy
    made = hetir.compile(saxpy, "f32, f32[::1], f32[::1]", target=target, workgroup=256)
    golden.check(f"ascend/saxpy.{target.partition(':')[2]}.cpp", made.text)


def library_text(name: str) -> str:
    """The last step's kernel for 910b, from the loop over workgroups on."""
    step = library.case(name, size=library.SMALL[name]).steps[-1]
    kernel = simplify(lowered(step)[0])
    text = compile_kernel(
        kernel, target="ascend:910b", workgroup=compiler.dims(step.workgroup)
    ).text
    return text[text.index("for (int64_t group") :]


def test_tiles_of_shared_memory_are_vectors_work() -> None:
    """Whole rows are copied by lanes, other fixed patterns gathered: no loop over lanes."""
    matmul, transpose = library_text("matmul"), library_text("transpose")
    assert "SetValue" not in matmul
    assert "GetValue" not in matmul
    assert "item_x" not in matmul
    assert "Gather(tile_lanes, tile, offsets, static_cast<uint32_t>(k_first_2 * 4), 256);" in (
        transpose
    )
    assert transpose.count("SetValue") == 1


@hetir.kernel
def two_tiles(x: hl.Array[hl.f32, 2], y: hl.Array[hl.f32, 2]):
    """Tiles as wide as the workgroup, inside of the matrix and at its edge."""
    tx, ty = hl.local_id(0), hl.local_id(1)
    tile = hl.shared((8, 64), hl.f32)
    if x.shape[0] >= 8 and x.shape[1] >= 64:
        for r in range(ty, 8, 4):
            tile[r, tx] = x[r, tx]
    else:
        for r in range(ty, 8, 4):
            inside = r < x.shape[0] and tx < x.shape[1]
            tile[r, tx] = x[r, tx] if inside else 0.0
    hl.barrier()
    for k in range(8):
        y[ty, tx] = y[ty, tx] + tile[ty * 2, k] * tile[k, tx]


@pytest.mark.parametrize("shape", [(8, 64), (5, 50)])
def test_a_tile_as_wide_as_the_workgroup_is_copied_whole(shape: tuple[int, int]) -> None:
    x, y = np.random.default_rng(8).random(shape, np.float32), np.zeros((4, 64), np.float32)
    kernel, slots = kernel_of(two_tiles, x, y)
    text = compile_kernel(kernel, target="ascend:910b", workgroup=(64, 4, 1)).text
    assert text.count("CopyLanes(tile[64 * r_first") == 2
    assert text.count("Gather(tile_lanes") == text.count("CopyRows(tile_lanes") == 8
    assert "item_x" not in text[text.index("for (int64_t group") :]
    tile = np.zeros((8, 64), np.float32)
    tile[: shape[0], : shape[1]] = x
    want = np.zeros_like(y)
    for k in range(8):
        want += tile[0:8:2, k : k + 1] * tile[k]
    for order in ORDERS:
        got = copied(slots)
        run(kernel, got, (1, 1, 1), (64, 4, 1), source=text, order=order)
        np.testing.assert_array_equal(got[1], want)


@pytest.mark.slow
def test_the_page_s_tables_are_current() -> None:
    text = ascend_table.PAGE.read_text(encoding="utf-8")
    assert ascend_table.page(text) == text
