"""Figures of compiled kernels: registers by estimate and assembler, shared memory to the byte."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir import compiler, library, limits
from hetir.artifact import Artifact
from hetir.backends import ptx
from hetir.backends.cpu import stack as cpu_stack
from hetir.backends.ptx import assembler
from hetir.diagnostics import CompileError
from hetir.frontend import Static, parse_signature
from hetir.ir.core import Kernel
from hetir.ir.text import parse_kernel
from hetir.passes.pressure import live_words, registers
from hetir.passes.simplify import simplify
from hetir.residency import OccupancyInputError

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools import measure_registers

PTX = [name for name in limits.targets() if name.startswith("ptx:")]
EVERY = [*("cpu", "hetir", "spirv:opencl", "spirv:vulkan"), *PTX]
ASCEND = [name for name in limits.targets() if name.startswith("ascend:")]


# Liveness, counted by hand -----------------------------------------------------------------------


def _kernel(*lines: str) -> Kernel:
    head = "kernel k(%a: f32 from 0, %d: f64 from 1, %n: i64 from 2, %p: i32 from 3) {"
    return parse_kernel("\n".join([head, *lines, "return", "}"]))


def test_parameters_constants_and_predicates_take_no_registers() -> None:
    assert live_words(_kernel("%c: f32 = const 1.0", "%b: bool = lt %a, %c")) == 0


def test_words_by_width() -> None:
    # both operands of the last op are live at once
    assert (
        live_words(_kernel("%x: f32 = neg %a", "%y: f32 = abs %a", "%z: f32 = add %x, %y")) == 2 + 1
    )
    wide = _kernel("%x: f64 = neg %d", "%y: f64 = abs %d", "%z: f64 = add %x, %y")
    assert live_words(wide) == 2 * (2 + 1)


def test_what_is_known_to_fit_takes_one_word() -> None:
    # ids fit at launches with 32-bit indices, whose offsets of 8-byte elements may not
    assert live_words(_kernel("%x: i64 = local_id axis=0", "%y: i64 = neg %x")) == 1 + 1
    assert live_words(_kernel("%x: i64 = global_id axis=0", "%y: i64 = neg %x")) == 1 + 1
    offset = ("%x: i64 = global_id axis=0", "%e: i64 = const 8", "%y: i64 = mul %x, %e")
    assert live_words(_kernel(*offset, "%z: i64 = neg %y")) == 2 + 2


def test_a_value_is_live_until_its_last_use() -> None:
    early = ["%x: f32 = neg %a", "%y: f32 = neg %x", "%z: f32 = neg %y", "%w: f32 = neg %z"]
    assert live_words(_kernel(*early)) == 2
    assert live_words(_kernel(*early, "%v: f32 = add %w, %x")) == 3


def test_what_a_loop_takes_from_outside_is_live_all_through_it() -> None:
    loop = [
        *("%x: f32 = neg %a", "%y: f32 = abs %a", "%zero: i64 = const 0", "%one: i64 = const 1"),
        "%sum: f32 = for %zero, %n, %one, %x (%i: i64, %s: f32) {",
        *("%t: f32 = add %s, %y", "yield %t", "}"),
    ]
    # y, the index (64 bits: n may be anything), the sum before and after an addition
    assert live_words(_kernel(*loop)) == 1 + 2 + 2
    assert live_words(_kernel(*loop, "%r: f32 = add %sum, %x")) == 1 + 2 + 2 + 1


def test_arms_of_an_if_share_registers() -> None:
    arms = [
        *("%c: bool = lt %a, %a", "%r: f32 = if %c {", "%x: f32 = neg %a", "%y: f32 = neg %x"),
        *("yield %y", "} else {", "%z: f32 = neg %a", "%w: f32 = neg %z", "yield %w", "}"),
    ]
    assert live_words(_kernel(*arms)) == 2


# The estimate beside NVIDIA's assembler ----------------------------------------------------------


SOME = library.NAMES[:10]
SLOW = [
    pytest.param(library.NAMES, chip, marks=pytest.mark.slow)
    for chip in ("sm_75", "sm_80", "sm_86", "sm_90", "sm_120")
]


@pytest.mark.parametrize(("names", "chip"), [(SOME, "sm_75"), (SOME, "sm_90"), *SLOW])
def test_half_of_the_estimates_are_within_15_percent(
    names: Sequence[str], chip: str, capsys: pytest.CaptureFixture[str]
) -> None:
    errors: list[float] = []
    for kernel, workgroup in measure_registers.library_kernels(names):
        guess, found = measure_registers.compare(kernel, workgroup, f"ptx:{chip}")
        errors.append(abs(guess - found) / found)
    with capsys.disabled():
        if names is not SOME:
            print(f"\n{chip}: median {median(errors):.1%}, most {max(errors):.0%}")  # noqa: T201
    assert median(errors) <= 0.15


def test_a_loop_that_reads_memory_loads_ahead() -> None:
    (kernel, _), *_ = measure_registers.library_kernels(("spmv",))
    emitted = ptx.lowered(simplify(kernel), target="ptx:sm_90")
    assert registers(emitted) == live_words(emitted) + 5 + 3
    (kernel, _), *_ = measure_registers.library_kernels(("saxpy",))
    emitted = ptx.lowered(simplify(kernel), target="ptx:sm_90")
    assert registers(emitted) == live_words(emitted) + 5


def test_figures_come_from_the_assembler_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transpose = library.load(library.folder() / "transpose.py").transpose
    made = hetir.compile(transpose, target="ptx:sm_90", workgroup=(32, 8))
    assert made.resources.source.startswith("ptxas ")
    assert made.resources.shared_bytes == 4 * 32 * 33
    monkeypatch.setattr(assembler, "find", lambda _: None)
    monkeypatch.setattr(assembler.nvjitlink, "find", lambda: None)
    guessed = hetir.compile(transpose, target="ptx:sm_90", workgroup=(32, 8))
    assert guessed.resources.source == "hetir's estimate"
    assert made.resources.registers is not None
    assert guessed.resources.registers is not None
    # docs/occupancy.md: nine kernels of ten are nearer
    assert (
        abs(guessed.resources.registers - made.resources.registers)
        <= 0.28 * made.resources.registers
    )


# Occupancy of artifacts --------------------------------------------------------------------------


def _saxpy(target: str, workgroup: Any = None) -> Artifact:
    saxpy = library.load(library.folder() / "saxpy.py").saxpy
    return hetir.compile(saxpy, target=target, workgroup=workgroup)


def test_an_artifact_tells_its_occupancy() -> None:
    made = _saxpy("ptx:sm_90", 256)
    answer = made.occupancy()
    assert answer.request.registers == made.resources.registers
    assert (answer.groups_per_unit, answer.fraction) == (8, 1.0)
    # 255 registers a work-item round to 256: 65536 hold one group of 256
    assert made.occupancy(registers=255).groups_per_unit == 1
    assert made.occupancy(workgroup=1024).groups_per_unit == 2
    assert _saxpy("cpu", 64).occupancy().groups_per_unit == 1


def test_portable_code_asks_for_a_device() -> None:
    made = _saxpy("spirv:opencl", 256)
    with pytest.raises(OccupancyInputError, match="name a device"):
        made.occupancy()
    assert made.occupancy("amd:gfx1100").groups_per_unit > 0
    with pytest.raises(OccupancyInputError, match="compiled for any workgroup"):
        _saxpy("spirv:opencl").occupancy("amd:gfx1100")


# LLVM's own figures ------------------------------------------------------------------------------


def test_spills_of_assembly() -> None:
    x86 = "f:\n\tmovq\t%r8, 72(%rsp)  # 8-byte Spill\n\tmovups\t%zmm0, (%rsp)  # 64-byte Spill\n"
    assert cpu_stack.spilled(x86 + "\tmovq\t72(%rsp), %r8  # 8-byte Reload\n") == 72
    arm = "f:\n\tstp\tx29, x30, [sp, #-96]!  // 16-byte Folded Spill\n"
    assert cpu_stack.spilled(arm) == 16
    assert cpu_stack.spilled("f:\n\tret\n") == 0


@hetir.kernel
def busy(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    total = hl.f32(0)
    # sixty values live at once: more than there are registers
    values = tuple(x[i + hl.i64(k)] for k in hl.static_range(60))
    for k in hl.static_range(60):
        total = total * values[k] + values[59 - k]
    y[i] = total


@hetir.kernel
def idle(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    y[0] = x[0]


def test_cpu_artifacts_say_what_they_spill() -> None:
    for kernel, spills in ((busy, True), (idle, False)):
        found = hetir.compile(kernel, target="cpu:x86-64", workgroup=64).resources
        assert found.spill_bytes is not None
        assert (found.spill_bytes > 0) == spills, kernel.name
        assert "LLVM" in found.source


# Shared memory: exactly the limit compiles, one byte more does not -------------------------------

SOURCE = """\
import hetir, hetir.lang as hl

