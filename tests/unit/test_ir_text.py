"""The text form: exact round trips, readable constants, errors with a caret."""

import dataclasses
import math
import random
import re
import struct
from collections.abc import Mapping

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetir.ir import ops
from hetir.ir.binary import decode, encode
from hetir.ir.core import Function, Kernel, Module, Operation, Options, Param, Region, Value
from hetir.ir.fields import MAX_CALLERS, MAX_NESTING
from hetir.ir.literals import parse_constant, print_constant
from hetir.ir.parse import TextError
from hetir.ir.text import parse_kernel, parse_module, print_kernel, print_module
from hetir.ir.types import BF16, BOOL, F8E4M3, F8E5M2, F16, F32, F64, I8, I64, SCALARS, U64
from hetir.ir.verify import faults
from hetir.source import Loc
from tests.property.random_ir import random_module

EXAMPLE = """\
hetir 1
file 0 = "a \\"b\\".py"
file 1 = "scale.py"
caller 0 = @1:20:4-15
caller 1 = @7:0-9:3^0

func half(%v: f32) -> f32, i32 { @2:0-18
  %0: f32 = const 0.5
  %1: f32 = mul %v, %0 @3:11-18
  %2: i32 = const -7
  return %1, %2
}

kernel scale(
  %a: f32 from 0,
  %x: array<f32[?:0, ?:1], global, align 16> from 1,
  %flag: bool from 2.left.right
) subgroup_size=16 math=native { @1:3:0-20
  %i: i64 = global_id axis=0 @1:4:8-23
  %n: i64 = dim %x axis=1
  %tile: array<f32[4, 8], shared> = alloc
  %one: array<f32, private> = alloc
  %row: array<f32[?], global> = view %x, %i, %i, %n steps=[0, -2]
  %c: bool = lt %i, %n @1:4:8-6:2^1
  %h: f32, %k: i32 = call %a callee="half" @1:5:4-9
  %sum: f32 = for %i, %n, %n, %a (%j: i64, %acc: f32) { @1:6:4-7:9
    %acc.1: f32 = add %acc, %h
    if %c {
      continue %acc.1
    } else {
      yield
    }
    yield %acc.1
  }
  %z: f32 = loop {
    break %sum
  }
  %old: f32 = atomic.rmw %x, %i, %i, %z kind=add order=acq_rel scope=device
  %r: ref<global> = base %x
  %e: u8 = load %r, %i element=u8
  print %sum, %e format="sum {} \\n\\"{}\\""
  safe_point id="loop 1"
  return
}
"""


NODES = (Module, Kernel, Function, Param, Region, Operation, Options)


def same(a, b, *, locations=True):
    """Whether two modules are equal but for the names of values."""
    pairs = {}

    def equal(x, y):
        if isinstance(x, Mapping) and isinstance(y, Mapping):
            return sorted(x) == sorted(y) and all(equal(x[key], y[key]) for key in x)
        if type(x) is not type(y):
            return False
        if isinstance(x, Value):
            return pairs.setdefault(x, y) is y and x.type == y.type
        if isinstance(x, tuple):
            return len(x) == len(y) and all(map(equal, x, y))
        if isinstance(x, NODES):
            names = [f.name for f in dataclasses.fields(x) if locations or f.name != "loc"]
            return all(equal(getattr(x, name), getattr(y, name)) for name in names)
        return x == y

    return equal(a, b) and len(set(pairs.values())) == len(pairs)


