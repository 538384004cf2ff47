"""Control flow of a lane vector: branches where all lanes agree, masks where they part.

Whatever is merged (results of `if`s and loops, masks) goes through stack slots, which LLVM
turns into values again. Code under a mask runs only where a lane is on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hetir.backends.cpu.counters import Counter, LineCounter, VectorCounter
from hetir.backends.cpu.lanes import NONE, Lanes, Rep
from hetir.backends.cpu.program import Leaf
from hetir.backends.llvm.code import scalar_type
from hetir.backends.llvm.structure import trip_count
from hetir.ir import ops
from hetir.ir.core import Operation, Region, Value, walk
from hetir.ir.types import Type

_TWICE = 400  # ops that are written a second time for the case that all lanes are on
_CHEAP = 12  # ops that are cheaper to do than to branch around


@dataclass(slots=True)
class Slot:
    """A place on the stack for a value in one of its forms."""

    place: str
    kind: Type
    form: str
    step: int = 0


@dataclass(slots=True)
class Target:
    """Where a terminator goes.

    `slots` take the operands; `mask` is the mask at entry; with `straight` a jump that all of
    these lanes take is a real one, to `label`. `taken` collects the lanes that went here
    under masks, and is None where nobody asks. All lanes take a jump `together` or none.
    """

    slots: Sequence[Slot]
    mask: str | None
    label: str
    straight: bool
    taken: str | None = None
    together: bool = False
    jumps: int = 0


@dataclass(slots=True)
class Loop:
    """The targets of `continue` and `break`."""

    again: Target
    leave: Target


@dataclass(slots=True)
class _State:
    """What a region's emission changes."""

    dead: bool = False
    joins: list[Target] = field(default_factory=list[Target])
    loops: list[Loop] = field(default_factory=list[Loop])


