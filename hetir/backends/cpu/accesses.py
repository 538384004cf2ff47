"""Loads and stores of a lane vector: scalars, whole lines, or gathers and scatters."""

from __future__ import annotations

from hetir.backends.cpu import windows
from hetir.backends.cpu.blocks import Blocks
from hetir.backends.cpu.frame import bytes_of
from hetir.backends.cpu.vectors import Rep
from hetir.backends.cpu.windows import Window
from hetir.backends.llvm import memory
from hetir.backends.llvm.code import memory_type
from hetir.backends.llvm.rules import byte, truth
from hetir.ir import ops
from hetir.ir.core import Operation, Value
from hetir.ir.types import BOOL, I64, ArrayType, RefType, Scalar


class Accesses(Blocks):
    """Emits plain accesses under the mask."""

    def from_host(self, op: Operation) -> None:
        """An op that the whole workgroup does once."""
        self.host.emit(op)
        if op.results and op.spec is not ops.ALLOC:
            self.reps[op.result] = Rep("same", self.host.local.pop(op.result))

    def base(self, op: Operation) -> None:
        """The address of an array."""
        array, host = op.operands[0], self.host
        kind = array.type
        assert isinstance(kind, ArrayType)
        if kind.space != "private":
            self.from_host(op)
            return
        if array in host.plan.arrays:
            size = -(-bytes_of(kind) // 8) * 8
            offset = self.code.add(f"mul nuw nsw i64 {self.linear}, {size}")
            name = self.code.index(host.frame.column(host.plan.arrays[array]), offset)
        else:
            size = max(1, bytes_of(kind)) * self.width
            name = host.frame.buffer(f"[{size} x i8]", f"private {id(array)}")
        self.reps[op.result] = Rep("private", name, kind.element.bytes)

    def load(self, op: Operation) -> None:
        """A plain load."""
        element = memory.element_of(op)
        kind = memory_type(element)
        tags = self.host.aliases.of(op.operands[0])
        if self.by_pieces(op):
            self.reps[op.result] = self.load_pieces(op, tags)
            return
        window = self._window(op, element)
        how, where = ("window", "") if window else self._address(op, element)
        if how == "same":
            name = memory.load(self.code, op, where, tags)
            self.reps[op.result] = Rep("same", name)
            return
        vector = self.of(kind)
        if window is not None:
            at = self._window_place(op, window)
            raw = windows.load(self.code, window, kind, at, element.bytes, tags)
        elif how == "gather":
            raw = (
                self._call(
                    "masked.gather",
                    vector,
                    f"{self.of('ptr')} align {element.bytes} {where}",
                    f"{self.of('i1')} {self.flags(self.mask)}",
                    f"{vector} poison",
                    pointers=True,
                )
                + tags
            )
            raw = self.code.add(raw)
        elif self.mask is None or how == "own":
            if how == "line":
                self.host.prefetches.emit(self.code, op, where, element.bytes * self.width)
            raw = self.code.add(f"load {vector}, ptr {where}, align {element.bytes}{tags}")
        else:
            raw = (
                self._call(
                    "masked.load",
                    vector,
                    f"ptr align {element.bytes} {where}",
                    f"{self.of('i1')} {self.mask}",
                    f"{vector} poison",
                )
                + tags
            )
            raw = self.code.add(raw)
        with self.wide():
            name = truth(self.code, raw) if element == BOOL else raw
        self.reps[op.result] = Rep("lanes", name)

    def store(self, op: Operation) -> None:
        """A plain store."""
        element = memory.element_of(op)
        tags = self.host.aliases.of(op.operands[0])
        if self.by_pieces(op):
            self.store_pieces(op, tags)
            return
        window, value = self._window(op, element), op.operands[2]
        how, where = ("window", "") if window else self._address(op, element)
        if how == "same":
            # one work-item writes, or all the same: anything else would be a race
            name = self.scalar(self.rep(value), value.type)
            memory.store(self.code, op, where, name, tags)
            return
        vector = self.of(memory_type(element))
        with self.wide():
            name = byte(self.code, element, self.vector_outside(value))
        if window is not None:
            at, kind = self._window_place(op, window), memory_type(element)
            windows.store(self.code, window, kind, name, at, element.bytes, tags)
        elif how == "gather":
            self.code.put(
                self._call(
                    "masked.scatter",
                    "void",
                    f"{vector} {name}",
                    f"{self.of('ptr')} align {element.bytes} {where}",
                    f"{self.of('i1')} {self.flags(self.mask)}",
                    over=vector,
                    pointers=True,
                )
                + tags
            )
        elif self.mask is None and how == "line":
            self._store_line(op, f"{vector} {name}", where, tags)
        elif self.mask is None:
            self.code.put(f"store {vector} {name}, ptr {where}, align {element.bytes}{tags}")
        elif how == "own":
            self.blend(vector, where, name, element.bytes, tags)
        else:
            self.code.put(
                self._call(
                    "masked.store",
                    "void",
                    f"{vector} {name}",
                    f"ptr align {element.bytes} {where}",
                    f"{self.of('i1')} {self.mask}",
                    over=vector,
                )
                + tags
            )

    def _store_line(self, op: Operation, value: str, where: str, tags: str) -> None:
        """Write neighbouring elements, past the caches where that pays."""
        code, element = self.code, memory.element_of(op).bytes
        plain = f"store {value}, ptr {where}, align {element}{tags}"
        count = element * self.width
        stream = self.host.streams.of(op, count)
        if stream is None:
            self.host.prefetches.emit(code, op, where, count)
            code.put(plain)
            return
        large, align = stream
        past, through = code.fresh("past"), code.fresh("through")
        done = code.fresh("stored")
        low = code.add(f"and i64 {code.add(f'ptrtoint ptr {where} to i64')}, {align - 1}")
        fits = code.add(f"icmp eq i64 {low}, 0")
        code.branch(code.add(f"and i1 {large}, {fits}"), past, through)
        code.start(past)
        code.put(f"store {value}, ptr {where}, align {align}{tags}, !nontemporal !{{i32 1}}")
        code.jump(done)
        code.start(through)
        self.host.prefetches.emit(code, op, where, count)
        code.put(plain)
        code.jump(done)
        code.start(done)

    def vector_outside(self, value: Value) -> str:
        """`vector`, for use inside `wide`."""
        self.code.lanes = 0
        name = self.vector(value)
        self.code.lanes = self.width
        return name

    def blend(self, vector: str, where: str, name: str, align: int, tags: str) -> None:
        """Write the lanes that are on, of memory that only this worker sees."""
        code = self.code
        if self.mask is not None:
            old = code.add(f"load {vector}, ptr {where}, align {align}{tags}")
            name = code.add(f"select {self.of('i1')} {self.mask}, {vector} {name}, {vector} {old}")
        code.put(f"store {vector} {name}, ptr {where}, align {align}{tags}")

    def _address(self, op: Operation, element: Scalar) -> tuple[str, str]:
        """How the lanes' addresses lie, and the first one, or a vector of them.

        `same`: all alike; `line`: next to each other; `own`: next to each other in memory
        that the lanes have to themselves; `gather`: anywhere.
        """
        base, offset = self.rep(op.operands[0]), self.rep(op.operands[1])
        code, size = self.code, element.bytes
        if base.kind == "private":
            if offset.kind == "same":
                scaled = code.add(f"mul i64 {offset.name}, {self.width}")
                return "own", code.index(base.name, scaled)
            wide = self.spread(offset, I64)
            scaled = code.add(f"mul {self.of('i64')} {wide}, splat (i64 {self.width})")
            where = code.add(f"add {self.of('i64')} {scaled}, {self.row('i64', size)}")
            return "gather", self._pointers(base.name, where, short=True)
        if base.kind == "same":
            if offset.kind == "same":
                return "same", code.index(base.name, offset.name)
            if offset.kind == "line" and offset.step == size:
                return "line", code.index(base.name, offset.name)
            kind = op.operands[0].type
            assert isinstance(kind, RefType)
            short = kind.space != "global" or self.host.assumptions.index_bits == 32
            return "gather", self._pointers(base.name, self.spread(offset, I64), short=short)
        bases, offsets = self.spread(base, op.operands[0].type), self.spread(offset, I64)
        both = f"{self.of('ptr')} {bases}, {self.of('i64')} {offsets}"
        return "gather", code.add(f"getelementptr i8, {both}")

    def _window(self, op: Operation, element: Scalar) -> Window | None:
        """Where the lanes' addresses lie, when they are constants apart but not neighbours."""
        base, offset = self.rep(op.operands[0]), self.rep(op.operands[1])
        if base.kind != "same" or offset.kind not in ("line", "pattern") or self.mask is not None:
            return None
        if (offset.kind, offset.step) == ("line", element.bytes):
            return None
        return windows.window(self.offsets(offset), element.bytes)

    def _window_place(self, op: Operation, window: Window) -> str:
        """The address of a window."""
        base, offset = (self.rep(v).name for v in op.operands[:2])
        low = f"{window.low}" if offset == "0" else offset
        if offset != "0" and window.low:
            low = self.code.add(f"add i64 {offset}, {window.low}")
        return self.code.index(base, low)

    def _pointers(self, base: str, offsets: str, *, short: bool) -> str:
        """Addresses by a vector of byte offsets; `short` ones fit 32 bits."""
        code, kind = self.code, "i32" if short else "i64"
        if short:
            offsets = code.add(f"trunc {self.of('i64')} {offsets} to {self.of('i32')}")
        return code.add(f"getelementptr i8, ptr {base}, {self.of(kind)} {offsets}")

    def _call(
        self, name: str, result: str, *operands: str, over: str = "", pointers: bool = False
    ) -> str:
        """A call of a masked memory intrinsic."""
        vector = over or result
        scalar = vector.partition(" x ")[2].removesuffix(">")
        short = {"float": "f32", "double": "f64"}.get(scalar, scalar)
        tail = f"v{self.width}p0" if pointers else "p0"
        full = f"llvm.{name}.v{self.width}{short}.{tail}"
        types = ", ".join(_type_of(operand) for operand in operands)
        self.code.declarations[full] = f"declare {result} @{full}({types})"
        return f"call {result} @{full}({', '.join(operands)})"


def _type_of(operand: str) -> str:
    """The type at the head of a typed operand, its attributes left out."""
    if operand.startswith("<"):
        return operand[: operand.index(">") + 1]
    return operand.partition(" ")[0]
