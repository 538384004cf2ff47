"""The level above leaves: control that a workgroup or subgroup runs once, and subgroups in turn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable
from contextlib import contextmanager

from hetir.backends.cpu.items import ItemEmitter
from hetir.backends.cpu.program import Control, Exchange, Exit, Leaf, Node, Once, Subgroups
from hetir.backends.llvm.structure import trip_count
from hetir.ir import ops
from hetir.ir.core import Operation, Value


class Levels(ItemEmitter, ABC):
    """Emits the nodes of a level; how leaves and exchanges run is for others to say."""

    _returns: list[str]
    _exits: list[tuple[str, str]]
    _joined: list[str]

    @abstractmethod
    def leaf(self, leaf: Leaf) -> None:
        """Run a leaf for every item of the level."""

    @abstractmethod
    def exchange(self, op: Operation) -> None:
        """Run a subgroup op for the items of the level."""

    def nodes(self, nodes: Iterable[Node]) -> None:
        """Emit a level's program."""
        for node in nodes:
            match node:
                case Once(ops=body):
                    for op in body:
                        self.emit(op)
                    self.outer.update(self.local)
                    self.local.clear()
                case Leaf():
                    self.leaf(node)
                case Exchange(op=op):
                    self.exchange(op)
                case Subgroups(nodes=inner):
                    self._subgroups(inner)
                case Control():
                    self._control(node)
                case Exit(op=op):
                    self._exit(op)

    def read(self, value: Value) -> str:
        """A value that is the same for the whole level."""
        return self.read_item(value, self.first)

    def read_item(self, value: Value, index: str) -> str:
        """A value of one item, outside a leaf."""
        name = self.outer.get(value)
        return self.load(value, index) if name is None else name

    def _exit(self, op: Operation) -> None:
        again_leave = self._exits[-1] if self._exits else ("", "")
        label = {
            ops.YIELD: self._joined[-1] if self._joined else "",
            ops.CONTINUE: again_leave[0],
            ops.BREAK: again_leave[1],
            ops.RETURN: self._returns[-1],
        }[op.spec]
        self.code.jump(label)
        self.code.start(self.code.fresh("dead"))

    def _control(self, node: Control) -> None:
        match node.op.spec:
            case ops.IF:
                self._level_if(node)
            case ops.FOR:
                self._level_for(node)
            case _:
                self._level_loop(node)

    def _level_if(self, node: Control) -> None:
        code = self.code
        join = code.fresh("join")
        labels = code.fresh("then"), code.fresh("else")
        code.branch(self.read(node.op.operands[0]), *labels)
        self._joined.append(join)
        for label, region in zip(labels, node.regions, strict=True):
            code.start(label)
            self.nodes(region)
            code.put("unreachable")
        self._joined.pop()
        code.start(join)

    def _level_loop(self, node: Control) -> None:
        code = self.code
        head, leave = code.fresh("head"), code.fresh("done")
        code.jump(head)
        code.start(head)
        again = self._level_body(node, leave)
        code.start(again)
        code.jump(head)
        code.start(leave)

    def _level_for(self, node: Control) -> None:
        code, op = self.code, node.op
        head, leave, body = code.fresh("head"), code.fresh("done"), code.fresh("body")
        start, stop, step = map(self.read, op.operands[:3])
        count = trip_count(code, start, stop, step)
        entry = code.block
        code.jump(head)
        code.start(head)
        phis = code.reserve()
        counter, index = "%" + code.fresh("k"), "%" + code.fresh("i")
        self.outer[op.regions[0].args[0]] = index
        code.branch(code.add(f"icmp ult i64 {counter}, {count}"), body, leave)
        code.start(body)
        again = self._level_body(node, leave)
        code.start(again)
        bumped = code.add(f"add nuw i64 {counter}, 1")
        moved = code.add(f"add i64 {index}, {step}")
        rows = ((counter, "0", bumped), (index, start, moved))
        code.fill(
            phis, [f"  {n} = phi i64 [ {a}, %{entry} ], [ {b}, %{again} ]" for n, a, b in rows]
        )
        code.jump(head)
        code.start(leave)

    def _level_body(self, node: Control, leave: str) -> str:
        """A loop's body; gives the label that `yield` and `continue` go to."""
        again = self.code.fresh("latch")
        self._joined.append(again)
        self._exits.append((again, leave))
        self.nodes(node.regions[0])
        self._exits.pop()
        self._joined.pop()
        self.code.put("unreachable")
        return again

    def _subgroups(self, nodes: list[Node]) -> None:
        """Run a program for each subgroup of the workgroup."""
        with self.counted("0", self.frame.items(), self.kernel.options.width) as first:
            before, self.first = self.first, first
            end = self.code.fresh("subgroup_end")
            self._returns.append(end)
            self.nodes(nodes)
            self._returns.pop()
            self.code.jump(end)
            self.code.start(end)
            self.first = before

    @contextmanager
    def counted(self, start: str, stop: str, step: int) -> Generator[str]:
        """A loop of the emitter's own: gives the index."""
        code, entry = self.code, self.code.block
        head, body, leave = code.fresh("head"), code.fresh("body"), code.fresh("done")
        code.jump(head)
        code.start(head)
        phi = code.reserve()
        index = "%" + code.fresh("i")
        code.branch(code.add(f"icmp slt i64 {index}, {stop}"), body, leave)
        code.start(body)
        yield index
        latch = code.fresh("latch")
        code.jump(latch)
        code.start(latch)
        after = code.add(f"add nuw nsw i64 {index}, {step}")
        code.fill(phi, [f"  {index} = phi i64 [ {start}, %{entry} ], [ {after}, %{latch} ]"])
        code.jump(head)
        code.start(leave)
