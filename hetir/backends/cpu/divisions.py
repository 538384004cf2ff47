"""Lines that are divided by a number that is alike in all lanes: `i // n` and `i % n`.

Two scalar divisions tell the quotients and remainders of all lanes: with the first lane's remainder
in hand, what the lanes add to its quotient is a small number over a small number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hetir.backends.cpu.vectors import Rep, Vectors, signed
from hetir.backends.llvm.rules import RULES
from hetir.ir import ops
from hetir.ir.core import Operation
from hetir.ir.types import I64
from hetir.passes.narrow_demands import DIVISIONS
from hetir.target import key_of

# of such a distance at most between lanes the product by a reciprocal of 16 bits is exact
_FARTHEST = 180
_QUOTIENTS = (ops.DIV, ops.FLOORDIV)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """A division of a line: its first lane's quotient and remainder, right where `valid`.

    `far` is how much more the last lane has.
    """

    line: Rep
    by: str
    quotient: str
    remainder: str
    valid: str
    far: int


class Divisions(Vectors):
    """Emits divisions of lines."""

    def reach(self, op: Operation, reps: Sequence[Rep]) -> int:
        """How much more the last lane has than the first, if a growing line is divided, or 0."""
        line, by = reps
        known = (line.kind, by.kind) == ("line", "same") and op.result.type == I64
        far = line.step * (self.width - 1)
        # a line that is not small may wrap on the way
        return far if known and 0 < far <= _FARTHEST and op.operands[0] in self.host.small else 0

    def unturned(self, op: Operation, reps: Sequence[Rep]) -> tuple[Rep, str]:
        """A division's result if no lane passes a multiple of the divisor, and if none does."""
        cut = self._first(op, reps)
        last = self.code.add(f"add i64 {cut.remainder}, {cut.far}")
        inside = self.code.add(f"icmp slt i64 {last}, {cut.by}")
        guard = self.code.add(f"and i1 {cut.valid}, {inside}")
        if op.spec in _QUOTIENTS:
            return Rep("same", cut.quotient), guard
        return Rep("line", cut.remainder, cut.line.step), guard

    def _first(self, op: Operation, reps: Sequence[Rep]) -> _Cut:
        """Emit the first lane's share of a division of a line."""
        code, (line, by) = self.code, reps
        divisor = code.intrinsic("smax", "i64", ("i64", by.name), ("i64", "1"))
        quotient = code.add(f"udiv i64 {line.name}, {divisor}")
        remainder = code.add(f"urem i64 {line.name}, {divisor}")
        known, begun, far = "true", "true", self.reach(op, reps)
        if by.name.startswith("%") or signed(int(by.name)) <= 0:
            known = code.add(f"icmp sgt i64 {by.name}, 0")
        # of a first lane that is off nothing is known: rows are begun at a line of memory
        if self.mask is not None or op.operands[0] not in self.host.natural:
            begun = code.add(f"icmp sge i64 {line.name}, 0")
        valid = known if begun == "true" else code.add(f"and i1 {known}, {begun}")
        return _Cut(
            line=line, by=by.name, quotient=quotient, remainder=remainder, valid=valid, far=far
        )

    def _cut(self, op: Operation, reps: Sequence[Rep]) -> Rep | None:
        """The quotients or remainders of a line's lanes, or None."""
        if op.spec not in DIVISIONS or not self.reach(op, reps):
            return None
        cut = self._first(op, reps)
        if cut.valid == "true":
            return Rep("lanes", self._lanes_of(op, cut))
        code, wide = self.code, self.of("i64")
        easy, other, done = code.fresh("cut"), code.fresh("uncut"), code.fresh("cut_done")
        code.branch(cut.valid, easy, other)
        code.start(easy)
        one = self._lanes_of(op, cut)
        code.jump(done)
        code.start(other)
        operands = [self.spread(r, I64) for r in reps]
        with self.wide():
            two = RULES[key_of(op)](code, op, operands)
        code.jump(done)
        code.start(done)
        return Rep("lanes", code.add(f"phi {wide} [ {one}, %{easy} ], [ {two}, %{other} ]"))

    def _lanes_of(self, op: Operation, cut: _Cut) -> str:
        """All lanes' results from the first one's."""
        code, wide, whole = self.code, self.of("i64"), cut.far + 1
        # a divisor that at most one lane reaches is as good as any other such one
        near = code.intrinsic("smin", "i64", ("i64", cut.by), ("i64", str(whole)))
        less = code.add(f"sub i64 {cut.by}, {near}")
        less = code.add(f"sub i64 {cut.remainder}, {less}")
        first = code.intrinsic("smax", "i64", ("i64", less), ("i64", "0"))
        small, narrow = self.of("i32"), code.add(f"trunc i64 {near} to i32")
        inverse = code.add(f"add i32 {code.add(f'udiv i32 65535, {narrow}')}, 1")
        lanes = self.splat("i32", code.add(f"trunc i64 {first} to i32"))
        lanes = code.add(f"add {small} {lanes}, {self.row('i32', cut.line.step)}")
        product = code.add(f"mul {small} {lanes}, {self.splat('i32', inverse)}")
        more = code.add(f"lshr {small} {product}, splat (i32 16)")
        more = code.add(f"zext {small} {more} to {wide}")
        if op.spec in _QUOTIENTS:
            return code.add(f"add {wide} {self.splat('i64', cut.quotient)}, {more}")
        left = self.spread(Rep("line", cut.remainder, cut.line.step), I64)
        gone = code.add(f"mul {wide} {more}, {self.splat('i64', cut.by)}")
        return code.add(f"sub {wide} {left}, {gone}")
