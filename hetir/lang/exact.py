"""Sums of floats without error until one rounding: no order changes their bits.

A value is added to a long fixed-point number in words, each wide enough that the additions
cannot overflow it; integer additions commute, which makes the sum reproducible. See U. Kulisch,
Computer Arithmetic and Validity (2013), chapter 8, for such accumulators. After the words stand
the counts of +infinity, -infinity and NaN.
"""

from __future__ import annotations

from typing import NamedTuple

import hetir.lang.values as hv
from hetir.frontend.errors import OperandError
from hetir.frontend.primitive import current, library, primitive
from hetir.frontend.values import KernelValue
from hetir.ir.types import F32, F64, I32, I64, U64, Scalar
from hetir.lang.atomics import atomic_add
from hetir.lang.math.arithmetic import INF, NAN, scale
from hetir.lang.memory import barrier, shared
from hetir.lang.workgroup import linear_item, workgroup_reduce

EXACT_WORDS = 12
"""Length of the `i64` array that `exact_add` adds an `f32`, `f16` or `bf16` to."""

EXACT_WORDS_F64 = 69
"""Length of the `i64` array that `exact_add` adds an `f64` to."""


class Form(NamedTuple):
    """How a sum lies in memory: words that hold `bits` bits of it each; the lowest is 2**least."""

    words: int
    bits: int
    least: int


# 32 bits in an i64 last for 2**31 additions, 20 bits in an i32 for the 1024 of a workgroup
_GLOBAL_F32, _GLOBAL_F64 = Form(9, 32, -149), Form(66, 32, -1074)
_SHARED_F32, _SHARED_F64 = Form(15, 20, -149), Form(106, 20, -1074)


@primitive
def _wide(name: str, value: KernelValue) -> KernelValue:
    """A float as `f32`, or `f64` if it is one; integers are refused."""
    tracer = current()
    kind = tracer.type_of(value)
    if not kind.is_float or kind.kind == "f8":
        tracer.fail(
            OperandError,
            f"`{name}` adds floats, got `{kind}`",
            hint="sums of integers are exact: use `hl.atomic_add`, or convert first"
            if kind.is_int
            else "convert first: `value.to(hl.f32)`",
        )
    return hv.cast(value, F64 if kind == F64 else F32)


@primitive
def _is_integer(value: KernelValue) -> bool:
    return current().type_of(value).is_int


@library
def _split(x: KernelValue) -> KernelValue:
    """The mantissa of |x| and the place of its lowest bit above the least; 0 of specials."""
    if x.dtype == F64:
        bits = hv.bitcast(x, I64) & 0x7FFFFFFFFFFFFFFF
        exponent = hv.cast(bits >> 52, I32)
        m = (bits & 0xFFFFFFFFFFFFF) | hv.where(exponent > 0, hv.cast(1 << 52, I64), 0)
        last = 2047
    else:
        narrow = hv.bitcast(x, I32) & 0x7FFFFFFF
        exponent = narrow >> 23
        m = hv.cast((narrow & 0x7FFFFF) | hv.where(exponent > 0, hv.cast(1 << 23, I32), 0), I64)
        last = 255
    return hv.where(exponent == last, 0, m), hv.where(exponent > 0, exponent - 1, 0)


@library
def _parts(x: KernelValue, form: Form) -> KernelValue:
    """The word where x begins, and what it adds to that word and the next ones, as `i64`."""
    m, place = _split(x)
    mask = (1 << form.bits) - 1
    word = place // form.bits
    shift = hv.cast(place - word * form.bits, I64)
    # 32 bits of the mantissa, shifted, and the rest of it fit 64 bits
    low, high = (m & 0xFFFFFFFF) << shift, (m >> 32) << shift
    if form.bits == 32:
        second = (low >> 32) + (high & mask)
        parts = (low & mask, second & mask, (second >> 32) + (high >> 32))
    else:
        # high stands 32 bits up, which is 12 bits into the second word
        second = (low >> 20 & mask) + ((high & 0xFF) << 12)
        third = (low >> 40) + (high >> 8 & mask) + (second >> 20)
        parts = (low & mask, second & mask, third & mask, (third >> 20) + (high >> 28))
    sign = hv.where(x < 0.0, hv.cast(-1, I64), 1)
    signed = ()
    for part in parts:
        signed = (*signed, sign * part)
    return word, signed


@library
def _add(sums: KernelValue, x: KernelValue, form: Form, scope: str) -> KernelValue:
    """Add x to a sum."""
    word, parts = _parts(x, form)
    for offset, part in enumerate(parts):
        if part != 0:
            atomic_add(sums, word + offset, hv.cast(part, sums.dtype), scope=scope)
    if ~(hv.abs(x) < INF):
        special = hv.where(x == INF, hv.cast(0, I32), hv.where(x == -INF, 1, 2))
        atomic_add(sums, form.words + special, 1, scope=scope)


