"""Subgroup ops over context arrays: each lane's result by the op table's exact rules."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from hetir.backends.cpu.frame import Frame
from hetir.backends.llvm.code import Code, literal, memory_type
from hetir.backends.llvm.rules import FLOATS, INTS, NARROW, RULES, Key, byte, truth
from hetir.ir import ops
from hetir.ir.core import Operation, Value
from hetir.ir.types import BOOL, SCALARS, U8, Scalar
from hetir.passes.identity import identity_bits
from hetir.passes.legalize import legal_ops
from hetir.target import Target, key_of

_BITWISE = ("and", "or", "xor")


class Host(Protocol):
    """What the exchanges ask of the emitter."""

    code: Code
    frame: Frame
    target: Target

    def read_item(self, value: Value, index: str) -> str:
        """A value of one item."""
        ...

    def save(self, value: Value, index: str, name: str) -> None:
        """Write an item's entry."""
        ...

    @property
    def whole(self) -> bool:
        """Whether every subgroup has all of its items."""
        ...

    def constant(self, value: Value) -> int | None:
        """An integer that is known when compiling."""
        ...

    def known_name(self, value: Value) -> str | None:
        """The name of a value that is alike in all items."""
        ...

    def place(self, value: Value, index: str) -> tuple[str, str]:
        """The type in memory, and the address of an item's entry in the context."""
        ...

    def each_lane(self, first: str) -> AbstractContextManager[tuple[str, str]]:
        """A loop over the subgroup's items: gives the item and its lane."""
        ...


def covered() -> frozenset[Key]:
    """The subgroup ops that are done here."""
    words = (*INTS, *FLOATS, *NARROW)
    keys: set[Key] = {("ballot",), ("vote",)}
    keys |= {("shuffle", name) for name in SCALARS}
    for name in ("subgroup_reduce", "subgroup_scan"):
        keys |= {(name, k, t) for k in ("add", "mul", "min", "max") for t in words}
        keys |= {(name, k, t) for k in _BITWISE for t in (*INTS, "bool")}
    return frozenset(keys)


