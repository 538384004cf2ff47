"""What would have ordered an execution of the machine: from a race or a stale read to a fix."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from hetir.memory.machine import Machine, Step, bits
from hetir.memory.program import SCOPES, Order, Scope

MOST_STEPS = 2000
"""Executions that are longer are not searched for cycles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A step that lacks an order, or (with `order` None) whose scope is too narrow."""

    step: Step
    order: Order | None = None
    scope: Scope | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """A read that returned `old` although `newer` had been written, and what forbids that."""

    read: Step
    newer: Step
    needs: tuple[Need, ...]


_Edge = tuple[str, Step]
_Path = list[_Edge]


def ordering(machine: Machine, first: Step, second: Step) -> tuple[Need, ...]:
    """What is missing between two racing steps, where one had word of the other.

    That is a path from the first to the second by program order and by reading what others
    wrote: each such step must hand over what came before.
    """
    path = _search(first, second, lambda s: _causes(machine, s))
    return () if path is None else tuple(_unique(_hand_over(machine, [("po", first), *path])))


def cycle(machine: Machine, thread: int) -> Stale | None:
    """Why an execution is none of any interleaving, as seen from a work-item if possible."""
    if len(machine.steps) > MOST_STEPS:
        return None
    stale = [s for s in machine.steps if _newer(s) is not None]
    stale.sort(key=lambda s: (s.thread != thread, s.origin is None, -s.number))
    for step in stale:
        path = _search(step, step, lambda s: _communicates(machine, s), _by_fr)
        newer = _newer(step)
        if path is not None and newer is not None:
            return Stale(read=step, newer=newer, needs=tuple(_unique(_forbids(machine, path))))
    return None


def _search(
    first: Step,
    last: Step,
    edges: Callable[[Step], Iterator[_Edge]],
    begin: Callable[[Step], Iterator[_Edge]] | None = None,
) -> _Path | None:
    """A shortest path, as the edges taken and the steps they lead to."""
    came: dict[Step, tuple[Step, str]] = {}
    queue: deque[Step] = deque()
    for kind, step in (begin or edges)(first):
        came.setdefault(step, (first, kind))
        queue.append(step)
    while queue and last not in came:
        here = queue.popleft()
        for kind, step in edges(here):
            if step not in came:
                came[step] = here, kind
                queue.append(step)
    if last not in came:
        return None
    path: _Path = []
    step = last
    while True:
        before, kind = came[step]
        path.append((kind, step))
        if before is first:
            return path[::-1]
        step = before


def _later(machine: Machine, step: Step) -> Iterator[_Edge]:
    items = machine.items if step.thread < 0 else [machine.items[step.thread]]
    for item in items:
        if item.mine & step.bit:
            yield from (("po", s) for s in item.own if s.number > step.number)


def _readers(machine: Machine, step: Step) -> Iterator[_Edge]:
    """Atomic reads of an atomic write: plain ones (they race) hand nothing over."""
    if step.written is not None and step.order is not None:
        readers = (machine.steps[n] for n in bits(step.written.readers))
        yield from (("rf", reader) for reader in readers if reader.order is not None)


def _causes(machine: Machine, step: Step) -> Iterator[_Edge]:
    yield from _readers(machine, step)
    yield from _later(machine, step)


def _next_write(step: Step, after: object) -> Step | None:
    if step.place is None:
        return None
    writes = step.place.writes
    at = next((n for n, write in enumerate(writes) if write is after), None)
    return None if at is None or at + 1 == len(writes) else writes[at + 1].step


def _newer(step: Step) -> Step | None:
    """The write that overwrote what a step read; None where there is none."""
    if step.source is None or step.written is not None:
        return None
    return _next_write(step, step.source)


def _by_fr(step: Step) -> Iterator[_Edge]:
    newer = _newer(step)
    if newer is not None:
        yield "fr", newer


def _communicates(machine: Machine, step: Step) -> Iterator[_Edge]:
    if step.thread >= 0:
        yield from _readers(machine, step)
        yield from _by_fr(step)
        following = None if step.written is None else _next_write(step, step.written)
        if following is not None:
            yield "mo", following
    yield from _later(machine, step)


def _hand_over(machine: Machine, path: _Path) -> Iterator[Need]:
    """The orders that are missing where a path goes from writes to reads.

    Reads in a row (of read-modify-writes) are one release sequence: its first write releases
    and its last read acquires.
    """
    at = 1
    while at < len(path):
        start = at - 1
        while at < len(path) and path[at][0] == "rf":
            at += 1
        chain = [step for _, step in path[start:at]]
        before = path[start - 1][1] if start else chain[0]
        after = path[at][1] if at < len(path) else chain[-1]
        if len(chain) > 1 and path[start][0] == "po" and after.thread in (-1, chain[-1].thread):
            yield from _synchronise(machine, before, chain, after)
        at += 1


def _synchronise(machine: Machine, before: Step, chain: list[Step], after: Step) -> Iterator[Need]:
    first, last = chain[0], chain[-1]
    if first.order is None or last.order is None:
        return
    release = _ordering_step(machine, before, first, releases=True)
    acquire = _ordering_step(machine, last, after, releases=False)
    if release is None:
        yield Need(step=first, order=Order.RELEASE)
    if acquire is None:
        yield Need(step=last, order=Order.ACQUIRE)
    pairs = [*pairwise(chain), (release or first, acquire or last)]
    for a, b in pairs:
        yield from _widen(machine, a, b)


def _widen(machine: Machine, a: Step, b: Step) -> Iterator[Need]:
    if a.scope is None or b.scope is None or a.thread == b.thread or machine.inclusive(a, b):
        return
    least = next(s for s in SCOPES[SCOPES.index(min(a.scope, b.scope, key=SCOPES.index)) :]
                 if s not in (Scope.CLUSTER, Scope.QUEUE_FAMILY)
                 and machine.within(s, a.thread, b.thread))  # fmt: skip
    for step in (a, b):
        if step.scope is not None and SCOPES.index(step.scope) < SCOPES.index(least):
            yield Need(step=step, scope=least)


def _ordering_step(machine: Machine, low: Step, high: Step, *, releases: bool) -> Step | None:
    """What releases before (or acquires after): the access itself, or a fence beside it."""
    access = high if releases else low
    assert access.order is not None
    if access.order.releases if releases else access.order.acquires:
        return access
    for step in machine.items[access.thread].own:
        fits = step.order is not None and (step.order.releases if releases else step.order.acquires)
        if fits and step.is_fence and low.number <= step.number <= high.number:
            return step
    return None


def _forbids(machine: Machine, path: _Path) -> Iterator[Need]:
    """The orders that would have forbidden a cycle: handing over, or sequential consistency.

    Release and acquire forbid a cycle that goes against time in one place; one that does so
    in two (two from-reads, say) is only forbidden by seq_cst.
    """
    around = [("", path[-1][1]), *path]  # it ends where it began
    steps = [step for _, step in path if step.place is not None]
    for (_, a), (kind, b) in zip(around, path, strict=False):
        if kind != "po":
            yield from _widen(machine, a, b)
    if sum(kind in ("mo", "fr") for kind, _ in path) > 1:
        for step in steps:
            if step.order is not None and step.order is not Order.SEQ_CST:
                yield Need(step=step, order=Order.SEQ_CST)
        return
    yield from _hand_over(machine, around)


def _unique(needs: Iterator[Need]) -> list[Need]:
    """Each need once; of the same operation by other work-items, one."""
    found: dict[object, Need] = {}
    for need in needs:
        key = need.step.origin if need.step.origin is not None else need.step.number
        found.setdefault((key, need.order, need.scope), need)
    return list(found.values())
