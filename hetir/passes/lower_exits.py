"""Exits as flags: afterwards only `loop`s break, each in one place and in one form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Region, Value
from hetir.ir.rewrite import Env
from hetir.ir.types import BOOL, I64, U64
from hetir.passes.exits import Ops, Outcome, Placeholders, Straightener, returns_to_breaks
from hetir.passes.regions import (
    end,
    exits,
    exits_of,
    make_const,
    make_if,
    simple,
)
from hetir.source import Loc


def lower_exits(kernel: Kernel) -> Kernel:
    """The kernel with `return`, `break` and `continue` turned into structure and flags.

    After it every region ends in `yield`, the kernel's own in `return`. A `loop` is left by
    `if %done { break ... } else { yield }` just before its `yield`, and by nothing else; a
    `for` is not left early. A `for` with a `break` becomes a `loop` that counts down.
    """
    body = returns_to_breaks(kernel.body, Placeholders(kernel.body))
    lowering = _Lowering(Placeholders(body))
    straight = lowering.straighten((), lambda _, values, __: values, body.body)
    last = replace(straight[-1], spec=ops.RETURN)
    return replace(kernel, body=Region((), (*straight[:-1], last)))


class _Lowering:
    def __init__(self, placeholders: Placeholders) -> None:
        self.env: Env = {}
        self.placeholders = placeholders

    def straighten(
        self, samples: Sequence[Value], outcome: Outcome, body: Sequence[Operation]
    ) -> tuple[Operation, ...]:
        """The ops with their exits mapped by `outcome` (see Straightener)."""
        return Straightener(samples, outcome, self.inner, self.env, self.placeholders).run(body)

    def inner(self, op: Operation) -> Ops:
        """Any op but an `if` with exits, its loops lowered."""
        if op.spec is ops.LOOP:
            return [self.loop(op)]
        if op.spec is ops.FOR:
            breaks = any(e.spec is ops.BREAK for e in exits_of(op.regions[0]))
            return self.counted_loop(op) if breaks else [self.counted(op)]
        operands = self.operands(op)
        regions = tuple(
            Region(r.args, tuple(o for inner in r.body for o in self.inner(inner)))
            for r in op.regions
        )
        return [replace(op, operands=operands, regions=regions)]

    def operands(self, op: Operation) -> tuple[Value, ...]:
        return tuple(self.env.get(v, v) for v in op.operands)

    def counted(self, op: Operation) -> Operation:
        """A `for` without breaks: `continue` becomes `yield`."""
        (body,) = op.regions
        straight = self.straighten(op.results, lambda _, values, __: values, body.body)
        return replace(op, operands=self.operands(op), regions=(Region(body.args, straight),))

    def loop(self, op: Operation) -> Operation:
        """A `loop`: the outcome is whether it is done, the next values, the results."""
        (body,) = op.regions
        operands = self.operands(op)
        if _canonical(body):
            ops_ = tuple(o for inner in body.body for o in self.inner(inner))
            return replace(op, operands=operands, regions=(Region(body.args, ops_),))

        def outcome(exit_: Operation, values: tuple[Value, ...], out: Ops) -> tuple[Value, ...]:
            done = make_const(BOOL, int(exit_.spec is ops.BREAK), exit_.loc)
            out.append(done)
            if exit_.spec is ops.BREAK:
                return (done.result, *body.args, *values)
            make = self.placeholders.make
            return (done.result, *values, *(make(v, out, exit_.loc) for v in op.results))

        samples = (Value(BOOL), *body.args, *op.results)
        *ops_, last = self.straighten(samples, outcome, body.body)
        done, *values = last.operands
        following, results = values[: len(body.args)], values[len(body.args) :]
        leaving = (_break_if(done, results, op.loc), end(ops.YIELD, *following, loc=op.loc))
        return replace(op, operands=operands, regions=(Region(body.args, (*ops_, *leaving)),))

    def counted_loop(self, op: Operation) -> Ops:
        """A `for` with breaks: a `loop` over the index and the iterations left."""
        (body,) = op.regions
        start, stop, step, *initial = self.operands(op)
        out: Ops = []
        count = trip_count(start, stop, step, out, op.loc)

        def outcome(exit_: Operation, values: tuple[Value, ...], out: Ops) -> tuple[Value, ...]:
            out.append(make_const(BOOL, int(exit_.spec is ops.BREAK), exit_.loc))
            return (out[-1].result, *values)

        left = Value(U64)
        *ops_, last = self.straighten((Value(BOOL), *op.results), outcome, body.body)
        done, *values = last.operands
        tail: Ops = [make_const(U64, 1, op.loc)]
        tail.append(simple(ops.SUB, left, tail[0].result, loc=op.loc))
        tail.append(simple(ops.EQ, left, tail[0].result, loc=op.loc))
        tail.append(simple(ops.OR, done, tail[2].result, loc=op.loc))
        tail.append(simple(ops.ADD, body.args[0], step, loc=op.loc))
        tail.append(_break_if(tail[3].result, values, op.loc))
        tail.append(end(ops.YIELD, tail[4].result, tail[1].result, *values, loc=op.loc))
        region = Region((body.args[0], left, *body.args[1:]), (*ops_, *tail))
        results = tuple(Value(v.type) for v in op.results)
        loop = Operation(ops.LOOP, (start, count, *initial), results, regions=(region,), loc=op.loc)
        run = Region((), (loop, end(ops.YIELD, *results, loc=op.loc)))
        skip = Region((), (end(ops.YIELD, *initial, loc=op.loc),))
        out.append(make_const(U64, 0, op.loc))
        out.append(simple(ops.NE, count, out[-1].result, loc=op.loc))
        guard = make_if(out[-1].result, [v.type for v in results], run, skip, op.loc)
        return [*out, replace(guard, results=op.results)]


def _break_if(done: Value, results: Sequence[Value], loc: Loc | None) -> Operation:
    leave = Region((), (end(ops.BREAK, *results, loc=loc),))
    return make_if(done, (), leave, Region((), (end(ops.YIELD, loc=loc),)), loc)


def _canonical(body: Region) -> bool:
    """Whether the loop already has the form that this pass gives."""
    *before, last = body.body
    if last.spec is not ops.YIELD or not before or any(map(exits, before[:-1])):
        return False
    leave = before[-1]
    return leave.spec is ops.IF and [[o.spec for o in r.body] for r in leave.regions] == [
        [ops.BREAK],
        [ops.YIELD],
    ]


def trip_count(start: Value, stop: Value, step: Value, out: Ops, loc: Loc | None) -> Value:
    """The number of iterations of `range(start, stop, step)` as a u64, exact for all bounds."""

    def emit(spec: ops.Spec, *operands: Value, to: object = None) -> Value:
        out.append(simple(spec, *operands, loc=loc, to=to))  # pyright: ignore[reportArgumentType]
        return out[-1].result

    out.append(make_const(I64, 0, loc))
    zero = out[-1].result
    out.append(make_const(U64, 0, loc))
    none = out[-1].result
    out.append(make_const(U64, 1, loc))
    one = out[-1].result
    up, down = emit(ops.GT, step, zero), emit(ops.LT, step, zero)
    low, high = emit(ops.SELECT, up, start, stop), emit(ops.SELECT, up, stop, start)
    # distances between two i64 fit a u64
    distance = emit(ops.SUB, emit(ops.CAST, high, to=U64), emit(ops.CAST, low, to=U64))
    magnitude = emit(ops.CAST, emit(ops.ABS, step), to=U64)
    steps = emit(ops.DIV, emit(ops.SUB, distance, one), magnitude)
    runs = emit(ops.AND, emit(ops.LT, low, high), emit(ops.OR, up, down))
    return emit(ops.SELECT, runs, emit(ops.ADD, steps, one), none)
