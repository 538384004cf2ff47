"""How a workgroup learns that it stops, and where what it saves lies: the hidden arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from hetir.ir import ops
from hetir.ir.core import Value
from hetir.ir.types import I32, I64, ArrayType, Scalar
from hetir.passes.emit import Emit
from hetir.passes.safe_points import Plan, SafePoint, Slot, elements

NUMBER_BITS = 16
"""Low bits of a status: the safe point. Above them the ticket, the place in the saved state."""
DONE = -1
NOT_STARTED = 0
TICKET, WORDS = 2, 3
"""What a workgroup's first work-item tells the others: two flags, used in turn, and a ticket."""


class Control(IntEnum):
    """The words of the control array (i32)."""

    STOP = 0
    PASSED = 1
    LIMIT = 2
    CAPACITY = 3
    TICKETS = 4


@dataclass(slots=True)
class Names:
    """Values that all of the kernel sees: hidden parameters, ids, a workgroup's own words.

    The words are in shared memory, or behind the `groups` statuses where there is no room.
    """

    control: Value | None
    status: Value | None
    saved: Mapping[Scalar, Value]
    restored: Mapping[Scalar, Value] = field(default_factory=dict[Scalar, Value])
    group: Value = field(init=False)
    local: Value = field(init=False)
    items: Value = field(init=False)
    first: Value = field(init=False)
    start: Value = field(init=False)
    words: Value | None = None
    groups: Value | None = None


