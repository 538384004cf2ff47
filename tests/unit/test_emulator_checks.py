"""Faulty kernels: each planted fault is found, named, and placed at its line; and only it."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from hetir.emulator import Report, run
from hetir.ir import ops
from hetir.ir.types import BOOL, F32, I32, I64, U32, array
from tests.unit.emulator_support import Maker

Launch = tuple[Maker, Sequence[Any], int, int]
FAULTY: list[tuple[str, str, str, Callable[[], Launch]]] = []
CLEAN: list[Callable[[], Launch]] = []


def faulty(code: str, name: str = "") -> Callable[[Callable[[], Launch]], Callable[[], Launch]]:
    """A kernel with one fault, at the line marked `# fault`, in the array `name`."""

    def add(function: Callable[[], Launch]) -> Callable[[], Launch]:
        FAULTY.append((function.__name__, code, name, function))
        return function

    return add


def clean(function: Callable[[], Launch]) -> Callable[[], Launch]:
    CLEAN.append(function)
    return function


def f32(count: int) -> np.ndarray:
    return np.ones(count, np.float32)


def i32(count: int) -> np.ndarray:
    return np.zeros(count, np.int32)


def check(launch: Launch, seed: int = 0, **options: object) -> Report:
    maker, arguments, groups, size = launch
    return run(maker.kernel(**options), arguments, (groups,), (size,), checks=True, seed=seed)


# ---- bounds --------------------------------------------------------------------------------


@faulty("HET600", "x")
def read_past_the_end() -> Launch:
    m = Maker(x=array(F32, 1), y=array(F32, 1))
    i = m.id()
    with m.if_(m.op("lt", i, m.dim(m.y))):
        v = m.load(m.x, m.op("add", i, 1))  # fault
        m.store(m.y, i, v)
    return m, [f32(100), f32(100)], 4, 32


@faulty("HET600", "y")
def write_without_guard() -> Launch:
    m = Maker(y=array(F32, 1))
    m.store(m.y, m.id(), 1.0)  # fault
    return m, [f32(100)], 4, 32


@faulty("HET600", "x")
def negative_index() -> Launch:
    m = Maker(x=array(F32, 1), y=array(F32, 1))
    i = m.id()
    m.store(m.y, i, m.load(m.x, m.op("sub", i, 1)))  # fault
    return m, [f32(64), f32(64)], 2, 32


@faulty("HET600", "x")
def second_axis_out_of_bounds() -> Launch:
    """Inside the memory, but outside its row."""
    m = Maker(x=array(F32, 2), y=array(F32, 1))
    i = m.id()
    m.store(m.y, i, m.load(m.x, 0, i))  # fault
    return m, [np.ones((4, 8), np.float32), f32(16)], 1, 16


@faulty("HET600", "x")
def row_of_a_view_too_long() -> Launch:
    m = Maker(x=array(F32, 2), y=array(F32, 1))
    i = m.local()
    row = m.op("view", m.x, m.group(), 4, 6, steps=(0, 1))
    m.store(m.y, m.id(), m.load(row, i))  # fault
    return m, [np.ones((4, 8), np.float32), f32(24)], 4, 6


@faulty("HET600", "x")
def view_of_a_row_that_does_not_exist() -> Launch:
    m = Maker(x=array(F32, 2), y=array(F32, 1))
    row = m.op("view", m.x, m.op("sub", m.group(), 1), 0, 8, steps=(0, 1))
    m.store(m.y, m.id(), m.load(row, m.local()))  # fault
    return m, [np.ones((4, 8), np.float32), f32(32)], 4, 8


@faulty("HET600", "tile")
def shared_array_too_small() -> Launch:
    m = Maker(y=array(F32, 1))
    tile = m.alloc(F32, 16, name="tile")
    m.store(tile, m.local(), 1.0)  # fault
    m.barrier()
    m.store(m.y, m.id(), m.load(tile, 3))
    return m, [f32(64)], 2, 32


@faulty("HET600", "count")
def atomic_out_of_bounds() -> Launch:
    m = Maker(x=array(I32, 1), count=array(I32, 1))
    bin_ = m.cast(m.load(m.x, m.id()), I64)
    m.rmw("add", m.count, bin_, 1)  # fault
    return m, [np.arange(64, dtype=np.int32), i32(60)], 2, 32


@faulty("HET600", "x")
def read_of_an_empty_array() -> Launch:
    m = Maker(x=array(F32, 1), y=array(F32, 1))
    m.store(m.y, m.id(), m.load(m.x, 0))  # fault
    return m, [f32(0), f32(32)], 1, 32


# ---- uninitialised memory ------------------------------------------------------------------


@faulty("HET601", "tile")
def shared_read_before_written() -> Launch:
    m = Maker(y=array(F32, 1))
    tile = m.alloc(F32, 32, name="tile")
    with m.if_(m.op("lt", m.local(), 31)):
        m.store(tile, m.local(), 1.0)
    m.barrier()
    m.store(m.y, m.id(), m.load(tile, m.local()))  # fault
    return m, [f32(64)], 2, 32


@faulty("HET601", "mine")
def private_read_before_written() -> Launch:
    m = Maker(y=array(F32, 1))
    mine = m.alloc(F32, 4, space="private", name="mine")
    with m.for_(0, 3) as k:
        m.store(mine, k, 2.0)
    m.store(m.y, m.id(), m.load(mine, 3))  # fault
    return m, [f32(64)], 2, 32


@faulty("HET601", "total")
def atomic_on_uninitialised_shared_memory() -> Launch:
    m = Maker(y=array(I32, 1))
    total = m.alloc(I32, 1, name="total")
    m.rmw("add", total, 0, 1, scope="workgroup")  # fault
    m.barrier()
    with m.if_(m.op("eq", m.local(), 0)):
        m.store(m.y, m.group(), m.load(total, 0))
    return m, [i32(2)], 2, 32


# ---- races ---------------------------------------------------------------------------------


@faulty("HET602", "tile")
def missing_barrier_between_write_and_read() -> Launch:
    m = Maker(y=array(F32, 1))
    tile = m.alloc(F32, 32, name="tile")
    m.store(tile, m.local(), 1.0)
    other = m.op("sub", 31, m.local())
    m.store(m.y, m.id(), m.load(tile, other))  # fault
    return m, [f32(64)], 2, 32


@faulty("HET602", "tile")
def missing_barrier_at_the_end_of_a_loop() -> Launch:
    m = Maker(y=array(F32, 1))
    tile = m.alloc(F32, 32, name="tile")
    with m.for_(0, 3):
        m.store(tile, m.local(), 1.0)  # fault
        m.barrier()
        other = m.op("sub", 31, m.local())
        m.store(m.y, m.id(), m.load(tile, other))
    return m, [f32(64)], 2, 32


@faulty("HET602", "y")
def all_work_items_write_one_element() -> Launch:
    m = Maker(y=array(F32, 1))
    m.store(m.y, 0, m.cast(m.id(), F32))  # fault
    return m, [f32(4)], 1, 32


@faulty("HET602", "y")
def workgroups_write_one_element() -> Launch:
    m = Maker(y=array(F32, 1))
    with m.if_(m.op("eq", m.local(), 0)):
        m.store(m.y, 0, 1.0)  # fault
    return m, [f32(4)], 4, 32


@faulty("HET602", "y")
def read_of_another_workgroups_result() -> Launch:
    m = Maker(y=array(F32, 1))
    m.store(m.y, m.id(), 1.0)
    m.barrier()
    last = m.op("sub", m.op("mul", m.op("num_groups", axis=0), 32), m.op("add", m.id(), 1))
    v = m.load(m.y, last)  # fault
    m.store(m.y, m.id(), v)  # fault
    return m, [f32(128)], 4, 32


@faulty("HET602", "count")
def counting_without_atomics() -> Launch:
    m = Maker(x=array(I32, 1), count=array(I32, 1))
    at = m.cast(m.load(m.x, m.id()), I64)
    m.store(m.count, at, m.op("add", m.load(m.count, at), m.const(I32, 1)))  # fault
    return m, [np.zeros(32, np.int32), i32(4)], 1, 32


@faulty("HET602", "count")
def atomics_mixed_with_a_plain_read() -> Launch:
    m = Maker(count=array(I32, 1), y=array(I32, 1))
    m.rmw("add", m.count, 0, 1)
    m.store(m.y, m.id(), m.load(m.count, 0))  # fault
    return m, [i32(1), i32(64)], 2, 32


@faulty("HET602", "count")
def workgroup_scope_between_workgroups() -> Launch:
    m = Maker(count=array(I32, 1))
    m.rmw("add", m.count, 0, 1, scope="workgroup")  # fault
    return m, [i32(1)], 4, 32


@faulty("HET602", "part")
def last_workgroup_without_release() -> Launch:
    """The ticket is relaxed: nothing orders the partial sums before the last group's read."""
    return last_workgroup("relaxed")


