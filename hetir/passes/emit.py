"""A builder that writes structure: `if` and `for` by functions that write their bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Region, Value
from hetir.ir.types import I64, Type


class Emit(Builder):
    """Appends to one region; nested regions are written by functions of a builder."""

    def number(self, value: int) -> Value:
        """An i64 constant."""
        return self.const(I64, value)

    def when(self, cond: Value, then: Callable[[Emit], None]) -> None:
        """`if cond: then`."""
        self.choose(cond, then, lambda _: None)

    def choose(
        self,
        cond: Value,
        then: Callable[[Emit], Sequence[Value] | None],
        other: Callable[[Emit], Sequence[Value] | None],
    ) -> tuple[Value, ...]:
        """An `if` with results."""
        regions: list[Region] = []
        kinds: list[Type] = []
        for write in (then, other):
            inner = Emit(self.loc)
            values = tuple(write(inner) or ())
            if not inner.body or not inner.body[-1].spec.terminator:
                inner.emit(ops.YIELD, *values)
                kinds = [v.type for v in values]
            regions.append(inner.region())
        return self.emit(ops.IF, cond, types=kinds, regions=tuple(regions)).results

    def count(
        self, start: Value, stop: Value, step: Value, body: Callable[[Emit, Value], None]
    ) -> None:
        """`for i in range(start, stop, step): body`."""
        index, inner = Value(I64), Emit(self.loc)
        body(inner, index)
        inner.emit(ops.YIELD)
        self.emit(ops.FOR, start, stop, step, types=(), regions=(inner.region(index),))
