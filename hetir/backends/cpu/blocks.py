"""Vectors of several rows of work-items: what rows share is done once, what a row shares is scalar.

A value that is held by rows takes a scalar a row: ids, offsets, conditions, and whatever does not
depend on x. Accesses are made of a piece a row: neighbours are a vector of memory, one element for
the whole row is a scalar, and pieces at one address are loaded once.
"""

from __future__ import annotations

from collections.abc import Sequence

from hetir.backends.cpu.lines import Lines
from hetir.backends.cpu.vectors import Rep, signed
from hetir.backends.cpu.windows import masked_load, masked_store
from hetir.backends.llvm import memory
from hetir.backends.llvm.code import memory_type
from hetir.backends.llvm.rules import RULES, byte, truth
from hetir.ir import ops
from hetir.ir.core import Operation
from hetir.ir.types import BOOL, I64
from hetir.target import key_of

_COMPARISONS = (ops.LT, ops.LE, ops.GT, ops.GE, ops.EQ, ops.NE)


class Blocks(Lines):
    """Keeps what is held by rows so, where the op allows it."""

    def _on_rows(self, op: Operation, reps: Sequence[Rep]) -> Rep | None:
        """An op on values of which some are held by rows, a row at a time, or None."""
        if any(r.kind not in ("same", "line", "rows") for r in reps):
            return None
        by_rows = [self.by_rows(r) for r in reps]
        if op.spec in _COMPARISONS and any(r.step for r in by_rows):
            return self._compare_rows(op, by_rows)
        step = self._step_of(op, by_rows)
        return None if step is None else self._each_row(op, by_rows, step)

    def _step_of(self, op: Operation, reps: Sequence[Rep]) -> int | None:
        """How much the result of an op grows from lane to lane of a row, if by a fixed step."""
        steps = [r.step for r in reps]
        if not any(steps):
            return 0
        match op.name:
            case "add":
                return sum(steps)
            case "sub":
                return steps[0] - steps[1]
            case "mul" if 0 in steps:
                factor = reps[steps.index(0)].names
                known = len(set(factor)) == 1 and not factor[0].startswith("%")
                return signed(int(factor[0])) * max(steps, key=abs) if known else None
            case "select" if steps[1] == steps[2]:
                return steps[1]
            case "cast" if op.operands[0].type == I64 == op.result.type:
                return steps[0]
            case _:
                return None

    def by_rows(self, rep: Rep) -> Rep:
        """What is alike in all lanes, or a line, held by rows."""
        if rep.kind == "rows":
            return rep
        names = [rep.name] * self.rows
        if rep.kind == "line":
            far = rep.step * self.columns
            names = [
                self.code.add(f"add i64 {rep.name}, {row * far}") if row else rep.name
                for row in range(self.rows)
            ]
        return Rep("rows", "", rep.step, names=tuple(names))

    def _each_row(self, op: Operation, reps: Sequence[Rep], step: int) -> Rep:
        """Do an op on the first lanes of rows, once for rows that are alike."""
        made: dict[tuple[str, ...], str] = {}
        rows = list(zip(*(r.names for r in reps), strict=True))
        for row in rows:
            if row not in made:
                made[row] = RULES[key_of(op)](self.code, op, row)
        return self._simplest(tuple(made[row] for row in rows), step)

    def _simplest(self, names: tuple[str, ...], step: int) -> Rep:
        """A value by its rows, in its simplest form."""
        if step == 0 and len(set(names)) == 1:
            return Rep("same", names[0])
        return Rep("rows", "", step, names=names)

    def _compare_rows(self, op: Operation, reps: Sequence[Rep]) -> Rep | None:
        """Lines that start anew in each row against each other, or against a scalar a row."""
        if any(r.step and v not in self.host.exact for r, v in zip(reps, op.operands, strict=True)):
            return None  # it may wrap on the way
        step = reps[0].step - reps[1].step
        if abs(step) * self.columns >= 1 << 30:
            return None
        if step == 0:
            return self._each_row(op, reps, 0)
        made: dict[tuple[str, ...], str] = {}
        rows = list(zip(*(r.names for r in reps), strict=True))
        small = self.host.small.issuperset(op.operands)
        for row in rows:
            if row not in made:
                distance = self.distance(row[1], row[0], small=small)
                made[row], _ = self.against(op.name, distance, step, self.columns)
        return Rep("lanes", self.join([made[row] for row in rows], "i1"))

    # ---- accesses ------------------------------------------------------------------------

    def by_pieces(self, op: Operation) -> bool:
        """Whether an access is made of a piece a row."""
        base, offset = self.rep(op.operands[0]), self.rep(op.operands[1])
        size = memory.element_of(op).bytes
        if base.kind != "same" or offset.kind != "rows":
            return False
        return offset.step == size or (offset.step == 0 and op.spec is ops.LOAD)

    def load_pieces(self, op: Operation, tags: str) -> Rep:
        """Load a piece a row, once for rows at one address, and only what some lane asks for."""
        code, element = self.code, memory.element_of(op)
        base, offset = self.rep(op.operands[0]).name, self.rep(op.operands[1])
        kind, made = memory_type(element), dict[str, str]()
        for name, mask in self._asked(offset.names).items():
            where = code.index(base, name)
            if not offset.step:
                made[name] = memory.load(code, op, self._safe(where, mask), tags)
            elif mask is None:
                vector = f"<{self.columns} x {kind}>"
                made[name] = code.add(f"load {vector}, ptr {where}, align {element.bytes}{tags}")
            else:
                at = where, element.bytes, tags
                made[name] = masked_load(code, self.columns, kind, mask, *at)
        pieces = tuple(made[name] for name in offset.names)
        if not offset.step:
            return self._simplest(pieces, 0)
        raw = self.join(pieces, kind)
        with self.wide():
            return Rep("lanes", truth(code, raw) if element == BOOL else raw)

    def _asked(self, names: Sequence[str]) -> dict[str, str | None]:
        """Each offset, with the mask of a row's lanes that are on in any row that has it."""
        if self.mask is None:
            return dict.fromkeys(names)
        asked: dict[str, str | None] = {}
        for name, mask in zip(names, self._parts(self.mask, "i1"), strict=True):
            more = asked.get(name)
            both = f"or <{self.columns} x i1> {more}, {mask}"
            asked[name] = mask if more is None else self.code.add(both)
        return asked

    def _safe(self, where: str, mask: str | None) -> str:
        """An address, or one of zeros where no lane is on."""
        if mask is None:
            return where
        code, count = self.code, self.columns
        bits = code.add(f"bitcast <{count} x i1> {mask} to i{count}")
        some = code.add(f"icmp ne i{count} {bits}, 0")
        return code.add(f"select i1 {some}, ptr {where}, ptr {self.host.frame.zeros()}")

    def store_pieces(self, op: Operation, tags: str) -> None:
        """Store a piece a row."""
        code, element, name = self.code, memory.element_of(op), self.vector(op.operands[2])
        base, offset = self.rep(op.operands[0]).name, self.rep(op.operands[1])
        count, kind, align = self.columns, memory_type(element), element.bytes
        with self.wide():
            name = byte(code, element, name)
        places = [code.index(base, name) for name in offset.names]
        pieces = self._parts(name, kind)
        if self.mask is None:
            for piece, where in zip(pieces, places, strict=True):
                code.put(f"store <{count} x {kind}> {piece}, ptr {where}, align {align}{tags}")
            return
        for mask, piece, where in zip(self._parts(self.mask, "i1"), pieces, places, strict=True):
            masked_store(code, count, kind, mask, piece, where, align, tags)

    def _parts(self, name: str, scalar: str) -> list[str]:
        """The rows of a vector."""
        return [self.part(name, scalar, row, self.columns) for row in range(self.rows)]
