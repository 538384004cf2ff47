"""Removes workgroup barriers between which nothing crosses from one work-item to another.

For targets that run a workgroup's items by turns, where all that a barrier costs is what must be
kept across it. The proof is for one size of the workgroup: of each two accesses before and after
the barrier one of which writes, no two work-items meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from operator import is_, mul

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value, walk
from hetir.passes.access import Access, Addresses, Form
from hetir.passes.regions import LOOPS, is_private
from hetir.passes.uniformity import Uniformity, uniformity

_MOST_PAIRS = 256
_MOST_DISTANCES = 1 << 13
_PLAIN = (ops.LOAD, ops.STORE)
_QUIET = (
    *(ops.ALLOC, ops.BARRIER, ops.SHUFFLE, ops.BALLOT, ops.VOTE),
    *(ops.SUBGROUP_REDUCE, ops.SUBGROUP_SCAN),
)
Dims = tuple[int, int, int]


def drop_idle_barriers(kernel: Kernel, workgroup: Dims, *, disjoint: bool) -> Kernel:
    """The kernel without them; `disjoint` as in `hetir.target.Assumptions`."""
    if not any(op.spec is ops.BARRIER for op in walk(kernel.body)):
        return kernel
    idle = _Idle(kernel, workgroup, disjoint)
    dropped = idle.region(kernel.body, top=True)
    return kernel if dropped is kernel.body else replace(kernel, body=dropped)


class _Idle:
    """Looks at one kernel."""

    def __init__(self, kernel: Kernel, workgroup: Dims, disjoint: bool) -> None:
        self.workgroup = workgroup
        self.disjoint = disjoint
        self._params = {p.value for p in kernel.params}
        self._allocs = {op.result for op in walk(kernel.body) if op.spec is ops.ALLOC}
        self._known = uniformity(kernel, lockstep=True)
        self._addresses = Addresses(kernel)

    def region(self, region: Region, *, top: bool) -> Region:
        """A region without idle barriers; before and after `top` there is nothing to order."""
        body: list[Operation] = []
        since: list[Operation] | None = [] if top else None
        for index, op in enumerate(region.body):
            if _is_barrier(op):
                after = _until_barrier(region.body[index + 1 :], top=top)
                if since is None or after is None or not self._apart(since, after):
                    body.append(op)
                    since = []
            elif _holds_barrier(op):
                inner = tuple(self.region(r, top=False) for r in op.regions)
                same = all(a is b for a, b in zip(inner, op.regions, strict=True))
                body.append(op if same else replace(op, regions=inner))
                since = None
            else:
                body.append(op)
                if since is not None:
                    since.append(op)
        same = len(body) == len(region.body) and all(map(is_, body, region.body))
        return region if same else replace(region, body=tuple(body))

    def _apart(self, before: Sequence[Operation], after: Sequence[Operation]) -> bool:
        """Whether no work-item meets another one across the place between these ops."""
        if not all(_harmless(op) for op in _walk((*before, *after))):
            return False
        first, second = (
            [self._addresses.of(op) for op in _walk(body) if op.spec in _PLAIN]
            for body in (before, after)
        )
        pairs = [
            (a, b)
            for a, b in product(first, second)
            if ops.STORE in (a.op.spec, b.op.spec) and not is_private(a.root)
        ]
        turning = _turning(_walk((*before, *after)))
        return len(pairs) <= _MOST_PAIRS and not any(self._meet(*pair, turning) for pair in pairs)

    def _meet(self, one: Access, other: Access, turning: set[Value | Operation]) -> bool:
        """Whether two work-items may touch one place, as far as can be told."""
        roots = {one.root, other.root}
        if not roots <= self._params | self._allocs:
            return True  # it may be any of several
        if len(roots) == 2:
            return roots <= self._params and not self.disjoint
        if any(a.of in turning for form in (one.offset, other.offset) for a in form.atoms()):
            return True
        steps, others = (_steps(access.offset, self._known) for access in (one, other))
        distance = (other.offset + -one.offset).constant
        if steps is None or steps != others or distance is None:
            return True
        reach = [range(1 - extent, extent) for extent in self.workgroup]
        if prod(map(len, reach)) > _MOST_DISTANCES:
            return True
        return any(
            -other.size < distance + sum(map(mul, steps, apart)) < one.size
            for apart in product(*reach)
            if any(apart)
        )


def _steps(offset: Form, known: Uniformity) -> tuple[int, int, int] | None:
    """How many bytes an offset grows along each axis of local ids; None where it is not linear."""
    found = [0, 0, 0]
    for term, factor in offset.terms.items():
        if not any(atom.varies(known) for atom in term):
            continue
        if len(term) != 1 or term[0].kind != "local":
            return None
        found[term[0].axis] = factor
    x, y, z = found
    return x, y, z


def _turning(body: Iterable[Operation]) -> set[Value | Operation]:
    """Loops, and what differs from one of their turns to the next."""
    found: set[Value | Operation] = set()
    for loop in (op for op in body if op.spec in LOOPS):
        found.update((loop, *loop.regions[0].args))
        for op in walk(loop.regions[0]):
            found.update(op.results)
    return found


def _walk(body: Sequence[Operation]) -> Iterator[Operation]:
    return walk(Region((), tuple(body)))


def _is_barrier(op: Operation) -> bool:
    return op.spec is ops.BARRIER and op.attrs["scope"] == "workgroup"


def _holds_barrier(op: Operation) -> bool:
    return any(_is_barrier(inner) for region in op.regions for inner in walk(region))


def _until_barrier(body: Sequence[Operation], *, top: bool) -> list[Operation] | None:
    """The ops up to the next barrier, or to the kernel's end; None where neither is in sight."""
    found: list[Operation] = []
    for op in body:
        if _is_barrier(op):
            return found
        if _holds_barrier(op):
            return None
        found.append(op)
    return found if top else None


def _harmless(op: Operation) -> bool:
    """Whether all that others can see of an op is what it loads and stores."""
    spec = op.spec
    return bool(spec.pure or spec.regions or spec.terminator or spec in (*_PLAIN, *_QUIET))
