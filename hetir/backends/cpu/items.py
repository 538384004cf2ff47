"""What one work-item does: its ops, its ids, its place in the context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hetir.artifact import Layout
from hetir.backends.cpu.alias import Aliases
from hetir.backends.cpu.frame import (
    Frame,
    Workgroup,
    bytes_of,
    context_address,
    plan,
    size_of,
)
from hetir.backends.cpu.program import Schedule
from hetir.backends.cpu.records import Records
from hetir.backends.llvm import memory
from hetir.backends.llvm.code import Code, memory_type
from hetir.backends.llvm.rules import RULES, truth
from hetir.backends.llvm.structure import Structured
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Value, walk
from hetir.ir.types import BOOL, ArrayType, Scalar
from hetir.memory.lowering import AARCH64, X86
from hetir.passes.narrow_demands import DIVISIONS
from hetir.target import Assumptions, Target, key_of


@dataclass(frozen=True, slots=True)
class Item:
    """The names of a work-item's linear id and, inside a leaf, of its local ids."""

    linear: str
    local: tuple[str, str, str] | None


class ItemEmitter(Structured):
    """Emits ops; `local` is what the current leaf knows, `outer` what the level around it does."""

    def __init__(
        self,
        kernel: Kernel,
        schedule: Schedule,
        layout: Layout,
        target: Target,
        *,
        workgroup: Workgroup | None,
        assumptions: Assumptions,
        lanes: int = 0,
    ) -> None:
        arm = "neon" in target.features
        super().__init__(Code(None if arm else target.features))
        self.assumptions = assumptions
        self.kernel = kernel
        self.target = target
        self.processor = AARCH64 if arm else X86
        self.schedule = schedule
        self.outer: dict[Value, str] = {}
        self.plan = plan(kernel, schedule)
        divides = any(
            op.spec in DIVISIONS
            and isinstance(kind := op.result.type, Scalar)
            and kind.kind in ("int", "uint")
            for op in walk(kernel.body)
        )
        self.frame = Frame(self.code, self.plan, layout, workgroup, lanes, divides=divides)
        self.aliases = Aliases(kernel, disjoint=assumptions.disjoint)
        self.records = Records(self.code, self.frame, kernel)
        self.params = {p.value: i for i, p in enumerate(kernel.params)}
        self.group: tuple[str, ...] = ()
        self.first = "0"
        self.registers: dict[int, int] = {}
        self.item = Item("0", None)
        self.item_end = ""

    def place(self, value: Value, index: str) -> tuple[str, str]:
        """The type in memory, and the address of an item's entry in the context.

        What one vector holds for all items of its level has a place on the stack, which LLVM
        turns into registers.
        """
        offset = self.plan.context[value]
        lanes = self.registers.get(offset)
        if lanes is None:
            return context_address(self.code, value, self.frame.column(offset), index)
        kind = memory_type(value.type)
        name = self.frame.buffer(f"<{lanes} x {kind}>", f"context {offset}")
        if index != self.first:
            lane = self.code.add(f"sub i64 {index}, {self.first}")
            name = self.code.add(f"getelementptr {kind}, ptr {name}, i64 {lane}")
        return kind, name

    def load(self, value: Value, index: str) -> str:
        """Read an item's entry of a value's context array."""
        kind, where = self.place(value, index)
        tags = self.aliases.context
        loaded = self.code.add(f"load {kind}, ptr {where}, align {size_of(value)}{tags}")
        return truth(self.code, loaded) if value.type == BOOL else loaded

    def save(self, value: Value, index: str, name: str) -> None:
        """Write an item's entry of a value's context array."""
        if value.type == BOOL:
            name = self.code.add(f"zext i1 {name} to i8")
        kind, where = self.place(value, index)
        tags = self.aliases.context
        self.code.put(f"store {kind} {name}, ptr {where}, align {size_of(value)}{tags}")

    def watch(self, op: Operation) -> None:
        """Keep the results that other leaves read."""
        for value in op.results:
            if value in self.watched:
                self.save(value, self.item.linear, self.local[value])

    def mask(self, linear: str) -> str:
        """The place that says whether an item has returned."""
        column = self.frame.column(self.plan.mask)
        return self.code.add(f"getelementptr i8, ptr {column}, i64 {linear}")

    def leave(self, op: Operation) -> None:
        """A work-item ends: later leaves skip it."""
        if self.schedule.masked:
            self.code.put(f"store i8 1, ptr {self.mask(self.item.linear)}")
        self.code.jump(self.item_end)

    def operand(self, value: Value) -> str:
        """A value of the leaf, or of the level around it."""
        name = self.local.get(value)
        return self.outer[value] if name is None else name

    def emit(self, op: Operation) -> None:
        """Emit a plain op."""
        special = _SPECIAL.get(op.spec)
        if special is not None:
            special(self, op)
            return
        args = [self.operand(v) for v in op.operands]
        self.local[op.result] = RULES[key_of(op)](self.code, op, args)

    def access(self, op: Operation) -> None:
        """A load, store or atomic."""
        args = [self.operand(v) for v in op.operands]
        tags = self.aliases.of(op.operands[0])
        name = memory.access(self.code, op, args, tags, self.processor)
        if name is not None:
            self.local[op.result] = name

    def nothing(self, op: Operation) -> None:
        """An alloc: its place is known."""

    def fence(self, op: Operation) -> None:
        """A fence."""
        memory.fence(self.code, op, self.processor)

    def base(self, op: Operation) -> None:
        """The address of an array's first byte."""
        array = op.operands[0]
        kind, frame = array.type, self.frame
        assert isinstance(kind, ArrayType)
        if array in self.params:
            name = frame.pointer(self.params[array])
        elif kind.space == "shared":
            name = frame.shared(array)
        elif array in self.plan.arrays:
            column = frame.column(self.plan.arrays[array])
            size = -(-bytes_of(kind) // 8) * 8
            offset = self.code.add(f"mul nuw nsw i64 {self.item.linear}, {size}")
            name = self.code.index(column, offset)
        else:
            name = frame.stack(kind, array)
        self.local[op.result] = name

    def dim(self, op: Operation) -> None:
        """An extent of a parameter."""
        self._extent(op, self.frame.extent)

    def stride(self, op: Operation) -> None:
        """A stride of a parameter."""
        self._extent(op, self.frame.stride)

    def _extent(self, op: Operation, ask: Callable[[int, int], str]) -> None:
        axis = op.attrs["axis"]
        assert isinstance(axis, int)
        self.local[op.result] = ask(self.params[op.operands[0]], axis)

    def index(self, op: Operation) -> None:
        """An id: of the launch, the workgroup or the work-item."""
        code, item = self.code, self.item
        axis = op.attrs.get("axis", 0)
        assert isinstance(axis, int)
        match op.name:
            case "group_size":
                name = self.frame.group_size(axis)
            case "num_groups":
                name = self.frame.num_groups(axis)
            case "group_id":
                name = self.group[1 + axis]
            case "subgroup_size":
                name = str(self.kernel.options.width)
            case "lane_id":
                name = code.add(f"urem i64 {item.linear}, {self.kernel.options.width}")
            case "subgroup_id":
                name = code.add(f"udiv i64 {item.linear}, {self.kernel.options.width}")
            case _:
                assert item.local is not None
                name = item.local[axis]
        if op.spec is ops.GLOBAL_ID:
            size = self.frame.group_size(axis)
            base = code.add(f"mul nuw nsw i64 {self.group[1 + axis]}, {size}")
            name = code.add(f"add nuw nsw i64 {base}, {name}")
        self.local[op.result] = name

    def record(self, op: Operation) -> None:
        """A `print` or a failed check."""
        args = [self.operand(v) for v in op.operands]
        self.records.emit(op, args, self.group[0], self.item.linear)


_SPECIAL = {
    **dict.fromkeys(
        (ops.LOCAL_ID, ops.GLOBAL_ID, ops.GROUP_ID, ops.GROUP_SIZE, ops.NUM_GROUPS),
        ItemEmitter.index,
    ),
    **dict.fromkeys((ops.LANE_ID, ops.SUBGROUP_ID, ops.SUBGROUP_SIZE), ItemEmitter.index),
    **dict.fromkeys(
        (ops.LOAD, ops.STORE, ops.ATOMIC_LOAD, ops.ATOMIC_STORE, ops.ATOMIC_RMW, ops.ATOMIC_CAS),
        ItemEmitter.access,
    ),
    ops.ALLOC: ItemEmitter.nothing,
    ops.BASE: ItemEmitter.base,
    ops.DIM: ItemEmitter.dim,
    ops.STRIDE: ItemEmitter.stride,
    ops.FENCE: ItemEmitter.fence,
    ops.PRINT: ItemEmitter.record,
    ops.ASSERT: ItemEmitter.record,
    ops.OUT_OF_BOUNDS: ItemEmitter.record,
}
