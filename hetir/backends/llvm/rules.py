"""Rules of the pure ops: (op, types) -> LLVM instructions, for T and `<S x T>` alike.

f16, bf16 and f8 are the integers of their bits here; legalize turns their arithmetic into
f32's. A rule takes the code, the operation and the names of its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import pack, unpack

from hetir.backends.llvm.code import Code, scalar_type
from hetir.backends.llvm.extremes import extreme
from hetir.ir.core import Operation
from hetir.ir.types import BOOL, SCALARS, Scalar

Rule = Callable[[Code, Operation, Sequence[str]], str]
Key = tuple[str, ...]

RULES: dict[Key, Rule] = {}

SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTS = SIGNED + UNSIGNED
FLOATS = ("f32", "f64")
NARROW = ("f16", "bf16")
BITS8 = ("f8e4m3", "f8e5m2")
ALL = tuple(SCALARS)

_CANONICAL = {"f16": (0x7C00, 0x7E00), "bf16": (0x7F80, 0x7FC0)}
_CANONICAL8 = {"f8e4m3": (0x7E, 0x7F), "f8e5m2": (0x7C, 0x7E)}


def _rule(name: str, *kinds: str) -> Callable[[Rule], Rule]:
    def add(function: Rule) -> Rule:
        for kind in kinds:
            RULES[name, kind] = function
        return function

    return add


def _kind(op: Operation, index: int = 0) -> Scalar:
    kind = op.operands[index].type
    assert isinstance(kind, Scalar)
    return kind


def _instruction(mnemonic: str) -> Rule:
    def rule(code: Code, op: Operation, args: Sequence[str]) -> str:
        return code.add(f"{mnemonic} {code.type(_kind(op))} {', '.join(args)}")

    return rule


def _intrinsic(name: str, *flags: str) -> Rule:
    def rule(code: Code, op: Operation, args: Sequence[str]) -> str:
        kind = code.type(_kind(op))
        operands = [(kind, a) for a in args] + [("i1", flag) for flag in flags]
        return code.intrinsic(name, kind, *operands)

    return rule


def _table(kinds: Sequence[str], rows: dict[str, Rule]) -> None:
    RULES.update({(name, kind): rule for name, rule in rows.items() for kind in kinds})


def _extreme(name: str) -> Rule:
    def rule(code: Code, op: Operation, args: Sequence[str]) -> str:
        return extreme(code, name, scalar_type(_kind(op)), *args)

    return rule


_I, _C = _instruction, _intrinsic
_table(INTS, {"add": _I("add"), "sub": _I("sub"), "mul": _I("mul")})
_table(FLOATS, {"add": _I("fadd"), "sub": _I("fsub"), "mul": _I("fmul"), "div": _I("fdiv")})
_table(FLOATS, {"neg": _I("fneg"), "abs": _C("fabs"), "sqrt": _C("sqrt"), "fma": _C("fma")})
_table(FLOATS, {"min": _extreme("minimum"), "max": _extreme("maximum")})
ROUNDING: dict[str, Rule] = {
    "floor": _C("floor"),
    "ceil": _C("ceil"),
    "trunc": _C("trunc"),
    "rint": _C("roundeven"),
}
_table(FLOATS, ROUNDING)
_table(SIGNED, {"abs": _C("abs", "false"), "min": _C("smin"), "max": _C("smax")})
_table(UNSIGNED, {"min": _C("umin"), "max": _C("umax")})
_table((*INTS, "bool"), {"and": _I("and"), "or": _I("or"), "xor": _I("xor")})
_table(INTS, {"popcount": _C("ctpop"), "clz": _C("ctlz", "false")})


@_rule("min_number", *FLOATS)
@_rule("max_number", *FLOATS)
def _number(code: Code, op: Operation, args: Sequence[str]) -> str:
    """LLVM folds `minimumnum` of a constant signalling NaN to NaN: choose the number first."""
    kind, flag, (a, b) = code.type(_kind(op)), code.of("i1"), args
    a_is_nan, b_is_nan = (code.add(f"fcmp uno {kind} {v}, {v}") for v in args)
    one = code.add(f"select {flag} {a_is_nan}, {kind} {b}, {kind} {a}")
    two = code.add(f"select {flag} {b_is_nan}, {kind} {a}, {kind} {b}")
    name = "minimum" if op.name == "min_number" else "maximum"
    return extreme(code, name, scalar_type(_kind(op)), one, two)


@_rule("const", *ALL)
def _const(code: Code, op: Operation, _: Sequence[str]) -> str:
    kind, bits = op.attrs["type"], op.attrs["bits"]
    assert isinstance(kind, Scalar)
    assert isinstance(bits, int)
    return code.const(kind, bits)


@_rule("abs", *UNSIGNED)
@_rule("assume_uniform", *ALL)
def _same(_: Code, __: Operation, args: Sequence[str]) -> str:
    return args[0]


@_rule("neg", *INTS)
def _neg(code: Code, op: Operation, args: Sequence[str]) -> str:
    kind = scalar_type(_kind(op))
    return code.add(f"sub {code.of(kind)} {code.number(kind, 0)}, {args[0]}")


@_rule("not", *INTS, "bool")
def _not(code: Code, op: Operation, args: Sequence[str]) -> str:
    kind = scalar_type(_kind(op))
    return code.add(f"xor {code.of(kind)} {args[0]}, {code.number(kind, -1)}")


@_rule("neg", *NARROW)
def _flip_sign(code: Code, _: Operation, args: Sequence[str]) -> str:
    return code.add(f"xor {code.of('i16')} {args[0]}, {code.number('i16', -0x8000)}")


@_rule("abs", *NARROW)
def _clear_sign(code: Code, _: Operation, args: Sequence[str]) -> str:
    return code.add(f"and {code.of('i16')} {args[0]}, {code.number('i16', 0x7FFF)}")


@_rule("div", *INTS)
@_rule("rem", *INTS)
def _divide(code: Code, op: Operation, args: Sequence[str]) -> str:
    return divide(code, op.name, _kind(op), *args)


@_rule("floordiv", "i64")
@_rule("mod", "i64")
def _floor(code: Code, op: Operation, args: Sequence[str]) -> str:
    """Python's division: a step down where a remainder's sign is not the divisor's."""
    kind, wide, (_, b) = _kind(op), code.of("i64"), args
    rest = divide(code, "rem", kind, *args)
    unlike = code.add(f"xor {wide} {rest}, {b}")
    unlike = code.add(f"icmp slt {wide} {unlike}, {code.number('i64', 0)}")
    some = code.add(f"icmp ne {wide} {rest}, {code.number('i64', 0)}")
    off = code.add(f"and {code.of('i1')} {unlike}, {some}")
    if op.name == "mod":
        more = code.add(f"select {code.of('i1')} {off}, {wide} {b}, {wide} {code.number('i64', 0)}")
        return code.add(f"add {wide} {rest}, {more}")
    down = code.add(f"sext {code.of('i1')} {off} to {wide}")
    return code.add(f"add {wide} {divide(code, 'div', kind, *args)}, {down}")


