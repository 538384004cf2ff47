"""hetIR's ops as C++ expressions over one work-item's values, for the scalar unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np

from hetir.backends.ascend.simd_reps import bare
from hetir.ir.core import Operation
from hetir.ir.types import BOOL, F32, I64, SCALARS, Scalar, Type
from hetir.target import Key, key_of

INTS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
NARROW = ("f16", "bf16")
MOVED = (*INTS, *NARROW, "bool", "f32", "f64", "f8e4m3", "f8e5m2")

_C_NAMES: Mapping[str, str] = {
    "bool": "bool",
    "f32": "float",
    "f16": "uint16_t",
    "bf16": "uint16_t",
    "f64": "uint64_t",
    "f8e4m3": "uint8_t",
    "f8e5m2": "uint8_t",
}


def c_type(kind: Type) -> str:
    """The C++ type of a value; f16, bf16, f8 and f64 are integers of their bits."""
    assert isinstance(kind, Scalar)
    if kind.is_int:
        return f"{'' if kind.signed else 'u'}int{kind.bits}_t"
    return _C_NAMES[kind.name]


def literal(kind: Scalar, bits: int) -> str:
    """A constant as C++."""
    if kind == BOOL:
        return "true" if bits else "false"
    if kind == F32:
        return _float(bits)
    if not kind.is_int:
        return f"{bits:#x}{'ull' if kind.bits == 64 else ''}"
    value = bits - (1 << kind.bits) if kind.signed and bits >> (kind.bits - 1) else bits
    if not kind.signed:
        return f"{value}{'ull' if kind.bits == 64 else 'u'}"
    if value == -(1 << 63):
        return "INT64_MIN"
    if value == -(1 << 31) and kind.bits == 32:
        return "INT32_MIN"
    return f"{value}ll" if abs(value) >= 1 << 31 else str(value)


def _float(bits: int) -> str:
    value = np.array(bits, np.uint32).view(np.float32)
    if not np.isfinite(value):
        return f"FloatOfBits({bits:#x}u)"
    text = repr(float(str(value)))
    return f"{text}f" if any(c in text for c in ".e") else f"{text}.0f"


Rule = Callable[[Operation, Sequence[str]], str]
RULES: dict[Key, Rule] = {}


def expression(op: Operation, args: Sequence[str]) -> str:
    """One op over operands that are names, literals or parenthesised."""
    return RULES[key_of(op)](op, args)


def _kind(op: Operation) -> Scalar:
    kind = op.operands[0].type
    assert isinstance(kind, Scalar)
    return kind


def _add(names: str, kinds: Sequence[str], rule: Rule) -> None:
    for name, kind in product(names.split(), kinds):
        RULES[name, kind] = rule


def _infix(symbol: str) -> Rule:
    return lambda _, a: f"{a[0]} {symbol} {a[1]}"


def _call(name: str) -> Rule:
    return lambda _, a: f"{name}({', '.join(map(bare, a))})"


def _narrowed(rule: Rule) -> Rule:
    """Back from C++'s promotion of small integers to `int`."""

    def made(op: Operation, args: Sequence[str]) -> str:
        kind = op.result.type
        text = rule(op, args)
        small = isinstance(kind, Scalar) and kind.is_int and kind.bits < 32
        return f"static_cast<{c_type(kind)}>({text})" if small else text

    return made


def _typed(name: str) -> Rule:
    """A template whose arguments may be literals: its type is named."""
    return lambda op, a: f"{name}<{c_type(op.operands[0].type)}>({', '.join(map(bare, a))})"


_SIGNED = ("i8", "i16", "i32", "i64")
_UNSIGNED = ("u8", "u16", "u32", "u64")
_BITS = (*INTS,)

for _name, _symbol in (("add", "+"), ("sub", "-"), ("mul", "*")):
    _add(_name, _UNSIGNED, _narrowed(_infix(_symbol)))
    _add(_name, _SIGNED, _typed(f"Wrap{_name.capitalize()}"))
    _add(_name, ("f32",), _infix(_symbol))
_add("div", INTS, _typed("Quotient"))
_add("rem", INTS, _typed("Remainder"))
_add("floordiv", INTS, _typed("FloorQuotient"))
_add("mod", INTS, _typed("FloorRemainder"))
_add("div", ("f32",), _infix("/"))
_add("neg", _SIGNED, lambda op, a: f"WrapSub<{c_type(op.result.type)}>(0, {a[0]})")
_add("neg", _UNSIGNED, _narrowed(lambda _, a: f"0u - {a[0]}"))
_add("neg", ("f32",), lambda _, a: f"-{a[0]}")
_add("neg", NARROW, _narrowed(lambda _, a: f"static_cast<uint16_t>({a[0]} ^ 0x8000u)"))
_add("abs", _SIGNED, _typed("Magnitude"))
_add("abs", _UNSIGNED, lambda _, a: a[0])
_add("abs", ("f32",), lambda _, a: f"FloatOfBits(BitsOfFloat({a[0]}) & 0x7fffffffu)")
_add("abs", NARROW, lambda _, a: f"static_cast<uint16_t>({a[0]} & 0x7fffu)")
_add("min", INTS, _typed("Lesser"))
_add("max", INTS, _typed("Greater"))
for _name, _function in (
    ("min", "Minimum"),
    ("max", "Maximum"),
    ("min_number", "MinimumNumber"),
    ("max_number", "MaximumNumber"),
    ("fma", "FusedMultiplyAdd"),
    ("sqrt", "SquareRoot"),
    ("floor", "FloatFloor"),
    ("ceil", "FloatCeil"),
    ("trunc", "FloatTrunc"),
    ("rint", "FloatRint"),
    ("rem", "FloatRemainder"),
    ("floordiv", "PythonQuotient"),
    ("mod", "PythonRemainder"),
):
    _add(_name, ("f32",), _call(_function))
