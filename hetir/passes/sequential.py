"""`memory_model="sc"`: the orders and fences that make a kernel behave as if memory were one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hetir.ir import ops
from hetir.ir.build import constant
from hetir.ir.core import Kernel, Operation, Region, Value, walk
from hetir.passes.fences import ATOMICS, Around, Change, touches
from hetir.passes.regions import Source, definitions, source_of

_READS = (ops.ATOMIC_LOAD, ops.ATOMIC_RMW, ops.ATOMIC_CAS)
_WRITES = (ops.ATOMIC_STORE, ops.ATOMIC_RMW, ops.ATOMIC_CAS)
_JOINED = {
    frozenset[str](): "relaxed",
    frozenset({"acquire"}): "acquire",
    frozenset({"release"}): "release",
    frozenset({"acquire", "release"}): "acq_rel",
}
_PARTS = {order: parts for parts, order in _JOINED.items()}


def sequential(kernel: Kernel) -> Kernel:
    """The kernel with all that its `memory_model` asks for."""
    return kernel if kernel.options.memory_model != "sc" else ordered(kernel)[0]


def ordered(kernel: Kernel) -> tuple[Kernel, tuple[Change, ...]]:
    """The kernel with the orders and fences added that sequential consistency needs, and each.

    Plain accesses must not race when memory is one; arrays given as different arguments must
    not overlap. What the kernel orders by itself stays.
    """
    plan = _Plan(kernel)
    found: list[Change] = []
    body = _rebuilt(kernel.body, plan, found)
    return (replace(kernel, body=body), tuple(found)) if found else (kernel, ())


def _rebuilt(region: Region, plan: _Plan, found: list[Change]) -> Region:
    body: list[Operation] = []
    for op in region.body:
        if op in plan.fenced:
            fence, change = _fence(op, plan.fenced[op])
            body.append(fence)
            found.append(change)
        order = plan.order(op)
        if order is not None:
            scope = _scope(op)
            found.append(Change(op=op, left=f"{order} {scope}", rule=f"sc {order}"))
            op = replace(op, attrs={**op.attrs, "order": order, "scope": scope})  # noqa: PLW2901
        if op.regions:
            inner = tuple(_rebuilt(r, plan, found) for r in op.regions)
            if any(a is not b for a, b in zip(inner, op.regions, strict=True)):
                op = replace(op, regions=inner)  # noqa: PLW2901
        body.append(op)
    same = len(body) == len(region.body)
    if same and all(a is b for a, b in zip(body, region.body, strict=True)):
        return region
    return Region(region.args, tuple(body))


def _fence(op: Operation, earlier: list[Operation]) -> tuple[Operation, Change]:
    """A fence between an access and earlier ones, as wide as the widest of them."""
    scope = max(map(_scope, (op, *earlier)), key=ops.SCOPES.index)
    fence = Operation(ops.FENCE, attrs={"order": "seq_cst", "scope": scope}, loc=op.loc)
    left = f"seq_cst {scope}"
    return fence, Change(op=fence, left=left, rule="cycle", beside=earlier[0].loc)


def _scope(op: Operation) -> str:
    """The smallest scope that reaches who may access the array, or what the kernel says."""
    scope = str(op.attrs["scope"])
    near = source_of(op.operands[0], {}).space == "shared" and scope == "device"
    return "workgroup" if near else scope


@dataclass(frozen=True, slots=True)
class _Sync:
    """An atomic access: where it goes (an index where that is known)."""

    op: Operation
    source: Source
    index: tuple[float | int | bool | None, ...]

    @property
    def reads(self) -> bool:
        return self.op.spec in _READS

    @property
    def writes(self) -> bool:
        return self.op.spec in _WRITES

    def meets(self, other: _Sync) -> bool:
        """Whether the two may be one location, one of them writing."""
        if self.source.root is not other.source.root or not (self.writes or other.writes):
            return False
        pairs = zip(self.index, other.index, strict=False)
        return all(a is None or b is None or a == b for a, b in pairs)

    def surely(self, other: _Sync) -> bool:
        """Whether the two are one location whatever happens."""
        same = self.source.root is other.source.root and self.index == other.index
        return same and None not in self.index


class _Plan:
    """What to add: `fenced` maps an access to those before it that it must not pass."""

    def __init__(self, kernel: Kernel) -> None:
        made = definitions(kernel.body)
        self.around = Around(kernel)
        self.syncs = [_sync(op, made) for op in walk(kernel.body) if op.spec in ATOMICS]
        self.syncs = [s for s in self.syncs if s.source.space != "private"]
        self.of = {s.op: s for s in self.syncs}
        self.next = {s: self._following(s) for s in self.syncs}
        self.fenced: dict[Operation, list[Operation]] = {}
        for first in self.syncs:
            for second in self.next[first]:
                if self._critical(first, second):
                    self.fenced.setdefault(second.op, []).append(first.op)
        self.publishing = [s for s in self.syncs if s.writes and self._others(s, before=True)]

    def _following(self, first: _Sync) -> list[_Sync]:
        """The accesses that may follow in the work-item, to what may be another location."""
        later = dict.fromkeys(self.of[op] for op in self.around.after(first.op) if op in self.of)
        return [second for second in later if not first.surely(second)]

    def _others(self, sync: _Sync, *, before: bool) -> bool:
        """Whether something shared, beyond this very location, is accessed before or after."""
        side = self.around.before(sync.op) if before else self.around.after(sync.op)
        return any(touches(op) and not (op in self.of and self.of[op].surely(sync)) for op in side)

    def order(self, op: Operation) -> str | None:
        """The order that an access gets, where it is more than it has."""
        sync = self.of.get(op)
        had = None if sync is None else _PARTS.get(str(op.attrs["order"]))
        if sync is None or had is None:
            return None
        parts = set(had)
        if sync in self.publishing:
            parts.add("release")
        heard = any(p.source.root is sync.source.root for p in self.publishing)
        if sync.reads and heard and self._others(sync, before=False):
            parts.add("acquire")
        return None if frozenset(parts) == had else _JOINED[frozenset(parts)]

    def _critical(self, first: _Sync, second: _Sync) -> bool:
        """Whether the pair lies on a cycle that release and acquire do not forbid.

        They forbid cycles in which all accesses but one read what the one before wrote: at most
        one step overwrites, or reads what is overwritten. A cycle needs another such pair.
        """
        start: tuple[_Sync, int, bool] = (second, 0, False)
        seen: set[tuple[_Sync, int, bool]] = {start}
        pending: list[tuple[_Sync, int, bool]] = [start]
        while pending:
            here, overtaken, paired = pending.pop()
            for other in self.syncs:
                if not here.meets(other):
                    continue
                count = min(2, overtaken + other.writes)
                if other is first and count == 2 and paired:
                    return True
                steps = [(other, count, paired), *((n, count, True) for n in self.next[other])]
                for step in steps:
                    if step not in seen:
                        seen.add(step)
                        pending.append(step)
        return False


def _sync(op: Operation, made: dict[Value, Operation]) -> _Sync:
    values = op.operands[1 : 1 + _rank(op)]
    return _Sync(op, source_of(op.operands[0], made), tuple(_numbers(values, op, made)))


def _rank(op: Operation) -> int:
    extra = {ops.ATOMIC_LOAD: 0, ops.ATOMIC_CAS: 2}.get(op.spec, 1)
    return len(op.operands) - 1 - extra


def _numbers(
    values: tuple[Value, ...], op: Operation, made: dict[Value, Operation]
) -> Iterator[float | int | bool | None]:
    # an element of a sub-array may be any of the array's
    whole = op.operands[0] not in made or made[op.operands[0]].spec is ops.ALLOC
    for value in values:
        yield constant(made[value]) if whole and value in made else None
