"""Checks placed safe points by other means than they were placed: liveness over a flow graph.

The structured kernel is flattened into a graph of single steps, and liveness is solved by the
textbook's backward iteration. It shares nothing with `hetir.passes.safe_points`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value
from hetir.ir.types import Scalar
from hetir.passes.uniformity import uniformity

_IDS = frozenset({
    "const", "local_id", "group_id", "group_size", "num_groups", "global_id", "lane_id",
    "subgroup_id", "subgroup_size",
})  # fmt: skip


@dataclass(slots=True, eq=False)
class _Step:
    """One node: what it reads and defines, and what may come next."""

    op: Operation | None
    reads: frozenset[Value] = frozenset()
    defines: frozenset[Value] = frozenset()
    next: list[_Step] = field(default_factory=list["_Step"])
    live: frozenset[Value] = frozenset()


def faults(kernel: Kernel) -> tuple[str, ...]:
    """What is wrong with the safe points of a kernel, each as a sentence; empty when all is well.

    Every scalar that code after a safe point may read, and that neither is an operand of it nor
    follows from parameters, ids and saved loop indices by pure ops, is a fault. So is a safe
    point in control flow that may diverge, and an id that is used twice.
    """
    graph = _Graph(kernel)
    graph.solve()
    flow = uniformity(kernel)
    found: list[str] = []
    seen: set[str] = set()
    for step in graph.steps:
        op = step.op
        if op is None or op.spec is not ops.SAFE_POINT:
            continue
        name = str(op.attrs["id"])
        if name in seen:
            found.append(f"two safe points are called {name}")
        seen.add(name)
        if flow.divergent(op):
            found.append(f"safe point {name} stands in control flow that may diverge")
        after = frozenset[Value]().union(*(n.live for n in step.next)) - set(op.results)
        saved = frozenset(op.operands)
        lost = sorted(v.name or "a value" for v in after if not graph.there(v, saved))
        found += [f"`{n}` is needed after safe point {name} and not saved there" for n in lost]
    return tuple(found)


class _Graph:
    """The steps of a kernel, and the op that makes each value."""

    def __init__(self, kernel: Kernel) -> None:
        self.steps: list[_Step] = []
        self.makers: dict[Value, Operation] = {}
        self.params = frozenset(p.value for p in kernel.params)
        self.indices: set[Value] = set()
        end = self._step(None)
        self._region(kernel.body, end, None, None)

    def _step(self, op: Operation | None, *reads: Value) -> _Step:
        made = _Step(op, frozenset(reads))
        self.steps.append(made)
        return made

    def _region(
        self, region: Region, after: _Step, again: _Step | None, leave: _Step | None
    ) -> _Step:
        """The region's first step; `after` follows its yield, the others continue and break."""
        following = after
        for op in reversed(region.body):
            following = self._operation(op, following, after, again, leave)
        return following

    def _operation(
        self,
        op: Operation,
        following: _Step,
        after: _Step,
        again: _Step | None,
        leave: _Step | None,
    ) -> _Step:
        for value in op.results:
            self.makers[value] = op
        step = self._step(op, *op.operands)
        step.defines = frozenset(op.results)
        if op.spec is ops.YIELD:
            step.next = [after]
        elif op.spec in (ops.BREAK, ops.CONTINUE):
            target = leave if op.spec is ops.BREAK else again
            assert target is not None
            step.next = [target]
        elif op.spec is ops.RETURN:
            step.next = []
        elif op.spec is ops.IF:
            join = self._step(None)
            join.defines, join.next = frozenset(op.results), [following]
            step.defines = frozenset()
            step.next = [self._region(r, join, again, leave) for r in op.regions]
        elif op.spec in (ops.FOR, ops.LOOP):
            self._loop(op, step, following)
        else:
            step.next = [following]
        return step

    def _loop(self, op: Operation, step: _Step, following: _Step) -> None:
        """The operands once, then a head that a counted loop reads its bounds at each time."""
        (body,) = op.regions
        counted = op.spec is ops.FOR
        self.indices.update(body.args[:1] if counted else ())
        out = self._step(None)
        out.defines, out.next = frozenset(op.results), [following]
        head = self._step(None, *(op.operands[1:3] if counted else ()))
        head.defines = frozenset(body.args)
        # what goes on next time is the last index and the step
        back = self._step(None, *(body.args[:1] if counted else ()))
        back.next = [head]
        entry = self._region(body, back, back, out)
        head.next = [entry, out] if counted else [entry]
        step.defines = frozenset()
        step.next = [head]

    def solve(self) -> None:
        """Iterate liveness backwards to its fixed point."""
        changed = True
        while changed:
            changed = False
            for step in self.steps:
                out = frozenset[Value]().union(*(n.live for n in step.next))
                live = step.reads | (out - step.defines)
                if live != step.live:
                    step.live, changed = live, True

    def there(self, value: Value, saved: frozenset[Value]) -> bool:
        """Whether a value is there on resuming: saved, storage, or made again.

        A scalar is made again by pure ops over parameters, ids and saved loop indices; an array
        from what is there.
        """
        if value in saved or value in self.params:
            return True
        op = self.makers.get(value)
        if op is None:
            return False
        if not isinstance(value.type, Scalar):
            chosen = op.spec in (ops.VIEW, ops.SELECT)
            return op.spec is ops.ALLOC or (
                chosen and all(self.there(v, saved) for v in op.operands)
            )
        return self.again(value, saved)

    def again(self, value: Value, saved: frozenset[Value]) -> bool:
        """Whether pure ops over parameters, ids and saved loop indices give the value."""
        if value in self.params or value in self.indices:
            return value in self.params or value in saved
        op = self.makers.get(value)
        if op is None or op.regions or not (op.name in _IDS or _pure(op)):
            return False
        return all(self.again(v, saved) for v in op.operands)


def _pure(op: Operation) -> bool:
    """Whether the op's result depends on its operands alone."""
    return op.spec.pure or op.spec in (ops.DIM, ops.STRIDE, ops.VIEW)