@faulty("HET602", "part")
def last_workgroup_without_acquire() -> Launch:
    return last_workgroup("release")


@faulty("HET602", "part")
def last_workgroup_at_too_small_a_scope() -> Launch:
    return last_workgroup("acq_rel", fence="workgroup")


@faulty("HET602", "part")
def last_workgroup_that_releases_to_its_own_group_only() -> Launch:
    return last_workgroup("acq_rel", fence="workgroup", after="device")


def last_workgroup(order: str, fence: str = "", after: str = "") -> Launch:
    """Each group writes its part and takes a ticket; the last one adds the parts."""
    m = Maker(part=array(F32, 1), ticket=array(U32, 1), y=array(F32, 1))
    last = m.alloc(I32, 1, name="last")
    groups = m.op("num_groups", axis=0)
    with m.if_(m.op("eq", m.local(), 0)):
        m.store(m.part, m.group(), 1.0)
        if fence:
            m.emit("fence", order=order, scope=fence)
            old = m.rmw("add", m.ticket, 0, 1)
            m.emit("fence", order=order, scope=after or fence)
        else:
            old = m.rmw("add", m.ticket, 0, 1, order=order)
        is_last = m.op("eq", m.cast(old, I64), m.op("sub", groups, 1))
        m.store(last, 0, m.cast(is_last, I32))
    m.barrier()
    with m.if_(m.op("ne", m.load(last, 0), m.const(I32, 0))):
        mine = m.op("mod", m.local(), groups)
        v = m.load(m.part, mine)  # fault
        m.store(m.y, m.local(), v)
    return m, [f32(4), np.zeros(1, np.uint32), f32(32)], 4, 32