def divide(code: Code, name: str, of: Scalar, a: str, b: str) -> str:
    """`div` or `rem` that LLVM defines for every operand: x/0 = x%0 = 0, MIN/-1 = MIN."""
    kind, signed = scalar_type(of), of.signed
    wide, nought, one = code.of(kind), code.number(kind, 0), code.number(kind, 1)
    flag = code.of("i1")
    zero = code.add(f"icmp eq {wide} {b}, {nought}")
    unsafe = zero
    if signed:
        minus = code.add(f"icmp eq {wide} {b}, {code.number(kind, -1)}")
        unsafe = code.add(f"or {flag} {zero}, {minus}")
    divisor = code.add(f"select {flag} {unsafe}, {wide} {one}, {wide} {b}")
    by_floats = bool(code.lanes) and of.bits < 64
    if by_floats:
        result = _quotient(code, of, a, divisor)
    else:
        result = code.add(f"{'s' if signed else 'u'}{name} {wide} {a}, {divisor}")
    if name == "rem" and by_floats:
        product = code.add(f"mul {wide} {result}, {divisor}")
        return code.add(f"sub {wide} {a}, {product}")
    if name == "rem":
        return result
    if signed:
        negated = code.add(f"sub {wide} {nought}, {a}")
        result = code.add(f"select {flag} {unsafe}, {wide} {negated}, {wide} {result}")
    return code.add(f"select {flag} {zero}, {wide} {nought}, {wide} {result}")


def _quotient(code: Code, of: Scalar, a: str, b: str) -> str:
    """Of vectors by a division of floats, of which processors have one: b is neither 0 nor -1.

    The floats hold twice the integers' digits, so that no quotient rounds up to a whole number.
    """
    sign, kind, wide = "s" if of.signed else "u", scalar_type(of), code.of(scalar_type(of))
    floats = code.of("double" if of.bits == 32 else "float")
    one, two = (code.add(f"{sign}itofp {wide} {v} to {floats}") for v in (a, b))
    exact = code.add(f"fdiv {floats} {one}, {two}")
    if of.bits == 32:
        return code.add(f"fpto{sign}i {floats} {exact} to {wide}")
    whole = code.add(f"fptosi {floats} {exact} to {code.of('i32')}")
    return code.add(f"trunc {code.of('i32')} {whole} to {code.of(kind)}")


