"""Control flow: C++ branches and loops where all lanes agree, masks where they part."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

from hetir.backends.ascend.simd_memory import Memory
from hetir.backends.ascend.simd_program import (
    Access,
    Block,
    Branch,
    Buffer,
    Declare,
    Instr,
    Loop,
    Node,
    blocks_of,
)
from hetir.backends.ascend.simd_reps import (
    FULL,
    Affine,
    Bits,
    Box,
    Mask,
    Num,
    Pointer,
    Rep,
    Tensor,
    Uniform,
    grouped,
    plus,
)
from hetir.backends.ascend.simd_scalar import c_type
from hetir.backends.ascend.simd_state import users_of
from hetir.ir import ops
from hetir.ir.core import Operation, Region, Value
from hetir.ir.types import BOOL, I64, U64, RefType, Type
from hetir.passes.lower_exits import trip_count
from hetir.passes.regions import end, make_const, make_if, simple


class Loops(Memory, ABC):
    """The structured ops of a kernel."""

    varying_values: set[Value]
    positive: frozenset[Value]
    parameters: dict[Value, str]
    kept: set[Buffer]
    """Buffers that are carried, or read in more than one place of the program."""

    # ---- helpers -------------------------------------------------------------------------

    @abstractmethod
    def op(self, op: Operation) -> None:
        """Emit one op."""

    @abstractmethod
    def plain(self, op: Operation) -> None:
        """Emit a pure op."""

    @abstractmethod
    def block_of(self, region: Region) -> None:
        """Emit a region without its terminator."""

    def varies(self, value: Value) -> bool:
        """Whether a value needs lanes."""
        return self.known.varying(value) or value in self.varying_values

    def text_of(self, value: Value) -> Num:
        """The text of a uniform value."""
        rep = self.reps[value]
        assert isinstance(rep, Uniform | Pointer)
        return rep.text

    def grouped_text(self, value: Value) -> str:
        """The text of a uniform value beside an operator."""
        return grouped(str(self.text_of(value)))

    @contextmanager
    def under(self, mask: Mask) -> Generator[None]:
        """Emit with other lanes on."""
        outer, self.mask = self.mask, mask
        yield
        self.mask = outer

    @contextmanager
    def in_group(self) -> Generator[None]:
        """Emit at the start of a workgroup's turn."""
        stack, self.stack = self.stack, [self.group_block]
        note, self.note = self.note, ""
        yield
        self.stack, self.note = stack, note

    group_block: Block

    # ---- masks ---------------------------------------------------------------------------

    def intersect(self, a: Box, b: Box) -> Box:
        """The lanes in both ranges."""
        bounds: list[tuple[Num, Num] | None] = []
        for axis, (one, two) in enumerate(zip(a.bounds, b.bounds, strict=True)):
            if one is None or two is None or one == two:
                bounds.append(one or two)
                continue
            low, extent = self._most(one[0], two[0], "Greater"), self.shape.extents[axis]
            ends = [e for e in (one[1], two[1]) if e != extent]  # none lies beyond it
            high = self._most(ends[0], ends[-1], "Lesser") if ends else extent
            bounds.append((low, high))
        return Box((bounds[0], bounds[1], bounds[2]))

    def _most(self, a: Num, b: Num, name: str) -> Num:
        if a == b:
            return a
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b) if name == "Greater" else min(a, b)
        if name == "Greater" and 0 in (a, b):
            return b if a == 0 else a
        return self.scalar("int32_t", "lanes_end", f"{name}<int32_t>({a}, {b})")

    def outside(self, box: Box) -> Box | None:
        """The lanes outside a range that touches an end of its only axis."""
        axis = box.single
        if axis is None:
            return None
        low, high = box.bounds[axis] or (0, 0)
        extent = self.shape.extents[axis]
        if low == 0:
            bound = (high, extent)
        elif high == extent:
            bound = (0, low)
        else:
            return None
        x, y, z = (bound if a == axis else None for a in range(3))
        return Box((x, y, z))

    def lanes_end(self, name: str, first: Num, stop: Num, axis: int, factor: int) -> Num:
        """How many lanes of an axis lie below a number, or not above it."""
        extent = self.shape.extents[axis]
        if isinstance(first, int) and isinstance(stop, int):
            room = stop - first - (name == "LanesBelow")
            return min(max(room // factor + 1, 0), extent)
        steps = f", {factor}" if factor != 1 else ""
        text = f"{name}({first}, {stop}, {extent}{steps})"
        return self.scalar("int32_t", "lanes_end", text)

    def both(self, mask: Mask, cond: Rep) -> Mask:
        """The lanes of a mask where a condition holds."""
        if isinstance(mask, Box) and isinstance(cond, Box):
            return self.intersect(mask, cond)
        if mask == FULL:
            assert isinstance(cond, Bits)
            return cond
        return self.bits_op("And", self.rep_bits(mask), self.rep_bits(cond))

    def without(self, mask: Mask, cond: Rep) -> Mask:
        """The lanes of a mask where a condition does not hold."""
        if isinstance(cond, Box):
            rest = self.outside(cond)
            if rest is not None:
                return self.both(mask, rest)
        off = self.bits_op("Not", self.rep_bits(cond))
        return self.both(mask, off)

    def any_of(self, mask: Mask) -> str:
        """C++ text that is true where a lane is on."""
        if isinstance(mask, Box):
            tests = [f"{low} < {high}" for low, high in filter(None, mask.bounds)]
            return " && ".join(tests) if tests else "true"
        text = f"AnyLane({mask.buffer.name}, {self.shape.items})"
        return self.scalar("bool", "some", text, [Access(mask.buffer)])

    def agreed(self, op: Operation) -> Rep:
        """A value that the kernel promises to be the same for all work-items."""
        value = op.operands[0]
        if self.pending(value):
            self.flush()
        rep = self.reps[value]
        if isinstance(rep, Uniform):
            return rep
        lane = self.first_lane()
        text, reads = self.rep_text(rep, value.type)
        coords = dict(
            zip(("item_x", "item_y", "item_z"), _split(self.shape.extents, lane), strict=True)
        )
        text = re.sub(r"\blane\b", lane, text)
        for name, shown in coords.items():
            text = re.sub(rf"\b{name}\b", shown, text)
        return Uniform(self.scalar(c_type(value.type), op.result.name or "agreed", text, reads))

    def first_lane(self) -> str:
        """The first lane that is on."""
        if isinstance(self.mask, Bits):
            text = f"FirstLane({self.mask.buffer.name}, {self.shape.items})"
            return self.scalar("int32_t", "first", text, [Access(self.mask.buffer)])
        x, y, z = (b[0] if b else 0 for b in self.mask.bounds)
        gx, gy, _ = self.shape.extents
        return (
            str(plus(x, f"{gx} * ({plus(y, f'{gy} * {grouped(str(z))}')})")) if y or z else str(x)
        )

    # ---- moving values -------------------------------------------------------------------

    def move(
        self, targets: Sequence[Target], values: Sequence[Value], mask: Mask, user: Operation
    ) -> None:
        """Assign several values at once: none is overwritten before it is read."""
        pairs = [(t, v) for t, v in zip(targets, values, strict=True) if t is not None]
        held = {t for t, _ in pairs if isinstance(t, Buffer)}
        names = {t for t, _ in pairs if isinstance(t, str)}
        for target, value in pairs:
            rep = self.reps.get(value)
            if isinstance(rep, Tensor | Bits) and rep.buffer in held and rep.buffer is not target:
                self.reps[value] = self._saved(value, rep)
            elif isinstance(rep, Uniform) and rep.text != target and _mentions(rep.text, names):
                self.reps[value] = Uniform(self.scalar(c_type(value.type), "next", rep.text))
        exported: list[tuple[Buffer, Value]] = []
        for target, value in pairs:
            if isinstance(target, Buffer) and self.pending(value):
                self.assign(target, value, mask, user)
                exported.append((target, value))
        self.flush()
        for target, value in pairs:
            if isinstance(target, str):
                text = str(self.text_of(value))
                if text != target:
                    self.instr("S", f"{target} = {text};")
            elif (target, value) not in exported:
                ends = user.spec.terminator and mask == FULL
                if not (ends and self._renamed(target, value)):
                    self.assign(target, value, mask)

    def _renamed(self, target: Buffer, value: Value) -> bool:
        """Let the instruction that made a value in this block write it to its place at once.

        Everything else that uses the value has been emitted, for it ends the block.
        """
        rep, nodes = self.reps.get(value), self.block.nodes
        if not isinstance(rep, Tensor) or rep.start != 0 or rep.buffer in (target, *self.kept):
            return False
        made = rep.buffer
        if (made.kind, made.count) != (target.kind, target.count):
            return False
        at = next((i for i, n in enumerate(nodes) if _touches(n, made)), len(nodes))
        if not nodes[at:] or not _makes(nodes[at], made, target):
            return False
        if any(_touches(n, target) or _writes(n, made) for n in nodes[at + 1 :]):
            return False
        for node in nodes[at:]:
            _rename(node, made, target)
        self.reps[value] = Tensor(target, target.kind)
        return True

    def _saved(self, value: Value, rep: Tensor | Bits) -> Rep:
        if isinstance(rep, Bits):
            return self.bits_op("Or", rep, rep)
        made = Tensor(self.buffer("next", rep.kind), rep.kind)
        self.copy_lanes(made, rep, None)
        return made

    def home(self, value: Value, hint: str) -> Buffer | str:
        """A place for a value that changes: a buffer of lanes or a C++ variable."""
        if self.varies(value):
            return self.buffer_for(value.type, hint)
        return self.fresh(hint)

    def settle(self, value: Value, home: Buffer | str) -> None:
        """From here on a value is what its place holds."""
        if isinstance(home, Buffer):
            self.reps[value] = self.held(home, value.type)
        elif isinstance(value.type, RefType):
            self.reps[value] = Pointer(home, self.anywhere)
        else:
            self.reps[value] = Uniform(home)

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
        homes = [self.home(v, v.name or "chosen") for v in op.results]
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
            self.settle(value, home)

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
            homes.append(None if yes is no else self.buffer_for(value.type, value.name or "chosen"))
            if yes is no:
                self.reps[value] = self.reps[yes]
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
        head, last = self._head(op, index, self.text_of(op.operands[0]))
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
        factor = start.factors[axis]
        assert isinstance(factor, int)
        stop = self.text_of(op.operands[1])
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

    # ---- subgroups -----------------------------------------------------------------------

    def shuffle(self, op: Operation) -> None:
        """Another lane's value, or 0 from one that is not there or takes no part."""
        self.flush()
        self.at(op)
        found = self._shuffled_vector(op)
        if found is None:
            found = self._shuffled_lanes(op)
        self.reps[op.result] = found

    def _shuffled_lanes(self, op: Operation) -> Rep:
        value, index, where = op.operands
        width, mode = self.kernel.options.width, str(op.attrs["mode"])
        source = self.held_lanes(value)
        to = self.buffer_for(op.result.type, op.result.name or "shuffled")
        at, reads = self.rep_text(self.reps[index], I64)
        own = f"lane % {width}"
        column = {
            "index": at,
            "xor": f"({own} ^ {at})",
            "up": f"({own} - {at})",
            "down": f"({own} + {at})",
        }[mode]
        text, more = self.rep_text(source, value.type)
        part, parts = self.rep_text(self.reps[where], BOOL)
        text, part = (re.sub(r"\blane\b", "from", t) for t in (text, part))
        zero = "false" if value.type == BOOL else f"static_cast<{c_type(value.type)}>(0)"
        there = f"column >= 0 && column < {width} && from < {self.shape.items}"
        taken = there if part == "true" else f"{there} && {part}"
        body = [
            f"const int64_t column = {column};",
            f"const int32_t from = lane / {width} * {width} + static_cast<int32_t>(column);",
        ]
        chosen = f"{taken} ? {text} : {zero}"
        put = f"SetBit({to.name}, lane, {chosen});"
        if value.type != BOOL:
            put = f"{to.name}.SetValue(lane, {chosen});"
        lines, _ = self.lane_loop(FULL, [*body, put])
        if value.type == BOOL:
            lines = [f"ClearMask({to.name}, kLanes);", *lines]
        self.scalar_ops += 1
        held = self.held(to, op.result.type)
        own_bits = [Access(to)] if value.type == BOOL else []
        self.instr("S", lines, (*reads, *more, *parts, *own_bits), [Access(to)], op="lanes")
        return held

    def held_lanes(self, value: Value) -> Rep:
        """A value as something of which any lane can be read."""
        rep = self.reps[value]
        if isinstance(rep, Affine | Box):
            return self.rep_bits(rep) if isinstance(rep, Box) else self.tensor(value)
        return rep

    def _shuffled_vector(self, op: Operation) -> Rep | None:
        """By Gather, where the lane's distance is one number and all lanes take part."""
        value, index, where = op.operands
        known, part = self.reps[index], self.reps[where]
        numeric = isinstance(known, Uniform) and known.text.isdigit()
        everyone = isinstance(part, Uniform) and part.text == "true"
        if not numeric or not everyone or value.type == BOOL:
            return None
        assert isinstance(known, Uniform)
        rep = self.reps[value]
        if isinstance(rep, Affine) or (isinstance(rep, Tensor) and rep.buffer.size not in (2, 4)):
            return None
        source = self.tensor(value)
        if source.buffer.size not in (2, 4):
            return None
        table, there = self.lane_table(str(op.attrs["mode"]), int(known.text), source.buffer.size)
        made = Tensor(self.buffer(op.result.name or "shuffled", source.kind), source.kind)
        line = f"Gather({made.text()}, {source.text()}, {table.text()}, 0, kLanes);"
        self.instr(
            "V", line, [self.access(source), self.access(table)], [self.access(made)], op="Gather"
        )
        if there is None:
            return made
        zero = self.duplicate("0", source.kind, "zero")
        chosen = Tensor(self.buffer("there", source.kind), source.kind)
        self.blend(chosen, there, made, zero)
        return chosen

    def lane_table(self, mode: str, distance: int, size: int) -> tuple[Tensor, Bits | None]:
        """Where each lane reads, in bytes, and which lanes read one that is there."""
        width, items = self.kernel.options.width, self.shape.items
        sources = [_source(mode, lane, distance, width, items) for lane in range(items)]
        key = ("shuffle", mode, distance, size)
        if key not in self.tables:
            own = f"lane % {width}"
            moved = {
                "index": str(distance),
                "xor": f"({own} ^ {distance})",
                "up": f"({own} - {distance})",
                "down": f"({own} + {distance})",
            }[mode]
            with self.at_start():
                made = self.temp("uint32_t", "from_lanes")
                text = f"static_cast<uint32_t>({size} * (lane / {width} * {width} + {moved}))"
                there = f"column >= 0 && column < {width} && from < {items}"
                if None in sources:
                    body = [
                        f"const int32_t column = {moved};",
                        f"const int32_t from = lane / {width} * {width} + column;",
                        f"const bool inside = {there};",
                        f"{made.text()}.SetValue(lane, inside ? {size} * from : 0);",
                    ]
                    bits = Bits(self.bits_buffer("there"))
                    body.append(f"SetBit({bits.buffer.name}, lane, inside);")
                    self._fill(made, bits, body)
                    self.there[key] = bits
                else:
                    self.fill_table(made, text, "0")
                self.tables[key] = made
        return self.tables[key], self.there.get(key)

    there: dict[object, Bits]

    def _fill(self, made: Tensor, bits: Bits, body: list[str]) -> None:
        lines, _ = self.lane_loop(FULL, body)
        if self.shape.items < self.shape.lanes:
            head = f"for (int32_t lane = {self.shape.items}; lane < kLanes; ++lane) {{"
            lines += [head, f"    {made.text()}.SetValue(lane, 0);", "}"]
        lines = [f"ClearMask({bits.buffer.name}, kLanes);", *lines]
        self.instr("S", lines, [Access(bits.buffer)], [self.access(made), Access(bits.buffer)])


Target = Buffer | str | None

# instructions whose result may lie where an operand lies
_IN_PLACE = frozenset(
    ("Add", "Sub", "Mul", "Adds", "Muls", "Max", "Min", "Maxs", "Mins", "And", "Or", "Not", "Abs")
)


def _accesses(node: Node) -> Iterator[tuple[Access, bool]]:
    """What a node and the nodes inside touch, and whether they write it."""
    if isinstance(node, Instr):
        yield from ((a, False) for a in node.reads)
        yield from ((a, True) for a in node.writes)
    for block in blocks_of(node):
        for inner in block.nodes:
            yield from _accesses(inner)


def _touches(node: Node, buffer: Buffer) -> bool:
    declared = isinstance(node, Declare) and node.buffer is buffer
    return declared or any(a.place is buffer for a, _ in _accesses(node))


def _writes(node: Node, buffer: Buffer) -> bool:
    return any(a.place is buffer and writes for a, writes in _accesses(node))


def _makes(node: Node, made: Buffer, target: Buffer) -> bool:
    """Whether an instruction writes a buffer alone, and could write another that it may read."""
    if not isinstance(node, Instr) or [w.place for w in node.writes] != [made]:
        return False
    reads = {a.place for a in node.reads}
    return made not in reads and (target not in reads or node.op in _IN_PLACE)


def _rename(node: Node, old: Buffer, new: Buffer) -> None:
    """Put one buffer in the place of another in a node and the nodes inside."""
    if isinstance(node, Instr):
        word = re.compile(rf"\b{old.name}\b")
        node.lines = [word.sub(new.name, line) for line in node.lines]
        node.reads, node.writes = (
            tuple(Access(new, a.start, a.stop) if a.place is old else a for a in accesses)
            for accesses in (node.reads, node.writes)
        )
    for block in blocks_of(node):
        for inner in block.nodes:
            _rename(inner, old, new)


def _source(mode: str, lane: int, distance: int, width: int, items: int) -> int | None:
    own = lane % width
    moved = {"index": distance, "xor": own ^ distance, "up": own - distance}
    column = moved.get(mode, own + distance)
    source = lane - own + column
    return source if 0 <= column < width and source < items else None


def _split(extents: tuple[int, int, int], lane: str) -> tuple[str, str, str]:
    """A lane's local ids."""
    gx, gy, _ = extents
    return f"({lane} % {gx})", f"({lane} / {gx} % {gy})", f"({lane} / {gx * gy})"


def declared(kind: Type) -> str:
    """The C++ type of a variable."""
    return "GM_ADDR" if isinstance(kind, RefType) else c_type(kind)


def _mentions(text: str, names: set[str]) -> bool:
    return any(word in names for word in re.findall(r"\w+", text))
