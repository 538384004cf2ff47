"""One kernel as an LLVM module for NVPTX: a thread runs a work-item from start to end."""

from __future__ import annotations

from hetir.artifact import Layout
from hetir.backends.llvm.rules import RULES
from hetir.backends.llvm.structure import Structured
from hetir.backends.ptx.code import PtxCode, space_of
from hetir.backends.ptx.frame import MAX_ITEMS, Frame, Workgroup
from hetir.backends.ptx.lines import Lines
from hetir.backends.ptx.memory import Memory, root_of
from hetir.backends.ptx.native import native
from hetir.backends.ptx.promises import Promises
from hetir.backends.ptx.records import Records
from hetir.backends.ptx.subgroups import Subgroups
from hetir.backends.ptx.targets import WARP
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Value
from hetir.ir.types import I32, I64, ArrayType, Scalar
from hetir.passes.regions import definitions
from hetir.passes.sites import REPORTS
from hetir.target import Assumptions, key_of

_ACCESSES = (
    *(ops.LOAD, ops.STORE, ops.ATOMIC_LOAD, ops.ATOMIC_STORE, ops.ATOMIC_RMW, ops.ATOMIC_CAS),
)
_MOST_PARTS = 6  # of an address
_SUBGROUP_OPS = (ops.SHUFFLE, ops.BALLOT, ops.VOTE, ops.SUBGROUP_REDUCE)


def entry_of(kernel: Kernel) -> str:
    """The name of the entry: PTX reserves its opcodes, and has ASCII names only."""
    raw = kernel.name.encode()
    shown = "".join(
        chr(c) if c < 128 and (chr(c).isalnum() or c == 95) else f"${c:02X}" for c in raw
    )
    return f"hetir_kernel_{shown}"


