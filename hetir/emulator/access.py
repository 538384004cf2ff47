"""Loads, stores and atomics: addresses, bounds, and what the memory then holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetir.emulator import atomics
from hetir.emulator.clocks import SCOPES
from hetir.emulator.faults import AssertionFailedError, OutOfBoundsError
from hetir.emulator.frame import Frame
from hetir.emulator.memory import Buffer, reference
from hetir.emulator.run_state import Run
from hetir.emulator.values import Lanes, View, merge, pick, spread
from hetir.ir import numerics
from hetir.ir.core import Operation
from hetir.ir.literals import shown
from hetir.ir.types import ArrayType, RefType, Scalar


@dataclass(frozen=True, slots=True)
class Place:
    """Lanes that access one buffer; `select` numbers them in the frame (None: all).

    `offsets` has one byte offset a lane, or is 0-d when all access one element.
    """

    buffer: Buffer
    offsets: Lanes
    select: Lanes | None
    count: int


def element_of(op: Operation) -> np.dtype[Any]:
    """The type in memory of the element that an op accesses."""
    kind = op.operands[0].type
    element = kind.element if isinstance(kind, ArrayType) else op.attrs["element"]
    assert isinstance(element, Scalar)
    return element.numpy


def places(run: Run, op: Operation, frame: Frame) -> tuple[list[Place], int]:
    """Where the lanes access memory, buffer by buffer, and how many operands said so.

    Lanes out of bounds are reported and left out.
    """
    view = frame.get(op.operands[0])
    assert isinstance(view, View)
    indices = [frame.scalar(v) for v in op.operands[1 : 1 + len(view.axes)]]
    offset = view.offset
    for axis, index in zip(view.axes, indices, strict=True):
        offset = offset + (
            index if axis.stride.ndim == 0 and axis.stride == 1 else index * axis.stride
        )
    offset = np.asarray(offset)
    reserve = element_of(op).itemsize - 1 if isinstance(op.operands[0].type, RefType) else 0
    bad = _outside(view, indices, reserve)
    select: Lanes | None = None
    if bad is not None:
        lost = np.flatnonzero(spread(bad, frame.count))
        _report(run, op, frame, view, indices, lost)
        select = np.flatnonzero(~spread(bad, frame.count))
        if not len(select):
            return [], len(indices)
    return list(_split(run, view.buffer, offset, select, frame.count)), len(indices)


def _split(
    run: Run, number: Lanes, offset: Lanes, select: Lanes | None, count: int
) -> Iterator[Place]:
    """One place for each buffer that the lanes name."""
    number, offset = pick(number, select), pick(offset, select)
    live = count if select is None else len(select)
    if number.ndim == 0:
        yield Place(run.buffers[int(number)], offset, select, live)
        return
    for one in np.unique(number):
        here = np.flatnonzero(number == one)
        whole = here if select is None else select[here]
        yield Place(run.buffers[int(one)], pick(offset, here), whole, len(here))


def _outside(view: View, indices: Sequence[Lanes], reserve: int) -> Lanes | None:
    """The lanes whose index lies outside its axis, or None."""
    bad: Lanes | None = None if view.inside.all() else ~view.inside
    for axis, index in zip(view.axes, indices, strict=True):
        if _within(axis.low, axis.high, index, reserve):
            continue
        out = (index < axis.low) | (index >= axis.high - reserve)
        bad = out if bad is None else bad | out
    return None if bad is None else np.asarray(bad)


def _within(low: Lanes, high: Lanes, index: Lanes, reserve: int) -> bool:
    if low.ndim == 0 and high.ndim == 0:
        return bool(index.min() >= low and index.max() < high - reserve)
    return bool(((index >= low) & (index < high - reserve)).all())


def _report(
    run: Run, op: Operation, frame: Frame, view: View, indices: Sequence[Lanes], lost: Lanes
) -> None:
    index, shape, name = describe_access(run, view, indices, int(lost[0]))
    shown = index[0] if len(index) == 1 else index
    inside = pick(view.inside, lost)
    what = f"index {shown} is out of bounds for `{name}` of shape {shape}"
    if not bool(inside.flat[0]):
        what = f"a sub-array of `{name}` lies out of bounds"
    run.fault(
        OutOfBoundsError, op, frame, lost, what, array=name, index=index, shape=shape,
        hint="guard the access with a comparison against the shape",
    )  # fmt: skip


def describe_access(
    run: Run, view: View, indices: Sequence[Lanes], lane: int
) -> tuple[tuple[int, ...], tuple[int, ...], str]:
    """One lane's index, the shape it indexes, and the array's name."""
    buffer = run.buffers[int(spread(view.buffer, lane + 1)[lane])]
    index = tuple(int(spread(i, lane + 1)[lane]) for i in indices)
    shape = tuple(int(spread(a.extent, lane + 1)[lane]) for a in view.axes)
    return index, shape, buffer.name


# ---- ops -----------------------------------------------------------------------------------


def _load(run: Run, op: Operation, frame: Frame) -> None:
    dtype = element_of(op)
    found, _ = places(run, op, frame)
    pieces: list[tuple[Lanes | None, Lanes]] = []
    for place in found:
        if run.checker is not None:
            run.checker.access(op, frame, place, dtype, "read")
        pieces.append((place.select, place.buffer.load(dtype, place.offsets)))
    if len(pieces) == 1 and pieces[0][0] is None:
        frame.values[op.results[0]] = pieces[0][1]
        return
    frame.values[op.results[0]] = merge(
        frame.count, [(None, np.zeros(frame.count, dtype)), *pieces]
    )


def _store(run: Run, op: Operation, frame: Frame) -> None:
    dtype = element_of(op)
    found, used = places(run, op, frame)
    value = frame.scalar(op.operands[1 + used])
    for place in found:
        if run.checker is not None:
            run.checker.access(op, frame, place, dtype, "write")
        place.buffer.store(dtype, place.offsets, pick(value, place.select))
        run.changes += 1


def _atomic(run: Run, op: Operation, frame: Frame) -> None:
    """An atomic op: lanes one after the other, in a seeded order."""
    dtype = element_of(op)
    found, used = places(run, op, frame)
    operands = [frame.scalar(v) for v in op.operands[1 + used :]]
    old = np.zeros(frame.count, dtype)
    for place in found:
        order = run.rng.permutation(place.count)
        values = [spread(pick(v, place.select), place.count) for v in operands]
        if run.checker is not None:
            kind = "atomic read" if op.name == "atomic.load" else "atomic write"
            scope = SCOPES[str(op.attrs["scope"])]
            run.checker.access(op, frame, place, dtype, kind, scope)
        was = _apply(op, place, dtype, order, values)
        if run.checker is not None:
            wrote = _same_bits(was, values[0]) if op.name == "atomic.cas" else None
            run.checker.atomic(op, frame, place, order, wrote)
        run.changes += _changed(op, place, dtype, was)
        old[slice(None) if place.select is None else place.select] = was
    if op.results:
        frame.values[op.results[0]] = old


def _apply(
    op: Operation, place: Place, dtype: np.dtype[Any], order: Lanes, values: Sequence[Lanes]
) -> Lanes:
    """Change memory lane by lane in `order`; the old value of each lane."""
    offsets = spread(place.offsets, place.count)[order]
    given = [v[order] for v in values]
    match op.name:
        case "atomic.load":
            was = place.buffer.load(dtype, offsets)
        case "atomic.store":
            place.buffer.store(dtype, offsets, given[0])
            was = given[0]
        case "atomic.cas":
            was = atomics.compare_exchange(place.buffer, dtype, offsets, *given)
        case _:
            kind = str(op.attrs["kind"])
            was = atomics.read_modify_write(kind, place.buffer, dtype, offsets, *given)
    old = np.empty_like(was)
    old[order] = was
    return old


def _changed(op: Operation, place: Place, dtype: np.dtype[Any], was: Lanes) -> bool:
    """Whether memory may differ from what the lanes saw."""
    if op.name == "atomic.load":
        return False
    now = place.buffer.load(dtype, spread(place.offsets, place.count))
    return op.name == "atomic.store" or not _same_bits(was, now).all()


def _same_bits(a: Lanes, b: Lanes) -> Lanes:
    raw = numerics.bits_dtype(a.dtype)
    return np.ascontiguousarray(a).view(raw) == np.ascontiguousarray(b).view(raw)


def _alloc(run: Run, op: Operation, frame: Frame) -> None:
    frame.values[op.results[0]] = run.alloc(op, frame)


def _base(run: Run, op: Operation, frame: Frame) -> None:
    view = frame.get(op.operands[0])
    assert isinstance(view, View)
    frame.values[op.results[0]] = reference(run.buffers, view)


def _print(run: Run, op: Operation, frame: Frame) -> None:
    values = [spread(frame.scalar(v), frame.count) for v in op.operands]
    kinds = [v.type for v in op.operands if isinstance(v.type, Scalar)]
    template, batch = str(op.attrs["format"]), frame.batch
    for at, lane in enumerate(frame.lanes.tolist()):
        group = int(batch.groups[lane // batch.items])
        numbers = zip(kinds, (_number(v[at]) for v in values), strict=True)
        line = template.format(*(shown(kind, number) for kind, number in numbers))
        run.lines.append((group, lane % batch.items, len(run.lines), line))


def _number(value: Any) -> float | int | bool:
    """The Python number that a lane holds."""
    return value.item() if value.dtype.kind in "biu" else float(value)


def _assert(run: Run, op: Operation, frame: Frame) -> None:
    held = frame.scalar(op.operands[0])
    if held.all():
        return
    failed = np.flatnonzero(~spread(held, frame.count))
    message = op.attrs["message"] or "the condition is false"
    run.fault(AssertionFailedError, op, frame, failed, f"assertion failed: {message}")


HANDLERS: dict[str, Callable[[Run, Operation, Frame], None]] = {
    "load": _load,
    "store": _store,
    "atomic.load": _atomic,
    "atomic.store": _atomic,
    "atomic.rmw": _atomic,
    "atomic.cas": _atomic,
    "alloc": _alloc,
    "base": _base,
    "print": _print,
    "assert": _assert,
}
