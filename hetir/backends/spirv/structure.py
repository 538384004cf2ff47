"""Structured control flow as SPIR-V's: headers with their merge blocks, and phis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hetir.backends.spirv.code import Code
from hetir.ir.core import Operation, Region, Value
from hetir.ir.types import I64, Type


@dataclass(slots=True)
class Joint:
    """Where jumps go, and the block and operands of each."""

    label: int
    edges: list[tuple[int, tuple[int, ...]]] = field(
        default_factory=list[tuple[int, tuple[int, ...]]]
    )


@dataclass(frozen=True, slots=True)
class _Head:
    """A loop's header: its label, the block before it, where its phis go and what they are."""

    label: int
    entry: int
    phis: int
    values: tuple[tuple[int, int], ...]


class Structured:
    """Emits regions. Subclasses say how a plain op is emitted."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.ids: dict[Value, int] = {}
        self._joins: list[Joint] = []
        self._loops: list[tuple[Joint, Joint]] = []

    def operand(self, value: Value) -> int:
        """The id of a value."""
        return self.ids[value]

    def type_of(self, kind: Type) -> int:
        """The type of a value that may be a block's argument."""
        return self.code.of(kind)

    def emit(self, op: Operation) -> None:
        """Emit an op without regions that is no terminator."""
        raise AssertionError(op.name)

    def enter(self, loop: Operation) -> None:
        """Called at the start of a loop's body."""

    def region(self, body: Sequence[Operation]) -> None:
        """Emit ops, up to and with the terminator; what cannot be reached is left out."""
        for op in body:
            if not self.code.alive:
                return
            self.code.at(op.loc)
            match op.name:
                case "if":
                    self._if(op)
                case "loop":
                    self._loop(op)
                case "for":
                    self._for(op)
                case "return":
                    self.code.end("OpReturn")
                case "yield":
                    self._jump(self._joins[-1], op)
                case "continue":
                    self._jump(self._loops[-1][0], op)
                case "break":
                    self._jump(self._loops[-1][1], op)
                case _:
                    self.emit(op)

    def _jump(self, target: Joint, op: Operation) -> None:
        target.edges.append((self.code.block, tuple(map(self.operand, op.operands))))
        self.code.jump(target.label)

    def _meet(self, target: Joint, kinds: Sequence[Type]) -> tuple[int, ...]:
        """Begin a target's block, a phi a value; a block that nobody jumps to ends at once."""
        self.code.start(target.label)
        if not target.edges:
            self.code.end("OpUnreachable")
            return ()
        return tuple(
            self.code.phi(self.type_of(kind), [(args[i], block) for block, args in target.edges])
            for i, kind in enumerate(kinds)
        )

    def _results(self, op: Operation, target: Joint) -> None:
        found = self._meet(target, [v.type for v in op.results])
        self.ids.update(zip(op.results, found, strict=False))

    def _if(self, op: Operation) -> None:
        code, join = self.code, Joint(self.code.label())
        labels = code.label(), code.label()
        code.fork(self.operand(op.operands[0]), *labels, join.label)
        self._joins.append(join)
        for label, region in zip(labels, op.regions, strict=True):
            code.start(label)
            self.region(region.body)
        self._joins.pop()
        self._results(op, join)

    # ---- loops ---------------------------------------------------------------------------

    def _header(self, kinds: Sequence[int]) -> _Head:
        """Begin a loop's header, whose phis `_close` fills in."""
        code, entry, label = self.code, self.code.block, self.code.label()
        code.jump(label)
        code.start(label)
        values = tuple((kind, code.module.fresh()) for kind in kinds)
        return _Head(label, entry, code.reserve(), values)

    def _body(self, region: Region, again: Joint, leave: Joint) -> None:
        self._loops.append((again, leave))
        self._joins.append(again)
        self.region(region.body)
        self._joins.pop()
        self._loops.pop()

    def _latch(self, again: Joint, kinds: Sequence[Type]) -> tuple[int, ...]:
        """Begin the block that jumps back; one that is never reached must do so, too."""
        if again.edges:
            return self._meet(again, kinds)
        self.code.start(again.label)
        return tuple(self.code.nought(self.type_of(kind)) for kind in kinds)

    def _close(self, head: _Head, initial: Sequence[int], following: Sequence[int]) -> None:
        """Jump back from the latch and write the header's phis."""
        code, block = self.code, self.code.block
        rows = [
            code.module.encode("OpPhi", kind, name, first, head.entry, after, block)
            for (kind, name), first, after in zip(head.values, initial, following, strict=True)
        ]
        code.fill(head.phis, rows)
        code.jump(head.label)

    def _loop(self, op: Operation) -> None:
        """Run the body until a `break`."""
        code, (region,) = self.code, op.regions
        initial = tuple(map(self.operand, op.operands))
        kinds = [v.type for v in region.args]
        head = self._header([self.type_of(kind) for kind in kinds])
        self.ids.update(zip(region.args, (name for _, name in head.values), strict=True))
        again, leave = Joint(code.label()), Joint(code.label())
        body = code.label()
        code.put("OpLoopMerge", leave.label, again.label, "None")
        code.jump(body)
        code.start(body)
        self.enter(op)
        self._body(region, again, leave)
        self._close(head, initial, self._latch(again, kinds))
        self._results(op, leave)

    def _for(self, op: Operation) -> None:
        """Python's range: a trip count without overflow, and a counter."""
        code, (region,) = self.code, op.regions
        start, stop, step = map(self.operand, op.operands[:3])
        count = trip_count(code, start, stop, step)
        wide, kinds = code.int(64), [v.type for v in region.args[1:]]
        initial = (code.number(64, 0), start, *map(self.operand, op.operands[3:]))
        head = self._header([wide, self.type_of(I64), *map(self.type_of, kinds)])
        counter, *carried = (name for _, name in head.values)
        self.ids.update(zip(region.args, carried, strict=True))
        again, leave = Joint(code.label()), Joint(code.label())
        body = code.label()
        more = code.add("OpULessThan", code.bool(), counter, count)
        leave.edges.append((code.block, tuple(carried[1:])))
        code.put("OpLoopMerge", leave.label, again.label, "None")
        code.end("OpBranchConditional", more, body, leave.label)
        code.start(body)
        self.enter(op)
        self._body(region, again, leave)
        following = self._latch(again, kinds)
        bumped = code.add("OpIAdd", wide, counter, code.number(64, 1))
        moved = code.add("OpIAdd", wide, carried[0], step)
        self._close(head, initial, (bumped, moved, *following))
        self._results(op, leave)


def trip_count(code: Code, start: int, stop: int, step: int) -> int:
    """How often Python's `range(start, stop, step)` runs, as an unsigned integer."""
    wide, flag = code.int(64), code.bool()
    zero, one = code.number(64, 0), code.number(64, 1)
    if code.value_of(step) == 1:
        span = code.add("OpISub", wide, stop, start)
        some = code.add("OpSLessThan", flag, start, stop)
        return code.add("OpSelect", wide, some, span, zero)
    up = code.add("OpSGreaterThan", flag, step, zero)
    low = code.add("OpSelect", wide, up, start, stop)
    high = code.add("OpSelect", wide, up, stop, start)
    size = code.add("OpSelect", wide, up, step, code.add("OpSNegate", wide, step))
    moves = code.add("OpINotEqual", flag, step, zero)
    divisor = code.add("OpSelect", wide, moves, size, one)
    whole = code.add("OpISub", wide, code.add("OpISub", wide, high, low), one)
    count = code.add("OpIAdd", wide, code.add("OpUDiv", wide, whole, divisor), one)
    some = code.add("OpSLessThan", flag, low, high)
    runs = code.add("OpLogicalAnd", flag, some, moves)
    return code.add("OpSelect", wide, runs, count, zero)