def three_roles(*, late: bool = False, overwritten: bool = False) -> Launch:
    """Item 0 writes data and sets a flag, item 2 sees the flag and reads the data."""
    m = Maker(data=array(F32, 1), flag=array(I32, 1), y=array(F32, 1))
    flag = {"scope": "workgroup"}
    with m.if_(m.op("eq", m.local(), 0)):
        if not late:
            m.store(m.data, 0, 2.0)
        m.emit("atomic.store", m.flag, 0, m.const(I32, 1), order="release", **flag)
        if late:
            m.store(m.data, 0, 2.0)
    with m.if_(m.op("eq", m.local(), 1)):
        if overwritten:
            m.emit("atomic.store", m.flag, 0, m.const(I32, 2), order="relaxed", **flag)
    with m.if_(m.op("eq", m.local(), 2)):
        seen = m.op("atomic.load", m.flag, 0, order="acquire", **flag)
        with m.if_(m.op("gt", seen, m.const(I32, 0))):
            v = m.load(m.data, 0)  # fault
            m.store(m.y, 0, v)
    return m, [f32(1), i32(1), f32(1)], 1, 32


@faulty("HET602", "data")
def three_roles_data_written_after_the_release() -> Launch:
    return three_roles(late=True)


@faulty("HET602", "data")
def three_roles_flag_overwritten_by_a_relaxed_store() -> Launch:
    return three_roles(overwritten=True)


