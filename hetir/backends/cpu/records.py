"""Lines of `print` and failed checks: records in the launch's buffer."""

from __future__ import annotations

from collections.abc import Sequence

from hetir.backends.cpu.frame import Frame
from hetir.backends.llvm.code import Code, scalar_type
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Value
from hetir.ir.types import Scalar
from hetir.passes.sites import reporting, shown

HEADER_BYTES = 24

# The buffer: u64 capacity, u64 used (may grow past the capacity), then the records.
_RESERVE = """\
define internal ptr @hetir.record(ptr %records, i32 %bytes, i32 %site, i64 %group, i64 %item) #1 {
entry:
  %none = icmp eq ptr %records, null
  br i1 %none, label %drop, label %some
some:
  %capacity = load i64, ptr %records, align 8
  %count = getelementptr i8, ptr %records, i64 8
  %wide = zext i32 %bytes to i64
  %used = atomicrmw add ptr %count, i64 %wide monotonic, align 8
  %end = add i64 %used, %wide
  %fits = icmp ule i64 %end, %capacity
  br i1 %fits, label %write, label %drop
write:
  %base = getelementptr i8, ptr %records, i64 16
  %at = getelementptr i8, ptr %base, i64 %used
  store i32 %bytes, ptr %at, align 8
  %at.site = getelementptr i8, ptr %at, i64 4
  store i32 %site, ptr %at.site, align 4
  %at.group = getelementptr i8, ptr %at, i64 8
  store i64 %group, ptr %at.group, align 8
  %at.item = getelementptr i8, ptr %at, i64 16
  store i64 %item, ptr %at.item, align 8
  %operands = getelementptr i8, ptr %at, i64 24
  ret ptr %operands
drop:
  ret ptr null
}"""


class Records:
    """Emits records; `hetir.record` gives the place of the operands, or null when full."""

    def __init__(self, code: Code, frame: Frame, kernel: Kernel) -> None:
        self._code = code
        self._frame = frame
        self._sites = {op: index for index, op in enumerate(reporting(kernel))}

    def text(self) -> list[str]:
        """The helper, where something reports."""
        return [_RESERVE] if self._sites else []

    def emit(self, op: Operation, args: Sequence[str], group: str, item: str) -> None:
        """Write a record; an `assert` only when its condition is false."""
        code, after = self._code, self._code.fresh("reported")
        values = shown(op)
        names = args[len(args) - len(values) :]
        if op.spec is ops.ASSERT:
            failed = code.fresh("failed")
            code.branch(args[0], after, failed)
            code.start(failed)
        size = HEADER_BYTES + 8 * len(values)
        place = code.add(
            f"call ptr @hetir.record(ptr {self._frame.records()}, i32 {size}, "
            f"i32 {self._sites[op]}, i64 {group}, i64 {item})"
        )
        write = code.fresh("write")
        code.branch(code.add(f"icmp eq ptr {place}, null"), after, write)
        code.start(write)
        for index, (value, name) in enumerate(zip(values, names, strict=True)):
            address = code.index(place, str(8 * index))
            code.put(f"store i64 {self._word(value, name)}, ptr {address}, align 8")
        code.jump(after)
        code.start(after)

    def _word(self, value: Value, name: str) -> str:
        """The bits of an operand, widened with zeros."""
        code, kind = self._code, value.type
        assert isinstance(kind, Scalar)
        text = scalar_type(kind)
        if kind.name in ("f32", "f64"):
            name = code.add(f"bitcast {text} {name} to i{kind.bits}")
        return name if kind.bits == 64 else code.add(f"zext i{kind.bits} {name} to i64")
