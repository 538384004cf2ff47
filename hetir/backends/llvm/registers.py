"""Instructions of 512-bit registers for vectors of one or several registers."""

from __future__ import annotations

from hetir.backends.llvm.code import Code

REGISTER = 512


def by_register(
    code: Code, kind: tuple[str, int], name: str, values: tuple[str, ...], rest: str
) -> str:
    """The intrinsic `llvm.x86.avx512.NAME.512` on each register's part of whole vectors.

    `kind` is the LLVM type of an element and its bits; `values` have `code.lanes` of them, a
    multiple of a register's. `rest` is what the call takes after them, as `i32 4, i16 -1`.
    """
    element, bits = kind
    lanes, count = code.lanes, REGISTER // bits
    whole, part = code.of(element), f"<{count} x {element}>"
    full = f"llvm.x86.avx512.{name}.512"
    kinds = [part] * len(values) + [operand.rpartition(" ")[0] for operand in rest.split(", ")]
    kinds[-1] += " immarg"
    code.declarations[full] = f"declare {part} @{full}({', '.join(kinds)})"
    parts: list[str] = []
    for at in range(0, lanes, count):
        mask = _mask(range(at, at + count))
        cut = [code.add(f"shufflevector {whole} {v}, {whole} poison, {mask}") for v in values]
        shown = ", ".join(f"{part} {v}" for v in cut)
        parts.append(code.add(f"call {part} @{full}({shown}, {rest})"))
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
