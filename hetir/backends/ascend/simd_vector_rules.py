"""One function an op and type of the vector unit, or an exact sequence where it lacks the op."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hetir.backends.ascend.simd_reps import (
    Affine,
    Bits,
    Rep,
    Tensor,
    grouped,
)
from hetir.backends.ascend.simd_scalar import c_type
from hetir.backends.ascend.simd_state import SIZES, storage
from hetir.backends.ascend.simd_vector import Vectors
from hetir.ir.core import Operation, Value
from hetir.ir.types import BOOL, F32, Scalar

_MODES = {"eq": "EQ", "lt": "LT", "le": "LE", "gt": "GT", "ge": "GE"}
_MIRRORED = {"eq": "eq", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_TOP = "INT32_MIN"
_NAN = "FloatOfBits(0x7fc00000u)"

Rule = Callable[[Vectors, Operation], Rep | None]
RULES: dict[tuple[str, str], Rule] = {}
CONVERSIONS: dict[tuple[str, str, str], Rule] = {}

# integers that the vector unit computes as the signed type of their width
_AS: Mapping[str, str] = {
    "f32": "float",
    "i32": "int32_t",
    "u32": "int32_t",
    "i16": "int16_t",
    "u16": "int16_t",
}


def _rule(names: str, kinds: str) -> Callable[[Rule], Rule]:
    def add(function: Rule) -> Rule:
        for name in names.split():
            for kind in kinds.split():
                RULES[name, kind] = function
        return function

    return add


def _conversion(name: str, *pairs: str) -> Callable[[Rule], Rule]:
    def add(function: Rule) -> Rule:
        for pair in pairs:
            source, to = pair.split()
            CONVERSIONS[name, source, to] = function
        return function

    return add


def _number(text: str, kind: str) -> str:
    """A uniform operand as the type that an instruction computes with."""
    return text if kind == "float" else f"static_cast<{kind}>({text})"


@_rule("add mul", "f32 i32 u32 i16 u16")
def _commutative(v: Vectors, op: Operation) -> Rep:
    kind = _AS[str(op.result.type)]
    name = {"add": "Add", "mul": "Mul"}[op.name]
    a, b = op.operands
    if v.scalar_text(a) is not None:
        a, b = b, a
    scalar = v.scalar_text(b)
    source = v.tensor(a)
    other = None if scalar is not None else v.tensor(b)
    made = v.result(op)
    if scalar is not None:
        v.vector(f"{name}s", made, source, _number(scalar, kind), kind=kind)
    elif other is not None:
        v.vector(name, made, source, other, kind=kind)
    return made


@_rule("sub", "f32 i32 u32 i16 u16")
def _sub(v: Vectors, op: Operation) -> Rep:
    kind = _AS[str(op.result.type)]
    a, b = op.operands
    scalar = v.scalar_text(b)
    if scalar is not None:
        source, made = v.tensor(a), v.result(op)
        minus = f"-{grouped(scalar)}" if kind == "float" else f"WrapSub<{kind}>(0, {scalar})"
        v.vector("Adds", made, source, minus, kind=kind)
        return made
    left, right = v.tensor(a), v.tensor(b)
    made = v.result(op)
    v.vector("Sub", made, left, right, kind=kind)
    return made


@_rule("neg", "f32 i32 u32 i16 u16")
def _neg(v: Vectors, op: Operation) -> Rep:
    kind = _AS[str(op.result.type)]
    source, made = v.tensor(op.operands[0]), v.result(op)
    v.vector(
        "Muls", made, source, "-1.0f" if kind == "float" else f"static_cast<{kind}>(-1)", kind=kind
    )
    return made


@_rule("abs", "f32 i32 i16")
def _abs(v: Vectors, op: Operation) -> Rep:
    kind = _AS[str(op.result.type)]
    source, made = v.tensor(op.operands[0]), v.result(op)
    if kind == "float":
        v.vector("Abs", made, source)
        return made
    minus = v.temp(kind)
    v.vector("Muls", minus, source, f"static_cast<{kind}>(-1)", kind=kind)
    v.vector("Max", made, source, minus, kind=kind)
    return made


@_rule("min max", "i32 i16")
def _extreme(v: Vectors, op: Operation) -> Rep:
    kind = _AS[str(op.result.type)]
    left, right = (v.tensor(x) for x in op.operands)
    made = v.result(op)
    v.vector(op.name.capitalize(), made, left, right, kind=kind)
    return made


def _biased(v: Vectors, value: Value) -> Tensor:
    """u32 as int32 in the same order."""
    source, made = v.tensor(value), v.temp("int32_t")
    v.vector("Adds", made, source, _TOP, kind="int32_t")
    return made


@_rule("min max", "u32")
def _extreme_unsigned(v: Vectors, op: Operation) -> Rep:
    left, right = (_biased(v, x) for x in op.operands)
    picked, made = v.temp("int32_t"), v.result(op)
    v.vector(op.name.capitalize(), picked, left, right, kind="int32_t")
    v.vector("Adds", made, picked, _TOP, kind="int32_t")
    return made


@_rule("min max", "f32")
def _float_extreme(v: Vectors, op: Operation) -> Rep:
    """By comparisons: what the unit's own does with NaN and -0 is not documented."""
    a, b = (v.tensor(x) for x in op.operands)
    better, picked = v.temp_bits("better"), v.temp("float", "picked")
    v.vector("Compare", better, a, b, tail=f"CMPMODE::{'LT' if op.name == 'min' else 'GT'}")
    v.blend(picked, better, a, b)
    # of equal operands the signs decide: -0 is the lesser
    equal, signs = v.temp_bits("equal"), v.temp("float", "signs")
    v.vector("Compare", equal, a, b, tail="CMPMODE::EQ")
    units = str(v.shape.lanes * 2)
    v.vector("Or" if op.name == "min" else "And", signs, a, b, kind="uint16_t", count=units)
    numbers, made = v.temp("float", "numbers"), v.result(op)
    v.blend(numbers, equal, signs, picked)
    ordered = v.temp_bits("ordered")
    total = v.temp("float", "nan")
    v.vector("Compare", ordered, a, a, tail="CMPMODE::EQ")
    fine = v.temp_bits("fine")
    v.vector("Compare", fine, b, b, tail="CMPMODE::EQ")
    both = v.bits_op("And", ordered, fine)
    v.vector("Duplicate", total, _NAN)
    v.blend(made, both, numbers, total)
    return made


