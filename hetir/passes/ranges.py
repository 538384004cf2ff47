"""Between which numbers every integer lies, under what a launch promises and conditions say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Literal

from hetir.ir import ops
from hetir.ir.build import constant
from hetir.ir.core import Kernel, Operation, Region, Value
from hetir.ir.types import Scalar, Type
from hetir.passes.regions import LOOPS, falls

Dims = tuple[int, int, int]
Range = tuple[int, int]
"""The least and the largest number that a value can be."""

SIGNED: Range = (-(1 << 31), (1 << 31) - 1)
UNSIGNED: Range = (0, (1 << 32) - 1)
_MOST = (1 << 63) - 1
# where the bounds of a carried value that grows jump to
_STEPS_UP = (0, (1 << 31) - 1, (1 << 32) - 1, 1 << 62)
_STEPS_DOWN = (0, -1, -(1 << 31), -(1 << 62))
_WIDEN_AFTER = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What is known of every launch that the code is compiled for.

    Args:
        index_bits: as in `hetir.target.Assumptions`.
        workgroup: work-items a workgroup where they are fixed.
        max_workgroup: the most work-items a workgroup along each axis.
        max_groups: the most workgroups of the whole grid along each axis, for 32-bit indices.
    """

    index_bits: Literal[32, 64] = 64
    workgroup: Dims | None = None
    max_workgroup: Dims = (1024, 1024, 64)
    max_groups: Dims = (1 << 31, 1 << 31, 1 << 31)

    def of_items(self, axis: int) -> Range:
        """Work-items a workgroup."""
        if self.workgroup:
            return self.workgroup[axis], self.workgroup[axis]
        return 1, self.max_workgroup[axis]

    def of_groups(self, axis: int) -> Range:
        """Workgroups in the grid."""
        if self.index_bits == 64:
            return 1, 1 << 62
        return 1, max(1, min(SIGNED[1] // self.of_items(axis)[0], self.max_groups[axis]))


def ranges(kernel: Kernel, bounds: Bounds) -> Mapping[Value, Range]:
    """The range of each integer value of a kernel without calls, where smaller than its type's.

    An index that a loop's body sees and a value that is computed where a condition holds are
    bounded by them.
    """
    analysis = _Analysis(bounds, kernel.options.width)
    analysis.region(kernel.body)
    return analysis.facts


def inside(found: Range | None, limits: Range) -> bool:
    """Whether a range is known and lies within limits."""
    return found is not None and limits[0] <= found[0] and found[1] <= limits[1]


class _Analysis:
    def __init__(self, bounds: Bounds, width: int) -> None:
        self.bounds = bounds
        self.width = width
        self.facts: dict[Value, Range] = {}
        self.narrowed: dict[Value, Range] = {}  # by the conditions around the present op
        self.makers: dict[Value, Operation] = {}
        self.again: list[Range] = []  # of what the loop around carries on,
        self.left: list[Range] = []  # and of what it leaves with
        self.yields: list[list[Range]] = []
        self.stable: dict[Operation, list[Range]] = {}

    # ---- values ---------------------------------------------------------------------

    def of(self, value: Value) -> Range:
        """What is known here."""
        found = self.narrowed.get(value) or self.facts.get(value)
        return found or whole(value.type)

    def note(self, value: Value, found: Range | None) -> None:
        """Record the range of a new value; what wrapped can be anything."""
        self.narrowed.pop(value, None)
        limits = whole(value.type)
        if found is None or not inside(found, limits) or found == limits:
            self.facts.pop(value, None)
        else:
            self.facts[value] = found

    def plain(self, op: Operation) -> None:
        """An op without regions."""
        if not op.results or not _is_integer(op.results[0]):
            return
        args = [self.of(v) for v in op.operands if _is_integer(v)]
        if op.name in _BINARY and len(args) > 1:
            found = _BINARY[op.name](*args)
        elif op.name in _UNARY and args:
            found = _UNARY[op.name](*args)
        else:
            found = self.special(op)
        self.note(op.result, found)

    def special(self, op: Operation) -> Range | None:
        """Constants, conversions and shifts."""
        match op.name:
            case "const":
                number = int(constant(op) or 0)
                return number, number
            case "cast" | "assume_uniform":
                source = op.operands[0]
                if isinstance(source.type, Scalar) and source.type.kind == "bool":
                    return 0, 1
                return self.of(source) if _is_integer(source) else None
            case "shl" | "shr":
                return _shifted(op, *map(self.of, op.operands))
            case _:
                return self.place(op)

    def place(self, op: Operation) -> Range | None:
        """Ids and extents."""
        axis, bounds = op.attrs.get("axis"), self.bounds
        small = bounds.index_bits == 32
        match op.name:
            case "lane_id":
                return 0, self.width - 1
            case "subgroup_size":
                return self.width, self.width
            case "subgroup_id":
                return 0, max(bounds.max_workgroup) // self.width
            case "dim":
                return 0, SIGNED[1] if small else 1 << 48
            case "stride":
                return (-SIGNED[1], SIGNED[1]) if small else (-(1 << 48), 1 << 48)
            case "local_id" | "group_size" | "group_id" | "num_groups" | "global_id":
                assert isinstance(axis, int)
                return _of_launch(op.name, bounds.of_items(axis), bounds.of_groups(axis), small)
            case _:
                return None

    # ---- conditions -----------------------------------------------------------------

    def assume(self, cond: Value, holds: bool) -> list[tuple[Value, Range | None]]:
        """Narrow what a condition speaks of; gives what was there before."""
        op = self.makers.get(cond)
        if op is None:
            return []
        if op.spec is ops.NOT:
            return self.assume(op.operands[0], not holds)
        if op.spec is (ops.AND if holds else ops.OR):
            return [s for v in op.operands for s in self.assume(v, holds)]
        name = op.name if holds else _OPPOSITE.get(op.name, "")
        if name not in _COMPARES or not _is_integer(op.operands[0]):
            return []
        a, b = op.operands
        first, second = self.of(a), self.of(b)
        return [
            *self.cut(a, _compared(name, first, second)),
            *self.cut(b, _compared(_MIRRORED[name], second, first)),
        ]

    def cut(self, value: Value, to: Range) -> list[tuple[Value, Range | None]]:
        before = self.of(value)
        low, high = max(before[0], to[0]), min(before[1], to[1])
        if low > high or (low, high) == before:  # never reached, or nothing new
            return []
        saved = value, self.narrowed.get(value)
        self.narrowed[value] = (low, high)
        return [saved]

    def restore(self, saved: Sequence[tuple[Value, Range | None]]) -> None:
        for value, before in reversed(saved):
            if before is None:
                self.narrowed.pop(value, None)
            else:
                self.narrowed[value] = before

    # ---- regions --------------------------------------------------------------------

    def region(self, region: Region) -> None:
        """One run through a region's ops; its end is noted with whatever it leads to."""
        saved: list[tuple[Value, Range | None]] = []
        for op in region.body:
            self.makers.update(dict.fromkeys(op.results, op))
            if op.spec is ops.IF:
                saved += self.branch(op)
            elif op.spec in LOOPS:
                self.loop(op)
            elif op.spec.terminator:
                self.end(op)
            else:
                self.plain(op)
        self.restore(saved)

    def end(self, op: Operation) -> None:
        found = [self.of(v) for v in op.operands]
        if op.spec is ops.YIELD:
            _join(self.yields[-1], found)
        elif op.spec is ops.CONTINUE:
            _join(self.again, found)
        elif op.spec is ops.BREAK:
            _join(self.left, found)

    def branch(self, op: Operation) -> list[tuple[Value, Range | None]]:
        """Both arms; behind them holds what the only arm that goes on assumes."""
        cond = op.operands[0]
        self.yields.append([])
        for region, holds in zip(op.regions, (True, False), strict=True):
            saved = self.assume(cond, holds)
            self.region(region)
            self.restore(saved)
        ends = self.yields.pop()
        for value, found in zip(op.results, ends, strict=False):
            self.note(value, found)
        goes = [falls(region) for region in op.regions]
        return self.assume(cond, goes[0]) if goes[0] != goes[1] else []

    def loop(self, op: Operation) -> None:
        """The carried values' ranges grow until another run through the body adds nothing."""
        (body,) = op.regions
        counted = op.spec is ops.FOR
        args = body.args[1:] if counted else body.args
        state = [self.of(v) for v in op.operands[3 if counted else 0 :]]
        if op in self.stable:  # what it grew to when the loop around ran before, or more
            state = [_union(a, b) for a, b in zip(state, self.stable[op], strict=True)]
        turns = 0
        while True:
            if counted:
                self.note(body.args[0], _index(*map(self.of, op.operands[:3])))
            for arg, found in zip(args, state, strict=True):
                self.note(arg, found)
            again, left = self.once(body)
            after = [_union(a, b) for a, b in zip(state, again or state, strict=True)]
            if after == state:
                break
            turns += 1
            state = [
                _widen(a, b) if turns > _WIDEN_AFTER else b
                for a, b in zip(state, after, strict=True)
            ]
        self.stable[op] = state
        if counted:
            left = [_union(a, b) for a, b in zip(left or state, state, strict=True)]
        for value, found in zip(op.results, left, strict=False):
            self.note(value, found)

    def once(self, body: Region) -> tuple[list[Range], list[Range]]:
        """What one run through a body carries on, and what it leaves with."""
        again: list[Range] = []
        left: list[Range] = []
        self.again, self.left, outer = again, left, (self.again, self.left)
        # a body's own `yield` continues
        self.yields.append(again)
        self.region(body)
        self.yields.pop()
        self.again, self.left = outer
        return again, left


def whole(kind: Type) -> Range:
    """All numbers of an integer type; what is no integer can be anything."""
    if not isinstance(kind, Scalar) or not kind.is_int:
        return -_MOST - 1, _MOST
    if kind.signed:
        return -(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1
    return 0, (1 << kind.bits) - 1


def _of_launch(name: str, items: Range, groups: Range, small: bool) -> Range:
    """An id or a size along one axis."""
    most = SIGNED[1] - 1 if small else 1 << 62
    return {
        "local_id": (0, items[1] - 1),
        "group_size": items,
        "group_id": (0, groups[1] - 1),
        "num_groups": groups,
        "global_id": (0, min(most, groups[1] * items[1] - 1)),
    }[name]


def _is_integer(value: Value) -> bool:
    return isinstance(value.type, Scalar) and value.type.is_int


def _union(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])


def _join(into: list[Range], found: Sequence[Range]) -> None:
    into[:] = [_union(a, b) for a, b in zip(into, found, strict=True)] if into else found


def _widen(before: Range, now: Range) -> Range:
    """Each bound that moved goes to the next step beyond, so that growing ends soon."""
    low, high = now
    if low < before[0]:
        low = next((s for s in _STEPS_DOWN if s <= low), -_MOST - 1)
    if high > before[1]:
        high = next((s for s in _STEPS_UP if s >= high), (1 << 64) - 1)
    return low, high


def _index(start: Range, stop: Range, step: Range) -> Range | None:
    """What the body of a `range` sees."""
    up, down = (start[0], stop[1] - 1), (stop[0] + 1, start[1])
    found = up if step[0] > 0 else down if step[1] < 0 else _union(up, down)
    return found if found[0] <= found[1] else None


# ---- arithmetic ----------------------------------------------------------------------------


def _corners(op: Callable[[int, int], int], a: Range, b: Range) -> Range:
    """Of an operation that is monotonous in each operand."""
    found = [op(x, y) for x in a for y in b]
    return min(found), max(found)


def _magnitude(a: Range) -> int:
    return max(abs(a[0]), abs(a[1]))


def _quotient(a: Range, b: Range, divide: Callable[[int, int], int]) -> Range:
    """Of a division in which x / 0 is 0."""
    if b[0] < 0:
        most = _magnitude(a)
        return -most, most
    if b[1] == 0:
        return 0, 0
    found = _corners(divide, a, (max(1, b[0]), b[1]))
    return found if b[0] else _union(found, (0, 0))


def _truncated(a: int, b: int) -> int:
    return -(-a // b) if a < 0 else a // b


def _floored(a: int, b: int) -> int:
    return a // b


def _mod(a: Range, b: Range) -> Range:
    low, high = min(0, b[0] + 1), max(0, b[1] - 1)
    return (0, min(high, a[1])) if a[0] >= 0 and b[0] >= 0 else (low, high)


def _rem(a: Range, b: Range) -> Range:
    most = max(0, _magnitude(b) - 1)
    return max(-most, min(a[0], 0)), min(most, max(a[1], 0))


def _and(a: Range, b: Range) -> Range | None:
    bounds = [r[1] for r in (a, b) if r[0] >= 0]
    return (0, min(bounds)) if bounds else None


def _or(a: Range, b: Range) -> Range | None:
    if a[0] < 0 or b[0] < 0:
        return None
    return 0, (1 << max(a[1].bit_length(), b[1].bit_length())) - 1


def _abs(a: Range) -> Range:
    return (0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))), _magnitude(a)


def _shifted(op: Operation, a: Range, count: Range) -> Range | None:
    kind = op.result.type
    assert isinstance(kind, Scalar)
    if count[0] != count[1]:
        return None
    by = count[0] % kind.bits
    return (a[0] << by, a[1] << by) if op.spec is ops.SHL else (a[0] >> by, a[1] >> by)


def _count(_: Range) -> Range:
    """Of what counts bits."""
    return 0, 64


_UNARY: Mapping[str, Callable[[Range], Range | None]] = {
    "neg": lambda a: (-a[1], -a[0]),
    "abs": _abs,
    "not": lambda a: (~a[1], ~a[0]),
    **dict.fromkeys(("popcount", "ctz", "clz"), _count),
}
_BINARY: Mapping[str, Callable[[Range, Range], Range | None]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": lambda a, b: _corners(mul, a, b),
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "div": lambda a, b: _quotient(a, b, _truncated),
    "floordiv": lambda a, b: _quotient(a, b, _floored),
    "mod": _mod,
    "rem": _rem,
    "and": _and,
    "or": _or,
    "xor": _or,
    "select": _union,
}

_OPPOSITE = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq"}
_COMPARES = tuple(_MIRRORED)


def _compared(name: str, a: Range, b: Range) -> Range:
    """Where `a` lies if it compares so with `b`."""
    return {
        "lt": (a[0], b[1] - 1),
        "le": (a[0], b[1]),
        "gt": (b[0] + 1, a[1]),
        "ge": (b[0], a[1]),
        "eq": b,
    }[name]
