"""Loop-invariant motion: what every iteration computes alike is computed once, before."""

from __future__ import annotations

from dataclasses import replace

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value
from hetir.ir.ops import Effect
from hetir.passes.forward import Ops
from hetir.passes.regions import LOOPS, Source, definitions, exits, number, returns, source_of


def licm(kernel: Kernel) -> Kernel:
    """The kernel with invariant ops moved in front of their loops.

    Pure ops move (they have no faults); from inside an `if` only those that cost nothing. A
    load moves when nothing in the loop can write its array and every run of the loop surely
    reaches it.
    """
    motion = _Motion(definitions(kernel.body))
    body = motion.region(kernel.body)
    return replace(kernel, body=body) if motion.changed else kernel


class _Motion:
    def __init__(self, defs: dict[Value, Operation]) -> None:
        self.defs = defs
        self.changed = False

    def region(self, region: Region) -> Region:
        """Move ops in front of each loop of a region, innermost loops first."""
        body: Ops = []
        for op in region.body:
            if op.regions:
                inner = tuple(map(self.region, op.regions))
                same = all(a is b for a, b in zip(inner, op.regions, strict=True))
                kept = op if same else replace(op, regions=inner)
                body += self.loop(kept) if op.spec in LOOPS else [kept]
            else:
                body.append(op)
        same = len(body) == len(region.body) and all(map(_is, body, region.body))
        return region if same else Region(region.args, tuple(body))

    def loop(self, op: Operation) -> Ops:
        """The ops that move, then the loop."""
        (body,) = op.regions
        scan = _Scan(self.defs, None if _may_not_run(op, self.defs) else _written(op, self.defs))
        scan.inside.update(body.args)
        kept = scan.region(body, nested=False)
        if not scan.moved:
            return [op]
        self.changed = True
        return [*scan.moved, replace(op, regions=(kept,))]


class _Scan:
    """Divides a loop's body into what moves and what depends on the iteration."""

    def __init__(self, defs: dict[Value, Operation], written: list[Source | None] | None) -> None:
        self.defs = defs
        self.written = written  # None: no load may move any more
        self.inside: set[Value] = set()
        self.moved: Ops = []

    def region(self, region: Region, *, nested: bool) -> Region:
        body: Ops = []
        for op in region.body:
            if self.inside.isdisjoint(op.operands) and self.movable(op, nested=nested):
                self.moved.append(op)
                continue
            self.inside.update(op.results)
            if op.spec is ops.IF:
                arms = tuple(self.region(r, nested=True) for r in op.regions)
                same = all(map(_is, arms, op.regions))
                body.append(op if same else replace(op, regions=arms))
            else:
                body.append(op)
            if exits(op) or returns(op):
                self.written = None
        same = len(body) == len(region.body)
        return (
            region
            if same and all(map(_is, body, region.body))
            else Region(region.args, tuple(body))
        )

    def movable(self, op: Operation, *, nested: bool) -> bool:
        if op.spec.pure and op.results:
            return not nested or not op.operands or op.spec in (ops.DIM, ops.STRIDE)
        if op.spec is not ops.LOAD or nested or self.written is None:
            return False
        source = source_of(op.operands[0], self.defs)
        return not any(w is None or w.overlaps(source) for w in self.written)


def _may_not_run(op: Operation, defs: dict[Value, Operation]) -> bool:
    """Whether a loop may end before its first iteration."""
    if op.spec is ops.LOOP:
        return False
    start, stop, step = (number(defs.get(v)) for v in op.operands[:3])
    if start is None or stop is None or not step:
        return True
    return not range(start, stop, step)


def _written(op: Operation, defs: dict[Value, Operation]) -> list[Source | None]:
    """What the op or anything inside it may write; None stands for everything."""
    if op.regions:
        return [w for r in op.regions for o in r.body for w in _written(o, defs)]
    if Effect.WRITE not in op.spec.effect or op.spec in (ops.ALLOC, ops.PRINT, ops.ASSERT):
        return []
    return [source_of(op.operands[0], defs)] if op.spec is ops.STORE else [None]


def _is(one: object, two: object) -> bool:
    return one is two
