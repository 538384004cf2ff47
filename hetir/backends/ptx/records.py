"""Lines of `print` and failed checks: records in the launch's buffer (see hetir.records)."""

from __future__ import annotations

from collections.abc import Sequence

from hetir.backends.llvm.code import scalar_type
from hetir.backends.ptx.code import PtxCode
from hetir.backends.ptx.frame import Frame
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Value
from hetir.ir.types import Scalar
from hetir.memory.lowering import Kind, lookup
from hetir.memory.program import Order, Scope
from hetir.passes.sites import reporting, shown

HEADER_BYTES = 24
_GLOBAL = "ptr addrspace(1)"

# The buffer: u64 capacity, u64 used (may grow past the capacity), then the records.
_RESERVE = """\
define internal ptr addrspace(1) @hetir_record(ptr addrspace(1) %records, i32 %bytes, i32 %site, \
i64 %group, i64 %item) #2 {
entry:
  %none = icmp eq ptr addrspace(1) %records, null
  br i1 %none, label %drop, label %some
some:
  %capacity = load i64, ptr addrspace(1) %records, align 8
  %count = getelementptr i8, ptr addrspace(1) %records, i64 8
  %wide = zext i32 %bytes to i64
  %place = ptrtoint ptr addrspace(1) %count to i64
  %used = call i64 asm sideeffect "ADD $0, [$1], $2;", "=l,l,l,~{memory}"(i64 %place, i64 %wide) #1
  %end = add i64 %used, %wide
  %fits = icmp ule i64 %end, %capacity
  br i1 %fits, label %write, label %drop
write:
  %base = getelementptr i8, ptr addrspace(1) %records, i64 16
  %at = getelementptr i8, ptr addrspace(1) %base, i64 %used
  store i32 %bytes, ptr addrspace(1) %at, align 8
  %at.site = getelementptr i8, ptr addrspace(1) %at, i64 4
  store i32 %site, ptr addrspace(1) %at.site, align 4
  %at.group = getelementptr i8, ptr addrspace(1) %at, i64 8
  store i64 %group, ptr addrspace(1) %at.group, align 8
  %at.item = getelementptr i8, ptr addrspace(1) %at, i64 16
  store i64 %item, ptr addrspace(1) %at.item, align 8
  %operands = getelementptr i8, ptr addrspace(1) %at, i64 24
  ret ptr addrspace(1) %operands
drop:
  ret ptr addrspace(1) null
}"""


class Records:
    """Emits records; `hetir_record` gives the place of the operands, or null when full."""

    def __init__(self, code: PtxCode, frame: Frame, kernel: Kernel, target: str) -> None:
        self._code = code
        self._frame = frame
        self._target = target
        self._sites = {op: index for index, op in enumerate(reporting(kernel))}

    def text(self) -> list[str]:
        """The helper, where something reports."""
        if not self._sites:
            return []
        (step,) = lookup(self._target, Kind.RMW, Order.RELAXED, Scope.DEVICE).steps
        fields = {"{space}": "global", "{operation}": "add", "{type}": "u64"}
        text = step.text
        for field, word in fields.items():
            text = text.replace(field, word)
        return [_RESERVE.replace("ADD", text)]

    def emit(self, op: Operation, args: Sequence[str]) -> None:
        """Write a record; an `assert` only when its condition is false."""
        code, frame, after = self._code, self._frame, self._code.fresh("reported")
        values = shown(op)
        names = args[len(args) - len(values) :]
        if op.spec is ops.ASSERT:
            failed = code.fresh("failed")
            code.branch(args[0], after, failed)
            code.start(failed)
        size = HEADER_BYTES + 8 * len(values)
        place = code.add(
            f"call {_GLOBAL} @hetir_record({_GLOBAL} {frame.records()}, i32 {size}, "
            f"i32 {self._sites[op]}, i64 {frame.linear_group()}, i64 {frame.wide(frame.linear())})"
        )
        write = code.fresh("write")
        code.branch(code.add(f"icmp eq {_GLOBAL} {place}, null"), after, write)
        code.start(write)
        for index, (value, name) in enumerate(zip(values, names, strict=True)):
            address = code.at("global", place, str(8 * index))
            code.put(f"store i64 {self._word(value, name)}, {_GLOBAL} {address}, align 8")
        code.jump(after)
        code.start(after)

    def _word(self, value: Value, name: str) -> str:
        """The bits of an operand, widened with zeros."""
        code, kind = self._code, value.type
        assert isinstance(kind, Scalar)
        raw = code.convert("bitcast", scalar_type(kind), name, f"i{kind.bits}")
        return code.convert("zext", f"i{kind.bits}", raw, "i64")
