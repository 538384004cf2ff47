"""Ops that the lanes of a vector do one after the other."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from hetir.backends.cpu.items import Item
from hetir.backends.cpu.vectors import Rep, Vectors
from hetir.backends.llvm.code import scalar_type
from hetir.ir import ops
from hetir.ir.core import Operation, Value


class Singles(Vectors):
    """Emits what has no vector form."""

    def each(self, op: Operation) -> None:
        """An op that has no vector form: atomics, records."""
        code, host = self.code, self.host
        mask = self.mask
        if op.spec is ops.ASSERT:
            mask = self.both(mask, self.other(self.vector(op.operands[0])))
        reps = [self.rep(v) for v in op.operands]
        result = None
        if op.results:
            kind = self.of(scalar_type(op.result.type))
            result = host.frame.buffer(kind, code.fresh("each"))
        if mask is None and op.spec not in (ops.PRINT, ops.OUT_OF_BOUNDS):
            for lane in range(self.width):
                self._in_lane(op, reps, result, str(lane))
        else:
            with self._lanes_on(mask) as lane:
                self._in_lane(op, reps, result, lane)
        if result is not None:
            kind = self.of(scalar_type(op.result.type))
            self.reps[op.result] = Rep("lanes", code.add(f"load {kind}, ptr {result}, align 64"))

    def _in_lane(self, op: Operation, reps: Sequence[Rep], result: str | None, lane: str) -> None:
        """One lane's turn; its result goes to the lane's place in a buffer."""
        code, host = self.code, self.host
        host.item = Item(code.add(f"add nuw nsw i64 {self.linear}, {lane}"), None)
        for value, rep in zip(op.operands, reps, strict=True):
            host.local[value] = self._pick(rep, value, lane)
        if reps and reps[0].kind == "private":
            self._private_place(op, reps, lane)
        host.emit(op)
        if result is not None:
            scalar = scalar_type(op.result.type)
            where = code.add(f"getelementptr {scalar}, ptr {result}, i64 {lane}")
            if scalar == "i1":
                raise AssertionError(op.name)
            code.put(f"store {scalar} {host.local[op.result]}, ptr {where}")
        host.local.clear()

    def _pick(self, rep: Rep, value: Value, lane: str) -> str:
        """One lane's value."""
        if rep.kind in ("same", "private"):
            return rep.name
        if rep.kind in ("pattern", "rows"):
            rep = Rep("lanes", self.spread(rep, value.type))
        if rep.kind == "line":
            moved = self.code.add(f"mul i64 {lane}, {rep.step}")
            return self.code.add(f"add i64 {rep.name}, {moved}")
        kind = self.of(scalar_type(value.type))
        return self.code.add(f"extractelement {kind} {rep.name}, i64 {lane}")

    def _private_place(self, op: Operation, reps: Sequence[Rep], lane: str) -> None:
        """The byte offset of one lane's element in an interleaved array."""
        host, code = self.host, self.code
        scaled = code.add(f"mul i64 {host.local[op.operands[1]]}, {self.width}")
        own = code.add(f"mul i64 {lane}, {reps[0].step}")
        host.local[op.operands[1]] = code.add(f"add i64 {scaled}, {own}")

    @contextmanager
    def _lanes_on(self, mask: str | None) -> Generator[str]:
        """A loop over the lanes of a mask."""
        code, count = self.code, f"i{self.width}"
        bits = self.bits(mask)
        entry = code.block
        head, body, leave = code.fresh("lanes"), code.fresh("lane"), code.fresh("lanes_done")
        code.jump(head)
        code.start(head)
        phi = code.reserve()
        left = "%" + code.fresh("left")
        code.branch(code.add(f"icmp ne {count} {left}, 0"), body, leave)
        code.start(body)
        lane = code.intrinsic("cttz", count, (count, left), ("i1", "true"))
        yield self.as_index(lane)
        less = code.add(f"sub {count} {left}, 1")
        rest = code.add(f"and {count} {left}, {less}")
        code.fill(phi, [f"  {left} = phi {count} [ {bits}, %{entry} ], [ {rest}, %{code.block} ]"])
        code.jump(head)
        code.start(leave)
