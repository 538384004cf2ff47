"""The index of a `for` that lanes leave one by one."""

from __future__ import annotations

from hetir.backends.cpu.lanes import Lanes
from hetir.backends.cpu.vectors import Rep, Span
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
        by = self.by.name
        if leaf.multiple(self.first.name) and leaf.multiple(by):
            leaf.multiples.add(name)
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
    """Any starts, stops and steps: a trip count a lane.

    Where all bounds are `short`, below 2**31, and steps at least 1, counts have 32 bits, and so
    does the index, whose lanes that are off may wrap. Where starts and steps are alike, so is the
    index: lanes differ only in when they stop.
    """

    def __init__(self, leaf: Lanes, start: Rep, stop: Rep, step: Rep, *, short: bool) -> None:
        self.leaf = leaf
        names = [leaf.spread(r, I64) for r in (start, stop, step)]
        with leaf.wide():
            count = trip_count(leaf.code, *names)
        self.kind = "i32" if short else "i64"
        self.alike = (start.kind, step.kind) == ("same", "same")
        first, self.by, self.count = (self._cut(n) for n in (names[0], names[2], count))
        if self.alike:
            first, self.by = start.name, step.name
        self.index = "i64" if self.alike else leaf.of(self.kind)
        self.place = leaf.host.frame.buffer(self.index, leaf.code.fresh("index"))
        self.turns = leaf.host.frame.buffer(self.kind, leaf.code.fresh("turns"))
        leaf.code.put(f"store {self.index} {first}, ptr {self.place}, align 64")
        leaf.code.put(f"store {self.kind} 0, ptr {self.turns}, align 64")

    def _cut(self, name: str) -> str:
        leaf = self.leaf
        if self.kind == "i64":
            return name
        return leaf.code.add(f"trunc {leaf.of('i64')} {name} to {leaf.of('i32')}")

    def begin(self) -> tuple[Rep, str]:
        """The index, and the lanes for which it is in range."""
        leaf, code, vector = self.leaf, self.leaf.code, self.leaf.of(self.kind)
        index = code.add(f"load {self.index}, ptr {self.place}, align 64")
        turn = leaf.splat(self.kind, code.add(f"load {self.kind}, ptr {self.turns}, align 64"))
        runs = code.add(f"icmp ult {vector} {turn}, {self.count}")
        if self.alike:
            return Rep("same", index), runs
        if self.kind == "i32":
            index = code.add(f"sext {vector} {index} to {leaf.of('i64')}")
        return Rep("lanes", index), runs

    def step(self) -> None:
        """Go to the next index."""
        code, kind = self.leaf.code, self.kind
        index = code.add(f"load {self.index}, ptr {self.place}, align 64")
        after = code.add(f"add {self.index} {index}, {self.by}")
        code.put(f"store {self.index} {after}, ptr {self.place}, align 64")
        turn = code.add(f"load {kind}, ptr {self.turns}, align 64")
        bumped = code.add(f"add nuw {kind} {turn}, 1")
        code.put(f"store {kind} {bumped}, ptr {self.turns}, align 64")