class Stopping:
    """Writes the decision to stop, saving at a safe point and arriving at one.

    `env` says what the old kernel's values became. With `counts` a number of safe points decides
    instead of the stop word.
    """

    def __init__(self, plan: Plan, at: Names, *, counts: bool) -> None:
        self.plan = plan
        self.at = at
        self.counts = counts
        self.env: dict[Value, Value] = {}

    # ---- the decision ----------------------------------------------------------------------

    def poll(self, phase: Value, out: Emit) -> None:
        """The first work-item reads whether to stop and writes the flag of this phase."""
        control = self.at.control
        assert control is not None
        order = {"order": "relaxed", "scope": "device"}

        def ask(o: Emit) -> None:
            if self.counts:
                place, one = o.number(Control.PASSED), o.const(I32, 1)
                attrs = {"kind": "add", **order}
                passed = o.emit(ops.ATOMIC_RMW, control, place, one, attrs=attrs).result
                limit = o.value(ops.LOAD, control, o.number(Control.LIMIT))
                stop = o.value(ops.CAST, o.value(ops.GE, passed, limit), to=I32)
            else:
                place = o.number(Control.STOP)
                stop = o.emit(ops.ATOMIC_LOAD, control, place, attrs=order).result
            self.tell(phase, stop, o)

        out.when(self.at.first, ask)

    def told(self, phase: Value, out: Emit) -> Value:
        """Whether the flag of a phase says to stop."""
        return out.value(ops.NE, self.heard(phase, out), out.const(I32, 0))

    def tell(self, which: Value, word: Value, out: Emit) -> None:
        """Write one of the workgroup's words, which the others read behind a barrier."""
        at = self.at
        if at.words is not None:
            out.emit(ops.STORE, at.words, which, word)
        else:
            assert at.status is not None
            wide = out.value(ops.CAST, word, to=I64)
            out.emit(ops.STORE, at.status, self._far(which, out), wide)

    def heard(self, which: Value, out: Emit) -> Value:
        """Read one of the workgroup's words."""
        at = self.at
        if at.words is not None:
            return out.value(ops.LOAD, at.words, which)
        assert at.status is not None
        return out.value(ops.CAST, out.value(ops.LOAD, at.status, self._far(which, out)), to=I32)

    def _far(self, which: Value, out: Emit) -> Value:
        assert self.at.groups is not None
        row = out.value(ops.MUL, self.at.group, out.number(WORDS))
        return out.value(ops.ADD, out.value(ops.ADD, self.at.groups, row), which)

    def publish(self, out: Emit, word: Value) -> None:
        """Write the workgroup's status, after all that it saved."""
        attrs = {"order": "release", "scope": "device"}
        assert self.at.status is not None
        out.emit(ops.ATOMIC_STORE, self.at.status, self.at.group, word, attrs=attrs)

    # ---- a safe point ----------------------------------------------------------------------

    def save(self, point: SafePoint, out: Emit) -> None:
        """Take a place in the state, write what is live there, then the status; and return."""
        at = self.at
        control = at.control
        assert control is not None

        def take(o: Emit) -> None:
            attrs = {"kind": "add", "order": "relaxed", "scope": "device"}
            place, one = o.number(Control.TICKETS), o.const(I32, 1)
            old = o.emit(ops.ATOMIC_RMW, control, place, one, attrs=attrs).result
            self.tell(o.number(TICKET), old, o)

        out.when(at.first, take)
        out.emit(ops.BARRIER, attrs={"scope": "workgroup"})
        ticket = self.heard(out.number(TICKET), out)
        room = out.value(ops.LOAD, control, out.number(Control.CAPACITY))
        wide = out.value(ops.CAST, ticket, to=I64)

        def write(o: Emit) -> None:
            for slot in point.slots:
                self.move(slot, wide, o, saving=True)
            o.emit(ops.BARRIER, attrs={"scope": "workgroup"})
            shifted = o.value(ops.SHL, wide, o.number(NUMBER_BITS))
            word = o.value(ops.OR, shifted, o.number(point.number))
            o.when(at.first, lambda i: self.publish(i, word))
            o.emit(ops.RETURN)

        # without room the workgroup goes on, and stops at its end
        out.when(out.value(ops.LT, ticket, room), write)

    def arrive(self, point: SafePoint, out: Emit) -> None:
        """Bring arrays back; scalars were, where they are defined."""
        for slot in point.slots:
            if slot.kind in ("private", "shared"):
                self.move(slot, self.at.start, out, saving=False)
        out.emit(ops.BARRIER, attrs={"scope": "workgroup"})

    def move(self, slot: Slot, ticket: Value, out: Emit, *, saving: bool) -> None:
        """Copy one slot to or from the state."""
        arrays = self.at.saved if saving else self.at.restored
        state = arrays[slot.element]
        value = self.env.get(slot.value, slot.value)
        if slot.kind == "varying":
            out.emit(ops.STORE, state, self.index(slot, ticket, out), value)
            return
        if slot.kind == "uniform":
            out.when(
                self.at.first,
                lambda o: o.emit(ops.STORE, state, self.index(slot, ticket, o), value) and None,
            )
            return
        private = slot.kind == "private"
        start, step = (out.number(0), out.number(1)) if private else (self.at.local, self.at.items)

        def copy(o: Emit, flat: Value) -> None:
            inner = _unflatten(slot.value.type, flat, o)
            place = self.index(slot, ticket, o, flat)
            if saving:
                o.emit(ops.STORE, state, place, o.value(ops.LOAD, value, *inner))
            else:
                o.emit(ops.STORE, value, *inner, o.value(ops.LOAD, state, place))

        out.count(start, out.number(slot.count), step, copy)

    def index(self, slot: Slot, ticket: Value, out: Emit, flat: Value | None = None) -> Value:
        """Where an element lies: by place, ticket and work-item; shared arrays come last."""
        plan, at = self.plan, self.at
        assert at.control is not None
        capacity = out.value(
            ops.CAST, out.value(ops.LOAD, at.control, out.number(Control.CAPACITY)), to=I64
        )
        place = out.number(slot.place)
        if flat is not None:
            place = out.value(ops.ADD, place, flat)
        if slot.kind == "shared":
            row = out.value(ops.MUL, ticket, out.number(plan.elements(slot.element, shared=True)))
            words = out.number(plan.elements(slot.element, shared=False))
            items = out.value(ops.MUL, out.value(ops.MUL, words, capacity), at.items)
            return out.value(ops.ADD, out.value(ops.ADD, items, row), place)
        rows = out.value(ops.ADD, out.value(ops.MUL, place, capacity), ticket)
        first = out.value(ops.MUL, rows, at.items)
        return first if slot.kind == "uniform" else out.value(ops.ADD, first, at.local)

    def clear(self, old: Value, out: Emit) -> None:
        """Zeros in a new array."""
        kind, array = old.type, self.env[old]
        assert isinstance(kind, ArrayType)
        shared = kind.space == "shared"
        start, step = (self.at.local, self.at.items) if shared else (out.number(0), out.number(1))
        zero = out.const(kind.element, 0)

        def store(o: Emit, flat: Value) -> None:
            o.emit(ops.STORE, array, *_unflatten(kind, flat, o), zero)

        out.count(start, out.number(elements(kind)), step, store)
        if shared:
            out.emit(ops.BARRIER, attrs={"scope": "workgroup"})

    def restored(self, value: Value, out: Emit) -> Value:
        """A scalar from the saved state, or zero where no safe point needs it."""
        slot = self.plan.slots.get(value)
        if slot is None:
            assert isinstance(value.type, Scalar)
            return out.const(value.type, 0)
        return out.value(
            ops.LOAD, self.at.restored[slot.element], self.index(slot, self.at.start, out)
        )


def _unflatten(kind: object, flat: Value, out: Emit) -> list[Value]:
    """The indices of an element by its place in C order."""
    assert isinstance(kind, ArrayType)
    found: list[Value] = []
    for extent in reversed((kind.shape or ())[1:]):
        size = out.number(extent)
        found.append(out.value(ops.REM, flat, size))
        flat = out.value(ops.DIV, flat, size)
    return [flat, *reversed(found)] if kind.shape else []
