"""Indices folded at a power of two that is known at run time only: `i & (distance - 1)`.

With a distance of a vector or more the lanes stay neighbours, and with less they have one of a few
patterns, which a vector load and a shuffle can follow. So what follows such an op is written for
each of these cases, which a comparison tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hetir.backends.cpu.clamps import Clamps
from hetir.backends.cpu.slots import is_short
from hetir.backends.cpu.vectors import Rep
from hetir.ir import ops
from hetir.ir.core import Operation
from hetir.ir.types import I64


class Folds(Clamps):
    """Tells distances apart."""

    def _folds(self, body: Sequence[Operation], index: int) -> bool:
        """Whether to tell distances apart from an op of a region on, which is an `and`."""
        cases = self.width.bit_length() + 1
        return (
            self._clamp_depth == 0
            and self._fold(body[index]) is not None
            and is_short(body, index, cases)
        )

    def _fold(self, op: Operation) -> tuple[str, str] | None:
        """The line and the limit of an `and` that could be a fold."""
        if op.spec is not ops.AND or op.result.type != I64 or self.mask is not None:
            return None
        line, limit = sorted((self.rep(v) for v in op.operands), key=lambda rep: rep.kind)
        if (line.kind, limit.kind, line.step) != ("line", "same", 1):
            return None
        return (line.name, limit.name) if limit.name.startswith("%") else None

    def _unfold(self, body: Sequence[Operation]) -> None:
        """Emit a region's rest for each distance that gives a simple index, then for any."""
        pair = self._fold(body[0])
        assert pair is not None
        result, rest = body[0].result, body[1:]
        code, left, end = self.code, self._slot_of("i1", "after"), self.code.fresh("met")
        ends: list[str | None] = []
        for guard, rep in self._cases(*pair):
            fits, others = code.fresh("distance"), code.fresh("others")
            code.branch(guard, fits, others)
            code.start(fits)
            with self._version(left, end, ends):
                self.reps[result] = rep
                self._watch(body[0])
                self._region(rest)
            code.start(others)
        with self._version(left, end, ends):
            self.plain(body[0])
            self._watch(body[0])
            self._region(rest)
        self._meet(left, end, ends)

    def _cases(self, line: str, limit: str) -> Iterator[tuple[str, Rep]]:
        """Conditions, each with what the `and` is then; emitted one by one."""
        code, width = self.code, self.width
        first = code.add(f"and i64 {line}, {limit}")
        last = code.add(f"add i64 {first}, {width - 1}")
        more = code.add(f"add i64 {limit}, 1")
        rest = code.add(f"and i64 {limit}, {more}")
        whole = code.add(f"icmp eq i64 {rest}, 0")
        near = code.add(f"icmp ule i64 {last}, {limit}")
        yield code.add(f"and i1 {whole}, {near}"), Rep("line", first, 1)
        period = 1
        while period < width and line in self.multiples:
            offsets = tuple(lane % period for lane in range(width))
            found = Rep("pattern", "0", offsets=offsets) if period > 1 else Rep("same", "0")
            yield code.add(f"icmp eq i64 {limit}, {period - 1}"), found
            period *= 2
