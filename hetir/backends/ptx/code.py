"""LLVM IR for NVPTX as text: pointers by space, and inline PTX for what waits or synchronises."""

from __future__ import annotations

from collections.abc import Sequence

from hetir.backends.llvm.code import Code, memory_type
from hetir.ir.core import Operation
from hetir.ir.types import RefType, Scalar, Type

SPACES = {"global": 1, "constant": 1, "shared": 3, "private": 0}
_CONSTRAINTS = {"i16": "h", "i32": "r", "i64": "l", "float": "f", "double": "d"}

Operand = tuple[str, str]
"""The LLVM type of a value and its name."""


def pointer(space: str) -> str:
    """The LLVM type of an address in a space of hetIR."""
    number = SPACES[space]
    return f"ptr addrspace({number})" if number else "ptr"


def literal_operand(type_: str, value: int) -> Operand:
    """A constant as an operand of inline PTX."""
    return type_, str(value)


class PtxCode(Code):
    """The text of one kernel; `suffix` says where the present op stands in the source."""

    suffix = ""

    def add(self, text: str) -> str:
        """Append an instruction with a result and give the result's name."""
        return super().add(text + self.suffix)

    def put(self, text: str) -> None:
        """Append an instruction without a result."""
        super().put(text + self.suffix)

    def type(self, kind: Type) -> str:
        """The LLVM type of a value."""
        return pointer(kind.space) if isinstance(kind, RefType) else super().type(kind)

    def at(self, space: str, base: str, offset: str) -> str:
        """The address `offset` bytes after `base`."""
        if offset == "0":
            return base
        return self.add(f"getelementptr i8, {pointer(space)} {base}, i64 {offset}")

    def asm(self, text: str, operands: Sequence[Operand] = (), result: str = "") -> str:
        """Inline PTX that nothing moves, merges or duplicates; `$0` is the result, if any."""
        ins = [_CONSTRAINTS[kind] for kind, _ in operands]
        outs = [f"={_CONSTRAINTS[result]}"] if result else []
        constraints = ",".join([*outs, *ins, "~{memory}"])
        shown = ", ".join(f"{kind} {value}" for kind, value in operands)
        call = f'call {result or "void"} asm sideeffect "{text}", "{constraints}"({shown}) #1'
        if result:
            return self.add(call)
        self.put(call)
        return ""

    def assume_aligned(self, number: str) -> None:
        """Let LLVM rely on a number of 64 bits being a multiple of 16."""
        low = self.add(f"icmp eq i64 {self.add(f'and i64 {number}, 15')}, 0")
        self.declarations["llvm.assume"] = "declare void @llvm.assume(i1)"
        self.put(f"call void @llvm.assume(i1 {low})")

    def wide_product(self, a: str, b: str) -> str:
        """The 64-bit product of two signed 32-bit numbers.

        LLVM sees no such product where it knows one factor's sign and not the other's.
        """
        text = '"mul.wide.s32 $0, $1, $2;", "=l,r,r"'
        return self.add(f"call i64 asm {text}(i32 {a}, i32 {b}) #3")

    def approximation(self, instruction: str, operands: Sequence[str]) -> str:
        """An f32 instruction that LLVM must not take for the exact function."""
        places = ", ".join(f"${n}" for n in range(1 + len(operands)))
        constraints = ",".join(["=f", *("f" for _ in operands)])
        shown = ", ".join(f"float {v}" for v in operands)
        return self.add(f'call float asm "{instruction} {places};", "{constraints}"({shown}) #3')

    def number_of(self, space: str, address: str) -> Operand:
        """An address as the 64-bit register that inline PTX takes."""
        return "i64", self.add(f"ptrtoint {pointer(space)} {address} to i64")

    def convert(self, mnemonic: str, source: str, value: str, to: str) -> str:
        """One conversion instruction, unless the types are the same."""
        return value if source == to else self.add(f"{mnemonic} {source} {value} to {to}")

    def register(self, kind: Scalar, value: str) -> Operand:
        """The bits of a value as an integer register of at least 16 bits."""
        raw = self.convert(
            "bitcast", memory_type(kind), self.stored(kind, value), f"i{8 * kind.bytes}"
        )
        wide = f"i{max(16, 8 * kind.bytes)}"
        return wide, self.convert("zext", f"i{8 * kind.bytes}", raw, wide)

    def value(self, kind: Scalar, register: str) -> str:
        """The value whose bits an integer register of at least 16 bits holds."""
        raw = f"i{8 * kind.bytes}"
        bits = self.convert("trunc", f"i{max(16, 8 * kind.bytes)}", register, raw)
        if kind.kind == "bool":
            return self.add(f"icmp ne i8 {bits}, 0")
        return self.convert("bitcast", raw, bits, memory_type(kind))

    def stored(self, kind: Scalar, value: str) -> str:
        """A value as it lies in memory."""
        return self.add(f"zext i1 {value} to i8") if kind.kind == "bool" else value


def space_of(op: Operation) -> str:
    """The space that an access touches."""
    kind = op.operands[0].type
    assert isinstance(kind, RefType)
    return kind.space
