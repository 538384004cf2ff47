"""The kernel library as PTX: the evaluator's bits, no spills, the same text, the right SASS."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from hetir import compiler, library, runtime
from hetir.backends.llvm import machine
from hetir.backends.ptx import assembler, compile_kernel, sass
from hetir.cli.main import app
from hetir.diagnostics import HetirError
from hetir.frontend import parse_signature
from hetir.ir.core import Kernel
from hetir.ir.text import parse_kernel
from hetir.passes.simplify import simplify
from hetir.target import Assumptions
from hetir.testing import differences
from tests.unit.ptx_support import CHIPS, assemble_together, promised

NVDISASM = assembler.find("nvdisasm")
LLVM_OF_GOLDEN = "22."


@pytest.mark.parametrize("name", library.NAMES)
def test_bits_are_the_evaluators(name: str) -> None:
    results = []
    for device in ("emulator", "ptx-emulator"):
        case = library.case(name, size=library.SMALL[name])
        case.run(device)
        assert case.error() <= case.tolerance
        results.append([np.array(v) for v in case.results.values()])
    assert not differences(*results)


@pytest.mark.slow
@pytest.mark.parametrize("chip", [c for c in CHIPS if c != "sm_90"])
@pytest.mark.parametrize("name", library.NAMES)
def test_every_generations_code_has_the_evaluators_bits(name: str, chip: str) -> None:
    expected, case = (library.case(name, size=library.SMALL[name]) for _ in range(2))
    expected.run("emulator")
    device = runtime.device("ptx-emulator")
    for step in case.steps:
        values = tuple(map(runtime.as_operand, step.arguments))
        found = compiler.prepare(
            compiler.record(step.kernel, step.kernel.specialise(values)).module
        )
        given = [step.arguments[int(p.source[0])] for p in found.params]
        promises = promised(found, given, disjoint=True, copied=True)
        workgroup = compiler.dims(step.workgroup)
        artifact = compiler.lower(found, f"ptx:{chip}", workgroup, promises)
        program = device.load(artifact, step.kernel.parameters)
        program.launch(step.arguments, grid=step.grid, workgroup=step.workgroup).wait()
    results = [[np.array(v) for v in c.results.values()] for c in (expected, case)]
    assert not differences(*results)


@cache
def library_kernels() -> tuple[tuple[Kernel, tuple[int, int, int]], ...]:
    """Every kernel of the library with the workgroup that it is launched with."""
    found: dict[str, tuple[Kernel, tuple[int, int, int]]] = {}
    for name in library.NAMES:
        for step in library.case(name, size=library.SMALL[name]).steps:
            values = tuple(map(runtime.as_operand, step.arguments))
            traced = compiler.record(step.kernel, step.kernel.specialise(values))
            kernel = simplify(compiler.prepare(traced.module))
            found[step.kernel.name] = kernel, compiler.dims(step.workgroup)
    return tuple(found.values())


def figures(log: str) -> dict[str, tuple[int, int, int]]:
    """Registers, static shared bytes and spilled bytes of each entry, as `ptxas -v` says."""
    found = {}
    for part in log.split("Compiling entry function")[1:]:
        name = re.search(r"'hetir_kernel_(\w+?)_\d+'", part)
        patterns = (r"Used (\d+) reg", r"(\d+) bytes smem", r"(\d+) bytes spill st")
        counts = [re.search(pattern, part) for pattern in patterns]
        assert name is not None
        found[name[1]] = tuple(0 if c is None else int(c[1]) for c in counts)
    return found


@pytest.mark.parametrize(
    "chip", [pytest.param(c, marks=() if c == "sm_90" else pytest.mark.slow) for c in CHIPS]
)
def test_the_library_spills_nothing(chip: str, capsys: pytest.CaptureFixture[str]) -> None:
    texts = [
        compile_kernel(k, target=f"ptx:{chip}", binary=False, workgroup=w).text
        for k, w in library_kernels()
    ]
    found = figures(assemble_together(texts, chip))
    assert len(found) == len(library_kernels()) >= 24
    with capsys.disabled():
        if chip != "sm_90":
            print(f"\n{chip:24} registers  shared  spilled")  # noqa: T201
            for name, row in sorted(found.items()):
                print(f"  {name:22} {row[0]:9} {row[1]:7} {row[2]:8}")  # noqa: T201
    assert {name: row[2] for name, row in found.items() if row[2]} == {}


SIGNATURES = {
    "saxpy": "f32, f32[::1], f32[::1]",
    "transpose": "f32[:,::1], f32[:,::1]",
    "histogram": "u8[:], i32[:]",
}
MESSAGE = """hetir 1
kernel message(%data: array<i32[?], global> from 0, %flag: array<i32[?], global> from 1) {
  %zero: i64 = const 0
  %one: i32 = const 1
  %g: i64 = group_id axis=0
  %first: bool = eq %g, %zero
  if %first {
    store %data, %zero, %one
    fence order=release scope=device
    atomic.store %flag, %zero, %one order=relaxed scope=device
    yield
  } else {
    %seen: i32 = atomic.load %flag, %zero order=acquire scope=device
    %old: i32 = atomic.rmw %flag, %zero, %one kind=add order=acq_rel scope=device
    fence order=seq_cst scope=system
    %sum: i32 = add %seen, %old
    store %data, %zero, %sum
    yield
  }
  return
}
"""


def library_kernel(name: str, signature: str) -> Kernel:
    kernel = getattr(library.load(library.folder() / f"{name}.py"), name)
    traced = compiler.record(kernel, parse_signature(signature))
    return simplify(compiler.prepare(traced.module))


@pytest.mark.parametrize("chip", ["sm_75", "sm_90"])
@pytest.mark.parametrize("name", [*SIGNATURES, "message"])
def test_golden_text(name: str, chip: str, golden: Any) -> None:
    if not machine.version().startswith(LLVM_OF_GOLDEN):
        pytest.skip(f"the golden PTX is LLVM {LLVM_OF_GOLDEN}x's, this is {machine.version()}")
    message = name == "message"
    kernel = parse_kernel(MESSAGE) if message else library_kernel(name, SIGNATURES[name])
    # as the launch path compiles them, but for the size of the workgroup
    whole = Assumptions(index_bits=32, disjoint=True, aligned=(True,) * len(kernel.params))
    made = compile_kernel(
        kernel,
        target=f"ptx:{chip}",
        binary=not message,
        assumptions=Assumptions() if message else whole,
    )
    golden.check(f"ptx/{name}.{chip}.ptx", made.text)
    if assembler.find("ptxas") and not message:
        assert made.binary is not None
        assert made.binary[:4] == b"\x7fELF"


@pytest.mark.skipif(NVDISASM is None, reason="no nvdisasm: pip install nvidia-cuda-nvdisasm")
@pytest.mark.parametrize("chip", ["sm_80", "sm_90"])
def test_fences_reach_the_machine_code(chip: str) -> None:
    """FACTS of NVIDIA's own SASS: the order and scope of each operation are executed."""
    text = sass(compile_kernel(parse_kernel(MESSAGE), target=f"ptx:{chip}"))
    lines = [line.split("*/")[1] for line in text.splitlines() if "*/ " in line]
    shown = "\n".join(line for line in lines if re.search("MEMBAR|CCTL|STRONG|ATOM", line))
    assert re.search(r"MEMBAR\.(ALL|SC)\.GPU", shown)
    assert re.search(r"ST[.\w]*\.STRONG\.GPU", shown)
    assert re.search(r"LD[.\w]*\.STRONG\.GPU", shown)
    assert re.search(r"MEMBAR\.SC\.SYS", shown)
    assert re.search(r"ATOMG?[.\w]*\.ADD[.\w]*\.STRONG\.GPU", shown)
    assert "CCTL.IVALL" in shown


