"""What the emulator takes is PTX: NVIDIA's assembler takes it too, and the other way round."""

import itertools
import random
import re
import subprocess

import pytest
from ptx_emulator_support import PTXAS, module

from hetir.emulator.ptx import Machine, PtxError, parse

REGISTERS = ".reg .b16 %h<6>; .reg .b32 %r<6>; .reg .b64 %x<6>; .reg .b128 %q<6>; .reg .pred %p<6>;"
TYPES = [
    "b16",
    "b32",
    "b64",
    "u16",
    "u32",
    "u64",
    "s16",
    "s32",
    "s64",
    "f16",
    "f16x2",
    "bf16",
    "bf16x2",
    "f32",
    "f64",
    "u16x2",
    "s16x2",
]
PREFIX = {8: "%h", 16: "%h", 32: "%r", 64: "%x", 128: "%q"}


def register(kind: str, number: int) -> str:
    width = int(re.search(r"\d+", kind)[0]) * (2 if "x2" in kind else 1)
    return f"{PREFIX[width]}{number}"


def arithmetic():
    modifiers = ["", ".rn", ".rz", ".ftz", ".sat", ".rn.ftz", ".rn.sat", ".lo", ".hi", ".cc",
                 ".NaN", ".relu", ".rz.sat", ".ftz.NaN", ".NaN.xorsign.abs"]  # fmt: skip
    for op, t, m in itertools.product(["add", "sub", "mul", "min", "max"], TYPES, modifiers):
        yield f"{op}{m}.{t} {register(t, 1)}, {register(t, 2)}, {register(t, 3)};"
    modifiers = [
        ".rn",
        ".rn.ftz",
        ".rn.sat",
        ".rn.relu",
        ".rn.sat.relu",
        ".lo",
        ".hi",
        ".hi.sat",
        ".lo.cc",
    ]
    for op, t, m in itertools.product(["fma", "mad"], TYPES, modifiers):
        yield f"{op}{m}.{t} {', '.join(register(t, i) for i in (1, 2, 3, 4))};"
    ones = [
        "abs",
        "neg",
        "sqrt",
        "rsqrt",
        "sin",
        "cos",
        "lg2",
        "ex2",
        "tanh",
        "brev",
        "not",
        "cnot",
    ]
    for op, t, m in itertools.product(ones, TYPES, ["", ".rn", ".ftz", ".approx", ".approx.ftz"]):
        yield f"{op}{m}.{t} {register(t, 1)}, {register(t, 2)};"


def conversions():
    kinds = ["u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f16", "bf16", "f32", "f64"]
    modifiers = ["", ".rn", ".rz", ".rm", ".rni", ".rzi", ".rpi", ".sat", ".rn.sat", ".ftz",
                 ".rn.ftz", ".rzi.ftz", ".rn.relu", ".rn.satfinite", ".rzi.sat"]  # fmt: skip
    for d, s, m in itertools.product(kinds, kinds, modifiers):
        yield f"cvt{m}.{d}.{s} {register(d, 1)}, {register(s, 2)};"


def comparisons():
    names = ["eq", "ne", "lt", "hs", "lo", "ls", "equ", "neu", "num", "nan"]
    for c, t, m in itertools.product(names, TYPES, ["", ".and", ".ftz"]):
        last = ", %p3" if m == ".and" else ""
        p = "%p1|%p2" if "x2" in t else "%p1"
        yield f"setp.{c}{m}.{t} {p}, {register(t, 2)}, {register(t, 3)}{last};"
    for c, t, d in itertools.product(names, TYPES, ["u32", "f32", "u16", "f16", "bf16x2"]):
        yield f"set.{c}.{d}.{t} {register(d, 1)}, {register(t, 2)}, {register(t, 3)};"


def memory():
    spaces = ["", ".global", ".shared", ".local", ".const"]
    orders = ["", ".weak", ".relaxed.gpu", ".relaxed", ".acquire.cta", ".release.sys", ".volatile",
              ".mmio.relaxed.sys"]  # fmt: skip
    hints = ["", ".nc", ".ca", ".cg", ".wt", ".L1::no_allocate"]
    for op, space, order, hint in itertools.product(["ld", "st"], spaces, orders, hints):
        for v, t in (
            ("", "u8"),
            ("", "f32"),
            ("", "b64"),
            (".v4", "b32"),
            ("", "f16"),
            ("", "b128"),
        ):
            data = register(t, 1) if not v else "{%r0, %r1, %r2, %r3}"
            head = f"{op}{order}{space}{hint}{v}.{t}"
            yield f"{head} {data}, [%x4];" if op == "ld" else f"{head} [%x4], {data};"


def atomics():
    orders = [
        "",
        ".relaxed.gpu",
        ".acquire.cta",
        ".acq_rel.sys",
        ".release.gpu",
        ".relaxed",
        ".sys",
    ]
    names = ["add", "add.noftz", "and", "min", "inc", "exch", "cas", "sub"]
    kinds = [
        "b16",
        "b32",
        "b64",
        "b128",
        "u32",
        "s32",
        "u64",
        "s64",
        "f32",
        "f64",
        "f16",
        "f16x2",
        "bf16",
        "bf16x2",
    ]
    for op, order, space, name, t in itertools.product(
        ["atom", "red"], orders, ["", ".global", ".shared", ".local"], names, kinds
    ):
        more = f", {register(t, 3)}" if name == "cas" else ""
        result = f"{register(t, 1)}, " if op == "atom" else ""
        yield f"{op}{order}{space}.{name}.{t} {result}[%x4], {register(t, 2)}{more};"


UNDOCUMENTED = (
    r"cvt\.(f16\.bf16|bf16\.f16) ",  # taken without a rounding modifier
    r"fma\.rz\.",
)
"""What the assembler takes, and the ISA document does not have."""


@pytest.mark.parametrize("family", [arithmetic, conversions, comparisons, memory, atomics])
def test_emulator_and_assembler_take_the_same(family):
    bodies = list(family())
    bodies = random.Random(3).sample(bodies, min(700, len(bodies)))
    head = module("", "sm_90")
    lines = [f".visible .entry k{i}() {{ {REGISTERS} {b} ret; }}" for i, b in enumerate(bodies)]
    first = head.count("\n") + 1
    text = head + "\n".join(lines)
    done = subprocess.run([PTXAS, "-arch", "sm_90", "-o", "/dev/null", "-"], input=text, text=True,
                          capture_output=True, check=False)  # fmt: skip
    refused = {
        int(n) - first
        for n in re.findall(r"line (\d+); (?:error|fatal)", done.stderr + done.stdout)
    }
    machine, differ = Machine(parse(text)), []
    for i, body in enumerate(bodies):
        try:
            machine.program(f"k{i}")
            takes = True
        except PtxError:
            takes = False
        if takes == (i in refused) and not any(re.search(p, body) for p in UNDOCUMENTED):
            differ.append(f"{'takes' if takes else 'refuses'} {body}")
    assert len(bodies) > len(refused) > 0
    assert not differ, differ[:10]