def test_a_text_is_read_and_written_back():
    module = parse_module(EXAMPLE)
    assert faults(module) == ()
    assert print_module(module) == EXAMPLE
    half, scale = module.functions[0], module.kernels[0]
    assert half.loc == Loc('a "b".py', 2, 0, 2, 18)
    assert scale.options == Options(subgroup_size=16, math="native")
    assert [p.source for p in scale.params] == [(0,), (1,), (2, "left", "right")]
    assert scale.params[1].value.type.strides == (0, 1)
    ops_by_name = {op.name: op for op in scale.body.body}
    assert ops_by_name["alloc"].attrs["type"].shape == ()
    assert ops_by_name["view"].attrs == {"steps": (0, -2)}
    assert ops_by_name["print"].attrs == {"format": 'sum {} \n"{}"'}
    outer = Loc("scale.py", 20, 4, 20, 15)
    caller = Loc('a "b".py', 7, 0, 9, 3, outer)
    assert ops_by_name["lt"].loc == Loc("scale.py", 4, 8, 6, 2, caller)
    assert ops_by_name["for"].regions[0].args[0].name == "j"


@pytest.mark.parametrize("locations", [True, False])
def test_random_modules_round_trip(locations):
    for seed in range(60):
        module = random_module(seed)
        text = print_module(module, locations=locations)
        back = parse_module(text)
        assert print_module(back, locations=locations) == text
        if locations:
            assert same(module, back)
        else:
            assert "@" not in text
            assert same(parse_module(print_module(module)), module)
            assert all(k.loc is None for k in back.kernels)


def test_one_kernel():
    text = print_kernel(parse_module(EXAMPLE).kernels[0])
    assert text.startswith('file 0 = "scale.py"\n')
    assert "hetir 1" not in text
    assert print_kernel(parse_kernel(text)) == text
    with pytest.raises(TextError, match="expected one kernel and no functions"):
        parse_kernel(EXAMPLE)


def test_names_are_hints():
    kind = F32
    hints = ("x", "x", "", "x.1", "7", "a b", "nan", "Größe", "9lives", "x", "\ud800", "%", "-")
    values = [Value(kind, hint) for hint in hints]
    constants = [Operation(ops.CONST, (), (v,), {"type": kind, "bits": 0}) for v in values]
    body = Region((), (*constants, Operation(ops.RETURN)))
    text = print_kernel(Kernel(name="two words", params=(), body=body))
    names = [line.split(":")[0].strip() for line in text.split("\n")[1:-3]]
    expected = "%x %x.1 %0 %x.1.1 %1 %a_b %nan %Größe %_9lives %x.2 %_ %_.1 %_.2"
    assert " ".join(names) == expected
    assert text.startswith('kernel "two words"() {')
    assert print_kernel(parse_kernel(text)) == text


def test_comments_and_layout_are_free():
    text = "// one\n\nkernel k(%x:f32 from 0, // two\n\t%y :f32 from 1){//three\r\n\n return\n\n}"
    assert print_kernel(parse_kernel(text)) == (
        "kernel k(%x: f32 from 0, %y: f32 from 1) {\n  return\n}\n"
    )


# ---- constants


@pytest.mark.parametrize(
    ("kind", "bits", "text"),
    [
        (BOOL, 1, "true"),
        (BOOL, 0, "false"),
        (I8, 0xFF, "-1"),
        (I8, 0x80, "-128"),
        (I64, 1 << 63, "-9223372036854775808"),
        (U64, (1 << 64) - 1, "18446744073709551615"),
        (F32, 0x3F800000, "1.0"),
        (F32, 0x00000000, "0.0"),
        (F32, 0x80000000, "-0.0"),
        (F32, 0x3DCCCCCD, "0.1"),
        (F32, 0x7F800000, "inf"),
        (F32, 0xFF800000, "-inf"),
        (F32, 0x7FC00000, "nan"),
        (F32, 0xFFC00000, "nan:0xffc00000"),
        (F32, 0x7F800001, "nan:0x7f800001"),
        (F32, 0x00000001, "1e-45"),
        (F32, 0x7F7FFFFF, "3.4028235e+38"),
        (F32, 0x4B800000, "16777216.0"),
        (F64, 0x3FD5555555555555, "0.3333333333333333"),
        (F64, 0x7FF8000000000000, "nan"),
        (F64, 0x7FF8000000000001, "nan:0x7ff8000000000001"),
        (F64, 0x8000000000000000, "-0.0"),
        (F16, 0x7BFF, "65504.0"),
        (F16, 0x2E66, "0.1"),
        (BF16, 0x3DCD, "0.1"),
        (F8E4M3, 0x7E, "448.0"),
        (F8E4M3, 0xFF, "nan:0xff"),
        (F8E5M2, 0x7C, "inf"),
        (F8E5M2, 0x7B, "57344.0"),
    ],
)
def test_constants_read_as_numbers(kind, bits, text):
    assert print_constant(kind, bits) == text
    assert parse_constant(kind, text) == bits