# ---- bits ------------------------------------------------------------------------------------


@_rule("and or", "i8 i16 i32 i64 u8 u16 u32 u64 bool")
def _bitwise(v: Vectors, op: Operation) -> Rep | None:
    name = op.name.capitalize()
    if op.result.type == BOOL:
        left, right = (v.mask_of(x) for x in op.operands)
        return v.bits_op(name, left, right, into=v.result_bits(op))
    if SIZES[storage(op.result.type)] == 8 and any(v.scalar_text(x) for x in op.operands):
        return None
    left, right = (v.tensor(x) for x in op.operands)
    made = v.result(op)
    v.vector(name, made, left, right, kind="uint16_t", count=_units(v, made))
    return made


def _units(v: Vectors, tensor: Tensor) -> str:
    return str(v.shape.lanes * tensor.buffer.size // 2)


@_rule("not", "i8 i16 i32 i64 u8 u16 u32 u64 bool")
def _not(v: Vectors, op: Operation) -> Rep:
    if op.result.type == BOOL:
        return v.bits_op("Not", v.mask_of(op.operands[0]), into=v.result_bits(op))
    source, made = v.tensor(op.operands[0]), v.result(op)
    v.vector("Not", made, source, kind="uint16_t", count=_units(v, made))
    return made


@_rule("xor", "i16 i32 u16 u32 bool")
def _xor(v: Vectors, op: Operation) -> Rep:
    """(a | b) & ~(a & b)."""
    if op.result.type == BOOL:
        a, b = (v.mask_of(x) for x in op.operands)
        return _xor_bits(v, a, b, v.result_bits(op))
    left, right = (v.tensor(x) for x in op.operands)
    either, both, made = v.temp(left.kind), v.temp(left.kind), v.result(op)
    units = _units(v, made)
    v.vector("Or", either, left, right, kind="uint16_t", count=units)
    v.vector("And", both, left, right, kind="uint16_t", count=units)
    v.vector("Not", both, both, kind="uint16_t", count=units)
    v.vector("And", made, either, both, kind="uint16_t", count=units)
    return made


def _xor_bits(v: Vectors, a: Bits, b: Bits, into: Bits) -> Bits:
    either = v.bits_op("Or", a, b)
    differ = v.bits_op("Not", v.bits_op("And", a, b))
    return v.bits_op("And", either, differ, into=into)


@_rule("shl shr", "i16 i32 u16 u32")
def _shift(v: Vectors, op: Operation) -> Rep | None:
    """By one count for all lanes."""
    count = v.scalar_text(op.operands[1])
    if count is None:
        return None
    kind = op.result.type
    assert isinstance(kind, Scalar)
    source, made = v.tensor(op.operands[0]), v.result(op)
    if count.rstrip("u").isdigit():
        shown = str(int(count.rstrip("u")) % kind.bits)
    else:
        shown = f"{grouped(count)} & {kind.bits - 1}"
    seen = c_type(kind)
    name = "ShiftLeft" if op.name == "shl" else "ShiftRight"
    v.vector(name, made, source, f"static_cast<{seen}>({shown})", kind=seen)
    return made


# ---- comparison and choice -------------------------------------------------------------------


@_rule("eq lt le gt ge", "f32")
def _compare(v: Vectors, op: Operation) -> Rep:
    return _float_compare(v, op, op.name, v.result_bits(op))


@_rule("ne", "f32")
def _differ(v: Vectors, op: Operation) -> Rep:
    """Not equal, so that it is true on NaN."""
    equal = _float_compare(v, op, "eq", v.temp_bits("equal"))
    return v.bits_op("Not", equal, into=v.result_bits(op))


def _float_compare(v: Vectors, op: Operation, name: str, made: Bits) -> Bits:
    a, b = op.operands
    if v.scalar_text(a) is not None:
        a, b, name = b, a, _MIRRORED[name]
    scalar = v.scalar_text(b)
    mode = f"CMPMODE::{_MODES[name]}"
    if scalar is not None:
        v.vector("CompareScalar", made, v.tensor(a), scalar, tail=mode)
    else:
        left, right = v.tensor(a), v.tensor(b)
        v.vector("Compare", made, left, right, tail=mode)
    return made


def _equal_words(v: Vectors, a: Tensor, b: Tensor, made: Bits) -> Bits:
    """Equality of 32-bit integers."""
    if v.chip.int_equal:
        v.vector("Compare", made, *_words(a, b), tail="CMPMODE::EQ")
        return made
    apart, size = v.temp("int32_t"), v.temp("float")
    v.vector("Sub", apart, a, b, kind="int32_t")
    # only 0 converts to 0
    line = f"Cast({size.text()}, {apart.text()}, RoundMode::CAST_NONE, kLanes);"
    v.instr("V", line, [v.access(apart)], [v.access(size)], op="Cast")
    v.vector("CompareScalar", made, size, "0.0f", tail="CMPMODE::EQ")
    return made


def _words(*tensors: Tensor) -> list[Tensor]:
    """Tensors as int32."""
    return [Tensor(t.buffer, "int32_t", t.start) for t in tensors]


@_rule("eq ne", "i32 u32")
def _int_equal(v: Vectors, op: Operation) -> Rep:
    a, b = (v.tensor(x) for x in op.operands)
    if op.name == "eq":
        return _equal_words(v, a, b, v.result_bits(op))
    return v.bits_op("Not", _equal_words(v, a, b, v.temp_bits("equal")), into=v.result_bits(op))


@_rule("lt le gt ge", "i32 u32")
def _int_order(v: Vectors, op: Operation) -> Rep:
    """a >= b is max(a, b) == a."""
    unsigned = str(op.operands[0].type) == "u32"
    a, b = (_biased(v, x) if unsigned else v.tensor(x) for x in op.operands)
    if op.name in ("le", "gt"):
        a, b = b, a
    larger = v.temp("int32_t", "larger")
    v.vector("Max", larger, a, b, kind="int32_t")
    if op.name in ("ge", "le"):
        return _equal_words(v, larger, a, v.result_bits(op))
    return v.bits_op("Not", _equal_words(v, larger, a, v.temp_bits()), into=v.result_bits(op))


@_rule("eq ne", "bool")
def _bool_equal(v: Vectors, op: Operation) -> Rep:
    a, b = (v.mask_of(x) for x in op.operands)
    if op.name == "ne":
        return _xor_bits(v, a, b, v.result_bits(op))
    return v.bits_op("Not", _xor_bits(v, a, b, v.temp_bits()), into=v.result_bits(op))


@_rule("select", "f32 i32 u32 f16 bf16 i16 u16 bool")
def _select(v: Vectors, op: Operation) -> Rep | None:
    cond, yes, no = op.operands
    if v.scalar_text(cond) is not None:
        return None
    if op.result.type == BOOL:
        on, a, b = (v.mask_of(x) for x in op.operands)
        off = v.bits_op("And", v.bits_op("Not", on), b)
        return v.bits_op("Or", v.bits_op("And", on, a), off, into=v.result_bits(op))
    on = v.mask_of(cond)
    a, b = v.tensor(yes), v.tensor(no)
    made = v.result(op)
    v.blend(made, on, a, b)
    return made


# ---- conversions -----------------------------------------------------------------------------


def _cast(v: Vectors, dst: str, source: str, mode: str, reads: Tensor, writes: Tensor) -> None:
    line = f"Cast({dst}, {source}, RoundMode::{mode}, kLanes);"
    v.instr("V", line, [v.access(reads)], [v.access(writes)], op="Cast")


@_conversion("cast", "i32 f32")
def _int_to_float(v: Vectors, op: Operation) -> Rep:
    source, made = v.tensor(op.operands[0]), v.result(op)
    mode = "CAST_RINT" if v.chip.arch == 2201 else "CAST_NONE"
    _cast(v, made.text(), source.text("int32_t"), mode, source, made)
    return made


@_conversion("cast", "f32 i32")
def _float_to_int(v: Vectors, op: Operation) -> Rep | None:
    """Clamped before the conversion, so that it never meets what it cannot hold."""
    if v.chip.arch != 2201:
        return None
    source = v.tensor(op.operands[0])
    number, clean = v.temp_bits("number"), v.temp("float", "clean")
    zero = v.duplicate("0.0f", "float", "zero")
    v.vector("Compare", number, source, source, tail="CMPMODE::EQ")
    v.blend(clean, number, source, zero)
    low, inside = v.temp("float", "low"), v.temp("float", "inside")
    v.vector("Maxs", low, clean, "-2147483648.0f")
    v.vector("Mins", inside, low, "2147483520.0f")
    whole, made = v.temp("int32_t", "whole"), v.result(op)
    _cast(v, whole.text(), inside.text(), "CAST_TRUNC", inside, whole)
    beyond = v.temp_bits("beyond")
    v.vector("CompareScalar", beyond, clean, "2147483648.0f", tail="CMPMODE::GE")
    most = v.duplicate("INT32_MAX", "int32_t", "most")
    v.blend(made, beyond, most, whole)
    return made


@_conversion(
    "cast", "i32 u32", "u32 i32", "i16 u16", "u16 i16", "i64 u64", "u64 i64", "i8 u8", "u8 i8"
)
def _same_bits(v: Vectors, op: Operation) -> Rep | None:
    rep = v.reps.get(op.operands[0])
    if not isinstance(rep, Tensor):
        return None
    return Tensor(rep.buffer, storage(op.result.type), rep.start)


@_conversion("bitcast", "i32 u32", "u32 i32", "i16 u16", "u16 i16", "i64 u64", "u64 i64")
def _bits_of_int(v: Vectors, op: Operation) -> Rep | None:
    return _same_bits(v, op)


@_conversion("bitcast", "i32 f32", "u32 f32", "u16 f16", "u16 bf16", "i16 f16", "i16 bf16")
def _bits_to_float(v: Vectors, op: Operation) -> Rep | None:
    if v.pending(op.operands[0]):
        return None
    source = v.tensor(op.operands[0])
    return Tensor(source.buffer, storage(op.result.type), source.start)


@_conversion("bitcast", "f32 i32", "f32 u32")
def _bits_of_float(v: Vectors, op: Operation) -> Rep:
    """A NaN becomes the canonical one."""
    source = v.tensor(op.operands[0])
    number, made = v.temp_bits("number"), v.result(op)
    nan = v.duplicate("0x7fc00000", "int32_t", "nan")
    v.vector(
        "Compare", number, Tensor(source.buffer, "float", source.start), source, tail="CMPMODE::EQ"
    )
    v.blend(made, number, source, nan)
    return made


@_conversion("cast", "f16 f32", "bf16 f32")
def _widen(v: Vectors, op: Operation) -> Rep | None:
    half = str(op.operands[0].type) == "f16"
    if not half and not v.chip.bfloat:
        return None
    source, made = v.tensor(op.operands[0]), v.result(op)
    kind = "half" if half else "bfloat16_t"
    _cast(v, made.text(), source.text(kind), "CAST_NONE", source, made)
    return made


@_conversion("cast", "f32 f16", "f32 bf16")
def _narrow(v: Vectors, op: Operation) -> Rep | None:
    """Rounds to nearest, ties to even."""
    if v.chip.arch != 2201:
        return None
    source, made = v.tensor(op.operands[0]), v.result(op)
    kind = "half" if str(op.result.type) == "f16" else "bfloat16_t"
    _cast(v, made.text(kind), source.text(), "CAST_RINT", source, made)
    return made


@_conversion("cast", "bool f32", "bool i32", "bool u32")
def _from_bool(v: Vectors, op: Operation) -> Rep:
    on = v.mask_of(op.operands[0])
    kind = op.result.type
    assert isinstance(kind, Scalar)
    stored = storage(kind)
    one, zero = ("1.0f", "0.0f") if kind == F32 else ("1", "0")
    yes, no = v.duplicate(one, stored, "one"), v.duplicate(zero, stored, "zero")
    made = v.result(op)
    v.blend(made, on, yes, no)
    return made


@_conversion("cast", "f32 bool")
def _float_to_bool(v: Vectors, op: Operation) -> Rep:
    source, equal = v.tensor(op.operands[0]), v.temp_bits("zero")
    v.vector("CompareScalar", equal, source, "0.0f", tail="CMPMODE::EQ")
    return v.bits_op("Not", equal, into=v.result_bits(op))


@_conversion("cast", "i64 i32", "i64 u32")
def _line_to_int(v: Vectors, op: Operation) -> Rep | None:
    """A line along the first axis, modulo 2**32; anything else in a lane loop."""
    rep = v.reps.get(op.operands[0])
    if not isinstance(rep, Affine) or not v.shape.flat or rep.axes != (0,):
        return None
    scaled, made = v.lane_numbers(), v.result(op)
    if rep.factors[0] != 1:
        wide = v.temp("int32_t", "scaled")
        v.vector("Muls", wide, scaled, f"static_cast<int32_t>({rep.factors[0]})")
        scaled = wide
    v.vector("Adds", made, scaled, f"static_cast<int32_t>({rep.base})", kind="int32_t")
    return made
