"""Ascend C for the SIMT generation (950): a work-item is a thread, structure is C++'s own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hetir.artifact import Layout, Slot
from hetir.backends.ascend.simd_helpers import helpers
from hetir.backends.ascend.simd_passes import lowered
from hetir.backends.ascend.simd_reps import bare
from hetir.backends.ascend.simd_scalar import c_type, expression, index_expression
from hetir.backends.ascend.simd_text import wrapped
from hetir.backends.ascend.simt_barriers import used_at_end
from hetir.backends.ascend.simt_target import NAME, target
from hetir.diagnostics import Label
from hetir.ir import ops
from hetir.ir.build import constant
from hetir.ir.core import Kernel, Operation, Region, Value, walk
from hetir.ir.types import BOOL, SCALARS, ArrayType, RefType, Scalar
from hetir.memory.lowering import ASCEND_SIMT, Kind, Part, lookup
from hetir.memory.program import Order, Scope
from hetir.passes.layout import layout_of
from hetir.passes.magnitude import addressing, magnitudes
from hetir.passes.uniformity import uniformity
from hetir.target import UnsupportedError

Workgroup = tuple[int, int, int]

MOST_ITEMS = 2048
_BLOCK_BYTES = 48  # of the launch block, before the arguments: grid and workgroup
_WARP = 32
_ATOMIC_CALLS: Mapping[str, str] = {
    "add": "asc_atomic_add",
    "sub": "asc_atomic_sub",
    "min": "asc_atomic_min",
    "max": "asc_atomic_max",
    "and": "asc_atomic_and",
    "or": "asc_atomic_or",
    "xor": "asc_atomic_xor",
    "exchange": "asc_atomic_exch",
}


# ---- the source ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A kernel's source and what it takes."""

    entry: str
    text: str
    shared_bytes: int


def build(kernel: Kernel, entry: str, workgroup: Workgroup | None) -> Built:
    """Emit a kernel without calls.

    Raises:
        UnsupportedError: the generation cannot do what the kernel asks.
    """
    plain = lowered(kernel, target(), workgroup)
    known = frozenset(magnitudes(plain)) | addressing(plain)
    emitter = _Emitter(plain, layout_of(kernel), known, workgroup)
    emitter.region(plain.body, None)
    return Built(
        entry=entry,
        text=_source(kernel, entry, workgroup, emitter),
        shared_bytes=emitter.shared_bytes,
    )


def _source(kernel: Kernel, entry: str, workgroup: Workgroup | None, emitter: _Emitter) -> str:
    where = f", from {kernel.loc.file.rpartition('/')[2]}" if kernel.loc else ""
    items = workgroup[0] * workgroup[1] * workgroup[2] if workgroup else MOST_ITEMS
    body = _live([*emitter.frame(), *emitter.lines])
    lines = [
        f"// {kernel.name}{where}: Ascend C for 950 (arch 3510): work-items are SIMT threads.",
        "// `launch` holds int64 counts of workgroups [3] and work-items [3], then the arguments.",
        '#include "simt_api/asc_simt.h"',
        "",
        _AT,
        "",
    ]
    for helper in helpers(body):
        lines += [_OWN.get(_name_of(helper), helper), ""]
    shown = ", ".join([*emitter.parameters, "__gm__ uint8_t *launch"])
    lines += wrapped(f"__global__ __launch_bounds__({items}) void {entry}({shown}) {{", 0)
    lines += [part for line in body for part in wrapped(line, 4)]
    lines.append("}")
    return "\n".join(lines) + "\n"


_AT = """\
// The element of type T `offset` bytes behind an address.
template <typename T> inline T *At(void *base, int64_t offset) {
    return reinterpret_cast<T *>(static_cast<uint8_t *>(base) + offset);
}"""
_OWN: Mapping[str, str] = {
    "FloatOfBits": "inline float FloatOfBits(uint32_t bits) { return __uint_as_float(bits); }",
    "BitsOfFloat": "inline uint32_t BitsOfFloat(float value) { return __float_as_uint(value); }",
}


def _name_of(helper: str) -> str:
    """The function that a helper's text defines."""
    return next((name for name in _OWN if f" {name}(" in helper.splitlines()[0]), "")


_DEFINES = re.compile(r"^\s*const \S+(?: \*)? ?(\w+) = (.*);$")
_WORD = re.compile(r"\w+")


