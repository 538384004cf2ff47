"""Dead code: ops, results and carried values that nothing observable depends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value
from hetir.ir.ops import Effect
from hetir.passes.regions import LOOPS, definitions, exits_of, falls, is_private, source_of


def dce(kernel: Kernel) -> Kernel:
    """The kernel without ops whose results nobody needs.

    Loops without effects go too, whether or not they end; so do results of ifs, carried
    values of loops, and private arrays that are written and never read.
    """
    live = _Liveness(kernel)
    sweep = _Sweep(live)
    body = sweep.region(kernel.body)
    return replace(kernel, body=body) if sweep.changed else kernel


class _Liveness:
    """Marks from the effects backwards; what stays unmarked is dead."""

    def __init__(self, kernel: Kernel) -> None:
        self.ops: set[Operation] = set()
        self.values: set[Value] = set()
        self.defs = definitions(kernel.body)
        self.parents: dict[Operation, Operation] = {}
        self.leaving: dict[Operation, list[Operation]] = {}  # loop to the ifs that leave it
        self.writes: dict[Value, list[Operation]] = {}  # private array to its stores
        self.pending: list[Operation | Value] = []
        roots: list[Operation] = []
        self.survey(kernel.body, None, None, roots)
        for op in roots:
            self.keep(op)
        while self.pending:
            item = self.pending.pop()
            if isinstance(item, Operation):
                self.needs(item)
            else:
                self.define(item)

    def survey(
        self,
        region: Region,
        parent: Operation | None,
        loop: Operation | None,
        roots: list[Operation],
    ) -> None:
        """Find the effects, and who stands in whom."""
        for op in region.body:
            if parent is not None:
                self.parents[op] = parent
            if op.spec is ops.RETURN:
                roots.append(op)
            elif op.spec in (ops.BREAK, ops.CONTINUE) and loop is not None:
                self.leaving.setdefault(loop, []).append(op)
            elif op.spec is ops.STORE and is_private(op.operands[0]):
                source = source_of(op.operands[0], self.defs).root
                assert source is not None
                self.writes.setdefault(source, []).append(op)
            elif Effect.WRITE in op.spec.effect and not op.regions and op.spec is not ops.ALLOC:
                roots.append(op)
            inner = op if op.spec in LOOPS else loop
            for nested in op.regions:
                self.survey(nested, op, inner, roots)

    def keep(self, op: Operation | None) -> None:
        if op is not None and op not in self.ops:
            self.ops.add(op)
            self.pending.append(op)

    def use(self, *values: Value) -> None:
        for value in values:
            if value not in self.values:
                self.values.add(value)
                self.pending.append(value)

    def needs(self, op: Operation) -> None:
        """What a live op keeps alive: the ops around it, its operands, a loop's exits."""
        self.keep(self.parents.get(op))
        if op.spec is ops.FOR:
            self.use(*op.operands[:3])
        elif op.spec is ops.IF:
            self.use(op.operands[0])
        elif op.spec is not ops.LOOP and op.spec not in (ops.YIELD, ops.BREAK, ops.CONTINUE):
            self.use(*op.operands)
        for leave in self.leaving.get(op, ()):
            self.keep(leave)

    def define(self, value: Value) -> None:
        """What a live value is computed from."""
        for store in self.writes.get(value, ()):
            self.keep(store)
        op = self.defs.get(value)
        if op is None:
            return
        self.keep(op)
        if op.spec is ops.IF:
            at = op.results.index(value)
            self.use(*(r.terminator.operands[at] for r in op.regions if falls(r)))
        elif op.spec in LOOPS:
            self.use(*_sources(op, value))


def _sources(op: Operation, value: Value) -> Sequence[Value]:
    """What flows into a block argument or a result of a loop."""
    (body,) = op.regions
    ends = list(exits_of(body))
    first = 1 if op.spec is ops.FOR else 0
    if value in op.results:
        at = op.results.index(value)
        left = [e.operands[at] for e in ends if e.spec is ops.BREAK]
        return left if op.spec is ops.LOOP else [*left, body.args[1 + at]]
    at = body.args.index(value) - first
    if at < 0:
        return ()
    following = [e.operands[at] for e in ends if e.spec is not ops.BREAK]
    result = [op.results[at]] if op.spec is ops.FOR else []
    return [op.operands[(3 if first else 0) + at], *following, *result]


class _Sweep:
    """Rebuilds what is live."""

    def __init__(self, live: _Liveness) -> None:
        self.live = live
        self.changed = False

    def region(
        self,
        region: Region,
        results: Sequence[bool] = (),
        following: Sequence[bool] = (),
        leaving: Sequence[bool] = (),
    ) -> Region:
        """The masks say which operands stay: of `yield`, of `continue` and of `break`."""
        body: list[Operation] = []
        masks = {ops.YIELD: results, ops.CONTINUE: following, ops.BREAK: leaving}
        for op in region.body:
            if op.spec.terminator:
                body.append(self.cut(op, masks.get(op.spec, ())))
            elif self.alive(op):
                body.append(self.op(op, following, leaving))
            else:
                self.changed = True
        same = len(body) == len(region.body) and all(map(_is, body, region.body))
        return region if same else Region(region.args, tuple(body))

    def alive(self, op: Operation) -> bool:
        return op in self.live.ops or any(v in self.live.values for v in op.results)

    def cut(self, op: Operation, mask: Sequence[bool]) -> Operation:
        if all(mask):
            return op
        self.changed = True
        return replace(op, operands=_pick(op.operands, mask))

    def op(self, op: Operation, following: Sequence[bool], leaving: Sequence[bool]) -> Operation:
        if op.spec is ops.IF:
            mask = [v in self.live.values for v in op.results]
            arms = tuple(self.region(r, mask, following, leaving) for r in op.regions)
            return self.rebuilt(op, arms, op.operands, _pick(op.results, mask))
        if op.spec not in LOOPS:
            return op
        (body,) = op.regions
        counted = op.spec is ops.FOR
        skipped, first = (3, 1) if counted else (0, 0)
        carried = [v in self.live.values for v in body.args[first:]]
        results = carried if counted else [v in self.live.values for v in op.results]
        inner = self.region(body, carried, carried, results)
        args = (*body.args[:first], *_pick(body.args[first:], carried))
        if args != body.args:
            inner = Region(args, inner.body)
        operands = (*op.operands[:skipped], *_pick(op.operands[skipped:], carried))
        return self.rebuilt(op, (inner,), operands, _pick(op.results, results))

    def rebuilt(
        self,
        op: Operation,
        regions: tuple[Region, ...],
        operands: tuple[Value, ...],
        results: tuple[Value, ...],
    ) -> Operation:
        if results == op.results and operands == op.operands and all(map(_is, regions, op.regions)):
            return op
        self.changed = True
        return replace(op, operands=operands, results=results, regions=regions)


def _pick(values: tuple[Value, ...], mask: Sequence[bool]) -> tuple[Value, ...]:
    return tuple(v for v, stays in zip(values, mask, strict=True) if stays)


def _is(one: object, two: object) -> bool:
    return one is two
