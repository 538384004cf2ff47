"""Control flow that is decided or empty: constant conditions, loops that run never or once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value
from hetir.passes.forward import Forward
from hetir.passes.regions import LOOPS, end, exits_of, falls, make_if, returns


def control(kernel: Kernel) -> Kernel:
    """The kernel without branches and loops whose course is known."""
    return _Control().kernel(kernel)


class _Control(Forward):
    def visit(self, op: Operation) -> Sequence[Value] | None:
        if op.spec is ops.IF:
            return self.branch(op)
        if op.spec in LOOPS:
            self.unchanging(op)
        if op.spec is ops.FOR:
            return self.counted(op)
        return self.once(op) if op.spec is ops.LOOP else None

    def unchanging(self, op: Operation) -> None:
        """A carried value that every iteration hands on as it came is its initial value."""
        (body,) = op.regions
        counted = op.spec is ops.FOR
        args, initial = (body.args[1:], op.operands[3:]) if counted else (body.args, op.operands)
        nexts = [e.operands for e in exits_of(body) if e.spec is not ops.BREAK]
        for arg, start, *following in zip(args, initial, *nexts, strict=True):
            if all(v is arg or self.env.get(v, v) is start for v in following):
                self.env[arg] = start

    def branch(self, op: Operation) -> Sequence[Value] | None:
        cond = self.known(op.operands[0])
        if cond is not None:
            return self.take(op.regions[0 if cond else 1])
        if inverted := self.made_by(op.operands[0], ops.NOT):
            arms = op.regions[1], op.regions[0]
            self.op(replace(op, operands=inverted.operands, regions=arms))
            return [self.env.get(v, v) for v in op.results]
        if all(len(r.body) == 1 and falls(r) for r in op.regions):
            yields = [self.replaced(r.terminator) for r in op.regions]
            if yields[0] == yields[1]:
                return yields[0]
        return None

    def finish(self, op: Operation) -> None:
        """Where both arms of an `if` leave, the second one's ops end the region around it."""
        if op.spec is not ops.IF or any(map(falls, op.regions)):
            super().finish(op)
            return
        self.changed = True
        then, other = op.regions
        stay = Region((), (end(ops.YIELD, loc=op.loc),))
        self.keep(make_if(op.operands[0], (), then, stay, op.loc))
        for inner in other.body:
            self.keep(inner)

    def replaced(self, op: Operation) -> tuple[Value, ...]:
        return tuple(self.env.get(v, v) for v in op.operands)

    def take(self, region: Region) -> Sequence[Value]:
        """Continue with an arm's ops; its exit, if it has one, ends the region around it."""
        self.splice(region.body)
        last = self.out[-1]
        if last.spec is ops.YIELD:
            self.out.pop()
            return last.operands
        self.changed = True
        return ()

    def counted(self, op: Operation) -> Sequence[Value] | None:
        """A `for` whose range is surely empty gives the initial values."""
        start, stop, step, *initial = op.operands
        if start is stop or self.known(step) == 0:
            return initial
        numbers = [self.known(v) for v in (start, stop, step)]
        if any(n is None for n in numbers):
            return None
        first, last, by = (int(n or 0) for n in numbers)
        return None if range(first, last, by) else initial

    def once(self, op: Operation) -> Sequence[Value] | None:
        """A `loop` whose body ends in its only exit runs once."""
        (body,) = op.regions
        last = body.terminator
        if last.spec is ops.YIELD or last.spec is ops.CONTINUE or any(map(returns, body.body)):
            return None
        if any(e is not last for e in exits_of(body)):
            return None
        self.env.update(zip(body.args, op.operands, strict=True))
        self.splice(body.body)
        last = self.out[-1]
        if last.spec is not ops.BREAK:
            self.changed = True
            return ()
        self.out.pop()
        return last.operands
