"""Reading a litmus file: the program, its claim, and the model it is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hetir.memory.claim import Claim, parse_claim
from hetir.memory.litmus import hetir, opencl, ptx, vulkan
from hetir.memory.litmus.table import LitmusError, Sections, split
from hetir.memory.models.base import Model
from hetir.memory.models.ir import IrModel
from hetir.memory.models.opencl import OpenClModel
from hetir.memory.models.ptx import PtxModel
from hetir.memory.models.vulkan import VulkanModel
from hetir.memory.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Litmus:
    """A program, a claim about its final states, and the model that its text is written for."""

    program: Program
    claim: Claim
    model: Model


@dataclass(frozen=True, slots=True)
class _Dialect:
    read: Callable[[Sections], Program]
    model: Callable[[], Model]


_DIALECTS: Mapping[str, _Dialect] = {
    "HETIR": _Dialect(hetir.program, IrModel),
    "PTX": _Dialect(ptx.program, PtxModel),
    "VULKAN": _Dialect(vulkan.program, VulkanModel),
    "OPENCL": _Dialect(opencl.program, OpenClModel),
}


def parse(text: str) -> Litmus:
    """Read litmus text; raise LitmusError with the reason where it cannot be read."""
    sections = split(text)
    dialect = _DIALECTS.get(sections.arch)
    if dialect is None:
        known = ", ".join(_DIALECTS)
        raise LitmusError(f"`{sections.arch}` is not one of {known}")
    program = dialect.read(sections)
    names = frozenset(location.name for location in program.locations)
    try:
        claim = parse_claim(sections.claim, names)
    except ValueError as error:
        raise LitmusError(str(error)) from None
    return Litmus(program=program, claim=claim, model=dialect.model())


def read(path: Path) -> Litmus:
    """Read a litmus file; raise LitmusError where there is none or it cannot be read."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise LitmusError(
            f"cannot read {path}: {error}", hint="give the path of a litmus file"
        ) from None
