"""Indices that are clamped or turn over at a border: lines wherever no lane is outside.

`min(max(x + d, 0), n - 1)` is x + d in all but the outermost vectors; `i // n` is one number and
`i % n` a line in all vectors that lie within a row of n. What follows the first such op of a region
is written for vectors of which no lane is clamped or in the next row, whose accesses are then whole
lines. The others take the code for lanes under a mask, where there is one, or one of their own.
Which it is takes a few scalar operations.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

from hetir.backends.cpu.slots import Slots, is_short
from hetir.backends.cpu.vectors import Rep, signed
from hetir.ir import ops
from hetir.ir.core import Operation, Value
from hetir.ir.types import I64
from hetir.passes.narrow_demands import DIVISIONS

_DEEPEST = 2  # such regions inside each other


@dataclass(frozen=True, slots=True)
class _Clamp:
    """A line, and the limit that all its lanes keep to when it is left as it is."""

    line: Rep
    limit: str
    lower: bool

    def worst(self, width: int) -> int:
        """How far the lane that is nearest the limit lies from the first lane."""
        far = self.line.step * (width - 1)
        return min(0, far) if self.lower else max(0, far)


class Clamps(Slots):
    """Tells vectors at a border from the others."""

    _unclamped: set[Value]
    _clamp_depth: int

    def _clamps(self, body: Sequence[Operation], index: int) -> bool:
        """Whether to tell the vectors apart from an op of a region on: a clamp, or a division."""
        return (
            self.mask is None
            and self._clamp_depth < _DEEPEST
            and (self._clamp(body[index]) is not None or self._turns(body[index]))
            and (self._retreat is not None or is_short(body, index))
        )

    def _clamp(self, op: Operation) -> _Clamp | None:
        """What a `min` or `max` of a line and what is alike in all lanes asks, or None."""
        if op.spec not in (ops.MIN, ops.MAX) or op.result.type != I64:
            return None
        pairs = [(self.rep(v), v) for v in op.operands]
        pairs.sort(key=lambda pair: pair[0].kind)
        (line, value), (limit, _) = pairs
        if (line.kind, limit.kind) != ("line", "same"):
            return None
        if value not in self.host.small and value not in self._unclamped:
            return None  # it may wrap on the way
        return _Clamp(line, limit.name, op.spec is ops.MAX)

    def _turns(self, op: Operation) -> bool:
        """Whether an op divides a line by what may be more than the lanes are apart."""
        if op.spec not in DIVISIONS:
            return False
        reps = [self.rep(v) for v in op.operands]
        far, by = self.reach(op, reps), reps[1].name
        return far > 0 and (by.startswith("%") or signed(int(by)) > far)

    def _border(self, body: Sequence[Operation]) -> None:
        """Emit a region's rest for vectors inside, then for those at a border."""
        code, before = self.code, dict(self.reps)
        guard, done = self._inside(body)
        inside = code.fresh("inside")
        if self._retreat is not None:
            code.branch(guard, inside, self._retreat)
            code.start(inside)
            self._clamp_depth += 1
            for op in done:
                self._watch(op)
            self._region([op for op in body if op not in done])
            self._clamp_depth -= 1
            return
        left, border, end = self._slot_of("i1", "after"), code.fresh("border"), code.fresh("met")
        code.branch(guard, inside, border)
        ends: list[str | None] = []
        code.start(inside)
        with self._version(left, end, ends, depth=self._clamp_depth + 1):
            for op in done:
                self._watch(op)
            self._region([op for op in body if op not in done])
        code.start(border)
        self.reps = before
        with self._version(left, end, ends, depth=_DEEPEST):
            self._region(body)
        self._meet(left, end, ends)

    @contextmanager
    def _version(
        self, left: str, end: str, ends: list[str | None], *, depth: int = _DEEPEST
    ) -> Generator[None]:
        """One of several versions of a region's rest, all for whole vectors, which go to `end`.

        Its mask goes to the slot `left` and into `ends`.
        """
        reps, before = dict(self.reps), self._clamp_depth
        self.mask, self._clamp_depth = None, depth
        yield
        if not self._state.dead:
            ends.append(self.mask)
            self._put_mask(left, self.mask)
            self.code.jump(end)
        self._state.dead = False
        self.reps, self._clamp_depth = reps, before

    def _meet(self, left: str, end: str, ends: Sequence[str | None]) -> None:
        """Go on after all versions."""
        self._state.dead = not ends
        if ends:
            self.code.start(end)
            self.mask = None if ends == [None] * len(ends) else self._get_mask(left)

    def _inside(self, body: Sequence[Operation]) -> tuple[str, set[Operation]]:
        """Emit all clamps that can be, and what they need, as if no lane were outside.

        Gives the condition for that, and the ops.
        """
        needed = _slice(body)
        found: list[_Clamp] = []
        guards: list[str] = []
        for op in needed:
            clamp = self._clamp(op)
            if clamp is not None:
                found.append(clamp)
                self.reps[op.result] = clamp.line
                self._unclamped.add(op.result)
            elif self._turns(op):
                self.reps[op.result], guard = self.unturned(op, [self.rep(v) for v in op.operands])
                guards.append(guard)
            else:
                self.plain(op)
        return reduce(self._and, [*guards, *self._guards(found)]), set(needed)

    def _and(self, a: str, b: str) -> str:
        return self.code.add(f"and i1 {a}, {b}")

    def _guards(self, clamps: Sequence[_Clamp]) -> Generator[str]:
        """Whether all lanes keep to all limits: of lines a constant apart, the outermost."""
        outermost: dict[tuple[str, str, bool], int] = {}
        for clamp in clamps:
            base, distance = self.sums.get(clamp.line.name, (clamp.line.name, 0))
            distance += clamp.worst(self.width)
            key = base, clamp.limit, clamp.lower
            known = outermost.get(key, distance)
            outermost[key] = min(known, distance) if clamp.lower else max(known, distance)
        for (base, limit, lower), distance in outermost.items():
            lane = self.code.add(f"add i64 {base}, {distance}")
            yield self.code.add(f"icmp {'sge' if lower else 'sle'} i64 {lane}, {limit}")


def _slice(body: Sequence[Operation]) -> list[Operation]:
    """The clamps and divisions of i64 that do not wait for anything but pure ops, and those."""
    late: set[Value] = set()
    makers: dict[Value, Operation] = {}
    wanted: set[Operation] = set()
    for op in body:
        if not op.spec.pure or not late.isdisjoint(op.operands):
            late.update(op.results)
            continue
        makers.update(dict.fromkeys(op.results, op))
        if op.spec in (ops.MIN, ops.MAX, *DIVISIONS) and op.result.type == I64:
            work = [op]
            while work:
                needed = work.pop()
                if needed not in wanted:
                    wanted.add(needed)
                    work += [makers[v] for v in needed.operands if v in makers]
    return [op for op in body if op in wanted]
