"""Ops that AVX-512 does in another way with the same bits: which they are, and how."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from hetir.backends.cpu.functions import Shortcut
from hetir.backends.cpu.logarithms import Logarithm
from hetir.backends.cpu.powers import Power
from hetir.backends.llvm.code import Code
from hetir.backends.llvm.registers import by_register
from hetir.ir import ops
from hetir.ir.core import Operation, Region, Value, walk
from hetir.ir.types import F32

_FLOAT = ("float", 32)
_ALL = "i16 -1"
_ROUNDING = "i32 4"  # as the processor is set
_FOUR_THIRDS = "splat (float 0x3FF5555540000000)"  # the largest significand: just below 4/3
# what an argument of each class gives, from the last four bits on: NaN twice, 0, 1 (what was
# computed), -infinity, infinity, below 0 (NaN) and above (what was computed)
_SPECIAL = 0x03530422


def shortcuts(body: Region, definitions: Mapping[Value, Operation]) -> dict[Operation, Shortcut]:
    """The ops of a kernel that have a shortcut with the same bits."""
    found: dict[Operation, Shortcut] = {}
    users: dict[Value, set[Operation]] = defaultdict(set)
    every = list(walk(body))
    for op in every:
        for value in op.operands:
            users[value].add(op)
    for op in every:
        if op.spec is ops.MUL and op.result.type == F32:
            found.update(Power(definitions).ending(op))
        elif op.spec is ops.SELECT and op.result.type == F32:
            found.update(Logarithm(definitions).ending(op, users))
    return found


def _scale(code: Code, y: str, k: str) -> str:
    """y * 2**k, for a k that is integral or NaN."""
    return by_register(code, _FLOAT, "mask.scalef.ps", (y, k, y, _ALL, _ROUNDING))


def _fuse(code: Code, k: str, b: str, c: str) -> str:
    """c - k * b, rounded once."""
    kind = code.of("float")
    negated = code.add(f"fneg {kind} {k}")
    return code.intrinsic("fma", kind, (kind, negated), (kind, b), (kind, c))


def _significand(code: Code, x: str) -> str:
    """m from 2/3 to 4/3 with x = 2**k * m, of x above 0."""
    kind = code.of("float")
    one, large = _to_two(code, x)
    half = code.add(f"fmul {kind} {one}, splat (float 0.5)")
    return code.add(f"select {code.of('i1')} {large}, {kind} {half}, {kind} {one}")


def _exponent(code: Code, x: str) -> str:
    """That k, as a float."""
    kind = code.of("float")
    low = by_register(code, _FLOAT, "mask.getexp.ps", (x, x, _ALL, _ROUNDING))
    _, large = _to_two(code, x)
    high = code.add(f"fadd {kind} {low}, splat (float 1.0)")
    return code.add(f"select {code.of('i1')} {large}, {kind} {high}, {kind} {low}")


def _to_two(code: Code, x: str) -> tuple[str, str]:
    """The significand from 1 to 2, and whether it is above 4/3."""
    one = by_register(code, _FLOAT, "mask.getmant.ps", (x, "i32 0", x, _ALL, _ROUNDING))
    return one, code.add(f"fcmp ogt {code.of('float')} {one}, {_FOUR_THIRDS}")


def _special(code: Code, y: str, x: str) -> str:
    """y, or what a logarithm is at 0, below 0, at infinity and NaN."""
    table = f"<16 x i32> splat (i32 {_SPECIAL})"
    return by_register(code, _FLOAT, "mask.fixupimm.ps", (y, x, table, "i32 0", _ALL, _ROUNDING))


EMIT: Mapping[str, Callable[..., str]] = {
    "scale": _scale,
    "fuse": _fuse,
    "significand": _significand,
    "exponent": _exponent,
    "special": _special,
}
"""What writes each kind of shortcut, given the code and f32 vectors."""
