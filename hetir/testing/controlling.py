"""Control flow of generated kernels: branches and loops, and the exits out of them.

In a kernel whose work-items meet, those that leave a loop or the kernel leave together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hetir.ir import ops
from hetir.ir.core import Region, Value
from hetir.ir.types import I64
from hetir.testing.accessing import Accessing
from hetir.testing.scope import Loop, Var

_MOST = (1 << 63) - 1


class Controlling(Accessing):
    """Every statement."""

    def statement(self) -> None:
        """Any statement that may stand here."""
        plain = (self.compute, self.load, self.compute, self.select, self.own_store, self.compute)
        if not self.such("read", "shared"):
            plain = (self.compute, self.select, self.own_store, self.compute)
        rest = [self.view, self.own_load, self.identity, self.choice, self.measure, self.native]
        if self.shape.atomics:
            rest.append(self.atomic)
        if self.shape.records and self.chance(3):
            rest.append(self.report)
        if self.flow_uniform:
            rest += self.together()
        if self.nesting < self.shape.depth:
            rest += [self.branch, self.counted, self.branch, self.endless]
        self.pick((*plain, *rest))()

    def together(self) -> list[Callable[[], None]]:
        """Statements in uniform flow."""
        found = [self.promise]
        if self.barriers:
            found += [self.exchange, self.collect, self.neighbours]
        if self.meets and self.shape.subgroups:
            found += [self.exchanged, self.exchanged]
        return found

    def statements(self, mean: int) -> None:
        """Some of them."""
        for _ in self.some(mean, 3 * mean):
            self.statement()

    def scoped(self) -> None:
        """Statements of a nested region; perhaps what they computed goes into the digest."""
        start = len(self.vars)
        self.statements(2)
        if self.choose(2):
            self.mix(start)

    def nested(self, args: Sequence[Value], fill: Callable[[], None]) -> Region:
        """A region whose body `fill` writes, terminator included."""
        scope = (self.b, len(self.vars), len(self.arrays), self.flow_uniform, self.loop)
        self.b = self.body()
        self.nesting += 1
        fill()
        region = self.b.region(*args)
        self.nesting -= 1
        self.b, variables, arrays, self.flow_uniform, self.loop = scope
        del self.vars[variables:], self.arrays[arrays:]
        return region

    # -- branches and exits

    def branch(self) -> None:
        """An `if` with results; one of its arms may leave."""
        cond = self.condition(uniform=self.meets and self.choose(3) == 0)
        types = self.kinds()
        uniform: list[bool] = []
        left: list[bool] = []

        def arm(*, may_leave: bool) -> None:
            self.flow_uniform = self.flow_uniform and cond.uniform
            self.scoped()
            leaves = may_leave and self.leave()
            left.append(leaves)
            if not leaves:
                values = [self.value(t) for t in types]
                uniform.append(all(v.uniform for v in values))
                self.act(ops.YIELD, *(v.value for v in values))

        regions = (
            self.nested((), lambda: arm(may_leave=True)),
            self.nested((), lambda: arm(may_leave=not left[0])),
        )
        op = self.b.emit(ops.IF, cond.value, types=types, regions=regions)
        for value in op.results:
            self.add(value, uniform=cond.uniform and all(uniform) and not any(left))

    def exits(self) -> list[Callable[[], None]]:
        """The ways to leave that are allowed here."""
        found: list[Callable[[], None]] = []
        if self.loop and (self.flow_uniform or not self.loop.flow_uniform or not self.meets):
            found += [self.break_, self.continue_, self.break_]
        if (self.flow_uniform or not self.meets) and (not found or self.chance(4)):
            found.append(self.return_)
        return found

    def leave(self) -> bool:
        """Perhaps end the region by leaving the loop or the kernel."""
        if self.choose(3) == 0:
            return False
        ways = self.exits()
        if not ways or (ways == [self.return_] and not self.chance(3)):
            return False
        if self.barriers and self.flow_uniform and self.choose(2):
            self.exchange()
        if not self.meets and self.chance(5):
            self.part(ways)
        else:
            self.pick(ways)()
        return True

    def part(self, ways: Sequence[Callable[[], None]]) -> None:
        """An `if` both of whose arms leave; what follows is never reached."""

        def arm() -> None:
            self.scoped()
            self.pick(ways)()

        cond = self.condition().value
        regions = (self.nested((), arm), self.nested((), arm))
        self.b.emit(ops.IF, cond, types=(), regions=regions)
        self.return_()

    def return_(self) -> None:
        """End the work-item."""
        self.act(ops.RETURN)

    def break_(self) -> None:
        """Leave the loop."""
        assert self.loop
        self.act(ops.BREAK, *(self.value(t).value for t in self.loop.results))

    def continue_(self) -> None:
        """Go on with the next iteration."""
        self.next(ops.CONTINUE)

    def next(self, spec: ops.Spec) -> None:
        """Carry values on."""
        assert self.loop
        first = () if self.loop.counter is None else (self.counted_on(self.loop.counter),)
        self.act(spec, *first, *(self.value(t).value for t in self.loop.carried))

    def counted_on(self, counter: Value) -> Value:
        """The counter of an endless loop, one further."""
        return self.op(ops.ADD, counter, self.number(1))

    # -- loops

    def bound(self, low: int, count: int, *, uniform: bool) -> Var:
        """A small i64: a constant, or a run-time value brought into range."""
        if self.choose(2) == 0:
            return Var(self.number(low + self.choose(count)), True)
        var = self.value(I64, uniform=uniform)
        small = self.op(ops.MOD, var.value, self.number(count))
        return Var(self.op(ops.ADD, small, self.number(low)), var.uniform)

    def bounds(self, *, uniform: bool) -> tuple[Var, Var, Var]:
        """Start, stop and step of few iterations, seldom at the ends of i64."""
        if not self.chance(12):
            start = self.bound(-1, 4, uniform=uniform)
            stop = self.bound(-1, 6, uniform=uniform)
            steps = self.chance(3)
            step = self.bound(-2, 5, uniform=uniform) if steps else Var(self.number(1), True)
            return start, stop, step
        if self.choose(2):  # far apart, in giant steps
            far = (-_MOST - 1 + self.choose(3), _MOST - self.choose(3), _MOST - self.choose(9))
        else:
            far = (_MOST - self.choose(4), _MOST - self.choose(2), 1 + self.choose(3))
        start, stop, step = far
        if self.choose(2):
            start, stop, step = stop, start, -step
        return (
            Var(self.number(start), True),
            Var(self.number(stop), True),
            Var(self.number(step), True),
        )

    def counted(self) -> None:
        """A `for`."""
        start, stop, step = self.bounds(uniform=self.meets and self.choose(2) == 0)
        uniform = start.uniform and stop.uniform and step.uniform
        types = self.kinds()
        initial = [self.value(t).value for t in types]
        index = Value(I64, "i")
        args = tuple(Value(t) for t in types)

        def body() -> None:
            self.flow_uniform = self.flow_uniform and uniform
            self.loop = Loop(types, types, None, self.flow_uniform)
            self.add(index, uniform=uniform)
            self.vars += [Var(a, False) for a in args]
            self.scoped()
            self.next(ops.CONTINUE if self.chance(6) else ops.YIELD)

        region = self.nested((index, *args), body)
        limits = (start.value, stop.value, step.value)
        op = self.b.emit(ops.FOR, *limits, *initial, types=types, regions=(region,))
        self.vars += [Var(v, False) for v in op.results]

    def endless(self) -> None:
        """A `loop` that counts, so that it ends."""
        types, results = self.kinds(), self.kinds()
        limit = self.bound(0, 4, uniform=self.meets and self.choose(2) == 0)
        counter = Value(I64, "n")
        args = tuple(Value(t) for t in types)
        initial = (self.number(0), *(self.value(t).value for t in types))

        def body() -> None:
            self.flow_uniform = self.flow_uniform and limit.uniform
            self.loop = Loop(types, results, counter, self.flow_uniform)
            self.add(counter, uniform=limit.uniform)
            self.vars += [Var(a, False) for a in args]
            done = self.op(ops.GE, counter, limit.value)
            leave = self.nested((), self.break_)
            stay = self.nested((), lambda: self.act(ops.YIELD))
            self.b.emit(ops.IF, done, types=(), regions=(leave, stay))
            self.scoped()
            self.next(ops.YIELD)

        region = self.nested((counter, *args), body)
        op = self.b.emit(ops.LOOP, *initial, types=results, regions=(region,))
        self.vars += [Var(v, False) for v in op.results]
