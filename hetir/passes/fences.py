"""Weakens orders and removes fences and barriers where a proof for every launch allows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, walk
from hetir.ir.types import Scalar
from hetir.lazy import lazy
from hetir.passes.fences_check import proves
from hetir.passes.regions import exits
from hetir.source import Loc

if TYPE_CHECKING:
    from hetir.passes import fences_checked
else:
    # the solver takes a moment to load
    fences_checked = lazy("hetir.passes.fences_checked")

ATOMICS = (ops.ATOMIC_LOAD, ops.ATOMIC_STORE, ops.ATOMIC_RMW, ops.ATOMIC_CAS)
ACQUIRES = ("acquire", "acq_rel", "seq_cst")
RELEASES = ("release", "acq_rel", "seq_cst")

RULES: Mapping[str, str] = {
    "covered": "a fence beside it, with no access between, orders as much as far",
    "barrier": "the barrier beside it orders the workgroup already",
    "released": "every atomic write after it releases by itself as far",
    "acquired": "every atomic read before it acquires by itself as far",
    "twice": "another barrier stands beside it, with no access between",
    "first": "nothing shared is accessed before it",
    "last": "nothing shared is accessed after it",
    "branch": "only one branch uses what it acquires, and has a fence for it",
    "own": "shared memory is seen by one workgroup only",
    "checked": (
        "checked to bounds: nothing goes wrong without it on 2 workgroups of 2 work-items, loops "
        "unrolled twice"
    ),
    "cycle": "work-items could see this access pass an earlier one, which one memory forbids",
    "sc release": "what is written before it must be seen by who reads it",
    "sc acquire": "what its writer wrote before must be seen after it",
    "sc acq_rel": "it hands on what was written before, and must see what others handed on",
}
"""Why a step is right, by the rule's name."""
ADDED = frozenset({"cycle", "sc release", "sc acquire", "sc acq_rel"})
"""The rules by which `memory_model="sc"` adds orders and fences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One step: an op as it was, what is left of its order and scope, and why.

    `left` is empty where the op is removed. `beside` is where the op stands that makes it
    redundant, if it is one. `into` is a branch that gets an acquire fence at its start instead.
    """

    op: Operation
    left: str
    rule: str
    beside: Loc | None = None
    into: Region | None = None

    @property
    def reason(self) -> str:
        """The rule as a sentence, with the line of what stands beside."""
        line = f" (line {self.beside.line})" if self.beside else ""
        return RULES[self.rule] + line


def placed(kernel: Kernel) -> tuple[Kernel, tuple[Change, ...]]:
    """A simplified kernel with the orders that it is compiled with, and what was taken from it."""
    kernel, changes = weaken(kernel)
    if kernel.options.fences == "checked":
        kernel, more = fences_checked.checked(kernel)
        changes += more
    return kernel, _merged(changes)


def _merged(changes: Sequence[Change]) -> tuple[Change, ...]:
    """The steps, those that lead on from one another as one."""
    found: list[Change] = []
    for change in changes:
        had = " ".join(str(change.op.attrs.get(a, "")) for a in ("order", "scope"))
        same = (c for c in found if c.left == had and _alike(c.op, change.op))
        earlier = next(same, None)
        if earlier is not None:
            found.remove(earlier)
            change = replace(change, op=earlier.op)  # noqa: PLW2901 - the step that began it
        found.append(change)
    return tuple(found)


def _alike(one: Operation, two: Operation) -> bool:
    return one.spec is two.spec and one.operands == two.operands and one.loc == two.loc


def weaken(kernel: Kernel) -> tuple[Kernel, tuple[Change, ...]]:
    """The weakened kernel and the steps to it, each proved by `fences_check` too.

    Operations at system scope and of order seq_cst lose nothing, but for a seq_cst fence that
    another fence or a barrier covers.
    """
    changes: list[Change] = []
    refused: set[tuple[Operation, str]] = set()
    while True:
        step = next((s for s in _steps(kernel) if (s.op, s.left) not in refused), None)
        if step is None:
            return kernel, tuple(changes)
        smaller = applied(kernel, step)
        if proves(kernel, smaller):
            kernel = smaller
            changes.append(step)
        else:
            refused.add((step.op, step.left))


def _steps(kernel: Kernel) -> Iterator[Change]:
    """Everything that one rule allows, the most expensive sites first."""
    sites = [op for op in walk(kernel.body) if op.spec in (ops.FENCE, ops.BARRIER, *ATOMICS)]
    if all(op.attrs.get("order") == "relaxed" and not _narrows(op) for op in sites):
        return
    around = Around(kernel)
    for op in sorted(sites, key=price):
        if op.attrs["scope"] != "system":
            yield from _RULES_OF[op.spec](op, around)