# ---- artifacts ---------------------------------------------------------------------------


def test_an_artifact_has_a_cubin_and_the_assemblers_figures() -> None:
    made = compile_kernel(library_kernel("saxpy", SIGNATURES["saxpy"]), target="ptx:sm_90a")
    assert made.binary is not None
    assert made.resources.registers is not None
    assert 4 <= made.resources.registers <= 32
    assert made.resources.spill_bytes == 0
    assert re.fullmatch(r"ptxas \d+\.\d+\.\d+", made.resources.source)


def test_without_an_assembler_there_is_ptx_and_a_guess_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HETIR_PTXAS", "/there/is/none")
    assembler.find.cache_clear()
    try:
        made = compile_kernel(library_kernel("saxpy", SIGNATURES["saxpy"]), target="ptx:sm_90")
        assert made.binary is None
        assert made.resources.spill_bytes is None
        assert "estimate" in made.resources.source
        with pytest.raises(assembler.AssemblerError, match="`ptxas` is not here"):
            sass(made)
    finally:
        assembler.find.cache_clear()


def test_what_the_assembler_refuses_is_said() -> None:
    wrong = ".version 7.0\n.target sm_80\n.address_size 64\n.entry k() { nonsense.b32; }\n"
    said = r"ptxas \d.* refuses the PTX for `sm_80`: .*nonsense"
    with pytest.raises(assembler.AssemblerError, match=said):
        assembler.assemble(wrong, "sm_80")


