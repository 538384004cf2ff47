"""`hetir fences`, certificates, and `fences="checked"`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import hetir
import hetir.lang as hl
from hetir import compiler
from hetir.cli import main as cli
from hetir.memory.check import Checker
from hetir.memory.claim import Quantifier, constants
from hetir.memory.litmus import Litmus
from hetir.memory.litmus.reader import parse
from hetir.passes.certificate import CertificateError, one_step
from hetir.passes.harness import HarnessError

SOURCE = """
import hetir
import hetir.lang as hl


@hetir.kernel
def message(data: hl.Array[hl.i32, 1], flag: hl.Array[hl.i32, 1], out: hl.Array[hl.i32, 1]):
    if hl.group_id(0) == 0:
        data[hl.local_id(0)] = 42
        hl.fence("release", "device")
        hl.barrier()
        if hl.local_id(0) == 0:
            hl.atomic_store(flag, 0, 1, order="release")
    else:
        while hl.atomic_load(flag, 0, order="acquire") == 0:
            pass
        out[hl.local_id(0)] = data[hl.local_id(0)]


@hetir.kernel
def races(data: hl.Array[hl.i32, 1], flag: hl.Array[hl.i32, 1]):
    data[0] = 1
    hl.atomic_store(flag, 0, 1, order="release")


@hetir.kernel
def alone(x: hl.Array[hl.f32, 1]):
    x[hl.global_id(0)] = 1.0
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "sent.py"
    path.write_text(SOURCE)
    return str(path)


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    monkeypatch.setattr(sys, "argv", ["hetir", "fences", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr()
    assert ended.value.code == 0, said.err
    return said.out


def test_it_explains_each_order(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = run(monkeypatch, capsys, f"{file}:message", "--target", "ptx:sm_90")
    assert "hl.atomic_store(flag, 0, 1, order=" in said
    assert "emitted  st.release.gpu.global.b32 [" in said
    assert "if it were relaxed: " in said
    assert "if it reached the workgroup only: " in said
    assert "reads what is overwritten by" in said
    assert "removed: every atomic write after it releases by itself as far (line 13)" in said
    last = said.rstrip().splitlines()[-1]
    assert last.startswith("safe, and nothing weaker is (checked to bounds: 2 workgroups of 2")


def test_json_has_each_weaker_form(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = json.loads(
        run(monkeypatch, capsys, f"{file}:message", "--target", "ptx:sm_90", "--json")
    )
    assert (said["safe"], said["minimal"], said["model"]) == (True, True, "ptx")
    store = next(site for site in said["sites"] if site["kind"] == "store")
    assert store["line"] == 13
    assert [w["to"] for w in store["weaker"]] == ["relaxed device", "release workgroup"]
    # the reader sees the flag and not the data
    assert all("out[0] = 0" in w["breaks_on_target"] for w in store["weaker"])


def test_a_kernel_without_orders_says_so(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = run(monkeypatch, capsys, f"{file}:alone", "--target", "spirv:vulkan")
    assert "safe, and nothing weaker is" in said


def test_a_kernel_that_races_has_no_certificate(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = run(monkeypatch, capsys, f"{file}:races", "--target", "ptx:sm_90")
    assert "not judged by the checker: `races` races" in said
    monkeypatch.setattr(sys, "argv", ["hetir", "fences", f"{file}:races", "--litmus"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert "HET377" in capsys.readouterr().err


def holds(text: str) -> bool:
    test: Litmus = parse(text)
    assert test.claim.quantifier is Quantifier.FORALL
    with Checker(test.program, test.model, guesses=constants(test.claim.condition)) as checker:
        return checker.judge(test.claim).holds


@pytest.mark.parametrize("target", ["ptx:sm_90", "ptx:sm_75", "cpu"])
def test_the_litmus_text_holds_and_fails_once_it_is_weakened(
    file: str, target: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = run(monkeypatch, capsys, f"{file}:message", "--target", target, "--litmus")
    assert holds(text)
    for word in ("release", "acquire"):
        assert word in text
        assert not holds(text.replace(word, "relaxed"))


def test_spirv_is_written_as_assembly_with_what_to_forbid(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = run(monkeypatch, capsys, f"{file}:message", "--target", "spirv:opencl", "--litmus")
    head, _, code = text.partition("; SPIR-V\n")
    assert "; launch: (2, 1, 1) workgroups of (2, 1, 1)\n" in head
    assert "; flag = [0, 0, 0, 0]\n" in head
    forbidden = r"(data_0=42 /\ flag_0=1 /\ data_1=42 /\ out_0=42 /\ out_1=42)"
    assert head.splitlines()[-1] == f"; forbid: ~({forbidden})"
    assert "OpAtomicStore" in code


# ---- certificates --------------------------------------------------------------------------


@hetir.kernel
def counted(x: hl.Array[hl.i32, 1], counts: hl.Array[hl.i32, 1]):
    hl.atomic_add(counts, x[hl.global_id(0)], 1, order="acq_rel")


@hetir.kernel(fences="checked")
def counted_checked(x: hl.Array[hl.i32, 1], counts: hl.Array[hl.i32, 1]):
    hl.atomic_add(counts, x[hl.global_id(0)], 1, order="acq_rel")


@hetir.kernel(fences="checked")
def host_too(x: hl.Array[hl.i32, 1], counts: hl.Array[hl.i32, 1]):
    hl.atomic_add(counts, x[hl.global_id(0)], 1, order="acq_rel", scope="system")


def test_an_order_too_strong_is_flagged_and_checked_removes_it() -> None:
    found = compiler.certificate(counted, "ptx:sm_90")
    assert found.unsafe is None
    assert not found.minimal
    assert compiler.certificate(counted_checked, "ptx:sm_90").minimal
    (strong,) = hetir.compile(counted, target="ptx:sm_90").fences
    assert strong.order == "release"  # nothing follows it that could acquire
    (left,) = hetir.compile(counted_checked, target="ptx:sm_90").fences
    assert left.instruction == ""
    assert left.reason.startswith("made relaxed: checked to bounds")
    assert "red.relaxed.gpu" in hetir.compile(counted_checked, target="ptx:sm_90").text


def test_checked_leaves_system_scope() -> None:
    (kept,) = hetir.compile(host_too, target="ptx:sm_90").fences
    assert (kept.order, kept.scope) == ("acq_rel", "system")


def test_a_kernel_that_races_is_refused() -> None:
    @hetir.kernel
    def races(data: hl.Array[hl.i32, 1]):
        data[0] = 1

    with pytest.raises(CertificateError, match="races"):
        compiler.certificate(races, "ptx:sm_90")


def test_a_kernel_that_the_checker_cannot_read_is_refused() -> None:
    @hetir.kernel
    def summed(x: hl.Array[hl.f32, 1], out: hl.Array[hl.f32, 1]):
        out[hl.global_id(0)] = x[0] + x[1]

    with pytest.raises(HarnessError, match="floats"):
        compiler.certificate(summed, "ptx:sm_90")


def test_weaker_forms_are_one_step_down() -> None:
    found = compiler.certificate(counted, "ptx:sm_90")
    (site,) = (s for s in found.sites if s.op.name == "atomic.rmw")
    assert list(one_step(site.op)) == ["relaxed device", "release workgroup"]
