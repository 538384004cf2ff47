"""LLVM IR as text: instructions, blocks and declarations of one module."""

from __future__ import annotations

from collections.abc import Iterable

from hetir.ir.types import RefType, Scalar, Type

_FLOATS = {"f32": "float", "f64": "double"}
_LETTERS = {"f32": "f32", "f64": "f64"}


def scalar_type(kind: Type) -> str:
    """The LLVM type of one value; narrow floats travel as the integer of their bits."""
    if isinstance(kind, Scalar):
        return _FLOATS.get(kind.name, f"i{kind.bits}")
    assert isinstance(kind, RefType)
    return "ptr"


def memory_type(kind: Type) -> str:
    """The LLVM type of one element in memory: `bool` takes a byte."""
    return "i8" if isinstance(kind, Scalar) and kind.kind == "bool" else scalar_type(kind)


class Code:
    """The text of one function, in which a value is a T or, with `lanes`, an `<S x T>`.

    `x86` is what an x86 processor has beyond the first of them; None on other processors.
    """

    def __init__(self, x86: frozenset[str] | None = None) -> None:
        self.x86 = x86
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self.lanes = 0
        self.block = "entry"
        self._count = 0

    def fresh(self, hint: str = "") -> str:
        """A name that nothing else has."""
        self._count += 1
        return f"{hint or 'v'}{self._count}"

    def add(self, text: str) -> str:
        """Append an instruction with a result and give the result's name."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def put(self, text: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(f"  {text}")

    def start(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        """Branch to a block."""
        self.lines.append(f"  br label %{label}")

    def branch(self, cond: str, then: str, other: str) -> None:
        """Branch to one of two blocks."""
        self.lines.append(f"  br i1 {cond}, label %{then}, label %{other}")

    def reserve(self) -> int:
        """Keep a place for lines that are known later."""
        self.lines.append("")
        return len(self.lines) - 1

    def fill(self, place: int, lines: Iterable[str]) -> None:
        """Write the lines of a reserved place."""
        self.lines[place] = "\n".join(lines)

    def type(self, kind: Type) -> str:
        """The LLVM type of a value at this width."""
        return self.of(scalar_type(kind))

    def of(self, scalar: str) -> str:
        """The LLVM type of `scalar` at this width."""
        return f"<{self.lanes} x {scalar}>" if self.lanes else scalar

    def const(self, kind: Type, bits: int) -> str:
        """A constant of `kind`, in every lane."""
        text = literal(kind, bits)
        return f"splat ({scalar_type(kind)} {text})" if self.lanes else text

    def number(self, scalar: str, value: int) -> str:
        """An integer constant of an LLVM type, in every lane."""
        return f"splat ({scalar} {value})" if self.lanes else str(value)

    def intrinsic(self, name: str, result: str, *operands: tuple[str, str], kind: str = "") -> str:
        """Call `llvm.name`, mangled by the type `kind` (the result's unless given)."""
        mangled = f"llvm.{name}.{self._mangle(kind or result)}"
        if name.endswith(".sat"):
            mangled = f"llvm.{name}.{self._mangle(result)}.{self._mangle(operands[0][0])}"
        types = ", ".join(t for t, _ in operands)
        self.declarations[mangled] = f"declare {result} @{mangled}({types})"
        return self.add(f"call {result} @{mangled}({', '.join(f'{t} {v}' for t, v in operands)})")

    def _mangle(self, text: str) -> str:
        scalar = text.removeprefix(f"<{self.lanes} x ").removesuffix(">")
        short = {"float": "f32", "double": "f64"}.get(scalar, scalar)
        return f"v{self.lanes}{short}" if text.startswith("<") else short

    def index(self, base: str, offset: str) -> str:
        """The address `offset` bytes after `base`."""
        return base if offset == "0" else self.add(f"getelementptr i8, ptr {base}, i64 {offset}")


def literal(kind: Type, bits: int) -> str:
    """A scalar constant by its bits."""
    assert isinstance(kind, Scalar)
    if kind.name not in _FLOATS:
        return str(bits)
    if kind.name == "f64":
        return f"0x{bits:016X}"
    sign, exponent, fraction = bits >> 31 << 63, bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF and fraction:
        # LLVM writes floats as doubles, which cannot say every NaN
        return f"bitcast (i32 {bits} to float)"
    if exponent == 0xFF:
        return f"0x{sign | 0x7FF << 52:016X}"
    if exponent:
        return f"0x{sign | (exponent + 896) << 52 | fraction << 29:016X}"
    return f"0x{sign | _subnormal(fraction):016X}"


def _subnormal(fraction: int) -> int:
    """The bits of the double `fraction` * 2^-149."""
    if not fraction:
        return 0
    top = fraction.bit_length() - 1
    return (top - 149 + 1023) << 52 | (fraction ^ 1 << top) << (52 - top)
