"""Kernels that hand memory from work-item to work-item, each with a place to weaken.

A maker returns the kernel; its keywords are the orders and scopes that the kernel needs, and
passing a weaker one plants the mistake. `PLANTED` lists the mistakes, the arguments' shapes
(i32), the launch, and the marker of the line that the report must name.
"""

# ruff: noqa: PT009, SIM102
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import hetir
import hetir.lang as hl


def message(release="release", acquire="acquire", scope="device"):
    @hetir.kernel
    def kernel(data, flag, out):
        if hl.group_id(0) == 0:
            data[0] = 42
            hl.atomic_store(flag, 0, 1, order=release, scope=scope)  # mark: release
        elif hl.atomic_load(flag, 0, order=acquire, scope=scope) == 1:  # mark: acquire
            out[0] = data[0]

    return kernel


def fenced_message(release="release", acquire="acquire", scope="device"):
    @hetir.kernel
    def kernel(data, flag, out):
        if hl.group_id(0) == 0:
            data[0] = 42
            if release:
                hl.fence(release, scope)
            hl.atomic_store(flag, 0, 1)  # mark: store
        elif hl.atomic_load(flag, 0) == 1:  # mark: load
            if acquire:
                hl.fence(acquire)
            out[0] = data[0]

    return kernel


def last_group(order="acq_rel"):
    """The last workgroup to arrive adds up what all have written."""

    @hetir.kernel
    def kernel(parts, count, out):
        group = hl.group_id(0)
        parts[group] = group + 1
        if hl.atomic_add(count, 0, 1, order=order) == hl.num_groups(0) - 1:  # mark: add
            total = 0
            for i in range(hl.num_groups(0)):
                total += parts[i]
            out[0] = total

    return kernel


def spin_lock(lock="acquire", unlock="release"):
    @hetir.kernel
    def kernel(data, mutex):
        while hl.atomic_exchange(mutex, 0, 1, order=lock) == 1:  # mark: lock
            pass
        data[0] += 1
        hl.atomic_store(mutex, 0, 0, order=unlock)  # mark: unlock

    return kernel


def ticket_lock(wait="acquire", leave="release"):
    @hetir.kernel
    def kernel(data, tickets, serving):
        mine = hl.atomic_add(tickets, 0, 1)
        while hl.atomic_load(serving, 0, order=wait) != mine:  # mark: wait
            pass
        data[0] += 1
        hl.atomic_add(serving, 0, 1, order=leave)  # mark: leave

    return kernel


def compare_lock(lock="acquire"):
    @hetir.kernel
    def kernel(data, mutex):
        if hl.atomic_compare_exchange(mutex, 0, 0, 1, order=lock) == 0:  # mark: lock
            data[0] += 1
            hl.atomic_store(mutex, 0, 0, order="release")

    return kernel


def dekker(store="seq_cst", load="seq_cst"):
    """Who sees that the other has not begun may enter: at most one."""

    @hetir.kernel
    def kernel(wants, inside):
        me = hl.group_id(0)
        hl.atomic_store(wants, me, 1, order=store)  # mark: store
        if hl.atomic_load(wants, 1 - me, order=load) == 0:  # mark: load
            inside[0] = me

    return kernel


def dekker_fences(order="seq_cst", scope="device"):
    @hetir.kernel
    def kernel(wants, inside):
        me = hl.group_id(0)
        hl.atomic_store(wants, me, 1)  # mark: store
        hl.fence(order, scope)
        if hl.atomic_load(wants, 1 - me) == 0:  # mark: load
            hl.assert_(hl.atomic_add(inside, 0, 1) == 0, "both are inside")

    return kernel


def ring(put="release", take="acquire"):
    """A queue of two slots between two workgroups."""

    @hetir.kernel
    def kernel(slots, head, tail, out):
        if hl.group_id(0) == 0:
            for i in range(3):
                while i - hl.atomic_load(tail, 0, order=take) >= 2:  # mark: take
                    pass
                slots[i % 2] = i + 1
                hl.atomic_store(head, 0, i + 1, order=put)  # mark: put
        else:
            for i in range(3):
                while hl.atomic_load(head, 0, order="acquire") <= i:
                    pass
                out[i] = slots[i % 2]
                hl.atomic_store(tail, 0, i + 1, order="release")

    return kernel


def look_back(publish="release", look="acquire"):
    """Each workgroup adds its part to its left neighbour's running total."""

    @hetir.kernel
    def kernel(parts, totals, state):
        group = hl.group_id(0)
        before = 0
        if group > 0:
            while hl.atomic_load(state, group - 1, order=look) == 0:  # mark: look
                pass
            before = totals[group - 1]
        totals[group] = before + parts[group]
        hl.atomic_store(state, group, 1, order=publish)  # mark: publish

    return kernel


