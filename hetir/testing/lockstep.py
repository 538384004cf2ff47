"""Work-items of a workgroup as generators that stop where they meet: at barriers and exchanges.

What the lanes of a subgroup tell each other is computed here one lane at a time, as
docs/semantics.md and the op table say it, and apart from the evaluator.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetir.ir import ops

Lane = Any
Steps = Generator["Meeting", "Lane", object]
COMBINE = {
    "add": ops.ADD, "sub": ops.SUB, "mul": ops.MUL, "min": ops.MIN, "max": ops.MAX,
    "and": ops.AND, "or": ops.OR, "xor": ops.XOR,
}  # fmt: skip


class DivergenceError(Exception):
    """Work-items that should meet wait at unlike places, or some have ended."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where a work-item waits: the op, the place (equal for all that meet), what it brings."""

    name: str
    place: object
    attrs: Mapping[str, Any]
    values: Sequence[Lane] = ()

    @property
    def whole(self) -> bool:
        """Whether the workgroup meets, and not the subgroup alone."""
        return self.name == "barrier" and self.attrs["scope"] != "subgroup"


def run_group(items: Sequence[Steps], width: int) -> None:
    """Run the work-items of one workgroup, in linear order, to their ends.

    A meeting's answer is sent to the work-item's generator: None, or its lane's result.
    """
    answers: list[Lane] = [None] * len(items)
    ready = list(range(len(items)))
    at: dict[int, Meeting] = {}
    while ready or at:
        for number in ready:
            try:
                at[number] = items[number].send(answers[number])
            except StopIteration:
                at.pop(number, None)
        ready = _met(at, len(items), width, answers)


def _met(at: dict[int, Meeting], size: int, width: int, answers: list[Lane]) -> list[int]:
    """The work-items whose meetings are complete, after their answers are made."""
    if not at:
        return []
    ready: list[int] = []
    for first in range(0, size, width):
        lanes = range(first, min(first + width, size))
        here = [at[n] for n in lanes if n in at]
        if any(not m.whole for m in here):
            _same(here, len(lanes))
            for number, answer in zip(lanes, _answers(here, width), strict=True):
                answers[number] = answer
            ready += lanes
    if not ready:
        _same(list(at.values()), size)
        answers[:] = [None] * size
        ready = list(range(size))
    return ready


def _same(meetings: Sequence[Meeting], size: int) -> None:
    places = {m.place for m in meetings}
    if len(places) > 1 or len(meetings) < size:
        raise DivergenceError(f"{len(meetings)} of {size} work-items meet at {places}")


def _answers(lanes: Sequence[Meeting], width: int) -> list[Lane]:
    """What each lane of a subgroup gets."""
    if lanes[0].name == "barrier":
        return [None] * len(lanes)
    return _EXCHANGES[lanes[0].name](lanes, width)


def _take(lane: Meeting) -> bool:
    return bool(lane.values[-1][0])


def identity(kind: str, like: Lane) -> Lane:
    """+0, 1, the largest value, the least, or all ones, in the type of `like`."""
    if kind == "and":
        return ~np.zeros_like(like)
    value: float = kind == "mul"
    if kind in ("min", "max"):
        limits: Any = np.iinfo(like.dtype) if like.dtype.kind in "iu" else None
        low, high = (limits.min, limits.max) if limits else (-np.inf, np.inf)
        value = high if kind == "min" else low
    return np.array([value]).astype(like.dtype)


def _combine(kind: str, a: Lane, b: Lane) -> Lane:
    run = COMBINE[kind].evaluate
    assert run is not None
    return np.reshape(run({}, a.dtype, a, b), (1,))


def _padded(lanes: Sequence[Meeting], width: int) -> list[Lane]:
    """A value for every lane of the width rounded up to a power of two."""
    count = 1
    while count < width:
        count *= 2
    empty = identity(str(lanes[0].attrs["kind"]), lanes[0].values[0])
    given = [m.values[0] if _take(m) else empty for m in lanes]
    return given + [empty] * (count - len(given))


def _reduce(lanes: Sequence[Meeting], width: int) -> list[Lane]:
    values, kind = _padded(lanes, width), str(lanes[0].attrs["kind"])
    distance = len(values) // 2
    while distance:
        values = [_combine(kind, v, values[i ^ distance]) for i, v in enumerate(values)]
        distance //= 2
    return values[: len(lanes)]


def _scan(lanes: Sequence[Meeting], width: int) -> list[Lane]:
    values, kind = _padded(lanes, width), str(lanes[0].attrs["kind"])
    distance = 1
    while distance < len(values):
        values = [
            v if i < distance else _combine(kind, values[i - distance], v)
            for i, v in enumerate(values)
        ]
        distance *= 2
    if not lanes[0].attrs["inclusive"]:
        values = [identity(kind, lanes[0].values[0]), *values]
    return values[: len(lanes)]


def _shuffle(lanes: Sequence[Meeting], width: int) -> list[Lane]:
    move: dict[str, Callable[[int, int], int]] = {
        "index": lambda _, which: which,
        "xor": lambda lane, which: lane ^ which,
        "up": lambda lane, which: lane - which,
        "down": lambda lane, which: lane + which,
    }
    found: list[Lane] = []
    for number, lane in enumerate(lanes):
        source = move[str(lane.attrs["mode"])](number, int(lane.values[1][0]))
        there = 0 <= source < len(lanes) and _take(lanes[source])
        found.append(lanes[source].values[0] if there else np.zeros_like(lane.values[0]))
    return found


def _ballot(lanes: Sequence[Meeting], width: int) -> list[Lane]:
    bits = [_take(m) and bool(m.values[0][0]) for m in lanes[:64]]
    return [np.array([sum(b << i for i, b in enumerate(bits))], np.uint64)] * len(lanes)


def _vote(lanes: Sequence[Meeting], width: int) -> list[Lane]:
    held = [bool(m.values[0][0]) for m in lanes if _take(m)]
    return [np.array([all(held) if lanes[0].attrs["mode"] == "all" else any(held)])] * len(lanes)


_EXCHANGES: Mapping[str, Callable[[Sequence[Meeting], int], list[Lane]]] = {
    "shuffle": _shuffle,
    "ballot": _ballot,
    "vote": _vote,
    "subgroup_reduce": _reduce,
    "subgroup_scan": _scan,
}
EXCHANGES = frozenset(_EXCHANGES)
"""The ops in which the lanes of a subgroup tell each other something."""