@_rule("shl", *INTS)
@_rule("shr", *INTS)
def _shift(code: Code, op: Operation, args: Sequence[str]) -> str:
    kind = _kind(op)
    scalar = scalar_type(kind)
    wide = code.of(scalar)
    count = code.add(f"and {wide} {args[1]}, {code.number(scalar, kind.bits - 1)}")
    mnemonic = "shl" if op.name == "shl" else "ashr" if kind.signed else "lshr"
    return code.add(f"{mnemonic} {wide} {args[0]}, {count}")


@_rule("mul_hi", *INTS)
def _mul_hi(code: Code, op: Operation, args: Sequence[str]) -> str:
    kind = _kind(op)
    narrow, double = code.of(f"i{kind.bits}"), code.of(f"i{2 * kind.bits}")
    extend = "sext" if kind.signed else "zext"
    a, b = (code.add(f"{extend} {narrow} {v} to {double}") for v in args)
    product = code.add(f"mul {double} {a}, {b}")
    high = code.add(f"lshr {double} {product}, {code.number(f'i{2 * kind.bits}', kind.bits)}")
    return code.add(f"trunc {double} {high} to {narrow}")


def _compare(predicate: str, unsigned: str, floating: str) -> dict[str, Rule]:
    """Rules by kind: signed, unsigned, float."""
    return {
        "int": _I(f"icmp {predicate}"),
        "uint": _I(f"icmp {unsigned}"),
        "float": _I(f"fcmp {floating}"),
    }


for _name, _by_kind in {
    "eq": _compare("eq", "eq", "oeq"),
    "ne": _compare("ne", "ne", "une"),
    "lt": _compare("slt", "ult", "olt"),
    "le": _compare("sle", "ule", "ole"),
    "gt": _compare("sgt", "ugt", "ogt"),
    "ge": _compare("sge", "uge", "oge"),
}.items():
    for _scalar in (*INTS, *FLOATS):
        RULES[_name, _scalar] = _by_kind[SCALARS[_scalar].kind]
RULES["eq", "bool"], RULES["ne", "bool"] = _I("icmp eq"), _I("icmp ne")


@_rule("select", *ALL, "ref")
def _select(code: Code, op: Operation, args: Sequence[str]) -> str:
    wide = code.type(op.result.type)
    cond, a, b = args
    return code.add(f"select {code.of('i1')} {cond}, {wide} {a}, {wide} {b}")


# ---- conversions: keyed by source and result type ----------------------------------------


def _convert(mnemonic: str) -> Rule:
    def rule(code: Code, op: Operation, args: Sequence[str]) -> str:
        source, to = code.type(_kind(op)), code.type(op.result.type)
        return args[0] if source == to else code.add(f"{mnemonic} {source} {args[0]} to {to}")

    return rule


def _saturate(code: Code, op: Operation, args: Sequence[str]) -> str:
    """Cut off at the ends of the type, NaN as 0; x86's vectors in steps that LLVM keeps vectors."""
    kind, to, (x,) = _kind(op), op.result.type, args
    assert isinstance(to, Scalar)
    sign, result, source = "s" if to.signed else "u", code.type(to), code.type(kind)
    if not code.lanes or code.x86 is None:
        return code.intrinsic(f"fpto{sign}i.sat", result, (source, x))
    bits, flag = to.bits - to.signed, code.of("i1")
    lowest, top = float(-(to.signed << bits)), float(1 << bits)
    least, most = code.const(kind, _bits_of(kind, lowest)), _below(code, kind, top)
    above = code.add(f"fcmp ogt {source} {x}, {least}")
    near = code.add(f"select {flag} {above}, {source} {x}, {source} {least}")
    below = code.add(f"fcmp olt {source} {near}, {most}")
    near = code.add(f"select {flag} {below}, {source} {near}, {source} {most}")
    if bits < 24:
        wide = code.add(f"fptosi {source} {near} to {code.of('i32')}")
        found = code.add(f"trunc {code.of('i32')} {wide} to {result}")
    else:
        found = code.add(f"fpto{sign}i {source} {near} to {result}")
    if bits > _FRACTION[kind.name]:
        over = code.add(f"fcmp oge {source} {x}, {code.const(kind, _bits_of(kind, top))}")
        largest = code.number(scalar_type(to), (1 << bits) - 1)
        found = code.add(f"select {flag} {over}, {result} {largest}, {result} {found}")
    if to.signed:
        number = code.add(f"fcmp ord {source} {x}, {x}")
        zero = code.number(scalar_type(to), 0)
        found = code.add(f"select {flag} {number}, {result} {found}, {result} {zero}")
    return found


