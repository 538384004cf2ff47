"""Loops over lanes: what the vector unit cannot do, one work-item after the other.

Ops gather in a group until something needs their results; one loop then runs the whole group.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hetir.backends.ascend.simd_numbers import divided
from hetir.backends.ascend.simd_program import Access, Buffer, Global
from hetir.backends.ascend.simd_reps import (
    Affine,
    Array,
    Bits,
    Bound,
    Box,
    Mask,
    Num,
    Pointer,
    Rep,
    Row,
    Tensor,
    Uniform,
    bare,
    grouped,
    plus,
    times,
)
from hetir.backends.ascend.simd_scalar import RULES, c_type, index_expression
from hetir.backends.ascend.simd_state import SIZES, State, place_of, storage
from hetir.ir import ops
from hetir.ir.core import Operation, Value
from hetir.ir.ops import TABLE
from hetir.ir.types import BOOL, F32, RefType, Scalar

BLOCK = 32
_AXES = "xyz"
_LANE = re.compile(r"\blane\b")  # arrays may have names such as `shared_lanes`
_CONSTANT = re.compile(r"const [\w:]+ (\w+) = .*;$")
_WORD = re.compile(r"\w+")
_SHOWN = 72  # characters of an expression that may stand inside another one
ATOMIC_KINDS = {"float", "int32_t", "int16_t", "int8_t", "half", "bfloat16_t"}


@dataclass(slots=True)
class Scatter:
    """Stores to global memory of one op: each lane's element is staged in a block of its own."""

    op: Operation
    stage: Buffer
    base: str
    offset: Rep | Buffer
    place: Global


@dataclass(slots=True)
class Group:
    """Ops that one loop will run; `exports` also go to buffers that exist already."""

    ops: list[Operation] = field(default_factory=list[Operation])
    exports: list[tuple[Value, Buffer]] = field(default_factory=list[tuple[Value, Buffer]])
    satisfied: set[tuple[Value, Operation]] = field(default_factory=set[tuple[Value, Operation]])
    loads: bool = False
    scatters: bool = False
    memory: bool = False

    @property
    def values(self) -> set[Value]:
        """What the group defines."""
        return {v for op in self.ops for v in op.results}


class Lanes(State):
    """The lane loops of a kernel."""

    group: Group
    safe: frozenset[Value]
    scalar_ops: int
    globals: dict[Value, Global]
    anywhere: Global

    # ---- gathering -----------------------------------------------------------------------

    def pending(self, value: Value) -> bool:
        """Whether the open group defines the value."""
        return value not in self.reps and value in self.group.values

    def later(self, op: Operation) -> None:
        """Add an op to the open group."""
        self.group.ops.append(op)

    def flush(self) -> None:
        """Close the open group: one loop, then the copies of what it scattered."""
        group, self.group = self.group, Group()
        if group.ops or group.exports:
            _Loop(self, group).emit()

    def place_of_pointer(self, value: Value) -> Global:
        """What hazards see of a global reference."""
        rep = self.reps.get(value)
        return rep.place if isinstance(rep, Pointer) else self.anywhere

    # ---- loops over the lanes of a mask --------------------------------------------------

    @property
    def coords(self) -> tuple[Num, Num, Num]:
        """The local ids of a lane inside a lane loop."""
        if self.shape.flat:
            return ("lane", 0, 0)
        x, y, z = (f"item_{c}" if a in self.shape.axes else 0 for a, c in enumerate(_AXES))
        return (x, y, z)

    @property
    def linear(self) -> str:
        """A lane's number as text of its local ids."""
        x, y, z = self.coords
        gx, gy, _ = self.shape.extents
        return str(plus(x, times(gx, plus(y, times(gy, z)))))

    def lane_loop(self, mask: Mask, body: Sequence[str]) -> tuple[list[str], list[Access]]:
        """The lines of a loop over the lanes that are on, and what it reads."""
        reads: list[Access] = []
        inner = list(body)
        bounds = mask.bounds if isinstance(mask, Box) else (None, None, None)
        if isinstance(mask, Bits):
            inner = [f"if (!BitOf({mask.buffer.name}, lane)) continue;", *inner]
            reads.append(Access(mask.buffer))
        if self.shape.flat:
            low, high = bounds[0] or (0, self.shape.extents[0])
            return [_head("lane", low, high), *_indented(inner), "}"], reads
        if any(_LANE.search(line) for line in inner):
            inner = [f"const int32_t lane = {self.linear};", *inner]
        lines = inner
        for axis in self.shape.axes:
            low, high = bounds[axis] or (0, self.shape.extents[axis])
            lines = [_head(f"item_{_AXES[axis]}", low, high), *_indented(lines), "}"]
        return lines, reads

    def each_row(self, bounds: Sequence[Bound], line: str, inner: int = 1) -> list[str]:
        """A line for each row of lanes in the bounds of the axes, from the axis `inner` on."""
        lines = [line]
        for axis in self.shape.axes:
            if axis >= inner:
                lines = [_head(f"item_{_AXES[axis]}", *bounds[axis]), *_indented(lines), "}"]
        return lines

    def rep_text(self, rep: Rep, kind: object) -> tuple[str, list[Access]]:
        """One lane's value of a rep inside a lane loop, and what that reads."""
        match rep:
            case Uniform():
                return grouped(rep.text), []
            case Pointer():
                return rep.text, []
            case Affine():
                return grouped(rep.at(self.coords)), []
            case Row():
                return grouped(rep.at(self.coords)), list(rep.reads)
            case Bits():
                return f"BitOf({rep.buffer.name}, lane)", [Access(rep.buffer)]
            case Box():
                return self.inside_box(rep), []
            case Tensor():
                wanted = storage(kind)  # pyright: ignore[reportArgumentType]
                text = f"{rep.text(wanted)}.GetValue(lane)"
                if isinstance(kind, RefType):
                    text = f"reinterpret_cast<GM_ADDR>({text})"
                return text, [self.access(rep)]
            case Array():
                raise AssertionError("an array is no value of a lane")

    def inside_box(self, box: Box) -> str:
        """Whether one lane lies in a range."""
        parts: list[str] = []
        for bound, coord in zip(box.bounds, self.coords, strict=True):
            if bound is not None:
                low = [] if bound[0] == 0 else [f"{coord} >= {grouped(str(bound[0]))}"]
                parts += [*low, f"{coord} < {grouped(str(bound[1]))}"]
        return f"({' && '.join(parts)})" if parts else "true"

    def index_of(self, array: Array, offset: str) -> str:
        """The element of an array at a byte offset."""
        number = divided(offset, array.buffer.size)
        if not array.private:
            return number
        return f"{grouped(number)} * kLanes + lane" if number != "0" else "lane"


