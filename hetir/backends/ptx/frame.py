"""What a work-item finds when it begins: arguments, ids, lanes, shared memory."""

from __future__ import annotations

from math import prod

from hetir.artifact import Layout
from hetir.backends.llvm.code import memory_type
from hetir.backends.ptx.code import PtxCode, pointer
from hetir.backends.ptx.promises import Promises
from hetir.backends.ptx.targets import WARP
from hetir.diagnostics import CompileError
from hetir.ir import ops
from hetir.ir.core import Kernel, Operation, Value, walk
from hetir.ir.types import ArrayType, Scalar, Type

Workgroup = tuple[int, int, int]

SHARED = "@hetir_shared"
SHARED_ALIGNMENT = 16
STATIC_SHARED_BYTES = 48 * 1024
MAX_ITEMS = 1024
# PTX ISA, "Kernel Function Parameters": bytes from PTX 8.1, and what drivers took before
MAX_PARAMETER_BYTES = 32764
SMALL_PARAMETER_BYTES = 4096
# the second parameter: i64 groups[3], first group[3], first item[3], u64 records, arrivals
LAUNCH_BYTES = 88
_FIRST_GROUP, _FIRST_ITEM, _RECORDS, _ARRIVALS = 24, 48, 72, 80
_AXES = "xyz"


class ParameterBytesError(CompileError):
    """The arguments of a kernel take more room than a launch passes.

    Cause: hundreds of arrays or scalars. Fix: put scalars in an array, or split the kernel.
    """

    code = "HET372"


def parameter_bytes(layout: Layout) -> int:
    """Bytes of both parameters. Raises ParameterBytesError."""
    size = layout.size + LAUNCH_BYTES
    if size > MAX_PARAMETER_BYTES:
        raise ParameterBytesError(
            f"the arguments take {layout.size} bytes, a launch passes "
            f"{MAX_PARAMETER_BYTES - LAUNCH_BYTES}",
            hint="put scalars in an array, or split the kernel",
        )
    return size


