"""The index of a `for` that lanes leave one by one."""

from __future__ import annotations

from hetir.backends.cpu.lanes import Lanes, Rep, Span
from hetir.backends.llvm.structure import trip_count
from hetir.ir.types import I64


class Counter:
    """The index of an uneven `for`."""

    def begin(self) -> tuple[Rep, str]:
        """The index, and the lanes for which it is in range."""
        raise AssertionError

    def step(self) -> None:
        """Go to the next index."""
        raise AssertionError


class LineCounter(Counter):
    """Lanes a fixed distance apart, counting up.

    The first one saturates, unless the numbers are known to be `small`: at most 2**61.
    """

    def __init__(self, leaf: Lanes, start: Rep, stop: Rep, step: Rep, *, small: bool) -> None:
        self.leaf, self.stop, self.by, self.small = leaf, stop, step, small
        self.first = start
        self.place = leaf.host.frame.buffer("i64", leaf.code.fresh("index"))
        leaf.code.put(f"store i64 {start.name}, ptr {self.place}, align 64")

    def begin(self) -> tuple[Rep, str]:
        """The index, and the lanes for which it is in range."""
        leaf, code = self.leaf, self.leaf.code
        name = code.add(f"load i64, ptr {self.place}, align 64")
        index = Rep(self.first.kind, name, self.first.step)
        room = self._sum("sub", self.stop.name, name)
        most = max(0, self.first.step * (leaf.width - 1))
        near = code.intrinsic("smin", "i64", ("i64", room), ("i64", str(most + 1)))
        near = code.intrinsic("smax", "i64", ("i64", near), ("i64", "-1"))
        wide = leaf.splat("i32", code.add(f"trunc i64 {near} to i32"))
        row = leaf.row("i32", self.first.step)
        mask = code.add(f"icmp slt {leaf.of('i32')} {row}, {wide}")
        if self.first.step == 1:
            leaf.spans[mask] = Span("0", room)
        return index, mask

    def step(self) -> None:
        """Go to the next index."""
        code = self.leaf.code
        name = code.add(f"load i64, ptr {self.place}, align 64")
        after = self._sum("add", name, self.by.name)
        code.put(f"store i64 {after}, ptr {self.place}, align 64")

    def _sum(self, name: str, a: str, b: str) -> str:
        if self.small:
            return self.leaf.code.add(f"{name} nsw i64 {a}, {b}")
        return self.leaf.code.intrinsic(f"s{name}.sat", "i64", ("i64", a), ("i64", b))


class VectorCounter(Counter):
    """Any starts, stops and steps: a trip count a lane."""

    def __init__(self, leaf: Lanes, start: Rep, stop: Rep, step: Rep) -> None:
        self.leaf = leaf
        names = [leaf.spread(r, I64) for r in (start, stop, step)]
        with leaf.wide():
            self.count = trip_count(leaf.code, *names)
        self.by = names[2]
        self.place = leaf.host.frame.buffer(leaf.of("i64"), leaf.code.fresh("index"))
        self.turns = leaf.host.frame.buffer("i64", leaf.code.fresh("turns"))
        leaf.code.put(f"store {leaf.of('i64')} {names[0]}, ptr {self.place}, align 64")
        leaf.code.put(f"store i64 0, ptr {self.turns}, align 64")

    def begin(self) -> tuple[Rep, str]:
        """The index, and the lanes for which it is in range."""
        leaf, code = self.leaf, self.leaf.code
        name = code.add(f"load {leaf.of('i64')}, ptr {self.place}, align 64")
        turn = leaf.splat("i64", code.add(f"load i64, ptr {self.turns}, align 64"))
        return Rep("lanes", name), code.add(f"icmp ult {leaf.of('i64')} {turn}, {self.count}")

    def step(self) -> None:
        """Go to the next index."""
        leaf, code = self.leaf, self.leaf.code
        name = code.add(f"load {leaf.of('i64')}, ptr {self.place}, align 64")
        after = code.add(f"add {leaf.of('i64')} {name}, {self.by}")
        code.put(f"store {leaf.of('i64')} {after}, ptr {self.place}, align 64")
        turn = code.add(f"load i64, ptr {self.turns}, align 64")
        bumped = code.add(f"add nuw i64 {turn}, 1")
        code.put(f"store i64 {bumped}, ptr {self.turns}, align 64")