def forwarded(forward="release"):
    """The word goes through a third workgroup."""

    @hetir.kernel
    def kernel(data, first, second, out):
        group = hl.group_id(0)
        if group == 0:
            hl.atomic_store(data, 0, 1)
            hl.atomic_store(first, 0, 1, order="release")
        elif group == 1:
            while hl.atomic_load(first, 0, order="acquire") == 0:
                pass
            hl.atomic_store(second, 0, 1, order=forward)  # mark: forward
        else:
            while hl.atomic_load(second, 0, order="acquire") == 0:
                pass
            hl.assert_(hl.atomic_load(data, 0) == 1, "the data is there")  # mark: read

    return kernel


def once(check="acquire", ready="release"):
    """The first to come makes a table that the others use (double-checked)."""

    @hetir.kernel
    def kernel(table, state, out):
        if hl.atomic_load(state, 0, order=check) != 2:  # mark: check
            if hl.atomic_compare_exchange(state, 0, 0, 1) == 0:
                table[0] = 7
                hl.atomic_store(state, 0, 2, order=ready)  # mark: ready
        else:
            out[hl.group_id(0)] = table[0]

    return kernel


def stack(push="release", pop="acquire"):
    """A linked stack: pushing publishes a node, popping reads it."""

    @hetir.kernel
    def kernel(values, links, top, out):
        if hl.group_id(0) == 0:
            values[1] = 10
            links[1] = hl.atomic_load(top, 0)
            hl.atomic_compare_exchange(top, 0, 0, 1, order=push)  # mark: push
        else:
            node = hl.atomic_exchange(top, 0, 0, order=pop)  # mark: pop
            if node != 0:
                out[0] = values[node] + links[node]

    return kernel


def overwritten(second="release"):
    """A second store of the flag carries only what its own order says."""

    @hetir.kernel
    def kernel(data, flag, out):
        if hl.group_id(0) == 0:
            data[0] = 1
            hl.atomic_store(flag, 0, 1, order="release")
            hl.atomic_store(flag, 0, 2, order=second)  # mark: second
        elif hl.atomic_load(flag, 0, order="acquire") == 2:
            out[0] = data[0]

    return kernel


def four_readers(order="seq_cst"):
    """Two watchers must not see two stores in opposite orders."""

    @hetir.kernel
    def kernel(x, y, seen):
        group = hl.group_id(0)
        if group == 0:
            hl.atomic_store(x, 0, 1, order="seq_cst")
        elif group == 1:
            hl.atomic_store(y, 0, 1, order="seq_cst")
        elif group == 2:
            if hl.atomic_load(x, 0, order=order) == 1:  # mark: first
                if hl.atomic_load(y, 0, order=order) == 0:
                    hl.assert_(hl.atomic_add(seen, 0, 1) == 0, "x before y")
        elif hl.atomic_load(y, 0, order=order) == 1:
            if hl.atomic_load(x, 0, order=order) == 0:
                hl.assert_(hl.atomic_add(seen, 0, 1) == 0, "y before x")

    return kernel


def near_and_far(far="device"):
    """A neighbour hands on, at device scope, what it got at workgroup scope."""

    @hetir.kernel
    def kernel(data, near, flag, out):
        item = hl.global_id(0)
        if item == 0:
            data[0] = 5
            hl.atomic_store(near, 0, 1, order="release", scope="workgroup")
        elif item == 1:
            if hl.atomic_load(near, 0, order="acquire", scope="workgroup") == 1:
                hl.atomic_store(flag, 0, 1, order="release", scope=far)  # mark: far
        elif item == 2:
            if hl.atomic_load(flag, 0, order="acquire") == 1:
                out[0] = data[0]

    return kernel


def tile(scope="workgroup"):
    """A tile in shared memory, turned round."""

    @hetir.kernel(subgroup_size=2)
    def kernel(x, y):
        tile = hl.shared(4, hl.i32)
        i = hl.local_id(0)
        tile[i] = x[i]  # mark: write
        hl.barrier(scope)
        y[i] = tile[3 - i]  # mark: read

    return kernel


def meeting(arrive="acq_rel", wait="acquire"):
    """A barrier of two workgroups, by hand."""

    @hetir.kernel
    def kernel(data, count, out):
        me = hl.group_id(0)
        data[me] = me + 1
        hl.atomic_add(count, 0, 1, order=arrive)  # mark: arrive
        while hl.atomic_load(count, 0, order=wait) < 2:  # mark: wait
            pass
        out[me] = data[1 - me]

    return kernel