@library
def _leading(sums: KernelValue, form: Form) -> KernelValue:
    """Whether a sum is negative; the 64 highest bits of its magnitude; their scale; a rest."""
    mask = (1 << form.bits) - 1
    up = 64 - form.bits
    carry = hv.cast(0, I64)
    for k in range(form.words):
        carry = (hv.cast(sums[k], I64) + carry) >> form.bits
    sign = hv.where(carry < 0, hv.cast(-1, I64), 1)
    carry = hv.cast(0, I64)
    # the digits so far, shifted through 128 bits, and whether a one bit fell out
    high, low, lost = hv.cast(0, U64), hv.cast(0, U64), False
    top, second, rest, at = high, low, False, hv.cast(0, I32)
    for k in range(form.words + 1):
        digit = carry
        if k < form.words:
            digit = sign * hv.cast(sums[k], I64) + carry
        carry = digit >> form.bits
        digit = digit & mask
        lost = lost | (low & mask != 0)
        low = low >> form.bits | high << up
        high = high >> form.bits | hv.cast(digit, U64) << up
        if digit != 0:
            top, second, rest, at = high, low, lost, hv.cast(k, I32)
    zeros = hv.clz(top) & 63
    kept = top << zeros | hv.where(zeros == 0, 0, second >> (64 - zeros))
    scaled = form.bits * (at + 1) - 64 - hv.cast(zeros, I32) + form.least
    scaled = hv.where(top == 0, 0, scaled)
    return sign < 0, kept, scaled, rest | (second << zeros != 0)


@library
def _nearest(
    kept: KernelValue, scaled: KernelValue, rest: KernelValue, kind: Scalar
) -> KernelValue:
    """kept * 2**scaled and a bit more if `rest`, rounded once; subnormal results are exact."""
    if kind == F64:
        return scale(hv.cast(kept | hv.cast(rest, U64), F64), hv.cast(scaled, I64))
    if kind == F32:
        return scale(hv.cast(kept | hv.cast(rest, U64), F32), scaled)
    # a float of 24 bits rounded to odd rounds on to a narrower one as the number itself
    odd = rest | (kept & 0xFFFFFFFFFF != 0)
    return hv.cast(scale(hv.cast(kept >> 40 | hv.cast(odd, U64), F32), scaled + 40), kind)


@library
def _rounded(sums: KernelValue, form: Form, kind: Scalar) -> KernelValue:
    """A sum rounded to a type."""
    negative, kept, scaled, rest = _leading(sums, form)
    y = _nearest(kept, scaled, rest, kind)
    y = hv.where(negative, -y, y)
    plus, minus, nan = sums[form.words] > 0, sums[form.words + 1] > 0, sums[form.words + 2] > 0
    y = hv.where(plus, INF, hv.where(minus, -INF, y))
    return hv.where(nan | plus & minus, NAN, y)


@library
def exact_add(sums: KernelValue, value: KernelValue) -> KernelValue:
    """Add a float to a sum that `exact_value` rounds, atomically at device scope.

    `sums` is an `i64` array that starts as zeros, global or shared, of `hl.EXACT_WORDS`
    elements, or `hl.EXACT_WORDS_F64` where `value` is `f64`. It lasts for 2**31 additions.
    """
    x = _wide("exact_add", value)
    _add(sums, x, _GLOBAL_F64 if x.dtype == F64 else _GLOBAL_F32, "device")


@library
def exact_value(sums: KernelValue, dtype: Scalar = F32) -> KernelValue:
    """The sum that `exact_add` has gathered, rounded once to `dtype`; a zero is +0.

    `f64` rounds a sum of `f64`, the other floats one of `f32` and narrower.
    """
    return _rounded(sums, _GLOBAL_F64 if dtype == F64 else _GLOBAL_F32, dtype)


@library
def sum_exact(value: KernelValue) -> KernelValue:
    """The sum of a float over the workgroup, rounded once to its type, in every work-item.

    Integers wrap, which no order changes. Every work-item of the workgroup (at most 1024) must
    call it.
    """
    if _is_integer(value):
        return workgroup_reduce(value, "add")
    x = _wide("sum_exact", value)
    form = _SHARED_F64 if x.dtype == F64 else _SHARED_F32
    sums = shared(form.words + 3, I32)
    total = shared(1, _dtype(value))
    local, size = linear_item()
    for k in range(local, form.words + 3, size):
        sums[k] = 0
    barrier()
    _add(sums, x, form, "workgroup")
    barrier()
    if local == 0:
        total[0] = _rounded(sums, form, _dtype(value))
    barrier()
    return total[0]


@primitive
def _dtype(value: KernelValue) -> Scalar:
    return current().type_of(value)
