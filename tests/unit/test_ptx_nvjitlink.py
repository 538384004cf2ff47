"""nvJitLink as the assembler: its figures, its errors, and its place in the order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hetir import library
from hetir.backends.ptx import assembler, compile_kernel, fingerprint, nvjitlink, sass
from tests.unit.ptx_support import CHIPS
from tests.unit.test_ptx_library import NVDISASM, SIGNATURES, library_kernel

nvjitlink.find.cache_clear()
LIBRARY = nvjitlink.find()
needs_library = pytest.mark.skipif(LIBRARY is None, reason="nvidia-nvjitlink is not installed")


def forget() -> None:
    """Look for the tools again."""
    for found in (assembler.find, nvjitlink.find, nvjitlink.version):
        found.cache_clear()


@pytest.fixture
def linking(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """nvJitLink assembles, as the user wishes."""
    monkeypatch.setenv("HETIR_NVJITLINK", str(LIBRARY))
    forget()
    yield
    monkeypatch.undo()
    forget()


@needs_library
@pytest.mark.parametrize("chip", CHIPS)
def test_it_assembles_for_every_generation(linking: None, chip: str) -> None:
    made = compile_kernel(
        library_kernel("transpose", SIGNATURES["transpose"]), target=f"ptx:{chip}"
    )
    assert made.binary is not None
    assert made.binary[:4] == b"\x7fELF"
    assert made.resources.source.startswith("nvJitLink 1")
    assert made.resources.registers is not None
    assert 8 <= made.resources.registers <= 64
    assert made.resources.spill_bytes == 0
    if NVDISASM:
        assert "BAR.SYNC" in sass(made)


@needs_library
def test_its_figures_are_near_those_of_ptxas(
    linking: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their versions may differ, and with them unrolling and registers somewhat."""
    for name, signature in SIGNATURES.items():
        kernel = library_kernel(name, signature)
        linked = compile_kernel(kernel, target="ptx:sm_90").resources
        with monkeypatch.context() as without:
            without.delenv("HETIR_NVJITLINK")
            forget()
            by_ptxas = compile_kernel(kernel, target="ptx:sm_90").resources
        forget()
        assert by_ptxas.source.startswith("ptxas ")
        assert linked.registers is not None
        assert by_ptxas.registers is not None
        assert 2 * abs(linked.registers - by_ptxas.registers) <= by_ptxas.registers


@needs_library
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no PTX\n", "bad input"),
        (
            ".version 7.0\n.target sm_80\n.address_size 64\n.entry k() { nonsense.b32; }\n",
            "nonsens",
        ),
    ],
)
def test_what_it_refuses_is_said(linking: None, text: str, said: str) -> None:
    with pytest.raises(assembler.AssemblerError, match=rf"nvJitLink 1.* refuses .*{said}"):
        assembler.assemble(text, "sm_80")


@needs_library
def test_a_capability_newer_than_the_library_is_refused_before_it_ends_the_process(
    linking: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvjitlink, "release", lambda _: (12, 8))
    assert nvjitlink.link("", "sm_120", [])[1] != "error: it is older than `sm_120`"
    for chip in ("sm_120f", "sm_103", "sm_88", "sm_110a"):
        with pytest.raises(assembler.AssemblerError, match=f"older than `{chip}`"):
            assembler.assemble("", chip)


@needs_library
def test_the_order_of_the_assemblers(linking: None, monkeypatch: pytest.MonkeyPatch) -> None:
    named = fingerprint("ptx:sm_90")
    assert assembler.assembler_version().startswith("nvJitLink")
    monkeypatch.setenv("HETIR_PTXAS", "/there/is/none")  # what is named is used or nothing is
    forget()
    assert assembler.assembler_version() == ""
    assert fingerprint("ptx:sm_90") != named
    monkeypatch.delenv("HETIR_PTXAS")
    monkeypatch.delenv("HETIR_NVJITLINK")
    monkeypatch.setattr(assembler, "find", lambda _: None)  # no ptxas anywhere
    nvjitlink.find.cache_clear()
    assert assembler.assembler_version().startswith("nvJitLink")


def test_a_library_that_is_not_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = library.folder() / "saxpy.py"
    monkeypatch.setenv("HETIR_NVJITLINK", str(wrong))
    forget()
    try:
        with pytest.raises(assembler.AssemblerError, match=r"saxpy\.py` does not load"):
            assembler.assemble("", "sm_90")
    finally:
        monkeypatch.undo()
        forget()
