"""SIMT Ascend C on the shim: the evaluator's bits, for every op, the library and odd launches."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import compiler, library
from hetir.backends.ascend import compile_kernel as simt_artifact
from hetir.backends.ascend import simt
from hetir.backends.ascend.targets import resolve
from hetir.diagnostics import HetirError
from hetir.emulator import ascend as shim
from hetir.passes.expansions import EXPANSIONS
from hetir.passes.simplify import simplify
from hetir.target import instances
from tests.unit.ascend_support import copied, evaluated, launch_of, same_bits
from tests.unit.test_ascend_simd import (
    collatz,
    kernel_of,
    lowered,
    neighbours,
    own_ranges,
    planes,
    scaled,
    shifted,
    ticket,
)
from tests.unit.test_cpu_ops import GROUPS, check

TARGET = simt.NAME
pytestmark = pytest.mark.skipif(not shim.compilers(), reason="no C++ compiler is here")


@functools.cache
def chip() -> Any:
    return hetir.device("ascend-shim:950")


def run(kernel: Any, slots: Any, grid: Any, workgroup: Any) -> None:
    """Compile for the workgroup and launch on the device."""
    made = simt_artifact(simplify(kernel), target=TARGET, workgroup=workgroup)
    names = [f"slot {n}" for n in range(len(slots))]
    chip().load(made, names).run(slots, grid, workgroup)


def launch(kernel: Any, arguments: Any, grid: Any, workgroup: Any, folder: object) -> None:
    """In workgroups of an even size, as the tests of ops ask."""
    del folder, grid
    count = workgroup[0]
    size = max(n for n in range(1, 513) if count % n == 0)
    run(kernel, arguments, (count // size, 1, 1), (size, 1, 1))


def slow(value: Any, when: bool) -> Any:
    return pytest.param(value, marks=pytest.mark.slow if when else ())


def test_every_instance_has_exactly_one_answer() -> None:
    target = resolve(TARGET)
    for instance in instances():
        key = instance.key
        covered, refused = key in target.rules, key in target.unsupported
        expanded = not covered and not refused and key in EXPANSIONS
        assert covered + refused + expanded == 1, key


def test_no_rule_is_dead() -> None:
    known = {i.key for i in instances()} | {("select", "ref")}
    assert set(resolve(TARGET).rules) <= known
    assert set(resolve(TARGET).unsupported) <= known


QUICK = ("bool",)


@pytest.mark.parametrize("key", [slow(key, key not in QUICK) for key in GROUPS])
def test_pure_ops(key: str) -> None:
    """On corner values; `assume_uniform` of what differs has no meaning."""
    refused = resolve(TARGET).unsupported
    group = [i for i in GROUPS[key] if i.key not in refused and i.spec.name != "assume_uniform"]
    if group:
        check(group, None, launch)  # pyright: ignore[reportArgumentType]


QUICK_KERNELS = ("histogram", "matmul", "softmax")


@pytest.mark.parametrize("name", [slow(n, n not in QUICK_KERNELS) for n in library.NAMES])
def test_library(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step from what the evaluator left, in every hostile order."""
    case = library.case(name, size=library.SMALL[name])
    case.reset()
    for step in case.steps:
        kernel, slots = lowered(step)
        grid, workgroup = compiler.dims(step.grid), compiler.dims(step.workgroup)
        want = evaluated(kernel, slots, grid, workgroup)
        for order in shim.ORDERS:
            got = copied(slots)
            monkeypatch.setenv("HETIR_ASCEND_SHIM_ORDER", str(order))
            run(kernel, got, grid, workgroup)
            same_bits(got, want)
        for slot, value in zip(slots, want, strict=True):
            if isinstance(slot, np.ndarray) and slot.flags.writeable:
                slot[...] = value


def agrees(source: Any, arguments: Any, grid: Any, workgroup: Any) -> None:
    """The shim and the evaluator leave the same bits."""
    kernel, slots = kernel_of(source, *arguments)
    want = evaluated(kernel, slots, grid, workgroup)
    got = copied(slots)
    run(kernel, got, grid, workgroup)
    same_bits(got, want)


