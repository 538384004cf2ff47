"""What a lane holds: scalars and arrays, gathered, scattered and merged over lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Lanes = np.ndarray[Any, np.dtype[Any]]
"""One value a lane, or a 0-d array when every lane holds the same value."""

NEVER = np.array(False)
ALWAYS = np.array(True)
ZERO = np.array(0, np.int64)


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a view: extent, stride in bytes, and the legal indices [low, high)."""

    extent: Lanes
    stride: Lanes
    low: Lanes
    high: Lanes


@dataclass(frozen=True, slots=True)
class View:
    """An array or a reference: where its first element lies, and how it is indexed.

    `buffer` numbers a `Buffer` of the memory; a reference has one axis of bytes.
    `inside` is false where an index that made the view was out of bounds.
    """

    buffer: Lanes
    offset: Lanes
    axes: tuple[Axis, ...]
    inside: Lanes


Held = Lanes | View


def take(value: Held, select: Lanes | None) -> Held:
    """The lanes of `value` that `select` numbers; None is all of them."""
    if select is None:
        return value
    if isinstance(value, View):
        return View(
            pick(value.buffer, select),
            pick(value.offset, select),
            tuple(
                Axis(*(pick(f, select) for f in (a.extent, a.stride, a.low, a.high)))
                for a in value.axes
            ),
            pick(value.inside, select),
        )
    return pick(value, select)


def pick(lanes: Lanes, select: Lanes | None) -> Lanes:
    """`take` for a scalar."""
    return lanes if select is None or lanes.ndim == 0 else lanes[select]


def compose(outer: Lanes | None, inner: Lanes | None) -> Lanes | None:
    """The selection that picks `outer` and then `inner` of what it picked."""
    if outer is None:
        return inner
    return outer if inner is None else outer[inner]


def merge(count: int, pieces: Sequence[tuple[Lanes | None, Held]]) -> Held:
    """One value over `count` lanes from values of disjoint selections of them.

    Lanes in no piece hold anything.
    """
    (first_select, first), *rest = pieces
    if not rest and (first_select is None or (not isinstance(first, View) and first.ndim == 0)):
        return first
    if isinstance(first, View):
        views = [(s, v) for s, v in pieces if isinstance(v, View)]
        return View(
            _merge(count, [(s, v.buffer) for s, v in views]),
            _merge(count, [(s, v.offset) for s, v in views]),
            tuple(_merge_axis(count, views, at) for at in range(len(first.axes))),
            _merge(count, [(s, v.inside) for s, v in views]),
        )
    return _merge(count, [(s, v) for s, v in pieces if not isinstance(v, View)])


def _merge_axis(count: int, views: Sequence[tuple[Lanes | None, View]], at: int) -> Axis:
    fields = ("extent", "stride", "low", "high")
    return Axis(*(_merge(count, [(s, getattr(v.axes[at], f)) for s, v in views]) for f in fields))


def _merge(count: int, pieces: Sequence[tuple[Lanes | None, Lanes]]) -> Lanes:
    first = pieces[0][1]
    if all(v is first for _, v in pieces) and first.ndim == 0:
        return first
    merged = np.zeros(count, first.dtype)
    for select, lanes in pieces:
        merged[slice(None) if select is None else select] = lanes
    return merged


def spread(lanes: Lanes, count: int) -> Lanes:
    """The value of each of `count` lanes, whether or not it is uniform."""
    return np.broadcast_to(lanes, (count,)) if lanes.ndim == 0 else lanes


def choose(condition: Lanes, yes: Held, no: Held, count: int) -> Held:
    """`select` for arrays and scalars."""
    if condition.ndim == 0:
        return yes if condition else no
    chosen, other = np.flatnonzero(condition), np.flatnonzero(~condition)
    return merge(count, [(chosen, take(yes, chosen)), (other, take(no, other))])


def view_of(source: View, steps: Sequence[int], operands: Sequence[Lanes]) -> View:
    """A sub-array (the op `view`); it keeps which indices stay inside the source."""
    offset, inside = source.offset, source.inside
    axes: list[Axis] = []
    rest = iter(operands)
    with np.errstate(over="ignore"):
        for axis, step in zip(source.axes, steps, strict=True):
            start = next(rest)
            offset = np.asarray(offset + start * axis.stride)
            if not step:
                inside = np.asarray(inside & (start >= axis.low) & (start < axis.high))
                continue
            count = next(rest)
            low, high = _legal(axis, start, step, count)
            axes.append(Axis(count, np.asarray(axis.stride * step), low, high))
    return View(source.buffer, offset, tuple(axes), inside)


def _legal(axis: Axis, start: Lanes, step: int, count: Lanes) -> tuple[Lanes, Lanes]:
    """The j of [0, count) with axis.low <= start + j * step < axis.high."""
    if step > 0:
        low, high = -((start - axis.low) // step), -((start - axis.high) // step)
    else:
        low, high = (start - axis.high) // -step + 1, (start - axis.low) // -step + 1
    return np.asarray(np.maximum(low, 0)), np.asarray(np.minimum(high, count))
