"""Subgroup operations: a warp's own instructions up to 32 work-items, shared memory beyond.

Subgroups are runs of consecutive work-items, x fastest, as CUDA forms warps; the member mask
of an instruction names exactly the lanes of the subgroup that exist.
"""

from __future__ import annotations

from collections.abc import Sequence

from hetir.backends.ptx.code import Operand, PtxCode, literal_operand
from hetir.backends.ptx.frame import SHARED, Frame
from hetir.backends.ptx.targets import WARP
from hetir.ir import ops
from hetir.ir.build import constant
from hetir.ir.core import Kernel, Operation, Value, walk
from hetir.ir.types import Scalar
from hetir.passes.identity import identity_bits

_RANGES = {"i32": "s32", "u32": "u32"}


class Subgroups:
    """Emits the subgroup operations of one kernel."""

    def __init__(self, code: PtxCode, frame: Frame, kernel: Kernel) -> None:
        self.code = code
        self.frame = frame
        self.width = kernel.options.width
        self._true: set[Value] = {
            op.result for op in walk(kernel.body) if op.spec is ops.CONST and constant(op) is True
        }

    # ---- lanes ----------------------------------------------------------------------

    def lane(self) -> str:
        """The work-item's lane, 32 bits."""
        return self._and(self.frame.linear(), self.width - 1)

    def number(self) -> str:
        """The subgroup's number in the workgroup, 32 bits."""
        shift = self.width.bit_length() - 1
        linear = self.frame.linear()
        return "0" if linear == "0" else self.code.add(f"lshr i32 {linear}, {shift}")

    def mask(self) -> Operand:
        """The lanes of the warp that are this subgroup's and exist."""
        code, frame, linear = self.code, self.frame, self.frame.linear()
        if self.width == WARP and frame.whole_warps:
            return literal_operand("i32", -1)
        parts: list[str] = []
        if not frame.whole_warps:
            first = self._and(linear, -WARP)
            left = code.add(f"sub nuw nsw i32 {frame.count()}, {first}")
            full = code.add(f"icmp uge i32 {left}, {WARP}")
            bits = code.add(f"shl i32 1, {self._and(left, WARP - 1)}")
            some = code.add(f"sub i32 {bits}, 1")
            parts.append(code.add(f"select i1 {full}, i32 -1, i32 {some}"))
        if self.width < WARP:
            parts.append(code.add(f"shl i32 {(1 << self.width) - 1}, {self._segment()}"))
        return "i32", parts[0] if len(parts) == 1 else code.add(f"and i32 {parts[0]}, {parts[1]}")

    def _segment(self) -> str:
        """The lane of the warp at which the subgroup begins."""
        return self._and(self.frame.linear(), WARP - self.width)

    def _and(self, value: str, mask: int) -> str:
        if value.isdigit():
            return str(int(value) & mask)
        return self.code.add(f"and i32 {value}, {mask}")

    # ---- operations -----------------------------------------------------------------

    def emit(self, op: Operation, args: Sequence[str]) -> str:
        """Emit an operation and give its result."""
        match op.name:
            case "shuffle" if self.width > WARP:
                return self._through_memory(op, args)
            case "shuffle":
                return self._shuffle(op, args)
            case "ballot":
                return self._ballot(args[0], args[1])
            case "vote":
                return self._vote(op, args)
            case _:
                return self._reduce(op, args)

    def _vote(self, op: Operation, args: Sequence[str]) -> str:
        code, mode, (value, where) = self.code, str(op.attrs["mode"]), args
        if mode == "any":
            value = code.add(f"and i1 {value}, {where}")
        else:
            value = code.add(f"or i1 {value}, {code.add(f'xor i1 {where}, true')}")
        text = (
            "{ .reg .pred p, q; setp.ne.b32 p, $1, 0; "
            f"vote.sync.{mode}.pred q, p, $2; selp.b32 $0, 1, 0, q; }}"
        )
        asked = "i32", code.add(f"zext i1 {value} to i32")
        answer = code.asm(text, (asked, self.mask()), "i32")
        return code.add(f"icmp ne i32 {answer}, 0")

    def _ballot(self, value: str, where: str) -> str:
        code = self.code
        bits = self._members(code.add(f"and i1 {value}, {where}"))
        if self.width < WARP:
            bits = self._and(code.add(f"lshr i32 {bits}, {self._segment()}"), (1 << self.width) - 1)
        return code.add(f"zext i32 {bits} to i64")

    def _members(self, flag: str) -> str:
        """The lanes of the warp for which a flag holds, among the subgroup's."""
        text = "{ .reg .pred p; setp.ne.b32 p, $1, 0; vote.sync.ballot.b32 $0, p, $2; }"
        asked = "i32", self.code.add(f"zext i1 {flag} to i32")
        return self.code.asm(text, (asked, self.mask()), "i32")

    def _reduce(self, op: Operation, args: Sequence[str]) -> str:
        code, word, kind = self.code, str(op.attrs["kind"]), op.result.type
        assert isinstance(kind, Scalar)
        value, (_, mask) = args[0], self.mask()
        if op.operands[1] not in self._true:
            empty = identity_bits(word, kind)
            value = code.add(f"select i1 {args[1]}, i32 {value}, i32 {empty}")
        form = "b32" if word in ("and", "or", "xor") else _RANGES[kind.name]
        if word == "add":
            form = "u32"
        text = f"redux.sync.{word}.{form} $0, $1, $2;"
        return code.asm(text, (("i32", value), ("i32", mask)), "i32")

    def _shuffle(self, op: Operation, args: Sequence[str]) -> str:
        code, kind = self.code, op.result.type
        assert isinstance(kind, Scalar)
        source, valid = self._source(op, args[1])
        lane = self._and(self.frame.linear(), WARP - 1)
        mask = self.mask()
        there = source if self.width == WARP else code.add(f"or i32 {source}, {self._segment()}")
        present = self._present(op, args[2], there, mask)
        if present:
            valid = code.add(f"and i1 {valid}, {present}")
        there = code.add(f"select i1 {valid}, i32 {there}, i32 {lane}")
        moved = self._move(kind, args[0], there, mask)
        zero = code.const(kind, 0)
        return code.add(f"select i1 {valid}, {code.type(kind)} {moved}, {code.type(kind)} {zero}")

    def _source(self, op: Operation, which: str) -> tuple[str, str]:
        """The lane that is read, 32 bits, and whether a subgroup has such a lane."""
        code, lane, mode = self.code, self.lane(), str(op.attrs["mode"])
        wide = self.frame.wide(lane)
        source = which
        if mode == "xor":
            source = code.add(f"xor i64 {wide}, {which}")
        elif mode != "index":
            source = code.add(f"{'sub' if mode == 'up' else 'add'} i64 {wide}, {which}")
        valid = code.add(f"icmp ult i64 {source}, {self.width}")
        return code.add(f"trunc i64 {source} to i32"), valid

    def _present(self, op: Operation, where: str, there: str, mask: Operand) -> str:
        """Whether the lane that is read exists and takes part; empty where that is known."""
        code = self.code
        if op.operands[2] not in self._true:
            bits = self._members(where)
        elif self.frame.whole_warps:
            return ""
        else:
            bits = mask[1]
        near = self._and(there, WARP - 1)
        bit = code.add(f"lshr i32 {bits}, {near}")
        return code.add(f"trunc i32 {bit} to i1")

    def _move(self, kind: Scalar, value: str, there: str, mask: Operand) -> str:
        """The value of another lane of the warp, 32 bits at a time."""
        code = self.code
        text = f"shfl.sync.idx.b32 $0, $1, $2, {WARP - 1}, $3;"
        raw, bits = code.register(kind, value)
        if raw == "i64":
            low = code.add(f"trunc i64 {bits} to i32")
            high = code.add(f"trunc i64 {code.add(f'lshr i64 {bits}, 32')} to i32")
            low, high = (
                code.asm(text, (("i32", v), ("i32", there), mask), "i32") for v in (low, high)
            )
            shifted = code.add(f"shl i64 {code.add(f'zext i32 {high} to i64')}, 32")
            whole = code.add(f"or i64 {shifted}, {code.add(f'zext i32 {low} to i64')}")
            return code.value(kind, whole)
        word = code.convert("zext", raw, bits, "i32")
        moved = code.asm(text, (("i32", word), ("i32", there), mask), "i32")
        return code.value(kind, code.convert("trunc", "i32", moved, raw))

    # ---- subgroups wider than a warp ------------------------------------------------

    def _through_memory(self, op: Operation, args: Sequence[str]) -> str:
        """A shuffle by a word and a byte of shared memory a work-item, between two barriers."""
        code, frame, kind = self.code, self.frame, op.result.type
        assert isinstance(kind, Scalar)
        linear = frame.wide(frame.linear())
        raw, bits = code.register(kind, args[0])
        code.put(
            f"store i64 {code.convert('zext', raw, bits, 'i64')}, {self._word(linear)}, align 8"
        )
        taking = code.add(f"zext i1 {args[2]} to i8")
        code.put(f"store i8 {taking}, {self._byte(linear)}, align 1")
        self.wait()
        source, valid = self._source(op, args[1])
        first = code.add(f"and i64 {linear}, {-self.width}")
        target = code.add(f"add i64 {first}, {code.add(f'zext i32 {source} to i64')}")
        exists = code.add(f"icmp ult i64 {target}, {frame.wide(frame.count())}")
        valid = code.add(f"and i1 {valid}, {exists}")
        safe = code.add(f"select i1 {valid}, i64 {target}, i64 {linear}")
        word = code.add(f"load i64, {self._word(safe)}, align 8")
        took = code.add(f"load i8, {self._byte(safe)}, align 1")
        self.wait()
        valid = code.add(f"and i1 {valid}, {code.add(f'icmp ne i8 {took}, 0')}")
        moved = code.value(kind, code.convert("trunc", "i64", word, raw))
        text = code.type(kind)
        return code.add(f"select i1 {valid}, {text} {moved}, {text} {code.const(kind, 0)}")

    def wait(self) -> None:
        """A barrier of the workgroup."""
        self.code.asm("bar.sync 0;")

    def _word(self, item: str) -> str:
        offset = self.code.add(f"shl nuw nsw i64 {item}, 3")
        return self._at(self.code.add(f"add nuw nsw i64 {offset}, {self.frame.exchange}"))

    def _byte(self, item: str) -> str:
        first = self.frame.exchange + 8 * self.frame.items
        return self._at(self.code.add(f"add nuw nsw i64 {item}, {first}"))

    def _at(self, offset: str) -> str:
        return f"ptr addrspace(3) {self.code.at('shared', SHARED, offset)}"