@faulty("HET602", "count")
def plain_initialisation_before_atomics() -> Launch:
    m = Maker(count=array(I32, 1))
    with m.if_(m.op("eq", m.local(), 0)):
        m.store(m.count, 0, 5)
    m.rmw("add", m.count, 0, 1)  # fault
    return m, [i32(1)], 1, 32


@faulty("HET602", "count")
def plain_reads_before_an_atomic() -> Launch:
    m = Maker(count=array(I32, 1), y=array(I32, 1))
    m.store(m.y, m.id(), m.load(m.count, 0))
    m.rmw("add", m.count, 0, 1)  # fault
    return m, [i32(1), i32(32)], 1, 32


@faulty("HET602", "b")
def race_through_two_names_of_one_array() -> Launch:
    m = Maker(a=array(F32, 1), b=array(F32, 1))
    v = m.load(m.a, m.op("add", m.id(), 1))
    m.store(m.b, m.id(), v)  # fault
    memory = f32(65)
    return m, [memory, memory[:64]], 2, 32


# ---- barriers, subgroups, promises, overflow -----------------------------------------------


@faulty("HET603")
def barrier_in_a_divergent_branch() -> Launch:
    m = Maker(y=array(F32, 1))
    with m.if_(m.op("lt", m.local(), 16)):
        m.barrier()  # fault
    m.store(m.y, m.id(), 1.0)
    return m, [f32(64)], 2, 32


@faulty("HET603")
def barrier_after_a_divergent_return() -> Launch:
    m = Maker(y=array(F32, 1))
    m.return_if(m.op("ge", m.id(), m.dim(m.y)))
    m.barrier()  # fault
    m.store(m.y, m.id(), 1.0)
    return m, [f32(60)], 2, 32


@faulty("HET603")
def barrier_in_a_loop_of_unlike_trips() -> Launch:
    m = Maker(y=array(F32, 1))
    with m.for_(0, m.op("add", m.local(), 1)):
        m.barrier()  # fault
    m.store(m.y, m.id(), 1.0)
    return m, [f32(64)], 2, 32


@faulty("HET603")
def two_barriers_in_two_branches() -> Launch:
    m = Maker(y=array(F32, 1))
    with m.if_else(m.op("lt", m.local(), 16)) as other:
        m.barrier()  # fault
        with other():
            m.barrier()  # fault
    m.store(m.y, m.id(), 1.0)
    return m, [f32(64)], 2, 32


@faulty("HET604")
def index_overflows() -> Launch:
    m = Maker(x=array(F32, 1), y=array(F32, 1), n=I64)
    offset = m.op("mul", m.op("add", m.id(), 1), m.n)  # fault
    wrapped = m.op("min", m.op("max", offset, 0), 31)
    m.store(m.y, m.id(), m.load(m.x, wrapped))
    return m, [f32(32), f32(32), np.int64(1 << 62)], 1, 32


@faulty("HET604")
def carried_index_overflows() -> Launch:
    m = Maker(x=array(F32, 1), y=array(F32, 1), n=I64)
    at = m.op("sub", m.op("neg", m.n), 2)  # fault
    m.store(m.y, m.id(), m.load(m.x, m.op("min", at, 3)))
    return m, [f32(4), f32(32), np.int64((1 << 63) - 1)], 1, 32


@faulty("HET605")
def reduction_in_a_divergent_branch() -> Launch:
    m = Maker(y=array(F32, 1))
    with m.if_(m.op("lt", m.local(), 5)):
        v = m.const(F32, 1.0)
        total = m.op("subgroup_reduce", v, m.const(BOOL, 1), kind="add")  # fault
        m.store(m.y, m.id(), total)
    return m, [f32(64)], 2, 32


@faulty("HET605")
def shuffle_after_a_divergent_return() -> Launch:
    m = Maker(y=array(F32, 1))
    m.return_if(m.op("eq", m.local(), 7))
    v = m.op("shuffle", m.const(F32, 1.0), 0, m.const(BOOL, 1), mode="index")  # fault
    m.store(m.y, m.id(), v)
    return m, [f32(64)], 2, 32