_FRACTION = {"f32": 24, "f64": 53}


def _bits_of(kind: Scalar, value: float) -> int:
    """The bits of a float of a type that holds it exactly."""
    form, word = ("<f", "<I") if kind.bits == 32 else ("<d", "<Q")
    return int(unpack(word, pack(form, value))[0])


def _below(code: Code, kind: Scalar, value: float) -> str:
    """The largest float below a positive one."""
    return code.const(kind, _bits_of(kind, value) - 1)


def _is_true(code: Code, op: Operation, args: Sequence[str]) -> str:
    kind = _kind(op)
    compare = "fcmp une" if kind.is_float else "icmp ne"
    return code.add(f"{compare} {code.type(kind)} {args[0]}, {code.const(kind, 0)}")


def _widen_half(code: Code, _: Operation, args: Sequence[str]) -> str:
    half, wide = code.of("half"), code.of("float")
    value = code.add(f"bitcast {code.of('i16')} {args[0]} to {half}")
    return code.add(f"fpext {half} {value} to {wide}")


def _narrow_half(code: Code, _: Operation, args: Sequence[str]) -> str:
    half = code.of("half")
    value = code.add(f"fptrunc {code.of('float')} {args[0]} to {half}")
    return code.add(f"bitcast {half} {value} to {code.of('i16')}")


def _conversions() -> None:
    for a in (SCALARS[n] for n in (*INTS, "bool")):
        for b in (SCALARS[n] for n in INTS):
            mnemonic = "trunc" if b.bits < a.bits else "sext" if a.signed else "zext"
            RULES["cast", a.name, b.name] = _convert(mnemonic)
        for name in FLOATS:
            RULES["cast", a.name, name] = _convert("sitofp" if a.signed else "uitofp")
        RULES["cast", a.name, "bool"] = _is_true
    RULES["cast", "bool", "bool"] = _same
    for name in FLOATS:
        RULES["cast", name, "bool"] = _is_true
        RULES["cast", name, name] = _same
        for b in INTS:
            RULES["cast", name, b] = _saturate
    for name in (*NARROW, *BITS8):
        RULES["cast", name, name] = _same
    RULES["cast", "f32", "f64"] = _convert("fpext")
    RULES["cast", "f64", "f32"] = _convert("fptrunc")
    RULES["cast", "f16", "f32"] = _widen_half
    RULES["cast", "f32", "f16"] = _narrow_half


HALF_CONVERSIONS: tuple[Key, ...] = (("cast", "f16", "f32"), ("cast", "f32", "f16"))


def _to_bits(code: Code, op: Operation, args: Sequence[str]) -> str:
    """Float to integer bits: any NaN becomes the canonical one."""
    kind, value = _kind(op), args[0]
    raw, flag = code.of(f"i{kind.bits}"), code.of("i1")
    if kind.name in FLOATS:
        wide = code.type(kind)
        nan = code.add(f"fcmp uno {wide} {value}, {value}")
        quiet = 0x7FC00000 if kind.bits == 32 else 0x7FF8 << 48
        value = code.add(f"bitcast {wide} {value} to {raw}")
    else:
        infinity, quiet = {**_CANONICAL, **_CANONICAL8}[kind.name]
        top = code.number(f"i{kind.bits}", (1 << (kind.bits - 1)) - 1)
        magnitude = code.add(f"and {raw} {value}, {top}")
        nan = code.add(f"icmp ugt {raw} {magnitude}, {code.number(f'i{kind.bits}', infinity)}")
    canonical = code.number(f"i{kind.bits}", quiet)
    return code.add(f"select {flag} {nan}, {raw} {canonical}, {raw} {value}")


def _bitcasts() -> None:
    for a in SCALARS.values():
        for b in SCALARS.values():
            if a.bits != b.bits:
                continue
            counts = a.is_float or a.kind == "f8"
            to_bits = counts and b.is_int
            RULES["bitcast", a.name, b.name] = _to_bits if to_bits else _convert("bitcast")


_conversions()
_bitcasts()


def truth(code: Code, byte: str) -> str:
    """The bool that a byte in memory means."""
    return code.add(f"icmp ne {code.of('i8')} {byte}, {code.number('i8', 0)}")


def byte(code: Code, kind: Scalar, value: str) -> str:
    """The value as it lies in memory."""
    if kind != BOOL:
        return value
    return code.add(f"zext {code.of('i1')} {value} to {code.of('i8')}")
