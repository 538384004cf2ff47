"""Where lanes part and meet: code under masks, and stack slots for what is merged.

Whatever is merged (results of `if`s and loops, masks) goes through stack slots, which LLVM
turns into values again. Code under a mask runs only where a lane is on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce

from hetir.backends.cpu.lanes import Lanes
from hetir.backends.cpu.vectors import NONE, Rep
from hetir.backends.llvm.code import scalar_type
from hetir.ir.core import Operation, Region, Value, walk
from hetir.ir.types import Type

TWICE = 400  # ops that are written a second time for the case that all lanes are on


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
class State:
    """What a region's emission changes."""

    dead: bool = False
    joins: list[Target] = field(default_factory=list[Target])
    loops: list[Loop] = field(default_factory=list[Loop])


class Slots(Lanes):
    """Runs code under masks, and merges what it leaves."""

    _state: State
    _retreat: str | None = None  # where to start again under the mask, while that does no harm

    def _region(self, body: Sequence[Operation]) -> None:
        """Emit ops to the end of a region."""
        raise AssertionError

    def _watch(self, op: Operation) -> None:
        """Keep the results of an op that other leaves read."""
        raise AssertionError

    # ---- code under a mask -------------------------------------------------------------

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
        if size <= TWICE and outer is None:
            full, part = code.fresh("all"), code.fresh("part")
            code.branch(self._all(mask), full, part)
            code.start(full)
            self._once(None, body, done, retreat=part)
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

    def _once(
        self, mask: str | None, body: Callable[[], None], done: str, *, retreat: str | None = None
    ) -> None:
        """Run a body that ends at `done`; as long as it has done nothing it may go to `retreat`."""
        self._retreat = retreat
        before, state = dict(self.reps), getattr(self, "_state", None)
        self.mask = mask
        body()
        self._retreat = None
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
        if mask in self.by_row:
            return reduce(lambda a, b: code.add(f"or i1 {a}, {b}"), self.by_row[mask])
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
        if mask in self.by_row:
            return reduce(lambda a, b: self.code.add(f"and i1 {a}, {b}"), self.by_row[mask])
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
        if rep.kind in ("lanes", "rows") and not self.host.known.varying(value):
            return Rep("same", self.scalar(rep, value.type))
        return Rep("lanes", self.spread(rep, value.type)) if rep.kind == "rows" else rep


def is_short(body: Sequence[Operation], start: int = 0, times: int = 1) -> bool:
    """Whether so many copies of a body, from an index on, are few enough ops."""
    left = TWICE // times
    for index in range(start, len(body)):
        left -= size_of_body((body[index],))
        if left < 0:
            return False
    return True


def size_of_body(body: Sequence[Operation]) -> int:
    """How many ops there are, inner ones too."""
    return sum(1 for _ in walk(Region((), tuple(body))))