@pytest.mark.parametrize("kind", SCALARS.values(), ids=str)
def test_constants_keep_their_bits(kind):
    rng = random.Random(kind.name)
    small = range(1 << min(kind.bits, 8))
    for bits in small if kind.bits <= 8 else [rng.getrandbits(kind.bits) for _ in range(2000)]:
        assert parse_constant(kind, print_constant(kind, bits)) == bits


def test_decimal_text_means_the_nearest_value():
    for text in ("0.1", "1e-40", "3.0e38", "123456.789", "-2.5e-45"):
        assert parse_constant(F32, text) == int(np.float32(text).view(np.uint32))
        assert parse_constant(F64, text) == struct.unpack("<Q", struct.pack("<d", float(text)))[0]
    assert parse_constant(BF16, "3.14") == int(np.array(3.14, ml_dtypes.bfloat16).view(np.uint16))
    assert (
        math.copysign(1, struct.unpack("<f", struct.pack("<I", parse_constant(F32, "-0.0")))[0]) < 0
    )


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (I8, "128"),
        (I8, "1.5"),
        (I8, "true"),
        (SCALARS["u8"], "-1"),
        (BOOL, "1"),
        (F32, "1e39"),
        (F32, "true"),
        (F32, "nan:0x3f800000"),
        (F32, "nan:0x17fc00000"),
        (F16, "70000.0"),
        (F8E4M3, "inf"),
    ],
)
def test_constants_that_are_none(kind, text):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - what it says is tested by the next
        parse_constant(kind, text)
    with pytest.raises(TextError, match=re.escape(str(caught.value))):
        parse_module(f"kernel k() {{\n  %c: {kind} = const {text}\n  return\n}}")


# ---- errors

K = "kernel k(%x: f32 from 0) {\n"
ERRORS = [
    ("hetir 2", 1, 6, "this text is hetIR 2, and hetIR 1 to 1 can be read"),
    ("colonel k() {", 1, 0, "expected `kernel`, `func`, `file` or `caller`, got `colonel`"),
    ("kernel", 1, 6, "expected the name of the kernel, got the end of the text"),
    ("kernel k(%x: f33 from 0) {", 1, 13, "expected a type, got `f33`"),
    ("kernel k(%x: f32) {", 1, 16, "expected `from`, got `)`"),
    ("kernel k(%x: f32 from 0, %x: f32 from 1) {", 1, 25, "`%x` is defined twice"),
    ("kernel k() speed=1 {", 1, 11, "expected `{` or one of the options subgroup_size, math"),
    (K + "  %y: f32 = nge %x\n}", 2, 12, "there is no op `nge`"),
    (K + "  %y: f32 = neg %z\n}", 2, 16, "`%z` is not defined before this place"),
    (K + "  %y: f32 = neg %y\n}", 2, 16, "`%y` is not defined before this place"),
    (K + "  %y: f32 = add %x,\n}", 2, 19, "expected a value, got the end of the line"),
    (K + "  %x: f32 = neg %x\n}", 2, 2, "`%x` is defined twice"),
    (K + "  %y: i8 = const 300\n}", 2, 17, "300 does not fit `i8`"),
    (K + "  %y: i64 = const\n}", 2, 17, "expected a number, got the end of the line"),
    (K + "  return return\n}", 2, 15, "expected `=`, got the end of the line"),
    (K + "  return #\n}", 2, 9, "expected the end of the line, got `#`"),
    (K + "  return", 2, 8, "expected the name of an op, got the end of the text"),
    (K + "  return @1:2-3\n}", 2, 9, "names a `file` or `caller` that the text does not list"),
    (K + '  print format="\\q"\n}', 2, 15, "this string cannot be read"),
    (K + "  print format=1.5\n}", 2, 15, "expected an integer, got `1.5`"),
    ('file 1 = "a"', 1, 5, "expected `0`: these lines are numbered from 0"),
    ('file 0 = "a\\u0000"', 1, 9, "no file can have this name"),
    ("kernel k(%x: array<f32[?, 3], global> from 0) {", 1, 36, "all numbers or all `?`"),
]


