"""Instructions of 512-bit registers for vectors of one or several registers."""

from __future__ import annotations

from hetir.backends.llvm.code import Code

REGISTER = 512


def by_register(code: Code, kind: tuple[str, int], name: str, operands: tuple[str, ...]) -> str:
    """The intrinsic `llvm.x86.avx512.NAME.512` on each register's part of whole vectors.

    `kind` is the LLVM type of an element and its bits. An operand is the name of a vector of
    `code.lanes` of them, a multiple of a register's, or the text of a constant with its type.
    """
    element, bits = kind
    lanes, count = code.lanes, REGISTER // bits
    whole, part = code.of(element), f"<{count} x {element}>"
    full = f"llvm.x86.avx512.{name}.512"
    kinds = [_type(o) or part for o in operands]
    shown = ", ".join(f"{k} immarg" if k == "i32" else k for k in kinds)
    code.declarations[full] = f"declare {part} @{full}({shown})"
    parts: list[str] = []
    for at in range(0, lanes, count):
        mask = _mask(range(at, at + count))
        given = [
            o
            if _type(o)
            else f"{part} " + code.add(f"shufflevector {whole} {o}, {whole} poison, {mask}")
            for o in operands
        ]
        parts.append(code.add(f"call {part} @{full}({', '.join(given)})"))
    while len(parts) > 1:
        kind_of_part, mask = f"<{count} x {element}>", _mask(range(2 * count))
        parts = [
            code.add(f"shufflevector {kind_of_part} {x}, {kind_of_part} {y}, {mask}")
            for x, y in zip(parts[::2], parts[1::2], strict=True)
        ]
        count *= 2
    return parts[0]


def _mask(lanes: range) -> str:
    return f"<{len(lanes)} x i32> <{', '.join(f'i32 {n}' for n in lanes)}>"


def _type(operand: str) -> str:
    """The type of a constant that is written with it; nothing for a vector's name."""
    if operand.startswith("<"):
        return operand[: operand.index(">") + 1]
    return operand.partition(" ")[0] if operand.startswith("i") else ""
