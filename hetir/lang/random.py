"""Random numbers that depend on a seed and a counter only: Philox, uniform and normal.

Philox 4x32-10 is J. K. Salmon, M. A. Moraes, R. O. Dror and D. E. Shaw, Parallel random
numbers: as easy as 1, 2, 3 (SC 2011). Give each work-item its own counter, for example
`hl.philox(seed, hl.global_id(0))`.
"""

from __future__ import annotations

import hetir.lang.values as hv
from hetir.frontend.errors import OperandError
from hetir.frontend.primitive import current, library, primitive
from hetir.frontend.values import KernelValue, Typed, describe, is_tuple
from hetir.ir import ops
from hetir.ir.core import Value
from hetir.ir.types import F32, F64, I32, U32, U64
from hetir.lang.math import tables
from hetir.lang.math.logarithm import log
from hetir.lang.math.trigonometric import cosine, sine

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


@primitive
def philox(seed: KernelValue, counter: KernelValue) -> KernelValue:
    """Four random `u32` of Philox 4x32-10.

    Args:
        seed: an integer of 64 bits, or a tuple of two of 32: the key, low word first.
        counter: an integer of 64 bits, or a tuple of up to four of 32, low word first.
    """
    tracer = current()
    keys = _words("seed", seed, 2)
    c0, c1, c2, c3 = _words("counter", counter, 4)
    m0, m1 = (tracer.const(U32, m) for m in _MULTIPLIERS)
    steps = [tracer.const(U32, w) for w in _WEYL]
    for step in range(_ROUNDS):
        if step:
            keys = [tracer.value(ops.ADD, k, w) for k, w in zip(keys, steps, strict=True)]
        high0, low0 = tracer.value(ops.MUL_HI, m0, c0), tracer.value(ops.MUL, m0, c0)
        high1, low1 = tracer.value(ops.MUL_HI, m1, c2), tracer.value(ops.MUL, m1, c2)
        c0 = tracer.value(ops.XOR, tracer.value(ops.XOR, high1, c1), keys[0])
        c2 = tracer.value(ops.XOR, tracer.value(ops.XOR, high0, c3), keys[1])
        c1, c3 = low1, low0
    return tuple(map(Typed, (c0, c1, c2, c3)))


def _words(what: str, value: KernelValue, count: int) -> list[Value]:
    """`count` words of 32 bits, low word first; the missing ones are 0."""
    tracer = current()
    if is_tuple(value):
        if len(value) > count:
            tracer.fail(OperandError, f"the {what} of `philox` has at most {count} words")
        words = [tracer.convert(word, U32, explicit=True) for word in value]
    else:
        kind = tracer.type_of(value)
        if kind.is_float:
            tracer.fail(
                OperandError,
                f"the {what} of `philox` must be an integer, got {describe(value)}",
                hint="convert it with `int(...)`",
            )
        whole = tracer.convert(value, U64, explicit=True)
        high = tracer.value(ops.SHR, whole, tracer.const(U64, 32))
        words = [tracer.value(ops.CAST, part, to=U32) for part in (whole, high)]
    return words + [tracer.const(U32, 0)] * (count - len(words))


@library
def uniform(word: KernelValue) -> KernelValue:
    """A random `u32` as an `f32` from 0 to below 1, a multiple of 2**-24."""
    return hv.cast(hv.cast(word, U32) >> 8, F32) * 2.0**-24


@library
def uniform_f64(low: KernelValue, high: KernelValue) -> KernelValue:
    """Two random `u32` as an `f64` from 0 to below 1, a multiple of 2**-53."""
    word = hv.cast(hv.cast(high, U32), U64) << 32 | hv.cast(hv.cast(low, U32), U64)
    return hv.cast(word >> 11, F64) * 2.0**-53


@library
def normal(first: KernelValue, second: KernelValue) -> KernelValue:
    """Two independent standard normal `f32` from two random `u32` (Box and Muller, 1958).

    The radius is at most sqrt(48 ln 2) = 5.77.
    """
    # from 2**-24 to 1, so that the logarithm is finite
    u = hv.cast((hv.cast(first, U32) >> 8) + 1, F32) * 2.0**-24
    radius = hv.sqrt(-2.0 * log(u))
    # the angle: 2 bits of quarter turns, and the rest from -1/2 to below 1/2 of one
    angle = hv.cast(second, U32)
    quarter = hv.cast((angle + 0x20000000) >> 30, I32)
    r = hv.cast(hv.bitcast(angle << 2, I32) >> 6, F32) * (tables.HALF_PI_F64[0] * 2.0**-26)
    sh, sl = sine(r, 0.0)
    ch, cl = cosine(r, 0.0)
    s, c = sh + sl, ch + cl
    odd = (quarter & 1) != 0
    y = hv.where(odd, c, s)
    x = hv.where(odd, -s, c)
    flip = (quarter & 2) != 0
    return radius * hv.where(flip, -x, x), radius * hv.where(flip, -y, y)
