"""Makes a failing kernel small: deletes ops while the failure stays."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from hetir.diagnostics import HetirError
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value, walk
from hetir.ir.rewrite import Env
from hetir.ir.types import Scalar
from hetir.ir.verify import verify
from hetir.passes.dce import dce
from hetir.passes.regions import falls, make_const, replace_operands
from hetir.testing.cases import Case

SECONDS = 3.0
"""What one candidate may take: without its counter a loop never ends."""


def reduce(case: Case, fails: Callable[[Case], bool]) -> Case:
    """A smaller case for which `fails` still holds, as small as deleting makes it.

    `fails` must hold for `case`, and may raise for kernels that make no sense. Call it from
    the main thread; it uses SIGALRM to leave loops that do not end.
    """
    before = signal.signal(signal.SIGALRM, _too_long)
    try:
        case = _halved(case, fails)
        while (smaller := _sweep(case, fails)) is not case:
            case = _with_fewer_items(smaller, fails)
    finally:
        signal.signal(signal.SIGALRM, before)
    return case


def _too_long(*_: object) -> None:
    raise TimeoutError("a candidate takes too long")


def _halved(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Zeros for half of the ops at a time, then for a quarter, and so on."""
    size = _count(case) // 2
    while size > 1:
        first = 0
        while first < _count(case):
            gone = list(walk(case.kernel.body))[first : first + size]
            smaller = replace(case, kernel=_zeroed(case.kernel, gone))
            if _count(smaller) < _count(case) and _holds(smaller, fails):
                case = smaller
            else:
                first += size
        size //= 2
    return case


def _count(case: Case) -> int:
    return sum(1 for _ in walk(case.kernel.body))


def _zeroed(kernel: Kernel, gone: Iterable[Operation]) -> Kernel:
    """The kernel with zeros for what some ops give; what has other results stays."""
    instead: dict[Operation, Replacement] = {}
    for op in gone:
        if not _stays(op) and all(isinstance(v.type, Scalar) for v in op.results):
            instead[op] = _zeros(op)
    env = {v: w for op, (_, new) in instead.items() for v, w in zip(op.results, new, strict=True)}
    body = tuple(_replaced(kernel.body, {op: new for op, (new, _) in instead.items()}, env))
    return dce(replace(kernel, body=Region(kernel.body.args, body)))


def _with_fewer_items(case: Case, fails: Callable[[Case], bool]) -> Case:
    """One workgroup, one work-item, wherever that still fails."""
    for name in ("grid", "workgroup"):
        for axis in range(3):
            extents = getattr(case, name)
            for extent in {1, extents[axis] // 2} - {0, extents[axis]}:
                fewer = (*extents[:axis], extent, *extents[axis + 1 :])
                if _holds(smaller := replace(case, **{name: fewer}), fails):
                    case = smaller
                    break
    return case


def _sweep(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Try every op once, in program order, so that whole loops and branches go first."""
    number = 0
    while number < _count(case):
        for candidate in _candidates(case.kernel, number):
            if _holds(smaller := replace(case, kernel=candidate), fails):
                case = smaller
                break
        else:
            number += 1
    return case


def _holds(case: Case, fails: Callable[[Case], bool]) -> bool:
    try:
        verify(case.kernel)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        return fails(case)
    except (HetirError, AssertionError, IndexError, KeyError, TimeoutError):
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _candidates(kernel: Kernel, number: int) -> Iterator[Kernel]:
    """The kernel without dead code, then with something simpler for one of its ops."""
    if number == 0 and (clean := dce(kernel)) is not kernel:
        yield clean
    op = list(walk(kernel.body))[number]
    if _stays(op):
        return
    for values in _instead(op):
        yield replace(kernel, body=_without(kernel.body, op, values))


def _stays(op: Operation) -> bool:
    return op.spec.terminator or op.spec in (ops.CONST, ops.ALLOC, ops.LOCAL_ID)


def _zeros(op: Operation) -> Replacement:
    made = [make_const(v.type, 0, op.loc) for v in op.results if isinstance(v.type, Scalar)]
    return made, tuple(zero.result for zero in made)


Replacement = tuple[list[Operation], tuple[Value, ...]]


def _instead(op: Operation) -> Iterator[Replacement]:
    """What may stand in an op's place: nothing, an arm of it, its operand, zeros."""
    if op.spec is ops.IF:
        for arm in filter(falls, op.regions):
            yield list(arm.body[:-1]), arm.terminator.operands
    elif op.spec is ops.FOR:
        yield [], op.operands[3:]
    for operand in op.operands:
        if [operand.type] == [v.type for v in op.results]:
            yield [], (operand,)
    if all(isinstance(v.type, Scalar) for v in op.results):
        yield _zeros(op)


def _without(region: Region, gone: Operation, instead: Replacement) -> Region:
    """The region with an op replaced, the op being anywhere inside."""
    env: Env = dict(zip(gone.results, instead[1], strict=True))
    return Region(region.args, tuple(_replaced(region, {gone: instead[0]}, env)))


def _replaced(
    region: Region, instead: Mapping[Operation, list[Operation]], env: Env
) -> Iterator[Operation]:
    for op in region.body:
        if op in instead:
            yield from instead[op]
            continue
        regions = tuple(Region(r.args, tuple(_replaced(r, instead, env))) for r in op.regions)
        yield replace_operands(replace(op, regions=regions), env)
