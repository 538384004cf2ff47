"""Independent chains of arithmetic, put side by side.

A processor looks a few hundred instructions ahead, which is not many ops on vectors of several
registers: chains that are written one after the other would each wait for themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import heappop, heappush

from hetir.backends.cpu.pressure import is_chain
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value, walk

_ACCESSES = (ops.LOAD, ops.STORE)
# how many ops on vectors of a few registers run in the time that one takes, where more than one
_TURNS = {ops.MUL: 2, ops.FMA: 2, ops.DIV: 5, ops.SQRT: 8}


def side_by_side(kernel: Kernel) -> Kernel:
    """A kernel of arithmetic in the order in which a processor would like to begin its ops."""
    if not is_chain(tuple(walk(kernel.body))):
        return kernel
    return replace(kernel, body=_region(kernel.body))


def _region(region: Region) -> Region:
    body: list[Operation] = []
    run: list[Operation] = []
    for op in region.body:
        if op.spec in _ACCESSES or (op.spec.pure and not op.regions and not op.spec.terminator):
            run.append(op)
            continue
        body += _scheduled(run)
        run.clear()
        inner = tuple(map(_region, op.regions))
        body.append(replace(op, regions=inner) if inner else op)
    return replace(region, body=tuple(body))


def _scheduled(run: Sequence[Operation]) -> list[Operation]:
    """Of the ops that can begin, always that from which the longest chain leads to the end.

    Accesses of memory keep their order.
    """
    needs, users = _needs(run)
    heights = [0] * len(run)
    for n in range(len(run) - 1, -1, -1):
        after = max((heights[user] for user in users[n]), default=0)
        heights[n] = after + _TURNS.get(run[n].spec, 1)
    waiting = [(0, n) for n, before in enumerate(needs) if not before]
    ready: list[tuple[int, int]] = []
    begins = [0] * len(run)
    found: list[Operation] = []
    now = 0
    while waiting or ready:
        if not ready:
            now = max(now, waiting[0][0])
        while waiting and waiting[0][0] <= now:
            n = heappop(waiting)[1]
            heappush(ready, (-heights[n], n))
        n = heappop(ready)[1]
        found.append(run[n])
        now += 1
        for user in users[n]:
            begins[user] = max(begins[user], now - 1 + _TURNS.get(run[n].spec, 1))
            needs[user].discard(n)
            if not needs[user]:
                heappush(waiting, (begins[user], user))
    return found


def _needs(run: Sequence[Operation]) -> tuple[list[set[int]], list[list[int]]]:
    """For each op, by number, those that must come before it, and those that it must precede."""
    makers: dict[Value, int] = {}
    needs: list[set[int]] = []
    users: list[list[int]] = [[] for _ in run]
    last = -1
    for n, op in enumerate(run):
        before = {makers[v] for v in op.operands if v in makers}
        if op.spec in _ACCESSES:
            before |= {last} if last >= 0 else set()
            last = n
        needs.append(before)
        for other in before:
            users[other].append(n)
        makers.update(dict.fromkeys(op.results, n))
    return needs, users
