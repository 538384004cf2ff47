"""Loads, stores, atomics, fences and barriers: plain ones are LLVM's, the rest the table's PTX.

`hetir.memory.lowering` says what each operation with an order becomes; nothing here chooses
an order, a scope or a fence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hetir.backends.llvm.code import memory_type
from hetir.backends.llvm.memory import element_of
from hetir.backends.ptx.code import Operand, PtxCode, pointer, space_of
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Value, walk
from hetir.ir.types import Scalar
from hetir.memory.lowering import Kind, Part, Row, Step, lookup
from hetir.memory.program import Order, Scope

_FLOATS = {16: "half", 32: "float", 64: "double"}
_ACCESSES = {
    "atomic.load": Kind.LOAD,
    "atomic.store": Kind.STORE,
    "atomic.rmw": Kind.RMW,
    "atomic.cas": Kind.CAS,
}


class Memory:
    """Emits accesses for one kernel on one target."""

    def __init__(self, code: PtxCode, kernel: Kernel, target: str) -> None:
        self.code = code
        self.target = target
        self.native_math = kernel.options.math == "native"
        self._used = {v for op in walk(kernel.body) for v in op.operands}
        self._acquires = any(_acquires(op) for op in walk(kernel.body))

    def access(self, op: Operation, address: str, values: Sequence[str], tags: str) -> str | None:
        """Emit an access; gives the result's name if there is one."""
        match op.name:
            case "load":
                return self.load(op, address, tags)
            case "store":
                return self.store(op, address, values[0], tags)
            case _ if space_of(op) == "private":
                return self._alone(op, address, values)
            case "atomic.load":
                return self._atomic_load(op, address)
            case "atomic.store":
                return self._atomic_store(op, address, values[0])
            case "atomic.rmw":
                return self._update(op, address, values[0])
            case _:
                return self._compare(op, address, values[0], values[1])

    def fence(self, op: Operation) -> None:
        """A fence, where the table has one."""
        row = lookup(self.target, Kind.FENCE, Order(str(op.attrs["order"])), _scope(op))
        self._steps(row.steps)

    def barrier(self, mask: Operand | None) -> None:
        """A barrier of the workgroup, or of the lanes that `mask` names."""
        scope = Scope.WORKGROUP if mask is None else Scope.SUBGROUP
        (step,) = lookup(self.target, Kind.BARRIER, Order.ACQ_REL, scope).steps
        if mask is None:
            self.code.asm(f"{step.text};")
        else:
            self.code.asm(f"{step.text.replace('{mask}', '$0')};", (mask,))

    def arrive(self, arrivals: str, groups: str) -> None:
        """Count this workgroup in, and wait for the others: one work-item of each does it."""
        code, place = self.code, self.code.number_of("global", arrivals)
        (add,) = lookup(self.target, Kind.RMW, Order.ACQ_REL, Scope.DEVICE).steps
        (load,) = lookup(self.target, Kind.LOAD, Order.ACQUIRE, Scope.DEVICE).steps
        fields = {"space": "global", "type": "u64", "operation": "add", "mask": ""}
        before = code.asm(
            f"{add.text.format(**fields)} $0, [$1], $2;", (place, ("i64", "1")), "i64"
        )
        # the count only grows: the barrier is passed when it reaches the next multiple
        round_ = code.add(f"udiv i64 {before}, {groups}")
        wanted = code.add(f"mul i64 {code.add(f'add i64 {round_}, 1')}, {groups}")
        again, done = code.fresh("arriving"), code.fresh("arrived")
        code.jump(again)
        code.start(again)
        seen = code.asm(f"{load.text.format(**fields)} $0, [$1];", (place,), "i64")
        code.branch(code.add(f"icmp ult i64 {seen}, {wanted}"), again, done)
        code.start(done)

    # ---- plain ----------------------------------------------------------------------

    def load(self, op: Operation, address: str, tags: str = "") -> str:
        """A plain load."""
        element, space = element_of(op), pointer(space_of(op))
        kind = memory_type(element)
        value = self.code.add(f"load {kind}, {space} {address}, align {element.bytes}{tags}")
        return self.code.add(f"icmp ne i8 {value}, 0") if element.kind == "bool" else value

    def store(self, op: Operation, address: str, value: str, tags: str = "") -> None:
        """A plain store."""
        element, space = element_of(op), pointer(space_of(op))
        raw, kind = self.code.stored(element, value), memory_type(element)
        self.code.put(f"store {kind} {raw}, {space} {address}, align {element.bytes}{tags}")

    def _alone(self, op: Operation, address: str, values: Sequence[str]) -> str | None:
        """An atomic on memory that no other work-item can see."""
        if op.name == "atomic.store":
            return self.store(op, address, values[0])
        old = self.load(op, address)
        if op.name == "atomic.rmw":
            self.store(op, address, self._combine(op, old, values[0]))
        elif op.name == "atomic.cas":
            code, kind = self.code, element_of(op)
            (raw, seen), (_, want) = (code.register(kind, v) for v in (old, values[0]))
            same = code.add(f"icmp eq {raw} {seen}, {want}")
            text = memory_type(kind)
            kept = code.add(f"select i1 {same}, {text} {values[1]}, {text} {old}")
            self.store(op, address, kept)
        return old

    # ---- by the table ---------------------------------------------------------------

    def _row(self, op: Operation, kind: Kind) -> Row:
        return lookup(self.target, kind, Order(str(op.attrs["order"])), _scope(op))

    def _before(self, steps: Sequence[Step]) -> Step:
        """Emit the fences that come before an access and give the access."""
        self._steps(steps[:-1])
        assert steps[-1].part is Part.ACCESS
        return steps[-1]

    def _steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            assert step.part is Part.FENCE
            self.code.asm(f"{step.text};")

    def _text(self, op: Operation, step: Step, kind: str, operation: str = "") -> str:
        text = step.text.replace("{space}", space_of(op)).replace("{type}", kind)
        return text.replace("{operation}", operation)

    def _atomic_load(self, op: Operation, address: str) -> str:
        step, kind = self._before(self._row(op, Kind.LOAD).steps), element_of(op)
        text = self._text(op, step, f"b{kind.bits}")
        place = self.code.number_of(space_of(op), address)
        register = self.code.asm(f"{text} $0, [$1];", (place,), f"i{max(16, kind.bits)}")
        return self.code.value(kind, register)

    def _atomic_store(self, op: Operation, address: str, value: str) -> None:
        step, kind = self._before(self._row(op, Kind.STORE).steps), element_of(op)
        text = self._text(op, step, f"b{kind.bits}")
        place = self.code.number_of(space_of(op), address)
        self.code.asm(f"{text} [$0], $1;", (place, self.code.register(kind, value)))

    def _update(self, op: Operation, address: str, value: str) -> str:
        kind = element_of(op)
        native = self._native(op)
        if native is None:
            return self._loop(op, address, lambda old: self._combine(op, old, value))
        operation, form, negates = native
        if negates:
            value = self._negated(kind, value)
        place = self.code.number_of(space_of(op), address)
        operands = (place, self.code.register(kind, value))
        row = self._row(op, Kind.RMW if op.result in self._used else Kind.REDUCTION)
        if (
            row.kind is Kind.REDUCTION
            and row.unfenced
            and not self._acquires
            and operation != "exch"
        ):
            step = self._before(row.unfenced)
            self.code.asm(f"{self._text(op, step, form, operation)} [$0], $1;", operands)
            return "poison"
        step = self._before(row.steps)
        text = self._text(op, step, form, operation)
        register = self.code.asm(f"{text} $0, [$1], $2;", operands, f"i{kind.bits}")
        return self.code.value(kind, register)

    def _native(self, op: Operation) -> tuple[str, str, bool] | None:
        """PTX's operation and type, and whether the operand is negated first."""
        word, kind = str(op.attrs["kind"]), element_of(op)
        if word in ("add", "sub") and kind.is_float:
            # PTX ISA, atom: f32 sums in global memory flush subnormals
            if kind.name == "f32" and space_of(op) == "global" and not self.native_math:
                return None
            rounding = "add.noftz" if kind.bits == 16 else "add"
            return rounding, kind.name, word == "sub"
        if kind.bits < 32:
            return None
        if word == "exchange":
            return "exch", f"b{kind.bits}", False
        if word in ("add", "sub"):
            return "add", f"u{kind.bits}", word == "sub"
        letter = "b" if word in ("and", "or", "xor") else "s" if kind.signed else "u"
        return word, f"{letter}{kind.bits}", False

    def _negated(self, kind: Scalar, value: str) -> str:
        if kind.is_float and kind.bits == 16:
            return self.code.add(f"xor i16 {value}, -32768")
        if kind.is_float:
            return self.code.add(f"fneg {memory_type(kind)} {value}")
        return self.code.add(f"sub i{kind.bits} 0, {value}")

    # ---- loops of compare-and-swap --------------------------------------------------

    def _loop(self, op: Operation, address: str, make: Callable[[str], str]) -> str:
        """Replace the element by `make(old)` until nobody came between; compares bits."""
        code, kind = self.code, element_of(op)
        raw = f"i{kind.bits}"
        place = code.number_of(space_of(op), address)
        first = self._first(op, place, kind.bits)
        head, done = code.fresh("retry"), code.fresh("swapped")
        before = code.block
        code.jump(head)
        code.start(head)
        phi, seen = code.reserve(), "%" + code.fresh("seen")
        new = make(code.convert("bitcast", raw, seen, memory_type(kind)))
        bits = code.convert("bitcast", memory_type(kind), new, raw)
        found = self._swap(op, place, seen, bits)
        same = code.add(f"icmp eq {raw} {found}, {seen}")
        code.fill(phi, [f"  {seen} = phi {raw} [ {first}, %{before} ], [ {found}, %{code.block} ]"])
        code.branch(same, done, head)
        code.start(done)
        return code.convert("bitcast", raw, found, memory_type(kind))

    def _first(self, op: Operation, place: Operand, bits: int) -> str:
        """A relaxed load: the guess that the first compare-and-swap checks."""
        (step,) = lookup(self.target, Kind.LOAD, Order.RELAXED, _scope(op)).steps
        register = f"i{max(16, bits)}"
        loaded = self.code.asm(f"{self._text(op, step, f'b{bits}')} $0, [$1];", (place,), register)
        return self.code.convert("trunc", register, loaded, f"i{bits}")

    def _compare(self, op: Operation, address: str, expected: str, desired: str) -> str:
        code, kind = self.code, element_of(op)
        place = code.number_of(space_of(op), address)
        text, raw = memory_type(kind), f"i{kind.bits}"
        want, new = (code.convert("bitcast", text, v, raw) for v in (expected, desired))
        return code.convert("bitcast", raw, self._swap(op, place, want, new), text)

    def _swap(self, op: Operation, place: Operand, want: str, new: str) -> str:
        """One compare-and-swap of the element's bits; what was there."""
        bits = element_of(op).bits
        if bits == 8:
            return self._swap_byte(op, place, want, new)
        step = self._before(self._row(op, Kind.CAS).steps)
        return self._cas(op, step, place, bits, want, new)

    def _cas(
        self, op: Operation, step: Step, place: Operand, bits: int, want: str, new: str
    ) -> str:
        text = self._text(op, step, f"b{bits}")
        operands = (place, (f"i{bits}", want), (f"i{bits}", new))
        return self.code.asm(f"{text} $0, [$1], $2, $3;", operands, f"i{bits}")

    def _swap_byte(self, op: Operation, place: Operand, want: str, new: str) -> str:
        """PTX has no compare-and-swap of a byte: the word around it, until the byte decides."""
        code = self.code
        step = self._before(self._row(op, Kind.CAS).steps)
        aligned = "i64", code.add(f"and i64 {place[1]}, -4")
        low = code.add(f"trunc i64 {place[1]} to i32")
        shift = code.add(f"shl i32 {code.add(f'and i32 {low}, 3')}, 3")
        mask = code.add(f"xor i32 {code.add(f'shl i32 255, {shift}')}, -1")
        desired = code.add(f"shl i32 {code.add(f'zext i8 {new} to i32')}, {shift}")
        expected = code.add(f"shl i32 {code.add(f'zext i8 {want} to i32')}, {shift}")
        first = self._first(op, aligned, 32)
        head, done = code.fresh("word"), code.fresh("byte")
        before = code.block
        code.jump(head)
        code.start(head)
        seen, word = "%" + code.fresh("seen"), code.reserve()
        rest = code.add(f"and i32 {seen}, {mask}")
        wanted, made = code.add(f"or i32 {rest}, {expected}"), code.add(f"or i32 {rest}, {desired}")
        found = self._cas(op, step, aligned, 32, wanted, made)
        swapped = code.add(f"icmp eq i32 {found}, {wanted}")
        byte = code.add(f"trunc i32 {code.add(f'lshr i32 {found}, {shift}')} to i8")
        differs = code.add(f"icmp ne i8 {byte}, {want}")
        code.fill(word, [f"  {seen} = phi i32 [ {first}, %{before} ], [ {found}, %{code.block} ]"])
        code.branch(code.add(f"or i1 {swapped}, {differs}"), done, head)
        code.start(done)
        return byte

    def _combine(self, op: Operation, old: str, value: str) -> str:
        """What a read-modify-write leaves, of an element as it lies in memory."""
        code, word, kind = self.code, str(op.attrs["kind"]), element_of(op)
        text = memory_type(kind)
        if word == "exchange":
            return value
        if kind.is_float:
            real = "bfloat" if kind.name == "bf16" else _FLOATS[kind.bits]
            a, b = (code.convert("bitcast", text, v, real) for v in (old, value))
            return code.convert("bitcast", real, code.add(f"f{word} {real} {a}, {b}"), text)
        if word in ("min", "max"):
            name = f"{'s' if kind.signed else 'u'}{word}"
            return code.intrinsic(name, text, (text, old), (text, value))
        return code.add(f"{word} {text} {old}, {value}")


def _scope(op: Operation) -> Scope:
    return Scope(str(op.attrs["scope"]))


def _acquires(op: Operation) -> bool:
    """Whether an op emits a fence that acquires: `red` must not stand before one."""
    if op.spec is ops.FENCE:
        return Order(str(op.attrs["order"])).acquires
    return op.name in _ACCESSES and op.attrs["order"] == "seq_cst"


def synchronises(kernel: Kernel) -> bool:
    """Whether a kernel waits for, or orders memory towards, other work-items."""
    return any(
        op.spec in (ops.FENCE, ops.BARRIER)
        or (op.name in _ACCESSES and op.attrs["order"] != "relaxed")
        for op in walk(kernel.body)
    )


def root_of(value: Value, definitions: dict[Value, Operation]) -> Value | None:
    """The array whose `base` a reference is, or None where it may be of several."""
    op = definitions.get(value)
    return op.operands[0] if op is not None and op.spec is ops.BASE else None