def test_the_assembler_is_part_of_the_cache_key(tmp_path: Any, monkeypatch: Any) -> None:
    from hetir.backends.ptx import fingerprint

    tool = tmp_path / "ptxas"
    keys = []
    for content in ("#!/bin/sh\n", "#!/bin/sh\n# another\n"):
        tool.write_text(content)
        tool.chmod(0o755)
        monkeypatch.setenv("HETIR_PTXAS", str(tool))
        assembler.find.cache_clear()
        keys += [fingerprint("ptx:sm_90"), fingerprint("ptx:sm_80")]
    assembler.find.cache_clear()
    assert len(set(keys)) == 4


# ---- the device --------------------------------------------------------------------------


def test_the_device_reports_faults_prints_and_failed_checks(capsys: Any) -> None:
    import hetir
    import hetir.lang as hl

    @hetir.kernel
    def show(x: hl.Array[hl.f32, 1]):
        i = hl.global_id(0)
        hl.print("item {} has {}", i, x[i])

    @hetir.kernel(debug=True)
    def beyond(x: hl.Array[hl.f32, 1]):
        x[hl.global_id(0) + 2] = 1.0

    x = np.arange(2, dtype=np.float32)
    show.launch((x,), grid=1, workgroup=2, device="ptx-emulator").wait()
    assert capsys.readouterr().out == "item 0 has 0.0\nitem 1 has 1.0\n"
    with pytest.raises(Exception, match=r"index \(2\) is out of bounds for `x` of shape \(2\)"):
        beyond.launch((x,), grid=1, workgroup=1, device="ptx-emulator").wait()
    assert (x == [0, 1]).all()


def test_a_fault_of_the_emulator_belongs_to_its_launch() -> None:
    import hetir
    import hetir.lang as hl

    @hetir.kernel
    def wild(x: hl.Array[hl.f32, 1]):
        x[hl.global_id(0) + 100_000] = 1.0

    x = np.zeros(2, np.float32)
    for _ in range(2):
        launch = wild.launch((x,), grid=1, workgroup=1, device="ptx-emulator")
        with pytest.raises(HetirError, match="lie in no allocation"):
            launch.wait()
    hetir.device("ptx-emulator").wait()


def test_the_command_line_writes_and_shows_code(tmp_path: Any) -> None:
    def run(*args: str) -> str:
        done = CliRunner().invoke(app, [*args, "--signature", "f32, f32[:], f32[:]"])
        assert done.exit_code == 0, done.output
        return done.output

    ptx = tmp_path / "saxpy.ptx"
    said = run("build", "kernels/saxpy.py", "--target", "ptx:sm_86", "-o", str(ptx))
    assert "entry `hetir_kernel_saxpy`" in said
    assert ".target sm_86" in ptx.read_text()
    assert ".entry hetir_kernel_saxpy(" in run("inspect", "kernels/saxpy.py", "--stage", "ptx")
    if assembler.find("ptxas"):
        cubin = tmp_path / "saxpy.cubin"
        said = run("build", "kernels/saxpy.py", "--target", "ptx:sm_90", "-o", str(cubin))
        assert "registers, 0 bytes spilled" in said
        assert cubin.read_bytes()[:4] == b"\x7fELF"
        if NVDISASM:
            assert "EXIT" in run("inspect", "kernels/saxpy.py", "--stage", "sass")


def test_a_cubin_without_an_assembler_is_refused(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("HETIR_PTXAS", "/there/is/none")
    assembler.find.cache_clear()
    cubin = tmp_path / "saxpy.cubin"
    command = ["build", "kernels/saxpy.py", "--target", "ptx:sm_90", "-o", str(cubin)]
    done = CliRunner().invoke(app, [*command, "--signature", "f32, f32[:], f32[:]"])
    assembler.find.cache_clear()
    assert "needs NVIDIA's assembler" in str(done.exception)
    assert not cubin.exists()


def test_debug_kernels_lead_back_to_their_lines() -> None:
    """`.file` and `.loc` name the Python file and the line of each statement, helpers' too."""
    import hetir
    import hetir.lang as hl

    @hetir.kernel(debug=True)
    def steps(x: hl.Array[hl.f32, 1]):
        i = hl.global_id(0)
        x[i] = x[i] * 3.0
        x[i] = hl.exp(x[i])

    traced = compiler.record(steps, steps.annotated())
    kernel = simplify(compiler.prepare(traced.module))
    made = compile_kernel(kernel, target="ptx:sm_90")
    files = dict(re.findall(r'^\s*\.file\s+(\d+) "(.*)"', made.text, re.MULTILINE))
    (own,) = (number for number, name in files.items() if name == __file__)
    assert any(name.endswith("exponential.py") for name in files.values())
    first = steps.function.__code__.co_firstlineno + 1
    lines = {int(n) for n in re.findall(rf"^\s*\.loc\s+{own} (\d+) ", made.text, re.MULTILINE)}
    assert {first + 1, first + 2} <= lines
    assert ".loc" not in compile_kernel(kernel, target="ptx:sm_90", lines=False).text
