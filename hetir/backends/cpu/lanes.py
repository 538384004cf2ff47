"""Ops of a lane vector: each kind goes to those who know it."""

from __future__ import annotations

from collections.abc import Sequence

from hetir.backends.cpu.columns import Columns
from hetir.backends.cpu.context import Context
from hetir.backends.cpu.divisions import Divisions
from hetir.backends.cpu.shortcuts import EMIT
from hetir.backends.cpu.single import Singles
from hetir.backends.cpu.vectors import Rep, Span
from hetir.backends.llvm.registers import REGISTER
from hetir.backends.llvm.rules import RULES
from hetir.ir import ops
from hetir.ir.core import Operation
from hetir.ir.types import BOOL, I64
from hetir.target import key_of


class Lanes(Columns, Divisions, Singles, Context):
    """Emits ops on lane vectors under `mask` (None: all lanes are on)."""

    def plain(self, op: Operation) -> None:
        """Emit an op without regions that is no terminator."""
        special = _SPECIAL.get(op.spec)
        if special is not None:
            special(self, op)
            return
        reps = [self.rep(v) for v in op.operands]
        by_rows = any(r.kind == "rows" for r in reps)
        made = self._on_rows(op, reps) if by_rows else self._on_lines(op, reps)
        if made is None and all(r.kind == "same" for r in reps):
            made = self._trivial(op, reps)
        if made is None and all(r.kind == "same" for r in reps):
            made = Rep("same", RULES[key_of(op)](self.code, op, [r.name for r in reps]))
        if made is None:
            made = self._shortcut(op) or self._cut(op, reps)
        if made is None:
            names = [self.spread(r, v.type) for r, v in zip(reps, op.operands, strict=True)]
            with self.wide():
                made = Rep("lanes", RULES[key_of(op)](self.code, op, names))
            if op.spec is ops.AND and op.result.type == BOOL:
                self._span_of_both(made.name, reps)
        self._note_multiple(op, reps, made)
        self.reps[op.result] = made

    def _shortcut(self, op: Operation) -> Rep | None:
        """What AVX-512 does in one instruction, see `shortcuts`."""
        found = self.host.shortcuts.get(op)
        if found is None or self.width * 32 % REGISTER:
            return None
        if any(v not in self.reps and v not in self.host.outer for v in found.operands):
            return None
        names = [self.vector(v) for v in found.operands]
        with self.wide():
            return Rep("lanes", EMIT[found.kind](self.code, *names))

    def _span_of_both(self, name: str, reps: Sequence[Rep]) -> None:
        """Note that the `and` of spans, and of what is alike in all lanes, is a span."""
        gates = [r.name for r in reps if r.kind == "same"]
        masks = [r.name for r in reps if r.kind == "lanes"]
        if len(gates) == 1 == len(masks):
            self.factors[name] = gates[0], masks[0]
        found: list[Span] = []
        for rep in reps:
            if rep.name in self.spans:
                found.append(self.spans[rep.name])
            elif rep.kind == "same":
                high = self.code.add(f"select i1 {rep.name}, i64 {self.width}, i64 0")
                found.append(Span("0", high))
            else:
                return
        self.spans[name] = self._overlap(*found)

    def index(self, op: Operation) -> None:
        """An id of the work-items."""
        axis = op.attrs.get("axis", 0)
        assert isinstance(axis, int)
        width = self.host.kernel.options.width
        match op.name:
            case "local_id":
                made = self.local[axis]
            case "global_id":
                made = self._global_id(axis)
            case "lane_id" if width % self.width == 0:
                made = Rep("line", self.code.add(f"urem i64 {self.linear}, {width}"), 1)
            case "subgroup_id" if width % self.width == 0:
                made = Rep("same", self.code.add(f"udiv i64 {self.linear}, {width}"))
            case "lane_id" | "subgroup_id":
                items = self.spread(Rep("line", self.linear, 1), I64)
                how = "urem" if op.name == "lane_id" else "udiv"
                by = f"splat (i64 {width})"
                made = Rep("lanes", self.code.add(f"{how} {self.of('i64')} {items}, {by}"))
            case _:
                self.host.index(op)
                made = Rep("same", self.host.local.pop(op.result))
        self.reps[op.result] = made

    def _global_id(self, axis: int) -> Rep:
        code, host, local = self.code, self.host, self.local[axis]
        size = host.frame.group_size(axis)
        base = code.add(f"mul nuw nsw i64 {host.group[1 + axis]}, {size}")
        if local.kind == "rows":
            made = {n: code.add(f"add nuw nsw i64 {base}, {n}") for n in local.names}
            return Rep("rows", "", local.step, names=tuple(made[n] for n in local.names))
        if local.kind != "lanes":
            return Rep(local.kind, code.add(f"add nuw nsw i64 {base}, {local.name}"), local.step)
        wide = self.splat("i64", base)
        return Rep("lanes", code.add(f"add nuw nsw {self.of('i64')} {wide}, {local.name}"))

    def agreed(self, op: Operation) -> None:
        """A value that the kernel promises to be the same in all work-items."""
        value = op.operands[0]
        self.reps[op.result] = Rep("same", self.scalar(self.rep(value), value.type))


_SPECIAL = {
    **dict.fromkeys((ops.LOCAL_ID, ops.GLOBAL_ID, ops.LANE_ID, ops.SUBGROUP_ID), Lanes.index),
    **dict.fromkeys((ops.GROUP_ID, ops.GROUP_SIZE, ops.NUM_GROUPS), Lanes.index),
    **dict.fromkeys(
        (ops.ATOMIC_LOAD, ops.ATOMIC_STORE, ops.ATOMIC_RMW, ops.ATOMIC_CAS), Lanes.each
    ),
    **dict.fromkeys((ops.PRINT, ops.ASSERT, ops.OUT_OF_BOUNDS), Lanes.each),
    **dict.fromkeys(
        (ops.DIM, ops.STRIDE, ops.SUBGROUP_SIZE, ops.FENCE, ops.ALLOC), Lanes.from_host
    ),
    ops.ASSUME_UNIFORM: Lanes.agreed,
    ops.BASE: Lanes.base,
    ops.LOAD: Lanes.load,
    ops.STORE: Lanes.store,
}
