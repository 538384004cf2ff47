"""Rules of the pure ops: (op, types) -> instructions, for both flavours where not said otherwise.

A rule takes the code, the operation and the ids of its operands. legalize turns the
arithmetic of f16, bf16 and f8, which are integers here, into that of f32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hetir.backends.spirv.code import Code
from hetir.ir.core import Operation
from hetir.ir.types import SCALARS, Scalar
from hetir.target import Key

Rule = Callable[[Code, Operation, Sequence[int]], int]

RULES: dict[Key, Rule] = {}
OPENCL: dict[Key, Rule] = {}
VULKAN: dict[Key, Rule] = {}

SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTS = SIGNED + UNSIGNED
FLOATS = ("f32", "f64")
NARROW = ("f16", "bf16")
ALL = tuple(SCALARS)

# the bits of infinity and of the canonical NaN, by type
_SPECIAL: Mapping[str, tuple[int, int]] = {
    "f16": (0x7C00, 0x7E00),
    "bf16": (0x7F80, 0x7FC0),
    "f32": (0x7F800000, 0x7FC00000),
    "f64": (0x7FF << 52, 0xFFF << 51),
    "f8e4m3": (0x7E, 0x7F),
    "f8e5m2": (0x7C, 0x7E),
}


def _rule(name: str, *kinds: str, table: dict[Key, Rule] = RULES) -> Callable[[Rule], Rule]:
    def add(function: Rule) -> Rule:
        table.update({(name, *kind.split()): function for kind in kinds})
        return function

    return add


def _kind(op: Operation, index: int = 0) -> Scalar:
    kind = op.operands[index].type
    assert isinstance(kind, Scalar)
    return kind


def _plain(opcode: str) -> Rule:
    """An instruction whose result has the op's type."""

    def rule(code: Code, op: Operation, args: Sequence[int]) -> int:
        return code.add(opcode, code.of(op.result.type), *args)

    return rule


def _rounded(opcode: str) -> Rule:
    def rule(code: Code, op: Operation, args: Sequence[int]) -> int:
        kind = _kind(op)
        if code.hides is not None:
            args = [_unknown(code, kind, place, v) for place, v in enumerate(args)]
        return code.rounded(opcode, code.of(kind), *args)

    return rule


def _unknown(code: Code, kind: Scalar, place: int, value: int) -> int:
    """An operand that is no constant and no other operand, where the driver found that it matters.

    Mesa 22.3 computes with a constant zero, and `x - x`, as if there were no signed zeros,
    infinities and NaNs.
    """
    raw = code.add("OpBitcast", code.int(kind.bits), value)
    return code.add("OpBitcast", code.float(kind.bits), code.unknown(raw, kind.bits, place))


def _call(name: str) -> Rule:
    """An instruction of the flavour's extended set."""

    def rule(code: Code, op: Operation, args: Sequence[int]) -> int:
        return code.call(name, code.of(op.result.type), *args)

    return rule


def _enter(table: dict[Key, Rule], kinds: Sequence[str], rows: Mapping[str, Rule]) -> None:
    table.update({(name, kind): rule for name, rule in rows.items() for kind in kinds})