def _live(lines: Sequence[str]) -> list[str]:
    """The lines without definitions that nothing uses; atomics stay, as statements."""
    uses = Counter(word for line in lines for word in _WORD.findall(line))
    kept: list[str] = []
    for line in reversed(lines):
        found = _DEFINES.match(line)
        if found is None or uses[found[1]] > 1:
            kept.append(line)
            continue
        uses.subtract(_WORD.findall(line))
        if "asc_atomic" in line or "asc_shfl" in line:
            kept.append(line[: len(line) - len(line.lstrip())] + f"{found[2]};")
            uses.update(_WORD.findall(found[2]))
    return kept[::-1]


def _safe(text: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in text)


def _memory_type(kind: Scalar) -> str:
    """The C++ type of an element in memory."""
    return "uint8_t" if kind == BOOL else c_type(kind)


@dataclass(slots=True)
class _Loop:
    """What a loop's `yield` and `break` assign."""

    carried: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(slots=True)
class _Emitter:
    """Writes the body of one kernel, line by line."""

    kernel: Kernel
    layout: Layout
    bounded: frozenset[Value]
    workgroup: Workgroup | None
    lines: list[str] = field(default_factory=list[str])
    names: dict[Value, str] = field(default_factory=dict[Value, str])
    parameters: list[str] = field(default_factory=list[str])
    shared_bytes: int = 0
    used: dict[str, int] = field(default_factory=dict[str, int])
    slots: dict[Value, Slot] = field(default_factory=dict[Value, Slot])
    arrays: dict[Value, ArrayType] = field(default_factory=dict[Value, ArrayType])
    makers: dict[Value, Operation] = field(default_factory=dict[Value, Operation])
    frames: dict[str, str] = field(default_factory=dict[str, str])
    indent: int = 1

    def __post_init__(self) -> None:
        for name in _FRAME:
            self.used[name] = 1
        for param, slot in zip(self.kernel.params, self.layout.slots, strict=True):
            kind = param.value.type
            self.slots[param.value] = slot
            name = self.fresh(param.value.name or "argument")
            self.names[param.value] = name
            if isinstance(kind, ArrayType):
                self.parameters.append(f"{_memory_type(kind.element)} *{name}")
                continue
            assert isinstance(kind, Scalar)
            text = f"*At<{_memory_type(kind)}>(launch, {_BLOCK_BYTES + slot.offset})"
            read = f"{text} != 0" if kind == BOOL else text
            self.frames[name] = f"const {c_type(kind)} {name} = {read};"
        self.makers = {v: op for op in walk(self.kernel.body) for v in op.results}

    # ---- names and lines ---------------------------------------------------------------------

    def fresh(self, hint: str) -> str:
        """A name of its own."""
        base = _safe(hint) or "v"
        if base[0].isdigit() or base in _RESERVED:
            base = f"{base}_" if base in _RESERVED else f"v{base}"
        count = self.used.get(base, 0)
        self.used[base] = count + 1
        return self.fresh(f"{base}_{count}") if count else base

    def put(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def value(self, value: Value) -> str:
        """An operand: a name, or a constant in its place."""
        op = self.makers.get(value)
        if op is not None and op.spec is ops.CONST:
            return expression(op, ())
        return self.names[value]

    def define(self, value: Value, text: str) -> None:
        """`const T name = text;`, or an address that stays what it is."""
        name = self.fresh(value.name or "v")
        self.names[value] = name
        kind = "void *const" if isinstance(value.type, RefType) else f"const {self.type(value)}"
        self.put(f"{kind} {name} = {bare(text)};")

    @staticmethod
    def type(value: Value) -> str:
        return "void *" if isinstance(value.type, RefType) else c_type(value.type)

    def once(self, name: str, text: str) -> str:
        """A number of the frame, defined where the kernel begins."""
        self.frames.setdefault(name, f"const int64_t {name} = {text};")
        return name

    def of_group(self, line: str) -> bool:
        """Whether a number of the frame differs between workgroups."""
        return line.split(" = ")[0].rpartition(" ")[2].startswith("group_")

    def frame(self) -> Iterator[str]:
        """What comes before the body: sizes, the loop over workgroups."""
        for axis in "xyz":
            offset = 8 * "xyz".index(axis)
            yield f"const int64_t groups_{axis} = *At<int64_t>(launch, {offset});"
        yield "const int64_t groups = groups_x * groups_y * groups_z;"
        yield from (line for line in self.frames.values() if not self.of_group(line))
        yield "for (int64_t group = blockIdx.x; group < groups; group += gridDim.x) {"
        yield from (f"    {line}" for line in self.frames.values() if self.of_group(line))

    def close(self) -> None:
        """The end of the loop over workgroups; the next one uses the shared arrays again."""
        if self.shared_bytes and used_at_end(self.kernel.body):
            self.put("asc_syncthreads();")
        self.indent = 0
        self.put("}")

    # ---- structure ---------------------------------------------------------------------------

    def region(self, region: Region, loop: _Loop | None, results: Sequence[str] = ()) -> None:
        """Write ops; a `yield` assigns `results`, or the loop's carried values."""
        for op in region.body:
            match op.name:
                case "if":
                    self.branch(op, loop)
                case "for":
                    self.counted(op)
                case "loop":
                    self.endless(op)
                case "yield":
                    self.assign(results, op.operands)
                case "break":
                    assert loop is not None
                    self.assign(loop.results, op.operands)
                    self.put("break;")
                case "return":
                    self.close()
                case _:
                    self.emit(op)

    def assign(self, names: Sequence[str], values: Sequence[Value]) -> None:
        """All at once: values that another assignment would change are kept first."""
        pairs = [(n, self.value(v)) for n, v in zip(names, values, strict=True)]
        pairs = [(n, text) for n, text in pairs if n != text]
        written: set[str] = set()
        late: list[tuple[str, str]] = []
        targets = {n for n, _ in pairs}
        for name, text in pairs:
            if text in targets and text != name:
                kept = self.fresh("kept")
                self.put(f"const auto {kept} = {text};")
                late.append((name, kept))
            else:
                late.append((name, text))
            written.add(name)
        for name, text in late:
            self.put(f"{name} = {bare(text)};")

    def declare(self, values: Sequence[Value], starts: Sequence[Value] = ()) -> list[str]:
        """Variables for results, with their first values where there are any."""
        texts = [self.value(v) for v in starts]
        names: list[str] = []
        for index, value in enumerate(values):
            name = self.fresh(value.name or "v")
            self.names[value] = name
            start = f" = {bare(texts[index])}" if texts else "{}"
            self.put(f"{self.type(value)} {name}{start};")
            names.append(name)
        return names

    def branch(self, op: Operation, loop: _Loop | None) -> None:
        names = self.declare(op.results)
        then, other = op.regions
        cond = bare(self.value(op.operands[0]))
        if not names and len(then.body) == 1 and then.terminator.spec is ops.YIELD:
            cond, then, other = f"!({cond})", other, Region((), ())
        self.put(f"if ({cond}) {{")
        self.inner(then, loop, names)
        if other.body and (names or len(other.body) > 1 or other.terminator.spec is not ops.YIELD):
            self.put("} else {")
            self.inner(other, loop, names)
        self.put("}")

    def inner(self, region: Region, loop: _Loop | None, names: Sequence[str]) -> None:
        self.indent += 1
        self.region(region, loop, names)
        self.indent -= 1

    def counted(self, op: Operation) -> None:
        """A `for` that is not left early: its carried values are its results."""
        (body,) = op.regions
        start, stop, step = (self.value(v) for v in op.operands[:3])
        index, *carried = body.args
        names = self.declare(op.results, op.operands[3:])
        self.names.update(zip(carried, names, strict=True))
        self.names[index] = at = self.fresh(index.name or "i")
        known = self.makers.get(op.operands[2])
        if known is not None and known.spec is ops.CONST and constant(known) == 1:
            self.put(f"for (int64_t {at} = {bare(start)}; {at} < {stop}; ++{at}) {{")
        else:
            left = self.fresh("left")
            self.put(f"int64_t {at} = {bare(start)};")
            count = f"TripCount({bare(start)}, {bare(stop)}, {bare(step)})"
            self.put(f"for (uint64_t {left} = {count}; {left} != 0;")
            self.put(f"     --{left}, {at} = WrapAdd<int64_t>({at}, {bare(step)})) {{")
        # the body's own `yield` changes them, so the loop's results are variables
        self.inner(body, _Loop(tuple(names), tuple(names)), names)
        self.put("}")

    def endless(self, op: Operation) -> None:
        (body,) = op.regions
        results = self.declare(op.results)
        carried = self.declare(body.args, op.operands)
        self.put("while (true) {")
        self.inner(body, _Loop(tuple(carried), tuple(results)), carried)
        self.put("}")

    # ---- ops ---------------------------------------------------------------------------------

    def emit(self, op: Operation) -> None:
        match op.name:
            case "const":
                return
            case "alloc":
                self.alloc(op)
            case "base":
                self.names[op.result] = self.names[op.operands[0]]
            case "load" | "store":
                self.access(op)
            case "atomic.load" | "atomic.store" | "atomic.rmw" | "atomic.cas":
                self.atomic(op)
            case "fence":
                self.fence(op)
            case "barrier":
                self.barrier(op)
            case "shuffle":
                self.shuffle(op)
            case "dim" | "stride" | "local_id" | "group_id" | "group_size" | "num_groups":
                self.names[op.result] = self.id(op)
            case "global_id" | "lane_id" | "subgroup_id" | "subgroup_size":
                self.names[op.result] = self.id(op)
            case _:
                args = [self.value(v) for v in op.operands]
                wraps = op.result not in self.bounded
                self.define(op.result, index_expression(op, args, wraps))

    def id(self, op: Operation) -> str:  # noqa: PLR0911 - one a kind
        """An id, a size or an extent, by the frame's number for it."""
        axis = op.attrs.get("axis", 0)
        assert isinstance(axis, int)
        letter = "xyz"[axis] if op.name not in ("dim", "stride") else ""
        width = self.kernel.options.width
        match op.name:
            case "local_id":
                return self.once(f"item_{letter}", f"static_cast<int64_t>(threadIdx.{letter})")
            case "group_size":
                return self.size(letter)
            case "num_groups":
                return f"groups_{letter}"
            case "group_id":
                return self.group(letter)
            case "global_id":
                return self.globally(letter)
            case "lane_id":
                return self.once("lane", f"{self.linear()} % {width}")
            case "subgroup_id":
                return self.once("subgroup", f"{self.linear()} / {width}")
            case "subgroup_size":
                return str(width)
            case _:
                return self.extent(op, axis)

    def group(self, letter: str) -> str:
        """A workgroup's index along an axis."""
        text = {
            "x": "group % groups_x",
            "y": "group / groups_x % groups_y",
            "z": "group / (groups_x * groups_y)",
        }[letter]
        return self.once(f"group_{letter}", text)

    def globally(self, letter: str) -> str:
        item = self.once(f"item_{letter}", f"static_cast<int64_t>(threadIdx.{letter})")
        size = self.once(f"size_{letter}", f"static_cast<int64_t>(blockDim.{letter})")
        return self.once(f"group_item_{letter}", f"{self.group(letter)} * {size} + {item}")

    def linear(self) -> str:
        """A work-item's place in its workgroup."""
        x, y, z = (self.once(f"item_{a}", f"static_cast<int64_t>(threadIdx.{a})") for a in "xyz")
        if self.workgroup and self.workgroup[1:] == (1, 1):
            return x
        return self.once("local", f"({z} * {self.size('y')} + {y}) * {self.size('x')} + {x}")

    def size(self, letter: str) -> str:
        """The workgroup's extent along an axis."""
        if self.workgroup:
            return str(self.workgroup["xyz".index(letter)])
        return self.once(f"size_{letter}", f"static_cast<int64_t>(blockDim.{letter})")

    def extent(self, op: Operation, axis: int) -> str:
        array = op.operands[0]
        kind = array.type
        assert isinstance(kind, ArrayType)
        if array not in self.slots:
            sizes = kind.shape or ()
            stride = kind.element.bytes
            for size in sizes[axis + 1 :]:
                stride *= size
            return str(sizes[axis] if op.spec is ops.DIM else stride)
        slot = self.slots[array]
        place = axis if op.spec is ops.DIM else kind.ndim + axis
        offset = _BLOCK_BYTES + slot.offset + 8 + 8 * place
        word = "size" if op.spec is ops.DIM else "stride"
        return self.once(f"{self.names[array]}_{word}_{axis}", f"*At<int64_t>(launch, {offset})")

    def alloc(self, op: Operation) -> None:
        kind = op.attrs["type"]
        assert isinstance(kind, ArrayType)
        count = 1
        for extent in kind.shape or ():
            count *= extent
        name = self.fresh(op.result.name or kind.space)
        self.names[op.result] = name
        self.arrays[op.result] = kind
        shared = kind.space == "shared"
        space = "__ubuf__ " if shared else ""
        if shared:
            self.shared_bytes += -(-max(1, count) * kind.element.bytes // 32) * 32
        self.put(f"{space}{_memory_type(kind.element)} {name}[{max(1, count)}];")

    # ---- memory ------------------------------------------------------------------------------

    def place(self, op: Operation, element: Scalar) -> str:
        """The element that an access names, as an lvalue."""
        base, offset = op.operands[0], op.operands[1]
        held = self.allocated(base)
        if held is not None and held.element.bytes == element.bytes:
            name = self.names[base]
            return f"{name}[{self.scaled(offset, element.bytes)}]"
        kind = _memory_type(element)
        return f"*At<{kind}>({self.names[base]}, {bare(self.value(offset))})"

    def allocated(self, base: Value) -> ArrayType | None:
        """The shared or private array behind a reference."""
        op = self.makers.get(base)
        return self.arrays.get(op.operands[0]) if op is not None and op.spec is ops.BASE else None

    def scaled(self, offset: Value, size: int) -> str:
        """A byte offset as an index."""
        op = self.makers.get(offset)
        if op is not None and op.spec is ops.CONST:
            return str(int(constant(op) or 0) // size)
        if op is not None and op.spec is ops.MUL:
            for one, other in (op.operands, op.operands[::-1]):
                factor = self.makers.get(other)
                if factor is not None and factor.spec is ops.CONST and constant(factor) == size:
                    return bare(self.value(one))
        text = self.value(offset)
        return bare(text) if size == 1 else f"{text} / {size}"

    def access(self, op: Operation) -> None:
        element = op.attrs["element"]
        assert isinstance(element, Scalar)
        place = self.place(op, element)
        if op.spec is ops.LOAD:
            self.define(op.result, f"{place} != 0" if element == BOOL else place)
            return
        value = bare(self.value(op.operands[2]))
        self.put(f"{place} = {f'{value} ? 1 : 0' if element == BOOL else value};")

    def fences(self, op: Operation, kind: Kind) -> tuple[list[str], list[str]]:
        """The fences before and after an access, as the lowering table has them."""
        order, scope = Order(str(op.attrs["order"])), Scope(str(op.attrs["scope"]))
        row = lookup(ASCEND_SIMT, kind, order, scope)
        if row.refused:
            labels = (Label(op.loc, ""),) if op.loc else ()
            raise UnsupportedError(f"{row.refused} on target `{NAME}`", *labels)
        before: list[str] = []
        after: list[str] = []
        seen = kind is Kind.FENCE
        for step in row.steps:
            if step.part is Part.ACCESS:
                seen = True
            else:
                (after if seen else before).append(f"{step.text};")
        return before, after

    def fence(self, op: Operation) -> None:
        before, after = self.fences(op, Kind.FENCE)
        for line in (*before, *after):
            self.put(line)

    def barrier(self, op: Operation) -> None:
        """Of a subgroup, too: no function lets the threads of a warp wait for each other."""
        if op.attrs["scope"] == "subgroup":
            if self.kernel.options.width == 1:
                return
            if uniformity(self.kernel).divergent(op):
                labels = (Label(op.loc, ""),) if op.loc else ()
                raise UnsupportedError(
                    "a subgroup barrier in control flow that differs within the workgroup is not "
                    f"available on target `{NAME}`",
                    *labels,
                    hint="make the condition uniform, or move the barrier out of it",
                )
        self.put("asc_syncthreads();")

    def atomic(self, op: Operation) -> None:
        element = op.attrs["element"]
        assert isinstance(element, Scalar)
        word = element if element.is_int else SCALARS[f"u{element.bits}"]
        if self.allocated(op.operands[0]) is not None and element.bits == 64:
            labels = (Label(op.loc, ""),) if op.loc else ()
            raise UnsupportedError(
                f"a 64-bit atomic on shared memory is not available on target `{NAME}`",
                *labels,
                hint="use a 32-bit type",
            )
        kinds = {"atomic.load": Kind.LOAD, "atomic.store": Kind.STORE, "atomic.cas": Kind.CAS}
        before, after = self.fences(op, kinds.get(op.name, Kind.RMW))
        for line in before:
            self.put(line)
        address = self.address(op, element, word)
        values = [self.bits(v, element) for v in op.operands[2:]]
        shared = self.allocated(op.operands[0]) is not None
        match op.name:
            case "atomic.load":
                text = f"asc_atomic_or({address}, {c_type(word)}(0))" if shared else (
                    f"asc_ldcg({address})"
                )  # fmt: skip
            case "atomic.store":
                call = "asc_atomic_exch" if shared else "asc_stcg"
                self.put(f"{call}({address}, {values[0]});")
                text = ""
            case "atomic.cas":
                text = f"asc_atomic_cas({address}, {values[0]}, {values[1]})"
            case _:
                call = _ATOMIC_CALLS[str(op.attrs["kind"])]
                text = f"{call}({address}, {values[0]})"
        if op.results:
            self.define(op.result, self.unbits(text, element))
        for line in after:
            self.put(line)

    def address(self, op: Operation, element: Scalar, word: Scalar) -> str:
        place = self.place(op, element)
        if place.startswith("*At<"):
            return f"At<{c_type(word)}>" + place[place.index("(") :]
        pointer = f"&{place}"
        return pointer if element == word else f"reinterpret_cast<{c_type(word)} *>({pointer})"

    def bits(self, value: Value, element: Scalar) -> str:
        """A value as the integer that an atomic takes."""
        text = bare(self.value(value))
        if element.name == "f32":
            return f"BitsOfFloat({text})"
        return f"static_cast<{c_type(element)}>({text})"

    @staticmethod
    def unbits(text: str, element: Scalar) -> str:
        return f"FloatOfBits({text})" if element.name == "f32" else text

    # ---- lanes -------------------------------------------------------------------------------

    def shuffle(self, op: Operation) -> None:
        """Another lane's value by a warp's exchange; 0 from a lane that has none."""
        width = self.kernel.options.width
        if width > _WARP:
            labels = (Label(op.loc, ""),) if op.loc else ()
            raise UnsupportedError(
                f"a subgroup of {width} lanes is wider than a warp on target `{NAME}`",
                *labels,
                hint="pin at most 32: `@hetir.kernel(subgroup_size=32)`",
            )
        value, number, where = (self.value(v) for v in op.operands)
        lane = self.once("lane", f"{self.linear()} % {width}")
        signs = {"index": f"{number}", "xor": f"{lane} ^ {number}", "up": f"{lane} - {number}",
                 "down": f"{lane} + {number}"}  # fmt: skip
        source = self.fresh("source")
        self.put(f"const int64_t {source} = {signs[str(op.attrs['mode'])]};")
        items = self.items()
        there = self.fresh("there")
        self.put(
            f"const bool {there} = {source} >= 0 && {source} < {width} &&"
            f" {self.linear()} - {lane} + {source} < {items};"
        )
        at = self.fresh("at")
        first = f"({self.linear()} - {lane}) % {_WARP}"
        self.put(f"const int32_t {at} = static_cast<int32_t>({there} ? {first} + {source} :"
                 f" {self.linear()} % {_WARP});")  # fmt: skip
        kind = op.result.type
        assert isinstance(kind, Scalar)
        word = "int64_t" if kind.bits == 64 else "int32_t"
        sent = f"static_cast<int32_t>(BitsOfFloat({value}))" if kind.name == "f32" else (
            f"static_cast<{word}>({bare(value)})"
        )  # fmt: skip
        got = self.fresh("got")
        self.put(f"const {word} {got} = asc_shfl({sent}, {at});")
        took = self.fresh("took")
        self.put(f"const bool {took} = asc_shfl(static_cast<int32_t>({bare(where)}), {at}) != 0;")
        kept = f"FloatOfBits(static_cast<uint32_t>({got}))" if kind.name == "f32" else (
            f"{got} != 0" if kind == BOOL else f"static_cast<{c_type(kind)}>({got})"
        )  # fmt: skip
        zero = {"f32": "FloatOfBits(0u)", "bool": "false"}.get(
            kind.name, f"static_cast<{c_type(kind)}>(0)"
        )
        self.define(op.result, f"{there} && {took} ? {kept} : {zero}")

    def items(self) -> str:
        """Work-items of the workgroup."""
        if self.workgroup:
            return str(self.workgroup[0] * self.workgroup[1] * self.workgroup[2])
        return self.once("items", " * ".join(map(self.size, "xyz")))


_FRAME = (
    *("launch", "group", "groups", "At", "local", "lane", "subgroup", "items"),
    *(
        f"{name}_{axis}"
        for name in ("groups", "group", "size", "item", "group_item")
        for axis in "xyz"
    ),
)
_CPP = """
alignas alignof and asm auto bool break case catch char class const constexpr continue default
delete do double else enum explicit export extern false float for friend goto half if inline int
long mutable namespace new not operator or private protected public register return short signed
sizeof static struct switch template this throw true try typedef typeid typename union unsigned
using virtual void volatile while xor
"""
_RESERVED = frozenset(_CPP.split())