@pytest.mark.parametrize(("text", "line", "col", "message"), ERRORS)
def test_errors_point_at_the_place(text, line, col, message):
    with pytest.raises(TextError) as caught:
        parse_module(text, "bad.hir")
    assert message in caught.value.message
    loc = caught.value.labels[0].loc
    assert (loc.file, loc.line, loc.col) == ("bad.hir", line, col)


def test_an_error_is_drawn_with_a_caret():
    with pytest.raises(TextError) as caught:
        parse_module(K + "  %y: f32 = sqr %x\n}")
    parse_error = caught.value
    with pytest.raises(TextError):
        parse_module("something else")
    assert str(parse_error) == (
        "error[HET110]: there is no op `sqr`\n"
        " --> <hir>:2:13\n"
        "  |\n"
        "2 |   %y: f32 = sqr %x\n"
        "  |             ^^^\n"
        " = help: write `sqrt`"
    )


def test_deep_texts_are_refused():
    deep = "loop {\n" * (MAX_NESTING + 2)
    with pytest.raises(TextError, match="nested deeper than"):
        parse_module(f"kernel k() {{\n{deep}")
    with pytest.raises(TextError):
        parse_module(f"kernel k() {{\n safe_point id={'[' * 100000}")
    lines = "".join(f"caller {i + 1} = @1:0-1^{i}\n" for i in range(MAX_CALLERS + 1))
    with pytest.raises(TextError, match="at most"):
        parse_module('file 0 = "a"\ncaller 0 = @1:0-1\n' + lines)
    with pytest.raises(TextError):
        parse_module(f"kernel k(%x: i64 from {'9' * 100000}) {{\n")


def survives(text):
    """Parsing gives a module or an error that can be shown, and nothing else."""
    try:
        module = parse_module(text)
    except TextError as error:
        shown = str(error)
        assert shown.startswith("error[HET110]")
        assert "-->" in shown
        return False
    once = print_module(module)
    assert print_module(parse_module(once)) == once
    if not faults(module):
        assert print_module(decode(encode(module))) == once
    return True


def test_mutated_texts():
    rng = random.Random(2)
    texts = [print_module(random_module(seed, 10), locations=seed % 2 == 0) for seed in range(40)]
    pieces = [word for text in [*texts, EXAMPLE] for word in text.replace(" ", " \0").split("\0")]
    read = 0
    for _ in range(1200):
        text = rng.choice(texts)
        for _ in range(rng.choice((1, 1, 2, 4))):
            start = rng.randrange(len(text) + 1)
            new = rng.choice((rng.choice(pieces), rng.choice(pieces), chr(rng.randrange(256)), ""))
            text = text[:start] + new + text[start + rng.choice((0, 0, 1, len(new), 5)) :]
        read += survives(text)
    assert read > 40


@settings(max_examples=80, deadline=None)
@given(st.text(st.sampled_from('%abk01 \n{}()[]<>=,:.@"\\-^/?ékernel'), max_size=80) | st.text())
def test_any_text(text):
    survives(text)
    survives("kernel k(%a: f32 from 0) {\n" + text)


@pytest.mark.parametrize("value", [3, None, b"kernel"])
def test_only_text_is_read(value):
    with pytest.raises(TextError, match=f"got a `{type(value).__name__}`"):
        parse_module(value)