def queue(ready="release"):
    """Work-items append to a list; the reader takes what is marked ready."""

    @hetir.kernel
    def kernel(items, marks, tail, out):
        group = hl.group_id(0)
        if group < 2:
            slot = hl.atomic_add(tail, 0, 1)
            items[slot] = group + 5
            hl.atomic_store(marks, slot, 1, order=ready)  # mark: ready
        elif hl.atomic_load(marks, 0, order="acquire") == 1:
            out[0] = items[0]

    return kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """One mistake: the maker's weaker keywords, and the marker of the line to be named."""

    maker: Callable[..., hetir.Kernel]
    weaker: dict[str, str]
    marks: tuple[str, ...]
    shapes: tuple[int, ...] = (1, 1, 1)
    grid: int = 2
    workgroup: int = 1
    kind: str = "HET602"


def _plant(maker: Callable[..., hetir.Kernel], mark: str, weaker: dict[str, str], **rest) -> Plant:
    return Plant(maker=maker, weaker=weaker, marks=tuple(mark.split()), **rest)


PLANTED = (
    _plant(message, "release", {"release": "relaxed"}),
    _plant(message, "acquire", {"acquire": "relaxed"}),
    _plant(message, "release", {"scope": "workgroup"}),
    _plant(fenced_message, "store", {"release": ""}),
    _plant(fenced_message, "load", {"acquire": ""}),
    _plant(fenced_message, "store", {"release": "acquire"}),
    _plant(last_group, "add", {"order": "relaxed"}, shapes=(3, 1, 1), grid=3),
    _plant(last_group, "add", {"order": "release"}, shapes=(3, 1, 1), grid=3),
    _plant(last_group, "add", {"order": "acquire"}, shapes=(3, 1, 1), grid=3),
    _plant(spin_lock, "lock", {"lock": "relaxed"}, shapes=(1, 1)),
    _plant(spin_lock, "unlock", {"unlock": "relaxed"}, shapes=(1, 1)),
    _plant(ticket_lock, "wait", {"wait": "relaxed"}),
    _plant(ticket_lock, "leave", {"leave": "relaxed"}),
    _plant(compare_lock, "lock", {"lock": "relaxed"}, shapes=(1, 1)),
    _plant(dekker, "store", {"store": "release"}, shapes=(2, 1)),
    _plant(dekker, "load", {"load": "acquire"}, shapes=(2, 1)),
    _plant(dekker_fences, "store load", {"order": "acq_rel"}, shapes=(2, 1), kind="HET608"),
    _plant(dekker_fences, "store load", {"scope": "workgroup"}, shapes=(2, 1), kind="HET608"),
    _plant(ring, "put", {"put": "relaxed"}, shapes=(2, 1, 1, 3)),
    _plant(ring, "take", {"take": "relaxed"}, shapes=(2, 1, 1, 3)),
    _plant(look_back, "publish", {"publish": "relaxed"}, shapes=(3, 3, 3), grid=3),
    _plant(look_back, "look", {"look": "relaxed"}, shapes=(3, 3, 3), grid=3),
    _plant(
        forwarded, "forward", {"forward": "relaxed"}, shapes=(1, 1, 1, 1), grid=3, kind="HET608"
    ),
    _plant(once, "check", {"check": "relaxed"}, shapes=(1, 1, 2)),
    _plant(once, "ready", {"ready": "relaxed"}, shapes=(1, 1, 2)),
    _plant(stack, "push", {"push": "relaxed"}, shapes=(2, 2, 1, 1)),
    _plant(stack, "pop", {"pop": "relaxed"}, shapes=(2, 2, 1, 1)),
    _plant(overwritten, "second", {"second": "relaxed"}),
    _plant(four_readers, "first", {"order": "acquire"}, grid=4, kind="HET608"),
    _plant(near_and_far, "far", {"far": "workgroup"}, shapes=(1, 1, 1, 1), workgroup=2),
    _plant(tile, "write read", {"scope": "subgroup"}, shapes=(4, 4), grid=1, workgroup=4),
    _plant(meeting, "arrive", {"arrive": "relaxed"}, shapes=(2, 1, 2)),
    _plant(meeting, "wait", {"wait": "relaxed"}, shapes=(2, 1, 2)),
    _plant(queue, "ready", {"ready": "relaxed"}, shapes=(2, 2, 1, 1), grid=3),
)