@pytest.mark.parametrize("items", [1, 31, 200])
def test_ragged_ends(items: int) -> None:
    x = np.arange(1009, dtype=np.float32)
    agrees(scaled, (2.5, x, np.zeros_like(x)), (-(-x.size // items), 1, 1), (items, 1, 1))


@pytest.mark.parametrize("grid", [(0, 1, 1), (5, 2, 3), (1, 4, 1)])
def test_grids_of_any_extent(grid: Any) -> None:
    x = np.arange(3 * 2 * 40, dtype=np.int32).reshape(3, 2, 40)
    agrees(planes, (x, np.zeros_like(x)), grid, (8, 1, 1))


def test_bytes_and_halves_at_odd_places() -> None:
    random = np.random.default_rng(5)
    x = random.integers(0, 256, 333, np.uint8)
    h = random.random(333).astype(np.float16)
    agrees(shifted, (x, np.zeros_like(x), h), (6, 1, 1), (64, 1, 1))


def test_workgroups_of_three_axes_and_strides() -> None:
    x = np.arange(7 * 9 * 42, dtype=np.int32).reshape(7, 9, 42)[::-1, :, ::2]
    grid = tuple(-(-n // w) for n, w in zip(x.shape[::-1], (3, 5, 2), strict=True))
    agrees(planes, (x, np.zeros(x.shape, np.int32)), grid, (3, 5, 2))


@pytest.mark.parametrize("items", [32, 70])
def test_subgroups(items: int) -> None:
    x = np.random.default_rng(2).integers(0, 9, 2 * items).astype(np.float32)
    agrees(neighbours, (x, np.zeros_like(x)), (2, 1, 1), (items, 1, 1))


def test_divergent_loops_and_private_arrays() -> None:
    x = np.arange(1, 201, dtype=np.uint32)
    agrees(collatz, (x, np.zeros(200, np.int32)), (2, 1, 1), (100, 1, 1))
    y = np.random.default_rng(4).integers(-20, 90, 64).astype(np.int32)
    agrees(own_ranges, (y, np.zeros(64, np.int32)), (1, 1, 1), (64, 1, 1))


@hetir.kernel
def takes_numbers(count: hl.Array[hl.i32, 1], taken: hl.Array[hl.i32, 1]):
    i = hl.global_id(0)
    taken[i] = hl.atomic_add(count, 0, 1, order="acq_rel")


def test_atomics_give_the_old_value() -> None:
    """What 910B has not: every work-item takes a number of its own."""
    count, taken = np.zeros(1, np.int32), np.zeros(96, np.int32)
    takes_numbers.launch((count, taken), grid=3, workgroup=32, device="ascend-shim:950").wait()
    assert count[0] == 96
    assert sorted(taken) == list(range(96))
    hetir.compile(ticket, "i32[:]", target=TARGET, workgroup=64)


@hetir.kernel(subgroup_size=64)
def wide_lanes(x: hl.Array[hl.i32, 1]):
    x[hl.global_id(0)] = hl.shuffle_xor(x[hl.global_id(0)], 40)


@hetir.kernel
def shared_sum(x: hl.Array[hl.i64, 1]):
    total = hl.shared(1, hl.i64)
    if hl.local_id(0) == 0:
        total[0] = 0
    hl.barrier()
    hl.atomic_add(total, 0, x[hl.local_id(0)])


@hetir.kernel
def one_of_two(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1], z: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    chosen = x if x[i] > y[i] else y
    z[i] = chosen[i] - chosen[z.shape[0] - 1 - i]


def test_an_array_that_each_work_item_chooses() -> None:
    x, y = np.random.default_rng(5).integers(0, 99, (2, 40)).astype(np.float32)
    z = np.zeros_like(x)
    one_of_two.launch((x, y, z), grid=2, workgroup=20, device="ascend-shim:950").wait()
    np.testing.assert_array_equal(z, np.where(x > y, x - x[::-1], y - y[::-1]))


@hetir.kernel(subgroup_size=16)
def mirrored(x: hl.Array[hl.i32, 1], y: hl.Array[hl.i32, 1]):
    i, first = hl.local_id(0), hl.subgroup_id() * 16
    row = hl.shared(64, hl.i32)
    row[i] = x[hl.global_id(0)]
    hl.subgroup_barrier()
    y[hl.global_id(0)] = row[first + 15 - hl.lane_id()]


def test_a_subgroup_barrier_makes_lanes_wait() -> None:
    x = np.arange(128, dtype=np.int32)
    y = np.zeros_like(x)
    mirrored.launch((x, y), grid=2, workgroup=64, device="ascend-shim:950").wait()
    np.testing.assert_array_equal(y, x.reshape(-1, 16)[:, ::-1].reshape(-1))


@hetir.kernel(subgroup_size=16)
def some_subgroups_wait(x: hl.Array[hl.i32, 1]):
    row = hl.shared(64, hl.i32)
    row[hl.local_id(0)] = 1
    if hl.subgroup_id() < 1:
        hl.subgroup_barrier()
        x[hl.global_id(0)] = row[15 - hl.lane_id()]


@hetir.kernel
def meets_last(x: hl.Array[hl.i32, 1], rounds: hl.i32):
    row = hl.shared(64, hl.i32)
    for n in range(rounds):
        row[hl.local_id(0)] = x[hl.global_id(0)] + n
        hl.barrier()
        x[hl.global_id(0)] = row[63 - hl.local_id(0)]
        hl.barrier()


@hetir.kernel
def reads_last(x: hl.Array[hl.i32, 1], rounds: hl.i32):
    row = hl.shared(64, hl.i32)
    row[hl.local_id(0)] = x[hl.global_id(0)]
    hl.barrier()
    n = rounds
    while n > 0:
        if x[0] == n:
            break
        hl.barrier()
        n -= 1
    x[hl.global_id(0)] = row[63 - hl.local_id(0)]


@pytest.mark.parametrize(("source", "barriers"), [(meets_last, 2), (reads_last, 3)])
def test_the_next_workgroup_waits_where_shared_arrays_are_in_use(
    source: Any, barriers: int
) -> None:
    """One block walks through all workgroups; without its last barrier the second one races."""
    x = np.arange(192, dtype=np.int32)
    kernel, slots = kernel_of(source, x, 2)
    text = simt_artifact(simplify(kernel), target=TARGET, workgroup=(64, 1, 1)).text
    sites = shim.sync_sites(text)
    assert len(sites) == barriers
    want = evaluated(kernel, slots, (3, 1, 1), (64, 1, 1))
    launch = launch_of(kernel, slots, (3, 1, 1), (64, 1, 1))
    for disabled in ([], [sites[-1].index]):
        report = shim.run(
            text,
            arch="950",
            arrays=launch.arrays,
            launch_block=launch.block,
            blocks=1,
            addresses=launch.addresses,
            shape=shim.Shape(workgroup=(64, 1, 1)),
            disabled=disabled,
        )
        assert report.ok == (not disabled)
        if report.ok:
            same_bits(launch.arrays, [a for a in want if isinstance(a, np.ndarray)])


@hetir.kernel
def double(x: hl.Array[hl.f64, 1]):
    x[0] = x[0] * 2


@hetir.kernel
def for_the_host(x: hl.Array[hl.i32, 1]):
    hl.atomic_store(x, 0, 1, order="release", scope="system")


@pytest.mark.parametrize(
    ("source", "signature", "words"),
    [
        (double, "f64[:]", "`mul` on `f64` is not available (no f64 unit)"),
        (wide_lanes, "i32[:]", "wider than a warp"),
        (shared_sum, "i64[:]", "a 64-bit atomic on shared memory"),
        (for_the_host, "i32[:]", "no fence reaches the host"),
        (some_subgroups_wait, "i32[:]", "a subgroup barrier in control flow that differs"),
    ],
)
def test_refusals_name_what_is_missing(source: Any, signature: str, words: str) -> None:
    with pytest.raises(HetirError) as caught:
        hetir.compile(source, signature, target=TARGET, workgroup=64)
    assert words in str(caught.value)
    assert "test_ascend_simt.py" in str(caught.value)


def test_the_source_stands_alone() -> None:
    """Only the documented header, one kernel, and the same text each time."""
    made = [
        hetir.compile(scaled, "f32, f32[:], f32[:]", target=TARGET, workgroup=128) for _ in range(2)
    ]
    text = made[0].text
    assert text == made[1].text
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        '#include "simt_api/asc_simt.h"'
    ]
    assert text.count("__global__") == 1
    assert "__launch_bounds__(128)" in text
    assert max(map(len, text.splitlines())) <= 160
