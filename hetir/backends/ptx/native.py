"""`math="native"`: the approximating instructions of f32, with the errors that PTX states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetir.backends.ptx.code import PtxCode
from hetir.ir.core import Operation

# PTX ISA, "Floating Point Instructions"; docs/ptx.md repeats the bounds
INSTRUCTIONS: Mapping[str, str] = {
    "exp2": "ex2.approx.f32",
    "log2": "lg2.approx.f32",
    "sin": "sin.approx.f32",
    "cos": "cos.approx.f32",
    "rsqrt": "rsqrt.approx.f32",
    "tanh": "tanh.approx.f32",
    "sqrt": "sqrt.approx.f32",
    "recip": "rcp.approx.f32",
    "divide": "div.full.f32",
    "exp": "ex2.approx.f32",
    "log": "lg2.approx.f32",
}
_LOG2_E, _LN_2 = "0x3FF7154760000000", "0x3FE62E4300000000"  # rounded to f32, as LLVM writes it


def native(code: PtxCode, op: Operation, args: Sequence[str]) -> str:
    """One function of a kernel that takes the device's own."""
    kind = str(op.attrs["kind"])
    given = list(args)
    if kind == "exp":
        given = [code.add(f"fmul float {args[0]}, {_LOG2_E}")]
    found = code.approximation(INSTRUCTIONS[kind], given)
    return code.add(f"fmul float {found}, {_LN_2}") if kind == "log" else found