class MaskedLeaf(Lanes):
    """Emits a leaf for one vector of work-items."""

    _state: _State
    _leaf: Leaf
    _end: str
    _entry_mask: str | None

    def run(self, leaf: Leaf, linear: str, local: tuple[Rep, ...], *, tail: str | None) -> None:
        """Emit a leaf for the items from `linear` on; `tail` masks those that exist."""
        code, host = self.code, self.host
        self.linear, self.local, self._leaf = linear, local, leaf
        mask = tail
        if host.schedule.masked:
            column = host.frame.column(host.plan.mask)
            where = code.add(f"getelementptr i8, ptr {column}, i64 {linear}")
            gone = code.add(f"load {self.of('i8')}, ptr {where}, align 1")
            runs = code.add(f"icmp eq {self.of('i8')} {gone}, zeroinitializer")
            mask = self.both(mask, runs)
        end = code.fresh("leaf_end")

        def body() -> None:
            self.reps, self._state, self._end = {}, _State(), end
            self.multiples = {linear, *(r.name for r in local if r.kind == "line")}
            self._entry_mask = self.mask
            for op in leaf.again:
                self.plain(op)
            for value in leaf.inputs:
                self.reps[value] = self.load_context(value)
            self._region(leaf.ops)

        self._under(mask, body, size=_size(leaf.ops))
        code.jump(end)
        code.start(end)
        self.mask = None

    # ---- regions -----------------------------------------------------------------------

    def _region(self, body: Sequence[Operation]) -> None:
        """Emit ops to the end of a region; `dead` says that control does not get there."""
        divergent = self.host.divergence
        for index, op in enumerate(body):
            if op.spec.terminator:
                self._terminate(op)
                return
            if not op.regions:
                self.plain(op)
                self._watch(op)
                continue
            emit = {"if": self._if, "for": self._for, "loop": self._loop}[op.name]
            emit(op)
            if self._state.dead:
                return
            self._watch(op)
            rest = body[index + 1 :]
            if op in divergent.leaky and self.mask is not None and rest:
                self._rest(rest)
                return

    def _rest(self, body: Sequence[Operation]) -> None:
        """The ops after lanes have left: only where some are still on."""
        left = self._slot_of("i1", "rest")
        self._put_mask(left, NONE)
        run, skip = self.code.fresh("rest"), self.code.fresh("rest_done")
        self.code.branch(self._any(self.mask), run, skip)
        self.code.start(run)
        self._region(body)
        if not self._state.dead:
            self._put_mask(left, self.mask)
            self.code.jump(skip)
        self._state.dead = False
        self.code.start(skip)
        self.mask = self._get_mask(left)

    def _watch(self, op: Operation) -> None:
        for value in op.results:
            if value in self._leaf.outputs:
                self.save_context(value, self.rep(value), value.type, always=not op.regions)

    def _under(self, mask: str | None, body: Callable[[], None], *, size: int) -> None:
        """Run `body` with the lanes of `mask`, if there are any; twice where that pays.

        Leaves `mask` as the body leaves it undefined: the caller sets it.
        """
        code, outer = self.code, self.mask
        if mask is None or mask == NONE:
            self.mask = mask
            if mask is None:
                body()
                if self._state.dead:
                    self._revive()
            return
        done, some = code.fresh("under_done"), code.fresh("some")
        if size <= _TWICE and outer is None:
            full, part = code.fresh("all"), code.fresh("part")
            code.branch(self._all(mask), full, part)
            code.start(full)
            self._once(None, body, done)
            code.start(part)
        code.branch(self._any(mask), some, done)
        code.start(some)
        self._once(self._made_here(mask), body, done)
        code.start(done)

    def _made_here(self, mask: str) -> str:
        """The mask of a span, made where it is needed and not before it is known that it is."""
        span, code = self.spans.get(mask), self.code
        if span is None:
            return mask
        found: str | None = None
        sides = (("sge", span.low, "0"), ("slt", span.high, str(self.width)))
        for name, limit, whole in sides:
            if limit == whole:
                continue
            near = code.intrinsic("smax", "i64", ("i64", limit), ("i64", "0"))
            near = code.intrinsic("smin", "i64", ("i64", near), ("i64", str(self.width)))
            wide = self.splat("i32", code.add(f"trunc i64 {near} to i32"))
            row = self.row("i32", 1)
            side = code.add(f"icmp {name} {self.of('i32')} {row}, {wide}")
            found = self.both(found, side)
        if found is None:
            return mask
        self.spans[found] = span
        return found

    def _once(self, mask: str | None, body: Callable[[], None], done: str) -> None:
        before, state = dict(self.reps), getattr(self, "_state", None)
        self.mask = mask
        body()
        if not self._state.dead:
            self.code.jump(done)
        if state is not None:
            self._state = state
            self._state.dead = False
        self.reps = before

    def _revive(self) -> None:
        """Go on in a block that nothing reaches."""
        self._state.dead = False
        self.code.start(self.code.fresh("dead"))

    # ---- masks and slots ---------------------------------------------------------------

    def _any(self, mask: str | None) -> str:
        code = self.code
        if mask is None:
            return "true"
        if mask not in self.spans:
            return code.add(f"icmp ne i{self.width} {self.bits(mask)}, 0")
        span = self.spans[mask]
        low = code.intrinsic("smax", "i64", ("i64", span.low), ("i64", "0"))
        high = code.intrinsic("smin", "i64", ("i64", span.high), ("i64", str(self.width)))
        return code.add(f"icmp slt i64 {low}, {high}")

    def _all(self, mask: str) -> str:
        if mask in self.spans:
            span = self.spans[mask]
            first = self.code.add(f"icmp sle i64 {span.low}, 0")
            last = self.code.add(f"icmp sge i64 {span.high}, {self.width}")
            return self.code.add(f"and i1 {first}, {last}")
        return self.code.add(f"icmp eq i{self.width} {self.bits(mask)}, -1")

    def _slot_of(self, scalar: str, hint: str) -> str:
        return self.host.frame.buffer(self.of(scalar), self.code.fresh(hint))

    def _put_mask(self, place: str, mask: str | None) -> None:
        self.code.put(f"store {self.of('i1')} {self.flags(mask)}, ptr {place}, align 64")

    def _get_mask(self, place: str) -> str:
        return self.code.add(f"load {self.of('i1')}, ptr {place}, align 64")

    def _slot(self, kind: Type, form: str, step: int = 0) -> Slot:
        scalar = scalar_type(kind)
        text = self.of(scalar) if form == "lanes" else scalar
        return Slot(self.host.frame.buffer(text, self.code.fresh("slot")), kind, form, step)

    def _put(self, slot: Slot, rep: Rep, mask: str | None) -> None:
        """Write a value; under a mask only its lanes, where the slot has lanes."""
        code, scalar = self.code, scalar_type(slot.kind)
        if slot.form != "lanes":
            if slot.form == "line" and rep.kind != "line":
                raise AssertionError("a carried line is no line after an iteration")
            name = rep.name if rep.kind == slot.form else self.scalar(rep, slot.kind)
            code.put(f"store {scalar} {name}, ptr {slot.place}, align 64")
            return
        name, vector = self.spread(rep, slot.kind), self.of(scalar)
        if mask is not None:
            old = code.add(f"load {vector}, ptr {slot.place}, align 64")
            name = code.add(f"select {self.of('i1')} {mask}, {vector} {name}, {vector} {old}")
        code.put(f"store {vector} {name}, ptr {slot.place}, align 64")

    def _get(self, slot: Slot) -> Rep:
        scalar = scalar_type(slot.kind)
        text = self.of(scalar) if slot.form == "lanes" else scalar
        return Rep(slot.form, self.code.add(f"load {text}, ptr {slot.place}, align 64"), slot.step)

    def _form(self, value: Value) -> str:
        return "lanes" if self.host.known.varying(value) else "same"

    def _condition(self, value: Value) -> Rep:
        """A condition; one that is known to be alike in all lanes as a scalar."""
        rep = self.rep(value)
        if rep.kind == "lanes" and not self.host.known.varying(value):
            return Rep("same", self.scalar(rep, value.type))
        return rep

    # ---- terminators -------------------------------------------------------------------

    def _terminate(self, op: Operation) -> None:
        state = self._state
        match op.name:
            case "yield" if state.joins:
                self._go(state.joins[-1], op, falls=True)
            case "continue" if state.loops:
                self._go(state.loops[-1].again, op)
            case "break" if state.loops:
                self._go(state.loops[-1].leave, op)
            case "return":
                self._return()
            case _:
                self._move(op)

    def _go(self, target: Target, op: Operation, *, falls: bool = False) -> None:
        """Carry operands to a target; jump there, or take the lanes out of the mask."""
        whole = target.straight and self.mask == target.mask
        reps = [self.rep(v) for v in op.operands]
        blend = None if whole else self.mask
        for slot, rep in zip(target.slots, reps, strict=True):
            self._put(slot, rep, blend)
        if target.taken is not None and not whole:
            known = self._get_mask(target.taken)
            self._put_mask(target.taken, self.either(known, self.mask))
        elif target.taken is not None:
            self._put_mask(target.taken, self.mask)
        if falls:
            return
        if target.together and not whole:
            raise AssertionError(f"lanes part at `{op.name}` in a loop that they leave together")
        if whole:
            target.jumps += 1
            self.code.jump(target.label)
            self._state.dead = True
        else:
            self.mask = NONE

    def _return(self) -> None:
        """Work-items end: later leaves skip them."""
        code, host = self.code, self.host
        if host.schedule.masked:
            column = host.frame.column(host.plan.mask)
            where = code.add(f"getelementptr i8, ptr {column}, i64 {self.linear}")
            self.blend(self.of("i8"), where, "splat (i8 1)", 1, "")
        self._leave_leaf()

    def _move(self, op: Operation) -> None:
        """A terminator of the level around: what it carries goes to the context."""
        for value, target in zip(op.operands, self._leaf.moved, strict=True):
            self.save_context(target, self.rep(value), target.type, always=False)
        self._leave_leaf()

    def _leave_leaf(self) -> None:
        straight = all(t.straight for loop in self._state.loops for t in (loop.again, loop.leave))
        if straight and self.mask == self._entry_mask:
            self.code.jump(self._end)
            self._state.dead = True
        elif any(loop.leave.together for loop in self._state.loops):
            raise AssertionError("lanes return alone from a loop that they leave together")
        else:
            self.mask = NONE

    # ---- if ----------------------------------------------------------------------------

    def _if(self, op: Operation) -> None:
        cond = self._condition(op.operands[0])
        if cond.kind == "same":
            self._branch(op, cond.name)
        elif all(_cheap(r) for r in op.regions):
            self._blend_if(op, cond.name)
        else:
            self._part(op, cond.name)

    def _branch(self, op: Operation, cond: str) -> None:
        """All lanes go one way."""
        code, before = self.code, self.mask
        slots = [self._slot(v.type, self._form(v)) for v in op.results]
        left = self._slot_of("i1", "after") if op in self.host.divergence.jumping else ""
        labels = code.fresh("then"), code.fresh("else")
        join = code.fresh("join")
        code.branch(cond, *labels)
        ends: list[str | None] = []
        for label, region in zip(labels, op.regions, strict=True):
            code.start(label)
            reps = dict(self.reps)
            self.mask = before
            self._state.joins.append(Target(slots, before, join, straight=True))
            self._region(region.body)
            self._state.joins.pop()
            self.reps = reps
            if not self._state.dead:
                ends.append(self.mask)
                if left:
                    self._put_mask(left, self.mask)
                code.jump(join)
            self._state.dead = False
        self._state.dead = not ends
        if not ends:
            return
        code.start(join)
        alike = all(end == ends[0] for end in ends)
        self.mask = ends[0] if alike and (ends[0] == before) else before
        if left and not (alike and ends[0] == before):
            self.mask = self._get_mask(left)
        for value, slot in zip(op.results, slots, strict=True):
            self.reps[value] = self._get(slot)

    def _blend_if(self, op: Operation, cond: str) -> None:
        """Do both sides, and choose."""
        chosen: list[list[Rep]] = []
        for region in op.regions:
            for inner in region.body[:-1]:
                self.plain(inner)
            chosen.append([self.rep(v) for v in region.terminator.operands])
        arms = [r.terminator.operands for r in op.regions]
        for index, value in enumerate(op.results):
            a, b = (arm[index] for arm in chosen)
            if arms[0][index] is arms[1][index]:
                self.reps[value] = a
                continue
            vector = self.of(scalar_type(value.type))
            one, two = self.spread(a, value.type), self.spread(b, value.type)
            text = f"select {self.of('i1')} {cond}, {vector} {one}, {vector} {two}"
            self.reps[value] = Rep("lanes", self.code.add(text))

    def _part(self, op: Operation, cond: str) -> None:
        """Each side under its mask."""
        before = self.mask
        plain = not op.results and op not in self.host.divergence.jumping
        if cond in self.factors and plain and _nothing(op.regions[1]):
            self._gated(op, *self.factors[cond])
            return
        masks = self.both(before, cond), self.both(before, self.other(cond))
        slots = [self._slot(v.type, "lanes") for v in op.results]
        jumping = op in self.host.divergence.jumping
        left = [self._slot_of("i1", "after") for _ in op.regions] if jumping else []
        for place in left:
            self._put_mask(place, NONE)
        for index, (mask, region) in enumerate(zip(masks, op.regions, strict=True)):
            if not _nothing(region):
                arm = self._arm(region, slots, left[index] if jumping else "")
                self.mask = before
                self._under(mask, arm, size=_size(region.body))
            elif jumping:
                self._put_mask(left[index], mask)
        self.mask = before
        if jumping:
            self.mask = self.either(*(self._get_mask(place) for place in left))
        arms = [r.terminator.operands for r in op.regions if r.terminator.spec is ops.YIELD]
        for value, slot, *chosen in zip(op.results, slots, *arms, strict=True):
            alike = len(set(chosen)) == 1 and len(chosen) == 2
            self.reps[value] = self.rep(chosen[0]) if alike else self._get(slot)

    def _gated(self, op: Operation, gate: str, cond: str) -> None:
        """One side, behind what all lanes agree on first: LLVM takes that out of loops."""
        run, skip = self.code.fresh("gate_open"), self.code.fresh("gate_shut")
        self.code.branch(gate, run, skip)
        self.code.start(run)
        self._part(op, cond)
        self.code.jump(skip)
        self.code.start(skip)

    def _arm(self, region: Region, slots: Sequence[Slot], left: str) -> Callable[[], None]:
        def body() -> None:
            self._state.joins.append(Target(slots, self.mask, "", straight=False))
            self._region(region.body)
            self._state.joins.pop()
            if left and not self._state.dead:
                self._put_mask(left, self.mask)

        return body

    # ---- loops -------------------------------------------------------------------------

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

        self._turn(on, turn, twice=whole and _size(region.body) <= _TWICE)
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

        self._turn(on, turn, twice=entry_mask is None and _size(region.body) <= _TWICE)
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
            self._once(None, turn, done)
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


def _size(body: Sequence[Operation]) -> int:
    return sum(1 for _ in walk(Region((), tuple(body))))


def _cheap(region: Region) -> bool:
    """Whether a side of an `if` is better done than branched around."""
    *body, end = region.body
    return (
        end.spec is ops.YIELD
        and len(body) <= _CHEAP
        and all(op.spec.pure and op.spec not in (ops.DIV, ops.REM, ops.VIEW) for op in body)
    )


def _nothing(region: Region) -> bool:
    return (
        len(region.body) == 1 and region.body[0].spec is ops.YIELD and not region.body[0].operands
    )


def _exits(op: Operation) -> set[ops.Spec]:
    return {inner.spec for inner in walk(op.regions[0]) if inner.spec.terminator}