_P, _R, _C = _plain, _rounded, _call
_enter(RULES, INTS, {"add": _P("OpIAdd"), "sub": _P("OpISub"), "mul": _P("OpIMul")})
_enter(RULES, INTS, {"neg": _P("OpSNegate"), "not": _P("OpNot")})
_enter(RULES, INTS, {"and": _P("OpBitwiseAnd"), "or": _P("OpBitwiseOr"), "xor": _P("OpBitwiseXor")})
_enter(RULES, ("bool",), {"and": _P("OpLogicalAnd"), "or": _P("OpLogicalOr")})
_enter(RULES, ("bool",), {"xor": _P("OpLogicalNotEqual"), "not": _P("OpLogicalNot")})
_enter(RULES, FLOATS, {"add": _R("OpFAdd"), "sub": _R("OpFSub"), "mul": _R("OpFMul")})
_enter(RULES, FLOATS, {"div": _R("OpFDiv"), "neg": _P("OpFNegate")})
_enter(OPENCL, INTS, {"popcount": _C("popcount"), "clz": _C("clz")})
_enter(OPENCL, FLOATS, {"abs": _C("fabs"), "sqrt": _C("sqrt"), "fma": _C("fma")})
_enter(OPENCL, FLOATS, {"floor": _C("floor"), "ceil": _C("ceil"), "trunc": _C("trunc")})
_enter(OPENCL, FLOATS, {"rint": _C("rint")})
_enter(VULKAN, FLOATS, {"abs": _C("FAbs"), "sqrt": _C("Sqrt")})
_enter(VULKAN, FLOATS, {"floor": _C("Floor"), "ceil": _C("Ceil"), "trunc": _C("Trunc")})
_enter(VULKAN, FLOATS, {"rint": _C("RoundEven")})
# math="native": OpenCL has no native_tanh; Vulkan's precision is in its specification
_OPENCL_NATIVE = ("exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "recip", "divide")
OPENCL.update({("native", kind): _C(f"native_{kind}") for kind in _OPENCL_NATIVE})
_VULKAN_NATIVE = ("Exp", "Exp2", "Log", "Log2", "Sin", "Cos", "Tanh", "Sqrt")
VULKAN.update({("native", name.lower()): _C(name) for name in _VULKAN_NATIVE})
VULKAN.update({("native", "rsqrt"): _C("InverseSqrt"), ("native", "divide"): _P("OpFDiv")})


@_rule("native", "recip", table=VULKAN)
def _reciprocal(code: Code, op: Operation, args: Sequence[int]) -> int:
    kind = _kind(op)
    return code.add("OpFDiv", code.of(kind), code.const(kind, 0x3F800000), *args)


@_rule("const", *ALL)
def _const(code: Code, op: Operation, _: Sequence[int]) -> int:
    kind, bits = op.attrs["type"], op.attrs["bits"]
    assert isinstance(kind, Scalar)
    assert isinstance(bits, int)
    return code.const(kind, bits)


@_rule("abs", *UNSIGNED)
@_rule("assume_uniform", *ALL)
def _same(_: Code, __: Operation, args: Sequence[int]) -> int:
    return args[0]


@_rule("select", *ALL)
def _select(code: Code, op: Operation, args: Sequence[int]) -> int:
    return code.add("OpSelect", code.of(op.result.type), *args)


# ---- integers ----------------------------------------------------------------------------


@_rule("abs", *SIGNED)
def _abs(code: Code, op: Operation, args: Sequence[int]) -> int:
    kind = code.of(op.result.type)
    below = code.add("OpSLessThan", code.bool(), args[0], code.number(_kind(op).bits, 0))
    return code.add("OpSelect", kind, below, code.add("OpSNegate", kind, args[0]), args[0])


@_rule("neg", *NARROW)
def _flip_sign(code: Code, _: Operation, args: Sequence[int]) -> int:
    return code.add("OpBitwiseXor", code.int(16), args[0], code.number(16, 0x8000))


@_rule("abs", *NARROW)
def _clear_sign(code: Code, _: Operation, args: Sequence[int]) -> int:
    return code.add("OpBitwiseAnd", code.int(16), args[0], code.number(16, 0x7FFF))


@_rule("min", *INTS)
@_rule("max", *INTS)
def _pick(code: Code, op: Operation, args: Sequence[int]) -> int:
    sign = "S" if _kind(op).signed else "U"
    way = "LessThan" if op.name == "min" else "GreaterThan"
    first = code.add(f"Op{sign}{way}", code.bool(), *args)
    return code.add("OpSelect", code.of(op.result.type), first, *args)


@_rule("div", *INTS)
@_rule("rem", *INTS)
def _divide(code: Code, op: Operation, args: Sequence[int]) -> int:
    """Division that SPIR-V defines for every operand: x/0 = x%0 = 0, MIN/-1 = MIN."""
    kind, (a, b), flag = _kind(op), args, code.bool()
    wide, bits = code.int(kind.bits), kind.bits
    name = "Div" if op.name == "div" else "Rem" if kind.signed else "Mod"
    opcode = f"Op{'S' if kind.signed else 'U'}{name}"
    known = code.value_of(b)
    if known and not (kind.signed and known == (1 << bits) - 1):
        return code.add(opcode, wide, a, b)
    zero, one = code.number(bits, 0), code.number(bits, 1)
    none = unsafe = code.add("OpIEqual", flag, b, zero)
    if kind.signed:
        minus = code.add("OpIEqual", flag, b, code.number(bits, -1))
        unsafe = code.add("OpLogicalOr", flag, none, minus)
    divisor = code.add("OpSelect", wide, unsafe, one, b)
    result = code.add(opcode, wide, a, divisor)
    if op.name == "rem":
        return result
    if kind.signed:
        result = code.add("OpSelect", wide, unsafe, code.add("OpSNegate", wide, a), result)
    return code.add("OpSelect", wide, none, zero, result)


@_rule("shl", *INTS)
@_rule("shr", *INTS)
def _shift(code: Code, op: Operation, args: Sequence[int]) -> int:
    kind = _kind(op)
    wide = code.int(kind.bits)
    count = code.add("OpBitwiseAnd", wide, args[1], code.number(kind.bits, kind.bits - 1))
    right = "OpShiftRightArithmetic" if kind.signed else "OpShiftRightLogical"
    return code.add("OpShiftLeftLogical" if op.name == "shl" else right, wide, args[0], count)


@_rule("mul_hi", *(n for n in INTS if n[1:] != "64"))
def _mul_hi(code: Code, op: Operation, args: Sequence[int]) -> int:
    kind = _kind(op)
    narrow, wide = code.int(kind.bits), code.int(2 * kind.bits)
    extend = "OpSConvert" if kind.signed else "OpUConvert"
    a, b = (code.add(extend, wide, v) for v in args)
    shift = code.number(2 * kind.bits, kind.bits)
    high = code.add("OpShiftRightLogical", wide, code.add("OpIMul", wide, a, b), shift)
    return code.add("OpUConvert", narrow, high)


@_rule("mul_hi", "i64", "u64", table=OPENCL)
def _mul_hi_64(code: Code, op: Operation, args: Sequence[int]) -> int:
    return code.call("s_mul_hi" if _kind(op).signed else "u_mul_hi", code.int(64), *args)


@_rule("mul_hi", "i64", "u64", table=VULKAN)
def _mul_hi_by_halves(code: Code, op: Operation, args: Sequence[int]) -> int:
    """Four products of 32-bit halves; a negative operand subtracts the other one."""
    wide, low, by = code.int(64), code.number(64, 0xFFFFFFFF), code.number(64, 32)
    (a1, a0), (b1, b0) = (
        (
            code.add("OpShiftRightLogical", wide, v, by),
            code.add("OpBitwiseAnd", wide, v, low),
        )
        for v in args
    )

    def times(x: int, y: int, plus: int) -> int:
        return code.add("OpIAdd", wide, code.add("OpIMul", wide, x, y), plus)

    def half(x: int) -> int:
        return code.add("OpShiftRightLogical", wide, x, by)

    cross = times(a1, b0, half(code.add("OpIMul", wide, a0, b0)))
    other = times(a0, b1, code.add("OpBitwiseAnd", wide, cross, low))
    high = code.add("OpIAdd", wide, times(a1, b1, half(cross)), half(other))
    if not _kind(op).signed:
        return high
    zero = code.number(64, 0)
    for sign, other in (args, args[::-1]):
        below = code.add("OpSLessThan", code.bool(), sign, zero)
        high = code.add("OpISub", wide, high, code.add("OpSelect", wide, below, other, zero))
    return high


@_rule("popcount", *INTS, table=VULKAN)
def _popcount(code: Code, op: Operation, args: Sequence[int]) -> int:
    """Vulkan counts the bits of 32-bit integers only."""
    bits, word = _kind(op).bits, code.int(32)
    if bits != 64:
        wide = args[0] if bits == 32 else code.add("OpUConvert", word, args[0])
        count = code.add("OpBitCount", word, wide)
        return count if bits == 32 else code.add("OpUConvert", code.int(bits), count)
    counts = [code.add("OpBitCount", word, half) for half in _halves(code, args[0])]
    return code.add("OpUConvert", code.int(64), code.add("OpIAdd", word, *counts))


@_rule("clz", *INTS, table=VULKAN)
def _clz(code: Code, op: Operation, args: Sequence[int]) -> int:
    """By the place of the highest one bit, which is -1 for 0."""
    bits, word, flag = _kind(op).bits, code.int(32), code.bool()
    top = code.number(32, 31)

    def leading(value: int) -> int:
        return code.add("OpISub", word, top, code.call("FindUMsb", word, value))

    if bits != 64:
        wide = args[0] if bits == 32 else code.add("OpUConvert", word, args[0])
        count = leading(wide)
        if bits == 32:
            return count
        less = code.add("OpISub", word, count, code.number(32, 32 - bits))
        return code.add("OpUConvert", code.int(bits), less)
    low, high = _halves(code, args[0])
    below = code.add("OpIAdd", word, leading(low), code.number(32, 32))
    none = code.add("OpIEqual", flag, high, code.number(32, 0))
    count = code.add("OpSelect", word, none, below, leading(high))
    return code.add("OpUConvert", code.int(64), count)


def _halves(code: Code, value: int) -> tuple[int, int]:
    """The low and the high word of a 64-bit integer."""
    high = code.add("OpShiftRightLogical", code.int(64), value, code.number(64, 32))
    return code.add("OpUConvert", code.int(32), value), code.add("OpUConvert", code.int(32), high)


# ---- comparisons -------------------------------------------------------------------------


def _compare(signed: str, unsigned: str, floating: str) -> Mapping[str, Rule]:
    return {"int": _P(signed), "uint": _P(unsigned), "float": _P(floating)}


for _name, _by_kind in {
    "eq": _compare("OpIEqual", "OpIEqual", "OpFOrdEqual"),
    "ne": _compare("OpINotEqual", "OpINotEqual", "OpFUnordNotEqual"),
    "lt": _compare("OpSLessThan", "OpULessThan", "OpFOrdLessThan"),
    "le": _compare("OpSLessThanEqual", "OpULessThanEqual", "OpFOrdLessThanEqual"),
    "gt": _compare("OpSGreaterThan", "OpUGreaterThan", "OpFOrdGreaterThan"),
    "ge": _compare("OpSGreaterThanEqual", "OpUGreaterThanEqual", "OpFOrdGreaterThanEqual"),
}.items():
    for _scalar in (*INTS, *FLOATS):
        RULES[_name, _scalar] = _by_kind[SCALARS[_scalar].kind]
RULES["eq", "bool"], RULES["ne", "bool"] = _P("OpLogicalEqual"), _P("OpLogicalNotEqual")


# ---- minima and maxima of floats ---------------------------------------------------------


def _bits(code: Code, kind: Scalar, value: int) -> int:
    return code.add("OpBitcast", code.int(kind.bits), value)


def _is_nan(code: Code, kind: Scalar, bits: int) -> int:
    """By the bits, so that no flag of a compiler touches it."""
    top = code.number(kind.bits, (1 << (kind.bits - 1)) - 1)
    magnitude = code.add("OpBitwiseAnd", code.int(kind.bits), bits, top)
    infinity = code.number(kind.bits, _SPECIAL[kind.name][0])
    return code.add("OpUGreaterThan", code.bool(), magnitude, infinity)


@_rule("min", *FLOATS)
@_rule("max", *FLOATS)
def _extreme(code: Code, op: Operation, args: Sequence[int]) -> int:
    return _extreme_of(code, op.name, _kind(op), args)


@_rule("min_number", *FLOATS)
@_rule("max_number", *FLOATS)
def _extreme_number(code: Code, op: Operation, args: Sequence[int]) -> int:
    """The other operand twice in place of a NaN."""
    kind, (a, b) = _kind(op), args
    wide = code.float(kind.bits)
    absent = [_is_nan(code, kind, _bits(code, kind, v)) for v in args]
    first = code.add("OpSelect", wide, absent[0], b, a)
    second = code.add("OpSelect", wide, absent[1], a, b)
    return _extreme_of(code, op.name.removesuffix("_number"), kind, (first, second))


def _extreme_of(code: Code, name: str, kind: Scalar, args: Sequence[int]) -> int:
    """Equal operands differ in the sign of zero at most: `or` and `and` of their bits."""
    wide, raw, flag, least = code.float(kind.bits), code.int(kind.bits), code.bool(), name == "min"
    bits = [_bits(code, kind, v) for v in args]
    closer = code.add("OpFOrdLessThan" if least else "OpFOrdGreaterThan", flag, *args)
    other = code.add("OpSelect", wide, closer, *args)
    merged = code.add("OpBitwiseOr" if least else "OpBitwiseAnd", raw, *bits)
    same = code.add("OpFOrdEqual", flag, *args)
    found = code.add("OpSelect", wide, same, code.add("OpBitcast", wide, merged), other)
    none = code.add("OpLogicalOr", flag, *(_is_nan(code, kind, v) for v in bits))
    return code.add("OpSelect", wide, none, code.const(kind, _SPECIAL[kind.name][1]), found)


# ---- conversions -------------------------------------------------------------------------


def _to_int(code: Code, op: Operation, args: Sequence[int]) -> int:
    """Between integers: one of the width is the same already."""
    to, kind = op.result.type, _kind(op)
    assert isinstance(to, Scalar)
    if to.bits == kind.bits:
        return args[0]
    widens = to.bits > kind.bits and kind.signed
    found = code.add("OpSConvert" if widens else "OpUConvert", code.int(to.bits), args[0])
    if not widens or (kind.bits, to.bits) != (32, 64) or code.hides is None:
        return found
    return _hidden(code, args[0], found)


def _hidden(code: Code, value: int, extended: int) -> int:
    """A sign extension by arithmetic, where the driver found that it is needed.

    Mesa 22.3 makes comparisons of an extended 32-bit integer with a constant, which come out
    wrong, of those of 64 bits.
    """
    assert code.hides is not None
    wide, sign = code.int(64), code.number(64, 1 << 31)
    raised = code.add("OpBitwiseXor", wide, code.add("OpUConvert", wide, value), sign)
    computed = code.add("OpISub", wide, raised, sign)
    return code.add("OpSelect", wide, code.hides(), computed, extended)


def _from_bool(code: Code, op: Operation, args: Sequence[int]) -> int:
    to = op.result.type
    assert isinstance(to, Scalar)
    one = {"f32": 0x3F800000, "f64": 0x3FF << 52}.get(to.name, 1)
    return code.add("OpSelect", code.of(to), args[0], code.const(to, one), code.const(to, 0))


def _is_true(code: Code, op: Operation, args: Sequence[int]) -> int:
    kind = _kind(op)
    compare = "OpFUnordNotEqual" if kind.is_float else "OpINotEqual"
    return code.add(compare, code.bool(), args[0], code.const(kind, 0))


def _saturate(code: Code, op: Operation, args: Sequence[int]) -> int:
    """Float to integer: what is out of range is converted as 0 and replaced."""
    kind, to, (x,), flag = _kind(op), op.result.type, args, code.bool()
    assert isinstance(to, Scalar)
    raw, bits = code.int(to.bits), to.bits
    low = -(1 << (bits - 1)) if to.signed else 0
    high = (1 << (bits - 1)) - 1 if to.signed else (1 << bits) - 1
    precision = 24 if kind.bits == 32 else 53
    # the bound below is exact: it is a power of two, or has few enough bits
    exact = to.signed and bits > precision
    above_low = _bound(code, kind, x, low if exact else low - 1, "GreaterThan" + "Equal" * exact)
    inside = code.add("OpLogicalAnd", flag, above_low, _bound(code, kind, x, high + 1, "LessThan"))
    zero = code.const(kind, 0)
    safe = code.add("OpSelect", code.float(kind.bits), inside, x, zero)
    found = code.add("OpConvertFToS" if to.signed else "OpConvertFToU", raw, safe)
    over = code.add("OpFOrdGreaterThan", flag, x, zero)
    under = code.add("OpFOrdLessThan", flag, x, zero)
    least = code.add("OpSelect", raw, under, code.number(bits, low), code.number(bits, 0))
    limit = code.add("OpSelect", raw, over, code.number(bits, high), least)
    return code.add("OpSelect", raw, inside, found, limit)


def _bound(code: Code, kind: Scalar, x: int, bound: int, way: str) -> int:
    """Whether `x` compares with an integer that the float type holds."""
    bits = _float_bits(kind, bound)
    return code.add(f"OpFOrd{way}", code.bool(), x, code.const(kind, bits))


def _float_bits(kind: Scalar, number: int) -> int:
    fraction, bias = (23, 127) if kind.bits == 32 else (52, 1023)
    size = abs(number)
    if not size:
        return 0
    exponent = size.bit_length() - 1
    mantissa = (size << fraction >> exponent) & ((1 << fraction) - 1)
    return (number < 0) << (kind.bits - 1) | (exponent + bias) << fraction | mantissa


def _conversions() -> None:
    for a in INTS:
        for b in INTS:
            RULES["cast", a, b] = _to_int
        for b in FLOATS:
            RULES["cast", a, b] = _P("OpConvertSToF" if a in SIGNED else "OpConvertUToF")
            RULES["cast", b, a] = _saturate
        RULES["cast", a, "bool"], RULES["cast", "bool", a] = _is_true, _from_bool
    for b in FLOATS:
        RULES["cast", b, "bool"], RULES["cast", "bool", b] = _is_true, _from_bool
    for name in ("bool", *FLOATS, *NARROW, "f8e4m3", "f8e5m2"):
        RULES["cast", name, name] = _same
    RULES["cast", "f32", "f64"] = RULES["cast", "f64", "f32"] = _P("OpFConvert")


def _to_bits(code: Code, op: Operation, args: Sequence[int]) -> int:
    """Float to integer bits: any NaN becomes the canonical one."""
    kind = _kind(op)
    value = _bits(code, kind, args[0]) if kind.name in FLOATS else args[0]
    canonical = code.number(kind.bits, _SPECIAL[kind.name][1])
    nan = _is_nan(code, kind, value)
    return code.add("OpSelect", code.int(kind.bits), nan, canonical, value)


def _bitcasts() -> None:
    for a in SCALARS.values():
        for b in SCALARS.values():
            if a.bits != b.bits:
                continue
            if a.name in _SPECIAL and b.is_int:
                rule = _to_bits
            else:
                same = (a.name in FLOATS) == (b.name in FLOATS)
                rule = _same if same else _P("OpBitcast")
            RULES["bitcast", a.name, b.name] = rule


_conversions()
_bitcasts()
