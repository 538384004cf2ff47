"""NVIDIA's assembler and disassembler: where they are, and what they say of a kernel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from hetir.backends.ptx import nvjitlink
from hetir.diagnostics import CompileError

_TIMEOUT_SECONDS = 300
_VARIABLES = {"ptxas": "HETIR_PTXAS", "nvdisasm": "HETIR_NVDISASM"}
_FOLDERS = ("/usr/local/cuda/bin", "/opt/cuda/bin")
_PACKAGES = (*("nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvdisasm", "triton"),)


class AssemblerError(CompileError):
    """NVIDIA's assembler refuses the PTX, or a tool that was asked for is not here.

    Cause: PTX newer than the assembler, an instruction that the capability lacks, or no CUDA.
    Fix: name another assembler in HETIR_PTXAS or HETIR_NVJITLINK, or install the package
    `nvidia-cuda-nvcc`.
    """

    code = "HET373"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """A cubin, and the figures of the entry that uses most of each."""

    binary: bytes
    registers: int | None
    spill_bytes: int | None
    source: str
    log: str


@cache
def find(tool: str) -> Path | None:
    """A tool by its variable, in the CUDA toolkit, on PATH, or in NVIDIA's or Triton's wheels."""
    return next((place for place in _places(tool) if os.access(place, os.X_OK)), None)


def _places(tool: str) -> Iterator[Path]:
    given = os.environ.get(_VARIABLES[tool])
    if given:
        yield Path(given)
        return  # what the user names is used or nothing is
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(name):
            yield Path(home) / "bin" / tool
    if found := shutil.which(tool):
        yield Path(found)
    for folder in _FOLDERS:
        yield Path(folder) / tool
    for package in _PACKAGES:
        yield from _in_package(package, tool)


def _in_package(package: str, tool: str) -> Iterator[Path]:
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        return
    yield from (Path(str(f.locate())) for f in files if f.name == tool and f.parent.name == "bin")


def identity() -> str:
    """What tells one assembler from another, without starting it; empty where there is none."""
    place = nvjitlink.find() if _assembler() == "nvjitlink" else find("ptxas")
    if place is None:
        return ""
    real = place.resolve()
    state = real.stat()
    return f"{real}:{state.st_size}:{state.st_mtime_ns}"


@cache
def version(tool: str = "ptxas") -> str:
    """The tool's version, such as `ptxas 13.0.88`; empty where there is none."""
    place = find(tool)
    if place is None:
        return ""
    said = _run([str(place), "--version"]).stdout
    match = re.search(r"V(\d+\.\d+\.\d+)", said)
    return f"{tool} {match[1]}" if match else tool


def assemble(text: str, arch: str, *, lines: bool = False) -> Assembled | None:
    """A cubin for `arch`, or None where no assembler is found. Raises AssemblerError."""
    by = _assembler()
    if not by:
        return None
    options = ["--generate-line-info"] if lines else []
    binary, log = _link(text, arch, options) if by == "nvjitlink" else _ptxas(text, arch, options)
    if binary is None:
        raise AssemblerError(
            f"{assembler_version()} refuses the PTX for `{arch}`: {_first_error(log)}",
            hint="name another assembler in HETIR_PTXAS, or compile for another capability",
        )
    return Assembled(
        binary=binary,
        registers=_most(r"Used (\d+) registers", log),
        spill_bytes=_most(r"(\d+) bytes spill stores", log),
        source=assembler_version(),
        log=log,
    )


def _assembler() -> str:
    """Which one assembles: a named one, else ptxas where it is, else nvJitLink."""
    if nvjitlink.is_named() and not os.environ.get(_VARIABLES["ptxas"]):
        return "nvjitlink" if nvjitlink.find() else ""
    if find("ptxas"):
        return "ptxas"
    named = bool(os.environ.get(_VARIABLES["ptxas"]))
    return "nvjitlink" if not named and nvjitlink.find() else ""


def assembler_version() -> str:
    """The name and version of what assembles; empty where nothing does."""
    by = _assembler()
    return nvjitlink.version() if by == "nvjitlink" else version("ptxas") if by else ""


def _ptxas(text: str, arch: str, options: Sequence[str]) -> tuple[bytes | None, str]:
    with tempfile.TemporaryDirectory(prefix="hetir-") as folder:
        out, source = Path(folder) / "kernel.cubin", Path(folder) / "kernel.ptx"
        source.write_text(text, encoding="utf-8")
        # the text states every rounding; nothing is left to be fused
        command = [str(find("ptxas")), "-arch", arch, "-v", "--fmad", "false", *options]
        done = _run([*command, "-o", str(out), str(source)])
        log = (done.stdout + done.stderr).replace(str(source), "kernel.ptx")
        ended = done.returncode == 0 and out.exists()
        return (out.read_bytes() if ended else None), log


def _link(text: str, arch: str, options: Sequence[str]) -> tuple[bytes | None, str]:
    given = [f"-Xptxas={option}" for option in ("--fmad=false", *options)]
    try:
        return nvjitlink.link(text, arch, given)
    except OSError as error:
        raise AssemblerError(f"`{nvjitlink.find()}` does not load: {error}") from None


def disassemble(text: str, binary: bytes | None, arch: str) -> str:
    """The machine code of a cubin, or of PTX that is assembled first, as nvdisasm writes it."""
    if binary is None:
        made = assemble(text, arch)
        if made is None:
            raise _missing("ptxas", "nvidia-cuda-nvcc")
        binary = made.binary
    place = find("nvdisasm")
    if place is None:
        raise _missing("nvdisasm", "nvidia-cuda-nvdisasm")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        done = _run([str(place), "-c", file.name])
    if done.returncode:
        raise AssemblerError(f"nvdisasm fails: {_first_error(done.stderr)}")
    return done.stdout


def _missing(tool: str, package: str) -> AssemblerError:
    return AssemblerError(
        f"`{tool}` is not here", hint=f"`pip install {package}`, or set {_VARIABLES[tool]}"
    )


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AssemblerError(f"`{command[0]}` does not run: {error}") from None


def _first_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next(
        (line for line in lines if "error" in line.lower() or "fatal" in line),
        lines[0] if lines else "",
    )


def _most(pattern: str, log: str) -> int | None:
    found = [int(number) for number in re.findall(pattern, log)]
    return max(found) if found else None
