"""Lowers safe points to plain hetIR: code that stops when it is asked to, and code that resumes.

Both kinds take hidden arrays after the kernel's own parameters, so that every backend runs them as
it runs any kernel. A workgroup decides once whether it stops: its first work-item asks the control
words and tells the others through a flag across the barrier that is there anyway. The flag is
double-buffered: a work-item may still be reading the last decision while the next is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Param, Region, Value
from hetir.ir.ops import Spec
from hetir.ir.types import BOOL, I32, I64, ArrayType, Scalar, static_array
from hetir.passes.emit import Emit
from hetir.passes.regions import LOOPS
from hetir.passes.safe_points import Plan, recomputable
from hetir.passes.stopping import DONE, NOT_STARTED, NUMBER_BITS, WORDS, Control, Names, Stopping

__all__ = ["DONE", "NOT_STARTED", "NUMBER_BITS", "WORDS", "Control", "Hidden", "Resumable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """The hidden parameters, in order: their names and array types.

    `control` holds `Control`'s words; `status` one i64 a workgroup, written where it stops (unless
    words are near, `WORDS` more a workgroup behind them);
    `saved` one array a type of slot; with `resume`, `before` and `restored` are the status and the
    state that the launch goes on from.
    """

    names: tuple[str, ...]
    types: tuple[ArrayType, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumable:
    """What to lower to.

    `resume`: workgroups go on from a saved state. `counts`: stop after a number of safe points
    (`Control.LIMIT`) instead of by the stop word. `initialise`: give shared and private arrays
    zeros first, for a checker that refuses to copy what was never written. Without `polls`
    nothing asks whether to stop: workgroups that `before` calls done do not run, so that a launch
    can be made in parts where a kernel cannot read what the host writes meanwhile. `near`: a
    workgroup's flags lie in shared memory, else in global memory, for kernels that leave none.
    """

    resume: bool = False
    counts: bool = False
    initialise: bool = False
    polls: bool = True
    near: bool = True

    def run(self, plan: Plan) -> Kernel:
        """The kernel with hidden parameters appended and no `safe_point` left."""
        return _Lowering(plan, self).kernel()

    def hidden(self, plan: Plan) -> Hidden:
        """The parameters that `run` appends."""
        rows: list[tuple[str, ArrayType]] = []
        if self.polls or self.resume:
            rows.append(("control", ArrayType(I32, 1)))
        if self.polls:
            rows.append(("status", ArrayType(I64, 1)))
            rows += [(f"saved_{t}", ArrayType(t, 1)) for t in plan.types]
        if self.resume or not self.polls:
            rows.append(("before", ArrayType(I64, 1)))
        if self.resume:
            rows += [(f"restored_{t}", ArrayType(t, 1)) for t in plan.types]
        names, types = zip(*rows, strict=True)
        return Hidden(names=names, types=types)


@dataclass(slots=True)
class _State:
    """What is threaded through the structure: which flag is next, where a workgroup goes on."""

    phase: Value
    target: Value | None

    @property
    def values(self) -> tuple[Value, ...]:
        return (self.phase,) if self.target is None else (self.phase, self.target)


_Writer = Callable[[Operation, _State, Emit, Operation | None], tuple[Value, ...]]


class _Lowering(Stopping):
    def __init__(self, plan: Plan, kind: Resumable) -> None:
        hidden = kind.hidden(plan)
        self.values = [Value(t, n) for n, t in zip(hidden.names, hidden.types, strict=True)]
        named = dict(zip(hidden.names, self.values, strict=True))
        self.before = named.get("before")
        at = Names(
            named.get("control"),
            named.get("status"),
            {t: named[f"saved_{t}"] for t in plan.types if kind.polls},
            {t: named[f"restored_{t}"] for t in plan.types if kind.resume},
        )
        super().__init__(plan, at, counts=kind.counts)
        self.kind = kind
        self.again = recomputable(plan.kernel)
        self.owned: set[Operation] = set()
        self.numbers: dict[Operation, tuple[int, int]] = {}
        self._number(plan.kernel.body)

    # ---- the whole kernel ------------------------------------------------------------------

    def kernel(self) -> Kernel:
        kernel = self.plan.kernel
        python = 1 + max((int(p.source[0]) for p in kernel.params), default=-1)
        extra = tuple(Param(v, (python + i,)) for i, v in enumerate(self.values))
        out = Emit(kernel.loc)
        state = self.entry(out)
        self.body(kernel.body, state, out, None)
        return replace(kernel, params=(*kernel.params, *extra), body=out.region())

    def entry(self, out: Emit) -> _State:
        """Ids, the workgroup's words, where to go on, and the safe point before the first op."""
        at = self.at
        sizes = [out.value(ops.GROUP_SIZE, axis=a) for a in range(3)]
        at.group = self._linear(
            out, ops.GROUP_ID, [out.value(ops.NUM_GROUPS, axis=a) for a in (0, 1)]
        )
        at.local = self._linear(out, ops.LOCAL_ID, sizes[:2])
        at.items = out.value(ops.MUL, out.value(ops.MUL, sizes[0], sizes[1]), sizes[2])
        at.first = out.value(ops.EQ, at.local, out.number(0))
        if self.kind.polls:
            self._words(out)
        state = _State(out.number(0), None)
        if self.before is not None:
            word = out.value(ops.LOAD, self.before, at.group)
            done = out.value(ops.EQ, word, out.number(DONE))
            out.when(done, lambda o: o.emit(ops.RETURN) and None)
            if not self.kind.resume:
                return state
            at.start = out.value(ops.SHR, word, out.number(NUMBER_BITS))
            mask = out.number((1 << NUMBER_BITS) - 1)
            state.target = out.value(ops.AND, word, mask)
        if self.kind.polls:
            self.begin(state, out)
        return state

    def _words(self, out: Emit) -> None:
        """Room for what the first work-item tells the others."""
        if self.kind.near:
            self.at.words = out.value(ops.ALLOC, type=static_array(I32, (WORDS,), "shared"))
        else:
            x, y, z = (out.value(ops.NUM_GROUPS, axis=a) for a in range(3))
            self.at.groups = out.value(ops.MUL, out.value(ops.MUL, x, y), z)

    @staticmethod
    def _linear(out: Emit, spec: Spec, sizes: Sequence[Value]) -> Value:
        x, y, z = (out.value(spec, axis=a) for a in range(3))
        rows = out.value(ops.ADD, out.value(ops.MUL, z, sizes[1]), y)
        return out.value(ops.ADD, out.value(ops.MUL, rows, sizes[0]), x)

    def begin(self, state: _State, out: Emit) -> None:
        """The safe point of every kernel: before a workgroup starts, or starts again."""

        def stop(o: Emit) -> None:
            o.when(self.at.first, lambda i: self.publish(i, i.number(NOT_STARTED)))
            o.emit(ops.RETURN)

        def ask(o: Emit) -> None:
            self.poll(state.phase, o)
            o.emit(ops.BARRIER, attrs={"scope": "workgroup"})
            o.when(self.told(state.phase, o), stop)

        if state.target is None:
            ask(out)
        else:  # a workgroup that goes on from a saved state stops behind it at the earliest
            out.when(out.value(ops.EQ, state.target, out.number(0)), ask)
        state.phase = out.number(1)

    # ---- structure -------------------------------------------------------------------------

    def _number(self, region: Region) -> tuple[int, int] | None:
        """The first and last safe point inside each op, by number."""
        found: list[tuple[int, int]] = []
        for op in region.body:
            if op in self.plan.by_op:
                number = self.plan.by_op[op].number
                self.numbers[op] = (number, number)
            else:
                inner = [n for r in op.regions if (n := self._number(r))]
                if inner:
                    self.numbers[op] = (inner[0][0], inner[-1][1])
            if op in self.numbers:
                found.append(self.numbers[op])
        return (found[0][0], found[-1][1]) if found else None

    def region(
        self,
        body: Sequence[Operation],
        ends: Sequence[Value],
        state: _State,
        out: Emit,
        loop: Operation | None,
    ) -> None:
        """Write ops of a region, `ends` the operands of its terminator.

        `loop` is the innermost loop around that carries the state.
        """
        last = max((self.numbers[op][1] for op in body if op in self.numbers), default=0)
        start = 0
        passed = 0
        while start < len(body):
            stop = start
            while stop < len(body) and body[stop] not in self.numbers:
                stop += 1
            special = body[stop] if stop < len(body) else None
            point = self.plan.by_op.get(special) if special is not None else None
            segment = body[start:stop]
            own = bool(point and segment and self._waits(segment[-1]))
            if own and special is not None:
                segment = segment[:-1]
                self.owned.add(special)
            guarded = state.target is not None and last > passed
            used = _used(body[start + len(segment) :]).union(ends)
            self.segment(segment, used, state, out, loop, guarded, passed)
            if special is not None:
                passed = self.numbers[special][1]
                skips = state.target is not None and last > passed
                write = self.stop_here if point is not None else self.structure
                self.skipping(special, write, passed if skips else None, state, out, loop)
            start = stop + 1

    @staticmethod
    def _waits(op: Operation) -> bool:
        return op.spec is ops.BARRIER and op.attrs["scope"] == "workgroup"

    def skipping(
        self,
        op: Operation,
        write: _Writer,
        passed: int | None,
        state: _State,
        out: Emit,
        loop: Operation | None,
    ) -> None:
        """Write an op with `write`, or go past it where the workgroup goes on behind `passed`."""
        results = op.results if op.spec is not ops.SAFE_POINT else ()
        if passed is None:
            made = write(op, state, out, loop)
            self.env.update(zip(results, made, strict=True))
            return
        assert state.target is not None
        before = _State(state.phase, state.target)

        def run(o: Emit) -> tuple[Value, ...]:
            inner = _State(before.phase, before.target)
            made = write(op, inner, o, loop)
            return (*inner.values, *made)

        def skip(o: Emit) -> tuple[Value, ...]:
            return (*before.values, *(self.restored(v, o) for v in results))

        runs = out.value(ops.LE, state.target, out.number(passed))
        state.phase, state.target, *values = out.choose(runs, run, skip)
        self.env.update(zip(results, values, strict=True))

    def segment(
        self,
        segment: Sequence[Operation],
        used: set[Value],
        state: _State,
        out: Emit,
        loop: Operation | None,
        guarded: bool,
        passed: int,
    ) -> None:
        """Ops without safe points, in an `if` where a workgroup may go on behind them.

        `used` is what later ops use.
        """
        bound = [op for op in segment if guarded and not self._free(op)]
        for op in segment:
            if op not in bound:
                self.copy(op, state, out, loop)
        if not bound:
            return
        assert state.target is not None
        outs = [v for op in bound for v in op.results if isinstance(v.type, Scalar) and v in used]
        kept = dict(self.env)

        def run(o: Emit) -> tuple[Value, ...]:
            for op in bound:
                self.copy(op, state, o, loop)
            return tuple(self.env[v] for v in outs)

        runs = out.value(ops.LE, state.target, out.number(passed))
        values = out.choose(runs, run, lambda o: [self.restored(v, o) for v in outs])
        self.env = kept
        self.env.update(zip(outs, values, strict=True))
        for op in bound:
            if op.spec in (ops.VIEW, ops.SELECT) and not isinstance(op.result.type, Scalar):
                self.copy(op, state, out, loop)  # an array is not restored but made again

    def _free(self, op: Operation) -> bool:
        """Whether the op runs in any case: it follows from ids and parameters, or makes storage."""
        if op.spec is ops.ALLOC:
            return True
        return bool(op.results) and self.again.issuperset(op.results)

    # ---- ops -------------------------------------------------------------------------------

    def copy(self, op: Operation, state: _State, out: Emit, loop: Operation | None) -> None:
        """One op without safe points, its exits carrying the state of the loop around."""
        out.body.append(self._copied(op, state, loop))
        if self.kind.initialise and op.spec is ops.ALLOC and op.result in self.plan.slots:
            self.clear(op.result, out)

    def _copied(self, op: Operation, state: _State, loop: Operation | None) -> Operation:
        operands = tuple(self.env.get(v, v) for v in op.operands)
        results = tuple(Value(v.type, v.name) for v in op.results)
        inside = None if op.spec in LOOPS else loop
        regions = tuple(self._copied_region(r, state, inside) for r in op.regions)
        self.env.update(zip(op.results, results, strict=True))
        if loop is not None and op.spec in (ops.BREAK, ops.CONTINUE):
            operands += state.values
        return replace(op, operands=operands, results=results, regions=regions)

    def _copied_region(self, region: Region, state: _State, loop: Operation | None) -> Region:
        args = tuple(Value(v.type, v.name) for v in region.args)
        self.env.update(zip(region.args, args, strict=True))
        return Region(args, tuple([self._copied(op, state, loop) for op in region.body]))

    def structure(
        self, op: Operation, state: _State, out: Emit, loop: Operation | None
    ) -> tuple[Value, ...]:
        """An `if` or a loop with safe points inside; gives its results, less the state."""
        write = self.branch if op.spec is ops.IF else self.loop
        results = write(op, state, out, loop)
        count = len(state.values)
        new = results[len(results) - count :]
        state.phase = new[0]
        state.target = new[1] if count == 2 else None
        return results[: len(results) - count]

    def inside(self, op: Operation, state: _State, out: Emit) -> Value | None:
        """Whether the workgroup goes on from a safe point inside the op."""
        if state.target is None:
            return None
        first, last = self.numbers[op]
        low = out.value(ops.GE, state.target, out.number(first))
        return out.value(ops.AND, low, out.value(ops.LE, state.target, out.number(last)))

    def branch(
        self, op: Operation, state: _State, out: Emit, loop: Operation | None
    ) -> tuple[Value, ...]:
        cond = self.env.get(op.operands[0], op.operands[0])
        for side, region in enumerate(op.regions):
            held = [self.numbers[o] for o in region.body if o in self.numbers]
            if held and state.target is not None:
                low = out.value(ops.GE, state.target, out.number(held[0][0]))
                high = out.value(ops.LE, state.target, out.number(held[-1][1]))
                within = out.value(ops.AND, low, high)
                cond = out.value(ops.SELECT, within, out.const(BOOL, side == 0), cond)
        regions: list[Region] = []
        for region in op.regions:
            inner, now = Emit(op.loc), _State(state.phase, state.target)
            self.body(region, now, inner, loop)
            regions.append(inner.region())
        kinds = [v.type for v in (*op.results, *state.values)]
        return out.emit(ops.IF, cond, types=kinds, regions=tuple(regions), loc=op.loc).results

    def body(self, region: Region, state: _State, out: Emit, loop: Operation | None) -> None:
        """A whole region; a `yield` at its end gains the state."""
        last = region.terminator
        self.region(region.body[:-1], last.operands, state, out, loop)
        made = self._copied(last, state, loop)
        if last.spec is ops.YIELD:
            made = replace(made, operands=(*made.operands, *state.values))
        out.body.append(made)

    def loop(
        self, op: Operation, state: _State, out: Emit, _: Operation | None
    ) -> tuple[Value, ...]:
        (region,) = op.regions
        operands = [self.env.get(v, v) for v in op.operands]
        heads = ([0] if op.spec is ops.FOR else []) + list(
            range(3 if op.spec is ops.FOR else 0, len(operands))
        )
        within = self.inside(op, state, out)
        args = region.args
        if within is not None:
            chosen = [i for i, a in zip(heads, args, strict=True) if a in self.plan.slots]
            slots = [a for a in args if a in self.plan.slots]
            values = out.choose(
                within,
                lambda o: [self.restored(a, o) for a in slots],
                lambda _: [operands[i] for i in chosen],
            )
            for index, value in zip(chosen, values, strict=True):
                operands[index] = value
        new = tuple(Value(v.type, v.name) for v in args)
        self.env.update(zip(args, new, strict=True))
        carried = tuple(Value(v.type) for v in state.values)
        inner, now = Emit(op.loc), _State(carried[0], carried[1] if len(carried) == 2 else None)
        self.body(region, now, inner, op)
        kinds = [v.type for v in (*op.results, *carried)]
        return out.emit(
            op.spec,
            *operands,
            *state.values,
            attrs=op.attrs,
            types=kinds,
            regions=(inner.region(*new, *carried),),
            loc=op.loc,
        ).results

    # ---- a safe point ----------------------------------------------------------------------

    def stop_here(
        self, op: Operation, state: _State, out: Emit, _: Operation | None
    ) -> tuple[Value, ...]:
        """Ask, wait, and stop if told to; or arrive here from a saved state."""
        point = self.plan.by_op[op]

        def ask(o: Emit) -> None:
            if self.kind.polls:
                self.poll(state.phase, o)
            if self.kind.polls or op in self.owned:
                o.emit(ops.BARRIER, attrs={"scope": "workgroup"}, loc=point.op.loc)
            if self.kind.polls:
                o.when(self.told(state.phase, o), lambda i: self.save(point, i))

        if state.target is None:
            ask(out)
        else:
            arriving = out.value(ops.EQ, state.target, out.number(point.number))
            out.choose(arriving, lambda o: self.arrive(point, o), ask)
            state.target = out.number(0)
        state.phase = out.value(ops.XOR, state.phase, out.number(1))
        held = tuple(self.env.get(v, v) for v in point.op.operands)
        self.env.update(zip(point.op.results, held, strict=True))
        return ()


def _used(body: Sequence[Operation]) -> set[Value]:
    found: set[Value] = set()
    for op in body:
        found.update(op.operands)
        for inner in op.regions:
            found |= _used(inner.body)
    return found
