"""Rows of lanes: what lanes that differ in their first local id alone share, made once a row.

A workgroup of more than one axis is rows of lanes. A number that a row shares is text of the scalar
unit; as lanes it is a Duplicate for each row.
"""

from __future__ import annotations

from collections.abc import Sequence

from hetir.backends.ascend.simd_lanes import Lanes
from hetir.backends.ascend.simd_program import Access
from hetir.backends.ascend.simd_reps import (
    FULL,
    Affine,
    Array,
    Bound,
    Box,
    Mask,
    Num,
    Pointer,
    Row,
    Tensor,
    Uniform,
    grouped,
    minus,
    plus,
    times,
)
from hetir.backends.ascend.simd_scalar import index_expression
from hetir.backends.ascend.simd_state import storage
from hetir.ir.core import Operation, Value
from hetir.ir.types import BOOL, I64, Scalar

_BLOCK = 32
_LONG = 100  # characters of text that may be computed again at each use
_REPEATS = 255  # of an instruction, and blocks from one repeat to the next


class Rows(Lanes):
    """The rows of a kernel's lanes."""

    # ---- where the lanes of a row lie ----------------------------------------------------

    def row_bounds(self, mask: Mask) -> list[Bound]:
        """The local ids of the lanes that are on, or of all where only each lane knows."""
        bounds = mask.bounds if isinstance(mask, Box) else (None, None, None)
        return [b or (0, n) for b, n in zip(bounds, self.shape.extents, strict=True)]

    @property
    def row_number(self) -> Num:
        """The number of a row in a loop over rows."""
        _, y, z = self.coords
        return plus(y, times(self.shape.extents[1], z))

    def whole_rows(self, size: int) -> bool:
        """Whether each row of elements of `size` bytes is one of several, and fills blocks."""
        return not self.shape.flat and self.shape.extents[0] * size % _BLOCK == 0

    # ---- numbers -------------------------------------------------------------------------

    def row(self, value: Value) -> Row | None:
        """A value that differs along the first axis by steps alone."""
        rep = self.reps.get(value)
        match rep:
            case Uniform():
                return Row(rep.text)
            case Affine():
                _, y, z = self.coords
                return Row(rep.at((0, y, z)), rep.factors[0])
            case Box() if rep.bounds[0] is None:
                return Row(self.inside_box(rep))
            case Row():
                return rep
            case _:
                return None

    def of_rows(self, op: Operation) -> Row | None:
        """An op on numbers that rows share: on lines too where it is a sum or multiple."""
        kind = op.result.type
        rows = [self.row(v) for v in op.operands]
        parts = [r for r in rows if r is not None]
        if self.shape.flat or not isinstance(kind, Scalar) or kind == BOOL or None in rows:
            return None
        reads = tuple(dict.fromkeys(a for r in parts for a in r.reads))
        if reads and not isinstance(self.mask, Box):
            return None  # a row with no lane on has nothing to read
        step = self._step(op, parts)
        if step is None:
            return None
        text = index_expression(op, [grouped(r.text) for r in parts], op.result not in self.safe)
        found = Row(text, step, reads)
        return found if len(text) < _LONG else self.kept_row(op, found)

    def _step(self, op: Operation, parts: Sequence[Row]) -> Num | None:
        """How an op's result differs along the first axis, unless the steps are uneven."""
        steps = [r.step for r in parts]
        if not any(s != 0 for s in steps):
            return 0
        if op.result.type != I64 or op.name not in ("add", "sub", "mul"):
            return None
        if op.name != "mul":
            return (plus if op.name == "add" else minus)(*steps)
        factors = [self.reps[v] for v, s in zip(op.operands, steps, strict=True) if s == 0]
        if len(factors) != 1 or not isinstance(factors[0], Uniform):
            return None
        text = factors[0].text
        scale = int(text) if text.lstrip("-").isdigit() else text
        return times(next(s for s in steps if s != 0), scale)

    def kept_row(self, op: Operation, row: Row) -> Row:
        """A number of each row in a buffer of its own."""
        kind = storage(op.result.type)
        _, gy, gz = self.shape.extents
        made = self.buffer(op.result.name or "rows", kind, gy * gz)
        line = f"{made.name}.SetValue({self.row_number}, {row.text});"
        lines = self.each_row(self.row_bounds(self.mask), line)
        self.at(op)
        self.instr("S", lines, row.reads, [Access(made)], op="rows")
        return Row(f"{made.name}.GetValue({self.row_number})", row.step, (Access(made),))

    # ---- lanes ---------------------------------------------------------------------------

    def duplicate_rows(self, to: Tensor, row: Row, mask: Mask) -> bool:
        """Write each row's number into its lanes, those of `mask` at least, if the unit can."""
        on = self.mask if mask == FULL else mask
        bounds = self.row_bounds(on)
        low, high = (0, self.shape.extents[0]) if mask == FULL else bounds[0]
        blind = bool(row.reads) or mask != FULL
        if row.step != 0 or low != 0 or not self.whole_rows(to.buffer.size):
            return False
        if to.buffer.size not in (2, 4) or (blind and not isinstance(on, Box)):
            return False
        start = plus(to.start, times(self.shape.extents[0], grouped(str(self.row_number))))
        line = f"Duplicate({to.buffer.name}[{start}], {row.text}, {high});"
        if row.reads:
            self.instr("S", [], row.reads)
        self.instr("V", self.each_row(bounds, line), (), [self.access(to)], op="Duplicate")
        return True

    def load_rows(self, op: Operation, target: Pointer | Array, offset: Row) -> Tensor | Row | None:
        """One load for each row: into its lanes, or for numbers of addresses and bytes aside."""
        kind = op.attrs["element"]
        assert isinstance(kind, Scalar)
        aside = kind.is_int and (kind.bytes not in (2, 4) or self._addresses(op.result))
        lanes = kind.bytes in (2, 4) and self.whole_rows(kind.bytes)
        if kind == BOOL or not isinstance(self.mask, Box) or not (aside or lanes):
            return None
        if self.group.scatters or (self.group.memory and isinstance(target, Array)):
            self.flush()
        self.at(op)
        if isinstance(target, Pointer):
            text = f"LoadGlobal<{storage(kind)}>({target.text}, {offset.text})"
            reads = (*offset.reads, Access(target.place))
        else:
            index = self.index_of(target, offset.text)
            text = f"{target.buffer.name}.GetValue({index})"
            reads = (*offset.reads, Access(target.buffer))
        row = Row(text, 0, reads)
        if aside:
            return self.kept_row(op, row)
        made = Tensor(self.buffer(op.result.name or "lanes", storage(kind)), storage(kind))
        self.duplicate_rows(made, row, FULL)
        return made

    def _addresses(self, value: Value) -> bool:
        """Whether a number becomes an i64, as those of addresses do."""
        return any(
            user.name == "cast" and user.result.type == I64 for user in self.users.get(value, ())
        )

    # ---- rows from place to place --------------------------------------------------------

    def copied_rows(
        self, to: Tensor, to_steps: Sequence[int], source: Tensor, steps: Sequence[int]
    ) -> list[str] | None:
        """Lines that copy rows of lanes; the steps are elements from one local id to the next.

        None where the rows that are on do not begin blocks, or too many are there for one
        instruction.
        """
        assert isinstance(self.mask, Box)
        bounds, size = self.row_bounds(self.mask), to.buffer.size
        low, high = bounds[0]
        axis = next(a for a in self.shape.axes if a > 0)
        apart = [s[axis] * size for s in (to_steps, steps)]
        outer = [s[2] * size for s in (to_steps, steps)] if axis == 1 else [0, 0]
        if low != 0 or any(b % _BLOCK for b in (*apart, *outer)):
            return None
        if any(
            not 0 <= n <= _REPEATS
            for n in (self.shape.extents[axis], *(b // _BLOCK for b in apart))
        ):
            return None
        first, last = bounds[axis]
        places: list[str] = []
        for tensor, by in ((to, to_steps), (source, steps)):
            inner = times(by[2], self.coords[2]) if axis == 1 else 0
            start = plus(plus(tensor.start, times(by[axis], first)), inner)
            places.append(Tensor(tensor.buffer, tensor.kind, start).text(to.kind))
        strides = ", ".join(str(b // _BLOCK) for b in apart)
        units = times(high, size // 2)
        line = f"CopyRows({places[0]}, {places[1]}, {minus(last, first)}, {units}, {strides});"
        planes = self.shape.axes[-1] == 2 and axis == 1
        return self.each_row(bounds, line, 2) if planes else [line]