@faulty("HET606")
def shuffle_from_a_lane_that_does_not_exist() -> Launch:
    m = Maker(y=array(F32, 1))
    lane = m.op("add", m.op("lane_id"), 1)
    v = m.op("shuffle", m.const(F32, 1.0), lane, m.const(BOOL, 1), mode="index")  # fault
    m.store(m.y, m.id(), v)
    return m, [f32(64)], 2, 32


@faulty("HET607")
def false_promise_of_uniformity() -> Launch:
    m = Maker(y=array(F32, 1))
    v = m.op("assume_uniform", m.op("floordiv", m.local(), 8))  # fault
    m.store(m.y, m.id(), m.cast(v, F32))
    return m, [f32(64)], 2, 32


@faulty("HET608")
def failed_assertion() -> Launch:
    m = Maker(x=array(F32, 1))
    v = m.load(m.x, m.id())
    m.emit("assert", m.op("gt", v, m.const(F32, 0.0)), message="x must be positive")  # fault
    return m, [np.arange(64, dtype=np.float32)], 2, 32


@faulty("HET609")
def spin_lock_inside_a_workgroup() -> Launch:
    m = Maker(lock=array(I32, 1), y=array(F32, 1))
    with m.loop():  # fault
        held = m.op(
            "atomic.cas", m.lock, 0, m.const(I32, 0), m.const(I32, 1), order="acquire",
            scope="device",
        )  # fmt: skip
        m.break_if(m.op("eq", held, m.const(I32, 0)))
    m.store(m.y, m.id(), 1.0)
    m.emit("atomic.store", m.lock, 0, m.const(I32, 0), order="release", scope="device")
    return m, [i32(1), f32(64)], 2, 32


@faulty("HET609")
def wait_for_a_flag_that_nobody_sets() -> Launch:
    m = Maker(flag=array(I32, 1), y=array(F32, 1))
    with m.loop():  # fault
        seen = m.op("atomic.load", m.flag, 0, order="acquire", scope="device")
        m.break_if(m.op("ne", seen, m.const(I32, 0)))
    m.store(m.y, m.id(), 1.0)
    return m, [i32(1), f32(64)], 2, 32


# ---- kernels without faults ----------------------------------------------------------------


@clean
def guarded_copy() -> Launch:
    m = Maker(x=array(F32, 1), y=array(F32, 1))
    i = m.id()
    with m.if_(m.op("lt", i, m.dim(m.x))):
        m.store(m.y, i, m.load(m.x, i))
    return m, [f32(100), f32(100)], 4, 32


@clean
def reversal_through_shared_memory() -> Launch:
    m = Maker(x=array(F32, 1), y=array(F32, 1))
    tile = m.alloc(F32, 32)
    with m.for_(0, 3):
        m.store(tile, m.local(), m.load(m.x, m.id()))
        m.barrier()
        m.store(m.y, m.id(), m.load(tile, m.op("sub", 31, m.local())))
        m.barrier()
    return m, [f32(64), f32(64)], 2, 32


@clean
def histogram() -> Launch:
    m = Maker(x=array(I32, 1), count=array(I32, 1))
    bins = m.alloc(I32, 8)
    with m.if_(m.op("lt", m.local(), 8)):
        m.store(bins, m.local(), 0)
    m.barrier()
    m.rmw("add", bins, m.cast(m.load(m.x, m.id()), I64), 1, scope="workgroup")
    m.barrier()
    with m.if_(m.op("lt", m.local(), 8)):
        m.rmw("add", m.count, m.local(), m.load(bins, m.local()))
    return m, [np.arange(128, dtype=np.int32) % 8, i32(8)], 4, 32


@clean
def three_roles_in_order() -> Launch:
    return three_roles()