RULES["fma", "f16"] = _call("FusedHalf")
RULES["fma", "bf16"] = _call("FusedBfloat")
_add("mul_hi", INTS, _typed("HighProduct"))
for _name, _symbol in (("and", "&"), ("or", "|"), ("xor", "^")):
    _add(_name, _BITS, _narrowed(_infix(_symbol)))
RULES["and", "bool"] = _infix("&&")
RULES["or", "bool"] = _infix("||")
_add("not", _BITS, _narrowed(lambda _, a: f"~{a[0]}"))
RULES["not", "bool"] = lambda _, a: f"!{a[0]}"
_add("shl", INTS, _typed("ShiftedLeft"))
_add("shr", INTS, _typed("ShiftedRight"))
_add(
    "popcount",
    INTS,
    lambda op, a: (
        f"static_cast<{c_type(op.result.type)}>(OnesOf("
        f"static_cast<uint{_kind(op).bits}_t>({a[0]})))"
    ),
)
_add("ctz", INTS, _typed("TrailingZeros"))
_add("clz", INTS, _typed("LeadingZeros"))
_COMPARES = (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="))


def _compared(symbol: str) -> Rule:
    """A comparison of what has no NaN: compilers warn of one with itself."""
    same = "true" if "=" in symbol.replace("!=", "") else "false"
    return lambda _, a: same if a[0] == a[1] else f"{a[0]} {symbol} {a[1]}"


for _name, _symbol in _COMPARES:
    _add(_name, INTS, _compared(_symbol))
    RULES[_name, "f32"] = _infix(_symbol)
for _name, _symbol in _COMPARES[:2]:
    RULES[_name, "bool"] = _compared(_symbol)
RULES["xor", "bool"] = _compared("!=")
_add("select", MOVED, lambda _, a: f"{a[0]} ? {a[1]} : {a[2]}")
RULES["select", "ref"] = lambda _, a: f"{a[0]} ? {a[1]} : {a[2]}"
_add("assume_uniform", MOVED, lambda _, a: a[0])


def _const(op: Operation, _: Sequence[str]) -> str:
    kind, bits = op.attrs["type"], op.attrs["bits"]
    assert isinstance(kind, Scalar)
    assert isinstance(bits, int)
    return literal(kind, bits)


_add("const", MOVED, _const)


# ---- conversions -----------------------------------------------------------------------------


def _cast_ints(op: Operation, a: Sequence[str]) -> str:
    return f"static_cast<{c_type(op.result.type)}>({bare(a[0])})"


for _from, _to in product((*INTS, "bool"), (*INTS, "f32")):
    if _from != _to:
        RULES["cast", _from, _to] = _cast_ints
for _from in INTS:
    RULES["cast", _from, "bool"] = lambda _, a: f"{a[0]} != 0"
    RULES["cast", "f32", _from] = lambda op, a: f"ToInteger<{c_type(op.result.type)}>({a[0]})"
RULES["cast", "f32", "bool"] = lambda _, a: f"{a[0]} != 0.0f"
RULES["cast", "f16", "f32"] = _call("HalfToFloat")
RULES["cast", "f32", "f16"] = _call("FloatToHalf")
RULES["cast", "bf16", "f32"] = _call("BfloatToFloat")
RULES["cast", "f32", "bf16"] = _call("FloatToBfloat")
for _kind_name in MOVED:
    RULES["cast", _kind_name, _kind_name] = lambda _, a: a[0]


_NANS = {
    "f16": "<uint16_t>({}, 0x8000, 0x7c00, 0x7e00)",
    "bf16": "<uint16_t>({}, 0x8000, 0x7f80, 0x7fc0)",
    "f8e4m3": "<uint8_t>({}, 0x80, 0x7e, 0x7f)",
    "f8e5m2": "<uint8_t>({}, 0x80, 0x7c, 0x7e)",
}


def _bitcast(op: Operation, a: Sequence[str]) -> str:
    """Equal C++ types need nothing; a float's NaN becomes the canonical one for an integer."""
    source, to = _kind(op), op.result.type
    assert isinstance(to, Scalar)
    text = a[0]
    if to.is_int and source.name in _NANS:
        text = f"CanonicalNarrow{_NANS[source.name].format(a[0])}"
    elif to.is_int and source.name == "f64":
        text = f"CanonicalDouble({a[0]})"
    elif to.is_int and source == F32:
        text = f"CanonicalBits({a[0]})"
    elif to == F32 and source != F32:
        return f"FloatOfBits(static_cast<uint32_t>({a[0]}))"
    return text if c_type(to) == c_type(source) else f"static_cast<{c_type(to)}>({text})"


for _from, _to in product(MOVED, MOVED):
    if SCALARS[_from].bits == SCALARS[_to].bits and "bool" not in (_from, _to):
        RULES["bitcast", _from, _to] = _bitcast
RULES["bitcast", "bool", "bool"] = lambda _, a: a[0]


def index_expression(op: Operation, args: Sequence[str], wraps: bool) -> str:
    """i64 arithmetic; where it cannot overflow by plain operators."""
    if not wraps and op.result.type == I64 and op.name in ("add", "sub", "mul"):
        return _infix({"add": "+", "sub": "-", "mul": "*"}[op.name])(op, args)
    return expression(op, args)
