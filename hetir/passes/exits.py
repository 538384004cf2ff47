"""Early exits turned into structure: the machinery that `inline` and `lower_exits` share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from hetir.ir import ops
from hetir.ir.core import Operation, Region, Value
from hetir.ir.rewrite import Env
from hetir.ir.types import BOOL, Scalar
from hetir.passes.regions import (
    LOOPS,
    definitions,
    end,
    exits,
    falls,
    make_const,
    make_if,
    returns,
)
from hetir.source import Loc

Ops = list[Operation]


class Placeholders:
    """Values of given types for places where the value does not matter.

    A scalar becomes 0. An array becomes a parameter, or a view of one at index 0: the same
    chain of views that leads to `sample`, so that it is defined wherever it is needed.
    """

    def __init__(self, region: Region) -> None:
        self.defs = definitions(region)

    def make(self, sample: Value, out: Ops, loc: Loc | None) -> Value:
        """A value of the sample's type; the ops that it needs go to `out`."""
        if isinstance(sample.type, Scalar):
            out.append(make_const(sample.type, 0, loc))
            return out[-1].result
        op = self.defs.get(sample)
        if op is None:
            return sample
        if op.spec in (ops.IF, *LOOPS):
            return self.make(self._origin(op, sample), out, loc)
        if op.spec is ops.SELECT:
            return self.make(op.operands[1], out, loc)
        operands = tuple(self.make(v, out, loc) for v in op.operands)
        out.append(replace(op, operands=operands, results=(Value(sample.type),), loc=loc))
        return out[-1].result

    def _origin(self, op: Operation, sample: Value) -> Value:
        """A value nearer to the parameters that flows into the block argument or result."""
        skipped = 3 if op.spec is ops.FOR else 0
        if sample in op.results:
            index = op.results.index(sample)
            if op.spec is ops.FOR:
                return op.operands[skipped + index]
            wanted = ops.YIELD if op.spec is ops.IF else ops.BREAK
            return next(_terminators(op, wanted)).operands[index]
        index = op.regions[0].args.index(sample) - (1 if op.spec is ops.FOR else 0)
        return op.operands[skipped + index]


def _terminators(op: Operation, wanted: ops.Spec) -> Iterator[Operation]:
    """The yields of an `if`, or the breaks of a loop."""
    for region in op.regions:
        if region.terminator.spec is wanted:
            yield region.terminator
        if wanted is ops.BREAK:
            for inner in region.body:
                if inner.spec is ops.IF:
                    yield from _terminators(inner, wanted)


# ---- returns inside loops become breaks ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Flags:
    """What a loop with returns in it gains: block arguments (`for` only) and placeholders."""

    loop: Operation
    args: tuple[Value, ...]
    false: Value
    nothing: tuple[Value, ...]
    results: tuple[Value, ...]


def returns_to_breaks(region: Region, placeholders: Placeholders) -> Region:
    """A region in which no `return` stands inside a loop.

    A loop that held one breaks with a flag and the returned values; an `if` after it returns.
    """
    return Region(region.args, tuple(_unreturned(region.body, None, placeholders)))


def _unreturned(body: Sequence[Operation], flags: _Flags | None, p: Placeholders) -> Ops:
    out: Ops = []
    for op in body:
        if op.spec.terminator:
            out += _terminator(op, flags)
        elif op.spec in LOOPS and returns(op):
            out += _loop(op, flags, p)
        elif op.spec is ops.IF and (flags or returns(op)):
            arms = (Region(r.args, tuple(_unreturned(r.body, flags, p))) for r in op.regions)
            out.append(replace(op, regions=tuple(arms)))
        else:
            out.append(op)
    return out


def _terminator(op: Operation, flags: _Flags | None) -> Ops:
    inside = flags is not None and op is not flags.loop.regions[0].terminator
    if flags is None or (inside and op.spec is ops.YIELD):
        return [op]
    counted = flags.loop.spec is ops.FOR
    if op.spec is ops.RETURN:
        true = make_const(BOOL, 1, op.loc)
        lost = flags.loop.regions[0].args[1:] if counted else flags.results
        return [true, end(ops.BREAK, *lost, true.result, *op.operands, loc=op.loc)]
    if op.spec is ops.BREAK:
        return [replace(op, operands=(*op.operands, flags.false, *flags.nothing))]
    return [replace(op, operands=(*op.operands, *flags.args))]


def _loop(op: Operation, outer: _Flags | None, p: Placeholders) -> Ops:
    sample = first_return(op.regions[0])
    out: Ops = [make_const(BOOL, 0, op.loc)]
    false = out[0].result
    nothing = tuple(p.make(v, out, op.loc) for v in sample.operands)
    gained = (BOOL, *(v.type for v in nothing))
    counted = op.spec is ops.FOR
    args = tuple(Value(t) for t in gained) if counted else ()
    lost = () if counted else tuple(p.make(v, out, op.loc) for v in op.results)
    flags = _Flags(op, args, false, nothing, lost)
    body = Region((*op.regions[0].args, *args), tuple(_unreturned(op.regions[0].body, flags, p)))
    flagged = replace(
        op,
        operands=(*op.operands, *((false, *nothing) if counted else ())),
        results=(*op.results, *(Value(t) for t in gained)),
        regions=(body,),
    )
    left, *values = flagged.results[len(op.results) :]
    leave = Region((), tuple(_terminator(end(ops.RETURN, *values, loc=op.loc), outer)))
    stay = Region((), (end(ops.YIELD, loc=op.loc),))
    return [*out, flagged, make_if(left, (), leave, stay, op.loc)]


