"""Comparison and selection: setp, set, selp, slct."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hetir.emulator.ptx.batch import Batch
from hetir.emulator.ptx.build import Build, Reader, Step, Writer, instruction
from hetir.emulator.ptx.floats import element, read_elements
from hetir.emulator.ptx.ieee import flush
from hetir.emulator.ptx.integers import as_array
from hetir.emulator.ptx.syntax import Pair
from hetir.emulator.ptx.types import PRED, UNSIGNED, Lanes, PtxType

Test = Callable[[Lanes, Lanes], Lanes]

_ORDERED: dict[str, Test] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_COMBINE: dict[str, Test] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}
_FLOAT_ONLY = ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
_ALL = (*_ORDERED, *_UNSIGNED, *_FLOAT_ONLY)
_SOURCES = "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64 f16 f16x2 bf16 bf16x2"

_RESULTS = {
    "f16": "u16 s16 u32 s32 f16 bf16",
    "bf16": "u16 s16 u32 s32 bf16",
    "f16x2": "u32 s32 f16x2",
    "bf16x2": "u32 s32 bf16x2",
}
"""Where `set` may put the result of comparing halves; of others: u32 s32 f32 f16 bf16."""


def _unordered(a: Lanes, b: Lanes) -> Lanes:
    return (a != a) | (b != b)


def _test(b: Build, name: str, kind: PtxType) -> Test:
    """What a comparison means on a type."""
    if kind.kind == "f":
        return _float_test(b, name)
    if name in _FLOAT_ONLY or (name in _UNSIGNED and kind.kind != "u"):
        raise b.wrong(f".{name} does not compare .{kind.name}")
    if kind.kind == "b" and name not in {"eq", "ne"}:
        raise b.wrong(f".{name} does not compare .{kind.name}")
    return _ORDERED[_UNSIGNED.get(name, name)]


def _float_test(b: Build, name: str) -> Test:
    if name in _UNSIGNED:
        raise b.wrong(f".{name} does not compare floating point")
    if name == "num":
        return lambda x, y: ~_unordered(x, y)
    if name == "nan":
        return _unordered
    if name == "ne":
        # an ordered comparison: false when either is NaN
        return lambda x, y: (x != y) & ~_unordered(x, y)
    if name in _FLOAT_ONLY:
        plain = _ORDERED[name[:2]]
        return lambda x, y: plain(x, y) | _unordered(x, y)
    return _ORDERED[name]


def _operands(b: Build, kind: PtxType, ftz: bool) -> tuple[Reader, Reader]:
    first, second = read_elements(b, 1, kind), read_elements(b, 2, kind)
    if not ftz:
        return first, second
    name = element(kind).name
    if name not in {"f32", "f16"}:
        raise b.unknown("ftz")
    return (lambda r: flush(first(r), name)), (lambda r: flush(second(r), name))


@instruction("setp")
def _setp(b: Build) -> Step:
    name = b.need(*_ALL)
    combine = b.choose(*_COMBINE)
    ftz = b.flag("ftz")
    kind = b.type(_SOURCES)
    b.count(4 if combine else 3)
    test = _test(b, name, element(kind))
    first, second = _operands(b, kind, ftz)
    extra = b.read(3, PRED) if combine else None
    join = _COMBINE.get(combine)
    target = b.operand(0)
    halves = element(kind).bits == 16 and kind.kind == "f"
    if halves and bool(kind.lane) != isinstance(target, Pair):
        raise b.wrong("two predicates `p|q` go with a packed type")
    one = b.write(target.first if isinstance(target, Pair) else target, PRED)
    two = b.write(target.second, PRED) if isinstance(target, Pair) else None

    def joined(r: Batch, value: Lanes) -> Lanes:
        return value if join is None or extra is None else join(value, extra(r))

    if kind.lane:
        return _packed(first, second, test, joined, one, two)

    def step(r: Batch) -> None:
        value = test(first(r), second(r))
        if two is None:
            one(r, joined(r, value))
            return
        # both results are computed before either is written: a source may be a destination
        results = joined(r, value), joined(r, ~value)
        one(r, results[0])
        two(r, results[1])

    return step


def _packed(
    first: Reader, second: Reader, test: Test, joined: Callable[[Batch, Lanes], Lanes],
    one: Writer, two: Writer | None,
) -> Step:  # fmt: skip
    def step(r: Batch) -> None:
        halves = test(first(r), second(r))
        results = joined(r, halves[0::2].copy()), joined(r, halves[1::2].copy())
        one(r, results[0])
        if two is not None:
            two(r, results[1])

    return step


@instruction("set")
def _set(b: Build) -> Step:
    name = b.need(*_ALL)
    combine = b.choose(*_COMBINE)
    ftz = b.flag("ftz")
    result = b.type("u32 s32 f32 u16 s16 f16 bf16 f16x2 bf16x2")
    kind = b.type(_SOURCES)
    b.count(4 if combine else 3)
    if result.name not in _RESULTS.get(kind.name, "u32 s32 f32 f16 bf16").split():
        raise b.wrong(f".{result.name} does not hold the result")
    test = _test(b, name, element(kind))
    first, second = _operands(b, kind, ftz)
    extra = b.read(3, PRED) if combine else None
    join = _COMBINE.get(combine)
    write = b.write(0, result)
    truth = _truth(kind, result)

    def step(r: Batch) -> None:
        value = test(first(r), second(r))
        if join is not None and extra is not None:
            other = extra(r)
            value = join(value, np.repeat(other, 2) if kind.lane else other)
        # a packed result has one truth value a half
        chosen = np.where(value, truth, truth.dtype.type(0))
        write(r, chosen.view(result.dtype) if kind.lane else chosen)

    return step


def _truth(kind: PtxType, result: PtxType) -> Lanes:
    """What true is: 1.0 in floating point, else all ones; a half each for packed sources."""
    part = element(result) if kind.lane and result.lane else result
    if kind.lane and not result.lane:
        return np.array(0xFFFF, np.uint16)
    if part.kind == "f":
        return np.array(1, part.dtype).view(UNSIGNED[part.bits])
    return np.array((1 << part.bits) - 1, UNSIGNED[part.bits])


@instruction("selp")
def _selp(b: Build) -> Step:
    kind = b.type("b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64")
    b.count(4)
    write, yes, no = b.write(0, kind), b.read(1, kind), b.read(2, kind)
    which = b.read(3, PRED)
    return lambda r: write(r, np.where(which(r), yes(r), no(r)))


@instruction("slct")
def _slct(b: Build) -> Step:
    ftz = b.flag("ftz")
    kind = b.type("b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64")
    judge = b.type("f32" if ftz else "s32 f32")
    b.count(4)
    write, yes, no = b.write(0, kind), b.read(1, kind), b.read(2, kind)
    which = b.read(3, judge)

    def step(r: Batch) -> None:
        c = as_array(which(r))
        c = flush(c, "f32") if ftz else c
        write(r, np.where(c >= 0, yes(r), no(r)))

    return step
