"""32-bit index arithmetic: ids, extents, indices and byte offsets where no bit changes.

For targets whose registers have 32 bits and whose addresses have 64. An i64 value whose range
fits 32 bits is computed in 32 and widened where 64 are needed; of a value of which only the low
half is asked for, such as an offset that surely fits, only that half is computed.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Sequence
from dataclasses import replace

from hetir.ir import ops
from hetir.ir.build import Builder, constant
from hetir.ir.core import Kernel, Operation, Region, Value
from hetir.ir.types import I32, I64, U32, Scalar
from hetir.passes.narrow_demands import (
    ACCESSES,
    COMPARES,
    DIVISIONS,
    IDS,
    WHOLE,
    Count,
    Facts,
    Term,
    is_near,
)
from hetir.passes.ranges import Bounds
from hetir.passes.regions import LOOPS


def narrow_indices(kernel: Kernel, bounds: Bounds) -> Kernel:
    """An expanded kernel with 32-bit arithmetic wherever ranges, or `bounds`, prove it exact.

    Under 32-bit bounds every byte offset of a global array fits; those of shared and private
    arrays always do. Loops whose indices fit become `loop`s that count in 32 bits.
    """
    return _Narrower(kernel, bounds).run()


Ends = dict[ops.Spec, tuple[Value, ...]]
"""What the operands of each terminator become, by the old values that they flow into."""


class _Narrower:
    """Writes the kernel anew; the whole of an i64 value keeps its name."""

    def __init__(self, kernel: Kernel, bounds: Bounds) -> None:
        self.kernel = kernel
        self.facts = Facts(kernel, bounds)
        self.low: dict[Value, Value] = {}
        self.builder = Builder()
        # what the present region has computed of addresses
        self.known: ChainMap[object, Value] = ChainMap()

    def run(self) -> Kernel:
        """The narrowed kernel."""
        params = [p.value for p in self.kernel.params]
        body = self.region(
            self.kernel.body, (), {ops.RETURN: ()}, [v for v in params if v.type == I64]
        )
        return replace(self.kernel, body=body)

    def region(
        self,
        region: Region,
        args: tuple[Value, ...],
        ends: Ends,
        given: Sequence[Value],
        first: Callable[[], None] = lambda: None,
    ) -> Region:
        """A region with new arguments; `given` are old values that it begins with."""
        outer, self.builder = self.builder, Builder()
        self.known = self.known.new_child()
        for value in given:
            self.both(value)
        first()
        for op in region.body:
            self.builder.loc = op.loc
            self.visit(op, ends)
        made = self.builder.region(*args)
        self.builder, self.known = outer, self.known.parents
        return made

    def visit(self, op: Operation, ends: Ends) -> None:
        """Append what an op becomes."""
        facts = self.facts
        if op.spec is ops.IF:
            self.branch(op, ends)
        elif op.spec in LOOPS:
            self.loop(op)
        elif op.spec.terminator:
            self.builder.body.append(replace(op, operands=self.carried(op.operands, ends[op.spec])))
        elif op.spec in ACCESSES:
            at = self.offset(op)
            self.keep(replace(op, operands=(op.operands[0], at, *op.operands[2:])))
        elif op.spec in COMPARES and op.operands[0].type == I64:
            kind = facts.common(op.operands)
            self.keep(op if kind is None else self.with_low(op, kind))
        elif op.spec is ops.CAST and op.operands[0].type == I64:
            kind = facts.cast_source(op)
            self.keep(op if kind is None else self.with_low(op, kind))
        elif op.results and op.results[0].type == I64 and op.spec.pure:
            if op.result in facts.wide or op.result in facts.low:
                self.arithmetic(op)
        else:
            self.keep(op)

    def keep(self, op: Operation) -> None:
        """Append an op, and the low half of its result where that is wanted."""
        self.builder.body.append(op)
        for value in op.results:
            if value in self.facts.low:
                self.low[value] = self.cast(value, I32)

    def cast(self, value: Value, to: Scalar) -> Value:
        """A conversion, where one is needed."""
        return value if value.type == to else self.builder.value(ops.CAST, value, to=to)

    def with_low(self, op: Operation, kind: Scalar) -> Operation:
        """An op of i64 operands that takes 32 bits of them."""
        return replace(op, operands=tuple(self.cast(self.low[v], kind) for v in op.operands))

    def both(self, value: Value) -> None:
        """A block argument has arrived in the form in which it is carried: make the other."""
        if value.type != I64:
            return
        if self.facts.narrow(value):
            self.widen(value)
        elif value in self.facts.low:
            self.low[value] = self.cast(value, I32)

    def widen(self, value: Value) -> None:
        """The whole of a value whose low half is here, where it is wanted."""
        if value not in self.facts.wide:
            return
        low = self.low[value]
        if not self.facts.signed(value):
            low = self.cast(low, U32)
        made = Operation(ops.CAST, (low,), (value,), {"to": I64}, (), self.builder.loc)
        self.builder.body.append(made)

    def arithmetic(self, op: Operation) -> None:
        """An op that computes an i64 value."""
        value, facts = op.result, self.facts
        if op.spec in IDS or not facts.narrow(value):
            self.keep(op)
            return
        if op.spec is ops.CONST:
            low = self.builder.const(I32, int(constant(op) or 0))
        elif op.spec is ops.CAST:
            low = self.cast(op.operands[0], I32)
        else:
            kind = I32
            if op.spec in WHOLE or op.spec is ops.SHR:
                inputs = op.operands[:1] if op.spec is ops.SHR else op.operands
                kind = facts.divides(inputs) if op.spec in DIVISIONS else facts.common(inputs)
            assert kind is not None
            operands = [
                self.cast(self.low.get(v, v), kind) if v.type == I64 else v for v in op.operands
            ]
            low = self.cast(self.builder.value(op.spec, *operands), I32)
        self.low[value] = low
        self.widen(value)

    # ---- structure -------------------------------------------------------------------

    def fresh(self, value: Value) -> Value:
        """The new form of a block argument or result."""
        if not self.facts.narrow(value):
            return value
        self.low[value] = made = Value(I32, value.name)
        return made

    def carried(self, operands: Sequence[Value], into: Sequence[Value]) -> tuple[Value, ...]:
        """Operands in the forms in which the values that they flow into are carried."""
        return tuple(
            self.low[v] if self.facts.narrow(to) else v
            for v, to in zip(operands, into, strict=True)
        )

    def branch(self, op: Operation, ends: Ends) -> None:
        inner = {**ends, ops.YIELD: op.results}
        regions = tuple(self.region(r, (), inner, ()) for r in op.regions)
        results = tuple(map(self.fresh, op.results))
        self.builder.body.append(replace(op, results=results, regions=regions))
        self.after(op)

    def after(self, op: Operation) -> None:
        """The other form of each result."""
        for value in op.results:
            self.both(value)

    def loop(self, op: Operation) -> None:
        count = self.facts.counts.get(op)
        if count is not None:
            self.counted(op, count)
            return
        (body,) = op.regions
        head = 3 if op.spec is ops.FOR else 0
        own = body.args[1:] if head else body.args
        initial = self.carried(op.operands[head:], own)
        args = tuple(map(self.fresh, body.args))
        ends: Ends = {ops.YIELD: own, ops.CONTINUE: own, ops.BREAK: op.results, ops.RETURN: ()}
        inner = self.region(body, args, ends, body.args)
        results = tuple(map(self.fresh, op.results))
        operands = (*op.operands[:head], *initial)
        made = replace(op, operands=operands, results=results, regions=(inner,))
        self.builder.body.append(made)
        self.after(op)

    def counted(self, op: Operation, count: Count) -> None:
        """A `for` as a `loop` that compares and counts in 32 bits."""
        (body,), (start, stop, step) = op.regions, op.operands[:3]
        index, own = body.args[0], body.args[1:]
        first = self.low.get(start)
        if count.clamp:
            nearer = self.builder.value(ops.MIN if count.up else ops.MAX, start, stop)
            first = self.cast(nearer, I32)
        assert first is not None
        initial = (first, *self.carried(op.operands[3:], own))
        last, by = self.cast(self.low[stop], count.kind), self.low[step]
        args = tuple(map(self.fresh, body.args))
        following, turn, another = Value(I64), Value(I32), Value(I32)
        into = (index, *own)
        if count.turns:
            initial = (self.builder.const(I32, 0), *initial)
            args, into = (turn, *args), (turn, *into)
        ends: Ends = {ops.YIELD: into, ops.CONTINUE: into, ops.BREAK: op.results, ops.RETURN: ()}

        def begin() -> None:
            compare = ops.LT if count.up else ops.GT
            now, end = args[-1 - len(own)], last
            if count.turns:
                end = self.builder.const(I32, count.turns)
                goes = self.builder.value(ops.LT, turn, end)
            else:
                goes = self.builder.value(compare, self.cast(now, count.kind), last)
            stay, leave = Builder(op.loc), Builder(op.loc)
            stay.emit(ops.YIELD)
            leave.emit(ops.BREAK, *self.carried(own, op.results))
            regions = (stay.region(), leave.region())
            self.builder.emit(ops.IF, goes, types=(), regions=regions)
            self.low[following] = self.builder.value(ops.ADD, now, by)
            if count.turns:
                one = self.builder.const(I32, 1)
                made = Operation(ops.ADD, (turn, one), (another,), {}, (), op.loc)
                self.builder.body.append(made)

        moved = _with_index(body, (another, following) if count.turns else (following,))
        inner = self.region(moved, args, ends, body.args, begin)
        results = tuple(map(self.fresh, op.results))
        self.builder.body.append(
            Operation(ops.LOOP, initial, results, regions=(inner,), loc=op.loc)
        )
        self.after(op)

    # ---- addresses -------------------------------------------------------------------

    def offset(self, op: Operation) -> Value:
        """The offset of an access in 64 bits."""
        whole, facts = op.operands[1], self.facts
        if op not in facts.offsets:
            if whole in facts.wide:
                return whole
            return self.once(whole, lambda: self.cast(self.low[whole], I64))
        found = facts.offsets[op]
        assert found is not None
        terms, more = found
        made = self.near(terms) if is_near(op) else self.far(terms)
        if made is None:
            return self.builder.const(I64, more)
        return self.builder.value(ops.ADD, made, self.builder.const(I64, more)) if more else made

    def once(self, key: object, make: Callable[[], Value]) -> Value:
        """What is computed at most once a region."""
        found = self.known.get(key)
        if found is None:
            self.known[key] = found = make()
        return found

    def near(self, terms: Sequence[Term]) -> Value | None:
        """A small offset, all in 32 bits, widened."""
        total = self.sum(terms, I32)
        return total and self.once((total, I64), lambda: self.cast(total, I64))

    def far(self, terms: Sequence[Term]) -> Value | None:
        """Products of 32-bit numbers in 64 bits, which the target multiplies at once."""
        return self.sum(terms, I64)

    def sum(self, terms: Sequence[Term], kind: Scalar) -> Value | None:
        """The terms' sum in one type."""
        total: Value | None = None
        key: tuple[object, ...] = (kind,)
        for term in terms:
            key = (*key, term)
            before = total
            total = self.once(key, lambda t=term, b=before: self.plus(b, self.product(t, kind)))
        return total

    def plus(self, total: Value | None, value: Value) -> Value:
        return value if total is None else self.builder.value(ops.ADD, total, value)

    def product(self, term: Term, kind: Scalar) -> Value:
        """One term."""

        def factor(value: Value) -> Value:
            if kind == I64 and value in self.facts.wide and self.facts.signed(value):
                return value
            return self.once((value, kind), lambda: self.cast(self.low[value], kind))

        factors = [factor(v) for v in term.values]
        if term.factor != 1:
            number = self.once((kind, term.factor), lambda: self.builder.const(kind, term.factor))
            factors.append(number)
        made = factors[0]
        for more in factors[1:]:
            made = self.builder.value(ops.MUL, made, more)
        return made


def _with_index(region: Region, following: tuple[Value, ...]) -> Region:
    """A `for`'s body whose `yield` and `continue`s carry the next index first."""
    return _continued(region, following, (ops.YIELD, ops.CONTINUE))


def _continued(region: Region, following: tuple[Value, ...], ends: tuple[ops.Spec, ...]) -> Region:
    body: list[Operation] = []
    for op in region.body:
        if op.spec is ops.IF:
            arms = (_continued(r, following, (ops.CONTINUE,)) for r in op.regions)
            body.append(replace(op, regions=tuple(arms)))
        elif op.spec in ends:
            body.append(replace(op, operands=(*following, *op.operands)))
        else:
            body.append(op)
    return Region(region.args, tuple(body))
