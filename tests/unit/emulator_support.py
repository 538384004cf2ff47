"""Kernels built by hand for the evaluator's tests; every op has the test's own line."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Options, Param, Region, Value
from hetir.ir.types import BOOL, I64, ArrayType, Scalar, Type, static_array
from hetir.source import Loc


class Maker:
    """Builds one kernel; parameters are attributes, ops are methods or `op(name, ...)`."""

    def __init__(self, name: str = "k", **params: Type) -> None:
        self.name = name
        self.params = {n: Value(t, n) for n, t in params.items()}
        self.builders = [Builder()]
        self.pending: list[tuple[Value, Region, Loc]] = []

    def __getattr__(self, name: str) -> Value:
        try:
            return self.params[name]
        except KeyError:
            raise AttributeError(name) from None

    def kernel(self, **options: object) -> Kernel:
        """Close the body."""
        self.emit("return")
        return Kernel(
            name=self.name,
            params=tuple(Param(v, (at,)) for at, v in enumerate(self.params.values())),
            body=self.builders[0].region(),
            options=Options(**options),
        )

    def emit(self, op: str, *operands: Value | int, **attrs: object) -> tuple[Value, ...]:
        """Append an op; Python integers among the operands become i64 constants."""
        values = [self.value(v) for v in operands]
        made = self.builders[-1].emit(ops.TABLE[op], *values, attrs=attrs, loc=_here())
        return made.results

    def value(self, v: Value | int) -> Value:
        return v if isinstance(v, Value) else self.const(I64, v)

    def op(self, op: str, *operands: Value | int, **attrs: object) -> Value:
        """An op with one result."""
        (result,) = self.emit(op, *operands, **attrs)
        return result

    def const(self, kind: Scalar, value: float) -> Value:
        return self.builders[-1].const(kind, value, _here())

    def id(self, axis: int = 0) -> Value:
        return self.op("global_id", axis=axis)

    def local(self, axis: int = 0) -> Value:
        return self.op("local_id", axis=axis)

    def group(self, axis: int = 0) -> Value:
        return self.op("group_id", axis=axis)

    def dim(self, array: Value, axis: int = 0) -> Value:
        return self.op("dim", array, axis=axis)

    def cast(self, value: Value, to: Scalar) -> Value:
        return self.op("cast", value, to=to)

    def load(self, array: Value, *index: Value | int) -> Value:
        return self.op("load", array, *index)

    def store(self, array: Value, *rest: Value | int) -> None:
        """Indices, then the value; a Python value becomes the element type."""
        *index, value = rest
        if not isinstance(value, Value):
            assert isinstance(array.type, ArrayType)
            value = self.const(array.type.element, value)
        self.emit("store", array, *index, value)

    def alloc(self, kind: Scalar, *shape: int, space: str = "shared", name: str = "") -> Value:
        made = self.builders[-1].emit(
            ops.ALLOC, attrs={"type": static_array(kind, shape, space)}, loc=_here(), name=name
        )
        return made.result

    def rmw(self, kind: str, array: Value, *rest: Value | int, **how: str) -> Value:
        how = {"order": "relaxed", "scope": "device", **how}
        *index, value = rest
        if not isinstance(value, Value):
            assert isinstance(array.type, ArrayType)
            value = self.const(array.type.element, value)
        return self.op("atomic.rmw", array, *index, value, kind=kind, **how)

    def barrier(self, scope: str = "workgroup") -> None:
        self.emit("barrier", scope=scope)

    @contextmanager
    def if_(self, condition: Value) -> Iterator[None]:
        """An `if` without results; `else_` may follow."""
        loc = _here()
        self.builders.append(Builder())
        yield
        region = self._close()
        self.pending.append((condition, region, loc))
        self._finish_if(None)

    @contextmanager
    def if_else(self, condition: Value) -> Iterator[contextmanager[None]]:
        """An `if` without results: `with m.if_else(c) as other: ...; with other(): ...`."""
        loc = _here()
        self.builders.append(Builder())
        sides: list[Region] = []

        @contextmanager
        def other() -> Iterator[None]:
            sides.append(self._close())
            self.builders.append(Builder())
            yield

        yield other
        self.pending.append((condition, sides[0], loc))
        self._finish_if(self._close())

    def _finish_if(self, other: Region | None) -> None:
        condition, then, loc = self.pending.pop()
        if other is None:
            empty = Builder()
            empty.emit(ops.YIELD)
            other = empty.region()
        self.builders[-1].emit(ops.IF, condition, types=(), regions=(then, other), loc=loc)

    @contextmanager
    def for_(self, start: Value | int, stop: Value | int, step: Value | int = 1) -> Iterator[Value]:
        """A counted loop that carries nothing."""
        loc, index = _here(), Value(I64, "index")
        bounds = [self.value(v) for v in (start, stop, step)]
        self.builders.append(Builder())
        yield index
        region = self._close(index)
        self.builders[-1].emit(ops.FOR, *bounds, types=(), regions=(region,), loc=loc)

    @contextmanager
    def loop(self) -> Iterator[None]:
        """An endless loop that carries nothing; `break_if` leaves it."""
        loc = _here()
        self.builders.append(Builder())
        yield
        region = self._close()
        self.builders[-1].emit(ops.LOOP, types=(), regions=(region,), loc=loc)

    def break_if(self, condition: Value) -> None:
        with self.if_(condition):
            self.emit("break")

    def return_if(self, condition: Value) -> None:
        with self.if_(condition):
            self.emit("return")

    def _close(self, *args: Value) -> Region:
        builder = self.builders.pop()
        if not builder.body or not builder.body[-1].spec.terminator:
            builder.emit(ops.YIELD)
        return builder.region(*args)

    def not_(self, value: Value) -> Value:
        assert value.type == BOOL
        return self.op("not", value)


def _here() -> Loc:
    """The line of the test that called."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in (
        __file__,
        contextmanager.__code__.co_filename,
    ):
        frame = frame.f_back
    assert frame is not None
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line).split("#")[0].rstrip()
    return Loc(file, line, len(text) - len(text.lstrip()), line, len(text))
