"""Executes a kernel's regions over frames of lanes: true SIMT, without masks.

Every lane of a frame is active. Divergence splits a frame into smaller ones, whose lanes
come back together after the construct; a region gives the flows that left it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from hetir.emulator import access, subgroups
from hetir.emulator.faults import StuckError
from hetir.emulator.frame import Batch, Frame
from hetir.emulator.run_state import Run
from hetir.emulator.values import (
    Held,
    Lanes,
    View,
    choose,
    compose,
    merge,
    pick,
    take,
    view_of,
)
from hetir.ir.core import Operation, Region, Value
from hetir.ir.types import Scalar

Select = Lanes | None


@dataclass(frozen=True, slots=True)
class Flow:
    """Lanes (of the frame) that leave a region or construct in one way, with values."""

    kind: str
    select: Select
    values: tuple[Held, ...]


def execute(run: Run, batch: Batch) -> None:
    """Run the kernel for every workgroup of a batch."""
    frame = Frame(batch, batch.count)
    frame.values.update(run.parameters)
    with np.errstate(all="ignore"):
        _region(run, run.kernel.body, frame)


def _region(run: Run, region: Region, frame: Frame) -> list[Flow]:
    """Run a region; the flows out of it number the lanes of `frame`."""
    flows: list[Flow] = []
    live: Select = None
    for op in region.body:
        spec = op.spec
        if spec.evaluate is not None and not spec.effect:
            pure(run, op, frame)
        elif spec.terminator:
            flows.append(Flow(op.name, live, tuple(map(frame.get, op.operands))))
            return flows
        elif spec.regions:
            inner = _STRUCTURES[op.name](run, op, frame)
            flows += [
                Flow(f.kind, compose(live, f.select), f.values) for f in inner if f.kind != "yield"
            ]
            going, values = _join(frame.count, [f for f in inner if f.kind == "yield"])
            if values is None:
                return flows
            if going is not None:
                frame, live = frame.child(going), compose(live, going)
            frame.values.update(zip(op.results, values, strict=True))
        else:
            HANDLERS[op.name](run, op, frame)
    raise AssertionError("a region ends in a terminator")


def pure(run: Run, op: Operation, frame: Frame) -> None:
    """Run an op by its row of the op table."""
    result = op.results[0]
    lanes = [frame.get(v) for v in op.operands]
    if not isinstance(result.type, Scalar):
        condition, yes, no = lanes
        assert isinstance(condition, np.ndarray)
        frame.values[result] = choose(condition, yes, no, frame.count)
        return
    assert op.spec.evaluate is not None
    frame.values[result] = value = op.spec.evaluate(op.attrs, result.type.numpy, *lanes)
    if run.checker is not None:
        run.checker.pure(op, frame, lanes, value)


# ---- structure -----------------------------------------------------------------------------


def _join(count: int, flows: Sequence[Flow]) -> tuple[Select, tuple[Held, ...] | None]:
    """Bring flows together: which lanes they are in all, and each value over those."""
    if not flows:
        return None, None
    if len(flows) == 1:
        (flow,) = flows
        full = flow.select is None or len(flow.select) == count
        return (None, flow.values) if full else (flow.select, flow.values)
    here = np.zeros(count, bool)
    for flow in flows:
        here[flow.select] = True
    merged = tuple(
        merge(count, [(f.select, f.values[at]) for f in flows])
        for at in range(len(flows[0].values))
    )
    going = np.flatnonzero(here)
    if len(going) == count:
        return None, merged
    return going, tuple(take(v, going) for v in merged)


def _if(run: Run, op: Operation, frame: Frame) -> list[Flow]:
    condition = frame.scalar(op.operands[0])
    then, other = op.regions
    if condition.ndim == 0:
        return _region(run, then if condition else other, frame.child())
    chosen = np.flatnonzero(condition)
    if len(chosen) == frame.count:
        return _region(run, then, frame.child())
    if not len(chosen):
        return _region(run, other, frame.child())
    flows: list[Flow] = []
    sides = [(then, chosen), (other, np.flatnonzero(~condition))]
    for region, select in sides if run.then_first else sides[::-1]:
        inner = _region(run, region, frame.child(select))
        flows += [Flow(f.kind, compose(select, f.select), f.values) for f in inner]
    return flows


@dataclass(slots=True)
class _Turns:
    """The state of a loop: the lanes still in it, what they carry, and what left it."""

    outer: Frame
    live: Select
    carried: tuple[Held, ...]
    trips: Lanes | None
    done: list[Flow] = field(default_factory=list[Flow])

    def leave(self, kind: str, select: Select, values: tuple[Held, ...]) -> None:
        self.done.append(Flow(kind, compose(self.live, select), values))

    def keep(self, around: Frame, select: Lanes, carried: tuple[Held, ...]) -> None:
        """Go on with some of the lanes."""
        self.live = compose(self.live, select)
        self.outer, self.carried = around.child(self.live), carried
        self.trips = None if self.trips is None else pick(self.trips, select)


def _for(run: Run, op: Operation, frame: Frame) -> list[Flow]:
    start, stop, step = (frame.scalar(v) for v in op.operands[:3])
    initial = tuple(frame.get(v) for v in op.operands[3:])
    turns = _Turns(frame.child(), None, initial, trip_counts(start, stop, step))
    index = op.operands[0], op.operands[2]
    turn = 0
    while _still_counting(turns, frame, turn):
        body = turns.outer.child()
        first, by = (turns.outer.scalar(v) for v in index)
        body.values[op.regions[0].args[0]] = np.asarray(
            first + by * np.array(turn, np.uint64).view(np.int64)
        )
        if not _turn(run, op, frame, turns, body, op.regions[0].args[1:]):
            break
        turn += 1
    return turns.done


def _loop(run: Run, op: Operation, frame: Frame) -> list[Flow]:
    turns = _Turns(frame.child(), None, tuple(map(frame.get, op.operands)), None)
    going = True
    while going:
        before, live, changes = turns.carried, turns.live, run.changes
        going = _turn(run, op, frame, turns, turns.outer.child(), op.regions[0].args)
        same = going and turns.live is live and run.changes == changes
        if same and all(map(_equal, before, turns.carried)):
            run.fault(
                StuckError, op, frame, np.arange(frame.count) if live is None else live,
                "a loop waits for memory that no work-item still running will write",
                hint="wait only for workgroups that took an earlier ticket",
            )  # fmt: skip
            turns.leave("return", None, ())
            going = False
    return turns.done


def _equal(a: Held, b: Held) -> bool:
    """Whether two held values surely have the same bits."""
    if a is b:
        return True
    if isinstance(a, View) or isinstance(b, View):
        return False
    return a.shape == b.shape and a.tobytes() == b.tobytes()


def _still_counting(turns: _Turns, around: Frame, turn: int) -> bool:
    """Let the lanes whose trips are over leave; whether any remain."""
    trips = turns.trips
    assert trips is not None
    going = trips > np.uint64(turn)
    if going.all():
        return True
    if not going.any():
        turns.leave("yield", None, turns.carried)
        return False
    over, rest = np.flatnonzero(~going), np.flatnonzero(going)
    turns.leave("yield", over, tuple(take(v, over) for v in turns.carried))
    turns.keep(around, rest, tuple(take(v, rest) for v in turns.carried))
    return True


def _turn(
    run: Run, op: Operation, around: Frame, turns: _Turns, body: Frame, args: Sequence[Value]
) -> bool:
    """Run a loop's body once; whether any lane goes on."""
    body.values.update(zip(args, turns.carried, strict=True))
    again: list[Flow] = []
    for flow in _region(run, op.regions[0], body):
        match flow.kind:
            case "break":
                turns.leave("yield", flow.select, flow.values)
            case "return":
                turns.leave("return", flow.select, flow.values)
            case _:
                again.append(flow)
    select, carried = _join(body.count, again)
    if carried is None:
        return False
    if select is None:
        turns.carried = carried
    else:
        turns.keep(around, select, carried)
    return True


