"""What an entry function sets up once: arguments, launch, shared memory and the context."""

from __future__ import annotations

from dataclasses import dataclass

from hetir.artifact import Layout, Slot
from hetir.backends.cpu.program import Schedule
from hetir.backends.llvm.code import Code, memory_type
from hetir.ir import ops
from hetir.ir.core import Kernel, Value, walk
from hetir.ir.types import BOOL, ArrayType, Scalar

Workgroup = tuple[int, int, int]
SHARED_ALIGN = 64
_STACK_BYTES = 2048  # larger private arrays live in the context


def bytes_of(kind: ArrayType) -> int:
    """The size of a static array."""
    count = kind.element.bytes
    for extent in kind.shape or ():
        count *= extent
    return count


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Where shared arrays (by offset) and context values (by offset an item) lie."""

    shared: dict[Value, int]
    context: dict[Value, int]
    arrays: dict[Value, int]
    mask: int
    shared_bytes: int
    item_bytes: int


def plan(kernel: Kernel, schedule: Schedule) -> Plan:
    """Lay out a workgroup's scratch. Wide values come first, so that all are aligned."""
    shared: dict[Value, int] = {}
    arrays: dict[Value, int] = {}
    used = offset = 0
    for op in walk(kernel.body):
        if op.spec is not ops.ALLOC:
            continue
        kind = op.result.type
        assert isinstance(kind, ArrayType)
        if kind.space == "shared":
            shared[op.result] = used
            used += _up(bytes_of(kind), SHARED_ALIGN)
        elif op in schedule.private or bytes_of(kind) > _STACK_BYTES:
            arrays[op.result] = offset
            offset += _up(bytes_of(kind), 8)
    slots: dict[Value, int] = {}
    for value in sorted(schedule.context, key=lambda v: -size_of(v)):
        if value not in schedule.same:
            slots[value] = offset
            offset += size_of(value)
    slots |= {value: slots[other] for value, other in schedule.same.items() if other in slots}
    return Plan(
        shared=shared,
        context=slots,
        arrays=arrays,
        mask=offset,
        shared_bytes=used,
        item_bytes=offset + schedule.masked,
    )


def size_of(value: Value) -> int:
    """The bytes of a value in the context."""
    return value.type.bytes if isinstance(value.type, Scalar) else 8