@clean
def release_sequence_that_another_item_continues() -> Launch:
    """A relaxed read-modify-write between the release and the acquire keeps them in touch."""
    m = Maker(data=array(F32, 1), flag=array(I32, 1), y=array(F32, 1))
    with m.if_(m.op("eq", m.local(), 0)):
        m.store(m.data, 0, 2.0)
        m.rmw("add", m.flag, 0, 1, order="release")
    with m.if_(m.op("eq", m.local(), 1)):
        m.rmw("add", m.flag, 0, 1)
    with m.if_(m.op("eq", m.local(), 2)):
        m.op("atomic.load", m.flag, 0, order="acquire", scope="device")
        m.store(m.y, 0, m.load(m.data, 0))
    return m, [f32(1), i32(1), f32(1)], 1, 8


@clean
def knowledge_passed_on_by_a_third_item() -> Launch:
    m = Maker(data=array(F32, 1), flags=array(I32, 1), y=array(F32, 1))
    at = {"scope": "workgroup"}
    with m.if_(m.op("eq", m.local(), 0)):
        m.store(m.data, 0, 2.0)
        m.emit("atomic.store", m.flags, 0, m.const(I32, 1), order="release", **at)
    with m.if_(m.op("eq", m.local(), 1)):
        m.op("atomic.load", m.flags, 0, order="acquire", **at)
        m.emit("atomic.store", m.flags, 1, m.const(I32, 1), order="seq_cst", **at)
    with m.if_(m.op("eq", m.local(), 2)):
        m.op("atomic.load", m.flags, 1, order="seq_cst", **at)
        m.store(m.y, 0, m.load(m.data, 0))
    return m, [f32(1), i32(2), f32(1)], 1, 8


def subgroup_scope(reader: int) -> Launch:
    """Item 0 hands data to the item `reader` at subgroup scope; subgroups have 32 lanes."""
    m = Maker(data=array(F32, 1), flag=array(I32, 1), y=array(F32, 1))
    at = {"scope": "subgroup"}
    with m.if_(m.op("eq", m.local(), 0)):
        m.store(m.data, 0, 2.0)
        m.emit("fence", order="release", scope="subgroup")
        m.emit("atomic.store", m.flag, 0, m.const(I32, 1), order="relaxed", scope="workgroup")
    with m.if_(m.op("eq", m.local(), reader)):
        m.op("atomic.load", m.flag, 0, order="relaxed", scope="workgroup")
        m.emit("fence", order="acquire", **at)
        m.store(m.y, 0, m.load(m.data, 0))  # fault
    return m, [f32(1), i32(1), f32(1)], 1, 64


@clean
def subgroup_scope_within_a_subgroup() -> Launch:
    return subgroup_scope(31)


@faulty("HET602", "data")
def subgroup_scope_between_subgroups() -> Launch:
    return subgroup_scope(32)


@clean
def promise_that_holds_in_each_workgroup() -> Launch:
    m = Maker(y=array(F32, 1))
    v = m.op("assume_uniform", m.op("floordiv", m.id(), 32))
    m.store(m.y, m.id(), m.cast(v, F32))
    return m, [f32(128)], 4, 32


@clean
def initialisation_before_a_barrier_and_atomics() -> Launch:
    m = Maker(count=array(I32, 1))
    with m.if_(m.op("eq", m.local(), 0)):
        m.store(m.count, m.group(), 5)
    m.barrier()
    m.rmw("add", m.count, m.group(), 1, scope="workgroup")
    m.barrier()
    with m.if_(m.op("eq", m.local(), 3)):
        m.store(m.count, m.group(), m.load(m.count, m.group()))
    return m, [i32(4)], 4, 32


@clean
def last_workgroup_with_acquire_and_release() -> Launch:
    return last_workgroup("acq_rel")


@clean
def last_workgroup_with_fences() -> Launch:
    return last_workgroup("acq_rel", fence="device")


@clean
def view_of_a_missing_row_that_is_not_used() -> Launch:
    m = Maker(x=array(F32, 2), y=array(F32, 1))
    row = m.op("view", m.x, m.op("sub", m.group(), 1), 0, 8, steps=(0, 1))
    with m.if_(m.op("ge", m.group(), 1)):
        m.store(m.y, m.id(), m.load(row, m.local()))
    return m, [np.ones((4, 8), np.float32), f32(32)], 4, 8


