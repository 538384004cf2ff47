"""Structured control flow as LLVM blocks and phis, for one work-item (or one lane vector)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hetir.backends.llvm.code import Code
from hetir.ir.core import Operation, Region, Value

Edges = list[tuple[str, tuple[str, ...]]]


@dataclass(slots=True)
class Joint:
    """Where jumps go, and the block and operands of each."""

    label: str
    edges: Edges = field(default_factory=list[tuple[str, tuple[str, ...]]])


@dataclass(frozen=True, slots=True)
class _Head:
    """A loop's header: the block before it, its label, the place of its phis."""

    entry: str
    label: str
    phis: int


@dataclass(slots=True)
class _Loop:
    again: Joint
    leave: Joint


class Structured:
    """Emits regions. Subclasses say how a plain op is emitted and where `return` goes."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.local: dict[Value, str] = {}
        self.watched: set[Value] = set()
        self._loops: list[_Loop] = []
        self._joins: list[Joint] = []

    def operand(self, value: Value) -> str:
        """The LLVM name of a value."""
        return self.local[value]

    def emit(self, op: Operation) -> None:
        """Emit an op without regions that is no terminator."""
        raise AssertionError(op.name)

    def leave(self, op: Operation) -> None:
        """Emit a `return`."""
        raise AssertionError(op.name)

    def watch(self, op: Operation) -> None:
        """Called after an op of which a result is in `watched`."""

    def enter(self, target: Joint) -> None:
        """Until `exit`, terminators outside all loops and ifs go to `target`."""
        self._joins.append(target)
        self._loops.append(_Loop(target, target))

    def exit(self) -> None:
        """Undo `enter`."""
        self._joins.pop()
        self._loops.pop()

    def body(self, body: Sequence[Operation]) -> None:
        """Emit ops, up to and with the terminator if there is one."""
        for op in body:
            if op.spec.regions:
                _CONTROL[op.name](self, op)
            elif op.spec.terminator:
                self._terminate(op)
            else:
                self.emit(op)
            if self.watched and not self.watched.isdisjoint(op.results):
                self.watch(op)

    def _terminate(self, op: Operation) -> None:
        match op.name:
            case "return":
                self.leave(op)
            case "yield":
                self._jump(self._joins[-1], op)
            case "continue":
                self._jump(self._loops[-1].again, op)
            case _:
                self._jump(self._loops[-1].leave, op)

    def _jump(self, target: Joint, op: Operation) -> None:
        target.edges.append((self.code.block, tuple(map(self.operand, op.operands))))
        self.code.jump(target.label)

    def phis(self, target: Joint, values: Sequence[Value]) -> None:
        """Begin the block of a target: one phi a value."""
        self.code.start(target.label)
        if not target.edges:
            self.code.put("unreachable")
            self.code.start(self.code.fresh("dead"))
            self.local.update(dict.fromkeys(values, "poison"))
            return
        for index, value in enumerate(values):
            incoming = ", ".join(f"[ {args[index]}, %{block} ]" for block, args in target.edges)
            self.local[value] = self.code.add(f"phi {self.code.type(value.type)} {incoming}")

    def emit_if(self, op: Operation) -> None:
        """A branch, two regions and the join."""
        code = self.code
        join = Joint(code.fresh("join"))
        then, other = code.fresh("then"), code.fresh("else")
        code.branch(self.operand(op.operands[0]), then, other)
        self._joins.append(join)
        for label, region in zip((then, other), op.regions, strict=True):
            code.start(label)
            self.body(region.body)
        self._joins.pop()
        self.phis(join, op.results)

    def _loop_body(self, region: Region, again: Joint, leave: Joint) -> None:
        self._loops.append(_Loop(again, leave))
        self._joins.append(again)
        self.body(region.body)
        self.exit()

    def _header(self, carried: Sequence[Value]) -> _Head:
        """Begin a loop header, whose phis `_close` fills in."""
        entry, label = self.code.block, self.code.fresh("head")
        self.code.jump(label)
        self.code.start(label)
        for value in carried:
            self.local[value] = "%" + self.code.fresh("c")
        return _Head(entry, label, self.code.reserve())

    def _latch(self, again: Joint, carried: Sequence[Value]) -> tuple[str, ...]:
        """Begin the latch: what the body's exits carry to the next iteration."""
        fresh = tuple(Value(v.type) for v in carried)
        self.phis(again, fresh)
        return tuple(self.local[v] for v in fresh)

    def _close(
        self, head: _Head, carried: Sequence[Value], init: Sequence[str], nexts: Sequence[str]
    ) -> None:
        """Jump back from the latch and write the header's phis."""
        lines = [
            f"  {self.local[v]} = phi {self.code.type(v.type)} "
            f"[ {first}, %{head.entry} ], [ {after}, %{self.code.block} ]"
            for v, first, after in zip(carried, init, nexts, strict=True)
        ]
        self.code.fill(head.phis, lines)
        self.code.jump(head.label)

    def emit_loop(self, op: Operation) -> None:
        """Run the body until a `break`."""
        (region,) = op.regions
        init = tuple(map(self.operand, op.operands))
        head = self._header(region.args)
        again, leave = Joint(self.code.fresh("latch")), Joint(self.code.fresh("done"))
        self._loop_body(region, again, leave)
        self._close(head, region.args, init, self._latch(again, region.args))
        self.phis(leave, op.results)

    def emit_for(self, op: Operation) -> None:
        """Python's range: a trip count without overflow, and a counter."""
        code, (region,) = self.code, op.regions
        start, stop, step = map(self.operand, op.operands[:3])
        count = trip_count(code, start, stop, step)
        init = tuple(map(self.operand, op.operands[3:]))
        index, carried = region.args[0], region.args[1:]
        counter = Value(index.type)
        values, first = (counter, index, *carried), ("0", start, *init)
        head = self._header(values)
        again, leave = Joint(code.fresh("latch")), Joint(code.fresh("done"))
        body = code.fresh("body")
        more = code.add(f"icmp ult i64 {self.local[counter]}, {count}")
        leave.edges.append((code.block, tuple(self.local[v] for v in carried)))
        code.branch(more, body, leave.label)
        code.start(body)
        self._loop_body(region, again, leave)
        nexts = self._latch(again, carried)
        bumped = code.add(f"add nuw i64 {self.local[counter]}, 1")
        moved = code.add(f"add i64 {self.local[index]}, {step}")
        self._close(head, values, first, (bumped, moved, *nexts))
        self.phis(leave, op.results)


