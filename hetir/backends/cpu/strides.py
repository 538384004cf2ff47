"""Arrays whose neighbours along the lanes lie a few elements apart, by strides of the launch.

`p[i, 0]` of points, `image[y, x, c]` of pixels and `x[::2]` step by what is known at run time only,
which is most often two to four elements. So what follows the first product of a line and a stride
is written for each of these too: accesses are then windows, of vectors of memory and a shuffle.
Not so before a loop and in one that all lanes go through together, which most often goes along
rows that are longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from hetir.backends.cpu.folds import Folds
from hetir.backends.cpu.slots import is_short
from hetir.backends.cpu.vectors import Rep
from hetir.ir import ops
from hetir.ir.core import Operation, Region, Value, walk
from hetir.ir.types import I64, ArrayType
from hetir.passes.regions import LOOPS

_ELEMENTS = (1, 2, 3, 4)
_MOST = 4  # arrays that are compared
_TIMES = 10  # five copies of some ops: most strides are known, and LLVM takes its time


class Strides(Folds):
    """Tells strides apart."""

    def _strides(self, body: Sequence[Operation], index: int) -> bool:
        """Whether to tell strides apart from an op of a region on, which multiplies by one."""
        return (
            self.mask is None
            and self._clamp_depth == 0
            and self._strided(body[index])
            and not (self._state.loops and self._state.loops[-1].again.straight)
            and not any(op.spec in LOOPS for op in body[index:])
            and len(self._apart(body[index:])) <= _MOST
            and is_short(body, index, _TIMES)
        )

    def _strided(self, op: Operation) -> bool:
        """Whether an op multiplies a line that counts by one by a stride."""
        if op.spec is not ops.MUL or op.result.type != I64:
            return False
        reps = [self.rep(v) for v in op.operands]
        return any(
            line.kind == "line" and line.step == 1 and self._element(by)
            for line, by in zip(reps, reversed(op.operands), strict=True)
        )

    def _element(self, value: Value) -> int:
        """The bytes of an element of the array of which this is a stride unknown so far, or 0."""
        op = self.host.definition(value)
        made = value in self.reps or value in self.host.outer
        if op is None or op.spec is not ops.STRIDE or not made:
            return 0
        if not self.rep(value).name.startswith("%"):
            return 0
        kind = op.operands[0].type
        assert isinstance(kind, ArrayType)
        return kind.element.bytes

    def _apart(self, body: Sequence[Operation]) -> dict[Value, int]:
        """The strides that what varies is multiplied by, each with the bytes of an element."""
        found: dict[Value, int] = {}
        for op in walk(Region((), tuple(body))):
            if op.spec is ops.MUL and op.result.type == I64:
                for other, by in zip(op.operands, reversed(op.operands), strict=True):
                    alike = other in self.reps and self.reps[other].kind == "same"
                    if not alike and self.host.known.varying(other) and self._element(by):
                        found[by] = self._element(by)
        return found

    def _step(self, body: Sequence[Operation]) -> None:
        """Emit a region's rest for each of the usual strides, then for any."""
        apart = self._apart(body)
        code, left, end = self.code, self._slot_of("i1", "after"), self.code.fresh("met")
        ends: list[str | None] = []
        for count in _ELEMENTS:
            fits, others = code.fresh("step"), code.fresh("others")
            guards = [
                code.add(f"icmp eq i64 {self.rep(value).name}, {count * size}")
                for value, size in apart.items()
            ]
            code.branch(reduce(self._and, guards), fits, others)
            code.start(fits)
            with self._version(left, end, ends, depth=1):
                self.reps |= {v: Rep("same", str(count * size)) for v, size in apart.items()}
                self._region(body)
            code.start(others)
        with self._version(left, end, ends, depth=1):
            self._region(body)
        self._meet(left, end, ends)
