"""Integer and bit instructions against Python's integers."""

import numpy as np
import pytest
from ptx_emulator_support import assemble_used, evaluate, signed

RNG = np.random.default_rng(5)
EDGES = [0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 127, 128, 255, 256, 32767, 32768, 65535]


def numbers(bits: int, count: int = 200) -> np.ndarray:
    top = 1 << bits
    some = [e for e in EDGES if e < top] + [top - 1, top - 2, top // 2, top // 2 - 1, top // 2 + 1]
    rest = [int.from_bytes(RNG.bytes(bits // 8), "little") for _ in range(count - len(some))]
    return np.array(some + rest, f"u{bits // 8}")


def pairs(bits: int) -> tuple[np.ndarray, np.ndarray]:
    a = numbers(bits)
    return a, RNG.permutation(a)


def check(body, expect, bits, out=None, count=2, masks=None):
    """`expect` maps Python integers to the result, modulo the width."""
    columns = [*pairs(bits), RNG.permutation(numbers(bits))][:count]
    for at, mask in (masks or {}).items():
        columns[at] = columns[at] % mask
    out = out or bits
    got = evaluate(body, *columns, out=f"u{out // 8}")
    want = [expect(*(int(v) for v in row)) % (1 << out) for row in zip(*columns, strict=True)]
    assert got.tolist() == want


def truncated(x: int, y: int) -> int:
    q = abs(x) // abs(y)
    return -q if (x < 0) != (y < 0) else q


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("kind", "us")
def test_arithmetic(bits, kind):
    t = f"{kind}{bits}"

    def value(x):
        return signed(x, bits) if kind == "s" else x

    check(f"add.{t} %d, %a, %b;", lambda a, b: a + b, bits)
    check(f"sub.{t} %d, %a, %b;", lambda a, b: a - b, bits)
    check(f"mul.lo.{t} %d, %a, %b;", lambda a, b: a * b, bits)
    check(f"mul.hi.{t} %d, %a, %b;", lambda a, b: value(a) * value(b) >> bits, bits)
    check(f"mad.lo.{t} %d, %a, %b, %c;", lambda a, b, c: a * b + c, bits, count=3)
    check(f"min.{t} %d, %a, %b;", lambda a, b: min(value(a), value(b)), bits)
    check(f"max.{t} %d, %a, %b;", lambda a, b: max(value(a), value(b)), bits)
    check(
        f"mad.hi.{t} %d, %a, %b, %c;",
        lambda a, b, c: (value(a) * value(b) >> bits) + c,
        bits,
        count=3,
    )
    check(f"sad.{t} %d, %a, %b, %c;", lambda a, b, c: abs(value(a) - value(b)) + c, bits, count=3)


@pytest.mark.parametrize("t", ["u16", "s16", "u32", "s32"])
def test_wide_products(t):
    bits = int(t[1:])

    def value(x):
        return signed(x, bits) if t[0] == "s" else x

    check(f"mul.wide.{t} %d, %a, %b;", lambda a, b: value(a) * value(b), bits, out=2 * bits)


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("kind", "us")
def test_division_truncates(bits, kind):
    a, b = pairs(bits)
    b[:40] = RNG.integers(1, 9, 40)
    b[40:80] = [(1 << bits) - int(v) for v in RNG.integers(1, 9, 40)]
    b[b == 0] = 1
    a[:2], b[:2] = 1 << (bits - 1), (1 << bits) - 1  # the most negative by -1

    def value(x):
        return signed(int(x), bits) if kind == "s" else int(x)

    q = evaluate(f"div.{kind}{bits} %d, %a, %b;", a, b, out=a.dtype)
    r = evaluate(f"rem.{kind}{bits} %d, %a, %b;", a, b, out=a.dtype)
    for x, y, quotient, rest in zip(a, b, q, r, strict=True):
        want = truncated(value(x), value(y))
        assert int(quotient) == want % (1 << bits)
        assert int(rest) == (value(x) - want * value(y)) % (1 << bits)


def test_saturation():
    def clamp(x):
        return max(-(2**31), min(2**31 - 1, x))

    check("add.sat.s32 %d, %a, %b;", lambda a, b: clamp(signed(a, 32) + signed(b, 32)), 32)
    check("sub.sat.s32 %d, %a, %b;", lambda a, b: clamp(signed(a, 32) - signed(b, 32)), 32)
    check(
        "mad.hi.sat.s32 %d, %a, %b, %c;",
        lambda a, b, c: clamp((signed(a, 32) * signed(b, 32) >> 32) + signed(c, 32)), 32, count=3,
    )  # fmt: skip


def test_carry_chains():
    a, b = pairs(64)
    split = "mov.b64 {%r3, %r4}, %a; mov.b64 {%r5, %r6}, %b;"
    join = "mov.b64 %d, {%r3, %r4};"
    body = f"{split} add.cc.u32 %r3, %r3, %r5; addc.u32 %r4, %r4, %r6; {join}"
    assert (evaluate(body, a, b, out="u8") == a + b).all()
    body = f"{split} sub.cc.u32 %r3, %r3, %r5; subc.u32 %r4, %r4, %r6; {join}"
    assert (evaluate(body, a, b, out="u8") == a - b).all()
    # the high half of a 64-bit product, out of 32-bit pieces
    body = f"""{split}
        mul.lo.u32 %r7, %r3, %r5; mul.hi.u32 %r8, %r3, %r5;
        mad.lo.cc.u32 %r8, %r4, %r5, %r8; madc.hi.u32 %r9, %r4, %r5, 0;
        mad.lo.cc.u32 %r8, %r3, %r6, %r8; madc.hi.cc.u32 %r9, %r3, %r6, %r9;
        addc.u32 %r10, 0, 0; mad.lo.cc.u32 %r3, %r4, %r6, %r9;
        madc.hi.u32 %r4, %r4, %r6, %r10; {join}"""
    want = [int(x) * int(y) >> 64 for x, y in zip(a, b, strict=True)]
    assert evaluate(body, a, b, out="u8").tolist() == want


def test_signs():
    for bits in (16, 32, 64):
        check(f"neg.s{bits} %d, %a;", lambda a: -a, bits, count=1)
        check(f"abs.s{bits} %d, %a;", lambda a, n=bits: abs(signed(a, n)), bits, count=1)


def test_24_bit_products():
    def low(x):
        return x & 0xFFFFFF

    check("mul24.lo.u32 %d, %a, %b;", lambda a, b: low(a) * low(b), 32)
    check("mul24.hi.u32 %d, %a, %b;", lambda a, b: low(a) * low(b) >> 16, 32)
    check("mad24.lo.s32 %d, %a, %b, %c;",
          lambda a, b, c: signed(low(a), 24) * signed(low(b), 24) + c, 32, count=3)  # fmt: skip


def test_logic():
    for bits in (16, 32, 64):
        check(f"and.b{bits} %d, %a, %b;", lambda a, b: a & b, bits)
        check(f"or.b{bits} %d, %a, %b;", lambda a, b: a | b, bits)
        check(f"xor.b{bits} %d, %a, %b;", lambda a, b: a ^ b, bits)
        check(f"not.b{bits} %d, %a;", lambda a: ~a, bits, count=1)
        check(f"cnot.b{bits} %d, %a;", lambda a: int(a == 0), bits, count=1)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_shifts_clamp_their_amount(bits):
    a = numbers(bits)
    n = np.array([0, 1, 5, bits - 1, bits, bits + 1, 255, 2**32 - 1] * 25, np.uint32)
    rows = list(zip((int(x) for x in a), (int(x) for x in n), strict=True))
    mask = (1 << bits) - 1
    got = evaluate(f"shl.b{bits} %d, %a, %b;", a, n, out=a.dtype)
    assert got.tolist() == [(x << min(s, bits)) & mask for x, s in rows]
    got = evaluate(f"shr.u{bits} %d, %a, %b;", a, n, out=a.dtype)
    assert got.tolist() == [x >> min(s, bits) for x, s in rows]
    got = evaluate(f"shr.s{bits} %d, %a, %b;", a, n, out=a.dtype)
    assert got.tolist() == [(signed(x, bits) >> min(s, bits)) & mask for x, s in rows]


@pytest.mark.parametrize("mode", ["wrap", "clamp"])
def test_funnel_shifts(mode):
    def amount(n):
        return n % 32 if mode == "wrap" else min(n, 32)

    def left(a, b, n):
        return (((b << 32 | a) << amount(n)) >> 32) & 0xFFFFFFFF

    def right(a, b, n):
        return ((b << 32 | a) >> amount(n)) & 0xFFFFFFFF

    check(f"shf.l.{mode}.b32 %d, %a, %b, %c;", left, 32, count=3, masks={2: 70})
    check(f"shf.r.{mode}.b32 %d, %a, %b, %c;", right, 32, count=3, masks={2: 70})


def field(x, pos, length, bits, is_signed):
    """The ISA's loop: bit by bit, with the sign from the field's or the value's last bit."""
    pos, length, last = pos & 0xFF, length & 0xFF, bits - 1
    sign = 0 if not is_signed or length == 0 else x >> min(pos + length - 1, last) & 1
    out = 0
    for i in range(bits):
        bit = x >> (pos + i) & 1 if i < length and pos + i <= last else sign
        out |= bit << i
    return out


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("kind", "us")
def test_extract(bits, kind):
    x = numbers(bits, 300)
    pos = RNG.integers(0, 70, 300).astype(np.uint32)
    length = RNG.integers(0, 70, 300).astype(np.uint32)
    length[:8], pos[8:16] = 256, 258  # only the low byte counts
    got = evaluate(f"bfe.{kind}{bits} %d, %a, %b, %c;", x, pos, length, out=x.dtype)
    rows = zip(x.tolist(), pos.tolist(), length.tolist(), strict=True)
    assert got.tolist() == [field(v, p, n, bits, kind == "s") for v, p, n in rows]


@pytest.mark.parametrize("bits", [32, 64])
def test_insert(bits):
    a, b = numbers(bits, 300), RNG.permutation(numbers(bits, 300))
    pos = RNG.integers(0, 70, 300).astype(np.uint32)
    length = RNG.integers(0, 70, 300).astype(np.uint32)
    got = evaluate(f"bfi.b{bits} %d, %a, %b, %c, %e;", a, b, pos, length, out=a.dtype)
    want = []
    for x, y, p, n in zip(a.tolist(), b.tolist(), pos.tolist(), length.tolist(), strict=True):
        base = y
        for i in range(n):
            if p + i < bits:
                base = (base & ~(1 << (p + i))) | ((x >> i & 1) << (p + i))
        want.append(base)
    assert got.tolist() == want


@pytest.mark.parametrize("bits", [32, 64])
def test_counting(bits):
    check(f"popc.b{bits} %d, %a;", lambda a: a.bit_count(), bits, out=32, count=1)
    check(f"clz.b{bits} %d, %a;", lambda a: bits - a.bit_length(), bits, out=32, count=1)
    check(f"brev.b{bits} %d, %a;", lambda a: int(f"{a:0{bits}b}"[::-1], 2), bits, count=1)

    def find(a):
        return a.bit_length() - 1 if a else 0xFFFFFFFF

    def find_signed(a):
        s = signed(a, bits)
        return find(~s if s < 0 else s)

    def shift(a):
        return bits - a.bit_length() if a else 0xFFFFFFFF

    check(f"bfind.u{bits} %d, %a;", find, bits, out=32, count=1)
    check(f"bfind.s{bits} %d, %a;", find_signed, bits, out=32, count=1)
    check(f"bfind.shiftamt.u{bits} %d, %a;", shift, bits, out=32, count=1)


def test_permute():
    def default(a, b, c):
        whole, out = b << 32 | a, 0
        for i in range(4):
            nibble = c >> 4 * i & 15
            byte = whole >> 8 * (nibble & 7) & 255
            out |= (255 * (byte >> 7) if nibble & 8 else byte) << 8 * i
        return out

    check("prmt.b32 %d, %a, %b, %c;", default, 32, count=3)
    table = {
        "f4e": [(3, 2, 1, 0), (4, 3, 2, 1), (5, 4, 3, 2), (6, 5, 4, 3)],
        "b4e": [(5, 6, 7, 0), (6, 7, 0, 1), (7, 0, 1, 2), (0, 1, 2, 3)],
        "rc8": [(0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)],
        "ecl": [(3, 2, 1, 0), (3, 2, 1, 1), (3, 2, 2, 2), (3, 3, 3, 3)],
        "ecr": [(0, 0, 0, 0), (1, 1, 1, 0), (2, 2, 1, 0), (3, 2, 1, 0)],
        "rc16": [(1, 0, 1, 0), (3, 2, 3, 2), (1, 0, 1, 0), (3, 2, 3, 2)],
    }
    for mode, rows in table.items():

        def chosen(a, b, c, rows=rows):
            whole = b << 32 | a
            d3, d2, d1, d0 = (whole >> 8 * at & 255 for at in rows[c & 3])
            return d3 << 24 | d2 << 16 | d1 << 8 | d0

        check(f"prmt.b32.{mode} %d, %a, %b, %c;", chosen, 32, count=3)


def test_lop3():
    for table in (0x00, 0x80, 0xFE, 0x96, 0x1A, 0xE2, 0xFF):

        def look(a, b, c, table=table):
            out = 0
            for i in range(32):
                row = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)
                out |= (table >> row & 1) << i
            return out

        check(f"lop3.b32 %d, %a, %b, %c, {table:#x};", look, 32, count=3)


def test_masks_and_extensions():
    def mask(a, b, wraps):
        start, width = (a % 32, b % 32) if wraps else (a, b)
        if not wraps and a >= 32:
            return 0
        return sum(1 << i for i in range(start, min(32, start + width)))

    check("bmsk.clamp.b32 %d, %a, %b;", lambda a, b: mask(a, b, False), 32, masks={0: 40, 1: 40})
    check("bmsk.wrap.b32 %d, %a, %b;", lambda a, b: mask(a, b, True), 32, masks={0: 70, 1: 70})

    def extend(a, n, is_signed, wraps):
        n = n % 32 if wraps else n
        if n >= 32:
            return a
        low = a % (1 << n)
        return low - (1 << n) if is_signed and n and low >> (n - 1) else low

    for mode in ("clamp", "wrap"):
        for kind in "us":
            check(f"szext.{mode}.{kind}32 %d, %a, %b;",
                  lambda a, n, m=mode, k=kind: extend(a, n, k == "s", m == "wrap"), 32,
                  masks={1: 70})  # fmt: skip


def test_find_nth_set_bit():
    x = np.array([0b10110, 0b10110, 0b10110, 0b10110, 0b10110, 1, 0x80000000, 0], np.uint32)
    base = np.array([0, 0, 2, 4, 3, 0, 31, 0], np.uint32)
    nth = np.array([1, 2, 1, -2 % 2**32, 1, 0, 0, 1], np.uint32)
    got = evaluate("fns.b32 %d, %a, %b, %c;", x, base, nth, out="u4")
    assert got.tolist() == [1, 2, 2, 2, 4, 0, 31, 0xFFFFFFFF]


def test_dot_products():
    def parts(x, bits, is_signed):
        values = [x >> s & ((1 << bits) - 1) for s in range(0, 32, bits)]
        return [signed(v, bits) if is_signed else v for v in values]

    for ka in "us":
        for kb in "us":

            def four(a, b, c, ka=ka, kb=kb):
                rows = zip(parts(a, 8, ka == "s"), parts(b, 8, kb == "s"), strict=True)
                return sum(x * y for x, y in rows) + c

            def two(a, b, c, ka=ka, kb=kb):
                x, y = parts(a, 16, ka == "s"), parts(b, 8, kb == "s")
                return x[0] * y[2] + x[1] * y[3] + c

            check(f"dp4a.{ka}32.{kb}32 %d, %a, %b, %c;", four, 32, count=3)
            check(f"dp2a.hi.{ka}32.{kb}32 %d, %a, %b, %c;", two, 32, count=3)


def test_packed_halves():
    def each(op, is_signed):
        def run(a, b):
            out = 0
            for s in (0, 16):
                x, y = a >> s & 0xFFFF, b >> s & 0xFFFF
                if is_signed:
                    x, y = signed(x, 16), signed(y, 16)
                out |= (op(x, y) & 0xFFFF) << s
            return out

        return run

    check("add.u16x2 %d, %a, %b;", each(lambda x, y: x + y, False), 32)
    check("min.s16x2 %d, %a, %b;", each(min, True), 32)
    check("max.u16x2 %d, %a, %b;", each(max, False), 32)
    check("max.relu.s16x2 %d, %a, %b;", each(lambda x, y: max(x, y, 0), True), 32)


COMPARE = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("t", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_comparisons(t):
    bits = int(t[1:])
    names = dict(COMPARE)
    if t[0] == "u":
        names |= {
            "lo": COMPARE["lt"],
            "ls": COMPARE["le"],
            "hi": COMPARE["gt"],
            "hs": COMPARE["ge"],
        }
    for name, op in names.items():

        def truth(a, b, op=op):
            return int(op(signed(a, bits), signed(b, bits)) if t[0] == "s" else op(a, b))

        check(f"setp.{name}.{t} %p1, %a, %b; selp.b{bits} %d, 1, 0, %p1;", truth, bits)
        check(f"set.{name}.u32.{t} %d, %a, %b;", lambda a, b: -truth(a, b), bits, out=32)


def test_two_results_and_combination():
    def both(a, b):
        p, other = a < b, a & 1 == 1
        return int(p and other) | int(not p and other) << 1

    check(
        """and.b32 %r3, %a, 1; setp.eq.u32 %p1, %r3, 1;
        setp.lt.and.u32 %p2|%p3, %a, %b, %p1;
        selp.b32 %r3, 1, 0, %p2; selp.b32 %r4, 2, 0, %p3; or.b32 %d, %r3, %r4;""",
        both, 32,
    )  # fmt: skip
    check("set.gt.f32.u32 %d, %a, %b;", lambda a, b: 0x3F800000 * (a > b), 32)
    check("slct.b32.s32 %d, %a, %b, %c;", lambda a, b, c: a if c < 2**31 else b, 32, count=3)


def test_predicate_logic():
    body = """setp.ne.u32 %p1, %a, 0; setp.gt.u32 %p2, %b, 32767; and.pred %p3, %p1, !%p2;
        xor.pred %p3, %p3, %p2; not.pred %p4, %p3; selp.b32 %d, 5, 6, %p4;"""
    check(body, lambda a, b: 5 if not ((a != 0 and b <= 32767) ^ (b > 32767)) else 6, 32)


def test_moves_pack_and_unpack():
    check("mov.b32 {%h1, %h2}, %a; mov.b32 %d, {%h2, %h1};",
          lambda a: (a >> 16 | a << 16), 32, count=1)  # fmt: skip
    check("mov.b64 {%r3, _}, %a; mov.b64 %d, {%r3, %r3};",
          lambda a: (a % 2**32) * (2**32 + 1), 64, count=1)  # fmt: skip
    check("mov.b64 {%h1, %h2, %h3, %h4}, %a; mov.b64 %d, {%h4, %h3, %h2, %h1};",
          lambda a: sum((a >> 16 * i & 0xFFFF) << 48 - 16 * i for i in range(4)), 64,
          count=1)  # fmt: skip


def test_assembler_takes_all_of_this():
    assemble_used()
