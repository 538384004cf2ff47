"""Weakens orders further where the checker finds nothing wrong: `fences="checked"`."""

from __future__ import annotations

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, walk
from hetir.memory import program as mp
from hetir.memory.program import Scope
from hetir.passes.certificate import Judge, launches, one_step
from hetir.passes.fences import Change, applied, price
from hetir.passes.harness import Harness, HarnessError


def checked(kernel: Kernel) -> tuple[Kernel, tuple[Change, ...]]:
    """The kernel with fences and accesses weakened as far as the checker allows, and the steps.

    It judges on a launch of two workgroups of two work-items. Barriers, system scope, and sites
    whose memory that launch does not share between work-items stay.
    """
    if not any(map(_open, walk(kernel.body))):
        return kernel, ()
    judge = _judge(kernel)
    return (kernel, ()) if judge is None else _weakened(kernel, judge)


def _open(op: Operation) -> bool:
    return op.spec is not ops.BARRIER and op.attrs.get("scope") != "system" and any(one_step(op))


def _weakened(kernel: Kernel, judge: Judge) -> tuple[Kernel, tuple[Change, ...]]:
    """Weaken from the most expensive site down, one step at a time, as far as nothing breaks."""
    found: list[Change] = []
    refused: set[tuple[Operation, str]] = set()
    while True:
        shared = _shared(judge.read(kernel))
        steps = (
            Change(op=op, left=left, rule="checked")
            for op in sorted(filter(_open, walk(kernel.body)), key=price)
            if op.loc in shared
            for left in one_step(op)
            if (op, left) not in refused
        )
        step = next(steps, None)
        if step is None:
            return kernel, tuple(found)
        weaker = applied(kernel, step)
        if judge.breaks(weaker):
            refused.add((step.op, step.left))
        else:
            kernel = weaker
            found.append(step)


def _shared(small: Harness) -> frozenset[object]:
    """The places of fences, and of accesses to what several workgroups (or items) access."""
    users: dict[str, set[tuple[int, int]]] = {}
    threads = small.program.threads
    for number, thread in enumerate(threads):
        for item in thread.body:
            if isinstance(item, mp.Load | mp.Store | mp.Rmw | mp.Cas):
                user = thread.place[Scope.WORKGROUP], number
                users.setdefault(item.address.base, set()).add(user)
    found: set[object] = set()
    for item in (item for thread in threads for item in thread.body):
        if isinstance(item, mp.Fence):
            found.add(item.origin)
        elif isinstance(item, mp.Load | mp.Store | mp.Rmw | mp.Cas) and item.order is not None:
            by = users[item.address.base]
            far = item.scope is Scope.DEVICE
            if len({group for group, _ in by} if far else by) > 1:
                found.add(item.origin)
    return frozenset(found - {None})


# ---- a launch to judge on ------------------------------------------------------------------


def _judge(kernel: Kernel) -> Judge | None:
    """A judge on the first guessed launch that the checker can read and that is right."""
    for launch in launches(kernel):
        try:
            return Judge(kernel, launch, "hetir")
        except HarnessError:
            continue
    return None