def trip_count(code: Code, start: str, stop: str, step: str) -> str:
    """How often Python's `range(start, stop, step)` runs, as an unsigned i64 (in each lane)."""
    kind, flag, nought, one = (
        code.of("i64"),
        code.of("i1"),
        code.number("i64", 0),
        code.number("i64", 1),
    )
    if step == one:
        span = code.add(f"sub {kind} {stop}, {start}")
        some = code.add(f"icmp slt {kind} {start}, {stop}")
        return code.add(f"select {flag} {some}, {kind} {span}, {kind} {nought}")
    up = code.add(f"icmp sgt {kind} {step}, {nought}")
    low = code.add(f"select {flag} {up}, {kind} {start}, {kind} {stop}")
    high = code.add(f"select {flag} {up}, {kind} {stop}, {kind} {start}")
    negated = code.add(f"sub {kind} {nought}, {step}")
    size = code.add(f"select {flag} {up}, {kind} {step}, {kind} {negated}")
    zero = code.add(f"icmp eq {kind} {size}, {nought}")
    divisor = code.add(f"select {flag} {zero}, {kind} {one}, {kind} {size}")
    span = code.add(f"sub {kind} {high}, {low}")
    whole = code.add(f"sub {kind} {span}, {one}")
    steps = code.add(f"udiv {kind} {whole}, {divisor}")
    count = code.add(f"add {kind} {steps}, {one}")
    some = code.add(f"icmp slt {kind} {low}, {high}")
    runs = code.add(f"xor {flag} {zero}, {code.number('i1', -1)}")
    both = code.add(f"and {flag} {some}, {runs}")
    return code.add(f"select {flag} {both}, {kind} {count}, {kind} {nought}")


_CONTROL = {"if": Structured.emit_if, "loop": Structured.emit_loop, "for": Structured.emit_for}
