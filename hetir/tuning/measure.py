"""Runs of configurations, in turn, on copies of what the kernel writes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, NamedTuple, cast

import numpy as np

from hetir.runtime import Array
from hetir.runtime.layout import bounds
from hetir.tuning.report import STOPPED, Config, Trial

Run = Callable[[], float]
"""Launches once, waits, and gives the seconds that the device worked."""

Measure = Callable[[Config, Run], float]
"""A sample of a configuration in seconds, by running it as often as it likes."""

_SAMPLE_SECONDS = 2e-3
_MOST_RUNS = 50
_ROUNDS_BEFORE_STOPPING = 4
_HOPELESS = 1.5


def sample(config: Config, run: Run) -> float:
    """The median of as many runs as take two milliseconds, at most 50."""
    del config
    seen: list[float] = []
    while len(seen) < _MOST_RUNS and sum(seen) < _SAMPLE_SECONDS:
        seen.append(run())
    return median(seen)


class Race(NamedTuple):
    """How to measure: samples of each, the seed of their order, and what takes one."""

    rounds: int
    seed: int
    measure: Measure


def race(
    trials: Sequence[Trial],
    runs: Mapping[int, Run],
    default: int,
    way: Race,
    tell: Callable[[str], None],
) -> list[Trial]:
    """Warm each configuration up, then sample all in turn, each round in another order.

    One that after four rounds has never come near the fastest is stopped; never the default.
    """
    found, order = list(trials), list(runs)
    for index in order:
        tell(f"warming up {index + 1} of {len(trials)}")
        runs[index]()
    shuffled = random.Random(way.seed)
    for number in range(way.rounds):
        shuffled.shuffle(order)
        for index in order:
            tell(f"round {number + 1} of {way.rounds}")
            taken = way.measure(found[index].config, runs[index])
            found[index] = replace(found[index], seconds=(*found[index].seconds, taken))
        if number + 1 >= _ROUNDS_BEFORE_STOPPING:
            best = min(found[i].median for i in order)
            for index in [i for i in order if i != default]:
                if min(found[index].seconds) > _HOPELESS * best:
                    reason = "clearly slower than the fastest"
                    found[index] = replace(found[index], outcome=STOPPED, reason=reason)
                    order.remove(index)
    return found


class Copies:
    """Arguments of runs: what is written is a copy, and what is also read can be restored.

    `written` names the arguments that a kernel writes, and whether it reads them too.
    """

    def __init__(self, arguments: Mapping[str, Any], written: Mapping[str, bool]) -> None:
        self.arguments = dict(arguments)
        self._originals = {name: arguments[name] for name, read in written.items() if read}
        # one array under two names stays one
        copies: dict[int, Any] = {}
        for name in written:
            given = arguments[name]
            if id(given) not in copies:
                copies[id(given)] = _copy(given)
            self.arguments[name] = copies[id(given)]

    def restore(self) -> None:
        """Give arrays that runs both read and write their first contents again."""
        for name, original in self._originals.items():
            if isinstance(original, np.ndarray):
                np.copyto(self.arguments[name], cast("np.ndarray[Any, Any]", original))
            else:
                self.arguments[name] = _copy(original)


def _copy(value: Any) -> Any:
    """A copy with the same strides, which shape the code."""
    if isinstance(value, Array):
        return value.buffer.device.array(value)
    if isinstance(value, tuple):
        fields: Any = cast("tuple[Any, ...]", value)
        parts = tuple(map(_copy, fields))
        return type(fields)(*parts) if hasattr(fields, "_fields") else parts
    if not isinstance(value, np.ndarray):
        return value
    given = cast("np.ndarray[Any, Any]", value)
    if not given.size:
        return given.copy()
    address = int(given.ctypes.data)
    low, high = bounds(address, given.shape, given.strides, given.itemsize)
    room = np.empty(high - low, np.uint8)
    made: np.ndarray[Any, Any] = np.ndarray(
        given.shape, given.dtype, room, address - low, given.strides
    )
    np.copyto(made, given)
    return made


def timed(start: Callable[[], Any]) -> float:
    """The seconds that the device worked on a launch, or those until it had ended."""
    begin = time.perf_counter()
    launch = start()
    launch.wait()
    wall = time.perf_counter() - begin
    return launch.seconds or wall
