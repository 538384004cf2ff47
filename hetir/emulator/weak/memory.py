"""Memory in weak mode: locations of the operational machine over the run's buffers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from hetir.diagnostics import LaunchError
from hetir.emulator import access, atomics
from hetir.emulator.faults import UninitialisedError
from hetir.emulator.frame import Batch, Frame
from hetir.emulator.memory import Buffer
from hetir.emulator.run_state import Run
from hetir.emulator.values import Lanes
from hetir.ir import numerics
from hetir.ir.core import Operation
from hetir.memory.machine import Machine, Place, Step
from hetir.memory.program import Order, Scope


class MixedElementsError(LaunchError):
    """Two arguments overlap in the weak-memory mode, and their elements do not coincide.

    Cause: it keeps what was written element by element, not byte by byte. Fix: arrays that do
    not overlap, or views of one element type whose elements lie at the same places.
    """

    code = "HET611"


class Memory:
    """The machine of one run, by buffers and byte offsets.

    `idle` counts accesses since one last changed what memory holds.
    """

    def __init__(
        self, run: Run, batch: Batch, random: Random, report: Callable[[Step, Step], None]
    ) -> None:
        self.run, self.batch, self.random, self.report = run, batch, random, report
        self.machine = Machine(batch.count, self._within, random)
        self.sites: dict[Place, tuple[Buffer, int]] = {}
        self.elements: dict[int, tuple[int, int]] = {}  # by the address of each of its bytes
        self.written: set[tuple[Buffer, int]] = set()
        self.idle = 0

    def _within(self, scope: Scope, a: int, b: int) -> bool:
        batch = self.batch
        if scope in (Scope.DEVICE, Scope.SYSTEM):
            return True
        together = a // batch.items == b // batch.items
        if scope is Scope.WORKGROUP:
            return together
        return together and a % batch.items // batch.width == b % batch.items // batch.width

    def access(self, op: Operation, frame: Frame, lane: int) -> Lanes | Step | None:
        """One lane's access: what it read, or a step that may be finished later."""
        dtype = access.element_of(op)
        found, used = access.places(self.run, op, frame)
        if not found:  # out of bounds, and reported
            return np.zeros(1, dtype)
        buffer, offset = found[0].buffer, int(found[0].offsets.flat[0])
        given = [frame.scalar(v).reshape(-1)[:1] for v in op.operands[1 + used :]]
        change = _change(op, dtype, given)
        if buffer.space not in ("global", "shared"):
            return self._private(op, frame, buffer, offset, dtype, change)
        reads = op.name not in ("store", "atomic.store")
        order = Order(str(op.attrs["order"])) if "order" in op.attrs else None
        scope = Scope(str(op.attrs["scope"])) if "scope" in op.attrs else None
        step = self.machine.begin(
            lane, order, scope, self.place(buffer, offset, dtype),
            reads=reads, change=change, origin=op,
        )  # fmt: skip
        if reads and order is Order.RELAXED and self.random.random() < 0.5:
            return step
        return self.finish(step)

    def place(self, buffer: Buffer, offset: int, dtype: np.dtype[Any]) -> Place:
        """The location of an element."""
        at = np.array([offset])
        name: object = buffer, offset
        if buffer.space == "global":  # arguments may overlap
            name = self._element(buffer, buffer.address + offset, dtype.itemsize)
        place = self.machine.place(name, lambda: buffer.load(dtype, at).copy())
        self.sites[place] = buffer, offset
        return place

    def _element(self, buffer: Buffer, address: int, size: int) -> tuple[int, int]:
        element = address, size
        if self.elements.get(address) != element:
            for byte in range(address, address + size):
                if self.elements.setdefault(byte, element) != element:
                    raise MixedElementsError(
                        f"`{buffer.name}` overlaps another array whose elements lie otherwise, "
                        "which the weak-memory mode cannot follow",
                        hint="pass arrays that do not overlap, or views of one element type",
                    )
        return element

    def finish(self, step: Step) -> Lanes | None:
        """Let a step take effect; what it read."""
        before = None if step.done or step.place is None else step.place.writes[-1]
        seen = len(self.machine.races)
        value = self.machine.finish(step)
        if before is not None and step.place is not None:
            now = step.place.writes[-1]
            changed = step.written is not None and not _same(now.value, before.value)
            self.idle = 0 if changed else self.idle + 1
        for one, other in self.machine.races[seen:]:
            self.report(one, other)
        self._initialised(step)
        return value

    def _initialised(self, step: Step) -> None:
        if step.source is None or step.source.step.number or step.place is None:
            return
        buffer, op = self.sites[step.place][0], step.origin
        if buffer.space == "shared" and isinstance(op, Operation):
            self._uninitialised(op, step.thread, buffer)

    def _uninitialised(self, op: Operation, lane: int, buffer: Buffer) -> None:
        root = Frame(self.batch, self.batch.count)
        self.run.fault(
            UninitialisedError, op, root.child(np.array([lane])), np.array([0]),
            f"`{buffer.name}` is read before it is written", array=buffer.name,
            hint=f"write `{buffer.name}` first, and put a barrier between if it is shared",
        )  # fmt: skip

    def _private(
        self,
        op: Operation,
        frame: Frame,
        buffer: Buffer,
        offset: int,
        dtype: np.dtype[Any],
        change: Callable[[Any], Lanes | None] | None,
    ) -> Lanes:
        """Memory that nobody else writes."""
        at = np.array([offset])
        old = buffer.load(dtype, at).copy()
        reads = op.name not in ("store", "atomic.store")
        if buffer.space == "private" and reads and (buffer, offset) not in self.written:
            self._uninitialised(op, int(frame.lanes[0]), buffer)
        new = None if change is None else change(old)
        if new is not None:
            buffer.store(dtype, at, new)
            self.written.add((buffer, offset))
        return old

    def write_back(self) -> None:
        """Leave each location's last value in its buffer."""
        for place, (buffer, offset) in self.sites.items():
            last = place.writes[-1]
            if last.step.number:
                buffer.store(last.value.dtype, np.array([offset]), last.value)


def _change(
    op: Operation, dtype: np.dtype[Any], given: list[Lanes]
) -> Callable[[Any], Lanes | None] | None:
    """What the access makes of the old value."""
    match op.name:
        case "load" | "atomic.load":
            return None
        case "store" | "atomic.store":
            new = np.asarray(given[0], dtype)
            return lambda _: new
        case "atomic.cas":
            expected, desired = given
            return lambda old: desired if _same(old, expected) else None
        case _:
            kind = str(op.attrs["kind"])
            if kind == "exchange":
                return lambda _: given[0]
            return lambda old: atomics.COMBINE[kind]({}, dtype, old, given[0])


def _same(a: Lanes | None, b: Lanes | None) -> bool:
    """Whether two values have the same bits."""
    assert a is not None
    assert b is not None
    raw = numerics.bits_dtype(a.dtype)
    return bool((np.ascontiguousarray(a).view(raw) == np.ascontiguousarray(b).view(raw)).all())