def first_return(region: Region) -> Operation:
    """The first `return` in program order of a region that has one."""
    for op in region.body:
        if op.spec is ops.RETURN:
            return op
        for inner in op.regions:
            if inner.terminator.spec is ops.RETURN or any(map(returns, inner.body)):
                return first_return(inner)
    raise AssertionError("asked for the return of a region without one")


# ---- exits from ifs become the shape of the ifs --------------------------------------------


@dataclass(frozen=True, slots=True)
class _Rest:
    """What follows an `if`: its results there, the ops, and what follows those."""

    results: tuple[Value, ...]
    body: tuple[Operation, ...]
    after: _Rest | None

    @property
    def trivial(self) -> bool:
        """Whether nothing but a terminator follows, which may then stand in both arms."""
        return len(self.body) == 1 and (
            self.body[0].spec is not ops.YIELD or self.after is None or self.after.trivial
        )


Outcome = Callable[[Operation, tuple[Value, ...], Ops], tuple[Value, ...]]
Inner = Callable[[Operation], Ops]


class Straightener:
    """Rewrites a region so that it and its ifs end in `yield` of one tuple: the outcome.

    `outcome` maps a terminator (with its operands replaced) to that tuple. An `if` of which
    one arm leaves takes the rest into the other arm; where both arms may go on, a flag says
    whether control left. `inner` rebuilds every other op.
    """

    def __init__(
        self,
        samples: Sequence[Value],
        outcome: Outcome,
        inner: Inner,
        env: Env,
        placeholders: Placeholders,
    ) -> None:
        self.samples = samples
        self.outcome = outcome
        self.inner = inner
        self.env = env
        self.placeholders = placeholders

    def run(self, body: Sequence[Operation], after: _Rest | None = None) -> tuple[Operation, ...]:
        """The ops of the rewritten region, the last of which yields the outcome."""
        out: Ops = []
        for index, op in enumerate(body):
            if op.spec.terminator:
                out += self._end(op, after)
                break
            if exits(op):
                rest = _Rest(op.results, tuple(body[index + 1 :]), after)
                out += self._branch(op, rest)
                break
            out += self.inner(op)
        return tuple(out)

    def _end(self, op: Operation, after: _Rest | None) -> Sequence[Operation]:
        operands = tuple(self.env.get(v, v) for v in op.operands)
        if op.spec is ops.YIELD and after is not None:
            self.env.update(zip(after.results, operands, strict=True))
            return self.run(after.body, after.after)
        out: Ops = []
        values = self.outcome(op, operands, out)
        return [*out, end(ops.YIELD, *values, loc=op.loc)]

    def _branch(self, op: Operation, rest: _Rest) -> Ops:
        if all(map(falls, op.regions)) and not rest.trivial:
            return self._join(op, rest)
        arms = [Region((), self.run(r.body, rest)) for r in op.regions]
        cond = self.env.get(op.operands[0], op.operands[0])
        branch = make_if(cond, [v.type for v in self.samples], arms[0], arms[1], op.loc)
        return [branch, end(ops.YIELD, *branch.results, loc=op.loc)]

    def _join(self, op: Operation, rest: _Rest) -> Ops:
        """Both arms may go on: results are a flag, the outcome if set, the results if not."""
        flag = Value(BOOL)
        samples = (flag, *self.samples, *op.results)
        inner = Straightener(samples, self._flagged(op), self.inner, self.env, self.placeholders)
        arms = [Region((), inner.run(r.body)) for r in op.regions]
        cond = self.env.get(op.operands[0], op.operands[0])
        branch = make_if(cond, [v.type for v in samples], arms[0], arms[1], op.loc)
        left, *values = branch.results
        outcome, results = values[: len(self.samples)], values[len(self.samples) :]
        self.env.update(zip(op.results, results, strict=True))
        leave = Region((), (end(ops.YIELD, *outcome, loc=op.loc),))
        stay = Region((), self.run(rest.body, rest.after))
        then = make_if(left, [v.type for v in self.samples], leave, stay, op.loc)
        return [branch, then, end(ops.YIELD, *then.results, loc=op.loc)]

    def _flagged(self, op: Operation) -> Outcome:
        def outcome(exit_: Operation, operands: tuple[Value, ...], out: Ops) -> tuple[Value, ...]:
            stays = exit_.spec is ops.YIELD
            values = () if stays else self.outcome(exit_, operands, out)
            flag = make_const(BOOL, 0 if stays else 1, exit_.loc)
            out.append(flag)
            missing = self.samples if stays else op.results
            make = self.placeholders.make
            nothing = tuple(make(v, out, exit_.loc) for v in missing)
            return (flag.result, *nothing, *operands) if stays else (flag.result, *values, *nothing)

        return outcome