@hetir.kernel
def fill(y: hl.Array[hl.u8, 1], odd: hl.static, rest: hl.static):
    i = hl.local_id(0)
    small = hl.shared(odd, hl.u8)
    block = hl.shared(rest, hl.u8)
    small[i] = y[i]
    block[i] = y[i]
    hl.barrier()
    y[i] = small[odd - 1 - i] + block[rest - 1 - i]
"""


@pytest.fixture(scope="module")
def fill(tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("limits") / "fill.py"
    file.write_text(SOURCE)
    return library.load(file).fill


def _traced(fill: Any, size: int, target: str) -> Kernel:
    """The kernel whose arrays take `size` bytes: 13, padding to the alignment, and the rest."""
    rest = size - limits.limits_of(target).shared_alignment
    arguments = fill.specialise((np.zeros(64, np.uint8), 13, rest))
    return compiler.prepare(compiler.record(fill, arguments).module)


@pytest.mark.parametrize("target", EVERY)
def test_exactly_the_limit_compiles(fill: Any, target: str) -> None:
    allowed = limits.limits_of(target)
    for size in {allowed.shared_bytes, allowed.shared_bytes + 1, allowed.shared_bytes_optin}:
        if size <= allowed.shared_bytes_optin:
            made = compiler.lower(_traced(fill, size, target), target, (13, 1, 1))
            assert size <= made.resources.shared_bytes <= -(-size // 64) * 64
    with pytest.raises(limits.SharedMemoryError) as refused:
        compiler.lower(_traced(fill, allowed.shared_bytes_optin + 1, target), target, (13, 1, 1))
    assert f"asks for {allowed.shared_bytes_optin + 1} bytes" in refused.value.message
    assert f"has {allowed.shared_bytes_optin}" in refused.value.message


@pytest.mark.parametrize("target", ["cpu", "ptx:sm_90", "spirv:opencl", "spirv:vulkan"])
def test_private_arrays_too_large_are_refused_at_their_line(target: str) -> None:
    @hetir.kernel
    def kernel(y, n: hl.static):
        t = hl.private(n, hl.i8)
        t[hl.global_id(0)] = 1
        y[0] = t[0]

    most = limits.limits_of(target).private_bytes
    array = parse_signature("i8[:]")
    compiler.check_limits(
        compiler.prepare(compiler.record(kernel, (*array, Static(most))).module), target, None
    )
    with pytest.raises(limits.PrivateMemoryError) as refused:
        hetir.compile(kernel, (*array, Static(most + 1)), target=target)
    text = str(refused.value)
    assert f"asks for {most + 1} bytes" in text
    assert "t = hl.private(n, hl.i8)" in text


@pytest.mark.parametrize("target", ASCEND)
def test_exactly_the_unified_buffer_is_allowed(fill: Any, target: str) -> None:
    most = limits.limits_of(target).shared_bytes_optin
    compiler.check_limits(_traced(fill, most, target), target, None)
    with pytest.raises(limits.UnifiedBufferError, match=f"{most + 1} bytes of Unified Buffer"):
        compiler.check_limits(_traced(fill, most + 1, target), target, None)


GOLDEN = ("cpu", "spirv:vulkan", "ptx:sm_75", "ptx:sm_90", "ascend:910b", "ascend:950")


@pytest.mark.parametrize("target", GOLDEN)
def test_the_error_for_one_byte_more(
    fill: Any, target: str, golden: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(fill.function.__code__.co_filename).parent)
    kernel = _traced(fill, limits.limits_of(target).shared_bytes_optin + 1, target)
    with pytest.raises(CompileError) as refused:
        compiler.lower(kernel, target)
    golden.check(f"limits/compiled_{target.replace(':', '_')}.txt", f"{refused.value}\n")
