"""Logic, shifts, bit fields and counting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hetir.emulator.ptx.batch import Batch
from hetir.emulator.ptx.build import Build, Step, instruction
from hetir.emulator.ptx.integers import as_array, binary, unary, unsigned
from hetir.emulator.ptx.syntax import Name, Number, Pair
from hetir.emulator.ptx.types import PRED, U32, UNSIGNED, Lanes, PtxType, as_type

_LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


@instruction("and", "or", "xor")
def _logic(b: Build) -> Step:
    return binary(b, b.type("pred b16 b32 b64"), _LOGIC[b.ins.opcode])


@instruction("not")
def _not(b: Build) -> Step:
    return unary(b, b.type("pred b16 b32 b64"), np.invert)


@instruction("cnot")
def _cnot(b: Build) -> Step:
    kind = b.type("b16 b32 b64")
    return unary(b, kind, lambda a: (a == 0).astype(kind.dtype))


@instruction("shl", "shr")
def _shift(b: Build) -> Step:
    left = b.ins.opcode == "shl"
    kind = b.type("b16 b32 b64" if left else "b16 b32 b64 u16 u32 u64 s16 s32 s64")
    b.count(3)
    write, value, amount = b.write(0, kind), b.read(1, kind), b.read(2, U32)
    last = np.uint32(kind.bits - 1)
    zero = kind.dtype.type(0)
    op = np.left_shift if left else np.right_shift

    def step(r: Batch) -> None:
        x, n = as_array(value(r)), as_array(amount(r))
        shifted = op(x, np.minimum(n, last).astype(kind.dtype))
        # an arithmetic shift by too much leaves the sign, which the clamped amount gives
        write(r, shifted if kind.kind == "s" else np.where(n > last, zero, shifted))

    return step


@instruction("shf")
def _funnel(b: Build) -> Step:
    left = b.need("l", "r") == "l"
    clamps = b.need("clamp", "wrap") == "clamp"
    kind = b.type("b32")
    b.count(4)
    write = b.write(0, kind)
    low, high, amount = b.read(1, kind), b.read(2, kind), b.read(3, U32)

    def step(r: Batch) -> None:
        n = as_array(amount(r))
        n = (np.minimum(n, np.uint32(32)) if clamps else n & np.uint32(31)).astype(np.uint64)
        both = as_array(high(r)).astype(np.uint64) << np.uint64(32) | as_array(low(r))
        moved = (both << n) >> np.uint64(32) if left else both >> n
        write(r, moved.astype(np.uint32))

    return step


@instruction("bfe")
def _extract(b: Build) -> Step:
    kind = b.type("u32 u64 s32 s64")
    b.count(4)
    write, value = b.write(0, kind), b.read(1, kind)
    start, length = b.read(2, U32), b.read(3, U32)
    dtype, last = unsigned(kind), kind.bits - 1

    def step(r: Batch) -> None:
        x = as_type(as_array(value(r)), dtype)
        at, n = (as_array(v(r)).astype(np.int64) & 0xFF for v in (start, length))
        moved = np.where(at > last, dtype.type(0), x >> np.minimum(at, last).astype(dtype))
        mask = _ones(n, dtype)
        sign_at = np.minimum(at + n - 1, last).clip(0).astype(dtype)
        sign = (x >> sign_at) & dtype.type(1)
        if kind.kind == "u":
            sign = sign & dtype.type(0)
        negative = (sign == 1) & (n > 0)
        # above the field, and above the value's own bits, stands the sign
        known = mask & _ones(np.maximum(last + 1 - at, 0), dtype)
        write(r, np.where(negative, moved | ~known, moved & known))

    return step


def _ones(count: Lanes, dtype: np.dtype[np.unsignedinteger]) -> Lanes:
    """A mask of the low `count` bits."""
    bits = dtype.itemsize * 8
    partial = (dtype.type(1) << np.minimum(count, bits - 1).astype(dtype)) - dtype.type(1)
    return np.where(count >= bits, ~dtype.type(0), partial)


@instruction("bfi")
def _insert(b: Build) -> Step:
    kind = b.type("b32 b64")
    b.count(5)
    write, field, base = b.write(0, kind), b.read(1, kind), b.read(2, kind)
    start, length = b.read(3, U32), b.read(4, U32)
    dtype, last = unsigned(kind), kind.bits - 1

    def step(r: Batch) -> None:
        f, x = as_array(field(r)), as_array(base(r))
        at, n = (as_array(v(r)).astype(np.int64) & 0xFF for v in (start, length))
        inside = np.minimum(at, last).astype(dtype)
        mask = np.where(at > last, dtype.type(0), _ones(n, dtype) << inside)
        write(r, (x & ~mask) | ((f << inside) & mask))

    return step


@instruction("brev")
def _reverse(b: Build) -> Step:
    kind = b.type("b32 b64")
    return unary(b, kind, lambda a: _reversed(a, kind))


def _reversed(a: Lanes, kind: PtxType) -> Lanes:
    dtype = unsigned(kind)
    for width in (1, 2, 4):
        mask = dtype.type(sum(((1 << width) - 1) << s for s in range(0, kind.bits, 2 * width)))
        by = dtype.type(width)
        a = ((a >> by) & mask) | ((a & mask) << by)
    return a.byteswap()


@instruction("popc")
def _count_ones(b: Build) -> Step:
    kind = b.type("b32 b64")
    b.count(2)
    write, read = b.write(0, U32), b.read(1, kind)
    return lambda r: write(r, np.bitwise_count(as_array(read(r))).astype(np.uint32))


def leading_zeros(a: Lanes, bits: int) -> Lanes:
    """How many zero bits stand before the first one; `bits` for zero."""
    left = np.zeros(a.shape, np.uint32)
    rest = a.copy()
    width = bits // 2
    while width:
        empty = rest >> rest.dtype.type(bits - width) == 0
        left = left + empty * np.uint32(width)
        rest = np.where(empty, rest << rest.dtype.type(width), rest)
        width //= 2
    return np.where(a == 0, np.uint32(bits), left)


@instruction("clz")
def _clz(b: Build) -> Step:
    kind = b.type("b32 b64")
    b.count(2)
    write, read = b.write(0, U32), b.read(1, kind)
    return lambda r: write(r, leading_zeros(as_array(read(r)), kind.bits))


@instruction("bfind")
def _find(b: Build) -> Step:
    as_shift = b.flag("shiftamt")
    kind = b.type("u32 u64 s32 s64")
    b.count(2)
    write, read = b.write(0, U32), b.read(1, kind)
    last, none = np.uint32(kind.bits - 1), np.uint32(0xFFFFFFFF)

    def step(r: Batch) -> None:
        x = as_array(read(r))
        bits = as_type(x, unsigned(kind))
        if kind.kind == "s":
            bits = np.where(x < 0, ~bits, bits)
        zeros = leading_zeros(bits, kind.bits)
        found = zeros if as_shift else last - zeros
        write(r, np.where(bits == 0, none, found))

    return step


@instruction("fns")
def _find_nth(b: Build) -> Step:
    kind = b.type("b32")
    b.count(4)
    write, mask, base = b.write(0, kind), b.read(1, kind), b.read(2, kind)
    offset = b.read(3, kind)

    def step(r: Batch) -> None:
        m, start, nth = np.broadcast_arrays(*(as_array(v(r)) for v in (mask, base, offset)))
        out = [_nth(int(x), int(s), int(n)) for x, s, n in zip(m.flat, start.flat, nth.flat)]  # noqa: B905
        write(r, np.array(out, np.uint32).reshape(m.shape))

    return step


def _nth(mask: int, base: int, offset: int) -> int:
    """`fns` of one lane; the offset is signed, 0 asks for the bit at the base itself."""
    offset -= (offset >> 31) << 32
    if base > 31:
        return 0xFFFFFFFF
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    step = 1 if offset > 0 else -1
    left, at = abs(offset), base
    while 0 <= at < 32:
        left -= mask >> at & 1
        if left == 0:
            return at
        at += step
    return 0xFFFFFFFF


@instruction("bmsk")
def _bit_mask(b: Build) -> Step:
    clamps = b.need("clamp", "wrap") == "clamp"
    kind = b.type("b32")

    def mask(a: Lanes, n: Lanes) -> Lanes:
        start, width = a & np.uint32(31), n & np.uint32(31)
        total = start + width
        ones = ~np.uint32(0)
        from_start = ones << start
        beyond = np.where(total >= 32, np.uint32(0), ones << np.minimum(total, np.uint32(31)))
        if clamps:
            from_start = np.where(a >= 32, np.uint32(0), from_start)
            beyond = np.where((a >= 32) | (n >= 32), np.uint32(0), beyond)
        return from_start & ~beyond

    return binary(b, kind, mask)


@instruction("szext")
def _extend(b: Build) -> Step:
    clamps = b.need("clamp", "wrap") == "clamp"
    kind = b.type("u32 s32")
    signed = kind.kind == "s"
    b.count(3)
    write, value, width = b.write(0, kind), b.read(1, kind), b.read(2, U32)

    def step(r: Batch) -> None:
        x, n = as_type(as_array(value(r)), UNSIGNED[32]), as_array(width(r))
        bits = n & np.uint32(31)
        mask: Lanes = ~np.uint32(0) << bits
        sign: Lanes = (x >> ((bits - np.uint32(1)) & np.uint32(31))) & np.uint32(1)
        fills: Lanes = (bits > 0) & (sign == 1) if signed else np.zeros(sign.shape, bool)
        low = np.where(fills, x | mask, x & ~mask)
        write(r, np.where((n >= 32) & clamps, x, low))

    return step


_PERMUTE_MODES = ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")


@instruction("prmt")
def _permute(b: Build) -> Step:
    kind = b.type("b32")
    mode = b.choose(*_PERMUTE_MODES)
    b.count(4)
    write = b.write(0, kind)
    first, second, selector = (b.read(i, kind) for i in (1, 2, 3))

    def step(r: Batch) -> None:
        low, high, pick = (as_array(v(r)).astype(np.uint64) for v in (first, second, selector))
        both = low | high << np.uint64(32)
        out: Lanes = np.zeros_like(both)
        for i in range(4):
            at, signs = _byte_choice(mode, pick, i)
            byte = (both >> (at * np.uint64(8))) & np.uint64(0xFF)
            spread = np.where(byte >> np.uint64(7) == 1, np.uint64(0xFF), np.uint64(0))
            out = out | np.where(signs, spread, byte) << np.uint64(8 * i)
        write(r, out.astype(np.uint32))

    return step


def _byte_choice(mode: str, pick: Lanes, i: int) -> tuple[Lanes, Lanes]:
    """Which of the eight bytes result byte `i` takes, and whether only its sign."""
    if not mode:
        nibble = pick >> np.uint64(4 * i) & np.uint64(0xF)
        return nibble & np.uint64(7), nibble >> np.uint64(3) == 1
    s = (pick & np.uint64(3)).astype(np.int64)
    by_mode: dict[str, Callable[[], Lanes]] = {
        "f4e": lambda: s + i,
        "b4e": lambda: (s - i) & 7,
        "rc8": lambda: s,
        "ecl": lambda: np.maximum(s, i),
        "ecr": lambda: np.minimum(s, i),
        "rc16": lambda: (s & 1) * 2 + (i & 1),
    }
    at = as_array(by_mode[mode]()).astype(np.uint64)
    return at, np.zeros(at.shape, bool)


@instruction("lop3")
def _lop3(b: Build) -> Step:
    combine = b.choose("or", "and")
    kind = b.type("b32")
    table = b.operand(4)
    if not isinstance(table, Number):
        raise b.wrong("the table must be a number")
    b.count(6 if combine else 5)
    target = b.operand(0)
    both = isinstance(target, Pair)
    if both != bool(combine):
        raise b.wrong("`d|p` goes with .or or .and")
    write = b.write(target.first if isinstance(target, Pair) else target, kind)
    flag = b.write(target.second, PRED) if isinstance(target, Pair) else None
    reads = [b.read(i, kind) for i in (1, 2, 3)]
    extra = b.read(5, PRED) if combine else None
    bits = table.value

    def step(r: Batch) -> None:
        out = _lookup(bits, *(as_array(v(r)) for v in reads))
        write(r, out)
        if flag is not None and extra is not None:
            other = as_array(extra(r))
            flag(r, (out != 0) | other if combine == "or" else (out != 0) & other)

    return step


def _lookup(table: int, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    out = a & b & c & np.uint32(0)
    for row in range(8):
        if table >> row & 1:
            out = out | ((a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c))
    return out


def is_sink(operand: object) -> bool:
    """Whether a destination is `_`."""
    return isinstance(operand, Name) and operand.text == "_"
