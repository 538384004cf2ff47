"""One LLVM module, compiled for this processor and for PTX: both give the same bits."""

import ctypes
import itertools

import llvmlite.binding as llvm
import numpy as np
import pytest

from hetir.emulator.ptx import Machine, parse

LANES = 64
INTEGERS = ("i8", "i16", "i32", "i64", "<2 x i16>", "<4 x i8>", "<3 x i32>")
FLOATS = ("float", "double", "<2 x float>")
MANGLED = {"float": "f32", "double": "f64"}
WIDTH = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8}


def mangled(kind):
    if not kind.startswith("<"):
        return MANGLED.get(kind, kind)
    count, _, part = kind[1:-1].split()
    return f"v{count}{MANGLED.get(part, part)}"


def element(kind):
    return kind.strip("<>").split()[-1]


def intrinsic(name, kind, operands, flag=""):
    call = f"@llvm.{name}.{mangled(kind)}"
    given = ", ".join(f"{kind} %{x}" for x in "abc"[:operands]) + (", i1 false" if flag else "")
    declared = ", ".join([kind] * operands + (["i1"] if flag else []))
    return f"%r = call {kind} {call}({given})", f"declare {kind} {call}({declared})"


def bodies():
    """Type of the operands, type of the result, instructions, declarations."""
    for kind in INTEGERS:
        for op in [
            "add",
            "sub",
            "mul",
            "and",
            "or",
            "xor",
            "udiv",
            "sdiv",
            "urem",
            "srem",
            "shl",
            "lshr",
            "ashr",
        ]:
            yield kind, kind, f"%r = {op} {kind} %a, %b", ""
        for name, count, flag in (("ctpop", 1, ""), ("ctlz", 1, "i1"), ("cttz", 1, "i1"),
                                  ("bitreverse", 1, ""), ("fshl", 3, ""), ("fshr", 3, ""),
                                  ("abs", 1, "i1"), ("umin", 2, ""), ("smax", 2, ""),
                                  ("sadd.sat", 2, ""), ("usub.sat", 2, "")):  # fmt: skip
            yield kind, kind, *intrinsic(name, kind, count, flag)
    for kind in FLOATS:
        for op in ("fadd", "fsub", "fmul", "fdiv"):
            yield kind, kind, f"%r = {op} {kind} %a, %b", ""
        for name, count in (("fabs", 1), ("sqrt", 1), ("floor", 1), ("ceil", 1), ("trunc", 1),
                            ("rint", 1), ("copysign", 2), ("minnum", 2)):  # fmt: skip
            yield kind, kind, *intrinsic(name, kind, count)
    scalars = ("i8", "i16", "i32", "i64")
    for whole, real in itertools.product(scalars, ("float", "double")):
        yield whole, real, f"%r = sitofp {whole} %a to {real}", ""
        yield whole, real, f"%r = uitofp {whole} %a to {real}", ""
        for op in ("fptosi.sat", "fptoui.sat"):
            name = f"@llvm.{op}.{whole}.{MANGLED[real]}"
            yield (
                real,
                whole,
                f"%r = call {whole} {name}({real} %a)",
                f"declare {whole} {name}({real})",
            )
    for narrow, wide in itertools.combinations(scalars, 2):
        yield wide, narrow, f"%r = trunc {wide} %a to {narrow}", ""
        yield narrow, wide, f"%r = sext {narrow} %a to {wide}", ""
    for kind, tests in (("i32", "eq slt uge"), ("i64", "ne sgt ule"), ("float", "olt uge ord ueq"),
                        ("double", "oeq une ult")):  # fmt: skip
        op = "icmp" if kind[0] == "i" else "fcmp"
        for test in tests.split():
            pick = f"%q = {op} {test} {kind} %a, %b\n %r = select i1 %q, {kind} %b, {kind} %c"
            yield kind, kind, pick, ""


CASES = list(bodies())


def text(for_ptx: bool) -> str:
    """Every case as a function; operands lie 16 bytes apart, 48 bytes a lane."""
    lines = sorted({case[3] for case in CASES})
    if for_ptx:
        lines = ['target triple = "nvptx64-nvidia-cuda"', *lines]
        lines.append("declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()")
    call = "ptx_kernel " if for_ptx else ""
    lane = "call i32 @llvm.nvvm.read.ptx.sreg.tid.x()" if for_ptx else "add i32 %n, 0"
    for number, (kind, result, body, _) in enumerate(CASES):
        lines += [f"define {call}void @k{number}(ptr %o, ptr %in, i32 %n) {{", f" %t = {lane}"]
        lines += [" %t1 = mul i32 %t, 16", " %t3 = mul i32 %t, 48"]
        lines += [" %out = getelementptr i8, ptr %o, i32 %t1"]
        for at, name in enumerate("abc"):
            lines += [f" %at{name} = getelementptr i8, ptr %in, i32 %t3"]
            lines += [f" %p{name} = getelementptr i8, ptr %at{name}, i32 {16 * at}"]
            lines += [f" %{name} = load {kind}, ptr %p{name}, align 16"]
        lines += [f" {body}", f" store {result} %r, ptr %out", " ret void", "}"]
    return "\n".join(lines)


def operands(kind, body, rng):
    raw = rng.integers(0, 256, (LANES, 48), dtype=np.uint8)
    width = WIDTH[element(kind)]
    if element(kind) in MANGLED:
        values = rng.normal(size=(LANES, 48 // width)) * 50
        values[:6] = np.array([0, -0.0, 1, np.inf, -1, np.nan])[:, None]
        values[6:20] = np.round(values[6:20]) / 2
        return values.astype(f"f{width}").view(np.uint8)
    if any(op in body for op in ("div", "rem", "shl", "lshr", "ashr")):
        # in range: no division by zero nor overflow, no shift by the width
        raw[:, 16:32] = 0
        raw[:, 16:32:width] = rng.integers(1, 8 * width, (LANES, 16 // width))
    return raw


@pytest.fixture(scope="module")
def compiled():
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    host = llvm.parse_assembly(text(False))
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    engine = llvm.create_mcjit_compiler(host, machine)
    engine.finalize_object()
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    ptx = target.create_target_machine(cpu="sm_90", features="+ptx83", opt=3)
    return engine, Machine(parse(ptx.emit_assembly(llvm.parse_assembly(text(True)))))


@pytest.mark.parametrize("part", range(4))
def test_processor_and_ptx_agree(compiled, part):
    engine, machine = compiled
    rng = np.random.default_rng(part)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    for number in range(part, len(CASES), 4):
        kind, result, body, _ = CASES[number]
        given = operands(kind, body, rng)
        want, got = (np.zeros((LANES, 16), np.uint8) for _ in range(2))
        function = call(engine.get_function_address(f"k{number}"))
        for lane in range(LANES):
            function(want.ctypes.data, given.ctypes.data, lane)
        machine.launch(f"k{number}", 1, LANES, [got, given, 0])
        if element(result) in MANGLED:
            dtype = f"f{WIDTH[element(result)]}"
            values = [x.view(dtype) for x in (got, want)]
            got, want = (np.where(np.isnan(v), 0.125, v).view(np.uint8) for v in values)
        assert (got == want).all(), body