@clean
def uniform_return_before_a_barrier() -> Launch:
    m = Maker(y=array(F32, 1))
    m.return_if(m.op("eq", m.group(), 1))
    m.barrier()
    m.store(m.y, m.id(), 1.0)
    return m, [f32(128)], 4, 32


@clean
def hash_that_wraps_before_it_is_reduced() -> Launch:
    m = Maker(x=array(F32, 1), y=array(F32, 1), n=I64)
    hashed = m.op("mul", m.op("add", m.id(), 1), m.n)
    m.store(m.y, m.id(), m.load(m.x, m.op("mod", hashed, 32)))
    return m, [f32(32), f32(32), np.int64(6364136223846793005)], 1, 32


@clean
def wait_for_an_earlier_ticket() -> Launch:
    """Each group waits for the flag of the one that started before it, then reads its data."""
    m = Maker(ticket=array(U32, 1), flag=array(U32, 1), data=array(F32, 1))
    turn = m.alloc(I64, 1)
    with m.if_(m.op("eq", m.local(), 0)):
        mine = m.cast(m.rmw("add", m.ticket, 0, 1), I64)
        m.store(turn, 0, mine)
        with m.if_(m.op("gt", mine, 0)), m.loop():
            seen = m.op("atomic.load", m.flag, 0, order="acquire", scope="device")
            m.break_if(m.op("ge", m.cast(seen, I64), mine))
        v = m.load(m.data, 0)
        m.store(m.data, 0, m.op("add", v, m.const(F32, 1.0)))
        m.rmw("add", m.flag, 0, 1, order="release")
    return m, [np.zeros(1, np.uint32), np.zeros(1, np.uint32), f32(1)], 6, 32


@pytest.mark.parametrize(
    ("name", "code", "array_name", "build"),
    FAULTY,
    ids=lambda v: getattr(v, "__name__", str(v))[:40],
)
def test_planted_fault_is_found(
    name: str, code: str, array_name: str, build: Callable[[], Launch]
) -> None:
    shared = {
        "last_workgroup": last_workgroup,
        "three_roles": three_roles,
        "subgroup_scope": subgroup_scope,
    }
    marked = next((f for start, f in shared.items() if name.startswith(start)), build)
    lines, start = inspect.getsourcelines(marked)
    wanted = {start + at for at, line in enumerate(lines) if "# fault" in line}
    assert wanted
    for seed in range(3):
        report = check(build(), seed)
        assert report.faults, f"seed {seed}"
        for fault in report.faults:
            assert (fault.code, fault.array) == (code, array_name), str(fault)
            assert fault.loc is not None
            assert fault.loc.line in wanted, str(fault)
            assert fault.kernel == "k"
            assert f"error[{code}]" in str(fault)
            assert f"{fault.item.global_id}" in str(fault)


def test_there_are_enough_faulty_kernels() -> None:
    assert len(FAULTY) >= 30


@pytest.mark.parametrize("build", CLEAN, ids=lambda f: f.__name__)
def test_right_kernels_are_clean(build: Callable[[], Launch]) -> None:
    for seed in range(3):
        report = check(build(), seed)
        assert not report.faults, str(report)


def test_rendered_bounds_fault() -> None:
    report = check(write_without_guard())
    (fault,) = report.faults
    assert fault.index == (100 + fault.item.global_id[0] - 100,)
    assert fault.shape == (100,)
    assert fault.count == 28
    first = f"index {fault.index[0]} is out of bounds for `y` of shape (100,)"
    text = str(fault)
    assert text.splitlines()[0] == f"error[HET600]: {first}"
    assert "m.store(m.y, m.id(), 1.0)  # fault" in text
    assert f"local id ({fault.index[0] - 96}, 0, 0) of workgroup (3, 0, 0)" in text
    assert "and 27 more" in text
    assert text.splitlines()[-1].startswith(" = help: guard the access")