class Exchanger:
    """Emits one subgroup op for the subgroup that starts at item `first`."""

    def __init__(self, host: Host, op: Operation, first: str, width: int) -> None:
        self.host = host
        self.code = host.code
        self.op = op
        self.first = first
        self.width = width
        self.columns = 1 << (width - 1).bit_length()

    def emit(self) -> None:
        """Compute every lane's result."""
        match self.op.spec:
            case ops.SHUFFLE:
                self._shuffle()
            case ops.SUBGROUP_REDUCE | ops.SUBGROUP_SCAN:
                self._tree()
            case _:
                self._answer()

    def _taken(self, kind: Scalar, empty: int) -> str:
        """The first operand in all lanes, `empty` where a lane does not take part."""
        text, where = memory_type(kind), self.op.operands[-1]
        vector, nought = self._of(text), f"splat ({text} {literal(kind, empty)})"
        if not self.host.whole:
            return self.code.add(f"load {vector}, ptr {self._stage(kind, nought)}, align 64")
        value = self._lanes(self.op.operands[0])
        if self.host.constant(where) == 1:
            return value
        takes = self._truths(self._lanes(where))
        return self.code.add(
            f"select {self._of('i1')} {takes}, {vector} {value}, {vector} {nought}"
        )

    def _of(self, text: str) -> str:
        return f"<{self.columns} x {text}>"

    def _truths(self, raw: str) -> str:
        self.code.lanes = self.columns
        flags = truth(self.code, raw)
        self.code.lanes = 0
        return flags

    def _lanes(self, value: Value) -> str:
        """A value of all lanes, bytes for `bool`."""
        code, text = self.code, memory_type(value.type)
        name = self.host.known_name(value)
        if name is None:
            _, where = self.host.place(value, self.first)
            size = value.type.bytes if isinstance(value.type, Scalar) else 8
            return code.add(f"load {self._of(text)}, ptr {where}, align {size}")
        if value.type == BOOL:
            name = code.add(f"zext i1 {name} to i8")
        return self._splat(text, name)

    def _splat(self, text: str, name: str) -> str:
        if not name.startswith("%"):
            return f"splat ({text} {name})"
        vector = self._of(text)
        one = self.code.add(f"insertelement {vector} poison, {text} {name}, i64 0")
        return self._permute(vector, one, "poison", [0] * self.columns)

    def _stage(self, kind: Scalar, nought: str) -> str:
        """A buffer of the first operand, for subgroups that may lack items."""
        code, host = self.code, self.host
        text, where = memory_type(kind), self.op.operands[-1]
        buffer = host.frame.buffer(f"[{self.columns} x {text}]", "lanes")
        code.put(f"store {self._of(text)} {nought}, ptr {buffer}, align 64")
        empty = nought.removeprefix("splat (").removesuffix(")")
        with host.each_lane(self.first) as (item, lane):
            value = byte(code, kind, host.read_item(self.op.operands[0], item))
            takes = host.read_item(where, item)
            kept = code.add(f"select i1 {takes}, {text} {value}, {empty}")
            address = code.add(f"getelementptr {text}, ptr {buffer}, i64 {lane}")
            code.put(f"store {text} {kept}, ptr {address}, align {kind.bytes}")
        return buffer

    def _give(self, kind: Scalar, lanes: str) -> None:
        """Give each lane its element, bytes for `bool`."""
        code, text, host = self.code, memory_type(kind), self.host
        if host.whole:
            _, where = host.place(self.op.result, self.first)
            code.put(f"store {self._of(text)} {lanes}, ptr {where}, align {kind.bytes}")
            return
        buffer = host.frame.buffer(f"[{self.columns} x {text}]", "lanes")
        code.put(f"store {self._of(text)} {lanes}, ptr {buffer}, align 64")
        with host.each_lane(self.first) as (item, lane):
            address = code.add(f"getelementptr {text}, ptr {buffer}, i64 {lane}")
            value = code.add(f"load {text}, ptr {address}, align {kind.bytes}")
            host.save(self.op.result, item, truth(code, value) if kind == BOOL else value)

    def _shuffle(self) -> None:
        op, kind = self.op, self.op.result.type
        assert isinstance(kind, Scalar)
        lanes, mode = self._taken(kind, 0), str(op.attrs["mode"])
        distance = self.host.constant(op.operands[1])
        if distance is not None and self.host.whole:
            self._give(kind, self._moved(kind, lanes, mode, distance))
        else:
            self._gathered(kind, lanes, mode)

    def _moved(self, kind: Scalar, lanes: str, mode: str, distance: int) -> str:
        """A shuffle by a known distance, or from a known lane; zero from lanes that are not."""
        text = memory_type(kind)
        sources = {
            "xor": [lane ^ distance for lane in range(self.width)],
            "up": [lane - distance for lane in range(self.width)],
            "index": [distance] * self.width,
        }.get(mode, [lane + distance for lane in range(self.width)])
        order = [n if 0 <= n < self.width else self.columns for n in sources]
        nought = f"splat ({text} {literal(kind, 0)})"
        return self._permute(self._of(text), lanes, nought, order)

    def _gathered(self, kind: Scalar, lanes: str, mode: str) -> None:
        """A shuffle by distances that differ from lane to lane."""
        code, host, op, text = self.code, self.host, self.op, memory_type(kind)
        buffer = host.frame.buffer(f"[{self.columns} x {text}]", "lanes")
        code.put(f"store {self._of(text)} {lanes}, ptr {buffer}, align 64")
        steps = {"xor": "xor i64 {lane}, {by}", "up": "sub i64 {lane}, {by}"}
        step = steps.get(mode, "add i64 {lane}, {by}")
        with host.each_lane(self.first) as (item, lane):
            by = host.read_item(op.operands[1], item)
            source = by if mode == "index" else code.add(step.format(lane=lane, by=by))
            exists = code.add(f"icmp ult i64 {source}, {self.width}")
            safe = code.add(f"select i1 {exists}, i64 {source}, i64 0")
            address = code.add(f"getelementptr {text}, ptr {buffer}, i64 {safe}")
            value = code.add(f"load {text}, ptr {address}, align {kind.bytes}")
            nought = literal(kind, 0)
            taken = code.add(f"select i1 {exists}, {text} {value}, {text} {nought}")
            host.save(op.result, item, truth(code, taken) if kind == BOOL else taken)

    def _tree(self) -> None:
        op, kind = self.op, self.op.result.type
        assert isinstance(kind, Scalar)
        name = str(op.attrs["kind"])
        empty = identity_bits(name, kind)
        lanes = self._taken(kind, empty)
        if op.spec is ops.SUBGROUP_REDUCE:
            lanes = self._reduce(name, kind, lanes)
        else:
            lanes = self._scan(name, kind, lanes)
            if not op.attrs["inclusive"]:
                text = memory_type(kind)
                nought = f"splat ({text} {literal(kind, empty)})"
                order = [self.columns, *range(self.columns - 1)]
                lanes = self._permute(self._of(text), lanes, nought, order)
        self._give(kind, lanes)

    def _reduce(self, name: str, kind: Scalar, lanes: str) -> str:
        vector = f"<{self.columns} x {memory_type(kind)}>"
        distance = self.columns // 2
        while distance:
            order = [lane ^ distance for lane in range(self.columns)]
            other = self._permute(vector, lanes, "poison", order)
            lanes = self._combine(name, kind, lanes, other)
            distance //= 2
        return lanes

    def _scan(self, name: str, kind: Scalar, lanes: str) -> str:
        vector = f"<{self.columns} x {memory_type(kind)}>"
        distance = 1
        while distance < self.columns:
            back = [max(0, lane - distance) for lane in range(self.columns)]
            other = self._permute(vector, lanes, "poison", back)
            both = self._combine(name, kind, other, lanes)
            order = [n if n < distance else self.columns + n for n in range(self.columns)]
            lanes = self._permute(vector, lanes, both, order)
            distance *= 2
        return lanes

    def _permute(self, vector: str, a: str, b: str, order: Sequence[int]) -> str:
        mask = ", ".join(f"i32 {n}" for n in order)
        mask_type = f"<{self.columns} x i32>"
        return self.code.add(f"shufflevector {vector} {a}, {vector} {b}, {mask_type} <{mask}>")

    def _combine(self, name: str, kind: Scalar, a: str, b: str) -> str:
        """Two vectors combined by the op, as the target's rules do it lane by lane."""
        kind = U8 if kind == BOOL else kind
        left, right = Value(kind), Value(kind)
        whole = Operation(ops.TABLE[name], (left, right), (Value(kind),))
        names = {left: a, right: b}
        body, result = legal_ops(whole, self.host.target)
        self.code.lanes = self.columns
        for op in body:
            args = [names[v] for v in op.operands]
            names[op.result] = RULES[key_of(op)](self.code, op, args)
        self.code.lanes = 0
        return names[result]

    def _answer(self) -> None:
        """A vote or a ballot: one answer for all lanes."""
        code, op, count = self.code, self.op, self.columns
        every = op.attrs.get("mode") == "all"
        flags = self._truths(self._taken(BOOL, int(every)))
        bits = code.add(f"bitcast <{count} x i1> {flags} to i{count}")
        if op.spec is ops.BALLOT:
            # a ballot has 64 bits: lanes beyond have none
            resize = "zext" if count < 64 else "trunc"
            name = bits if count == 64 else code.add(f"{resize} i{count} {bits} to i64")
        elif every:
            name = code.add(f"icmp eq i{count} {bits}, -1")
        else:
            name = code.add(f"icmp ne i{count} {bits}, 0")
        if self.host.whole:
            raw = code.add(f"zext i1 {name} to i8") if op.result.type == BOOL else name
            kind = op.result.type
            assert isinstance(kind, Scalar)
            self._give(kind, self._splat(memory_type(kind), raw))
            return
        with self.host.each_lane(self.first) as (item, _):
            self.host.save(op.result, item, name)