def price(op: Operation) -> int:
    """A number that is less the more an op costs: wide and strong first, barriers last."""
    if op.spec is ops.BARRIER:
        return 100
    orders = ("seq_cst", "acq_rel", "release", "acquire", "relaxed")
    return orders.index(str(op.attrs["order"])) - 10 * ops.SCOPES.index(str(op.attrs["scope"]))


def applied(kernel: Kernel, step: Change) -> Kernel:
    """The kernel after a step, right or wrong."""

    def region(old: Region) -> Region:
        body: list[Operation] = []
        if old is step.into:
            attrs = {"order": "acquire", "scope": step.op.attrs["scope"]}
            body.append(Operation(ops.FENCE, attrs=attrs, loc=step.op.loc))
        for op in old.body:
            if op is step.op:
                if step.left:
                    order, _, scope = step.left.partition(" ")
                    body.append(replace(op, attrs={**op.attrs, "order": order, "scope": scope}))
            elif op.regions:
                inner = tuple(map(region, op.regions))
                same = all(a is b for a, b in zip(inner, op.regions, strict=True))
                body.append(op if same else replace(op, regions=inner))
            else:
                body.append(op)
        same = len(body) == len(old.body) and all(
            a is b for a, b in zip(body, old.body, strict=True)
        )
        return old if same else Region(old.args, tuple(body))

    return replace(kernel, body=region(kernel.body))


# ---- the rules -----------------------------------------------------------------------------


def _of_fence(op: Operation, around: Around) -> Iterator[Change]:
    order, scope = str(op.attrs["order"]), str(op.attrs["scope"])
    for earlier, side in ((True, around.back(op)), (False, around.ahead(op))):
        for other in side:
            if other.spec is ops.BARRIER:
                if _reaches(other, scope) and scope != "device":
                    yield Change(op=op, left="", rule="barrier", beside=other.loc)
                break
            same = other.attrs["order"] == order and other.attrs["scope"] == scope
            if _covers(other, op) and (earlier or not same):
                yield Change(op=op, left="", rule="covered", beside=other.loc)
    if order == "seq_cst":
        return
    writes = [o for o in around.after(op) if o.spec in ATOMICS and o.spec is not ops.ATOMIC_LOAD]
    reads = [o for o in around.before(op) if o.spec in ATOMICS and o.spec is not ops.ATOMIC_STORE]
    if order in RELEASES and all(_strong(o, RELEASES, scope) for o in writes):
        left = f"acquire {scope}" if order == "acq_rel" else ""
        yield Change(op=op, left=left, rule="released", beside=writes[0].loc if writes else None)
    if order in ACQUIRES and all(_strong(o, ACQUIRES, scope) for o in reads):
        left = f"release {scope}" if order == "acq_rel" else ""
        yield Change(op=op, left=left, rule="acquired", beside=reads[0].loc if reads else None)


def _of_barrier(op: Operation, around: Around) -> Iterator[Change]:
    scope = str(op.attrs["scope"])
    if scope == "device":
        return
    beside = next(iter(around.back(op)), None)
    if beside is not None and beside.spec is ops.BARRIER and _reaches(beside, scope):
        yield Change(op=op, left="", rule="twice", beside=beside.loc)
    if not any(map(touches, around.before(op))):
        yield Change(op=op, left="", rule="first")
    if not any(map(touches, around.after(op))):
        yield Change(op=op, left="", rule="last")


def _of_access(op: Operation, around: Around) -> Iterator[Change]:
    order, scope = str(op.attrs["order"]), str(op.attrs["scope"])
    if _narrows(op):
        yield Change(op=op, left=f"{order} workgroup", rule="own")
    if order not in ("acquire", "acq_rel"):
        return
    left = f"{'release' if order == 'acq_rel' else 'relaxed'} {scope}"
    beside = next(iter(around.ahead(op)), None)
    near = scope in ("subgroup", "workgroup")
    if near and beside is not None and beside.spec is ops.BARRIER and _reaches(beside, scope):
        yield Change(op=op, left=left, rule="barrier", beside=beside.loc)
    if not any(map(touches, around.after(op))):
        yield Change(op=op, left=left, rule="last")
    elif op.spec in (ops.ATOMIC_RMW, ops.ATOMIC_CAS):
        arm = around.arm(op)
        if arm is not None:
            yield Change(op=op, left=left, rule="branch", into=arm)


_RULES_OF: Mapping[ops.Spec, Callable[[Operation, Around], Iterator[Change]]] = {
    ops.FENCE: _of_fence,
    ops.BARRIER: _of_barrier,
    **dict.fromkeys(ATOMICS, _of_access),
}


def _narrows(op: Operation) -> bool:
    """Whether an atomic reaches further than the shared array that it accesses."""
    wide = op.spec in ATOMICS and op.attrs["scope"] == "device" and op.attrs["order"] != "seq_cst"
    return wide and space_of(op) == "shared"