def test_a_fault_skips_the_access_and_goes_on() -> None:
    m = Maker(x=array(F32, 1), y=array(F32, 1))
    i = m.id()
    m.store(m.y, i, m.load(m.x, m.op("sub", i, 2)))
    x, y = np.arange(8, dtype=np.float32) + 1, f32(8) * 9
    report = run(m.kernel(), [x, y], (1,), (8,))
    assert [f.code for f in report.faults] == ["HET600"]
    assert y.tolist() == [0, 0, 1, 2, 3, 4, 5, 6]


def test_reports_are_capped() -> None:
    m = Maker(y=array(F32, 1))
    for _ in range(3):
        m.store(m.y, -1, 1.0)
    (fault,) = run(m.kernel(), [f32(4)], (1,), (2,)).faults
    assert fault.count == 6
    m = Maker(y=array(F32, 1))
    index, value = m.value(-1), m.const(F32, 1)
    for _ in range(150):
        m.builders[-1].emit(ops.STORE, m.y, index, value)
    assert len(run(m.kernel(), [f32(4)], (1,), (1,)).faults) == 100


def test_order_dependence_shows() -> None:
    """Which workgroup writes last depends on the seed."""
    m = Maker(y=array(I64, 1))
    m.store(m.y, 0, m.group())
    kernel, seen = m.kernel(), set()
    for seed in range(8):
        y = np.zeros(1, np.int64)
        run(kernel, [y], (64,), (1,), seed=seed)
        seen.add(int(y[0]))
    assert len(seen) > 3


def test_one_seed_one_result() -> None:
    m = Maker(y=array(I64, 1), x=array(F32, 1))
    m.rmw("exchange", m.y, 0, m.id())
    m.rmw("add", m.x, 0, m.op("sqrt", m.cast(m.id(), F32)))
    kernel = m.kernel()
    results = set()
    for _ in range(3):
        y, x = np.zeros(1, np.int64), np.zeros(1, np.float32)
        run(kernel, [y, x], (7,), (33,), seed=5)
        results.add((int(y[0]), float(x[0])))
    assert len(results) == 1


# ---- races, against a list of all pairs ----------------------------------------------------

ITEMS, GROUPS = 6, 3


def random_accesses(rng: random.Random) -> list[tuple[str, int, int, int]]:
    """Steps that every work-item takes: a barrier, or an access at (a * id + b) % n."""
    size = rng.choice([4, 18, 40])
    kinds = rng.choice([["load", "store"], ["load", "rmw"], ["load", "store", "rmw", "barrier"]])
    return [
        (rng.choice(kinds), rng.choice([0, 1, 1, 2]), rng.randrange(size), size)
        for _ in range(rng.randint(2, 5))
    ]


def races(steps: list[tuple[str, int, int, int]]) -> bool:
    """Whether two accesses of unlike items meet, one writes, and no barrier is between."""
    seen: list[tuple[int, int, int, str]] = []
    epoch = 0
    for kind, a, b, size in steps:
        if kind == "barrier":
            epoch += 1
            continue
        for item in range(ITEMS * GROUPS):
            place = (a * item + b) % size
            for other, when, there, what in seen:
                same_group = other // ITEMS == item // ITEMS
                if other == item or there != place or (same_group and when < epoch):
                    continue
                if "store" in (kind, what) or {kind, what} == {"load", "rmw"}:
                    return True
            seen.append((item, epoch, place, kind))
    return False


def test_races_are_found_exactly() -> None:
    found = 0
    for seed in range(250):
        steps = random_accesses(random.Random(seed))
        m = Maker(x=array(I32, 1))
        for kind, a, b, size in steps:
            if kind == "barrier":
                m.barrier()
                continue
            index = m.op("mod", m.op("add", m.op("mul", m.id(), a), b), size)
            match kind:
                case "load":
                    m.load(m.x, index)
                case "store":
                    m.store(m.x, index, 1)
                case _:
                    m.rmw("add", m.x, index, 1)
        report = run(m.kernel(), [i32(40)], (GROUPS,), (ITEMS,), checks=True, seed=seed)
        assert bool(report.faults) == races(steps), (seed, steps, str(report))
        assert {f.code for f in report.faults} <= {"HET602"}
        found += races(steps)
    assert 50 < found < 200
