"""Control flow of a lane vector: branches where all lanes agree, masks where they part."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hetir.backends.cpu.loops import Loops
from hetir.backends.cpu.program import Leaf
from hetir.backends.cpu.slots import Slot, State, Target, is_short, size_of_body
from hetir.backends.cpu.vectors import NONE, Rep
from hetir.backends.llvm.code import scalar_type
from hetir.ir import ops
from hetir.ir.core import Operation, Region
from hetir.passes.narrow_demands import DIVISIONS

_CHEAP = 12  # ops that are cheaper to do than to branch around


class MaskedLeaf(Loops):
    """Emits a leaf for one vector of work-items."""

    _leaf: Leaf
    _end: str
    _entry_mask: str | None

    def run(self, leaf: Leaf, linear: str, local: tuple[Rep, ...], *, tail: str | None) -> None:
        """Emit a leaf for the items from `linear` on; `tail` masks those that exist."""
        code, host = self.code, self.host
        self.linear, self.local, self._leaf = linear, local, leaf
        self.find_groups(leaf.ops)
        mask = tail
        if host.schedule.masked:
            column = host.frame.column(host.plan.mask)
            where = code.add(f"getelementptr i8, ptr {column}, i64 {linear}")
            gone = code.add(f"load {self.of('i8')}, ptr {where}, align 1")
            runs = code.add(f"icmp eq {self.of('i8')} {gone}, zeroinitializer")
            mask = self.both(mask, runs)
        end = code.fresh("leaf_end")

        def body() -> None:
            self.reps, self._state, self._end = {}, State(), end
            self._unclamped, self._clamp_depth = set(), 0
            self.multiples = {linear, *(r.name for r in local if r.kind == "line")}
            self._entry_mask = self.mask
            for op in leaf.again:
                self.plain(op)
            for value in leaf.inputs:
                self.reps[value] = self.load_context(value)
            self._region(leaf.ops)

        self._under(mask, body, size=size_of_body(leaf.ops))
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
            if not op.spec.pure and op.spec is not ops.LOAD:
                self._retreat = None
            if self._clamps(body, index):
                self._border(body[index:])
                return
            if self._folds(body, index):
                self._unfold(body[index:])
                return
            if self._strides(body, index):
                self._step(body[index:])
                return
            if not op.regions:
                self.plain(op)
                self._watch(op)
                continue
            before = self.mask
            if self._only_returns(op):
                cond = self._condition(op.operands[0])
                if cond.kind == "lanes" and body[index + 1 :]:
                    self.mask = self.both(before, self.other(cond.name))
                    self._rest(body[index + 1 :], twice=before is None)
                    return
            emit = {"if": self._if, "for": self._for, "loop": self._loop}[op.name]
            emit(op)
            if self._state.dead:
                return
            self._watch(op)
            rest = body[index + 1 :]
            if op in divergent.leaky and self.mask is not None and rest:
                self._rest(rest, twice=before is None)
                return

    def _only_returns(self, op: Operation) -> bool:
        """Whether an `if` lets some lanes end, and does nothing else."""
        return (
            op in self.host.divergence.leaky
            and op.spec is ops.IF
            and not op.results
            and not self._state.loops
            and not self.host.schedule.masked
            and op.regions[0].body[0].spec is ops.RETURN
            and _nothing(op.regions[1])
        )

    def _rest(self, body: Sequence[Operation], *, twice: bool) -> None:
        """The ops after lanes have left: only where some are still on; `twice` if all may be."""
        code, mask = self.code, self.mask
        assert mask is not None
        left = self._slot_of("i1", "rest")
        self._put_mask(left, NONE)
        some, skip = code.fresh("rest"), code.fresh("rest_done")

        def run() -> None:
            self._region(body)
            if not self._state.dead:
                self._put_mask(left, self.mask)

        if twice and is_short(body):
            full, part = code.fresh("all"), code.fresh("part")
            code.branch(self._all(mask), full, part)
            code.start(full)
            self._once(None, run, skip, retreat=part)
            code.start(part)
        code.branch(self._any(mask), some, skip)
        code.start(some)
        self._once(self._made_here(mask), run, skip)
        code.start(skip)
        self.mask = self._get_mask(left)

    def _watch(self, op: Operation) -> None:
        for value in op.results:
            if value in self._leaf.outputs:
                self.save_context(value, self.rep(value), value.type, always=not op.regions)

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
                self._under(mask, arm, size=size_of_body(region.body))
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


def _cheap(region: Region) -> bool:
    """Whether a side of an `if` is better done than branched around."""
    *body, end = region.body
    return (
        end.spec is ops.YIELD
        and len(body) <= _CHEAP
        and all(op.spec.pure and op.spec not in (*DIVISIONS, ops.VIEW) for op in body)
    )


def _nothing(region: Region) -> bool:
    return (
        len(region.body) == 1 and region.body[0].spec is ops.YIELD and not region.body[0].operands
    )
