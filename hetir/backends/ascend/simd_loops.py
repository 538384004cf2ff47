"""Control flow: C++ branches and loops where all lanes agree, masks where they part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from hetir.backends.ascend.simd_moves import Moves, declared
from hetir.backends.ascend.simd_program import (
    Access,
    Block,
    Branch,
    Buffer,
    Loop,
)
from hetir.backends.ascend.simd_reps import (
    FULL,
    Affine,
    Bits,
    Box,
    Mask,
    Num,
    Rep,
    Tensor,
    Uniform,
)
from hetir.backends.ascend.simd_state import storage, users_of
from hetir.ir import ops
from hetir.ir.core import Operation, Region, Value, walk
from hetir.ir.types import U64
from hetir.passes.lower_exits import trip_count
from hetir.passes.regions import end, make_const, make_if, simple
from hetir.source import Loc

_BOUND = 32  # characters of a bound that a loop may name itself


class Loops(Moves, ABC):
    """The structured ops of a kernel."""

    positive: frozenset[Value]
    parameters: dict[Value, str]

    @abstractmethod
    def op(self, op: Operation) -> None:
        """Emit one op."""

    @abstractmethod
    def plain(self, op: Operation) -> None:
        """Emit a pure op."""

    @abstractmethod
    def block_of(self, region: Region) -> None:
        """Emit a region without its terminator."""

    # ---- if ------------------------------------------------------------------------------

    def branch(self, op: Operation) -> None:
        """Run one of two regions, or both under their masks."""
        cond = op.operands[0]
        if self.pending(cond):
            self.flush()
        rep = self.reps[cond]
        if isinstance(rep, Uniform):
            self._uniform_if(op, rep.text)
        elif all(o.spec.pure or o.spec.terminator for r in op.regions for o in r.body):
            self._select_if(op)
        else:
            self._masked_if(op, rep)

    def _uniform_if(self, op: Operation, cond: str) -> None:
        self.flush()
        self.at(op)
        homes: list[Buffer | str | None] = []
        for index, value in enumerate(op.results):
            sides = [r.terminator.operands[index] for r in op.regions]
            found = next(filter(None, (self._replaced(op, v) for v in sides)), None)
            homes.append(found or self.home(value, value.name or "chosen"))
        for value, home in zip(op.results, homes, strict=True):
            if isinstance(home, str):
                self.instr("S", f"{declared(value.type)} {home};")
        node = Branch(cond, Block(), Block())
        for region, block in zip(op.regions, (node.then, node.other), strict=True):
            with self.inside(block):
                self.block_of(region)
                self.move(homes, region.terminator.operands, FULL, region.terminator)
        if node.then.nodes or node.other.nodes:
            self.block.nodes.append(node)
        for value, home in zip(op.results, homes, strict=True):
            assert home is not None
            self.settle(value, home)

    def _replaced(self, op: Operation, old: Value) -> Buffer | None:
        """The buffer of a value that one side of an `if` leaves alone and nothing needs after it.

        The result may live there: the other side alone moves anything.
        """
        rep, (then, other) = self.reps.get(old), op.regions
        if not isinstance(rep, Tensor) or rep != Tensor(rep.buffer, storage(old.type)):
            return None
        ends = [*then.terminator.operands, *other.terminator.operands]
        here = old in self.region.args or any(old in o.results for o in self.region.body)
        inner = {o for r in op.regions for o in walk(r)}
        if not here or ends.count(old) != 1 or not inner.issuperset(self.users[old]):
            return None
        others = (*(r for v, r in self.reps.items() if v is not old), *self.tables.values())
        alone = all(getattr(r, "buffer", None) is not rep.buffer for r in others)
        return rep.buffer if alone and rep.buffer.kind == rep.kind else None

    def _select_if(self, op: Operation) -> None:
        """Both sides for all lanes, then a choice."""
        for region in op.regions:
            for inner in region.body[:-1]:
                self.op(inner)
        ends = [r.terminator for r in op.regions]
        for index, value in enumerate(op.results):
            yes, no = (e.operands[index] for e in ends)
            if yes is no and not self.pending(yes):
                self.reps[value] = self.reps[yes]
                continue
            choice = Operation(ops.SELECT, (op.operands[0], yes, no), (value,), {}, (), op.loc)
            for operand in choice.operands:
                users = self.users.setdefault(operand, [])
                users[:] = [u for u in users if u not in ends] + [choice]
            self.plain(choice)

    def _masked_if(self, op: Operation, cond: Rep) -> None:
        self.flush()
        self.at(op)
        outer = self.mask
        arms = list(op.regions)
        pairs = zip(*(r.terminator.operands for r in arms), strict=True)
        homes: list[Buffer | None] = []
        for value, (yes, no) in zip(op.results, pairs, strict=True):
            if yes is no:
                self.reps[value] = self.reps[yes]
                homes.append(None)
                continue
            idle = no if len(arms[1].body) == 1 else yes if len(arms[0].body) == 1 else None
            found = None if idle is None else self._replaced(op, idle)
            homes.append(found or self.buffer_for(value.type, value.name or "chosen"))
        order = [0, 1]
        if len(arms[1].body) == 1:
            # the empty side is the default of all lanes
            self.move(homes, arms[1].terminator.operands, FULL, arms[1].terminator)
            order = [0]
        elif len(arms[0].body) == 1:
            self.move(homes, arms[0].terminator.operands, FULL, arms[0].terminator)
            order = [1]
        for number, at in enumerate(order):
            mask = self.both(outer, cond) if at == 0 else self.without(outer, cond)
            node = Branch(self.any_of(mask), Block(), Block())
            whole = number == 0 and len(order) == 2
            with self.inside(node.then), self.under(mask):
                self.block_of(arms[at])
                last = arms[at].terminator
                self.move(homes, last.operands, FULL if whole else mask, last)
            self.block.nodes.append(node)
        for value, home in zip(op.results, homes, strict=True):
            if home is not None:
                self.settle(value, home)

    # ---- for -----------------------------------------------------------------------------

    def counted(self, op: Operation) -> None:
        """A `for`: of scalars, of lanes that start apart, or of lanes that count for themselves."""
        if any(self.pending(v) for v in op.operands):
            self.flush()
        self.flush()
        stop = self.reps[op.operands[1]]
        if isinstance(stop, Uniform) and len(stop.text) > _BOUND:
            # read on every round: computed once
            self.reps[op.operands[1]] = Uniform(self.scalar("int64_t", "stop", stop.text))
            self._counted(op)
            self.reps[op.operands[1]] = stop
        else:
            self._counted(op)

    def _counted(self, op: Operation) -> None:
        start, stop, step = (self.reps[v] for v in op.operands[:3])
        if isinstance(stop, Uniform) and isinstance(step, Uniform):
            if isinstance(start, Uniform):
                self._uniform_for(op)
                return
            if self._staggered(op, start):
                assert isinstance(start, Affine)
                self._uneven_for(op, start)
                return
        self._counting_loop(op)

    def _staggered(self, op: Operation, start: Rep) -> bool:
        """Lanes that start one after the other along an axis, and go on in equal steps."""
        if not isinstance(start, Affine) or len(start.axes) != 1:
            return False
        factor = start.factors[start.axes[0]]
        known = op.operands[0] in self.safe and self._ends(op)
        return isinstance(factor, int) and factor > 0 and known and self._forward(op.operands[2])

    def _ends(self, op: Operation) -> bool:
        """Whether the index cannot pass the largest number on its last step."""
        return op.operands[1] in self.safe or op.regions[0].args[0] in self.safe

    def _forward(self, step: Value) -> bool:
        text = str(self.text_of(step))
        return step in self.positive or (text.isdigit() and text != "0")

    def _head(self, op: Operation, name: str, start: Num) -> tuple[str, str]:
        """The head of a loop over a range, and a line for the end of its body."""
        stop, step = (str(self.text_of(v)) for v in op.operands[1:3])
        if self._forward(op.operands[2]) and self._ends(op):
            plus_step = f"++{name}" if step == "1" else f"{name} += {step}"
            return f"for (int64_t {name} = {start}; {name} < {stop}; {plus_step})", ""
        left = self.fresh(f"{name}_left")
        count = f"TripCount({start}, {stop}, {step})"
        self.instr("S", [f"int64_t {name} = {start};"])
        return (
            f"for (uint64_t {left} = {count}; {left} != 0; --{left})",
            f"{name} = WrapAdd<int64_t>({name}, {step});",
        )

    def _uniform_for(self, op: Operation) -> None:
        (body,) = op.regions
        self.at(op)
        homes = self._carry(op, body.args[1:], op.operands[3:])
        index = self.fresh(body.args[0].name or "i")
        first = self.text_of(op.operands[0])
        head, last = self._head(op, index, first)
        if not last:
            self.facts.counts(index, *(_number(self.text_of(v)) for v in op.operands[:3]))
        node = Loop(head, Block())
        self.reps[body.args[0]] = Uniform(index)
        with self.inside(node.body):
            self.block_of(body)
            self.move(homes, body.terminator.operands, FULL, body.terminator)
            if last:
                self.instr("S", last)
        self.block.nodes.append(node)
        for value, home in zip(op.results, homes, strict=True):
            self.settle(value, home)

    def _carry(
        self, op: Operation, args: Sequence[Value], initial: Sequence[Value]
    ) -> list[Buffer | str]:
        """Places for the carried values, with their first values."""
        homes = [self.home(a, a.name or "carried") for a in args]
        for value, home in zip(args, homes, strict=True):
            if isinstance(home, str):
                first = initial[args.index(value)]
                self.instr("S", f"{declared(value.type)} {home} = {self.text_of(first)};")
        lanes = [h if isinstance(h, Buffer) else None for h in homes]
        self.kept.update(h for h in lanes if h is not None)
        self.move(lanes, initial, FULL, op)
        for value, home in zip(args, homes, strict=True):
            self.settle(value, home)
        return homes

    def _uneven_for(self, op: Operation, start: Affine) -> None:
        """All lanes go round together; those past the end are off."""
        (body,) = op.regions
        self.at(op)
        args = body.args[1:]
        homes = self._carry(op, args, op.operands[3:])
        results = self._apart(op, args, homes)
        (axis,) = start.axes
        index = self.fresh(f"{body.args[0].name or 'i'}_first")
        head, _ = self._head(op, index, start.base)
        stop, step = (_number(self.text_of(v)) for v in op.operands[1:3])
        self.facts.counts(index, start.base, stop, step)
        node = Loop(head, Block())
        self.reps[body.args[0]] = Affine(index, start.factors)
        with self.inside(node.body):
            mask = self._inside_range(op, index, start, axis)
            prefix = self.mask == FULL or (isinstance(self.mask, Box) and self.mask.prefix())
            block = Block() if not prefix else self.block
            cond = "" if prefix else self.any_of(mask)
            with self.inside(block), self.under(mask):
                self.block_of(body)
                self._carry_on(body.terminator, homes, results, mask)
            if not prefix:
                self.block.nodes.append(Branch(cond, block, Block()))
        self.block.nodes.append(node)
        for value, home, result in zip(op.results, homes, results, strict=True):
            self.settle(value, result or home)

    def _inside_range(self, op: Operation, index: str, start: Affine, axis: int) -> Mask:
        factor, base = start.factors[axis], start.base
        assert isinstance(factor, int)
        stop, step = (_number(self.text_of(v)) for v in op.operands[1:3])
        if isinstance(base, int) and isinstance(stop, int) and isinstance(step, int):
            last = base + max(stop - base - 1, 0) // step * step
            if last + factor * (self.shape.extents[axis] - 1) < stop:
                return self.mask  # each round is for all lanes
        end_ = self.lanes_end("LanesBelow", index, stop, axis, factor)
        x, y, z = ((0, end_) if a == axis else None for a in range(3))
        return self.both(self.mask, Box((x, y, z)))

    def _apart(
        self, op: Operation, args: Sequence[Value], homes: Sequence[Buffer | str]
    ) -> list[Buffer | None]:
        """Buffers for results that differ between lanes though the carried values do not."""
        found: list[Buffer | None] = []
        for value, arg, home in zip(op.results, args, homes, strict=True):
            apart = isinstance(home, str) and self.varies(value) and value in self.users
            made = self.buffer_for(value.type, value.name or "result") if apart else None
            if made is not None:
                self.assign(made, arg, FULL)
            found.append(made)
        return found

    def _carry_on(
        self,
        last: Operation,
        homes: Sequence[Buffer | str],
        results: Sequence[Buffer | None],
        mask: Mask,
    ) -> None:
        values = last.operands
        # a lane's result is what it carried last
        for value, made in zip(values, results, strict=True):
            if made is not None:
                self.assign(made, value, mask)
        self.move(homes, values, mask, last)

    def _counting_loop(self, op: Operation) -> None:
        """A `for` whose bounds differ from lane to lane, as a `loop` that counts down."""
        (body,) = op.regions
        start, stop, step, *initial = op.operands
        made: list[Operation] = []
        if str(self.text_of(step) if isinstance(self.reps[step], Uniform) else "") == "1":
            count = _distance(start, stop, made, op.loc)
        else:
            count = trip_count(start, stop, step, made, op.loc)
        left, index = Value(U64, "left"), body.args[0]
        one, zero = make_const(U64, 1, op.loc), make_const(U64, 0, op.loc)
        less = simple(ops.SUB, left, one.result, loc=op.loc)
        done = simple(ops.EQ, left, one.result, loc=op.loc)
        after = simple(ops.ADD, index, step, loc=op.loc)
        values = body.terminator.operands
        leave = Region((), (end(ops.BREAK, *values, loc=op.loc),))
        going = Region((), (end(ops.YIELD, loc=op.loc),))
        tail = (
            *(one, less, done, after),
            make_if(done.result, (), leave, going, op.loc),
            end(ops.YIELD, after.result, less.result, *values, loc=op.loc),
        )
        inner = Region((index, left, *body.args[1:]), (*body.body[:-1], *tail))
        results = tuple(Value(v.type, v.name) for v in op.results)
        loop = Operation(ops.LOOP, (start, count, *initial), results, {}, (inner,), op.loc)
        run = Region((), (loop, end(ops.YIELD, *results, loc=op.loc)))
        skip = Region((), (end(ops.YIELD, *initial, loc=op.loc),))
        runs = simple(ops.NE, count, zero.result, loc=op.loc)
        guard = make_if(runs.result, [v.type for v in results], run, skip, op.loc)
        guard = Operation(ops.IF, guard.operands, op.results, {}, guard.regions, op.loc)
        todo = [*made, zero, runs, guard]
        self._replace_users(op, body.terminator, todo)
        self.varying_values.update((left, done.result, *results))
        for one_op in todo:
            self.op(one_op)

    def _replace_users(self, op: Operation, last: Operation, todo: Sequence[Operation]) -> None:
        """The new ops use what the old ones did."""
        new = users_of(Region((), tuple(todo)))
        for value, users in new.items():
            old = [u for u in self.users.get(value, ()) if u is not op and u is not last]
            self.users[value] = old + [u for u in users if u not in old]

    # ---- loop ----------------------------------------------------------------------------

    def loop(self, op: Operation) -> None:
        """A loop that all lanes leave together, or one after the other."""
        self.flush()
        (body,) = op.regions
        *before, leave, last = body.body
        assert leave.spec is ops.IF
        assert leave.regions[0].terminator.spec is ops.BREAK
        inner = Region(body.args, (*before, last))
        if self.varies(leave.operands[0]):
            self._divergent_loop(op, inner, leave)
        else:
            self._together(op, inner, leave)

    def _together(self, op: Operation, inner: Region, leave: Operation) -> None:
        self.at(op)
        homes = self._carry(op, inner.args, op.operands)
        results = [self.home(v, v.name or "result") for v in op.results]
        for value, home in zip(op.results, results, strict=True):
            if isinstance(home, str):
                self.instr("S", f"{declared(value.type)} {home};")
        node = Loop("while (true)", Block())
        with self.inside(node.body):
            self.block_of(inner)
            stop = leave.regions[0].terminator
            out = Branch(str(self.text_of(leave.operands[0])), Block(), Block())
            with self.inside(out.then):
                self.move(results, stop.operands, FULL, stop)
                self.instr("S", "break;", leaves=True)
            self.block.nodes.append(out)
            self.move(homes, inner.terminator.operands, FULL, inner.terminator)
        self.block.nodes.append(node)
        for value, home in zip(op.results, results, strict=True):
            self.settle(value, home)

    def _divergent_loop(self, op: Operation, inner: Region, leave: Operation) -> None:
        """Lanes that are done are off; the loop ends when all are."""
        self.at(op)
        outer = self.mask
        homes = self._carry(op, inner.args, op.operands)
        results = [self.buffer_for(v.type, v.name or "result") for v in op.results]
        for buffer in results:
            self.declare(buffer)
        live = self.bits_buffer("live")
        self.assign_bits(Bits(live), outer, FULL)
        node = Loop("while (true)", Block())
        with self.inside(node.body), self.under(Bits(live)):
            self.block_of(inner)
            self._leave(leave, results, Bits(live))
            gone = f"if (!AnyLane({live.name}, {self.shape.items})) break;"
            self.instr("S", gone, [Access(live)], leaves=True)
            self.move(homes, inner.terminator.operands, FULL, inner.terminator)
        self.block.nodes.append(node)
        for value, home in zip(op.results, results, strict=True):
            self.settle(value, home)

    def _leave(self, leave: Operation, results: Sequence[Buffer], live: Bits) -> None:
        cond = leave.operands[0]
        rep = self.reps[cond]
        done = self.rep_bits(rep)
        stop = leave.regions[0].terminator
        leaving = self.bits_op("And", live, done)
        self.move(results, stop.operands, leaving, stop)
        self.bits_op("And", live, self.bits_op("Not", done), into=live)


def _number(text: Num) -> Num:
    return int(text) if isinstance(text, str) and text.isdigit() else text


def _distance(start: Value, stop: Value, out: list[Operation], loc: Loc | None) -> Value:
    """How often a range of step 1 runs."""
    below = simple(ops.LT, start, stop, loc=loc)
    ends = [simple(ops.CAST, v, loc=loc, to=U64) for v in (stop, start)]
    apart = simple(ops.SUB, *(e.result for e in ends), loc=loc)
    none = make_const(U64, 0, loc)
    count = simple(ops.SELECT, below.result, apart.result, none.result, loc=loc)
    out += [below, *ends, apart, none, count]
    return count.result