def trip_counts(start: Lanes, stop: Lanes, step: Lanes) -> Lanes:
    """How often Python's range runs, as u64; 0 for a step of 0."""
    up = step > 0
    low, high = np.where(up, start, stop), np.where(up, stop, start)
    span = high.view(np.uint64) - low.view(np.uint64)
    by = np.where(up, step, np.negative(step)).view(np.uint64)
    some = (low < high) & (step != 0)
    counts = (span - np.uint64(1)) // np.where(step == 0, np.uint64(1), by) + np.uint64(1)
    return np.where(some, counts, np.uint64(0))


# ---- the other ops -------------------------------------------------------------------------


def _put(op: Operation, frame: Frame, value: Held) -> None:
    frame.values[op.results[0]] = value


def _axis(op: Operation) -> int:
    axis = op.attrs["axis"]
    assert isinstance(axis, int)
    return axis


def _dim(_: Run, op: Operation, frame: Frame) -> None:
    view = frame.get(op.operands[0])
    assert isinstance(view, View)
    axis = view.axes[_axis(op)]
    _put(op, frame, axis.extent if op.name == "dim" else axis.stride)


def _view(_: Run, op: Operation, frame: Frame) -> None:
    source, *rest = (frame.get(v) for v in op.operands)
    steps = op.attrs["steps"]
    assert isinstance(source, View)
    assert isinstance(steps, tuple)
    _put(op, frame, view_of(source, steps, rest))  # pyright: ignore[reportArgumentType]


