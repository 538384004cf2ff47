"""In which form each i64 value is wanted and computed: what narrowing decides before it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hetir.ir import ops
from hetir.ir.build import constant
from hetir.ir.core import Kernel, Operation, Region, Value, walk
from hetir.ir.types import I32, I64, U32, RefType, Scalar, Type
from hetir.passes.ranges import SIGNED, UNSIGNED, Bounds, Range, inside, ranges
from hetir.passes.regions import LOOPS, definitions, exits_of

ACCESSES = (
    *(ops.LOAD, ops.STORE, ops.ATOMIC_LOAD, ops.ATOMIC_STORE, ops.ATOMIC_RMW, ops.ATOMIC_CAS),
)
# the low half of the result depends on the low halves of the operands alone
_RING = (ops.ADD, ops.SUB, ops.MUL, ops.NEG, ops.AND, ops.OR, ops.XOR, ops.NOT, ops.SELECT)
# the same function in 32 bits, where both operands fit
WHOLE = (ops.MIN, ops.MAX, ops.DIV, ops.REM, ops.FLOORDIV, ops.MOD, ops.ABS)
DIVISIONS = (ops.DIV, ops.REM, ops.FLOORDIV, ops.MOD)
IDS = (
    *(ops.LOCAL_ID, ops.GROUP_ID, ops.GROUP_SIZE, ops.NUM_GROUPS, ops.GLOBAL_ID),
    *(ops.LANE_ID, ops.SUBGROUP_ID, ops.SUBGROUP_SIZE, ops.DIM, ops.STRIDE),
)
COMPARES = (ops.EQ, ops.NE, ops.LT, ops.LE, ops.GT, ops.GE)
_MAX_TERMS = 6
_MAX_STEPS = 40
_MAX_TURNS = 16
_MAX_FACTOR = 1 << 20


@dataclass(frozen=True, slots=True)
class Term:
    """A product of a number and at most two values of an offset in bytes."""

    factor: int
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Count:
    """How a `for` counts in 32 bits."""

    kind: Scalar  # of the comparison
    up: bool
    clamp: bool  # whether the start may be past what fits
    turns: int = 0  # where the same few for every start: targets write such loops out


class Facts:
    """What of each value is wanted, and in which form it is computed."""

    def __init__(self, kernel: Kernel, bounds: Bounds) -> None:
        self.kernel = kernel
        self.bounds = bounds
        self.ranges: Mapping[Value, Range] = ranges(kernel, bounds)
        self.makers = definitions(kernel.body)
        self._order = {value: number for number, value in enumerate(self.makers)}
        self.sources = _sources(kernel.body)
        self.wide: set[Value] = set()
        self.low: set[Value] = set()
        self.counts: dict[Operation, Count] = {}
        self.offsets: dict[Operation, tuple[list[Term], int] | None] = {}
        self._todo: list[tuple[Value, bool]] = []
        self._left = 0  # steps that the present offset may still be taken apart by
        for op in walk(kernel.body):
            if op.spec is ops.FOR and (count := self._count(op)):
                self.counts[op] = count
        for op in walk(kernel.body):
            self._roots(op)
            if op.spec is ops.FOR:
                self._bounds(op)
        while self._todo:
            self._spread(*self._todo.pop())

    def fits(self, value: Value) -> bool:
        """Whether the value lies in the range of i32 or of u32."""
        found = self.ranges.get(value)
        return inside(found, SIGNED) or inside(found, UNSIGNED)

    def signed(self, value: Value) -> bool:
        """Whether the value lies in the range of i32."""
        return inside(self.ranges.get(value), SIGNED)

    def common(self, values: Sequence[Value]) -> Scalar | None:
        """A 32-bit type that holds all the values."""
        found = [self.ranges.get(v) for v in values]
        if all(inside(f, SIGNED) for f in found):
            return I32
        return U32 if all(inside(f, UNSIGNED) for f in found) else None

    def divides(self, values: Sequence[Value]) -> Scalar | None:
        """The same, unsigned where both would do: such divisions are shorter."""
        found = [self.ranges.get(v) for v in values]
        return U32 if all(inside(f, UNSIGNED) for f in found) else self.common(values)

    def narrow(self, value: Value) -> bool:
        """Whether the value is computed as its low half, and widened where it fits."""
        return self._can(value) and (self.fits(value) or value not in self.wide)

    def _can(self, value: Value) -> bool:
        op = self.makers.get(value)
        if op is None or value.type != I64:
            return False
        if op.spec is ops.FOR:  # it stays one, and takes 64 bits, unless it counts in 32
            return op in self.counts
        if op.regions or op.spec in _RING or op.spec in IDS or op.spec is ops.CONST:
            return True
        if op.spec in WHOLE:
            return self.common(op.operands) is not None
        if op.spec is ops.SHL:
            count = self.ranges.get(op.operands[1])
            return inside(count, (0, 31))
        if op.spec is ops.SHR:
            return self.common(op.operands[:1]) is not None and inside(
                self.ranges.get(op.operands[1]), (0, 31)
            )
        return op.spec is ops.CAST and _is_small(op.operands[0].type)

    # ---- what is wanted --------------------------------------------------------------

    def want(self, value: Value, *, wide: bool) -> None:
        """Note that the whole value, or its low half, is needed."""
        if value.type != I64 or value in (self.wide if wide else self.low):
            return
        (self.wide if wide else self.low).add(value)
        self._todo.append((value, wide))

    def _spread(self, value: Value, wide: bool) -> None:
        """What the operands must give for it."""
        op = self.makers.get(value)
        if op is None:
            return
        if self._can(value) and (self.fits(value) or not wide):
            if wide:
                self.want(value, wide=False)
            elif value not in self.wide or self.fits(value):
                self._operands(op, value, wide=False)
            return
        if wide:
            self._operands(op, value, wide=True)
        else:
            self.want(value, wide=True)

    def _operands(self, op: Operation, value: Value, *, wide: bool) -> None:
        for source in self.sources.get(value, op.operands):
            self.want(source, wide=wide)

    def _roots(self, op: Operation) -> None:
        """What an op that has effects, or is no i64 arithmetic, needs."""
        if op.spec in ACCESSES:
            self._access(op)
            rest = op.operands[2:]
        elif op.spec in COMPARES and op.operands[0].type == I64:
            kind = self.common(op.operands)
            for value in op.operands:
                self.want(value, wide=kind is None)
            return
        elif op.spec is ops.CAST and op.operands[0].type == I64:
            self.want(op.operands[0], wide=self.cast_source(op) is None)
            return
        elif op.regions or op.spec.terminator:
            # by way of what they carry, all of which is kept
            for value in (*op.results, *(a for r in op.regions for a in r.args)):
                self.want(value, wide=False)
            return
        elif op.results and op.results[0].type == I64 and op.spec.pure:
            return
        else:
            rest = op.operands
        for value in rest:
            self.want(value, wide=True)

    def cast_source(self, op: Operation) -> Scalar | None:
        """The 32-bit type that a cast from i64 may convert, if any."""
        to = op.result.type
        assert isinstance(to, Scalar)
        if to.is_int:
            return I32 if to.bits <= 32 else None
        return self.common(op.operands) if to.name in ("f32", "f64", "bool") else None

    def _bounds(self, op: Operation) -> None:
        count = self.counts.get(op)
        for value in op.operands[:3]:
            self.want(value, wide=count is None)
        if count and count.clamp:
            self.want(op.operands[0], wide=True)
            self.want(op.operands[1], wide=True)

    def _count(self, op: Operation) -> Count | None:
        """Whether every number that a loop counts with fits one 32-bit type."""
        start, stop, step = (self.ranges.get(v) for v in op.operands[:3])
        if step is None or stop is None or (step[0] <= 0 <= step[1]):
            return None
        if not self.fits(op.regions[0].args[0]):  # the loop never runs
            return None
        up = step[0] > 0
        for kind, limits in ((I32, SIGNED), (U32, UNSIGNED)):
            if kind is U32 and not up:
                return None
            # the last index plus a step is still compared
            last = (stop[1] - 1 + step[1]) if up else (stop[0] + 1 + step[0])
            if not inside(stop, limits) or not limits[0] <= last <= limits[1]:
                continue
            if inside(start, limits):
                assert start is not None
                return Count(kind, up, clamp=False, turns=_turns(start, stop, step))
            if start is not None and (limits[0] <= start[0] if up else start[1] <= limits[1]):
                return Count(kind, up, clamp=True)
        return None

    # ---- addresses -------------------------------------------------------------------

    def _access(self, op: Operation) -> None:
        offset, near = op.operands[1], is_near(op)
        if not near and self.bounds.index_bits == 64:
            self.want(offset, wide=True)
            return
        found = self.terms(offset)
        if found is not None and (near or all(self._exact(t) for t in found[0])):
            self.offsets[op] = found
            for term in found[0]:
                for value in term.values:
                    self.want(value, wide=False)
        else:
            self.want(offset, wide=False)

    def _exact(self, term: Term) -> bool:
        """Whether every factor is its sign-extended low half."""
        return all(map(self.signed, term.values))

    def terms(self, offset: Value) -> tuple[list[Term], int] | None:
        """An offset as products and a constant; None where there are many."""
        sums: dict[tuple[Value, ...], int] = {}
        self._left = _MAX_STEPS
        constant_part = self._add(offset, 1, sums)
        found = [Term(f, values) for values, f in sums.items() if f]
        found.sort(key=self._place)
        small = all(abs(n) <= _MAX_FACTOR for n in (constant_part, *(t.factor for t in found)))
        return (found, constant_part) if len(found) <= _MAX_TERMS and small else None

    def _place(self, term: Term) -> tuple[bool, int]:
        """What is known first comes first, so that accesses share, and loops keep, the sums.

        A stride alone is the step to a neighbour.
        """
        op = self.makers.get(term.values[0])
        step = len(term.values) == 1 and op is not None and op.spec is ops.STRIDE
        return step, max(self._order.get(v, -1) for v in term.values)

    def _add(self, value: Value, factor: int, sums: dict[tuple[Value, ...], int]) -> int:
        """Add `factor * value` to the sums; gives the constant part."""
        op = self.makers.get(value)
        number = _number(op)
        if number is not None:
            return factor * number
        self._left -= 1
        # past the limit a sum is a term like any other: values that are used twice add up
        if op is not None and self._left > 0:
            match op.name:
                case "add":
                    return sum(self._add(v, factor, sums) for v in op.operands)
                case "sub":
                    a, b = op.operands
                    return self._add(a, factor, sums) + self._add(b, -factor, sums)
                case "neg":
                    return self._add(op.operands[0], -factor, sums)
                case "mul":
                    return self._product(op.operands, factor, sums)
                case "shl" if (by := _number(self.makers.get(op.operands[1]))) is not None:
                    return self._add(op.operands[0], factor << (by % 64), sums)
                case _:
                    pass
        sums[(value,)] = sums.get((value,), 0) + factor
        return 0

    def _product(
        self, operands: Sequence[Value], factor: int, sums: dict[tuple[Value, ...], int]
    ) -> int:
        a, b = operands
        for one, two in ((a, b), (b, a)):
            number = _number(self.makers.get(two))
            if number is not None:
                return self._add(one, factor * number, sums)
        for one, two in ((a, b), (b, a)):
            rest, number = self._shifted(one)
            if number:
                key = self._pair(rest, two)
                sums[key] = sums.get(key, 0) + factor
                return self._add(two, factor * number, sums)
        key = self._pair(a, b)
        sums[key] = sums.get(key, 0) + factor
        return 0

    def _pair(self, a: Value, b: Value) -> tuple[Value, Value]:
        """Two factors in program order, parameters first."""
        return (a, b) if self._order.get(a, -1) <= self._order.get(b, -1) else (b, a)

    def _shifted(self, value: Value) -> tuple[Value, int]:
        """A value as another one and a number added to it."""
        op = self.makers.get(value)
        if op is not None and op.spec in (ops.ADD, ops.SUB):
            a, b = op.operands
            number = _number(self.makers.get(b))
            if number is not None and (self.signed(a) or not self.signed(value)):
                return a, number if op.spec is ops.ADD else -number
        return value, 0


def is_near(op: Operation) -> bool:
    """Whether an access touches an array of a workgroup or work-item: all offsets are small."""
    kind = op.operands[0].type
    assert isinstance(kind, RefType)
    return kind.space in ("shared", "private")


def _turns(start: Range, stop: Range, step: Range) -> int:
    """How often a loop runs where that is one small number for every start, else 0."""
    if stop[0] != stop[1] or step[0] != step[1] or start[0] == start[1]:
        return 0
    counts = {len(range(first, stop[0], step[0])) for first in start}
    return counts.pop() if len(counts) == 1 and max(counts) <= _MAX_TURNS else 0


def _number(op: Operation | None) -> int | None:
    if op is None or op.spec is not ops.CONST or op.result.type != I64:
        return None
    return int(constant(op) or 0)


def _sources(region: Region) -> dict[Value, tuple[Value, ...]]:
    """What flows into each block argument and result of structured ops."""
    found: dict[Value, tuple[Value, ...]] = {}
    for op in walk(region):
        if op.spec is ops.IF:
            ends = [r.terminator for r in op.regions if r.terminator.spec is ops.YIELD]
            for at, value in enumerate(op.results):
                found[value] = tuple(e.operands[at] for e in ends)
        elif op.spec in LOOPS:
            counted = op.spec is ops.FOR
            args, first = (op.regions[0].args[1:], 3) if counted else (op.regions[0].args, 0)
            ends = list(exits_of(op.regions[0]))
            again = [e for e in ends if e.spec is not ops.BREAK]
            left = [e for e in ends if e.spec is ops.BREAK]
            for at, value in enumerate(args):
                found[value] = (op.operands[first + at], *(e.operands[at] for e in again))
            for at, value in enumerate(op.results):
                kept = (args[at],) if counted else ()
                found[value] = (*kept, *(e.operands[at] for e in left))
            if counted:
                found[op.regions[0].args[0]] = (op.operands[0], op.operands[2])
    return found


def _is_small(kind: Type) -> bool:
    """Whether a type's numbers take 32 bits at most."""
    return isinstance(kind, Scalar) and kind.kind in ("bool", "int", "uint") and kind.bits <= 32