class Emitter(Structured):
    """Emits one kernel whose ops the target covers."""

    code: PtxCode

    def __init__(
        self,
        kernel: Kernel,
        layout: Layout,
        target: str,
        *,
        workgroup: Workgroup | None,
        assumptions: Assumptions,
        lines: bool = False,
    ) -> None:
        super().__init__(PtxCode())
        self.kernel = kernel
        self.promises = Promises(kernel, assumptions)
        self.frame = Frame(self.code, kernel, layout, workgroup, self.promises)
        self.memory = Memory(self.code, kernel, target)
        self.subgroups = Subgroups(self.code, self.frame, kernel)
        self.records = Records(self.code, self.frame, kernel, target)
        self.lines = Lines(kernel) if lines else None
        self._definitions = definitions(kernel.body)

    def module(self) -> str:
        """The whole LLVM module."""
        allocas = self.code.reserve()
        for param in self.kernel.params:
            if isinstance(param.value.type, Scalar):
                self.local[param.value] = self.frame.scalar(param.value)
        self.body(self.kernel.body.body)
        self.code.fill(allocas, self.frame.allocas)
        body = "\n".join(self.code.lines)
        head = f"define ptx_kernel void @{entry_of(self.kernel)}({self.frame.signature}) #0"
        if self.lines is not None:
            head += f" !dbg !{self.lines.program}"
        parts = [
            *self.frame.globals(),
            f"{head} {{\nentry:\n{body}\n}}",
            *self.records.text(),
            *sorted(self.code.declarations.values()),
            f"attributes #0 = {{ nounwind {self._bounds()} }}",
            "attributes #1 = { nounwind convergent }",
            "attributes #2 = { nounwind noinline cold convergent }",
            "attributes #3 = { nounwind willreturn memory(none) }",
            "!0 = !{}",
            *self.promises.text(),
            *(self.lines.text() if self.lines else ()),
        ]
        return "\n\n".join(parts) + "\n"

    def _bounds(self) -> str:
        """A size that is given holds exactly; else any that a launch can have must fit."""
        if self.frame.workgroup:
            return f'"nvvm.reqntid"="{",".join(map(str, self.frame.workgroup))}"'
        return f'"nvvm.maxntid"="{MAX_ITEMS}" "nvvm.minctasm"="1"'

    def leave(self, op: Operation) -> None:
        """The work-item ends."""
        self.code.put("ret void")

    def emit(self, op: Operation) -> None:
        """Emit an op without regions that is no terminator."""
        args = [self.local[v] for v in op.operands if not isinstance(v.type, ArrayType)]
        if self.lines is not None:
            self.code.suffix = self.lines.suffix(op.loc)
        result = self._emit(op, args)
        self.code.suffix = ""
        if op.results and result is not None:
            self.local[op.result] = result

    def _emit(self, op: Operation, args: list[str]) -> str | None:
        if op.spec in _ACCESSES:
            address = self._address(space_of(op), args[0], op.operands[1])
            return self.memory.access(op, address, args[2:], self._tags(op))
        if op.spec is ops.MUL and (pair := self._halves(op)):
            return self._wide_product(*pair)
        if op.spec in _SUBGROUP_OPS:
            return self.subgroups.emit(op, args)
        if op.spec in REPORTS:
            return self.records.emit(op, args)
        if op.spec is ops.FENCE:
            return self.memory.fence(op)
        if op.spec is ops.BARRIER and op.attrs["scope"] == "device":
            return self._wait_for_grid()
        if op.spec is ops.BARRIER:
            wide = op.attrs["scope"] == "workgroup" or self.frame.width > WARP
            return self.memory.barrier(None if wide else self.subgroups.mask())
        rule = native if op.spec is ops.NATIVE else RULES.get(key_of(op))
        return self._place(op) if rule is None else rule(self.code, op, args)

    def _wait_for_grid(self) -> None:
        """The workgroup comes together, one work-item meets those of the other workgroups."""
        code, frame = self.code, self.frame
        self.memory.barrier(None)
        first, after = code.fresh("first"), code.fresh("together")
        code.branch(code.add(f"icmp eq i32 {frame.linear()}, 0"), first, after)
        code.start(first)
        self.memory.arrive(frame.arrivals(), frame.total_groups())
        code.jump(after)
        code.start(after)
        self.memory.barrier(None)

    def _place(self, op: Operation) -> str | None:
        """Ids, and where arrays lie."""
        frame, axis = self.frame, op.attrs.get("axis")
        match op.name:
            case "alloc":
                return frame.private(op.result) if _is_private(op.result) else None
            case "base":
                array = op.operands[0]
                return self.local[array] if _is_private(array) else frame.base(array)
            case "dim" | "stride":
                assert isinstance(axis, int)
                found = frame.extent if op.spec is ops.DIM else frame.stride
                return found(op.operands[0], axis)
            case "lane_id":
                return frame.wide(self.subgroups.lane())
            case "subgroup_id":
                return frame.wide(self.subgroups.number())
            case "subgroup_size":
                return str(frame.width)
            case "group_id" | "global_id" | "num_groups":
                assert isinstance(axis, int)
                return getattr(frame, op.name)(axis)
            case _:
                assert isinstance(axis, int)
                return frame.wide(getattr(frame, op.name)(axis))

    def _address(self, space: str, base: str, offset: Value) -> str:
        """Sums are added to the address one by one, so that neighbours share the first ones."""
        parts: list[Value] = []
        while len(parts) < _MOST_PARTS:
            op = self._definitions.get(offset)
            if op is None or op.spec is not ops.ADD:
                break
            offset, last = op.operands
            parts.append(last)
        for part in (offset, *reversed(parts)):
            base = self.code.at(space, base, self.local[part])
        return base

    def _halves(self, op: Operation) -> list[Value] | None:
        """The 32-bit factors of a 64-bit product, where both are widened numbers."""
        if op.result.type != I64:
            return None
        makers = [self._definitions.get(v) for v in op.operands]
        if all(m is not None and m.spec is ops.CAST and m.operands[0].type == I32 for m in makers):
            return [m.operands[0] for m in makers if m is not None]
        return None

    def _wide_product(self, a: Value, b: Value) -> str:
        product = self.code.wide_product(self.local[a], self.local[b])
        if any(map(self._is_aligned_stride, (a, b))):
            self.code.assume_aligned(product)
        return product

    def _is_aligned_stride(self, value: Value) -> bool:
        """Whether this is the low half of a stride that is a multiple of 16."""
        cast = self._definitions.get(value)
        if cast is None or cast.spec is not ops.CAST:
            return False
        stride = self._definitions.get(cast.operands[0])
        if stride is None or stride.spec is not ops.STRIDE:
            return False
        axis = stride.attrs["axis"]
        assert isinstance(axis, int)
        return self.promises.stride_aligned(stride.operands[0], axis)

    def _tags(self, op: Operation) -> str:
        """What is known of the array that an access touches."""
        return self.promises.of_access(root_of(op.operands[0], self._definitions))


def _is_private(value: Value) -> bool:
    return isinstance(value.type, ArrayType) and value.type.space == "private"
