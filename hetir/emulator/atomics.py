"""Atomic read-modify-writes, applied lane by lane in a given order, with few NumPy calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from hetir.emulator.memory import Buffer
from hetir.emulator.values import Lanes
from hetir.ir import numerics

COMBINE = {
    "add": numerics.add,
    "sub": numerics.sub,
    "min": numerics.minimum,
    "max": numerics.maximum,
    "and": numerics.and_,
    "or": numerics.or_,
    "xor": numerics.xor,
}


def read_modify_write(
    kind: str, buffer: Buffer, dtype: np.dtype[Any], offsets: Lanes, values: Lanes
) -> Lanes:
    """Apply the lanes in order; each one's old value."""
    order = np.argsort(offsets, kind="stable")
    where, given = offsets[order], values[order]
    first = np.flatnonzero(np.r_[True, where[1:] != where[:-1]])
    before = buffer.load(dtype, where[first])
    old = np.empty_like(given)
    if _by_address(kind, dtype, len(first), len(where)):
        after = _segments(kind, dtype, given, first, before, old)
    else:
        after = _rounds(kind, dtype, given, first, before, old)
    buffer.store(dtype, where[first], after)
    result = np.empty_like(old)
    result[order] = old
    return result


def _by_address(kind: str, dtype: np.dtype[Any], addresses: int, lanes: int) -> bool:
    """Whether to go address by address with a running total, or lane by lane in rounds."""
    running = kind in ("add", "sub", "exchange") or dtype.kind in "iu"
    return running and addresses * addresses <= lanes


def _segments(
    kind: str, dtype: np.dtype[Any], given: Lanes, first: Lanes, before: Lanes, old: Lanes
) -> Lanes:
    """One address after the other; NumPy's accumulate goes in order, rounding each time."""
    after = before.copy()
    ends = np.r_[first[1:], len(given)]
    for at, (start, end) in enumerate(zip(first, ends, strict=True)):
        run = np.empty(end - start + 1, dtype)
        run[0], run[1:] = before[at], given[start:end]
        if kind != "exchange":
            with np.errstate(all="ignore"):
                run = _RUNNING[kind].accumulate(run, dtype=dtype)
        old[start:end], after[at] = run[:-1], run[-1]
    return after


_RUNNING: dict[str, np.ufunc] = {
    "add": np.add,
    "sub": np.subtract,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _rounds(
    kind: str, dtype: np.dtype[Any], given: Lanes, first: Lanes, before: Lanes, old: Lanes
) -> Lanes:
    """The n-th lane of every address at once, for each n."""
    now = before.copy()
    lengths = np.diff(np.r_[first, len(given)])
    for turn in range(int(lengths.max(initial=0))):
        here = np.flatnonzero(lengths > turn)
        at = first[here] + turn
        was, value = now[here], given[at]
        old[at] = was
        now[here] = value if kind == "exchange" else COMBINE[kind]({}, dtype, was, value)
    return now


def compare_exchange(
    buffer: Buffer, dtype: np.dtype[Any], offsets: Lanes, expected: Lanes, desired: Lanes
) -> Lanes:
    """Apply the lanes in order, comparing bits; each one's old value."""
    raw = numerics.bits_dtype(dtype)
    want, put = (np.ascontiguousarray(v).view(raw) for v in (expected, desired))
    order = np.argsort(offsets, kind="stable")
    where = offsets[order]
    first = np.flatnonzero(np.r_[True, where[1:] != where[:-1]])
    lengths = np.diff(np.r_[first, len(where)])
    now = buffer.load(raw, where[first])
    old = np.empty(len(offsets), raw)
    for turn in range(int(lengths.max(initial=0))):
        here = np.flatnonzero(lengths > turn)
        lane = order[first[here] + turn]
        old[lane] = now[here]
        now[here] = np.where(now[here] == want[lane], put[lane], now[here])
    buffer.store(raw, where[first], now)
    return old.view(dtype)