class Frame:
    """Emits what depends on the launch and on the work-item's place in it."""

    def __init__(
        self,
        code: PtxCode,
        kernel: Kernel,
        layout: Layout,
        workgroup: Workgroup | None,
        promises: Promises,
    ) -> None:
        self.code = code
        self.kernel = kernel
        self.workgroup = workgroup
        self.width = kernel.options.width
        self._small = promises.index_bits == 32
        self._promises = promises
        self._slots = {p.value: s for p, s in zip(kernel.params, layout.slots, strict=True)}
        self._size = layout.size
        self._places, self.shared_bytes = self._shared()
        self.allocas: list[str] = []

    # ---- the function's head --------------------------------------------------------

    @property
    def signature(self) -> str:
        """The two by-value parameters: the argument block, where there is one, and the launch."""
        launch = f"ptr byval([{LAUNCH_BYTES} x i8]) align 8 %launch"
        return f"ptr byval([{self._size} x i8]) align 16 %args, {launch}" if self._size else launch

    def globals(self) -> list[str]:
        """The declaration of shared memory: past what is static, the launch gives it."""
        if not self.shared_bytes:
            return []
        space = f"addrspace(3) global [{self.shared_bytes} x i8]"
        if self.shared_bytes > STATIC_SHARED_BYTES:
            return [f"{SHARED} = external addrspace(3) global [0 x i8], align {SHARED_ALIGNMENT}"]
        return [f"{SHARED} = internal {space} undef, align {SHARED_ALIGNMENT}"]

    @property
    def items(self) -> int:
        """Work-items a workgroup, or the most there can be."""
        return prod(self.workgroup) if self.workgroup else MAX_ITEMS

    @property
    def whole_warps(self) -> bool:
        """Whether it is known that no warp has missing lanes."""
        return self.workgroup is not None and self.items % WARP == 0

    # ---- arguments ------------------------------------------------------------------

    def scalar(self, param: Value) -> str:
        """A scalar parameter."""
        kind = param.type
        assert isinstance(kind, Scalar)
        value = self._argument(self._slots[param].offset, memory_type(kind), kind.bytes)
        return self.code.add(f"icmp ne i8 {value}, 0") if kind.kind == "bool" else value

    def base(self, array: Value) -> str:
        """The address of an array's first element."""
        assert isinstance(array.type, ArrayType)
        if array in self._slots:
            tag, kind = self._promises.of_base(array), pointer(array.type.space)
            return self._argument(self._slots[array].offset, kind, 8, tag)
        place = self._places[array]
        return self.code.at("shared", SHARED, str(place))

    def extent(self, array: Value, axis: int) -> str:
        """The extent of an axis of an array parameter."""
        offset = self._slots[array].offset + 8 + 8 * axis
        if self._small:
            return self.wide(self._argument(offset, "i32", 8))
        return self._argument(offset, "i64", 8)

    def stride(self, array: Value, axis: int) -> str:
        """The stride in bytes of an axis of an array parameter."""
        slot = self._slots[array]
        assert slot.ndim is not None
        offset = slot.offset + 8 + 8 * (slot.ndim + axis)
        if self._small:
            found = self.code.add(f"sext i32 {self._argument(offset, 'i32', 8)} to i64")
        else:
            found = self._argument(offset, "i64", 8)
        if self._promises.stride_aligned(array, axis):
            self.code.assume_aligned(found)
        return found

    def records(self) -> str:
        """The address of the record buffer, 0 where nobody listens."""
        return self._launch(_RECORDS, pointer("global"))

    def arrivals(self) -> str:
        """The address of the word in which a grid barrier counts; 0 before the first one."""
        return self._launch(_ARRIVALS, pointer("global"))

    def _argument(self, offset: int, kind: str, align: int, tag: str = "") -> str:
        return self._load("%args", offset, kind, align, tag)

    def _launch(self, offset: int, kind: str = "i64") -> str:
        return self._load("%launch", offset, kind, 8)

    def _load(self, block: str, offset: int, kind: str, align: int, tag: str = "") -> str:
        address = self.code.at("private", block, str(offset))
        return self.code.add(f"load {kind}, ptr {address}, align {align}, !invariant.load !0{tag}")

    # ---- ids ------------------------------------------------------------------------

    def special(self, name: str, axis: int) -> str:
        """A special register of 32 bits: `tid`, `ntid` or `ctaid`."""
        function = f"llvm.nvvm.read.ptx.sreg.{name}.{_AXES[axis]}"
        self.code.declarations[function] = f"declare i32 @{function}()"
        return self.code.add(f"call i32 @{function}()")

    def local_id(self, axis: int) -> str:
        """The work-item's place in its workgroup, 32 bits."""
        if self.workgroup and self.workgroup[axis] == 1:
            return "0"
        return self.special("tid", axis)

    def group_size(self, axis: int) -> str:
        """Work-items a workgroup along an axis, 32 bits."""
        return str(self.workgroup[axis]) if self.workgroup else self.special("ntid", axis)

    def num_groups(self, axis: int) -> str:
        """Workgroups in the grid, which may be more than one launch takes."""
        if self._small:
            return self.wide(self._launch(8 * axis, "i32"))
        return self._launch(8 * axis)

    def group_id(self, axis: int) -> str:
        """The workgroup's place in the grid: a grid that is too large runs as several launches."""
        here = self.wide(self.special("ctaid", axis))
        if self._small:  # one launch
            return here
        first = self._launch(_FIRST_GROUP + 8 * axis)
        return self.code.add(f"add nuw nsw i64 {first}, {here}")

    def global_id(self, axis: int) -> str:
        """group_id * group_size + local_id."""
        if self._small:
            start = f"mul nuw nsw i32 {self.special('ctaid', axis)}, {self.group_size(axis)}"
            sum_ = f"add nuw nsw i32 {self.code.add(start)}, {self.local_id(axis)}"
            return self.wide(self.code.add(sum_))
        group, size = self.wide(self.special("ctaid", axis)), self.wide(self.group_size(axis))
        start = self.code.add(f"mul nuw nsw i64 {group}, {size}")
        here = self.code.add(f"add nuw nsw i64 {start}, {self.wide(self.local_id(axis))}")
        # what came before this launch is a number of the host's: no product of 64 bits
        first = self._launch(_FIRST_ITEM + 8 * axis)
        return self.code.add(f"add nuw nsw i64 {first}, {here}")

    def wide(self, value: str) -> str:
        """A number of 32 bits that is not negative, as 64."""
        return value if value.isdigit() else self.code.add(f"zext nneg i32 {value} to i64")

    def linear_group(self) -> str:
        """The workgroup's number, x fastest."""
        code = self.code
        x, y, z = map(self.group_id, range(3))
        plane = code.add(f"mul nuw nsw i64 {z}, {self.num_groups(1)}")
        row = code.add(f"add nuw nsw i64 {plane}, {y}")
        first = code.add(f"mul nuw nsw i64 {row}, {self.num_groups(0)}")
        return code.add(f"add nuw nsw i64 {first}, {x}")

    def total_groups(self) -> str:
        """Workgroups in the grid."""
        code = self.code
        plane = code.add(f"mul nuw nsw i64 {self.num_groups(0)}, {self.num_groups(1)}")
        return code.add(f"mul nuw nsw i64 {plane}, {self.num_groups(2)}")

    def linear(self) -> str:
        """The work-item's number in its workgroup, x fastest, 32 bits."""
        code, number = self.code, self.local_id(2)
        for axis in (1, 0):
            if self.workgroup and self.workgroup[axis] == 1:
                continue
            below, own = self.group_size(axis), self.local_id(axis)
            if number == "0":
                number = own
                continue
            row = code.add(f"mul nuw nsw i32 {number}, {below}")
            number = code.add(f"add nuw nsw i32 {row}, {own}")
        return number

    def count(self) -> str:
        """Work-items in the workgroup, 32 bits."""
        if self.workgroup:
            return str(self.items)
        code = self.code
        plane = code.add(f"mul nuw nsw i32 {self.group_size(0)}, {self.group_size(1)}")
        return code.add(f"mul nuw nsw i32 {plane}, {self.group_size(2)}")

    # ---- memory of the workgroup and of the work-item -------------------------------

    def _shared(self) -> tuple[dict[Value, int], int]:
        """Where each shared array lies, and the bytes in all; exchanges come last."""
        places: dict[Value, int] = {}
        end = 0
        for op in walk(self.kernel.body):
            if op.spec is ops.ALLOC and _space(op) == "shared":
                start = -(-end // SHARED_ALIGNMENT) * SHARED_ALIGNMENT
                places[op.result], end = start, start + array_bytes(op.result.type)
        self.exchange = -(-end // SHARED_ALIGNMENT) * SHARED_ALIGNMENT
        if self.width > WARP and any(op.spec is ops.SHUFFLE for op in walk(self.kernel.body)):
            end = self.exchange + 9 * self.items
        # atomics on bytes work on the word
        return places, -(-end // 4) * 4

    def private(self, array: Value) -> str:
        """A private array, in the work-item's local memory."""
        name = "%" + self.code.fresh("private")
        self.allocas.append(f"  {name} = alloca [{array_bytes(array.type)} x i8], align 16")
        return name


def _space(op: Operation) -> str:
    kind = op.attrs["type"]
    assert isinstance(kind, ArrayType)
    return kind.space


def array_bytes(kind: Type) -> int:
    """Bytes of a shared or private array."""
    assert isinstance(kind, ArrayType)
    return prod(kind.shape or ()) * kind.element.bytes
