"""Values and memory of a lane vector: what is the same in all lanes, what is a line, the rest.

A vector of `width` lanes runs consecutive work-items. An i64 that grows by a fixed step from
lane to lane is kept as its first lane and the step, so that addresses stay scalar.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetir.backends.cpu.frame import bytes_of, size_of
from hetir.backends.cpu.items import Item
from hetir.backends.llvm import memory
from hetir.backends.llvm.code import memory_type, scalar_type
from hetir.backends.llvm.rules import RULES, byte, truth
from hetir.ir import ops
from hetir.ir.core import Operation, Value
from hetir.ir.types import BOOL, I64, ArrayType, RefType, Scalar, Type
from hetir.target import key_of

if TYPE_CHECKING:
    from hetir.backends.cpu.emit import Emitter

NONE = "zeroinitializer"
_SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_SPANS = ("lt", "le", "gt", "ge")
_PREDICATE = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}


@dataclass(frozen=True, slots=True)
class Rep:
    """How a value is held.

    `kind` is `same` (one scalar), `line` (i64: `name` in lane 0, `step` more in each next
    lane), `lanes` (an LLVM vector) or `private` (the address of the lanes' own arrays,
    interleaved: element e of lane l lies at (e * width + l) elements).
    """

    kind: str
    name: str
    step: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """A mask of neighbouring lanes, from `low` to before `high`, which may lie outside.

    Scalars tell whether all or any lanes are on, so that the mask itself is seldom made.
    """

    low: str
    high: str


class Lanes:
    """Emits ops on lane vectors under `mask` (None: all lanes are on)."""

    def __init__(self, host: Emitter, width: int) -> None:
        self.host = host
        self.code = host.code
        self.width = width
        self.reps: dict[Value, Rep] = {}
        self.mask: str | None = None
        self.linear = "0"
        self.local: tuple[Rep, ...] = ()
        self.spans: dict[str, Span] = {}
        self.factors: dict[str, tuple[str, str]] = {}  # masks that are `scalar and mask`
        self.multiples: set[str] = set()  # names of numbers that are multiples of the width

    # ---- values ------------------------------------------------------------------------

    def rep(self, value: Value) -> Rep:
        """How a value is held; what the level knows is the same in all lanes."""
        found = self.reps.get(value)
        return Rep("same", self.host.outer[value]) if found is None else found

    def of(self, scalar: str) -> str:
        """The vector type of an LLVM type."""
        return f"<{self.width} x {scalar}>"

    @contextmanager
    def wide(self) -> Generator[None]:
        """Rules emit vectors inside."""
        self.code.lanes = self.width
        yield
        self.code.lanes = 0

    def splat(self, scalar: str, name: str) -> str:
        """One scalar in every lane."""
        if not name.startswith("%"):
            return f"splat ({scalar} {name})"
        code, vector = self.code, self.of(scalar)
        one = code.add(f"insertelement {vector} poison, {scalar} {name}, i64 0")
        zeros = f"<{self.width} x i32> zeroinitializer"
        return code.add(f"shufflevector {vector} {one}, {vector} poison, {zeros}")

    def row(self, scalar: str, step: int) -> str:
        """The constant 0, step, 2 * step, ..."""
        return f"<{', '.join(f'{scalar} {lane * step}' for lane in range(self.width))}>"

    def vector(self, value: Value) -> str:
        """A value as an LLVM vector."""
        return self.spread(self.rep(value), value.type)

    def spread(self, rep: Rep, kind: Type) -> str:
        """Any way of holding as an LLVM vector."""
        scalar = scalar_type(kind)
        if rep.kind == "lanes":
            return rep.name
        first = self.splat(scalar, rep.name)
        if rep.kind == "same":
            return first
        return self.code.add(f"add {self.of(scalar)} {first}, {self.row(scalar, rep.step)}")

    def scalar(self, rep: Rep, kind: Type) -> str:
        """The value of the first lane that is on, for values that are alike in all of them."""
        if rep.kind == "same":
            return rep.name
        vector = self.spread(rep, kind)
        lane = self.first_lane()
        return self.code.add(f"extractelement {self.of(scalar_type(kind))} {vector}, i64 {lane}")

    def bits(self, mask: str | None) -> str:
        """The mask as an integer, one bit a lane."""
        if mask is None:
            return "-1"
        return self.code.add(f"bitcast {self.of('i1')} {mask} to i{self.width}")

    def first_lane(self) -> str:
        """The first lane that is on."""
        if self.mask is None:
            return "0"
        count = f"i{self.width}"
        bits = self.bits(self.mask)
        name = self.code.intrinsic("cttz", count, (count, bits), ("i1", "false"))
        return self.as_index(name)

    def as_index(self, lane: str) -> str:
        """A lane number of the mask's integer type as i64."""
        if self.width == 64:
            return lane
        return self.code.add(f"zext i{self.width} {lane} to i64")

    def both(self, a: str | None, b: str) -> str:
        """The lanes of two masks."""
        if a is None:
            return b
        if NONE in (a, b):
            return NONE
        name = self.code.add(f"and {self.of('i1')} {a}, {b}")
        if a in self.spans and b in self.spans:
            self.spans[name] = self._overlap(self.spans[a], self.spans[b])
        return name

    def _overlap(self, a: Span, b: Span) -> Span:
        """The lanes of two spans."""
        code, pairs = self.code, (("smax", a.low, b.low), ("smin", a.high, b.high))
        low, high = (
            x if x == y else code.intrinsic(name, "i64", ("i64", x), ("i64", y))
            for name, x, y in pairs
        )
        return Span(low, high)

    def either(self, a: str | None, b: str | None) -> str | None:
        """The lanes of one mask or the other."""
        if a is None or b is None:
            return None
        if NONE in (a, b):
            return a if b == NONE else b
        return self.code.add(f"or {self.of('i1')} {a}, {b}")

    def other(self, mask: str) -> str:
        """The lanes that a mask leaves out."""
        return self.code.add(f"xor {self.of('i1')} {mask}, splat (i1 true)")

    def flags(self, mask: str | None) -> str:
        """The mask as an operand."""
        return "splat (i1 true)" if mask is None else mask

    # ---- ops ---------------------------------------------------------------------------

    def plain(self, op: Operation) -> None:
        """Emit an op without regions that is no terminator."""
        special = _SPECIAL.get(op.spec)
        if special is not None:
            special(self, op)
            return
        reps = [self.rep(v) for v in op.operands]
        made = self._on_lines(op, reps)
        if made is None and all(r.kind == "same" for r in reps):
            made = self._trivial(op, reps)
        if made is None and all(r.kind == "same" for r in reps):
            made = Rep("same", RULES[key_of(op)](self.code, op, [r.name for r in reps]))
        if made is None:
            names = [self.spread(r, v.type) for r, v in zip(reps, op.operands, strict=True)]
            with self.wide():
                made = Rep("lanes", RULES[key_of(op)](self.code, op, names))
            if op.spec is ops.AND and op.result.type == BOOL:
                self._span_of_both(made.name, reps)
        self.reps[op.result] = made

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

    def _trivial(self, op: Operation, reps: Sequence[Rep]) -> Rep | None:
        """A sum with zero or a product with it, which ids of flat workgroups are full of."""
        if op.spec not in (ops.ADD, ops.MUL) or op.result.type != I64:
            return None
        zero = [r.name == "0" for r in reps]
        if not any(zero):
            return None
        return Rep("same", "0") if op.spec is ops.MUL else reps[zero[0]]

    def _on_lines(self, op: Operation, reps: Sequence[Rep]) -> Rep | None:  # noqa: PLR0911
        """i64 arithmetic that keeps the form of a line, or None."""
        if not any(r.kind == "line" for r in reps):
            return None
        match op.name:
            case "add" if _all(reps, "same", "line") and any(r.name == "0" for r in reps):
                return self._with_zero(reps)
            case "and" | "shr" if reps[0].kind == "line" and reps[1].name.isdecimal():
                return self._low_or_high(op.name, reps[0], int(reps[1].name))
            case "add" | "sub" if _all(reps, "same", "line"):
                sign = 1 if op.name == "add" else -1
                name = self.code.add(f"{op.name} i64 {reps[0].name}, {reps[1].name}")
                return _line(name, reps[0].step + sign * reps[1].step)
            case "mul" if _all(reps, "same", "line"):
                line, factor = reps if reps[0].kind == "line" else reversed(reps)
                if factor.kind == "line" or factor.name.startswith("%"):
                    return None
                name = self.code.add(f"mul i64 {line.name}, {factor.name}")
                return _line(name, line.step * int(factor.name))
            case "select" if reps[0].kind == "same" and reps[1].step == reps[2].step:
                if not _all(reps[1:], "same", "line"):
                    return None
                a, b = reps[1].name, reps[2].name
                name = self.code.add(f"select i1 {reps[0].name}, i64 {a}, i64 {b}")
                return _line(name, reps[1].step)
            case "cast" if op.operands[0].type == I64:
                return self._cast_line(op, reps[0])
            case "lt" | "le" | "gt" | "ge" | "eq" | "ne":
                return self._compare_line(op, reps)
            case _:
                return None

    def _with_zero(self, reps: Sequence[Rep]) -> Rep | None:
        """The sum of a line and a line or scalar, one of which starts at zero."""
        a, b = reps
        return _line(b.name if a.name == "0" else a.name, a.step + b.step)

    def _low_or_high(self, name: str, line: Rep, number: int) -> Rep | None:
        """The low bits of an index that counts up by one from a multiple of the width, or the rest.

        Of few bits the lanes have a repeating pattern; of many, one line.
        """
        if number > 62:
            return None
        period = number + 1 if name == "and" else 1 << number
        if line.step != 1 or line.name not in self.multiples or period & (period - 1):
            return None
        code, whole = self.code, period % self.width == 0
        if not whole and (self.width % period or period == 1):
            return None
        if name == "shr":
            first = code.add(f"ashr i64 {line.name}, {number}")
            if whole:
                return Rep("same", first)
            steps = ", ".join(f"i64 {lane // period}" for lane in range(self.width))
            wide = self.splat("i64", first)
            return Rep("lanes", code.add(f"add {self.of('i64')} {wide}, <{steps}>"))
        if not whole:
            pattern = ", ".join(f"i64 {lane % period}" for lane in range(self.width))
            return Rep("lanes", f"<{pattern}>")
        first = code.add(f"and i64 {line.name}, {number}")
        self.multiples.add(first)
        return Rep("line", first, 1)

    def _cast_line(self, op: Operation, rep: Rep) -> Rep | None:
        kind = op.result.type
        assert isinstance(kind, Scalar)
        if not kind.is_int:
            return None
        if kind.bits == 64:
            return rep if kind == I64 else Rep("lanes", self.spread(rep, I64))
        narrow = scalar_type(kind)
        first = self.splat(narrow, self.code.add(f"trunc i64 {rep.name} to {narrow}"))
        return Rep(
            "lanes", self.code.add(f"add {self.of(narrow)} {first}, {self._wrapped(rep, kind)}")
        )

    def _wrapped(self, rep: Rep, kind: Scalar) -> str:
        """The steps of a line, wrapped to a narrow integer."""
        size, text = 1 << kind.bits, scalar_type(kind)
        return f"<{', '.join(f'{text} {lane * rep.step % size}' for lane in range(self.width))}>"

    def _compare_line(self, op: Operation, reps: Sequence[Rep]) -> Rep | None:
        """A line against a scalar, exactly and in 32 bits: lane * step against the distance."""
        if not _all(reps, "same", "line"):
            return None
        pairs = zip(reps, op.operands, strict=True)
        if any(r.kind == "line" and v not in self.host.exact for r, v in pairs):
            return None  # it may wrap on the way
        name = op.name
        line, limit = reps
        if line.kind == "same":
            line, limit, name = limit, line, _SWAPPED[name]
        step = line.step - limit.step
        code = self.code
        if abs(step) * self.width >= 1 << 30:
            return None
        small = self.host.small.issuperset(op.operands)
        if small:
            distance = code.add(f"sub nsw i64 {limit.name}, {line.name}")
        else:
            saturated = (("i64", limit.name), ("i64", line.name))
            distance = code.intrinsic("ssub.sat", "i64", *saturated)
        if step == 0:
            return Rep("same", code.add(f"icmp {_PREDICATE[name]} i64 0, {distance}"))
        low, high = sorted((0, step * (self.width - 1)))
        near = code.intrinsic("smin", "i64", ("i64", distance), ("i64", str(high + 1)))
        near = code.intrinsic("smax", "i64", ("i64", near), ("i64", str(low - 1)))
        wide = self.splat("i32", code.add(f"trunc i64 {near} to i32"))
        row = self.row("i32", step)
        mask = code.add(f"icmp {_PREDICATE[name]} {self.of('i32')} {row}, {wide}")
        if step == 1 and name in _SPANS:
            more = distance
            if name in ("le", "gt"):
                more = code.add(f"add nsw i64 {distance if small else near}, 1")
            below = name in ("lt", "le")
            self.spans[mask] = Span("0", more) if below else Span(more, str(self.width))
        return Rep("lanes", mask)

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
        if local.kind != "lanes":
            return Rep(local.kind, code.add(f"add nuw nsw i64 {base}, {local.name}"), local.step)
        wide = self.splat("i64", base)
        return Rep("lanes", code.add(f"add nuw nsw {self.of('i64')} {wide}, {local.name}"))

    def from_host(self, op: Operation) -> None:
        """An op that the whole workgroup does once."""
        self.host.emit(op)
        if op.results and op.spec is not ops.ALLOC:
            self.reps[op.result] = Rep("same", self.host.local.pop(op.result))

    def agreed(self, op: Operation) -> None:
        """A value that the kernel promises to be the same in all work-items."""
        value = op.operands[0]
        self.reps[op.result] = Rep("same", self.scalar(self.rep(value), value.type))

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

    # ---- memory ------------------------------------------------------------------------

    def load(self, op: Operation) -> None:
        """A plain load."""
        element = memory.element_of(op)
        kind = memory_type(element)
        tags = self.host.aliases.of(op.operands[0])
        how, where = self._address(op, element)
        if how == "same":
            name = memory.load(self.code, op, where, tags)
            self.reps[op.result] = Rep("same", name)
            return
        vector = self.of(kind)
        if how == "gather":
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
        how, where = self._address(op, element)
        value = op.operands[2]
        if how == "same":
            # one work-item writes, or all the same: anything else would be a race
            name = self.scalar(self.rep(value), value.type)
            memory.store(self.code, op, where, name, tags)
            return
        vector = self.of(memory_type(element))
        with self.wide():
            name = byte(self.code, element, self.vector_outside(value))
        if how == "gather":
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

    # ---- one lane after the other ------------------------------------------------------

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

    # ---- the context -------------------------------------------------------------------

    def load_context(self, value: Value) -> Rep:
        """The lanes' entries of a context array."""
        code, host = self.code, self.host
        alike = not host.known.varying(value)
        if alike and not host.schedule.masked:
            return Rep("same", host.load(value, self.linear))
        raw = self._read_row(value)
        with self.wide():
            loaded = Rep("lanes", truth(code, raw) if value.type == BOOL else raw)
        # the first item may have returned before the value was made
        return Rep("same", self.scalar(loaded, value.type)) if alike else loaded

    def save_context(self, value: Value, rep: Rep, kind: Type, *, always: bool) -> None:
        """Write the lanes' entries; only those that are on unless `always`."""
        code = self.code
        name = self.spread(rep, kind)
        if kind == BOOL:
            name = code.add(f"zext {self.of('i1')} {name} to {self.of('i8')}")
        if not always and self.mask is not None:
            vector = self.of(memory_type(kind))
            old = self._read_row(value)
            name = code.add(f"select {self.of('i1')} {self.mask}, {vector} {name}, {vector} {old}")
        self._write_row(value, name)

    def _read_row(self, value: Value) -> str:
        """The lanes' entries of a context array, by pieces as other leaves write them."""
        code, host = self.code, self.host
        kind, where = host.place(value, self.linear)
        part, tags = self._piece, f"align {size_of(value)}{host.aliases.context}"
        pieces: list[str] = []
        for first in range(0, self.width, part):
            at = code.add(f"getelementptr {kind}, ptr {where}, i64 {first}") if first else where
            pieces.append(code.add(f"load <{part} x {kind}>, ptr {at}, {tags}"))
        while len(pieces) > 1:
            order = ", ".join(f"i32 {n}" for n in range(2 * part))
            both = f"<{part} x {kind}> {{}}, <{part} x {kind}> {{}}, <{2 * part} x i32> <{order}>"
            pairs = zip(pieces[::2], pieces[1::2], strict=True)
            pieces = [code.add(f"shufflevector {both.format(*pair)}") for pair in pairs]
            part *= 2
        return pieces[0]

    def _write_row(self, value: Value, name: str) -> None:
        """Write the lanes' entries of a context array, by pieces as other leaves read them."""
        code, host, part = self.code, self.host, self._piece
        kind, where = host.place(value, self.linear)
        tags = f"align {size_of(value)}{host.aliases.context}"
        if part == self.width:
            code.put(f"store {self.of(kind)} {name}, ptr {where}, {tags}")
            return
        for first in range(0, self.width, part):
            at = code.add(f"getelementptr {kind}, ptr {where}, i64 {first}")
            order = ", ".join(f"i32 {n}" for n in range(first, first + part))
            vector = f"{self.of(kind)} {name}, {self.of(kind)} poison"
            some = code.add(f"shufflevector {vector}, <{part} x i32> <{order}>")
            code.put(f"store <{part} x {kind}> {some}, ptr {at}, {tags}")

    @property
    def _piece(self) -> int:
        """The widest vector that every leaf's accesses to the context are made of.

        LLVM forwards what one leaf stores to the next one's loads where they are alike.
        """
        return min(self.width, self.host.narrowest)


def _all(reps: Sequence[Rep], *kinds: str) -> bool:
    return all(r.kind in kinds for r in reps)


def _line(name: str, step: int) -> Rep:
    return Rep("line", name, step) if step else Rep("same", name)


def _type_of(operand: str) -> str:
    """The type at the head of a typed operand, its attributes left out."""
    if operand.startswith("<"):
        return operand[: operand.index(">") + 1]
    return operand.partition(" ")[0]


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
