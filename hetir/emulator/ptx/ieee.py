"""Exactly rounded operations on lanes of one floating-point type, and what PTX adds to them.

Subnormals are kept unless `.ftz` is there. A NaN that an instruction makes is the canonical one:
0x7fffffff for f32, 0x7fff for f16 and bf16 (PTX ISA, "Floating Point Instructions").
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from hetir.emulator.ptx import exact
from hetir.emulator.ptx.rounding import (
    FORMATS,
    fma32,
    fma64,
    odd_quotient,
    odd_root,
    odd_sum,
    round_to,
)
from hetir.emulator.ptx.types import TYPES, UNSIGNED, Lanes

Op = Callable[..., Lanes]
"""An operation on as many operands as its instruction has."""

CANONICAL = {"f32": 0x7FFFFFFF, "f16": 0x7FFF, "bf16": 0x7FFF}


def canonical(value: Lanes, name: str) -> Lanes:
    """NaNs replaced by the one that arithmetic makes; f64 keeps what IEEE 754 gives."""
    bits = CANONICAL.get(name)
    nans = value != value
    if bits is None or not np.any(nans):
        return value
    raw = UNSIGNED[TYPES[name].bits]
    return np.where(nans, raw.type(bits), value.view(raw)).view(value.dtype)


def flush(value: Lanes, name: str) -> Lanes:
    """Subnormals replaced by zeros of their sign."""
    small = np.abs(value) < value.dtype.type(2.0 ** FORMATS[name].emin)
    return np.where(small, np.copysign(value.dtype.type(0), value), value)


def clamp01(value: Lanes) -> Lanes:
    """`.sat`: clamped to [0, 1], NaN gives +0."""
    one = value.dtype.type(1)
    return np.where(value > 0, np.minimum(value, one), value.dtype.type(0))


def arithmetic(name: str, op: str, mode: str) -> Op:
    """An exactly rounded operation on scalars of a type: add sub mul div fma sqrt."""
    if name == "f64":
        return _double(op, mode)
    if name == "f32" and mode == "rn":
        return fma32 if op == "fma" else _NATIVE[op]
    wide, dtype = _WIDE[op], TYPES[name].dtype

    def rounded(*operands: Lanes) -> Lanes:
        value = wide(*(x.astype(np.float64) for x in operands))
        if mode == "rn" and name in {"f32", "f16"}:
            return value.astype(dtype)
        out = round_to(value, name, mode)
        return _exact_zero(out, op, mode, operands).astype(dtype)

    return rounded


_NATIVE: dict[str, Op] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
}


def _odd_difference(a: Lanes, b: Lanes) -> Lanes:
    return odd_sum(a, -b)


def _odd_fma(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    return odd_sum(a * b, c)


_WIDE: dict[str, Op] = {
    "add": odd_sum,
    "sub": _odd_difference,
    "mul": np.multiply,
    "div": odd_quotient,
    "fma": _odd_fma,
    "sqrt": odd_root,
}
"""In binary64, on operands that are narrower: exact, or rounded to odd."""


def _exact_zero(out: Lanes, op: str, mode: str, operands: tuple[Lanes, ...]) -> Lanes:
    """Towards minus infinity an exact sum of zero is -0 unless both terms are +0."""
    if mode != "rm" or op not in {"add", "sub", "fma"}:
        return out
    *first, last = operands
    left = np.multiply(*(x.astype(np.float64) for x in first)) if op == "fma" else first[0]
    right = -last if op == "sub" else last
    both_plus = ~np.signbit(left) & ~np.signbit(right)
    return np.where((out == 0) & ~np.signbit(out) & ~both_plus, -0.0, out)


def _double(op: str, mode: str) -> Op:
    if mode == "rn":
        return _fma_double if op == "fma" else _NATIVE[op]
    return partial(exact.OPERATIONS[op], mode)


def _fma_double(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    value, certain = fma64(a, b, c)
    # a sum of zero and all that is not finite: the plain operations are exact there
    zero = (value == 0) | (a == 0) | (b == 0)
    value = np.where(zero, a * b + c, value)
    doubt = ~(certain | (a == 0) | (b == 0)) | ((value == 0) & (a != 0) & (b != 0))
    if not np.any(doubt):
        return value
    lanes = [np.broadcast_to(x, value.shape) for x in (a, b, c)]
    if not value.ndim:
        return exact.fma("rn", *lanes)
    out = value.copy()
    out[doubt] = exact.fma("rn", *(lane[doubt] for lane in lanes))
    return out


def finished(op: Op, name: str, *, ftz: bool, sat: bool, relu: bool = False) -> Op:
    """An operation with `.ftz` on operands and result, `.sat` or `.relu`, and canonical NaNs."""

    def run(*operands: Lanes) -> Lanes:
        value = op(*(flush(x, name) for x in operands)) if ftz else op(*operands)
        if ftz:
            value = flush(value, name)
        if sat:
            value = clamp01(value)
        if relu:
            value = np.where(value > 0, value, np.where(value != value, value, value.dtype.type(0)))
        return canonical(value, name)

    return run