def _up(count: int, step: int) -> int:
    return -(-count // step) * step


class Frame:
    """Names of the values that the entry block loads, each loaded when first asked for."""

    def __init__(
        self,
        code: Code,
        plan: Plan,
        layout: Layout,
        workgroup: Workgroup | None,
        lanes: int = 0,
        *,
        divides: bool = False,
    ) -> None:
        self.code = code
        self._divides = divides
        self.lanes = lanes
        self.plan = plan
        self.workgroup = workgroup
        self._layout = layout
        self._names: dict[tuple[object, ...], str] = {}
        self._head = Code()
        self._place = code.reserve()

    def finish(self) -> None:
        """Write the entry block."""
        self.code.fill(self._place, self._head.lines)

    def _ask(self, key: tuple[object, ...], *lines: str) -> str:
        """A name for the last line's result; `{}` is the result of the line before."""
        if key not in self._names:
            name = ""
            for line in lines:
                result = "%" + self.code.fresh("f")
                self._head.put(f"{result} = {line.format(name)}")
                name = result
            self._names[key] = name
        return self._names[key]

    def _load(self, base: str, offset: int, kind: str, align: int) -> str:
        return self._ask(
            (base, offset, kind),
            f"getelementptr i8, ptr {base}, i64 {offset}",
            f"load {kind}, ptr {{}}, align {align}, !invariant.load !0",
        )

    def num_groups(self, axis: int) -> str:
        """Workgroups along an axis."""
        return self._load("%launch", 8 * axis, "i64", 8)

    def group_size(self, axis: int) -> str:
        """Work-items along an axis."""
        if self.workgroup:
            return str(self.workgroup[axis])
        return self._load("%launch", 24 + 8 * axis, "i64", 8)

    def records(self) -> str:
        """The records buffer, or null."""
        return self._load("%launch", 48, "ptr", 8)

    def items(self) -> str:
        """Work-items a workgroup."""
        if self.workgroup:
            x, y, z = self.workgroup
            return str(x * y * z)
        x, y, z = map(self.group_size, range(3))
        return self._ask(("items",), f"mul i64 {x}, {y}", f"mul i64 {{}}, {z}")

    def slot(self, index: int) -> Slot:
        """The argument slot of a parameter."""
        return self._layout.slots[index]

    def scalar(self, index: int, kind: Scalar) -> str:
        """A scalar argument."""
        raw = self._load("%args", self.slot(index).offset, memory_type(kind), kind.bytes)
        return self._ask(("bool", index), f"icmp ne i8 {raw}, 0") if kind == BOOL else raw

    def pointer(self, index: int) -> str:
        """The address of an array argument."""
        return self._load("%args", self.slot(index).offset, "ptr", 8)

    def extent(self, index: int, axis: int) -> str:
        """An extent of an array argument."""
        return self._load("%args", self.slot(index).offset + 8 + 8 * axis, "i64", 8)

    def stride(self, index: int, axis: int) -> str:
        """A stride in bytes of an array argument."""
        slot = self.slot(index)
        assert slot.ndim is not None
        return self._load("%args", slot.offset + 8 + 8 * (slot.ndim + axis), "i64", 8)

    def shared(self, array: Value) -> str:
        """The address of a shared array."""
        offset = self.plan.shared[array]
        return self._ask(("shared", array), f"getelementptr i8, ptr %scratch, i64 {offset}")

    def column(self, offset: int) -> str:
        """The address of a context array whose items start `offset` bytes an item in."""
        base = _up(self.plan.shared_bytes, SHARED_ALIGN)
        items = self.items()
        if self.lanes and self.workgroup:
            items = str(_up(int(items), self.lanes))  # whole vectors are written
        return self._ask(
            ("column", offset),
            f"mul i64 {items}, {offset}",
            f"add i64 {{}}, {base}",
            "getelementptr i8, ptr %scratch, i64 {}",
        )

    def large(self, index: int, count: int) -> str:
        """Whether an array argument has at least `count` elements."""
        axes = range(self.slot(index).ndim or 0)
        extents = [self.extent(index, axis) for axis in axes]
        products = (f"mul i64 {{}}, {extent}" for extent in extents)
        return self._ask(
            ("large", index, count), "add i64 0, 1", *products, f"icmp uge i64 {{}}, {count}"
        )

    def rows_meet(self, index: int, element: int, also: str, gap: int, long: int) -> str:
        """`also`, and whether an array's rows are `gap` bytes apart at most, or `long` bytes."""
        last = (self.slot(index).ndim or 0) - 1
        row = self._ask(("row", index), f"mul i64 {self.extent(index, last)}, {element}")
        reach = self._ask(("reach", index, gap), f"add i64 {row}, {gap}")
        stride = self.stride(index, last - 1)
        near = self._ask(("near", index, gap), f"icmp ule i64 {stride}, {reach}")
        far = self._ask(("far", index, long), f"icmp uge i64 {row}, {long}")
        key = ("rows meet", index, also, gap, long)
        return self._ask(key, f"or i1 {near}, {far}", f"and i1 {{}}, {also}")

    def choice(self, condition: str, value: int) -> str:
        """`value` where the condition holds, else 0."""
        return self._ask(("choice", condition, value), f"select i1 {condition}, i64 {value}, i64 0")

    def stack(self, kind: ArrayType, array: Value) -> str:
        """The address of a private array that no leaf shares."""
        size = max(1, bytes_of(kind))
        return self._ask(("stack", array), f"alloca [{size} x i8], align 16")

    def buffer(self, text: str, name: str, *, zero: bool = False) -> str:
        """A named stack buffer of an LLVM type, with zeros in it from the start where asked.

        Of what no lane has stored LLVM makes several values at once, one that is tested for zero
        and another one that is then divided by; so where the kernel divides, values have zeros.
        """
        known = len(self._names)
        place = self._ask(("buffer", text, name), f"alloca {text}, align 64")
        if len(self._names) > known and (zero or (self._divides and not text.startswith("["))):
            self._head.put(f"store {text} zeroinitializer, ptr {place}, align 64")
        return place

    def zeros(self) -> str:
        """The address of one element that is zero."""
        return self.buffer("i64", "zeros", zero=True)


def context_address(code: Code, value: Value, column: str, index: str) -> tuple[str, str]:
    """The type in memory, and the address of an item's entry."""
    kind = memory_type(value.type)
    return kind, code.add(f"getelementptr {kind}, ptr {column}, i64 {index}")