def _reaches(barrier: Operation, scope: str) -> bool:
    """Whether a barrier orders all that `scope` has."""
    return ops.SCOPES.index(str(barrier.attrs["scope"])) >= ops.SCOPES.index(scope)


def _covers(fence: Operation, other: Operation) -> bool:
    strong, order = fence.attrs["order"], other.attrs["order"]
    as_much = strong in (order, "seq_cst") or (strong == "acq_rel" and order != "seq_cst")
    return as_much and _reaches(fence, str(other.attrs["scope"]))


def _strong(op: Operation, orders: tuple[str, ...], scope: str) -> bool:
    """Whether an atomic has one of the orders at this scope or a wider one, or is private."""
    return space_of(op) == "private" or (op.attrs["order"] in orders and _reaches(op, scope))


def space_of(op: Operation) -> str:
    """The memory space of the array that an access has as its first operand."""
    kind = op.operands[0].type
    return "" if isinstance(kind, Scalar) else kind.space


# ---- what stands around an op --------------------------------------------------------------


def touches(op: Operation) -> bool:
    """Whether an op may access, or exchange, what other work-items see."""
    if op.spec.pure or op.spec.terminator or op.regions or op.spec in (ops.ALLOC, ops.FENCE):
        return False
    if op.spec in (ops.LOAD, ops.STORE, *ATOMICS):
        return space_of(op) != "private"
    return op.spec is not ops.BARRIER


class Around:
    """What runs before and after each op: surely and with no access between, or perhaps."""

    def __init__(self, kernel: Kernel) -> None:
        self.paths: dict[Operation, tuple[tuple[Operation | None, Region, int], ...]] = {}
        self._visit(None, kernel.body, ())

    def _visit(
        self,
        holder: Operation | None,
        region: Region,
        path: tuple[tuple[Operation | None, Region, int], ...],
    ) -> None:
        for index, op in enumerate(region.body):
            here = (*path, (holder, region, index))
            self.paths[op] = here
            for inner in op.regions:
                self._visit(op, inner, here)

    def back(self, op: Operation) -> Iterator[Operation]:
        """Fences, then at most one barrier, that surely ran before with no access between."""
        for holder, region, index in reversed(self.paths[op]):
            for other in reversed(region.body[:index]):
                if other.spec in (ops.FENCE, ops.BARRIER):
                    yield other
                if other.spec is ops.BARRIER or _busy(other):
                    return
            if holder is None or holder.spec is not ops.IF:
                return

    def ahead(self, op: Operation) -> Iterator[Operation]:
        """Fences, then at most one barrier, that surely run next with no access between."""
        for holder, region, index in reversed(self.paths[op]):
            for other in region.body[index + 1 :]:
                if other.spec in (ops.FENCE, ops.BARRIER):
                    yield other
                if other.spec is ops.BARRIER or _busy(other) or exits(other):
                    return
            if holder is None or holder.spec is not ops.IF or region.terminator.spec is ops.RETURN:
                return
            if region.terminator.spec is not ops.YIELD:
                return

    def arm(self, op: Operation) -> Region | None:
        """The branch that has everything shared which may follow an op, where one has."""
        _, region, index = self.paths[op][-1]
        for other in region.body[index + 1 :]:
            if other.spec is ops.IF:
                busy = [r for r in other.regions if any(_busy(o) for o in r.body)]
                inside = {o for r in busy for o in walk(r)}
                rest = (o for o in self.after(op) if o not in inside)
                return None if len(busy) != 1 or any(map(_orders, rest)) else busy[0]
            if not other.spec.pure:
                return None
        return None

    def before(self, op: Operation) -> Iterator[Operation]:
        """Every op that may run before in the same work-item."""
        for holder, region, index in self.paths[op]:
            looped = holder is not None and holder.spec in (ops.FOR, ops.LOOP)
            for other in region.body if looped else region.body[:index]:
                yield from _all(other)

    def after(self, op: Operation) -> Iterator[Operation]:
        """Every op that may run after in the same work-item."""
        for holder, region, index in self.paths[op]:
            looped = holder is not None and holder.spec in (ops.FOR, ops.LOOP)
            for other in region.body if looped else region.body[index + 1 :]:
                yield from _all(other)


def _all(op: Operation) -> Iterator[Operation]:
    yield op
    for region in op.regions:
        yield from walk(region)


def _orders(op: Operation) -> bool:
    return touches(op) or op.spec in (ops.FENCE, ops.BARRIER)


def _busy(op: Operation) -> bool:
    """Whether an op, or one inside it, accesses memory or orders it."""
    if not op.regions:
        return touches(op)
    return any(
        touches(o) or o.spec in (ops.FENCE, ops.BARRIER) for r in op.regions for o in walk(r)
    )
