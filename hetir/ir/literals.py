"""Constants as readable numbers that give back exactly the same bits."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from hetir.ir.build import bits_of, value_of
from hetir.ir.numerics import canonical_nan
from hetir.ir.types import F16, F32, Scalar


@lru_cache(maxsize=4096)
def print_constant(kind: Scalar, bits: int) -> str:
    """A short number that `parse_constant` reads as `bits`; an unusual NaN shows its bits."""
    value = value_of(kind, bits)
    if not isinstance(value, float):
        return str(value).lower()
    if math.isnan(value):
        return "nan" if bits == canonical_nan(kind.numpy) else f"nan:0x{bits:x}"
    if math.isinf(value) or kind.bits == 64 or (value.is_integer() and abs(value) < 1e16):
        return repr(value)
    return shortest(kind, value)


def shortest(kind: Scalar, value: float) -> str:
    """The shortest decimal number, spelled as Python does, that rounds to `value` as `kind`."""
    if not math.isfinite(value) or kind.bits == 64:
        return repr(value)
    if kind in (F16, F32):  # NumPy finds it without trials
        near = float(str(kind.numpy.type(value)))
        if bits_of(kind, near) == bits_of(kind, value):
            return repr(near)
    # decimal to f64 to `kind` rounds twice, so that only a trial shows what is exact
    bits = bits_of(kind, value)
    trials = (float(f"{value:.{digits}g}") for digits in range(1, 17))
    return repr(next((near for near in trials if bits_of(kind, near) == bits), value))


def shown(kind: Scalar, value: float | bool) -> str:
    """A value as `hl.print` shows it."""
    return shortest(kind, value) if isinstance(value, float) else str(value)


def parse_constant(kind: Scalar, text: str) -> int:
    """The bits that a number means as `kind`; ValueError says why it means none."""
    if kind.kind == "bool":
        if text not in ("true", "false"):
            raise ValueError("a `bool` is `true` or `false`")
        return int(text == "true")
    if kind.is_int:
        return _integer(kind, text)
    if text.startswith("nan"):
        return _nan(kind, text)
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"`{text}` is not a number") from None
    # a cast of an infinity to an f8 saturates; the literal is the infinity itself
    bits = _infinity(kind, value) if math.isinf(value) else bits_of(kind, value)
    if math.isnan(value) or math.isinf(value) is not math.isinf(float(value_of(kind, bits))):
        raise ValueError(f"`{text}` is not a value of `{kind}`")
    return bits


def _infinity(kind: Scalar, value: float) -> int:
    """Its bits; those of a NaN where the type has no infinities."""
    return int(np.array(value).astype(kind.numpy).view(f"u{kind.bytes}"))


def _integer(kind: Scalar, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise ValueError(f"`{kind}` needs an integer") from None
    low, high = (
        (-1 << (kind.bits - 1), 1 << (kind.bits - 1)) if kind.signed else (0, 1 << kind.bits)
    )
    if not low <= value < high:
        raise ValueError(f"{text} does not fit `{kind}`")
    return value & ((1 << kind.bits) - 1)


def _nan(kind: Scalar, text: str) -> int:
    bits = int(text[4:], 16) if len(text) > 3 else canonical_nan(kind.numpy)
    if bits >> kind.bits or not math.isnan(float(value_of(kind, bits))):
        raise ValueError(f"`{text}` is not a NaN of `{kind}`")
    return bits