def _safe_point(_: Run, op: Operation, frame: Frame) -> None:
    frame.values.update(zip(op.results, map(frame.get, op.operands), strict=True))


def _assume_uniform(run: Run, op: Operation, frame: Frame) -> None:
    value = frame.scalar(op.operands[0])
    _put(op, frame, value)
    if run.checker is not None:
        run.checker.uniform(op, frame, value)


def _id(pick_axis: Callable[[Batch, int], Lanes]) -> Handler:
    def run(_: Run, op: Operation, frame: Frame) -> None:
        _put(op, frame, frame.own(pick_axis(frame.batch, _axis(op))))

    return run


def _lane(pick_value: Callable[[Batch], Lanes]) -> Handler:
    def run(_: Run, op: Operation, frame: Frame) -> None:
        _put(op, frame, frame.own(pick_value(frame.batch)))

    return run


def _barrier(run: Run, op: Operation, frame: Frame) -> None:
    run.barrier(op, frame)


def _fence(run: Run, op: Operation, frame: Frame) -> None:
    if run.checker is not None:
        run.checker.fence(op, frame)


Handler = Callable[[Run, Operation, Frame], None]

_STRUCTURES: dict[str, Callable[[Run, Operation, Frame], list[Flow]]] = {
    "if": _if,
    "for": _for,
    "loop": _loop,
}

HANDLERS: dict[str, Handler] = {
    "local_id": _id(lambda b, axis: b.local_ids[axis]),
    "group_id": _id(lambda b, axis: b.group_ids[axis]),
    "group_size": _id(lambda b, axis: np.array(b.size[axis])),
    "num_groups": _id(lambda b, axis: np.array(b.grid[axis])),
    "global_id": _id(lambda b, axis: b.global_ids[axis]),
    "lane_id": _lane(lambda b: b.local % b.width),
    "subgroup_id": _lane(lambda b: b.local // b.width),
    "subgroup_size": _lane(lambda b: np.array(b.width)),
    "dim": _dim,
    "stride": _dim,
    "view": _view,
    "safe_point": _safe_point,
    "assume_uniform": _assume_uniform,
    "barrier": _barrier,
    "fence": _fence,
    **access.HANDLERS,
    **subgroups.HANDLERS,
}
