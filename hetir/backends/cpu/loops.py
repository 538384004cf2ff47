"""Loops of a lane vector: those that all lanes leave together, and those that they do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hetir.backends.cpu.counters import Counter, LineCounter, VectorCounter
from hetir.backends.cpu.slots import TWICE, Loop, Slot, Target, size_of_body
from hetir.backends.cpu.strides import Strides
from hetir.backends.cpu.vectors import NONE, Rep
from hetir.backends.llvm.structure import trip_count
from hetir.ir import ops
from hetir.ir.core import Operation, Region, Value, walk


class Loops(Strides):
    """Emits `for` and `loop`."""

    def _carried(self, op: Operation) -> tuple[list[Value], list[Value], list[Slot]]:
        """The carried arguments, their initial values, and slots that hold them."""
        region = op.regions[0]
        counted = op.spec is ops.FOR
        args = list(region.args[1:] if counted else region.args)
        init = list(op.operands[3:] if counted else op.operands)
        slots: list[Slot] = []
        for arg, first in zip(args, init, strict=True):
            rep = self.rep(first)
            if rep.kind == "line" and self._induction(op, arg, len(slots)):
                slots.append(self._slot(arg.type, "line", rep.step))
            else:
                slots.append(self._slot(arg.type, self._form(arg)))
            self._put(slots[-1], rep, None)
        return args, init, slots

    def _induction(self, op: Operation, arg: Value, index: int) -> bool:
        """Whether every iteration adds one uniform amount to a carried line."""
        nexts = {
            end.operands[index]
            for end in self.host.exits_of(op)
            if end.spec in (ops.YIELD, ops.CONTINUE)
        }
        if len(nexts) != 1:
            return False
        following = self.host.definition(nexts.pop())
        if following is None or following.spec not in (ops.ADD, ops.SUB):
            return False
        a, b = following.operands
        if following.spec is ops.ADD and b is arg:
            a, b = b, a
        return a is arg and b is not arg and not self.host.known.varying(b)

    def _loop(self, op: Operation) -> None:
        if op in self.host.divergence.uneven:
            self._uneven(op, None)
        else:
            self._even(op, None)

    def _for(self, op: Operation) -> None:
        bounds = [self._condition(v) for v in op.operands[:3]]
        uneven = op in self.host.divergence.uneven or any(b.kind != "same" for b in bounds)
        if uneven:
            self._uneven(op, bounds)
        else:
            self._even(op, bounds)

    def _even(self, op: Operation, bounds: Sequence[Rep] | None) -> None:
        """A loop that all lanes leave together."""
        code, entry_mask, region = self.code, self.mask, op.regions[0]
        args, _, slots = self._carried(op)
        results = [self._slot(v.type, self._form(v)) for v in op.results]
        head, body = code.fresh("head"), code.fresh("body")
        latch, leave = code.fresh("latch"), code.fresh("done")
        count = trip_count(code, *(b.name for b in bounds)) if bounds else ""
        before = code.block
        code.jump(head)
        code.start(head)
        phis = code.reserve()
        counter, index = "%" + code.fresh("k"), "%" + code.fresh("i")
        for arg, slot in zip(args, slots, strict=True):
            self.reps[arg] = self._get(slot)
        if bounds:
            for slot, arg in zip(results, args, strict=True):
                self._put(slot, self.reps[arg], None)
            self.reps[region.args[0]] = Rep("same", index)
            if self.multiple(bounds[0].name) and self.multiple(bounds[2].name):
                self.multiples.add(index)
            code.branch(code.add(f"icmp ult i64 {counter}, {count}"), body, leave)
            code.start(body)
        again = Target(slots, entry_mask, latch, straight=True)
        out = Target(results, entry_mask, leave, straight=True, together=True)
        ends = self._loop_body(region, Loop(again, out), latch)
        code.start(latch)
        if not ends and not again.jumps:
            code.put("unreachable")
            lines: list[str] = [f"  {counter} = phi i64 [ 0, %{before} ]"] if bounds else []
            lines += [f"  {index} = phi i64 [ {bounds[0].name}, %{before} ]"] if bounds else []
            code.fill(phis, lines)
        else:
            if bounds:
                bumped = code.add(f"add nuw i64 {counter}, 1")
                moved = code.add(f"add i64 {index}, {bounds[2].name}")
                rows = ((counter, "0", bumped), (index, bounds[0].name, moved))
                code.fill(
                    phis,
                    [f"  {n} = phi i64 [ {a}, %{before} ], [ {b}, %{latch} ]" for n, a, b in rows],
                )
            code.jump(head)
        self._state.dead = False
        if not bounds and not out.jumps:
            self._state.dead = True
            return
        code.start(leave)
        self.mask = entry_mask
        for value, slot in zip(op.results, results, strict=True):
            self.reps[value] = self._get(slot)

    def _loop_body(self, region: Region, loop: Loop, latch: str) -> bool:
        """Emit a loop's body; gives whether control reaches its end."""
        state, reps = self._state, dict(self.reps)
        state.loops.append(loop)
        state.joins.append(loop.again)
        self._region(region.body)
        state.joins.pop()
        state.loops.pop()
        self.reps = reps
        reached = not state.dead
        if reached:
            self.code.jump(latch)
        state.dead = False
        return reached

    def _uneven(self, op: Operation, bounds: Sequence[Rep] | None) -> None:
        """A loop that lanes leave one by one: it goes on while any is on."""
        if bounds and not _exits(op) & {ops.BREAK, ops.RETURN}:
            self._counted_out(op, bounds)
            return
        code, entry_mask, region = self.code, self.mask, op.regions[0]
        args, _, slots = self._carried(op)
        results = [self._slot(v.type, "lanes") for v in op.results]
        active, again_mask = self._slot_of("i1", "active"), self._slot_of("i1", "again")
        gone = self._slot_of("i1", "returned") if ops.RETURN in _exits(op) else ""
        self._put_mask(active, entry_mask)
        if gone:
            self._put_mask(gone, NONE)
        count = self._counter(op, bounds) if bounds else None
        head, body, leave = code.fresh("head"), code.fresh("body"), code.fresh("done")
        code.jump(head)
        code.start(head)
        for arg, slot in zip(args, slots, strict=True):
            self.reps[arg] = self._get(slot)
        on: str = self._get_mask(active)
        if count is not None:
            index, runs = count.begin()
            self.reps[region.args[0]] = index
            over = self.both(on, self.other(runs))
            on = self.both(on, runs)
            for slot, arg in zip(results, args, strict=True):
                self._put(slot, self.reps[arg], over)
            if gone:
                self._put_mask(gone, self.either(self._get_mask(gone), over))
        code.branch(self._any(on), body, leave)
        code.start(body)
        self._put_mask(again_mask, NONE)
        whole = self.mask is None
        self.mask = entry_mask

        def turn() -> None:
            self._pass(region, slots, results, again_mask, gone or None)

        self._turn(on, turn, twice=whole and size_of_body(region.body) <= TWICE)
        if count is not None:
            count.step()
        self._put_mask(active, self._get_mask(again_mask))
        code.jump(head)
        code.start(leave)
        self.mask = self._get_mask(gone) if gone else entry_mask
        for value, slot in zip(op.results, results, strict=True):
            self.reps[value] = self._get(slot)

    def _counted_out(self, op: Operation, bounds: Sequence[Rep]) -> None:
        """A `for` that lanes leave only by their counts: the count alone says who is on.

        A lane that is off keeps what it carries, which is its result; what is held for all
        lanes at once goes on without it, so that its results are kept apart.
        """
        code, entry_mask, region = self.code, self.mask, op.regions[0]
        args, init, slots = self._carried(op)
        results = [
            slot if slot.form == "lanes" else self._slot(slot.kind, "lanes") for slot in slots
        ]
        shared = [(s, r) for s, r in zip(slots, results, strict=True) if s is not r]
        for slot, result, first in zip(slots, results, init, strict=True):
            if slot is not result:
                self._put(result, self.rep(first), None)
        count = self._counter(op, bounds)
        head, body, leave = code.fresh("head"), code.fresh("body"), code.fresh("done")
        code.jump(head)
        code.start(head)
        for arg, slot in zip(args, slots, strict=True):
            self.reps[arg] = self._get(slot)
        self.reps[region.args[0]], runs = count.begin()
        on = self.both(entry_mask, runs)
        code.branch(self._any(on), body, leave)
        code.start(body)

        def turn() -> None:
            mask = self.mask
            self._pass(region, slots, (), None, None)
            for slot, result in shared:
                self._put(result, self._get(slot), mask)

        self._turn(on, turn, twice=entry_mask is None and size_of_body(region.body) <= TWICE)
        count.step()
        code.jump(head)
        code.start(leave)
        self.mask = entry_mask
        for value, slot in zip(op.results, results, strict=True):
            self.reps[value] = self._get(slot)

    def _pass(
        self,
        region: Region,
        slots: Sequence[Slot],
        results: Sequence[Slot],
        again: str | None,
        gone: str | None,
    ) -> None:
        """One pass through the body of a loop that lanes leave one by one."""
        following = Target(slots, self.mask, "", straight=False, taken=again)
        out = Target(results, self.mask, "", straight=False, taken=gone)
        self._state.loops.append(Loop(following, out))
        self._state.joins.append(following)
        self._region(region.body)
        self._state.joins.pop()
        self._state.loops.pop()

    def _turn(self, on: str, turn: Callable[[], None], *, twice: bool) -> None:
        """One pass of an uneven loop's body, whose lanes `on` are known to be some."""
        code, done = self.code, self.code.fresh("turn_done")
        if twice:
            full, part = code.fresh("all"), code.fresh("part")
            code.branch(self._all(on), full, part)
            code.start(full)
            self._once(None, turn, done, retreat=part)
            code.start(part)
            on = self._made_here(on)
        self._once(on, turn, done)
        code.start(done)

    def _counter(self, op: Operation, bounds: Sequence[Rep]) -> Counter:
        start, stop, step = bounds
        forward = step.kind == "same" and op.operands[2] in self.host.positive
        kinds = [
            self._plain_line(r, v) for r, v in zip((start, stop), op.operands[:2], strict=True)
        ]
        if forward and all(kinds) and start.step - stop.step >= 0 and stop.kind == "same":
            small = self.host.small.issuperset(op.operands[:3])
            return LineCounter(self, start, stop, step, small=small)
        short = self.host.short.issuperset(op.operands[:3]) and op.operands[2] in self.host.positive
        return VectorCounter(self, *bounds, short=short)

    def _plain_line(self, rep: Rep, value: Value) -> bool:
        return rep.kind == "same" or (rep.kind == "line" and value in self.host.exact)


def _exits(op: Operation) -> set[ops.Spec]:
    return {inner.spec for inner in walk(op.regions[0]) if inner.spec.terminator}
