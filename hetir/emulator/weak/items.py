"""One work-item in weak mode: a generator that pauses before each step others could see."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetir.emulator import machine, subgroups
from hetir.emulator.frame import Frame
from hetir.emulator.machine import trip_counts
from hetir.emulator.run_state import Run
from hetir.emulator.values import Held, Lanes
from hetir.emulator.weak.memory import Memory
from hetir.ir.core import Operation, Region, Value
from hetir.memory.machine import Step
from hetir.memory.program import Order, Scope


@dataclass(frozen=True, slots=True)
class Meet:
    """A request to wait until the others of a group come to the same op."""

    op: Operation
    scope: str
    frame: Frame


@dataclass(slots=True, eq=False)
class Later:
    """A value computed from a read that has not taken effect yet."""

    compute: Callable[[], Held]
    held: Held | None = None

    def get(self) -> Held:
        """Let the read take effect, and compute."""
        if self.held is None:
            self.held = self.compute()
        return self.held


Steps = Generator[Meet | None, None, Any]
_Flow = tuple[str, tuple[Any, ...]]
_MEMORY = ("load", "store", "atomic.load", "atomic.store", "atomic.rmw", "atomic.cas")


class Item:
    """Runs a kernel for one lane of a batch."""

    def __init__(self, run: Run, memory: Memory, root: Frame, lane: int) -> None:
        self.run, self.memory, self.lane = run, memory, lane
        self.frame = root.child(np.array([lane]))
        self.loops: list[Operation] = []

    def steps(self) -> Steps:
        """The kernel's body."""
        yield from self._region(self.run.kernel.body, self.frame.child())

    def _region(self, region: Region, frame: Frame) -> Generator[Meet | None, None, _Flow]:
        for op in region.body:
            spec = op.spec
            if spec.evaluate is not None and not spec.effect:
                self._pure(op, frame)
            elif spec.terminator:
                return op.name, tuple(_raw(frame, v) for v in op.operands)
            elif spec.regions:
                kind, values = yield from self._structure(op, frame)
                if kind != "yield":
                    return kind, values
                _bind(frame, op.results, values)
            else:
                yield from self._effect(op, frame)
        raise AssertionError("a region ends in a terminator")

    def _pure(self, op: Operation, frame: Frame) -> None:
        """Compute now, or when a read among the operands has taken effect."""
        operands = [_raw(frame, v) for v in op.operands]
        if not any(isinstance(v, Later) for v in operands):
            machine.pure(self.run, op, frame)
            return

        def compute() -> Held:
            inner = frame.child()
            _bind(inner, op.operands, [v.get() if isinstance(v, Later) else v for v in operands])
            machine.pure(self.run, op, inner)
            return inner.values[op.result]

        _bind(frame, (op.result,), (Later(compute),))

    def _settled(self, frame: Frame, values: Sequence[Value]) -> Steps:
        """Wait for the reads that values come from."""
        for value in values:
            held = _raw(frame, value)
            if isinstance(held, Later):
                if held.held is None:
                    yield None
                _bind(frame, (value,), (held.get(),))

    def _effect(self, op: Operation, frame: Frame) -> Steps:
        yield from self._settled(frame, op.operands)
        if op.name in _MEMORY:
            if _space(op) not in ("private", "constant"):
                yield None
            self._access(op, frame)
        elif op.name == "barrier":
            yield Meet(op, str(op.attrs["scope"]), frame)
        elif op.name in subgroups.HANDLERS:
            yield Meet(op, "subgroup", frame)
        elif op.name == "fence":
            yield None
            order, scope = Order(str(op.attrs["order"])), Scope(str(op.attrs["scope"]))
            self.memory.machine.fence(self.lane, order, scope, op)
        else:
            machine.HANDLERS[op.name](self.run, op, frame)

    def _access(self, op: Operation, frame: Frame) -> None:
        result = self.memory.access(op, frame, self.lane)
        if not op.results:
            return
        held: Any = result
        if isinstance(result, Step):
            step = result
            held = Later(lambda: _read(self.memory, step))
        _bind(frame, op.results, (held,))

    # ---- structure -------------------------------------------------------------------------

    def _structure(self, op: Operation, frame: Frame) -> Generator[Meet | None, None, _Flow]:
        if op.name == "if":
            yield from self._settled(frame, op.operands)
            chosen = op.regions[0 if frame.scalar(op.operands[0]).all() else 1]
            return (yield from self._region(chosen, frame.child()))
        self.loops.append(op)
        result = yield from (self._for if op.name == "for" else self._loop)(op, frame)
        self.loops.pop()
        return result

    def _for(self, op: Operation, frame: Frame) -> Generator[Meet | None, None, _Flow]:
        yield from self._settled(frame, op.operands[:3])
        start, stop, step = (frame.scalar(v).reshape(-1)[:1] for v in op.operands[:3])
        carried = tuple(_raw(frame, v) for v in op.operands[3:])
        index = start
        for _ in range(int(trip_counts(start, stop, step)[0])):
            body = frame.child()
            _bind(body, op.regions[0].args, (index, *carried))
            kind, values = yield from self._region(op.regions[0], body)
            if kind == "return":
                return kind, values
            if kind == "break":
                return "yield", values
            index, carried = index + step, values
        return "yield", carried

    def _loop(self, op: Operation, frame: Frame) -> Generator[Meet | None, None, _Flow]:
        carried = tuple(_raw(frame, v) for v in op.operands)
        while True:
            body = frame.child()
            _bind(body, op.regions[0].args, carried)
            kind, values = yield from self._region(op.regions[0], body)
            if kind == "return":
                return kind, values
            if kind == "break":
                return "yield", values
            carried = values
            yield None  # a loop that touches no memory lets others go on too


def _raw(frame: Frame, value: Value) -> Any:
    """What a value holds: lanes, a view, or a `Later`, which frames carry unread."""
    return frame.get(value)


def _bind(frame: Frame, values: Sequence[Value], held: Sequence[Any]) -> None:
    frame.values.update(zip(values, held, strict=True))


def _read(memory: Memory, step: Step) -> Lanes:
    value = memory.finish(step)
    assert value is not None
    return value


def _space(op: Operation) -> str:
    return str(getattr(op.operands[0].type, "space", "global"))