def _head(name: str, low: Num, high: Num) -> str:
    return f"for (int32_t {name} = {low}; {name} < {high}; ++{name}) {{"


def _needed(lines: Sequence[str]) -> list[str]:
    """Lines without the constants that none after them names."""
    kept: list[str] = []
    words: set[str] = set()
    for line in reversed(lines):
        found = _CONSTANT.match(line)
        if found is None or found[1] in words:
            kept.append(line)
            words.update(_WORD.findall(line))
    return kept[::-1]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


class _Loop:
    """One group as text."""

    def __init__(self, host: Lanes, group: Group) -> None:
        self.host, self.group = host, group
        self.texts: dict[Value, str] = {}
        self.lines: list[str] = []
        self.reads: list[Access] = []
        self.writes: list[Access] = []
        self.scatters: list[Scatter] = []
        own = set(group.ops)
        self.made: dict[Value, Buffer] = {}
        for value in (v for op in group.ops for v in op.results):
            users = host.users.get(value, ())
            if any(u not in own and (value, u) not in group.satisfied for u in users):
                self.made[value] = host.buffer_for(value.type, value.name or "lanes")

    def emit(self) -> None:
        """Append the loop."""
        host, group = self.host, self.group
        stored = {v for v, _ in group.exports}
        places = list(dict.fromkeys(filter(None, (place_of(op.loc) for op in group.ops))))
        if group.ops:
            host.at(group.ops[0])
        for op in group.ops:
            self.op(op, kept=bool(stored & set(op.results)))
        for value, buffer in (*self.made.items(), *group.exports):
            self.put(value, buffer)
        for value, buffer in self.made.items():
            host.reps[value] = host.held(buffer, value.type)
        cleared = [b for v, b in self.made.items() if v.type == BOOL]
        lines = _needed(self.lines)
        if lines:
            lines, reads = host.lane_loop(host.mask, lines)
            if len(places) > 1:
                lines = [f"// {', '.join(places[1:4])}", *lines]
            lines = [*(f"ClearMask({b.name}, kLanes);" for b in cleared), *lines]
            host.scalar_ops += len(group.ops)
            host.instr("S", lines, (*self.reads, *reads), self.writes, op="lanes")
        for scatter in self.scatters:
            self.copy_out(scatter, host.mask)

    # ---- values --------------------------------------------------------------------------

    def text(self, value: Value) -> str:
        """One lane's value."""
        if value in self.texts:
            return self.texts[value]
        text, reads = self.host.rep_text(self.host.reps[value], value.type)
        self.reads += reads
        return text

    def define(self, op: Operation, text: str, *, kept: bool) -> None:
        """Name a result, or keep its text for the only place that uses it."""
        value = op.result
        own = [u for u in self.host.users.get(value, ()) if u in self.group.ops]
        inline = len(own) <= 1 and not kept and len(text) < _SHOWN and op.spec.pure
        if inline and (len(own) + (value in self.made)) <= 1:
            self.texts[value] = grouped(text)
            return
        name = self.host.fresh(value.name or "t")
        kind = "GM_ADDR" if isinstance(value.type, RefType) else c_type(value.type)
        self.lines.append(f"const {kind} {name} = {text};")
        self.texts[value] = name

    def put(self, value: Value, buffer: Buffer) -> None:
        """Store a lane's value in a buffer."""
        self.writes.append(Access(buffer))
        text = self.text(value)
        text = bare(text)
        if value.type == BOOL:
            self.reads.append(Access(buffer))
            self.lines.append(f"SetBit({buffer.name}, lane, {text});")
        elif isinstance(value.type, RefType):
            self.lines.append(f"{buffer.name}.SetValue(lane, reinterpret_cast<uint64_t>({text}));")
        else:
            self.lines.append(f"{buffer.name}.SetValue(lane, {text});")

    # ---- ops -----------------------------------------------------------------------------

    def op(self, op: Operation, *, kept: bool) -> None:
        """One op of the group."""
        match op.name:
            case "lane_id":
                self.define(op, self.of_linear("%"), kept=kept)
            case "subgroup_id":
                self.define(op, self.of_linear("/"), kept=kept)
            case "load" | "atomic.load":
                self.define(op, self.load(op), kept=True)
            case "store" | "atomic.store":
                self.store(op)
            case "atomic.rmw" | "atomic.cas":
                self.atomic(op)
            case _:
                args = [self.text(v) for v in op.operands]
                wraps = bool(op.results) and op.result not in self.host.safe
                self.define(op, index_expression(op, args, wraps), kept=kept)

    def of_linear(self, symbol: str) -> str:
        width = self.host.kernel.options.width
        return f"static_cast<int64_t>({grouped(self.host.linear)} {symbol} {width})"

    def target(self, op: Operation) -> Rep | None:
        """The array or pointer of an access, or None for an address of each lane's own."""
        return self.host.reps.get(op.operands[0])

    def load(self, op: Operation) -> str:
        target, offset = self.target(op), self.text(op.operands[1])
        kind = _element(op)
        if isinstance(target, Array):
            self.reads.append(Access(target.buffer))
            text = f"{target.buffer.name}.GetValue({self.host.index_of(target, bare(offset))})"
        else:
            base = self.base(op)
            text = f"LoadGlobal<{storage(kind)}>({base}, {bare(offset)})"
            self.reads.append(Access(self.host.place_of_pointer(op.operands[0])))
        return f"{text} != 0" if kind == BOOL else text

    def base(self, op: Operation) -> str:
        target = self.target(op)
        return target.text if isinstance(target, Pointer) else self.text(op.operands[0])

    def store(self, op: Operation) -> None:
        target, offset = self.target(op), bare(self.text(op.operands[1]))
        kind = _element(op)
        value = bare(self.text(op.operands[2]))
        if kind == BOOL:
            value = f"static_cast<uint8_t>({value} ? 1 : 0)"
        if isinstance(target, Array):
            self.writes.append(Access(target.buffer))
            at = self.host.index_of(target, offset)
            self.lines.append(f"{target.buffer.name}.SetValue({at}, {value});")
        elif self.host.chip.pads:
            self.scatter(op, offset, value, storage(kind))
        else:
            place = self.host.place_of_pointer(op.operands[0])
            self.writes.append(Access(place))
            self.lines.append(f"StoreGlobal<{storage(kind)}>({self.base(op)}, {offset}, {value});")

    def scatter(self, op: Operation, offset: str, value: str, kind: str) -> None:
        """Stage an element, and its offset unless a lane's number says it."""
        host, per = self.host, BLOCK // SIZES[kind]
        target, rep = self.target(op), host.reps.get(op.operands[1])
        hint = target.text if isinstance(target, Pointer) else "out"
        stage = host.buffer(f"{hint}_stage", kind, host.shape.lanes * per)
        seen = ".ReinterpretCast<uint16_t>()" if kind in ("half", "bfloat16_t") else ""
        self.lines.append(f"{stage.name}{seen}.SetValue(lane * {per}, {value});")
        self.writes.append(Access(stage))
        base = target.text if isinstance(target, Pointer) else ""
        where: Rep | Buffer
        if base and isinstance(rep, Affine | Row | Uniform):
            where = rep
        else:
            where = host.buffer("offset", "int64_t")
            full = offset if base else f"reinterpret_cast<int64_t>({self.base(op)} + {offset})"
            self.lines.append(f"{where.name}.SetValue(lane, {full});")
            self.writes.append(Access(where))
        place = host.place_of_pointer(op.operands[0])
        self.scatters.append(Scatter(op, stage, base or "nullptr", where, place))

    def copy_out(self, scatter: Scatter, mask: Mask) -> None:
        """Copy what lanes staged, one element at a time."""
        host, per = self.host, BLOCK // scatter.stage.size
        reads: list[Access] = []
        if isinstance(scatter.offset, Buffer):
            reads.append(Access(scatter.offset))
            at = f"{scatter.offset.name}.GetValue(lane)"
        else:
            at, reads = host.rep_text(scatter.offset, None)
        base = scatter.base
        if base == "nullptr":
            base, at = f"reinterpret_cast<GM_ADDR>({at})", "0"
        copy = f"CopyOut({base}, {bare(at)}, {scatter.stage.name}[lane * {per}], 1);"
        lines, more = host.lane_loop(mask, [copy])
        if scatter.op.spec is ops.ATOMIC_RMW:
            mode = {"min": "Min", "max": "Max"}.get(str(scatter.op.attrs["kind"]), "Add")
            lines = [f"SetAtomic{mode}<{scatter.stage.kind}>();", *lines, "SetAtomicNone();"]
        if reads or more:
            host.instr("S", [], (*reads, *more))
        host.instr("MTE3", lines, [Access(scatter.stage)], [Access(scatter.place)], op="scatter")

    def atomic(self, op: Operation) -> None:
        """An atomic on shared memory, or a global one whose old value nobody uses."""
        target = self.target(op)
        if isinstance(target, Array):
            self.shared_atomic(op, target)
            return
        kind, value = _element(op), bare(self.text(op.operands[2]))
        c_kind = {"f16": "half", "bf16": "bfloat16_t"}.get(kind.name, c_type(kind))
        c_kind = {"uint32_t": "int32_t"}.get(c_kind, c_kind)
        if c_type(kind) == "uint32_t":
            value = f"static_cast<int32_t>({value})"
        if op.attrs["kind"] == "sub":
            value = f"WrapSub<{c_kind}>(0, {value})" if kind.is_int else f"-{grouped(value)}"
        self.scatter(op, bare(self.text(op.operands[1])), value, c_kind)

    def shared_atomic(self, op: Operation, target: Array) -> None:
        host, kind = self.host, _element(op)
        self.reads.append(Access(target.buffer))
        self.writes.append(Access(target.buffer))
        at = host.fresh("at")
        index = host.index_of(target, bare(self.text(op.operands[1])))
        self.lines.append(f"const int64_t {at} = {index};")
        old = host.fresh(op.result.name or "old")
        self.lines.append(f"const {storage(kind)} {old} = {target.buffer.name}.GetValue({at});")
        self.texts[op.result] = f"({old} != 0)" if kind == BOOL else old
        values = [self.text(v) for v in op.operands[2:]]
        if op.spec is ops.ATOMIC_CAS:
            same = f"{old} == {values[0]}"
            if kind == F32:
                same = f"BitsOfFloat({old}) == BitsOfFloat({values[0]})"
            new = f"{same} ? {values[1]} : {old}"
        else:
            new = _combined(str(op.attrs["kind"]), kind, old, values[0])
        self.lines.append(f"{target.buffer.name}.SetValue({at}, {new});")


def _combined(name: str, kind: Scalar, old: str, value: str) -> str:
    """The new value of a read-modify-write."""
    if name == "exchange":
        return value
    through = {"f16": ("HalfToFloat", "FloatToHalf"), "bf16": ("BfloatToFloat", "FloatToBfloat")}
    wide = F32 if kind.name in through else kind
    made = Value(wide)
    op = Operation(TABLE[name], (made, made), (Value(wide),))
    if kind.name in through:
        enter, leave = through[kind.name]
        inner = RULES[name, "f32"](op, [f"{enter}({old})", f"{enter}({value})"])
        return f"{leave}({inner})"
    return RULES[name, kind.name](op, [old, value])


def _element(op: Operation) -> Scalar:
    kind = op.attrs["element"]
    assert isinstance(kind, Scalar)
    return kind
