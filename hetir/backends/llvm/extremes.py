"""`min` and `max` of floats: a NaN is the result where there is one, and -0 < +0.

x86's own instructions give the second operand for a NaN and for two zeros. Taken both ways
round, the two results together have the NaN and both zeros, and are equal otherwise: a bitwise
`or` is the minimum, and the maximum but for the sign of zeros, which takes an `and`.
"""

from __future__ import annotations

from hetir.backends.llvm.code import Code
from hetir.backends.llvm.registers import REGISTER, by_register

_BITS = {"float": 32, "double": 64}
_MAJORITY = 0xE8  # of three bits


def extreme(code: Code, name: str, scalar: str, a: str, b: str) -> str:
    """`minimum` or `maximum` of two values of an LLVM float type, at the code's width."""
    wide = code.of(scalar)
    if code.x86 is None or not code.lanes:
        return code.intrinsic(name, wide, (wide, a), (wide, b))
    words = code.of(f"i{_BITS[scalar]}")
    predicate = "olt" if name == "minimum" else "ogt"
    first, second = (
        code.add(f"bitcast {wide} {_chosen(code, predicate, wide, *pair)} to {words}")
        for pair in ((a, b), (b, a))
    )
    if name == "minimum":
        both = code.add(f"or {words} {first}, {second}")
    elif "avx512f" in code.x86 and code.lanes * _BITS[scalar] % REGISTER == 0:
        both = _majority(code, _BITS[scalar], first, second)
    else:
        nan = code.add(f"fcmp uno {wide} {a}, {b}")
        ones = code.add(f"sext {code.of('i1')} {nan} to {words}")
        common = code.add(f"and {words} {first}, {second}")
        both = code.add(f"or {words} {common}, {ones}")
    return code.add(f"bitcast {words} {both} to {wide}")


def _chosen(code: Code, predicate: str, wide: str, a: str, b: str) -> str:
    """What the instruction gives: `b` unless the comparison holds."""
    first = code.add(f"fcmp {predicate} {wide} {a}, {b}")
    return code.add(f"select {code.of('i1')} {first}, {wide} {a}, {wide} {b}")


def _majority(code: Code, bits: int, a: str, b: str) -> str:
    """`a & b` in the sign and `a | b` elsewhere: one instruction a register."""
    words = f"i{bits}"
    rest = f"splat ({words} {(1 << (bits - 1)) - 1})"
    name = f"pternlog.{'d' if bits == 32 else 'q'}"
    return by_register(code, (words, bits), name, (a, b, rest, f"i32 {_MAJORITY}"))
